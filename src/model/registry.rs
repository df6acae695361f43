//! All topics and event subscriptions, as one immutable snapshot.
//!
//! Readers hold an `Arc` of it for as long as they need one consistent view; a change makes a new one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::base::Timestamp;
use crate::model::event::Event;
use crate::model::filter::EventView;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::model::topic::{Topic, TopicId};

/// The Azure subscription and resource group that resource ids are written with. Both are settings
/// without further meaning here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceScope {
    pub subscription: String,
    pub resource_group: String,
}

impl ResourceScope {
    /// The resource id of a topic (spec A).
    pub fn topic_id(&self, name: &TopicName) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.EventGrid/topics/{name}",
            self.subscription, self.resource_group
        )
    }
}

/// A topic with its event subscriptions.
#[derive(Clone, Debug)]
pub struct TopicEntry {
    pub topic: Topic,
    pub resource_id: Arc<str>,
    /// By the name's key, hence in alphabetical order.
    pub subscriptions: BTreeMap<String, Arc<EventSubscription>>,
}

/// The snapshot.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// By the name's key, hence in alphabetical order.
    topics: BTreeMap<String, Arc<TopicEntry>>,
    topic_keys: HashMap<TopicId, String>,
    /// Topic and subscription key by subscription.
    subscription_keys: HashMap<SubscriptionId, (String, String)>,
}

impl Registry {
    /// Puts the stored rows together. Subscriptions of unknown topics are left out.
    pub fn new(
        scope: &ResourceScope,
        topics: Vec<Topic>,
        subscriptions: Vec<EventSubscription>,
    ) -> Self {
        let mut entries: HashMap<TopicId, TopicEntry> = topics
            .into_iter()
            .map(|topic| {
                let resource_id = scope.topic_id(&topic.name).into();
                let subscriptions = BTreeMap::new();
                (
                    topic.id,
                    TopicEntry {
                        topic,
                        resource_id,
                        subscriptions,
                    },
                )
            })
            .collect();
        let mut registry = Self::default();
        for subscription in subscriptions {
            let Some(entry) = entries.get_mut(&subscription.topic_id) else {
                continue;
            };
            let keys = (entry.topic.name.key(), subscription.name.key());
            registry
                .subscription_keys
                .insert(subscription.id, keys.clone());
            entry.subscriptions.insert(keys.1, Arc::new(subscription));
        }
        for (id, entry) in entries {
            let key = entry.topic.name.key();
            registry.topic_keys.insert(id, key.clone());
            registry.topics.insert(key, Arc::new(entry));
        }
        registry
    }

    /// All topics by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<TopicEntry>> {
        self.topics.values()
    }

    /// The topic of that name, in any letter case.
    pub fn topic(&self, name: &TopicName) -> Option<&Arc<TopicEntry>> {
        self.topics.get(&name.key())
    }

    /// The topic of that number.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicEntry>> {
        self.topics.get(self.topic_keys.get(&id)?)
    }

    /// The event subscription of that number, with its topic.
    pub fn subscription(
        &self,
        id: SubscriptionId,
    ) -> Option<(&Arc<TopicEntry>, &Arc<EventSubscription>)> {
        let (topic, name) = self.subscription_keys.get(&id)?;
        let entry = self.topics.get(topic)?;
        Some((entry, entry.subscriptions.get(name)?))
    }

    /// All event subscriptions, by topic and name.
    pub fn subscriptions(
        &self,
    ) -> impl Iterator<Item = (&Arc<TopicEntry>, &Arc<EventSubscription>)> {
        self.topics()
            .flat_map(|entry| entry.subscriptions.values().map(move |each| (entry, each)))
    }
}

impl TopicEntry {
    /// The event subscription of that name, in any letter case.
    pub fn subscription(&self, name: &SubscriptionName) -> Option<&Arc<EventSubscription>> {
        self.subscriptions.get(&name.key())
    }

    /// `event` as the filters of this topic's subscriptions see it.
    pub fn view<'a>(&'a self, event: &'a Event) -> EventView<'a> {
        match self.topic.definition.input_schema.is_of_any_shape() {
            true => EventView::of_custom_input(event, &self.resource_id),
            false => EventView::new(event, &self.resource_id),
        }
    }

    /// The subscriptions that want `event`, published at `now`.
    pub fn fan_out(&self, event: &Event, now: Timestamp) -> Vec<SubscriptionId> {
        let view = self.view(event);
        self.subscriptions
            .values()
            .filter(|each| each.takes_events(now) && each.definition.filter.matches(&view))
            .map(|each| each.id)
            .collect()
    }
}
