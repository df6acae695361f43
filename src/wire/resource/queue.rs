//! Queues as Azure Resource Manager writes them (rule S1).

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::InvalidResource;
use super::as_written::{self, AnswerScope};
use super::document::{self, Authored};
use super::envelope::{Answered, Envelope, Resource, SystemData, from_inert, to_inert};
use super::mirror::documents;
use super::reader::schema_of;
use super::rules::{Context, Judged};
use super::values::{iso, unless_for_ever};
use crate::model::as_written::AsWritten;
use crate::model::destination::{EntityId, PullQueue};
use crate::model::entity_status::EntityStatus;
use crate::model::limits::{
    DUPLICATE_WINDOW, LOCK_DURATION, QUEUE_DELIVERIES, QUEUE_DELIVERIES_MAX, QUEUE_MEGABYTES,
    QUEUE_MEGABYTES_MAX, USER_METADATA_MAX,
};
use crate::model::queue::{
    EntityUpkeep, MESSAGE_KILOBYTES, MessageSubscription, QueueCounts, QueueDefinition,
    ReceiveRules, STANDARD_KILOBYTES, SendRules, ServiceBusTier,
};
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::wire::duration::DURATION_MAX;

/// The body of a PUT of a queue.
pub(crate) type QueueRequest = Envelope<QueueProperties>;

/// A queue as answers show it.
pub(crate) type ShownQueue = Resource<Envelope<Answered<QueueProperties, QueueAnswer>>>;

#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "MessageQueue", inline)]
#[schemars(extend("x-rule" = "messagingEntity"))]
pub(crate) struct QueueProperties {
    #[serde(flatten)]
    receiving: ReceivingProperties,
    #[serde(flatten)]
    sending: SendRules,
    #[serde(flatten)]
    upkeep: UpkeepProperties,
}

/// The properties that queues, topics and subscriptions have in common.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct UpkeepProperties {
    /// How long it may be idle before it is deleted, 5 minutes or more; for ever if it is left out. Nobody sends to it,
    /// receives from it or changes it then. One that forwards its messages stays.
    #[serde(
        with = "unless_for_ever",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>", extend("format" = "duration", "x-check" = "idle"))]
    auto_delete_on_idle: Option<Duration>,
    /// True if messages can be sent and received. Dead letters can always be received.
    status: EntityStatus,
    #[serde(flatten)]
    inert: InertProperties,
}

impl From<&EntityUpkeep> for UpkeepProperties {
    fn from(upkeep: &EntityUpkeep) -> Self {
        Self {
            auto_delete_on_idle: upkeep.delete_on_idle,
            status: upkeep.status,
            inert: from_inert(&upkeep.inert),
        }
    }
}

impl From<UpkeepProperties> for EntityUpkeep {
    fn from(properties: UpkeepProperties) -> Self {
        Self {
            delete_on_idle: properties.auto_delete_on_idle,
            status: properties.status,
            inert: to_inert(&properties.inert),
        }
    }
}

/// Further properties that queues, topics and subscriptions have in Azure.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct InertProperties {
    /// Kept and shown, for whoever manages it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = USER_METADATA_MAX))]
    user_metadata: Option<String>,
    /// 1,024 to 102,400, or 256. A message, or a batch of them, has up to so many kilobytes, and never more than the
    /// setting `publish.bytes_max` and 1 MiB allow, whichever is more; 1,024 if it is left out. Where the setting
    /// `service_bus.tier` is `standard`, it is 256 and cannot be another.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_message_size_in_kilobytes: Option<u32>,
    /// Kept and shown, without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_batched_operations: Option<bool>,
    /// Kept and shown, without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_express: Option<bool>,
    /// Kept and shown. As in Azure, `maxSizeInMegabytes` up to 5,120 is then that of each of 16 partitions, and 16
    /// times as much is kept and shown; there is no other effect. It cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_partitioning: Option<bool>,
    /// Kept and shown, without effect: order is always kept. Of what is partitioned it is `false` if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    support_ordering: Option<bool>,
}

/// The properties that queues and subscriptions have in common.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReceivingProperties {
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
    #[serde(flatten)]
    rules: ReceiveRules,
}

impl Default for ReceivingProperties {
    fn default() -> Self {
        Self {
            lock_duration: LOCK_DURATION,
            max_delivery_count: QUEUE_DELIVERIES,
            default_message_time_to_live: DURATION_MAX,
            rules: ReceiveRules::default(),
        }
    }
}

