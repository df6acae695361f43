//! Event subscriptions of custom topics as Azure Resource Manager writes them (rule 3.3), and what those
//! of namespace topics share with them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::InvalidResource;
use super::as_written::{self, AnswerScope};
use super::dead_letter_destination::{self as dead_letter, DeadLetterDocument};
use super::document::{self, Authored};
use super::envelope::{Answered, Envelope, Resource, SystemData};
use super::filter::BasicFilter;
use super::mirror::documents;
use super::namespace_subscription::{self, NamespaceEventSubscription};
use super::rules::{self, RuleContext};
use super::secret::is_hidden;
use super::standing::SubscriptionStanding;
use super::values::{Waits, minutes, waits};
use super::{destination, reader};
use crate::base::Timestamp;
use crate::model::as_written::AsWritten;
use crate::model::destination::{DeliveryAttributeMapping, Destination};
use crate::model::export::Outage;
use crate::model::filter::Filter;
use crate::model::limits::{ATTEMPTS_MAX, TIME_TO_LIVE_MINUTES_MAX};
use crate::model::probation::Health;
use crate::model::registry::TopicEntry;
use crate::model::retry::{DeliveryProfile, RetryPolicy};
use crate::model::subscription::{
    DeadLetterDestination, Disabled, EventSubscription, SubscriptionDefinition,
    SubscriptionOptions, ValidationState,
};
use crate::model::topic::{DeliverySchema, InputSchema};

documents! {
    RetryPolicy => RetryPolicyDocument;
}

/// An event subscription of a custom topic as answers show it.
pub(crate) type ShownSubscription =
    Resource<Envelope<Answered<SubscriptionProperties, SubscriptionAnswer>>>;

/// An event subscription of a namespace topic as answers show it.
pub(crate) type ShownNamespaceSubscription =
    Resource<Envelope<Answered<NamespaceEventSubscription, SubscriptionAnswer>>>;

/// Which events go where, and how.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EventSubscription", inline, extend("x-rejected" = {
    "deliveryWithResourceIdentity": NO_IDENTITY,
    "properties": "it must be left out; what stands in it is given directly",
    "deadLetterWithResourceIdentity":
        "there are no managed identities here; use \"deadLetterDestination\" instead",
}))]
pub(crate) struct SubscriptionProperties {
    /// Where the events go.
    #[schemars(extend("x-expected" = "where the events are to go"))]
    destination: Destination,
    /// Which events match; all unless given.
    #[serde(default, with = "BasicFilter")]
    filter: Filter,
    /// The topic's own unless chosen.
    #[schemars(extend("x-check" = "deliverySchema", "x-answered" = true))]
    event_delivery_schema: Option<DeliverySchema>,
    /// How often and for how long a delivery is tried.
    #[serde(default)]
    #[schemars(extend("x-answered" = true))]
    retry_policy: RetryPolicy,
    #[serde(flatten)]
    dead_letter: DeadLetterProperties,
    #[serde(flatten)]
    common: Common,
}

pub(super) const NO_IDENTITY: &str =
    "there are no managed identities here; use \"destination\" instead";

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeadLetterProperties {
    /// Left out, dead letters stay in the queue of the event subscription; `Drop` drops them.
    #[serde(
        with = "dead_letter::or_built_in_queue",
        default = "dead_letter::built_in_queue"
    )]
    #[serde(skip_serializing_if = "dead_letter::is_built_in_queue")]
    #[schemars(with = "Option<DeadLetterDocument>")]
    pub(super) dead_letter_destination: DeadLetterDestination,
}

/// How often and for how long a delivery is tried.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "RetryPolicy")]
#[schemars(rename = "RetryPolicy")]
struct RetryPolicyDocument {
    #[serde(skip)]
    profile: DeliveryProfile,
    /// Attempts per event, the first one included.
    #[serde(rename = "maxDeliveryAttempts", default = "default_attempts")]
    #[schemars(range(min = 1, max = ATTEMPTS_MAX))]
    attempts_max: u32,
    /// Measured from the moment of publishing.
    #[serde(
        rename = "eventTimeToLiveInMinutes",
        with = "minutes",
        default = "default_time_to_live"
    )]
    #[schemars(with = "u32", range(min = 1, max = TIME_TO_LIVE_MINUTES_MAX))]
    time_to_live: Duration,
    /// Waits after each failed attempt, the last of which repeats; left out for the published schedule.
    #[serde(
        rename = "schedule",
        with = "waits",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "Option<Waits>")]
    own_waits: Vec<Duration>,
}

fn default_attempts() -> u32 {
    RetryPolicy::default().attempts_max
}

