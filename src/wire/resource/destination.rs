//! The `destination` of an event subscription: a webhook with its batches and headers (rule 3.3, 6.4).

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::credentials::{self, Secrets};
use super::fields::{Fields, one_of};
use super::{InvalidResource, TLS_VERSIONS};
use crate::base::Timestamp;
use crate::model::access::Secret;
use crate::model::batch::BatchPolicy;
use crate::model::destination::{
    AttributeValue, DeliveryAttributeMapping, Destination, EndpointUrl, WebHook,
};
use crate::model::limits::{
    BATCH_EVENTS_MAX, BATCH_KILOBYTES_MAX, DELIVERY_ATTRIBUTE_BYTES_MAX, DELIVERY_ATTRIBUTES_MAX,
    ENDPOINT_URL_BYTES_MAX, IN_FLIGHT_OWN_MAX, RESPONSE_DEADLINE_S_MAX,
};
use crate::model::pace::{Rate, ReceiverLimits};
use crate::wire::bad_input::quoted;

const WEB_HOOK: &str = "WebHook";

/// Azure's other types of destinations.
const UNSUPPORTED_TYPES: [&str; 9] = [
    "EventHub",
    "StorageQueue",
    "HybridConnection",
    "ServiceBusQueue",
    "ServiceBusTopic",
    "AzureFunction",
    "MonitorAlert",
    "NamespaceTopic",
    "PartnerDestination",
];

/// Names inside the `properties` of a webhook. `skipValidation`, the three about its pace and the four
/// about credentials are extensions; `endpointBaseUrl` is for answers only.
const PROPERTIES: [&str; 16] = [
    "endpointUrl",
    "endpointBaseUrl",
    "maxEventsPerBatch",
    "preferredBatchSizeInKilobytes",
    "deliveryAttributeMappings",
    "skipValidation",
    DEADLINE,
    IN_FLIGHT,
    RATE,
    credentials::AUTHENTICATION,
    credentials::CERTIFICATE,
    credentials::AUTHORITIES,
    credentials::SIGNING,
    "azureActiveDirectoryTenantId",
    "azureActiveDirectoryApplicationIdOrUri",
    "minimumTlsVersionAllowed",
];

/// Settings that would change how the webhook is called, so that to pass over them would mislead.
const UNSUPPORTED_PROPERTIES: [&str; 2] = [
    "azureActiveDirectoryTenantId",
    "azureActiveDirectoryApplicationIdOrUri",
];

/// Headers of one's own may not start like this (rule 6.4).
const RESERVED_PREFIX: &str = "aeg-";

/// Headers that belong to the connection or the body (rule 6.4), and their relatives, without which
/// HTTP/2 would refuse the whole request.
const FORBIDDEN_HEADERS: [&str; 10] = [
    "Host",
    "Content-Length",
    "Content-Type",
    "Connection",
    "Transfer-Encoding",
    "Keep-Alive",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Upgrade",
];

const ATTRIBUTES: &str = "deliveryAttributeMappings";

/// Extensions: how fast the webhook is called.
const DEADLINE: &str = "responseDeadlineInSeconds";
const IN_FLIGHT: &str = "maxRequestsInFlight";
const RATE: &str = "maxRequestsPerSecond";

/// What was there before.
#[derive(Clone, Copy, Default)]
pub(super) struct Before<'a> {
    /// What an update changes: of it is kept what answers never show, where it is left out.
    pub(super) updated: Option<&'a Destination>,
    /// What a new definition replaces: of it only the secrets of credentials are kept.
    pub(super) replaced: Option<&'a Destination>,
}

/// Reads `destination`.
pub(super) fn read(
    fields: &Fields,
    before: Before<'_>,
    now: Timestamp,
) -> Result<Destination, InvalidResource> {
    let destination = fields.object("destination")?;
    let destination =
        destination.ok_or_else(|| fields.missing("destination", "where the events are to go"))?;
    destination.expect_names(&["endpointType", "properties"])?;
    destination.expect_inside("properties", &PROPERTIES)?;
    expect_web_hook(&destination)?;
    let properties = destination.object_or_empty("properties")?;
    properties.expect_names(&PROPERTIES)?;
    let webhook = read_web_hook(&properties, before, now)?;
    Ok(Destination::WebHook(webhook))
}

