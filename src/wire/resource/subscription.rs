//! Event subscriptions as Azure Resource Manager writes them (rule 3.3).

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::credentials::Secrets;
use super::dead_letter_destination;
use super::destination::{self, Before};
use super::fields::{Fields, Origin, one_of};
use super::{InvalidResource, read_stored, render_system_data};
use super::{namespace_subscription, standing};
use crate::base::Timestamp;
use crate::model::destination::Destination;
use crate::model::filter::Filter;
use crate::model::limits::{
    ATTEMPTS_MAX, OWN_WAIT_LONGEST, OWN_WAIT_SHORTEST, OWN_WAITS_MAX, TIME_TO_LIVE_MINUTES_MAX,
};
use crate::model::probation::Health;
use crate::model::registry::TopicEntry;
use crate::model::retry::{DeliveryProfile, RetryPolicy};
use crate::model::subscription::{
    DeadLetterDestination, Disabled, EventSubscription, SubscriptionDefinition,
};
use crate::model::topic::{DeliverySchema, InputSchema};
use crate::wire::bad_input::quoted;
use crate::wire::filter::InvalidFilter;
use crate::wire::{duration, filter, moment};

/// Names of the envelope.
const ENVELOPE: [&str; 5] = ["id", "name", "type", "systemData", "properties"];

/// Names inside `properties`; `paused`, `disabled` and `disableOnGone` are extensions, the last three for
/// answers only.
const PROPERTIES: [&str; 15] = [
    "destination",
    "deliveryWithResourceIdentity",
    "filter",
    "labels",
    "expirationTimeUtc",
    "eventDeliverySchema",
    "retryPolicy",
    "deadLetterDestination",
    "deadLetterWithResourceIdentity",
    "paused",
    "disabled",
    "disableOnGone",
    "topic",
    "provisioningState",
    "everpost",
];

/// Azure's variants for managed identities, and what stands in for them here.
const WITH_IDENTITY: [(&str, &str); 2] = [
    ("deliveryWithResourceIdentity", "destination"),
    ("deadLetterWithResourceIdentity", "deadLetterDestination"),
];

/// What the body of a subscription is judged by, besides itself.
#[derive(Clone, Copy, Debug)]
pub struct SubscriptionContext<'a> {
    /// What the topic's publishers send.
    pub input_schema: &'a InputSchema,
    /// How long a namespace topic keeps events; `None` for a custom topic.
    pub event_retention: Option<Duration>,
    pub now: Timestamp,
    /// What a PUT replaces: the secrets of credentials are taken over where they are not given again.
    pub replaces: Option<&'a SubscriptionDefinition>,
    /// Whether webhooks must be called over TLS (a setting, rule A).
    pub require_https: bool,
}

impl<'a> SubscriptionContext<'a> {
    /// For the subscriptions of this topic.
    pub fn of(topic: &'a TopicEntry, now: Timestamp, require_https: bool) -> Self {
        let definition = &topic.topic.definition;
        Self {
            input_schema: &definition.input_schema,
            event_retention: definition.event_retention,
            now,
            replaces: None,
            require_https,
        }
    }
}

/// Reads the body of a PUT.
///
/// Of Azure's properties everything that changes what is delivered or how is either obeyed or refused.
/// Unknown names are passed over, as Azure does, because later SDKs bring new ones; names that are
/// a slip or two away from a known one are refused, and so are known ones on the wrong level.
pub fn parse_subscription(
    body: &Value,
    context: &SubscriptionContext<'_>,
) -> Result<SubscriptionDefinition, InvalidResource> {
    let body = Fields::root(body, Origin::Request)?;
    if let Some(retention) = context.event_retention {
        return namespace_subscription::parse(&body, None, retention, context);
    }
    body.expect_names(&ENVELOPE)?;
    body.expect_inside("properties", &PROPERTIES)?;
    let properties = body.object("properties")?;
    let expected = "an object with the destination and whatever else is not to be the default";
    let properties = properties.ok_or_else(|| body.missing("properties", expected))?;
    read_and_check(&properties, None, context)
}