fn default_time_to_live() -> Duration {
    RetryPolicy::default().time_to_live
}

/// The properties that subscriptions of both kinds have besides destination and filter.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Common {
    #[serde(flatten)]
    options: SubscriptionOptions,
    /// From then on it matches nothing.
    #[serde(default, deserialize_with = "read_expiration")]
    #[schemars(extend("x-check" = "expiration", "x-prefix" = "Invalid expiration time: "))]
    expiration_time_utc: Option<Timestamp>,
    /// Nothing is matched or delivered.
    #[serde(default)]
    disabled: bool,
    /// When an answer of 410 disabled it; for the store alone.
    #[serde(default, skip_serializing_if = "is_hidden")]
    #[schemars(skip)]
    gone_at: Option<Timestamp>,
}

documents! {
    SubscriptionOptions => SubscriptionOptionsDocument;
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "SubscriptionOptions", rename_all = "camelCase")]
struct SubscriptionOptionsDocument {
    /// Words to find it by.
    #[serde(default)]
    labels: Vec<String>,
    /// Events are matched, and stay pending.
    #[serde(default)]
    paused: bool,
    /// An answer of 410 disables it.
    #[serde(default)]
    disable_on_gone: bool,
}

fn read_expiration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<String> = Option::deserialize(deserializer)?;
    Ok(text.as_deref().and_then(rules::read_expiration))
}

/// The properties that an event subscription has only in answers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionAnswer {
    /// The resource id of the topic.
    topic: String,
    /// Where the handshake with the webhook stands.
    provisioning_state: ValidationState,
    everpost: SubscriptionStanding,
}

/// The context that the body of a subscription is judged by.
#[derive(Clone, Copy, Debug)]
pub struct SubscriptionContext<'a> {
    /// The schema of the events that the topic's publishers send.
    pub input_schema: &'a InputSchema,
    /// How long a namespace topic keeps events; `None` for a custom topic.
    pub event_retention: Option<Duration>,
    pub now: Timestamp,
    /// The definition that a PUT replaces: the secrets of credentials are taken over where they are not given again.
    pub replaces: Option<&'a SubscriptionDefinition>,
    /// Is true if webhooks must be called over TLS (a setting, rule A).
    pub require_https: bool,
}

impl<'a> SubscriptionContext<'a> {
    /// For the subscriptions of this topic.
    pub fn of(topic: &'a TopicEntry, now: Timestamp, require_https: bool) -> Self {
        let kind = &topic.topic.kind;
        Self {
            input_schema: kind.input_schema(),
            event_retention: kind.event_retention(),
            now,
            replaces: None,
            require_https,
        }
    }

    fn rules(&self) -> RuleContext<'_> {
        RuleContext {
            now: self.now,
            require_https: self.require_https,
            input_schema: self.input_schema,
            retention: self.event_retention.unwrap_or(RuleContext::NONE.retention),
        }
    }
}

impl From<&SubscriptionDefinition> for SubscriptionProperties {
    fn from(definition: &SubscriptionDefinition) -> Self {
        Self {
            destination: definition.destination.clone(),
            filter: definition.filter.clone(),
            event_delivery_schema: Some(definition.delivery_schema),
            retry_policy: definition.retry_policy.clone(),
            dead_letter: definition.into(),
            common: definition.into(),
        }
    }
}

impl From<&SubscriptionDefinition> for DeadLetterProperties {
    fn from(definition: &SubscriptionDefinition) -> Self {
        Self {
            dead_letter_destination: definition.dead_letter.clone(),
        }
    }
}

impl From<&SubscriptionDefinition> for Common {
    fn from(definition: &SubscriptionDefinition) -> Self {
        Self {
            options: definition.options.clone(),
            expiration_time_utc: definition.expires_at,
            disabled: definition.disabled.is_some(),
            gone_at: match definition.disabled {
                Some(Disabled::Gone { at }) => Some(at),
                Some(Disabled::ByOperator) | None => None,
            },
        }
    }
}

impl SubscriptionProperties {
    fn definition(self, default_schema: DeliverySchema) -> SubscriptionDefinition {
        let Self {
            destination,
            filter,
            event_delivery_schema,
            retry_policy,
            dead_letter,
            common,
        } = self;
        let delivery_schema = event_delivery_schema.unwrap_or(default_schema);
        let given_destination = dead_letter.dead_letter_destination;
        common.definition(
            destination,
            filter,
            delivery_schema,
            retry_policy,
            given_destination,
        )
    }
}