fn expect_web_hook(destination: &Fields) -> Result<(), InvalidResource> {
    let expected = "\"WebHook\"";
    let found = destination.required_text("endpointType", expected)?;
    if found.eq_ignore_ascii_case(WEB_HOOK) {
        return Ok(());
    }
    let mut elsewhere = UNSUPPORTED_TYPES.iter();
    let problem = match elsewhere.find(|known| known.eq_ignore_ascii_case(found)) {
        Some(known) => format!("{known:?} is not supported here, only {expected}"),
        None => format!("it must be {expected}, but it is {}", quoted(found)),
    };
    Err(destination.invalid("endpointType", problem))
}

fn read_web_hook(
    properties: &Fields,
    before: Before<'_>,
    now: Timestamp,
) -> Result<WebHook, InvalidResource> {
    let current = before.updated.and_then(Destination::webhook);
    let known = current.or(before.replaced.and_then(Destination::webhook));
    let kept = current.map_or(&[][..], |webhook| &webhook.attribute_mappings);
    properties.choice("minimumTlsVersionAllowed", &TLS_VERSIONS)?;
    Ok(WebHook {
        endpoint_url: read_url(properties, current.map(|webhook| &webhook.endpoint_url))?,
        batch: BatchPolicy {
            max_events: properties.number("maxEventsPerBatch", 1..=BATCH_EVENTS_MAX)?,
            preferred_kilobytes: properties
                .number("preferredBatchSizeInKilobytes", 1..=BATCH_KILOBYTES_MAX)?,
        },
        pace: read_pace(properties)?,
        attribute_mappings: properties
            .objects(ATTRIBUTES)?
            .unwrap_or_default()
            .iter()
            .map(|mapping| read_mapping(mapping, kept))
            .collect::<Result<_, _>>()?,
        credentials: credentials::read(properties, known.map(|each| &each.credentials), now)?,
        skip_validation: properties.flag("skipValidation")?.unwrap_or(false),
    })
}

fn read_pace(properties: &Fields) -> Result<ReceiverLimits, InvalidResource> {
    let seconds = properties.number(DEADLINE, 1..=RESPONSE_DEADLINE_S_MAX)?;
    let rate = properties.thousandths(RATE, Rate::BOUNDS)?;
    Ok(ReceiverLimits {
        response_deadline: seconds.map(|seconds| Duration::from_secs(seconds.into())),
        in_flight_max: properties.number(IN_FLIGHT, 1..=IN_FLIGHT_OWN_MAX)?,
        rate: rate.and_then(Rate::per_1000_s),
    })
}

fn read_url(
    properties: &Fields,
    current: Option<&EndpointUrl>,
) -> Result<EndpointUrl, InvalidResource> {
    let text = properties.text("endpointUrl")?;
    if let (None, Some(current)) = (text, current) {
        return Ok(current.clone());
    }
    match text.unwrap_or_default() {
        "" => Err(invalid_url(properties, "it is missing")),
        text => EndpointUrl::parse(text)
            .map_err(|problem| invalid_url(properties, &problem.to_string())),
    }
}

/// Azure's own words for a URL that it does not take (rule 3.3), before what is wrong this time.
pub const INVALID_URL: &str =
    "Supplied URL is invalid. It cannot be null or empty and should be a proper HTTPS URL: ";

/// The URL itself may hold a secret.
fn invalid_url(properties: &Fields, problem: &str) -> InvalidResource {
    properties.invalid("endpointUrl", format!("{INVALID_URL}{problem}"))
}

fn read_mapping(
    mapping: &Fields,
    kept: &[DeliveryAttributeMapping],
) -> Result<DeliveryAttributeMapping, InvalidResource> {
    const PROPERTIES: [&str; 3] = ["value", "isSecret", "sourceField"];
    mapping.expect_names(&["name", "type", "properties"])?;
    mapping.expect_inside("properties", &PROPERTIES)?;
    let properties = mapping.object_or_empty("properties")?;
    properties.expect_names(&PROPERTIES)?;
    let name = mapping.required_text("name", "the name of a header")?;
    let read = mapping.choice("type", &ATTRIBUTE_TYPES)?;
    let read = read.ok_or_else(|| mapping.missing("type", "\"Static\" or \"Dynamic\""))?;
    Ok(DeliveryAttributeMapping {
        name: name.to_owned(),
        value: read(&properties, kept_value(kept, name))?,
    })
}

type ReadValue = fn(&Fields, Option<&Secret>) -> Result<AttributeValue, InvalidResource>;

const ATTRIBUTE_TYPES: [(&str, ReadValue); 2] =
    [("Static", read_static), ("Dynamic", read_dynamic)];

