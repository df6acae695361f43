//! Queues of Azure Service Bus, its topics, and their subscriptions (rule S1, S7).
//!
//! A queue is a topic of the kind `Queue` with one subscription that receivers pull: what is sent to it are events, and
//! what is locked and settled are their deliveries. A topic of the kind `ServiceBus` has any number of such
//! subscriptions, each of which gets what its rules say (`model::rule`). Both kinds may have event subscriptions
//! besides. What two of the nouns have in common is a struct, so that a property is one field.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::named::named_enum;
use crate::model::as_written::AsWritten;
use crate::model::destination::{EntityId, PullSettings};
use crate::model::entity_status::EntityStatus;
use crate::model::filter::{Dialect, Filter};
use crate::model::lease::SubQueue;
use crate::model::limits::{DUPLICATE_WINDOW, MESSAGE_BYTES_MAX, QUEUE_MEGABYTES};
use crate::model::name::TopicName;
use crate::model::retry::{DeliveryProfile, RetryPolicy};
use crate::model::subscription::{
    DeadLetterDestination, SubscriptionDefinition, SubscriptionId, SubscriptionOptions,
};
use crate::model::topic::{DeliverySchema, TopicId};

/// Rules of a queue or a topic for what is sent to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRules {
    /// Mebibytes that its messages may have together, dead letters among them; of a topic those of all subscriptions.
    pub megabytes_max: u32,
    /// A message whose id is remembered is accepted and dropped.
    pub detects_duplicates: bool,
    /// How long ids are remembered.
    pub duplicate_window: Duration,
}

impl Default for SendRules {
    fn default() -> Self {
        Self {
            megabytes_max: QUEUE_MEGABYTES,
            detects_duplicates: false,
            duplicate_window: DUPLICATE_WINDOW,
        }
    }
}

impl SendRules {
    /// Returns the property in which it differs from what it is now, and which cannot be changed: what was sent before
    /// would not be known.
    pub fn fixed_change(&self, now: &Self) -> Option<&'static str> {
        let is_same = self.detects_duplicates == now.detects_duplicates;
        (!is_same).then_some("requiresDuplicateDetection")
    }
}

/// Rules of a queue or a subscription for what is received from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiveRules {
    /// Messages that expire become dead letters. Otherwise they are dropped.
    pub keeps_expired: bool,
    /// Each message belongs to a session, and is received by who holds that.
    pub has_sessions: bool,
    /// The queue or topic that messages go on to (rule S4.2).
    pub forward_to: Option<EntityId>,
    /// The queue or topic that dead letters go on to.
    pub forward_dead_letters_to: Option<EntityId>,
}

/// The property with the entity that messages go on to.
pub const FORWARD_PROPERTY: &str = "forwardTo";

/// The property with the entity that dead letters go on to.
pub const FORWARD_DEAD_LETTERS_PROPERTY: &str = "forwardDeadLetteredMessagesTo";

/// The parts of a queue or a subscription whose messages can go on to another entity, with the properties that name it.
pub const FORWARDS: [(SubQueue, &str); 2] = [
    (SubQueue::Active, FORWARD_PROPERTY),
    (SubQueue::DeadLetter, FORWARD_DEAD_LETTERS_PROPERTY),
];

/// A queue or a topic that another entity names in one of its properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityReference<'a> {
    pub property: &'static str,
    pub to: &'a TopicName,
}

impl ReceiveRules {
    /// Returns the entity that the messages of a part go on to.
    pub fn forward_target(&self, from: SubQueue) -> Option<&EntityId> {
        match from {
            SubQueue::Active => self.forward_to.as_ref(),
            SubQueue::DeadLetter => self.forward_dead_letters_to.as_ref(),
        }
    }

    /// Returns all entities that are named here.
    pub fn references(&self) -> impl Iterator<Item = EntityReference<'_>> {
        FORWARDS.into_iter().filter_map(|(from, property)| {
            let to = self.forward_target(from)?.name();
            Some(EntityReference { property, to })
        })
    }

    /// Says whether anything goes on to another entity.
    pub fn forward(&self) -> bool {
        FORWARDS
            .iter()
            .any(|(from, _)| self.forward_target(*from).is_some())
    }
}

/// The settings of each queue, topic and subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityUpkeep {
    /// How long it may be idle before it is deleted; `None` for ever.
    pub delete_on_idle: Option<Duration>,
    /// True if messages can be sent to it and received from it.
    pub status: EntityStatus,
    /// Properties that are kept and shown without effect, as JSON by their names.
    pub inert: BTreeMap<String, String>,
}

