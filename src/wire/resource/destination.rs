//! The `destination` of an event subscription: a webhook with its batches and headers (rule 3.3, 6.4).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::envelope::{TlsVersion, add_properties};
use super::mirror::documents;
use super::rules::Judged;
use super::secret::is_hidden;
use crate::model::access::Secret;
use crate::model::batch::BatchPolicy;
use crate::model::credentials::Credentials;
use crate::model::destination::{
    AttributeValue, DeliveryAttributeMapping, Destination, EndpointUrl, EntityId, PullQueue,
    ServiceBusEntity, WebHook,
};
use crate::model::limits::{
    BATCH_EVENTS_MAX, BATCH_KILOBYTES_MAX, DELIVERY_ATTRIBUTE_BYTES_MAX, DELIVERY_ATTRIBUTES_MAX,
    ENDPOINT_URL_BYTES_MAX, IN_FLIGHT_OWN_MAX, RESPONSE_DEADLINE_S_MAX,
};
use crate::model::pace::{Rate, ReceiverLimits};
use crate::wire::bad_input::quoted;

documents! {
    AttributeValue => AttributeValueDocument;
    BatchPolicy => BatchDocument;
    DeliveryAttributeMapping => DeliveryAttributeMappingDocument;
    Destination => DestinationDocument;
    ReceiverLimits => ReceiverLimitsDocument;
    ServiceBusEntity => ServiceBusEntityDocument;
    WebHook => WebHookDocument;
}

/// Where events go.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Destination", tag = "endpointType", content = "properties")]
#[schemars(rename = "Destination", extend("x-unsupported" = [
    "EventHub", "StorageQueue", "HybridConnection", "AzureFunction", "MonitorAlert",
    "NamespaceTopic", "PartnerDestination",
]))]
#[expect(
    clippy::large_enum_variant,
    reason = "it is never made, and mirrors one that is large"
)]
enum DestinationDocument {
    WebHook(WebHook),
    /// Each event becomes a message, in the change of the database that settles its delivery.
    ServiceBusQueue(ServiceBusEntity),
    ServiceBusTopic(ServiceBusEntity),
    #[serde(skip)] // it is written in another place
    Queue(PullQueue),
}

/// A queue or a topic of this appliance.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ServiceBusEntity", rename_all = "camelCase")]
#[schemars(rename = "ServiceBusEntity", extend("x-rule" = "serviceBusEntity"))]
struct ServiceBusEntityDocument {
    /// The resource id of a queue or a topic of this appliance, as Azure writes it, or its name.
    #[serde(rename = "resourceId")]
    #[schemars(extend("x-expected" = "the resource id or the name of a queue or a topic"))]
    entity: EntityId,
    /// Application properties of the messages; `MessageId`, `SessionId` and the other names that Service Bus has
    /// set what they name.
    #[serde(rename = "deliveryAttributeMappings", default)]
    #[schemars(length(max = DELIVERY_ATTRIBUTES_MAX), extend("x-noun" = "headers", "x-key" = "name"))]
    attribute_mappings: Vec<DeliveryAttributeMapping>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "WebHook", rename_all = "camelCase")]
#[schemars(rename = "WebHook", transform = add_properties::<Besides>)]
#[schemars(extend("x-rule" = "webHook", "x-rejected" = {
    // They would change how the webhook is called, so that to pass over them would mislead.
    "azureActiveDirectoryTenantId": NO_ENTRA,
    "azureActiveDirectoryApplicationIdOrUri": NO_ENTRA,
}))]
struct WebHookDocument {
    /// May be left out where there is one already.
    #[serde(skip_serializing_if = "is_hidden")]
    #[schemars(with = "Option<EndpointUrl>", extend("writeOnly" = true, "x-prefix" = INVALID_URL))]
    #[schemars(extend("x-maxBytes" = ENDPOINT_URL_BYTES_MAX))]
    endpoint_url: EndpointUrl,
    #[serde(flatten)]
    batch: BatchPolicy,
    #[serde(flatten)]
    pace: ReceiverLimits,
    /// Custom headers.
    #[serde(rename = "deliveryAttributeMappings", default)]
    #[schemars(length(max = DELIVERY_ATTRIBUTES_MAX), extend("x-noun" = "headers", "x-key" = "name"))]
    attribute_mappings: Vec<DeliveryAttributeMapping>,
    #[serde(flatten)]
    credentials: Credentials,
    /// Leaves the handshake out.
    #[serde(default)]
    skip_validation: bool,
}