/// Applies the body of a PATCH, which is flat (rule 3.1), though not in namespaces: a property that is given replaces its whole
/// old value, `null` restores its default (the destination, which has none, stays), the others stay.
/// What answers never show, the URL and the values of secret headers, is kept where a new destination
/// leaves it out.
pub fn patch_subscription(
    current: &SubscriptionDefinition,
    body: &Value,
    context: &SubscriptionContext<'_>,
) -> Result<SubscriptionDefinition, InvalidResource> {
    let fields = Fields::root(body, Origin::Request)?;
    if let Some(retention) = context.event_retention {
        return namespace_subscription::parse(&fields, Some(current), retention, context);
    }
    if !fields.is_absent("properties") {
        let problem = "it must be left out; an update takes what stands inside directly";
        return Err(fields.invalid("properties", problem));
    }
    read_and_check(&fields, Some(current), context)
}

/// The answer that shows an event subscription: no query of its URL, no secret values (rule 3.3).
/// `everpost` holds what Azure has no place for, as it is at `now`.
pub fn render_subscription(
    entry: &TopicEntry,
    subscription: &EventSubscription,
    health: &Health,
    now: Timestamp,
) -> Value {
    let topic = &*entry.resource_id;
    let name = subscription.name.as_str();
    let definition = &subscription.definition;
    let destination = destination::render(&definition.destination);
    let policy = entry.retry_policy(subscription);
    let (mut properties, kind) = match policy.profile {
        DeliveryProfile::Basic => (
            render_properties(definition, destination, Secrets::Hidden),
            "Microsoft.EventGrid/topics/eventSubscriptions",
        ),
        DeliveryProfile::Namespace => (
            namespace_subscription::render_properties(
                definition,
                &policy,
                destination,
                Secrets::Hidden,
            ),
            "Microsoft.EventGrid/namespaces/topics/eventSubscriptions",
        ),
    };
    properties["topic"] = json!(topic);
    properties["provisioningState"] = json!(subscription.validation.state.name());
    properties["everpost"] = standing::render(subscription, health, now);
    json!({
        "id": format!("{topic}/eventSubscriptions/{name}"),
        "name": name,
        "type": kind,
        "systemData": render_system_data(subscription.created_at, subscription.updated_at),
        "properties": properties,
    })
}

/// The destination as answers show it.
pub fn render_destination(definition: &SubscriptionDefinition) -> Value {
    destination::render(&definition.destination)
}

/// The answer to `getFullUrl`: the URL with its query; `None` where nothing is sent.
pub fn render_full_url(definition: &SubscriptionDefinition) -> Option<Value> {
    let webhook = definition.destination.webhook()?;
    Some(destination::render_full_url(webhook))
}

/// The answer to `getDeliveryAttributes`; secret values are `null` here too.
pub fn render_delivery_attributes(definition: &SubscriptionDefinition) -> Value {
    let mappings = destination::render_mappings(&definition.destination, destination::hidden);
    json!({ "value": mappings })
}

/// The form in which the store keeps a definition, secrets included.
pub fn subscription_to_text(definition: &SubscriptionDefinition) -> String {
    let destination = destination::render_stored(&definition.destination);
    let policy = &definition.retry_policy;
    let mut properties = match policy.profile {
        DeliveryProfile::Basic => render_properties(definition, destination, Secrets::Shown),
        DeliveryProfile::Namespace => namespace_subscription::render_properties(
            definition,
            policy,
            destination,
            Secrets::Shown,
        ),
    };
    if let Some(Disabled::Gone { at }) = definition.disabled {
        properties[GONE_AT] = json!(at.to_string());
    }
    json!({ "properties": properties }).to_string()
}

/// When a 410 disabled the subscription; for the store alone.
const GONE_AT: &str = "goneAt";

/// Reads what [`subscription_to_text`] wrote, whatever the rules for new ones have become.
pub fn subscription_from_text(text: &str) -> Result<SubscriptionDefinition, InvalidResource> {
    let body = read_stored(text)?;
    let properties = Fields::root(&body, Origin::Store)?.object_or_empty("properties")?;
    // The text always names its delivery schema, and when its secrets were made.
    let given = Given {
        current: None,
        replaced: None,
        default_schema: DeliverySchema::EventGridSchema,
        now: Timestamp::default(),
    };
    match namespace_subscription::is_meant(&properties) {
        true => namespace_subscription::read(&properties, &given),
        false => read(&properties, &given),
    }
}

