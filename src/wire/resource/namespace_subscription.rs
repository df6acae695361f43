//! Event subscriptions of namespace topics as Azure Resource Manager writes them (rule N1.1): the same as
//! others, in another shape.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::dead_letter_destination::{self as dead_letter, DeadLetterDocument};
use super::filter::FiltersConfiguration;
use super::queue::UpkeepProperties;
use super::rules::Judged;
use super::subscription::{Common, NO_IDENTITY};
use super::values::{Waits, seconds, waits};
use crate::model::destination::{DeliveryMode, Destination, PullQueue};
use crate::model::filter::{Conditions, Dialect, Filter};
use crate::model::limits::{
    NAMESPACE_ATTEMPTS_MAX, NAMESPACE_TIME_TO_LIVE_MAX, RECEIVE_LOCK, RECEIVE_LOCK_SECONDS,
};
use crate::model::queue::ReceiveRules;
use crate::model::retry::{DeliveryProfile, RetryPolicy};
use crate::model::subscription::{DeadLetterDestination, SubscriptionDefinition};
use crate::model::topic::DeliverySchema;

/// The objects of which an update replaces single properties: the URL is never shown, so nobody could
/// send it again.
pub(super) const MERGED: &[&str] = &[
    "",
    "properties",
    "properties.deliveryConfiguration",
    "properties.deliveryConfiguration.push",
    "properties.deliveryConfiguration.push.destination",
    "properties.deliveryConfiguration.push.destination.properties",
    "properties.deliveryConfiguration.push.deadLetterDestinationWithResourceIdentity",
    "properties.deliveryConfiguration.push.deadLetterDestinationWithResourceIdentity.deadLetterDestination",
    "properties.deliveryConfiguration.push.deadLetterDestinationWithResourceIdentity.deadLetterDestination.properties",
    "properties.deliveryConfiguration.queue",
    "properties.deliveryConfiguration.queue.deadLetterDestinationWithResourceIdentity",
    "properties.deliveryConfiguration.queue.deadLetterDestinationWithResourceIdentity.deadLetterDestination",
    "properties.deliveryConfiguration.queue.deadLetterDestinationWithResourceIdentity.deadLetterDestination.properties",
];

/// A property that every stored subscription of a namespace topic has, and no other subscription.
pub(super) const DELIVERY: &str = "deliveryConfiguration";

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NamespaceEventSubscription", inline)]
pub(crate) struct NamespaceProperties {
    #[schemars(with = "DeliveryProperties", extend("x-expected" =
        "an object with the deliveryMode \"Push\" and the object push, or \"Queue\" and queue"))]
    delivery_configuration: DeliveryConfiguration,
    #[serde(with = "FiltersConfiguration", default = "every_event")]
    filters_configuration: Filter,
    #[serde(default = "cloud_events")]
    #[schemars(extend("enum" = ["CloudEventSchemaV1_0"], "x-answered" = true))]
    event_delivery_schema: DeliverySchema,
    #[serde(flatten)]
    common: Common,
}

fn every_event() -> Filter {
    Filter {
        dialect: Dialect::Namespace,
        advanced: Conditions {
            on_arrays: true,
            ..Conditions::default()
        },
        ..Filter::default()
    }
}

fn cloud_events() -> DeliverySchema {
    DeliverySchema::CloudEventSchemaV1_0
}

/// How events are handed over.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "deliveryMode")]
enum DeliveryConfiguration {
    Push { push: Box<Push> },
    Queue { queue: Box<Queue> },
}