/// The secret value that the header `name` has so far.
fn kept_value<'a>(kept: &'a [DeliveryAttributeMapping], name: &str) -> Option<&'a Secret> {
    let mut kept = kept.iter();
    match &kept
        .find(|each| each.name.eq_ignore_ascii_case(name))?
        .value
    {
        AttributeValue::Static { value, is_secret } => is_secret.then_some(value),
        AttributeValue::Dynamic { .. } => None,
    }
}

fn read_static(
    properties: &Fields,
    kept: Option<&Secret>,
) -> Result<AttributeValue, InvalidResource> {
    let is_secret = properties.flag("isSecret")?;
    // A kept secret stays one; to show it would take knowing it.
    if let (None, Some(value)) = (properties.text("value")?, kept)
        && is_secret.unwrap_or(true)
    {
        return Ok(AttributeValue::Static {
            value: value.clone(),
            is_secret: true,
        });
    }
    let value = properties.required_text("value", "the header's value")?;
    Ok(AttributeValue::Static {
        value: Secret::new(value),
        is_secret: is_secret.unwrap_or(false),
    })
}

fn read_dynamic(
    properties: &Fields,
    _: Option<&Secret>,
) -> Result<AttributeValue, InvalidResource> {
    let expected = "a path into the event such as \"data.orderId\"";
    let source_field = properties.required_text("sourceField", expected)?;
    Ok(AttributeValue::Dynamic {
        source_field: source_field.to_owned(),
    })
}

/// The rules for new destinations that the store's own do not need to obey.
pub(super) fn check(
    fields: &Fields,
    destination: &Destination,
    require_https: bool,
) -> Result<(), InvalidResource> {
    let Destination::WebHook(webhook) = destination else {
        return Ok(());
    };
    let properties = fields
        .object_or_empty("destination")?
        .object_or_empty("properties")?;
    let unsupported = |name: &&&str| properties.value(name).is_some();
    if let Some(name) = UNSUPPORTED_PROPERTIES.iter().find(unsupported) {
        let problem = "tokens of Microsoft Entra are not supported here; leave it out, and send a \
                       secret in a header of deliveryAttributeMappings instead";
        return Err(properties.invalid(name, problem));
    }
    check_url(&properties, &webhook.endpoint_url, require_https)?;
    check_headers(&properties, &webhook.attribute_mappings)?;
    credentials::check(&properties, webhook, require_https)
}

fn check_url(
    properties: &Fields,
    url: &EndpointUrl,
    require_https: bool,
) -> Result<(), InvalidResource> {
    if require_https && !url.is_https() {
        return Err(invalid_url(properties, "it does not start with https"));
    }
    if url.reveal().as_str().len() > ENDPOINT_URL_BYTES_MAX {
        let problem = format!("it is longer than {ENDPOINT_URL_BYTES_MAX} bytes");
        return Err(invalid_url(properties, &problem));
    }
    Ok(())
}

fn check_headers(
    properties: &Fields,
    mappings: &[DeliveryAttributeMapping],
) -> Result<(), InvalidResource> {
    if mappings.len() > DELIVERY_ATTRIBUTES_MAX {
        let problem = format!(
            "at most {DELIVERY_ATTRIBUTES_MAX} headers are allowed, but there are {}",
            mappings.len()
        );
        return Err(properties.invalid(ATTRIBUTES, problem));
    }
    for (at, mapping) in mappings.iter().enumerate() {
        let place = |name| format!("{ATTRIBUTES}[{at}].{name}");
        if let Some(problem) = name_problem(&mapping.name, &mappings[..at]) {
            return Err(properties.invalid(&place("name"), problem));
        }
        if let Some(problem) = value_problem(&mapping.value) {
            return Err(properties.invalid(&place("properties.value"), problem));
        }
    }
    Ok(())
}

fn name_problem(name: &str, before: &[DeliveryAttributeMapping]) -> Option<String> {
    let shown = quoted(name);
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        let allowed = "letters, digits and !#$%&'*+-.^_`|~";
        return Some(format!(
            "{shown} is not the name of a header; only {allowed} are allowed"
        ));
    }
    if name.to_ascii_lowercase().starts_with(RESERVED_PREFIX) {
        return Some(format!(
            "{shown} is reserved, as are all names that start with {RESERVED_PREFIX:?}"
        ));
    }
    if FORBIDDEN_HEADERS
        .iter()
        .any(|forbidden| forbidden.eq_ignore_ascii_case(name))
    {
        return Some(format!(
            "{shown} cannot be set, and neither can any other of {}",
            one_of(&FORBIDDEN_HEADERS)
        ));
    }
    before
        .iter()
        .any(|each| each.name.eq_ignore_ascii_case(name))
        .then(|| format!("{shown} is there twice; a header can have one value only"))
}