impl EntityUpkeep {
    /// Returns the property in which it differs from what it is now, and which cannot be changed, as in Azure.
    pub fn fixed_change(&self, now: &Self) -> Option<&'static str> {
        let is_on = |upkeep: &Self| upkeep.inert.get(PARTITIONED).is_some_and(|it| it == "true");
        (is_on(self) != is_on(now)).then_some(PARTITIONED)
    }

    /// Returns the bytes that a message, or a batch of them, may have: what the tier or the entity says, within what the
    /// appliance takes.
    pub fn message_bytes_max(&self, tier: ServiceBusTier, appliance_max: u64) -> u64 {
        let kilobytes = tier.message_kilobytes().or_else(|| self.own_kilobytes());
        let own = kilobytes.map_or(MESSAGE_BYTES_MAX, |kilobytes| kilobytes * 1_024);
        own.min(appliance_max.max(MESSAGE_BYTES_MAX))
    }

    /// Rejects a maximum message size that the tier does not have.
    pub fn check_size(&self, tier: ServiceBusTier) -> Result<(), SizeNotInTier> {
        let (of_tier, own) = (tier.message_kilobytes(), self.own_kilobytes());
        if of_tier.is_some() && own.is_some() && own != of_tier {
            return Err(SizeNotInTier);
        }
        Ok(())
    }

    /// Returns the inert properties with which it can be defined again: without a maximum message size that the tier does not have.
    pub fn inert_in(&self, tier: ServiceBusTier) -> impl Iterator<Item = (&String, &String)> {
        let has_size = self.check_size(tier).is_ok();
        let all = self.inert.iter();
        all.filter(move |(name, _)| has_size || name.as_str() != MESSAGE_KILOBYTES)
    }

    fn own_kilobytes(&self) -> Option<u64> {
        self.inert.get(MESSAGE_KILOBYTES)?.parse().ok()
    }
}

named_enum! {
    /// The tier of Azure Service Bus whose limits hold for all queues and topics.
    #[derive(Default)]
    pub enum ServiceBusTier {
        #[default]
        Premium,
        Standard,
    }
}

impl ServiceBusTier {
    /// Returns the kilobytes that messages may have everywhere; `None` where each queue and topic says how many.
    pub fn message_kilobytes(self) -> Option<u64> {
        match self {
            Self::Premium => None,
            Self::Standard => Some(STANDARD_KILOBYTES),
        }
    }
}

/// The definition of a queue or topic has a maximum message size that the tier does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the property 'MaxMessageSizeInKilobytes' cannot be set: the Standard tier (setting service_bus.tier) takes \
     messages of up to {STANDARD_KILOBYTES} KB"
)]
pub struct SizeNotInTier;

/// Kilobytes that a message may have in the Standard tier.
pub const STANDARD_KILOBYTES: u64 = 256;

/// The property of what Azure partitions.
const PARTITIONED: &str = "enablePartitioning";

/// The property with the maximum message size.
pub const MESSAGE_KILOBYTES: &str = "maxMessageSizeInKilobytes";

/// The definition of a topic of Service Bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceBusTopic {
    pub sending: SendRules,
    /// How long messages live at most, whatever they and the subscriptions say.
    pub time_to_live: Duration,
    pub upkeep: EntityUpkeep,
    pub as_written: AsWritten,
}

/// The definition of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDefinition {
    pub sending: SendRules,
    /// The setting of its receivers.
    pub subscription: MessageSubscription,
}

/// The definition of a subscription of messages: one of a Service Bus topic, or the one of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSubscription {
    /// Deliveries of a message, the first one included, before it is dead-lettered.
    pub deliveries_max: u32,
    /// How long messages live at most; one may have less time of its own.
    pub time_to_live: Duration,
    pub pull: PullSettings,
    pub as_written: AsWritten,
}

/// An entity that messages are sent to or received from, and that can therefore be idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageEntity {
    /// A topic of Service Bus.
    Topic(TopicId),
    /// A queue, or a subscription of messages.
    Queue(SubscriptionId),
}

/// How many messages lie in a queue, or in a subscription of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Counts those that are locked or deferred, too.
    pub active: u64,
    pub scheduled: u64,
    pub dead_letters: u64,
    /// Counts those that go on to another entity, because they were sent there by way of this one.
    pub transfers: u64,
    /// Counts those that could not go on.
    pub transfer_dead_letters: u64,
    /// The size of all messages, in bytes.
    pub bytes: u64,
}

impl QueueCounts {
    /// Returns how many they are together.
    pub fn all(self) -> u64 {
        let received = self.active + self.scheduled + self.dead_letters;
        received + self.transfers + self.transfer_dead_letters
    }
}

impl MessageSubscription {
    /// Returns what this subscription is as one of messages; `None` for one that is pushed.
    pub fn of(subscription: &SubscriptionDefinition) -> Option<Self> {
        Some(Self {
            deliveries_max: subscription.retry_policy.attempts_max,
            time_to_live: subscription.retry_policy.time_to_live,
            pull: subscription.destination.pull_queue()?.clone(),
            as_written: subscription.as_written.clone(),
        })
    }