/// The mode, and the object that goes with it.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", rename = "DeliveryConfiguration")]
#[schemars(extend("x-rule" = "delivery"))]
#[expect(dead_code, reason = "for the schema alone")]
struct DeliveryProperties {
    /// It cannot be changed later. Left out, it is that of the object that is there.
    delivery_mode: Option<DeliveryMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    push: Option<Push>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<Queue>,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-rejected" = { "deliveryWithResourceIdentity": NO_IDENTITY }))]
struct Push {
    #[schemars(extend("x-expected" = "where the events are to go"))]
    destination: Destination,
    #[serde(flatten)]
    policy: Policy,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Queue {
    /// How long a receiver holds an event.
    #[serde(
        rename = "receiveLockDurationInSeconds",
        with = "seconds",
        default = "receive_lock"
    )]
    #[schemars(with = "u32")]
    #[schemars(range(min = *RECEIVE_LOCK_SECONDS.start(), max = *RECEIVE_LOCK_SECONDS.end()))]
    #[schemars(extend("x-answered" = true))]
    lock_duration: Duration,
    /// The rules of a queue of Service Bus; for the store alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    messages: Option<StoredPull>,
    #[serde(flatten)]
    policy: Policy,
}

/// The rules that queues of messages have besides; for the store alone.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredPull {
    #[serde(flatten)]
    receiving: ReceiveRules,
    keeps_unevaluated: bool,
    #[serde(flatten)]
    upkeep: UpkeepProperties,
}

impl StoredPull {
    /// Returns `None` for a pulled event subscription.
    fn of(queue: &PullQueue) -> Option<Self> {
        let plain = PullQueue::of_events(queue.lock_duration);
        (*queue != plain).then(|| Self {
            receiving: queue.receiving.clone(),
            keeps_unevaluated: queue.keeps_unevaluated,
            upkeep: (&queue.upkeep).into(),
        })
    }

    fn queue(self, lock_duration: Duration) -> PullQueue {
        PullQueue {
            lock_duration,
            receiving: self.receiving,
            keeps_unevaluated: self.keeps_unevaluated,
            upkeep: self.upkeep.into(),
        }
    }
}

fn receive_lock() -> Duration {
    RECEIVE_LOCK
}

/// The properties that push and pull have in common.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Policy {
    /// Deliveries per event, the first one included.
    #[serde(default = "default_count")]
    #[schemars(range(min = 1, max = NAMESPACE_ATTEMPTS_MAX), extend("x-answered" = true))]
    max_delivery_count: u32,
    /// Whole minutes, up to the topic's retention; as long as that if it is left out.
    #[serde(with = "life", default = "longest")]
    #[schemars(with = "Option<String>", extend("format" = "duration", "x-check" = "timeToLive"))]
    #[schemars(extend("x-answered" = true))]
    event_time_to_live: Duration,
    #[serde(with = "waits", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Waits>")]
    schedule: Vec<Duration>,
    /// Left out, dead letters stay in the queue of the event subscription; `Drop` drops them.
    #[serde(rename = "deadLetterDestinationWithResourceIdentity", with = "wrapped")]
    #[serde(default = "dead_letter::built_in_queue")]
    #[serde(skip_serializing_if = "dead_letter::is_built_in_queue")]
    #[schemars(with = "Option<WithIdentity>")]
    dead_letter: DeadLetterDestination,
}

fn default_count() -> u32 {
    RetryPolicy::of(DeliveryProfile::Namespace).attempts_max
}

/// Returns the longest time to live, which stands for the topic's retention, whatever that is.
fn longest() -> Duration {
    NAMESPACE_TIME_TO_LIVE_MAX
}

/// A duration of ISO 8601; `null` for the longest.
mod life {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::longest;
    use crate::wire::duration;

    pub(super) fn serialize<S: Serializer>(
        time: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&duration::format(*time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let text: Option<String> = Option::deserialize(deserializer)?;
        text.map_or(Ok(longest()), |text| duration::parse(&text))
            .map_err(D::Error::custom)
    }
}

/// A destination for dead letters. Azure's identity, and for how long it is tried, would have no effect.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-rejected" = {
    "identity": "there are no managed identities here; leave it out",
    "deliveryRetryPeriodInDays":
        "it must be left out; storage is tried for four hours, and then as dead_letter.unavailable says",
}))]
struct WithIdentity {
    #[serde(with = "DeadLetterDocument")]
    #[schemars(extend("x-expected" = "an object with the endpointType \"StorageBlob\" or \"Drop\""))]
    dead_letter_destination: DeadLetterDestination,
}

