//! Queues of Azure Service Bus, and the subscriptions of its topics (rule S1, S7).
//!
//! A queue is a topic with one event subscription of its own name, which receivers pull: what is sent to it are
//! events, and what is locked and settled are their deliveries. A Service Bus topic is a topic whose definition has a
//! time to live of messages. Each of its subscriptions is a queue of its own in all but its name, and gets what its
//! rules say (`model::rule`).

use std::time::Duration;

use crate::model::destination::{Destination, PullQueue, QueueRules};
use crate::model::filter::{Dialect, Filter};
use crate::model::retry::{DeliveryProfile, RetryPolicy};
use crate::model::subscription::{DeadLetterDestination, SubscriptionDefinition, SubscriptionId};
use crate::model::topic::{DeliverySchema, TopicId};

/// What the operator decides about a queue, or a subscription of a Service Bus topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDefinition {
    /// How long a receiver holds a message unless it renews the lock.
    pub lock_duration: Duration,
    /// Deliveries of a message, the first one included, before it is dead-lettered.
    pub deliveries_max: u32,
    /// How long messages live at most; one may have less time of its own.
    pub time_to_live: Duration,
    pub rules: QueueRules,
}

/// What messages are sent to or received from, as far as it can be idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageEntity {
    /// Of Service Bus.
    Topic(TopicId),
    /// A queue, or a subscription of messages.
    Queue(SubscriptionId),
}

/// How many messages lie in a queue, or in a subscription of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Those that are locked or deferred included.
    pub active: u64,
    pub scheduled: u64,
    pub dead_letters: u64,
    /// Of all of them.
    pub bytes: u64,
}

impl QueueDefinition {
    /// The queue, or subscription of messages, that this subscription is; `None` for one that is pushed.
    pub fn of(subscription: &SubscriptionDefinition) -> Option<Self> {
        match &subscription.destination {
            Destination::WebHook(_)
            | Destination::ServiceBusQueue(_)
            | Destination::ServiceBusTopic(_) => None,
            Destination::Queue(queue) => Some(Self {
                lock_duration: queue.lock_duration,
                deliveries_max: subscription.retry_policy.attempts_max,
                time_to_live: subscription.retry_policy.time_to_live,
                rules: queue.rules.clone(),
            }),
        }
    }

    /// The event subscription of a new queue, or of a new subscription of messages.
    pub fn subscription(&self) -> SubscriptionDefinition {
        SubscriptionDefinition {
            destination: Destination::Queue(PullQueue {
                lock_duration: self.lock_duration,
                rules: self.rules.clone(),
            }),
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
            labels: Vec::new(),
            expires_at: None,
            paused: false,
            disabled: None,
            disable_on_gone: false,
        }
    }

    /// The property in which it differs from what the queue is, and which cannot be changed: it would leave messages
    /// that nobody can receive, or that were never looked at.
    pub fn fixed_change(&self, now: &Self) -> Option<&'static str> {
        let (one, other) = (&self.rules, &now.rules);
        let fixed = [
            (one.has_sessions == other.has_sessions, "requiresSession"),
            (
                one.detects_duplicates == other.detects_duplicates,
                "requiresDuplicateDetection",
            ),
        ];
        let changed = fixed.into_iter().find(|(is_same, _)| !is_same);
        changed.map(|(_, name)| name)
    }

    /// The event subscription that was `before`, whose deliveries stay paused if they were.
    pub fn changed(&self, before: &SubscriptionDefinition) -> SubscriptionDefinition {
        let changed = self.subscription();
        SubscriptionDefinition {
            destination: changed.destination,
            retry_policy: changed.retry_policy,
            ..before.clone()
        }
    }
}