impl Common {
    /// The whole definition, with what differs between the two kinds.
    pub(super) fn definition(
        self,
        destination: Destination,
        filter: Filter,
        delivery_schema: DeliverySchema,
        retry_policy: RetryPolicy,
        dead_letter: DeadLetterDestination,
    ) -> SubscriptionDefinition {
        let Self {
            options,
            expiration_time_utc,
            disabled,
            gone_at,
        } = self;
        let cause = gone_at.map_or(Disabled::ByOperator, |at| Disabled::Gone { at });
        SubscriptionDefinition {
            destination,
            filter,
            delivery_schema,
            retry_policy,
            dead_letter,
            options,
            expires_at: expiration_time_utc,
            disabled: disabled.then_some(cause),
            as_written: AsWritten::default(),
        }
    }
}

/// Reads the body of a PUT.
///
/// Of Azure's properties everything that changes what is delivered or how is either obeyed or rejected.
/// Unknown names are passed over, as Azure does, because later SDKs bring new ones; names that are a slip
/// or two away from a known one are rejected, and so are known ones on the wrong level.
pub fn parse_subscription(
    body: &Value,
    context: &SubscriptionContext<'_>,
) -> Result<SubscriptionDefinition, InvalidResource> {
    let default = DeliverySchema::default_for(context.input_schema);
    let rules = context.rules();
    if context.event_retention.is_none() {
        let replaced = context
            .replaces
            .map(Envelope::<SubscriptionProperties>::from);
        let read = document::put(body, replaced.as_ref(), &rules)?;
        return Ok(definition(read.properties(), default));
    }
    let replaced = context
        .replaces
        .map(Envelope::<NamespaceEventSubscription>::from);
    let read = document::put(body, replaced.as_ref(), &rules)?;
    Ok(namespace_definition(read.properties()))
}

/// The schema of the `properties` that requests have, those of namespace topics or the others. It is that of
/// [`reader`]: nothing is referred to, and what may be `null` is marked by `x-null`.
pub fn subscription_schema(is_in_namespace: bool) -> &'static Value {
    if is_in_namespace {
        reader::schema_of::<NamespaceEventSubscription>()
    } else {
        reader::schema_of::<SubscriptionProperties>()
    }
}

/// The objects of which an update replaces single properties, as long as their kind stays: clients of Azure send
/// what they know of, and not the extensions of this appliance.
const MERGED: &[&str] = &[
    "",
    "destination",
    "destination.properties",
    "deadLetterDestination",
    "deadLetterDestination.properties",
];

/// Applies the body of a PATCH. Of custom topics it is flat (rule 3.1). A destination, which has no
/// default, stays where it is `null`. What a destination of the same type leaves out stays.
pub fn patch_subscription(
    current: &SubscriptionDefinition,
    body: &Value,
    context: &SubscriptionContext<'_>,
) -> Result<SubscriptionDefinition, InvalidResource> {
    let default = DeliverySchema::default_for(context.input_schema);
    let rules = context.rules();
    if context.event_retention.is_none() {
        let current = Authored {
            document: SubscriptionProperties::from(current),
            own: as_written::from_text(&current.as_written),
        };
        let patched = document::patch(&current, body, &rules, MERGED)?;
        return Ok(definition(patched, default));
    }
    let current = Authored {
        document: Envelope::<NamespaceEventSubscription>::from(current),
        own: json!({ "properties": as_written::from_text(&current.as_written) }),
    };
    let merged = namespace_subscription::MERGED;
    let patched = document::patch(&current, body, &rules, merged)?;
    Ok(namespace_definition(patched.properties()))
}

fn definition(
    read: Authored<SubscriptionProperties>,
    default_schema: DeliverySchema,
) -> SubscriptionDefinition {
    SubscriptionDefinition {
        as_written: as_written::to_text(&read.own),
        ..read.document.definition(default_schema)
    }
}

fn namespace_definition(read: Authored<NamespaceEventSubscription>) -> SubscriptionDefinition {
    SubscriptionDefinition {
        as_written: as_written::to_text(&read.own),
        ..read.document.definition()
    }
}

/// The form in which the store keeps a definition, secrets included.
pub fn subscription_to_text(definition: &SubscriptionDefinition) -> String {
    let own = &definition.as_written;
    match definition.retry_policy.profile {
        DeliveryProfile::Basic => {
            document::to_authored_text(&Envelope::<SubscriptionProperties>::from(definition), own)
        }
        DeliveryProfile::Namespace => document::to_authored_text(
            &Envelope::<NamespaceEventSubscription>::from(definition),
            own,
        ),
    }
}