fn read_and_check(
    fields: &Fields,
    current: Option<&SubscriptionDefinition>,
    context: &SubscriptionContext<'_>,
) -> Result<SubscriptionDefinition, InvalidResource> {
    fields.expect_names(&PROPERTIES)?;
    refuse_identities(fields)?;
    let definition = read(fields, &Given::new(current, context))?;
    check(fields, &definition, context)?;
    Ok(definition)
}

fn refuse_identities(fields: &Fields) -> Result<(), InvalidResource> {
    let mut given = WITH_IDENTITY.iter();
    match given.find(|(name, _)| fields.value(name).is_some()) {
        None => Ok(()),
        Some((name, instead)) => Err(fields.invalid(
            name,
            format!("there are no managed identities here; use {instead:?} instead"),
        )),
    }
}

/// What a document is read against.
pub(super) struct Given<'a> {
    /// What an update changes.
    pub(super) current: Option<&'a SubscriptionDefinition>,
    /// What a new definition takes the place of.
    replaced: Option<&'a SubscriptionDefinition>,
    default_schema: DeliverySchema,
    now: Timestamp,
}

impl<'a> Given<'a> {
    pub(super) fn new(
        current: Option<&'a SubscriptionDefinition>,
        context: &SubscriptionContext<'a>,
    ) -> Self {
        Self {
            current,
            replaced: context.replaces,
            default_schema: DeliverySchema::default_for(context.input_schema),
            now: context.now,
        }
    }

    /// Where dead letters went so far.
    pub(super) fn known_dead_letter(&self) -> Option<&'a DeadLetterDestination> {
        let known = self.current.or(self.replaced);
        known.map(|each| &each.dead_letter)
    }

    /// Reads the `destination` of `fields`, which an update may leave out.
    pub(super) fn read_destination(&self, fields: &Fields) -> Result<Destination, InvalidResource> {
        let before = Before {
            updated: self.current.map(|each| &each.destination),
            replaced: self.replaced.map(|each| &each.destination),
        };
        match self.current {
            Some(current) if fields.value("destination").is_none() => {
                Ok(current.destination.clone())
            }
            _ => destination::read(fields, before, self.now),
        }
    }
}

fn read(fields: &Fields, given: &Given<'_>) -> Result<SubscriptionDefinition, InvalidResource> {
    let current = given.current;
    Ok(SubscriptionDefinition {
        destination: given.read_destination(fields)?,
        filter: fields.updated("filter", current.map(|each| &each.filter), |fields| {
            read_filter(fields, "filter", filter::parse)
        })?,
        delivery_schema: fields.updated(
            "eventDeliverySchema",
            current.map(|each| &each.delivery_schema),
            |fields| read_delivery_schema(fields, given.default_schema),
        )?,
        retry_policy: fields.updated(
            "retryPolicy",
            current.map(|each| &each.retry_policy),
            read_retry_policy,
        )?,
        dead_letter: fields.updated(
            "deadLetterDestination",
            current.map(|each| &each.dead_letter),
            |fields| dead_letter_destination::read(fields, given.known_dead_letter()),
        )?,
        labels: fields.updated("labels", current.map(|each| &each.labels), |fields| {
            Ok(fields.texts("labels")?.unwrap_or_default())
        })?,
        expires_at: fields.updated(
            "expirationTimeUtc",
            current.map(|each| &each.expires_at),
            read_expiration,
        )?,
        paused: fields.updated("paused", current.map(|each| &each.paused), |fields| {
            Ok(fields.flag("paused")?.unwrap_or(false))
        })?,
        disabled: fields.updated(
            "disabled",
            current.map(|each| &each.disabled),
            read_disabled,
        )?,
        disable_on_gone: fields.updated(
            "disableOnGone",
            current.map(|each| &each.disable_on_gone),
            |fields| Ok(fields.flag("disableOnGone")?.unwrap_or(false)),
        )?,
    })
}

