//! All namespaces, topics and event subscriptions, as one immutable snapshot.
//!
//! Readers hold an `Arc` of it for as long as they need one consistent view; a change makes a new one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::base::Timestamp;
use crate::model::access::AccessKeys;
use crate::model::event::Event;
use crate::model::filter::{Dialect, EventView};
use crate::model::name::{NamespaceName, SubscriptionName, TopicName};
use crate::model::namespace::Namespace;
use crate::model::retry::RetryPolicy;
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::model::topic::{NetworkAccess, Topic, TopicId};

/// The Azure subscription and resource group in resource ids. Both are settings without further effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceScope {
    pub subscription: String,
    pub resource_group: String,
}

impl ResourceScope {
    /// The resource id of a namespace.
    pub fn namespace_id(&self, name: &NamespaceName) -> String {
        format!("{}/namespaces/{name}", self.provider())
    }

    /// The resource id of a topic (rule A).
    pub fn topic_id(&self, name: &TopicName) -> String {
        let parent = match name.namespace() {
            Some(namespace) => self.namespace_id(&namespace),
            None => self.provider(),
        };
        format!("{parent}/topics/{}", name.own())
    }

    fn provider(&self) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.EventGrid",
            self.subscription, self.resource_group
        )
    }
}

/// A namespace with its resource id.
#[derive(Clone, Debug)]
pub struct NamespaceEntry {
    pub namespace: Namespace,
    pub resource_id: Arc<str>,
}

/// A topic with its event subscriptions.
#[derive(Clone, Debug)]
pub struct TopicEntry {
    pub topic: Topic,
    pub resource_id: Arc<str>,
    /// `None` for a custom topic.
    pub namespace: Option<Arc<NamespaceEntry>>,
    /// By the name's key, hence in alphabetical order.
    pub subscriptions: BTreeMap<String, Arc<EventSubscription>>,
}

/// The snapshot.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    scope: ResourceScope,
    /// By the name's key, hence in alphabetical order.
    namespaces: BTreeMap<String, Arc<NamespaceEntry>>,
    /// By the name's key, hence in alphabetical order.
    topics: BTreeMap<String, Arc<TopicEntry>>,
    topic_keys: HashMap<TopicId, String>,
    /// Topic and subscription key by subscription.
    subscription_keys: HashMap<SubscriptionId, (String, String)>,
}

impl Registry {
    /// Builds the snapshot from the stored rows. Subscriptions of unknown topics are left out.
    pub fn new(
        scope: &ResourceScope,
        namespaces: Vec<Namespace>,
        topics: Vec<Topic>,
        subscriptions: Vec<EventSubscription>,
    ) -> Self {
        let mut registry = Self {
            scope: scope.clone(),
            ..Self::default()
        };
        for namespace in namespaces {
            let resource_id = scope.namespace_id(&namespace.name).into();
            let key = namespace.name.key();
            let entry = NamespaceEntry {
                namespace,
                resource_id,
            };
            registry.namespaces.insert(key, Arc::new(entry));
        }
        let mut entries: HashMap<TopicId, TopicEntry> = topics
            .into_iter()
            .map(|topic| {
                let resource_id = scope.topic_id(&topic.name).into();
                let namespace = topic.name.namespace();
                let namespace = namespace.and_then(|name| registry.namespace(&name).cloned());
                let subscriptions = BTreeMap::new();
                (
                    topic.id,
                    TopicEntry {
                        topic,
                        resource_id,
                        namespace,
                        subscriptions,
                    },
                )
            })
            .collect();
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

    /// The resource id of a topic, also of one that is deleted.
    pub fn resource_id(&self, topic: &TopicName) -> String {
        self.scope.topic_id(topic)
    }

    /// All namespaces by name.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<NamespaceEntry>> {
        self.namespaces.values()
    }

    /// The namespace of that name, in any letter case.
    pub fn namespace(&self, name: &NamespaceName) -> Option<&Arc<NamespaceEntry>> {
        self.namespaces.get(&name.key())
    }

    /// The topics of a namespace.
    pub fn topics_of(&self, namespace: &NamespaceName) -> impl Iterator<Item = &Arc<TopicEntry>> {
        let is_in_it = move |entry: &&Arc<TopicEntry>| {
            entry.topic.name.namespace().as_ref() == Some(namespace)
        };
        self.topics().filter(is_in_it)
    }

    /// The topics that belong to no namespace, the built-in ones among them.
    pub fn custom_topics(&self) -> impl Iterator<Item = &Arc<TopicEntry>> {
        self.topics().filter(|entry| entry.namespace.is_none())
    }

    /// The topics that users have created, of both kinds, by name.
    pub fn made_topics(&self) -> impl Iterator<Item = &Arc<TopicEntry>> {
        self.topics().filter(|entry| !entry.topic.is_built_in())
    }

    /// All topics, for people to choose from: users' topics first, then the built-in ones.
    pub fn topics_to_choose(&self) -> impl Iterator<Item = &Arc<TopicEntry>> {
        let built_in = self.topics().filter(|entry| entry.topic.is_built_in());
        self.made_topics().chain(built_in)
    }

    /// All topics by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<TopicEntry>> {
        self.topics.values()
    }

    /// The topic of that name, in any letter case.
    pub fn topic(&self, name: &TopicName) -> Option<&Arc<TopicEntry>> {
        self.topics.get(&name.key())
    }

    /// The topic of that id.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicEntry>> {
        self.topics.get(self.topic_keys.get(&id)?)
    }

    /// The event subscription of that id, with its topic.
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
    /// Its keys: its own, and those of its namespace. A built-in topic has none.
    pub fn access_keys(&self) -> impl Iterator<Item = &AccessKeys> {
        let shared = self.namespace.iter().map(|entry| &entry.namespace.keys);
        self.topic.keys.iter().chain(shared)
    }

    /// The URL for its publishers; `base` is the URL of the appliance.
    pub fn publish_url(&self, base: &str) -> String {
        let path = self.topic.name.path();
        match self.namespace {
            None => format!("{base}{path}/api/events"),
            Some(_) => format!("{base}{path}:publish"),
        }
    }

    /// The network rules for its publishers.
    pub fn network_access(&self) -> &NetworkAccess {
        match &self.namespace {
            Some(entry) => &entry.namespace.definition.network_access,
            None => &self.topic.definition.network_access,
        }
    }

    /// The retry policy of a subscription, limited by the retention of a namespace topic (rule N1.1).
    pub fn retry_policy(&self, subscription: &EventSubscription) -> RetryPolicy {
        let policy = &subscription.definition.retry_policy;
        let retention = self.topic.definition.event_retention;
        RetryPolicy {
            time_to_live: retention
                .map_or(policy.time_to_live, |most| policy.time_to_live.min(most)),
            ..policy.clone()
        }
    }

    /// The dialect of the filters of its subscriptions.
    pub fn filter_dialect(&self) -> Dialect {
        match self.namespace {
            None => Dialect::Basic,
            Some(_) => Dialect::Namespace,
        }
    }

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

    /// The subscriptions that match `event`, published at `now`.
    pub fn fan_out(&self, event: &Event, now: Timestamp) -> Vec<SubscriptionId> {
        let view = self.view(event);
        self.subscriptions
            .values()
            .filter(|each| each.takes_events(now) && each.definition.filter.matches(&view))
            .map(|each| each.id)
            .collect()
    }
}
