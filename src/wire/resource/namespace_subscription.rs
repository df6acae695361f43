//! Event subscriptions of namespace topics as Azure Resource Manager writes them
//! (rule N1.1): the same as others, in another shape.

use std::time::Duration;

use serde_json::{Value, json};

use super::credentials::Secrets;
use super::dead_letter_destination;
use super::fields::Fields;
use super::subscription::{self, Given, SubscriptionContext};
use super::{InvalidResource, destination};
use crate::model::destination::{DeliveryMode, Destination, PullQueue};
use crate::model::limits::{
    DEAD_LETTER_RETRY_DAYS_MAX, NAMESPACE_ATTEMPTS_MAX, NAMESPACE_TIME_TO_LIVE_MAX, RECEIVE_LOCK,
    RECEIVE_LOCK_SECONDS,
};
use crate::model::retry::{DeliveryProfile, RetryPolicy};
use crate::model::subscription::{DeadLetterDestination, SubscriptionDefinition};
use crate::model::topic::DeliverySchema;
use crate::wire::bad_input::quoted;
use crate::wire::{duration, filter};

/// Names of the envelope.
const ENVELOPE: [&str; 5] = ["id", "name", "type", "systemData", "properties"];

/// Names inside `properties`; `labels` to `disableOnGone` are extensions, the last three for answers
/// only.
const PROPERTIES: [&str; 11] = [
    DELIVERY,
    FILTERS,
    "eventDeliverySchema",
    "expirationTimeUtc",
    "labels",
    "paused",
    "disabled",
    "disableOnGone",
    "topic",
    "provisioningState",
    "everpost",
];

const DELIVERY: &str = "deliveryConfiguration";
const FILTERS: &str = "filtersConfiguration";
const MODE: &str = "deliveryMode";
const PUSH: &str = "push";
const QUEUE: &str = "queue";
const LOCK: &str = "receiveLockDurationInSeconds";
const DEAD_LETTER: &str = "deadLetterDestinationWithResourceIdentity";
const TIME_TO_LIVE: &str = "eventTimeToLive";

/// The shortest time to live, and the step in which it is told.
const MINUTE: Duration = Duration::from_secs(60);

/// Reads the body of a PUT, or applies that of a PATCH to what is there.
pub(super) fn parse(
    body: &Fields,
    current: Option<&SubscriptionDefinition>,
    retention: Duration,
    context: &SubscriptionContext<'_>,
) -> Result<SubscriptionDefinition, InvalidResource> {
    body.expect_names(&ENVELOPE)?;
    body.expect_inside("properties", &PROPERTIES)?;
    let properties = body.object_or_empty("properties")?;
    properties.expect_names(&PROPERTIES)?;
    let definition = read(&properties, &Given::new(current, context))?;
    check(&properties, &definition, retention, context)?;
    Ok(definition)
}

/// Whether stored properties are those of a namespace topic's subscription.
pub(super) fn is_meant(properties: &Fields) -> bool {
    !properties.is_absent(DELIVERY)
}

pub(super) fn read(
    properties: &Fields,
    given: &Given<'_>,
) -> Result<SubscriptionDefinition, InvalidResource> {
    let current = given.current;
    let schemas = [(
        DeliverySchema::CloudEventSchemaV1_0.name(),
        DeliverySchema::CloudEventSchemaV1_0,
    )];
    let schema = properties.choice("eventDeliverySchema", &schemas)?;
    let delivery = read_delivery(properties, given)?;
    Ok(SubscriptionDefinition {
        destination: delivery.destination,
        retry_policy: delivery.retry_policy,
        dead_letter: delivery.dead_letter,
        filter: properties.updated(FILTERS, current.map(|each| &each.filter), |properties| {
            subscription::read_filter(properties, FILTERS, filter::parse_configuration)
        })?,
        delivery_schema: schema.unwrap_or(DeliverySchema::CloudEventSchemaV1_0),
        labels: properties.updated("labels", current.map(|each| &each.labels), |properties| {
            Ok(properties.texts("labels")?.unwrap_or_default())
        })?,
        expires_at: properties.updated(
            "expirationTimeUtc",
            current.map(|each| &each.expires_at),
            subscription::read_expiration,
        )?,
        paused: properties.updated("paused", current.map(|each| &each.paused), |properties| {
            Ok(properties.flag("paused")?.unwrap_or(false))
        })?,
        disabled: properties.updated(
            "disabled",
            current.map(|each| &each.disabled),
            subscription::read_disabled,
        )?,
        disable_on_gone: properties.updated(
            "disableOnGone",
            current.map(|each| &each.disable_on_gone),
            |properties| Ok(properties.flag("disableOnGone")?.unwrap_or(false)),
        )?,
    })
}

/// What `deliveryConfiguration` says.
struct Delivery {
    destination: Destination,
    retry_policy: RetryPolicy,
    dead_letter: DeadLetterDestination,
}