pub(super) fn read_disabled(fields: &Fields) -> Result<Option<Disabled>, InvalidResource> {
    if !fields.flag("disabled")?.unwrap_or(false) {
        return Ok(None);
    }
    let gone_at = match fields.is_stored() {
        true => fields.text(GONE_AT)?.and_then(|text| text.parse().ok()),
        false => None,
    };
    Ok(Some(match gone_at {
        Some(at) => Disabled::Gone { at },
        None => Disabled::ByOperator,
    }))
}

/// The filter under that name; without one, what `parse` makes of an empty one.
pub(super) fn read_filter(
    fields: &Fields,
    name: &str,
    parse: fn(&Map<String, Value>) -> Result<Filter, InvalidFilter>,
) -> Result<Filter, InvalidResource> {
    let object = fields.object_or_empty(name)?;
    parse(object.raw()).map_err(|invalid| match invalid.path.as_str() {
        "" => fields.invalid(name, invalid.problem),
        path => object.invalid(path, invalid.problem),
    })
}

fn read_delivery_schema(
    fields: &Fields,
    default: DeliverySchema,
) -> Result<DeliverySchema, InvalidResource> {
    let options = DeliverySchema::ALL.map(|schema| (schema.name(), schema));
    let schema = fields.choice("eventDeliverySchema", &options)?;
    Ok(schema.unwrap_or(default))
}

fn read_retry_policy(fields: &Fields) -> Result<RetryPolicy, InvalidResource> {
    let policy = fields.object_or_empty("retryPolicy")?;
    policy.expect_names(&["maxDeliveryAttempts", "eventTimeToLiveInMinutes", SCHEDULE])?;
    let attempts = policy.number("maxDeliveryAttempts", 1..=ATTEMPTS_MAX)?;
    let minutes = policy.number("eventTimeToLiveInMinutes", 1..=TIME_TO_LIVE_MINUTES_MAX)?;
    let default = RetryPolicy::default();
    Ok(RetryPolicy {
        attempts_max: attempts.unwrap_or(default.attempts_max),
        time_to_live: minutes.map_or(default.time_to_live, |minutes| {
            Duration::from_secs(u64::from(minutes) * 60)
        }),
        own_waits: read_own_waits(&policy)?,
        ..default
    })
}

/// Extension: waits of one's own in the place of the published ones.
pub(super) const SCHEDULE: &str = "schedule";

pub(super) fn read_own_waits(policy: &Fields) -> Result<Vec<Duration>, InvalidResource> {
    let Some(texts) = policy.texts(SCHEDULE)? else {
        return Ok(Vec::new());
    };
    if !(1..=OWN_WAITS_MAX).contains(&texts.len()) {
        let problem = format!(
            "it must have 1 to {OWN_WAITS_MAX} waits, but it has {}; leave it out for the published \
             schedule",
            texts.len()
        );
        return Err(policy.invalid(SCHEDULE, problem));
    }
    let read = |(at, text): (usize, &String)| {
        let problem = |problem| policy.invalid(&format!("{SCHEDULE}[{at}]"), problem);
        let wait = duration::parse(text)
            .map_err(|invalid| problem(format!("{} is no wait: {invalid}", quoted(text))))?;
        if (OWN_WAIT_SHORTEST..=OWN_WAIT_LONGEST).contains(&wait) {
            return Ok(wait);
        }
        let (least, most) = (OWN_WAIT_SHORTEST, OWN_WAIT_LONGEST);
        let (least, most) = (duration::format(least), duration::format(most));
        let found = quoted(text);
        Err(problem(format!(
            "it must be from {least} to {most}, but it is {found}"
        )))
    };
    texts.iter().enumerate().map(read).collect()
}

