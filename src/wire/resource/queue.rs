//! Queues as Azure Resource Manager writes them (rule S1).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::envelope::{Answered, Envelope, Resource, SystemData, add_properties};
use super::rules::{Context, Judged};
use super::values::iso;
use super::{InvalidResource, document};
use crate::model::limits::{LOCK_DURATION, QUEUE_DELIVERIES, QUEUE_DELIVERIES_MAX};
use crate::model::queue::QueueDefinition;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::wire::duration::DURATION_MAX;

/// What a PUT of a queue takes.
pub(crate) type QueueRequest = Envelope<QueueProperties>;

/// A queue as answers show it.
pub(crate) type ShownQueue = Resource<Envelope<Answered<QueueProperties, QueueAnswer>>>;

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "MessageQueue", inline, transform = add_properties::<Unsupported>)]
#[schemars(extend("x-rule" = "queue"))]
pub(crate) struct QueueProperties {
    /// How long a receiver holds a message unless it renews the lock, 5 seconds to 5 minutes.
    #[serde(with = "iso")]
    #[schemars(with = "String", extend("format" = "duration", "x-check" = "lockDuration"))]
    lock_duration: Duration,
    /// Deliveries of a message, the first one included, before it is dead-lettered.
    #[schemars(range(min = 1, max = QUEUE_DELIVERIES_MAX))]
    max_delivery_count: u32,
    /// How long messages live at most; a message may have less time of its own.
    #[serde(with = "iso")]
    #[schemars(with = "String", extend("format" = "duration", "x-check" = "messageTimeToLive"))]
    default_message_time_to_live: Duration,
    /// Messages that expire become dead letters. Otherwise they are dropped.
    dead_lettering_on_message_expiration: bool,
}

impl Default for QueueProperties {
    fn default() -> Self {
        Self {
            lock_duration: LOCK_DURATION,
            max_delivery_count: QUEUE_DELIVERIES,
            default_message_time_to_live: DURATION_MAX,
            dead_lettering_on_message_expiration: false,
        }
    }
}

/// What Azure's queues do besides: to pass over it would mislead.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "for the schema alone")]
struct Unsupported {
    #[schemars(extend("writeOnly" = true))]
    requires_session: Option<bool>,
    #[schemars(extend("writeOnly" = true))]
    requires_duplicate_detection: Option<bool>,
    #[schemars(extend("writeOnly" = true))]
    forward_to: Option<String>,
    #[schemars(extend("writeOnly" = true))]
    forward_dead_lettered_messages_to: Option<String>,
}

pub(super) fn judge(it: &mut Judged<'_>) {
    for name in [
        "requiresSession",
        "requiresDuplicateDetection",
        "forwardTo",
        "forwardDeadLetteredMessagesTo",
    ] {
        if matches!(
            it.object.get(name),
            Some(Value::Bool(true) | Value::String(_))
        ) {
            it.fault(name, "it is not supported here; leave it out");
        }
    }
}

/// What answers have besides.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueAnswer {
    /// Messages, dead letters included.
    message_count: u64,
    count_details: CountDetails,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CountDetails {
    /// Those that are locked, deferred or scheduled included.
    active_message_count: u64,
    dead_letter_message_count: u64,
}

impl From<&QueueDefinition> for QueueProperties {
    fn from(definition: &QueueDefinition) -> Self {
        Self {
            lock_duration: definition.lock_duration,
            max_delivery_count: definition.deliveries_max,
            default_message_time_to_live: definition.time_to_live,
            dead_lettering_on_message_expiration: definition.keeps_expired,
        }
    }
}

impl From<QueueProperties> for QueueDefinition {
    fn from(properties: QueueProperties) -> Self {
        Self {
            lock_duration: properties.lock_duration,
            deliveries_max: properties.max_delivery_count,
            time_to_live: properties.default_message_time_to_live,
            keeps_expired: properties.dead_lettering_on_message_expiration,
        }
    }
}

/// Reads the body of a PUT.
pub fn parse_queue(body: &Value) -> Result<QueueDefinition, InvalidResource> {
    let read = document::read::<QueueRequest>(body, &Context::NONE);
    read.map(|read| read.properties.into())
}

/// The answer that shows a queue with so many messages and dead letters; `None` for what is none.
pub fn render_queue(
    topic: &TopicEntry,
    subscription: &EventSubscription,
    messages: u64,
    dead_letters: u64,
) -> Option<Value> {
    let definition = QueueDefinition::of(&subscription.definition)?;
    let answer = QueueAnswer {
        message_count: messages + dead_letters,
        count_details: CountDetails {
            active_message_count: messages,
            dead_letter_message_count: dead_letters,
        },
    };
    let set = QueueProperties::from(&definition);
    Some(json!(Resource {
        id: topic.resource_id.to_string(),
        name: topic.topic.name.as_str().to_owned(),
        r#type: "Microsoft.ServiceBus/namespaces/queues".to_owned(),
        system_data: SystemData::new(topic.topic.created_at, subscription.updated_at),
        document: Envelope {
            properties: Answered { set, answer },
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_azures_defaults() {
        let expected = QueueDefinition {
            lock_duration: Duration::from_secs(60),
            deliveries_max: 10,
            time_to_live: DURATION_MAX,
            keeps_expired: false,
        };
        for body in [
            json!({}),
            json!({ "properties": {} }),
            json!({ "properties": { "requiresSession": false, "forwardTo": null } }),
        ] {
            assert_eq!(parse_queue(&body), Ok(expected.clone()), "{body}");
        }
        let body = json!({ "properties": {
            "lockDuration": "PT30S", "maxDeliveryCount": 3, "defaultMessageTimeToLive": "P1D",
            "deadLetteringOnMessageExpiration": true,
        } });
        let parsed = parse_queue(&body).expect("a queue");
        assert_eq!(parsed.deliveries_max, 3);
        assert_eq!(
            json!({ "properties": QueueProperties::from(&parsed) }),
            body
        );
    }

    #[test]
    fn what_cannot_be_obeyed_is_refused() {
        for (properties, path) in [
            (json!({ "lockDuration": "PT4S" }), "lockDuration"),
            (json!({ "lockDuration": "PT5M1S" }), "lockDuration"),
            (json!({ "lockDuration": "a minute" }), "lockDuration"),
            (json!({ "maxDeliveryCount": 0 }), "maxDeliveryCount"),
            (
                json!({ "defaultMessageTimeToLive": "PT0S" }),
                "defaultMessageTimeToLive",
            ),
            (json!({ "requiresSession": true }), "requiresSession"),
            (json!({ "forwardTo": "other" }), "forwardTo"),
        ] {
            let body = json!({ "properties": properties });
            let refused = parse_queue(&body).expect_err("a fault");
            assert_eq!(refused.first().path, format!("properties.{path}"), "{body}");
        }
    }
}