/// Of an update, what it does not mention stays, down to the single properties of `push`: the URL is
/// never shown, so nobody could send it again.
fn read_delivery(properties: &Fields, given: &Given<'_>) -> Result<Delivery, InvalidResource> {
    let current = given.current;
    let expected =
        "an object with the deliveryMode \"Push\" and the object push, or \"Queue\" and queue";
    if current.is_none() && properties.value(DELIVERY).is_none() {
        return Err(properties.missing(DELIVERY, expected));
    }
    let delivery = properties.object_or_empty(DELIVERY)?;
    delivery.expect_names(&[MODE, PUSH, QUEUE])?;
    let mode = read_mode(&delivery, current)?;
    let inner = delivery.object_or_empty(object_of(mode))?;
    // What was pushed and is to be pulled, or the other way round, is refused for that alone.
    let current = current.filter(|current| current.destination.delivery_mode() == mode);
    let destination = match mode {
        DeliveryMode::Push => read_push(&inner, given)?,
        DeliveryMode::Queue => {
            let current = current.and_then(|current| current.destination.queue());
            Destination::Queue(read_queue(&inner, current)?)
        }
    };
    Ok(Delivery {
        destination,
        retry_policy: read_retry_policy(&inner, current.map(|each| &each.retry_policy))?,
        dead_letter: inner.updated(DEAD_LETTER, current.map(|each| &each.dead_letter), |push| {
            read_dead_letter(push, given.known_dead_letter())
        })?,
    })
}

fn read_push(push: &Fields, given: &Given<'_>) -> Result<Destination, InvalidResource> {
    push.expect_names(&[
        "maxDeliveryCount",
        TIME_TO_LIVE,
        "destination",
        DEAD_LETTER,
        "deliveryWithResourceIdentity",
        subscription::SCHEDULE,
    ])?;
    if push.value("deliveryWithResourceIdentity").is_some() {
        let problem = "there are no managed identities here; use \"destination\" instead";
        return Err(push.invalid("deliveryWithResourceIdentity", problem));
    }
    given.read_destination(push)
}

fn read_queue(queue: &Fields, current: Option<&PullQueue>) -> Result<PullQueue, InvalidResource> {
    queue.expect_names(&[LOCK, "maxDeliveryCount", TIME_TO_LIVE, DEAD_LETTER])?;
    let lock_duration = queue.updated(LOCK, current.map(|each| &each.lock_duration), |queue| {
        let seconds = queue.number(LOCK, RECEIVE_LOCK_SECONDS)?;
        Ok(seconds.map_or(RECEIVE_LOCK, |seconds| Duration::from_secs(seconds.into())))
    })?;
    Ok(PullQueue { lock_duration })
}

/// The object that tells the particulars of a mode.
fn object_of(mode: DeliveryMode) -> &'static str {
    match mode {
        DeliveryMode::Push => PUSH,
        DeliveryMode::Queue => QUEUE,
    }
}

/// A mode that is left out is told by what else is there.
fn read_mode(
    delivery: &Fields,
    current: Option<&SubscriptionDefinition>,
) -> Result<DeliveryMode, InvalidResource> {
    let modes = DeliveryMode::ALL.map(|mode| (mode.name(), mode));
    let given = |mode: &DeliveryMode| delivery.value(object_of(*mode)).is_some();
    let mode = delivery
        .choice(MODE, &modes)?
        .or_else(|| DeliveryMode::ALL.into_iter().find(given))
        .or_else(|| current.map(|current| current.destination.delivery_mode()));
    let mode = mode.ok_or_else(|| delivery.missing(MODE, "\"Push\" or \"Queue\""))?;
    let mut others = DeliveryMode::ALL.into_iter().filter(|other| *other != mode);
    match others.find(given) {
        None => Ok(mode),
        Some(other) => {
            let problem = format!(
                "it does not go together with the deliveryMode {:?}",
                mode.name()
            );
            Err(delivery.invalid(object_of(other), problem))
        }
    }
}

fn read_retry_policy(
    push: &Fields,
    current: Option<&RetryPolicy>,
) -> Result<RetryPolicy, InvalidResource> {
    let default = RetryPolicy::of(DeliveryProfile::Namespace);
    Ok(RetryPolicy {
        profile: default.profile,
        attempts_max: push.updated(
            "maxDeliveryCount",
            current.map(|each| &each.attempts_max),
            |push| {
                let count = push.number("maxDeliveryCount", 1..=NAMESPACE_ATTEMPTS_MAX)?;
                Ok(count.unwrap_or(default.attempts_max))
            },
        )?,
        time_to_live: push.updated(
            TIME_TO_LIVE,
            current.map(|each| &each.time_to_live),
            read_time_to_live,
        )?,
        own_waits: push.updated(
            subscription::SCHEDULE,
            current.map(|each| &each.own_waits),
            subscription::read_own_waits,
        )?,
    })
}

