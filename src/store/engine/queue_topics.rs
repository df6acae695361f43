//! The topic of each queue and subscription. Receivers from all subscriptions of a topic share one turn.

use std::sync::RwLock;

use crate::model::registry::Registry;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::engine::queue::Whose;

/// Knows the catalog as it was last read or changed.
#[derive(Default)]
pub(super) struct QueueTopics(RwLock<Registry>);

impl QueueTopics {
    pub(super) fn set(&self, registry: &Registry) {
        *self.0.write().unwrap() = registry.clone();
    }

    /// Returns the topic of a queue or a subscription, and of its transfer queue; `None` of one that is gone.
    pub(super) fn topic_of(&self, queue: SubscriptionId) -> Option<TopicId> {
        let registry = self.0.read().unwrap();
        let found = registry.subscription(queue.owner());
        found.map(|(_, subscription)| subscription.topic_id)
    }

    /// Returns those who have one turn together with `whose`.
    pub(super) fn group(&self, whose: Whose) -> Whose {
        match whose {
            Whose::Queue(queue) => Whose::queues_of(self.topic_of(queue)),
            Whose::Appliance
            | Whose::Accounts
            | Whose::Inspectors
            | Whose::Forwarder
            | Whose::Topic(_)
            | Whose::QueuesOf(_)
            | Whose::AnyQueue => whose,
        }
    }
}

/// A catalog of these topics, with subscriptions of these ids.
#[cfg(test)]
pub(super) fn catalog(
    topics: impl IntoIterator<Item = (i64, impl IntoIterator<Item = i64>)>,
) -> Registry {
    use crate::base::Timestamp;
    use crate::model::name::{SubscriptionName, TopicName};
    use crate::model::subscription::{EventSubscription, SubscriptionDefinition, Validation};
    use crate::model::topic::{CustomTopic, ServiceBusNamespace, Topic, TopicKind};

    let at = Timestamp::from_ms(0);
    let mut registry = Registry::default();
    for (topic, subscriptions) in topics {
        registry.put_topic(Topic {
            id: TopicId(topic),
            service_bus_namespace: ServiceBusNamespace::DEFAULT,
            name: TopicName::custom(&format!("topic-{topic}")).expect("a name"),
            kind: TopicKind::Custom(CustomTopic::default()),
            keys: None,
            created_at: at,
            updated_at: at,
        });
        for id in subscriptions {
            registry.put_subscription(EventSubscription {
                id: SubscriptionId(id),
                topic_id: TopicId(topic),
                name: SubscriptionName::parse(&format!("subscription-{id}")).expect("a name"),
                definition: SubscriptionDefinition::unreadable(true),
                validation: Validation::succeeded(None),
                created_at: at,
                updated_at: at,
            });
        }
    }
    registry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_received_from_takes_the_turn_of_its_topic() {
        let topics = QueueTopics::default();
        topics.set(&catalog([(7, [1, 2]), (8, [3, 4])]));
        let group = |id| topics.group(Whose::Queue(SubscriptionId(id)));
        for (id, topic) in [(1, 7), (2, 7), (-2, 7), (3, 8)] {
            assert_eq!(group(id), Whose::QueuesOf(TopicId(topic)), "{id}");
        }
        assert_eq!(group(5), Whose::AnyQueue, "gone");
        let sends = Whose::Topic(TopicId(7));
        assert_eq!(topics.group(sends), sends);
    }
}