/// Never shows the value: it may be a secret.
fn value_problem(value: &AttributeValue) -> Option<String> {
    let AttributeValue::Static { value, .. } = value else {
        return None;
    };
    let value = value.reveal();
    if value.len() > DELIVERY_ATTRIBUTE_BYTES_MAX {
        return Some(format!(
            "it must have at most {DELIVERY_ATTRIBUTE_BYTES_MAX} bytes, but it has {}",
            value.len()
        ));
    }
    HeaderValue::from_str(value)
        .is_err()
        .then(|| "control characters such as line breaks are not allowed".to_owned())
}

/// `destination` in answers: without the URL's query and without secret values (rule 3.3), with the
/// batch that is in effect; `null` for none.
pub(super) fn render(destination: &Destination) -> Value {
    let Destination::WebHook(webhook) = destination else {
        return Value::Null;
    };
    let batch = &webhook.batch;
    let kilobytes = match batch.is_on() {
        true => batch.bytes_preferred() / 1_024,
        // Azure's default for requests of one event each, whose size is what it is.
        false => batch.preferred_kilobytes.unwrap_or(64) as usize,
    };
    let mut properties = json!({
        "endpointBaseUrl": webhook.endpoint_url.base(),
        "maxEventsPerBatch": batch.events_max(),
        "preferredBatchSizeInKilobytes": kilobytes,
        ATTRIBUTES: render_mappings(destination, hidden),
        "skipValidation": webhook.skip_validation,
    });
    add_pace(&mut properties, &webhook.pace);
    credentials::add(&mut properties, &webhook.credentials, Secrets::Hidden);
    json!({ "endpointType": WEB_HOOK, "properties": properties })
}

/// The URL with its query.
pub(super) fn render_full_url(webhook: &WebHook) -> Value {
    json!({ "endpointUrl": webhook.endpoint_url.reveal().as_str() })
}

/// `destination` as the store keeps it: everything, as it was given; `null` for none.
pub(super) fn render_stored(destination: &Destination) -> Value {
    let Destination::WebHook(webhook) = destination else {
        return Value::Null;
    };
    let mut properties = json!({
        "endpointUrl": webhook.endpoint_url.reveal().as_str(),
        "maxEventsPerBatch": webhook.batch.max_events,
        "preferredBatchSizeInKilobytes": webhook.batch.preferred_kilobytes,
        ATTRIBUTES: render_mappings(destination, revealed),
        "skipValidation": webhook.skip_validation,
    });
    add_pace(&mut properties, &webhook.pace);
    credentials::add(&mut properties, &webhook.credentials, Secrets::Shown);
    json!({ "endpointType": WEB_HOOK, "properties": properties })
}

/// What is left to the settings is left out.
fn add_pace(properties: &mut Value, pace: &ReceiverLimits) {
    let seconds = pace.response_deadline.map(|each| json!(each.as_secs()));
    let in_flight = pace.in_flight_max.map(|each| json!(each));
    let rate = pace.rate.map(render_rate);
    for (name, value) in [(DEADLINE, seconds), (IN_FLIGHT, in_flight), (RATE, rate)] {
        if let Some(value) = value {
            properties[name] = value;
        }
    }
}

/// `2`, `2.5`: requests per second.
pub(super) fn render_rate(rate: Rate) -> Value {
    let thousandths = rate.in_1000_s();
    match thousandths % 1_000 {
        0 => json!(thousandths / 1_000),
        _ => json!(f64::from(thousandths) / 1_000.0),
    }
}

/// The headers, their values by `show`.
pub(super) fn render_mappings(
    destination: &Destination,
    show: fn(&Secret, bool) -> Option<&str>,
) -> Vec<Value> {
    let render = |mapping: &DeliveryAttributeMapping| match &mapping.value {
        AttributeValue::Static { value, is_secret } => json!({
            "name": mapping.name,
            "type": "Static",
            "properties": { "value": show(value, *is_secret), "isSecret": is_secret },
        }),
        AttributeValue::Dynamic { source_field } => json!({
            "name": mapping.name,
            "type": "Dynamic",
            "properties": { "sourceField": source_field },
        }),
    };
    destination
        .attribute_mappings()
        .iter()
        .map(render)
        .collect()
}

/// For answers: no secrets.
pub(super) fn hidden(value: &Secret, is_secret: bool) -> Option<&str> {
    (!is_secret).then(|| value.reveal())
}

/// For the store.
fn revealed(value: &Secret, _is_secret: bool) -> Option<&str> {
    Some(value.reveal())
}