/// Left out, it is as long as the topic's retention, whatever that will be (see
/// [`crate::model::registry::TopicEntry::retry_policy`]).
fn read_time_to_live(push: &Fields) -> Result<Duration, InvalidResource> {
    let Some(text) = push.text(TIME_TO_LIVE)? else {
        return Ok(NAMESPACE_TIME_TO_LIVE_MAX);
    };
    let problem = |problem: String| push.invalid(TIME_TO_LIVE, problem);
    let time = duration::parse(text).map_err(|invalid| {
        let found = quoted(text);
        problem(format!(
            "{found} is no duration such as \"PT1H\": {invalid}"
        ))
    })?;
    let is_whole = time.as_secs().is_multiple_of(60) && time.subsec_nanos() == 0;
    if (MINUTE..=NAMESPACE_TIME_TO_LIVE_MAX).contains(&time) && is_whole {
        return Ok(time);
    }
    Err(problem(format!(
        "it must be whole minutes from {} to the topic's retention, but it is {}",
        duration::format(MINUTE),
        quoted(text)
    )))
}

/// Left out and `null` differ as with other subscriptions (rule A). The identity that Azure writes to
/// the storage with, and for how long it tries, mean nothing here.
fn read_dead_letter(
    push: &Fields,
    known: Option<&DeadLetterDestination>,
) -> Result<DeadLetterDestination, InvalidResource> {
    let Some(wrapped) = push.object(DEAD_LETTER)? else {
        return Ok(match push.is_absent(DEAD_LETTER) {
            true => DeadLetterDestination::BuiltInQueue,
            false => DeadLetterDestination::Drop,
        });
    };
    wrapped.expect_names(&[
        "identity",
        "deadLetterDestination",
        "deliveryRetryPeriodInDays",
    ])?;
    wrapped.object("identity")?;
    wrapped.number("deliveryRetryPeriodInDays", 1..=DEAD_LETTER_RETRY_DAYS_MAX)?;
    if wrapped.value("deadLetterDestination").is_none() {
        let expected = "an object with the endpointType \"StorageBlob\"";
        return Err(wrapped.missing("deadLetterDestination", expected));
    }
    dead_letter_destination::read(&wrapped, known)
}

/// The rules for what a client sends now. What an update leaves alone is not judged anew.
fn check(
    properties: &Fields,
    definition: &SubscriptionDefinition,
    retention: Duration,
    context: &SubscriptionContext<'_>,
) -> Result<(), InvalidResource> {
    let mode = definition.destination.delivery_mode();
    let push = properties
        .object_or_empty(DELIVERY)?
        .object_or_empty(object_of(mode))?;
    if push.value("destination").is_some() {
        destination::check(&push, &definition.destination, context.require_https)?;
    }
    if push.value(TIME_TO_LIVE).is_some() && definition.retry_policy.time_to_live > retention {
        let most = duration::format(retention);
        let problem = format!("it must be at most {most}, the topic's eventRetentionInDays");
        return Err(push.invalid(TIME_TO_LIVE, problem));
    }
    if let Some(wrapped) = push.object(DEAD_LETTER)? {
        let require_https = context.require_https;
        dead_letter_destination::check(&wrapped, &definition.dead_letter, require_https)?;
    }
    if properties.value("expirationTimeUtc").is_some() {
        subscription::check_expiration(properties, definition.expires_at, context.now)?;
    }
    Ok(())
}

/// The properties with this `destination`, if there is one, and with the policy that is in effect.
pub(super) fn render_properties(
    definition: &SubscriptionDefinition,
    policy: &RetryPolicy,
    destination: Value,
    secrets: Secrets,
) -> Value {
    let mode = definition.destination.delivery_mode();
    let mut delivery = json!({
        "maxDeliveryCount": policy.attempts_max,
        TIME_TO_LIVE: duration::format(policy.time_to_live),
    });
    match &definition.destination {
        Destination::WebHook(_) => delivery["destination"] = destination,
        Destination::Queue(queue) => delivery[LOCK] = queue.lock_duration.as_secs().into(),
    }
    subscription::add_own_waits(&mut delivery, policy);
    match dead_letter_destination::render(&definition.dead_letter, secrets) {
        None => {}
        Some(Value::Null) => delivery[DEAD_LETTER] = Value::Null,
        Some(inner) => delivery[DEAD_LETTER] = json!({ "deadLetterDestination": inner }),
    }
    json!({
        DELIVERY: { MODE: mode.name(), object_of(mode): delivery },
        FILTERS: filter::render_configuration(&definition.filter),
        "eventDeliverySchema": definition.delivery_schema.name(),
        "expirationTimeUtc": definition.expires_at.map(|at| at.to_string()),
        "labels": definition.labels,
        "paused": definition.paused,
        "disabled": definition.disabled.is_some(),
        "disableOnGone": definition.disable_on_gone,
    })
}