pub(super) fn read_expiration(fields: &Fields) -> Result<Option<Timestamp>, InvalidResource> {
    let Some(text) = fields.text("expirationTimeUtc")? else {
        return Ok(None);
    };
    // By its name the property is UTC, so a missing zone, or time of day, is no riddle.
    let moment = moment::expiry(text).or_else(|| moment::expiry(&format!("{text}T00:00:00Z")));
    moment.filter(is_writable).map(Some).ok_or_else(|| {
        invalid_expiration(
            fields,
            &format!(
                "{} is not a date such as 2026-11-21T06:40:53Z",
                quoted(text)
            ),
        )
    })
}

/// Whether the moment survives being stored: in UTC the last hours of 9999 may be in the year 10000,
/// which RFC 3339 cannot write.
fn is_writable(moment: &Timestamp) -> bool {
    moment
        .to_string()
        .parse()
        .is_ok_and(|read: Timestamp| read == *moment)
}

/// Azure's own words (rule 3.3), then what is wrong this time.
fn invalid_expiration(fields: &Fields, problem: &str) -> InvalidResource {
    let problem = format!("Invalid expiration time: {problem}");
    fields.invalid("expirationTimeUtc", problem)
}

/// The rules for what a client sends now. What an update leaves alone is not judged anew.
fn check(
    fields: &Fields,
    definition: &SubscriptionDefinition,
    context: &SubscriptionContext<'_>,
) -> Result<(), InvalidResource> {
    let given = |name| fields.value(name).is_some();
    if given("destination") {
        destination::check(fields, &definition.destination, context.require_https)?;
    }
    if given("expirationTimeUtc") {
        check_expiration(fields, definition.expires_at, context.now)?;
    }
    if given("eventDeliverySchema") {
        check_schemas(fields, definition.delivery_schema, context.input_schema)?;
    }
    if given("deadLetterDestination") {
        dead_letter_destination::check(fields, &definition.dead_letter, context.require_https)?;
    }
    Ok(())
}

pub(super) fn check_expiration(
    fields: &Fields,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), InvalidResource> {
    match expires_at {
        Some(at) if at <= now => {
            let problem = format!("{at} has passed; it must lie in the future");
            Err(invalid_expiration(fields, &problem))
        }
        Some(_) | None => Ok(()),
    }
}

/// Not every input can be delivered in every schema (rule 2.1).
fn check_schemas(
    fields: &Fields,
    delivery: DeliverySchema,
    input: &InputSchema,
) -> Result<(), InvalidResource> {
    if delivery.can_express(input) {
        return Ok(());
    }
    let possible = DeliverySchema::ALL.into_iter();
    let possible: Vec<&str> = possible
        .filter(|schema| schema.can_express(input))
        .map(DeliverySchema::name)
        .collect();
    let problem = format!(
        "events that are published as {} cannot be delivered as {}; it must be {}",
        input.name(),
        delivery.name(),
        one_of(&possible)
    );
    Err(fields.invalid("eventDeliverySchema", problem))
}

fn render_properties(
    definition: &SubscriptionDefinition,
    destination: Value,
    secrets: Secrets,
) -> Value {
    let retry = &definition.retry_policy;
    let mut properties = json!({
        "filter": filter::render(&definition.filter),
        "labels": definition.labels,
        "expirationTimeUtc": definition.expires_at.map(|at| at.to_string()),
        "eventDeliverySchema": definition.delivery_schema.name(),
        "retryPolicy": {
            "maxDeliveryAttempts": retry.attempts_max,
            "eventTimeToLiveInMinutes": retry.time_to_live.as_secs() / 60,
        },
        "paused": definition.paused,
        "disabled": definition.disabled.is_some(),
        "disableOnGone": definition.disable_on_gone,
    });
    add_own_waits(&mut properties["retryPolicy"], retry);
    properties["destination"] = destination;
    if let Some(dead_letter) = dead_letter_destination::render(&definition.dead_letter, secrets) {
        properties["deadLetterDestination"] = dead_letter;
    }
    properties
}

/// What is left to the published schedule is left out.
pub(super) fn add_own_waits(place: &mut Value, retry: &RetryPolicy) {
    if !retry.own_waits.is_empty() {
        let waits = retry.own_waits.iter().copied().map(duration::format);
        place[SCHEDULE] = waits.collect();
    }
}