/// The destination of dead letters in an object of its own, which is left out for the built-in queue (rule A).
mod wrapped {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{DeadLetterDestination, WithIdentity, dead_letter};

    pub(super) fn serialize<S: Serializer>(
        dead_letter: &DeadLetterDestination,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let wrapped = (!dead_letter::is_built_in_queue(dead_letter)).then(|| WithIdentity {
            dead_letter_destination: dead_letter.clone(),
        });
        wrapped.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<DeadLetterDestination, D::Error> {
        let wrapped: Option<WithIdentity> = Option::deserialize(deserializer)?;
        Ok(wrapped.map_or_else(dead_letter::built_in_queue, |each| {
            each.dead_letter_destination
        }))
    }
}

impl From<&SubscriptionDefinition> for NamespaceProperties {
    fn from(definition: &SubscriptionDefinition) -> Self {
        let policy = &definition.retry_policy;
        let policy = Policy {
            max_delivery_count: policy.attempts_max,
            event_time_to_live: policy.time_to_live,
            schedule: policy.own_waits.clone(),
            dead_letter: definition.dead_letter.clone(),
        };
        Self {
            delivery_configuration: match definition.destination.pull_queue() {
                None => {
                    let destination = definition.destination.clone();
                    DeliveryConfiguration::Push {
                        push: Box::new(Push {
                            destination,
                            policy,
                        }),
                    }
                }
                Some(queue) => DeliveryConfiguration::Queue {
                    queue: Box::new(Queue {
                        lock_duration: queue.lock_duration,
                        messages: StoredPull::of(queue),
                        policy,
                    }),
                },
            },
            filters_configuration: definition.filter.clone(),
            event_delivery_schema: definition.delivery_schema,
            common: definition.into(),
        }
    }
}

impl NamespaceProperties {
    pub(super) fn definition(self) -> SubscriptionDefinition {
        let (destination, policy) = match self.delivery_configuration {
            DeliveryConfiguration::Push { push } => (push.destination, push.policy),
            DeliveryConfiguration::Queue { queue } => {
                let Queue {
                    lock_duration,
                    messages,
                    policy,
                } = *queue;
                let pulled = match messages {
                    Some(messages) => messages.queue(lock_duration),
                    None => PullQueue::of_events(lock_duration),
                };
                (pulled.into(), policy)
            }
        };
        let retry_policy = RetryPolicy {
            profile: DeliveryProfile::Namespace,
            attempts_max: policy.max_delivery_count,
            time_to_live: policy.event_time_to_live,
            own_waits: policy.schedule,
        };
        let (filter, schema) = (self.filters_configuration, self.event_delivery_schema);
        self.common.definition(
            destination,
            filter,
            schema,
            retry_policy,
            policy.dead_letter,
        )
    }
}

/// A mode that is left out is that of the object that is there; the object may be left out, too.
pub(super) fn judge_delivery(it: &mut Judged<'_>) {
    let mode = match (it.text("deliveryMode"), it.has("push"), it.has("queue")) {
        (Some(mode), ..) => mode.to_owned(),
        (None, _, true) => "Queue".to_owned(),
        (None, true, false) => "Push".to_owned(),
        (None, false, false) => return it.missing("deliveryMode", "\"Queue\" or \"Push\""),
    };
    let (own, other) = match mode.as_str() {
        "Push" => ("push", "queue"),
        _ => ("queue", "push"),
    };
    if it.has(other) {
        it.fault(
            other,
            format!("it does not go together with the deliveryMode {mode:?}"),
        );
    }
    if !it.has(own) {
        match own {
            "push" => it.missing("push.destination", "where the events are to go"),
            _ => it.object.extend([(own.to_owned(), json!({}))]),
        }
    }
    it.object.insert("deliveryMode".to_owned(), mode.into());
}