documents! {
    SendRules => SendRulesDocument;
    ReceiveRules => ReceiveRulesDocument;
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "SendRules")]
struct SendRulesDocument {
    /// The megabytes that its messages and dead letters, those of all its subscriptions, may have together. Messages
    /// that would exceed them are not accepted.
    #[serde(rename = "maxSizeInMegabytes", default = "megabytes")]
    #[schemars(range(min = 1, max = QUEUE_MEGABYTES_MAX))]
    megabytes_max: u32,
    /// A message whose id is remembered is accepted and dropped. It cannot be changed.
    #[serde(rename = "requiresDuplicateDetection", default)]
    detects_duplicates: bool,
    /// How long ids are remembered, 20 seconds to 7 days.
    #[serde(rename = "duplicateDetectionHistoryTimeWindow", with = "iso")]
    #[serde(default = "duplicate_window")]
    #[schemars(with = "String", extend("format" = "duration", "x-check" = "duplicateWindow"))]
    duplicate_window: Duration,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ReceiveRules")]
struct ReceiveRulesDocument {
    /// Messages that expire become dead letters. Otherwise they are dropped.
    #[serde(rename = "deadLetteringOnMessageExpiration", default)]
    keeps_expired: bool,
    /// Each message has a session id, and is received by who holds that session. Those without one are not accepted by
    /// a queue, and become dead letters of a subscription. It cannot be changed.
    #[serde(rename = "requiresSession", default)]
    has_sessions: bool,
    /// The queue or topic that messages go on to. Nobody receives from this one then.
    #[serde(rename = "forwardTo", default, skip_serializing_if = "Option::is_none")]
    forward_to: Option<EntityId>,
    /// The queue or topic that dead letters go on to. Nobody receives them from this one then.
    #[serde(rename = "forwardDeadLetteredMessagesTo", default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    forward_dead_letters_to: Option<EntityId>,
}

fn duplicate_window() -> Duration {
    DUPLICATE_WINDOW
}

fn megabytes() -> u32 {
    QUEUE_MEGABYTES
}

/// Partitions of what is partitioned, each of which has the size that is given, as in Azure.
const PARTITIONS: u32 = 16;

/// The largest size that can be meant as that of a partition.
const PARTITION_MEGABYTES_MAX: u64 = 5_120;

/// The kilobytes that a message may have in Azure if the namespace is a premium one.
const PREMIUM_KILOBYTES: RangeInclusive<u64> = 1_024..=102_400;

/// Judges the size of messages as Azure does, and multiplies the size of a partitioned queue or topic.
pub(super) fn judge(it: &mut Judged<'_>) {
    let number = |name| it.object.get(name).and_then(Value::as_u64);
    let kilobytes = number(MESSAGE_KILOBYTES);
    let megabytes = number("maxSizeInMegabytes").unwrap_or(u64::from(QUEUE_MEGABYTES));
    if kilobytes.is_some_and(|it| it != STANDARD_KILOBYTES && !PREMIUM_KILOBYTES.contains(&it)) {
        let (least, most) = (PREMIUM_KILOBYTES.start(), PREMIUM_KILOBYTES.end());
        it.fault(
            MESSAGE_KILOBYTES,
            format!(
                "the value for 'MaxMessageSizeInKilobytes' must be between {least} and {most}, \
                 or {STANDARD_KILOBYTES} as in Azure's standard tier"
            ),
        );
    }
    if it.object.get("enablePartitioning") == Some(&Value::Bool(true)) {
        if megabytes <= PARTITION_MEGABYTES_MAX {
            let all = megabytes * u64::from(PARTITIONS);
            it.object
                .insert("maxSizeInMegabytes".to_owned(), all.into());
        }
        let ordering = it.object.entry("supportOrdering");
        ordering.or_insert(false.into());
    }
}

/// The properties that a queue or a subscription has only in answers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueAnswer {
    /// The number of messages, dead letters and transfers included.
    message_count: u64,
    /// The size of all these messages.
    size_in_bytes: u64,
    count_details: CountDetails,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CountDetails {
    /// The number of active messages, those that are locked or deferred included.
    active_message_count: u64,
    dead_letter_message_count: u64,
    /// Up to 10,000; more are counted as active.
    scheduled_message_count: u64,
    /// Counts those that go on to another entity, because they were sent there by way of this one.
    transfer_message_count: u64,
    /// Counts those that could not go on.
    transfer_dead_letter_message_count: u64,
}

impl QueueAnswer {
    /// Makes the properties of a queue or subscription with these counts.
    pub(super) fn of(counts: QueueCounts) -> Self {
        Self {
            message_count: counts.all(),
            size_in_bytes: counts.bytes,
            count_details: counts.into(),
        }
    }
}

impl From<QueueCounts> for CountDetails {
    fn from(counts: QueueCounts) -> Self {
        Self {
            active_message_count: counts.active,
            dead_letter_message_count: counts.dead_letters,
            scheduled_message_count: counts.scheduled,
            transfer_message_count: counts.transfers,
            transfer_dead_letter_message_count: counts.transfer_dead_letters,
        }
    }
}

impl From<&MessageSubscription> for ReceivingProperties {
    fn from(definition: &MessageSubscription) -> Self {
        Self {
            lock_duration: definition.pull.lock_duration,
            max_delivery_count: definition.deliveries_max,
            default_message_time_to_live: definition.time_to_live,
            rules: definition.pull.receiving.clone(),
        }
    }
}

impl ReceivingProperties {
    /// With what else there is.
    pub(super) fn definition(
        self,
        keeps_unevaluated: bool,
        upkeep: UpkeepProperties,
    ) -> MessageSubscription {
        MessageSubscription {
            deliveries_max: self.max_delivery_count,
            time_to_live: self.default_message_time_to_live,
            pull: PullQueue {
                lock_duration: self.lock_duration,
                receiving: self.rules,
                keeps_unevaluated,
                upkeep: upkeep.into(),
            },
            as_written: AsWritten::default(),
        }
    }
}

impl From<&QueueDefinition> for QueueProperties {
    fn from(definition: &QueueDefinition) -> Self {
        Self {
            receiving: (&definition.subscription).into(),
            sending: definition.sending.clone(),
            upkeep: (&definition.subscription.pull.upkeep).into(),
        }
    }
}

impl From<QueueProperties> for QueueDefinition {
    fn from(properties: QueueProperties) -> Self {
        Self {
            sending: properties.sending,
            subscription: properties.receiving.definition(false, properties.upkeep),
        }
    }
}

impl From<Authored<QueueProperties>> for QueueDefinition {
    fn from(read: Authored<QueueProperties>) -> Self {
        let mut definition = Self::from(read.document);
        definition.subscription.as_written = as_written::to_text(&read.own);
        definition
    }
}

/// Reads the body of a PUT.
pub fn parse_queue(body: &Value) -> Result<QueueDefinition, InvalidResource> {
    let read = document::put::<QueueRequest>(body, None, &Context::NONE);
    read.map(|read| read.properties().into())
}

/// Returns the body of the PUT that defines a queue.
pub fn queue_document(definition: &QueueDefinition) -> Value {
    json!({ "properties": QueueProperties::from(definition) })
}

/// Returns the answer that shows a queue with these counts; `None` for a subscription that is not a queue.
pub fn render_queue(
    topic: &TopicEntry,
    subscription: &EventSubscription,
    counts: QueueCounts,
) -> Option<Value> {
    let definition = QueueDefinition {
        sending: topic.topic.kind.sending()?.clone(),
        subscription: MessageSubscription::of(&subscription.definition)?,
    };
    let answer = QueueAnswer::of(counts);
    let set = QueueProperties::from(&definition);
    let whole = json!(Resource {
        id: topic.resource_id.to_string(),
        name: topic.topic.name.as_str().to_owned(),
        r#type: "Microsoft.ServiceBus/namespaces/queues".to_owned(),
        system_data: SystemData::new(topic.topic.created_at, subscription.updated_at),
        document: Envelope {
            properties: Answered { set, answer },
        },
    });
    let (own, schema) = (
        &definition.subscription.as_written,
        schema_of::<QueueProperties>(),
    );
    Some(as_written::resource(whole, own, schema, AnswerScope::All))
}

/// Returns the document of a queue, or of a topic of Service Bus, with the size of messages that the tier prescribes
/// for all, if it prescribes one.
pub fn in_tier(mut shown: Value, tier: ServiceBusTier) -> Value {
    if let Some(kilobytes) = tier.message_kilobytes() {
        shown["properties"][MESSAGE_KILOBYTES] = kilobytes.into();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_azures_defaults() {
        let expected = QueueDefinition {
            sending: SendRules::default(),
            subscription: MessageSubscription {
                deliveries_max: 10,
                time_to_live: DURATION_MAX,
                pull: PullQueue {
                    lock_duration: Duration::from_secs(60),
                    receiving: ReceiveRules::default(),
                    keeps_unevaluated: false,
                    upkeep: EntityUpkeep::default(),
                },
                as_written: AsWritten::default(),
            },
        };
        for body in [
            json!({}),
            json!({ "properties": {} }),
            json!({ "properties": { "requiresSession": false, "forwardTo": null } }),
        ] {
            let mut parsed = parse_queue(&body).expect("a queue");
            parsed.subscription.as_written = AsWritten::default();
            assert_eq!(parsed, expected, "{body}");
        }
        let body = json!({ "properties": {
            "lockDuration": "PT30S", "maxDeliveryCount": 3, "defaultMessageTimeToLive": "P1D",
            "deadLetteringOnMessageExpiration": true, "requiresSession": true,
            "requiresDuplicateDetection": true, "duplicateDetectionHistoryTimeWindow": "PT30S",
            "forwardDeadLetteredMessagesTo": "graves", "userMetadata": "for the night",
            "status": "SendDisabled", "autoDeleteOnIdle": "PT1H", "maxSizeInMegabytes": 2048, "enablePartitioning": false,
        } });
        let parsed = parse_queue(&body).expect("a queue");
        assert_eq!(parsed.subscription.deliveries_max, 3);
        assert_eq!(queue_document(&parsed), body);
    }

    #[test]
    fn what_is_partitioned_has_the_size_of_all_partitions() {
        let kept = |properties: Value| {
            let parsed = parse_queue(&json!({ "properties": properties })).expect("a queue");
            let shown = queue_document(&parsed);
            let again = parse_queue(&shown).expect("a queue");
            assert_eq!(queue_document(&again), shown, "it stays as it is shown");
            let shown = &shown["properties"];
            (
                shown["maxSizeInMegabytes"].clone(),
                shown["supportOrdering"].clone(),
            )
        };
        for (properties, megabytes) in [
            (json!({}), 16_384),
            (json!({ "maxSizeInMegabytes": 5_120 }), 81_920),
            (json!({ "maxSizeInMegabytes": 16_384 }), 16_384),
        ] {
            let mut properties = properties;
            properties["enablePartitioning"] = true.into();
            assert_eq!(kept(properties.clone()), (json!(megabytes), json!(false)));
            properties["supportOrdering"] = true.into();
            assert_eq!(kept(properties), (json!(megabytes), json!(true)));
        }
        let plain = kept(json!({ "enablePartitioning": false, "supportOrdering": false }));
        assert_eq!(plain, (json!(1_024), json!(false)));
        assert_eq!(
            kept(json!({ "maxMessageSizeInKilobytes": 256 })).1,
            Value::Null
        );
    }

    #[test]
    fn what_cannot_be_obeyed_is_rejected() {
        for (properties, path) in [
            (json!({ "lockDuration": "PT4S" }), "lockDuration"),
            (json!({ "lockDuration": "PT5M1S" }), "lockDuration"),
            (json!({ "lockDuration": "a minute" }), "lockDuration"),
            (json!({ "maxDeliveryCount": 0 }), "maxDeliveryCount"),
            (json!({ "maxSizeInMegabytes": 0 }), "maxSizeInMegabytes"),
            (
                json!({ "defaultMessageTimeToLive": "PT0S" }),
                "defaultMessageTimeToLive",
            ),
            (
                json!({ "duplicateDetectionHistoryTimeWindow": "PT19S" }),
                "duplicateDetectionHistoryTimeWindow",
            ),
            (json!({ "userMetadata": "x".repeat(1_025) }), "userMetadata"),
            (json!({ "autoDeleteOnIdle": "PT4M59S" }), "autoDeleteOnIdle"),
            (json!({ "status": "Asleep" }), "status"),
            (json!({ "forwardTo": "a b" }), "forwardTo"),
            (
                json!({ "maxMessageSizeInKilobytes": 1_023 }),
                "maxMessageSizeInKilobytes",
            ),
            (
                json!({ "maxMessageSizeInKilobytes": 102_401 }),
                "maxMessageSizeInKilobytes",
            ),
        ] {
            let body = json!({ "properties": properties });
            let rejected = parse_queue(&body).expect_err("a fault");
            assert_eq!(
                rejected.first().path,
                format!("properties.{path}"),
                "{body}"
            );
        }
    }
}