/// Azure's own words for a URL that it does not take (rule 3.3), before what is wrong this time.
pub const INVALID_URL: &str =
    "Supplied URL is invalid. It cannot be null or empty and should be a proper HTTPS URL: ";

const NO_ENTRA: &str = "tokens of Microsoft Entra are not supported here; leave it out, and send a \
                        secret in a header of deliveryAttributeMappings instead";

/// Further properties of a webhook in requests or answers.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "for the schema alone")]
struct Besides {
    /// Without effect; requests never go below TLS 1.2.
    #[schemars(extend("x-inert" = true))]
    minimum_tls_version_allowed: Option<TlsVersion>,
    /// The URL without its query.
    #[schemars(extend("format" = "uri", "readOnly" = true))]
    endpoint_base_url: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "BatchPolicy")]
struct BatchDocument {
    #[serde(rename = "maxEventsPerBatch")]
    #[schemars(range(min = 1, max = BATCH_EVENTS_MAX), extend("default" = 1))]
    max_events: Option<u32>,
    #[serde(rename = "preferredBatchSizeInKilobytes")]
    #[schemars(range(min = 1, max = BATCH_KILOBYTES_MAX), extend("default" = KILOBYTES_DEFAULT))]
    preferred_kilobytes: Option<u32>,
    /// After an answer of 400 or 413 the events of a batch are delivered again in halves, down to single ones.
    #[serde(rename = "splitBatchOnError", default)]
    split_on_error: bool,
}

/// Azure's default for requests of one event each, whose size is what it is.
const KILOBYTES_DEFAULT: u32 = 64;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ReceiverLimits")]
struct ReceiverLimitsDocument {
    /// How long the webhook has to answer.
    #[serde(rename = "responseDeadlineInSeconds", default, with = "whole_seconds")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u32>", range(min = 1, max = RESPONSE_DEADLINE_S_MAX))]
    response_deadline: Option<Duration>,
    /// Requests in flight at once.
    #[serde(
        rename = "maxRequestsInFlight",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = IN_FLIGHT_OWN_MAX))]
    in_flight_max: Option<u32>,
    /// Requests started per second.
    #[serde(
        rename = "maxRequestsPerSecond",
        skip_serializing_if = "Option::is_none"
    )]
    rate: Option<Rate>,
}

/// A duration in seconds that may be left out.
mod whole_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration
            .map(|duration| duration.as_secs())
            .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::deserialize(deserializer)?.map(Duration::from_secs))
    }
}

/// A header of every delivery: a fixed value, or one out of the event.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "DeliveryAttributeMapping")]
#[schemars(rename = "DeliveryAttributeMapping", extend("x-rule" = "header"))]
struct DeliveryAttributeMappingDocument {
    #[schemars(length(min = 1), extend("x-expected" = "the name of a header", "x-check" = "headerName"))]
    name: String,
    #[serde(flatten)]
    value: AttributeValue,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "AttributeValue", tag = "type", content = "properties")]
#[serde(rename_all_fields = "camelCase")]
enum AttributeValueDocument {
    Static {
        /// Null in answers where it is secret.
        #[schemars(with = "Option<String>", length(min = 1))]
        #[schemars(extend("x-expected" = HEADER_VALUE, "x-check" = "headerValue"))]
        #[schemars(extend("x-maxBytes" = DELIVERY_ATTRIBUTE_BYTES_MAX))]
        value: Secret,
        #[serde(default)]
        is_secret: bool,
    },
    Dynamic {
        /// A path into the event.
        #[schemars(length(min = 1), example = "data.orderId")]
        #[schemars(extend("x-expected" = "a path into the event such as \"data.orderId\""))]
        source_field: String,
    },
}