    /// Returns the definition of a new subscription.
    pub fn subscription(&self) -> SubscriptionDefinition {
        SubscriptionDefinition {
            destination: self.pull.clone().into(),
            filter: Filter {
                dialect: Dialect::Namespace,
                ..Filter::default()
            },
            delivery_schema: DeliverySchema::CloudEventSchemaV1_0,
            retry_policy: RetryPolicy {
                profile: DeliveryProfile::Namespace,
                attempts_max: self.deliveries_max,
                time_to_live: self.time_to_live,
                own_waits: Vec::new(),
            },
            dead_letter: DeadLetterDestination::BuiltInQueue,
            options: SubscriptionOptions::default(),
            expires_at: None,
            disabled: None,
            as_written: self.as_written.clone(),
        }
    }

    /// Returns the property in which it differs from what it is now, and which cannot be changed: it would leave
    /// messages that nobody can receive.
    pub fn fixed_change(&self, now: &Self) -> Option<&'static str> {
        let is_same = self.pull.receiving.has_sessions == now.pull.receiving.has_sessions;
        (!is_same).then_some("requiresSession")
    }

    /// The event subscription that was `before`, whose deliveries stay paused if they were.
    pub fn changed(&self, before: &SubscriptionDefinition) -> SubscriptionDefinition {
        let changed = self.subscription();
        SubscriptionDefinition {
            destination: changed.destination,
            retry_policy: changed.retry_policy,
            as_written: changed.as_written,
            ..before.clone()
        }
    }
}

impl ServiceBusTopic {
    /// Returns the property in which it differs from what the topic is now, and which cannot be changed.
    pub fn fixed_change(&self, now: &Self) -> Option<&'static str> {
        let sending = self.sending.fixed_change(&now.sending);
        sending.or_else(|| self.upkeep.fixed_change(&now.upkeep))
    }
}

impl QueueDefinition {
    /// Returns the property in which it differs from what the queue is now, and which cannot be changed.
    pub fn fixed_change(&self, now: &Self) -> Option<&'static str> {
        let (own, of_now) = (&self.subscription, &now.subscription);
        let sending = || self.sending.fixed_change(&now.sending);
        let upkeep = || own.pull.upkeep.fixed_change(&of_now.pull.upkeep);
        own.fixed_change(of_now).or_else(sending).or_else(upkeep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_large_as_their_queue_says_within_what_the_appliance_takes() {
        const MEBIBYTE: u64 = 1_048_576;
        for (kilobytes, appliance_max, expected) in [
            (None, MEBIBYTE, MEBIBYTE),
            (None, 64 * MEBIBYTE, MEBIBYTE),
            (Some("256"), MEBIBYTE, MEBIBYTE / 4),
            (Some("102400"), MEBIBYTE, MEBIBYTE),
            (Some("102400"), 64 * MEBIBYTE, 64 * MEBIBYTE),
            (Some("2048"), 64 * MEBIBYTE, 2 * MEBIBYTE),
            (Some("2048"), 1_024, MEBIBYTE),
        ] {
            let upkeep = of_size(kilobytes);
            let found = upkeep.message_bytes_max(ServiceBusTier::Premium, appliance_max);
            assert_eq!(found, expected, "{kilobytes:?} {appliance_max}");
            let found = upkeep.message_bytes_max(ServiceBusTier::Standard, appliance_max);
            assert_eq!(found, MEBIBYTE / 4, "{kilobytes:?} {appliance_max}");
        }
    }

    #[test]
    fn the_standard_tier_has_one_size_of_messages() {
        for (kilobytes, is_taken) in [
            (None, true),
            (Some("256"), true),
            (Some("1024"), false),
            (Some("102400"), false),
        ] {
            let mut upkeep = of_size(kilobytes);
            upkeep
                .inert
                .insert(PARTITIONED.to_owned(), "true".to_owned());
            assert_eq!(upkeep.check_size(ServiceBusTier::Premium), Ok(()));
            let in_premium = upkeep.inert_in(ServiceBusTier::Premium);
            assert!(in_premium.eq(&upkeep.inert), "{kilobytes:?}");
            let checked = upkeep.check_size(ServiceBusTier::Standard);
            assert_eq!(checked.is_ok(), is_taken, "{kilobytes:?}");
            let names = upkeep
                .inert_in(ServiceBusTier::Standard)
                .map(|(name, _)| name.as_str());
            let size = kilobytes.filter(|_| is_taken).map(|_| MESSAGE_KILOBYTES);
            let expected: Vec<&str> = [PARTITIONED].into_iter().chain(size).collect();
            assert_eq!(names.collect::<Vec<_>>(), expected, "{kilobytes:?}");
        }
    }

    fn of_size(kilobytes: Option<&str>) -> EntityUpkeep {
        let size = kilobytes.map(|text| (MESSAGE_KILOBYTES.to_owned(), text.to_owned()));
        EntityUpkeep {
            inert: size.into_iter().collect(),
            ..EntityUpkeep::default()
        }
    }
}