/// Reads what [`subscription_to_text`] wrote, whatever the rules for new ones have become.
pub fn subscription_from_text(text: &str) -> Result<SubscriptionDefinition, InvalidResource> {
    if document::has_property(text, namespace_subscription::DELIVERY) {
        let read: Authored<Envelope<NamespaceEventSubscription>> =
            document::from_authored_text(text)?;
        return Ok(namespace_definition(
            read.map(|envelope| envelope.properties),
        ));
    }
    let read: Authored<Envelope<SubscriptionProperties>> = document::from_authored_text(text)?;
    // The text always names its delivery schema.
    let default = DeliverySchema::EventGridSchema;
    Ok(definition(
        read.map(|envelope| envelope.properties),
        default,
    ))
}

/// How an event subscription is doing, for what answers say of that.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    pub health: &'a Health,
    /// Storage for dead letters that is unavailable.
    pub outage: Option<&'a Outage>,
    pub now: Timestamp,
}

/// The answer that shows an event subscription as it was written (rule 3.3).
pub fn render_subscription(
    entry: &TopicEntry,
    subscription: &EventSubscription,
    observed: Observed<'_>,
) -> Value {
    let shown = shown_subscription(entry, subscription, observed);
    let definition = &subscription.definition;
    let is_in_namespace = definition.retry_policy.profile == DeliveryProfile::Namespace;
    let schema = subscription_schema(is_in_namespace);
    as_written::resource(shown, &definition.as_written, schema, AnswerScope::Set)
}

/// An event subscription with all that is in effect.
pub fn whole_subscription(
    entry: &TopicEntry,
    subscription: &EventSubscription,
    observed: Observed<'_>,
) -> Value {
    let mut shown = shown_subscription(entry, subscription, observed);
    let definition = &subscription.definition;
    if let Some(shown) = shown.pointer_mut(place_of_destination(definition)) {
        destination::show_batch(&definition.destination, shown);
    }
    shown
}

/// The JSON pointer to the destination of what is pushed.
fn place_of_destination(definition: &SubscriptionDefinition) -> &'static str {
    match definition.retry_policy.profile {
        DeliveryProfile::Basic => "/properties/destination",
        DeliveryProfile::Namespace => "/properties/deliveryConfiguration/push/destination",
    }
}

/// An event subscription with all that its definition has: no query of its URL, no secret values. `everpost` holds
/// what Azure has no place for.
fn shown_subscription(
    entry: &TopicEntry,
    subscription: &EventSubscription,
    observed: Observed<'_>,
) -> Value {
    let answer = SubscriptionAnswer {
        topic: entry.resource_id.to_string(),
        provisioning_state: subscription.validation.state,
        everpost: SubscriptionStanding::of(subscription, observed),
    };
    let mut definition = subscription.definition.clone();
    definition.retry_policy = entry.retry_policy(subscription);
    let mut shown = match definition.retry_policy.profile {
        DeliveryProfile::Basic => {
            let set = SubscriptionProperties::from(&definition);
            json!(resource(
                entry,
                subscription,
                "topics",
                Answered { set, answer }
            ))
        }
        DeliveryProfile::Namespace => {
            let set = NamespaceEventSubscription::from(&definition);
            json!(resource(
                entry,
                subscription,
                "namespaces/topics",
                Answered { set, answer }
            ))
        }
    };
    if let Some(shown) = shown.pointer_mut(place_of_destination(&definition)) {
        destination::show(&definition.destination, shown);
    }
    shown
}

fn resource<P>(
    entry: &TopicEntry,
    subscription: &EventSubscription,
    of_what: &str,
    properties: P,
) -> Resource<Envelope<P>> {
    let name = subscription.name.as_str();
    Resource {
        id: format!("{}/eventSubscriptions/{name}", entry.resource_id),
        name: name.to_owned(),
        r#type: format!("Microsoft.EventGrid/{of_what}/eventSubscriptions"),
        system_data: SystemData::new(subscription.created_at, subscription.updated_at),
        document: Envelope { properties },
    }
}

/// The answer to `getFullUrl`: the URL with its query.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FullUrl {
    #[schemars(extend("format" = "uri"))]
    endpoint_url: String,
}

/// `None` where nothing is sent.
pub fn render_full_url(definition: &SubscriptionDefinition) -> Option<FullUrl> {
    let endpoint_url = definition
        .destination
        .endpoint_url()?
        .reveal_text()
        .to_owned();
    Some(FullUrl { endpoint_url })
}

/// The answer to `getDeliveryAttributes`; secret values are `null` here too.
#[derive(Serialize, JsonSchema)]
pub struct DeliveryAttributes {
    #[schemars(with = "Vec<DeliveryAttributeMapping>")]
    value: Value,
}

pub fn render_delivery_attributes(definition: &SubscriptionDefinition) -> DeliveryAttributes {
    let value = destination::shown_headers(&definition.destination);
    DeliveryAttributes { value }
}