const HEADER_VALUE: &str = "the header's value";

/// Changes a destination to what answers show of it: the URL without its query, and the values of headers that
/// are no secrets (rule 3.3).
pub(super) fn show(destination: &Destination, shown: &mut Value) {
    if let Some(headers) = shown.pointer_mut("/properties/deliveryAttributeMappings") {
        *headers = shown_headers(destination);
    }
    if let Some(webhook) = destination.webhook() {
        shown["properties"]["endpointBaseUrl"] = json!(webhook.endpoint_url.base());
    }
}

/// Adds the sizes of batches that are in effect.
pub(super) fn show_batch(destination: &Destination, shown: &mut Value) {
    let Destination::WebHook(WebHook { batch, .. }) = destination else {
        return;
    };
    let properties = &mut shown["properties"];
    properties["maxEventsPerBatch"] = json!(batch.events_max());
    properties["preferredBatchSizeInKilobytes"] = if batch.is_on() {
        json!(batch.bytes_preferred() / 1_024)
    } else {
        json!(batch.preferred_kilobytes.unwrap_or(KILOBYTES_DEFAULT))
    };
}

/// The headers of a destination as answers show them.
pub(super) fn shown_headers(destination: &Destination) -> Value {
    let show = |mapping: &DeliveryAttributeMapping| {
        let mut shown = json!(mapping);
        if let AttributeValue::Static {
            value,
            is_secret: false,
        } = &mapping.value
        {
            shown["properties"]["value"] = json!(value.reveal());
        }
        shown
    };
    destination.attribute_mappings().iter().map(show).collect()
}

pub(super) fn judge_webhook(it: &mut Judged<'_>) {
    const URL: &str = "endpointUrl";
    if !it.has(URL) {
        it.keep(URL);
    }
    // Nothing that does not know of them should end them.
    if !it.has("signingSecrets") {
        it.keep("signingSecrets");
    }
    let is_http = it.text(URL).is_some_and(|url| url.starts_with("http:"));
    if !it.has(URL) {
        it.fault(URL, format!("{INVALID_URL}it is missing"));
    }
    for name in ["clientCertificate", "certificateAuthorities"] {
        if is_http && it.has(name) {
            let problem =
                "it has no meaning for a webhook that is called by http; give an https URL";
            it.fault(name, problem);
        }
    }
    judge_headers(it);
}

/// Judges the headers of webhooks, and those of Service Bus, where headers are properties.
pub(super) fn judge_headers(it: &mut Judged<'_>) {
    const HEADERS: &str = "deliveryAttributeMappings";
    let names = it
        .list(HEADERS)
        .iter()
        .map(|mapping| mapping["name"].as_str().unwrap_or_default());
    let names: Vec<String> = names.map(str::to_ascii_lowercase).collect();
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            let problem = format!(
                "{} is there twice; a header can have one value only",
                quoted(name)
            );
            it.fault(format!("{HEADERS}[{at}].name"), problem);
        }
    }
    if it.has("authentication") && names.iter().any(|name| name == "authorization") {
        let problem = "deliveryAttributeMappings has a header Authorization already; leave one of the \
                       two out";
        it.fault("authentication", problem);
    }
}

/// Judges a header. One that replaces or updates another may leave out a secret value. The value then stays secret: to
/// show it, a request has to give it.
pub(super) fn judge_header(it: &mut Judged<'_>) {
    if it.text("type") != Some("Static") {
        return;
    }
    let known = it
        .before
        .map(|before| &before["properties"])
        .filter(|known| known["isSecret"] == true);
    let Some(Value::Object(properties)) = it.object.get_mut("properties") else {
        return;
    };
    if properties.get("value").is_none_or(Value::is_null) {
        match known.filter(|_| properties.get("isSecret") != Some(&json!(false))) {
            Some(known) => *properties = known.as_object().cloned().unwrap_or_default(),
            None => it.missing("properties.value", HEADER_VALUE),
        }
    }
}
