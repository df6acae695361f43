//! All namespaces, topics and event subscriptions, as one immutable snapshot.
//!
//! Readers hold an `Arc` of the snapshot for as long as they need one consistent view. Each change creates a new
//! snapshot, which shares the unchanged parts with the old one, so the cost of a change does not grow with the number
//! of entities.

use std::sync::Arc;

use rpds::{HashTrieMapSync, RedBlackTreeMapSync};

use crate::base::Timestamp;
use crate::model::access::{AccessKeys, KeyOwner};
use crate::model::destination::DeliveryMode;
use crate::model::event::Event;
use crate::model::filter::{Dialect, EventView};
use crate::model::name::{
    self, AccessRuleName, NamespaceName, RuleName, SubscriptionName, TopicName,
};
use crate::model::namespace::{Namespace, NamespaceId};
use crate::model::queue::{EntityUpkeep, MessageSubscription, QueueDefinition};
use crate::model::retry::RetryPolicy;
use crate::model::rule::{Rule, RuleBook};
use crate::model::shared_access::AccessRule;
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::model::topic::{NetworkAccess, ServiceBusNamespace, Topic, TopicId, TopicKind};

/// The Azure subscription and resource group in resource ids. These two settings have no other effect.
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
        match name.namespace() {
            Some(namespace) => format!("{}/topics/{}", self.namespace_id(&namespace), name.own()),
            None => self.entity_id(name),
        }
    }

    /// Returns the resource id of a topic that belongs to no namespace. Its name may have slashes.
    fn entity_id(&self, name: &TopicName) -> String {
        format!("{}/topics/{name}", self.provider())
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

/// The kinds of entities that are stored as subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// An event subscription, of a topic of any kind or of a queue.
    Event,
    /// The subscription that receivers of a queue pull from. It is part of the queue.
    OfQueue,
    /// A subscription of a Service Bus topic, which has rules.
    ServiceBus,
}

/// A topic with its event subscriptions.
#[derive(Clone, Debug)]
pub struct TopicEntry {
    pub topic: Topic,
    pub resource_id: Arc<str>,
    /// `None` for a custom topic.
    pub namespace: Option<Arc<NamespaceEntry>>,
    /// By the name's key, hence in alphabetical order.
    pub subscriptions: RedBlackTreeMapSync<String, Arc<EventSubscription>>,
    /// The subscription that receivers of a queue pull from; `None` if the entity is not a queue.
    pub own: Option<Arc<EventSubscription>>,
    /// The subscriptions with a pull queue that requires sessions or forwards its messages, in the order of their ids.
    /// Stored here so that publishing does not have to search for them.
    pub ruled_queues: Vec<Arc<EventSubscription>>,
    /// The subscriptions whose messages count toward the size of the entity, in the order of their ids: for a queue,
    /// its own subscription and its transfer queue; for a Service Bus topic, its message subscriptions. Stored here so
    /// that publishing does not have to search for them.
    pub measured: Arc<[SubscriptionId]>,
    /// The rules of the subscriptions of a Service Bus topic; empty for other kinds.
    pub rules: RuleBook,
}

/// The key by which topics of all kinds and queues are looked up and ordered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EntityKey {
    namespace: ServiceBusNamespace,
    /// The key of the name.
    name: String,
}

impl EntityKey {
    fn of(topic: &Topic) -> Self {
        Self {
            namespace: topic.service_bus_namespace.clone(),
            name: topic.name.key(),
        }
    }

    /// Returns the key of a name in the default namespace.
    fn named(name: impl Into<String>) -> Self {
        Self {
            namespace: ServiceBusNamespace::DEFAULT,
            name: name.into(),
        }
    }
}

/// A partial fan-out: the subscriptions of a topic whose filters match an event, among the filters evaluated so far.
#[derive(Debug, Default)]
pub struct FanOutPart {
    pub targets: Vec<SubscriptionId>,
    /// The index of the subscription to continue with; `None` if all filters were evaluated.
    pub next: Option<usize>,
    /// The number of steps that the filters have taken.
    pub steps: usize,
}

/// A snapshot of all namespaces, topics and event subscriptions.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    scope: ResourceScope,
    /// By the name's key, hence in alphabetical order.
    namespaces: RedBlackTreeMapSync<String, Arc<NamespaceEntry>>,
    /// By the name's key, hence in alphabetical order.
    topics: RedBlackTreeMapSync<EntityKey, Arc<TopicEntry>>,
    topic_keys: HashTrieMapSync<TopicId, EntityKey>,
    /// Topic and subscription key by subscription.
    subscription_keys: HashTrieMapSync<SubscriptionId, (EntityKey, String)>,
    /// By the name's key, so that the rules of one queue or topic are adjacent.
    access_rules: RedBlackTreeMapSync<String, Arc<AccessRule>>,
    unreadable: Arc<[String]>,
}

impl Registry {
    /// Builds the snapshot from the stored rows. Subscriptions of unknown topics are omitted.
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
            registry.put_namespace(namespace);
        }
        for topic in topics {
            registry.put_topic(topic);
        }
        for subscription in subscriptions {
            registry.put_subscription(subscription);
        }
        registry
    }

    /// The definitions that could not be read at startup, one sentence each.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    /// Records the definitions that could not be read at startup.
    pub fn set_unreadable(&mut self, unreadable: Arc<[String]>) {
        self.unreadable = unreadable;
    }

    /// Adds or replaces a namespace. Its topics and their event subscriptions stay.
    pub fn put_namespace(&mut self, namespace: Namespace) {
        let entry = Arc::new(NamespaceEntry {
            resource_id: self.scope.namespace_id(&namespace.name).into(),
            namespace,
        });
        let name = &entry.namespace.name;
        let topics: Vec<EntityKey> = self
            .topics_of(name)
            .map(|topic| EntityKey::of(&topic.topic))
            .collect();
        for key in topics {
            if let Some(topic) = self.topics.get_mut(&key) {
                Arc::make_mut(topic).namespace = Some(Arc::clone(&entry));
            }
        }
        self.namespaces.insert_mut(name.key(), entry);
    }

    /// Removes a namespace with its topics and their event subscriptions.
    pub fn remove_namespace(&mut self, id: NamespaceId) {
        let mut found = self.namespaces.values();
        let Some(entry) = found.find(|entry| entry.namespace.id == id).cloned() else {
            return;
        };
        let name = &entry.namespace.name;
        let topics: Vec<TopicId> = self.topics_of(name).map(|topic| topic.topic.id).collect();
        for topic in topics {
            self.remove_topic(topic);
        }
        self.namespaces.remove_mut(&name.key());
    }

    /// Adds or replaces a topic. Its event subscriptions stay.
    pub fn put_topic(&mut self, topic: Topic) {
        let namespace_name = match &topic.kind {
            TopicKind::Namespace { .. } => topic.name.namespace(),
            TopicKind::Custom(_)
            | TopicKind::Queue(_)
            | TopicKind::ServiceBus(_)
            | TopicKind::System(_) => None,
        };
        let namespace = namespace_name.and_then(|name| self.namespace(&name).cloned());
        let resource_id = match &topic.kind {
            TopicKind::Namespace { .. } => self.scope.topic_id(&topic.name),
            TopicKind::Custom(_)
            | TopicKind::Queue(_)
            | TopicKind::ServiceBus(_)
            | TopicKind::System(_) => self.scope.entity_id(&topic.name),
        };
        let (key, id) = (EntityKey::of(&topic), topic.id);
        let entry = match self.topics.get(&key) {
            Some(current) => TopicEntry {
                topic,
                resource_id: resource_id.into(),
                namespace,
                ..TopicEntry::clone(current)
            },
            None => TopicEntry {
                resource_id: resource_id.into(),
                namespace,
                ..TopicEntry::without_subscriptions(topic)
            },
        };
        self.topic_keys.insert_mut(id, key.clone());
        self.topics.insert_mut(key, Arc::new(entry));
    }

    /// Removes a topic with its event subscriptions.
    pub fn remove_topic(&mut self, id: TopicId) {
        let Some(entry) = self.topic_by_id(id).cloned() else {
            return;
        };
        for subscription in entry.subscriptions.values() {
            self.subscription_keys.remove_mut(&subscription.id);
        }
        self.topic_keys.remove_mut(&id);
        let name = &entry.topic.name;
        let rules: Vec<_> = self
            .access_rules_of(Some(name))
            .map(|rule| rule.name.key())
            .collect();
        for rule in rules {
            self.access_rules.remove_mut(&rule);
        }
        self.topics.remove_mut(&EntityKey::of(&entry.topic));
    }

    /// Adds or replaces an access rule.
    pub fn put_access_rule(&mut self, rule: AccessRule) {
        self.access_rules
            .insert_mut(rule.name.key(), Arc::new(rule));
    }

    /// Removes an access rule.
    pub fn remove_access_rule(&mut self, name: &AccessRuleName) {
        self.access_rules.remove_mut(&name.key());
    }

    /// The access rule of that name, in any letter case.
    pub fn access_rule(&self, name: &AccessRuleName) -> Option<&Arc<AccessRule>> {
        self.access_rules.get(&name.key())
    }

    /// All access rules by name.
    pub fn access_rules(&self) -> impl Iterator<Item = &Arc<AccessRule>> {
        self.access_rules.values()
    }

    /// The access rules of a queue or topic, by name; for `None`, the rules that apply to all queues and topics.
    pub fn access_rules_of<'a>(
        &'a self,
        entity: Option<&'a TopicName>,
    ) -> impl Iterator<Item = &'a Arc<AccessRule>> {
        let from = entity.map_or_else(String::new, |entity| format!("{}/", entity.key()));
        let all = self.access_rules.range(from.clone()..);
        let near = all.take_while(move |(key, _)| key.starts_with(&from));
        let is_of = move |rule: &&Arc<AccessRule>| rule.name.entity().as_ref() == entity;
        near.map(|(_, rule)| rule).filter(is_of)
    }

    /// Adds or replaces an event subscription, unless its topic is unknown.
    pub fn put_subscription(&mut self, subscription: EventSubscription) {
        let Some(topic) = self.topic_keys.get(&subscription.topic_id) else {
            return;
        };
        let Some(entry) = self.topics.get_mut(topic) else {
            return;
        };
        let key = subscription.name.key();
        let keys = (topic.clone(), key.clone());
        self.subscription_keys.insert_mut(subscription.id, keys);
        let entry = Arc::make_mut(entry);
        let subscription = Arc::new(subscription);
        entry.subscriptions.insert_mut(key, subscription);
        entry.arrange();
    }

    /// Removes an event subscription.
    pub fn remove_subscription(&mut self, id: SubscriptionId) {
        let Some((topic, key)) = self.subscription_keys.get(&id).cloned() else {
            return;
        };
        self.subscription_keys.remove_mut(&id);
        if let Some(entry) = self.topics.get_mut(&topic) {
            let entry = Arc::make_mut(entry);
            entry.subscriptions.remove_mut(&key);
            entry.rules.remove_all(id);
            entry.arrange();
        }
    }

    /// Adds or replaces a rule of a subscription. Does nothing if the subscription is unknown.
    pub fn put_rule(&mut self, of: SubscriptionId, rule: Rule) {
        if let Some(entry) = self.topic_of(of) {
            entry.rules.put(of, rule);
        }
    }

    /// Removes a rule of a subscription.
    pub fn remove_rule(&mut self, of: SubscriptionId, name: &RuleName) {
        if let Some(entry) = self.topic_of(of) {
            entry.rules.remove(of, name);
        }
    }

    fn topic_of(&mut self, subscription: SubscriptionId) -> Option<&mut TopicEntry> {
        let (topic, _) = self.subscription_keys.get(&subscription)?;
        self.topics.get_mut(topic).map(Arc::make_mut)
    }

    /// The resource id of a topic, even if the topic is deleted.
    pub fn resource_id(&self, topic: &TopicName) -> String {
        let found = self.topic(topic);
        found.map_or_else(
            || self.scope.topic_id(topic),
            |found| found.resource_id.to_string(),
        )
    }

    /// Finds a namespace, queue or Service Bus topic whose path equals `name`, is a prefix of `name`, or begins with
    /// `name`. Such paths conflict because a key for an entity also grants access to every path below it.
    pub fn in_the_way(&self, name: &str) -> Option<String> {
        let key = name.to_ascii_lowercase();
        let is_entity = |topic: &&Arc<TopicEntry>| topic.topic.kind.takes_messages();
        let named = |topic: &Arc<TopicEntry>| topic.topic.name.to_string();
        let above = || {
            name::above(&key).chain([key.as_str()]).find_map(|above| {
                let topic = self.topics.get(&EntityKey::named(above));
                let entity = topic.filter(is_entity).map(named);
                let namespace = self.namespaces.get(above);
                namespace
                    .map(|found| format!("the namespace {}", found.namespace.name))
                    .or(entity)
            })
        };
        let from = EntityKey::named(format!("{key}/"));
        let mut all_below = self.topics.range(from.clone()..).take_while(|(each, _)| {
            each.namespace == from.namespace && each.name.starts_with(&from.name)
        });
        let below = all_below.find(|(_, topic)| is_entity(topic));
        above().or(below.map(|(_, topic)| named(topic)))
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
            let own = entry.namespace.as_ref();
            own.is_some_and(|own| own.namespace.name == *namespace)
        };
        self.topics().filter(is_in_it)
    }

    /// The topics of events that belong to no namespace, the built-in ones among them.
    pub fn custom_topics(&self) -> impl Iterator<Item = &Arc<TopicEntry>> {
        let is_custom = |entry: &&Arc<TopicEntry>| match entry.topic.kind {
            TopicKind::Custom(_) | TopicKind::System(_) => true,
            TopicKind::Namespace { .. } | TopicKind::Queue(_) | TopicKind::ServiceBus(_) => false,
        };
        self.topics().filter(is_custom)
    }

    /// The topics and queues that users have created, by name.
    pub fn made_topics(&self) -> impl Iterator<Item = &Arc<TopicEntry>> {
        self.topics()
            .filter(|entry| !entry.topic.kind.is_built_in())
    }

    /// All topics in the order for selection lists: topics of users first, then the built-in ones.
    pub fn topics_to_choose(&self) -> impl Iterator<Item = &Arc<TopicEntry>> {
        let built_in = self.topics().filter(|entry| entry.topic.kind.is_built_in());
        self.made_topics().chain(built_in)
    }

    /// All topics by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<TopicEntry>> {
        self.topics.values()
    }

    /// The topic of that name, in any letter case.
    pub fn topic(&self, name: &TopicName) -> Option<&Arc<TopicEntry>> {
        self.topics.get(&EntityKey::named(name.key()))
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
    /// The access keys of the topic itself and of its namespace. A built-in topic has none.
    pub fn access_keys(&self) -> impl Iterator<Item = (KeyOwner, &AccessKeys)> {
        let own = KeyOwner::Topic(self.topic.id);
        let shared = self.namespace.iter().map(|entry| {
            let owner = KeyOwner::Namespace(entry.namespace.id);
            (owner, &entry.namespace.keys)
        });
        self.topic
            .keys
            .iter()
            .map(move |keys| (own, keys))
            .chain(shared)
    }

    /// The URL to which publishers send events; `base` is the URL of the appliance.
    pub fn publish_url(&self, base: &str) -> String {
        let name = &self.topic.name;
        match self.namespace {
            None => format!("{base}/topics/{}/api/events", name::segment(name.as_str())),
            Some(_) => format!("{base}{}:publish", name.path()),
        }
    }

    /// The network rules for its publishers.
    pub fn network_access(&self) -> &NetworkAccess {
        static EVERYBODY: NetworkAccess = NetworkAccess::EVERYBODY;
        match (&self.topic.kind, &self.namespace) {
            (TopicKind::Custom(topic), _) => &topic.network_access,
            (TopicKind::Namespace { .. }, Some(entry)) => {
                &entry.namespace.definition.network_access
            }
            (TopicKind::Namespace { .. }, None)
            | (TopicKind::Queue(_) | TopicKind::ServiceBus(_) | TopicKind::System(_), _) => {
                &EVERYBODY
            }
        }
    }

    /// The retry policy of a subscription, limited by the retention of a namespace topic (rule N1.1) and the time to
    /// live of a Service Bus topic (rule S7).
    pub fn retry_policy(&self, subscription: &EventSubscription) -> RetryPolicy {
        let policy = &subscription.definition.retry_policy;
        let most = self.topic.kind.time_to_live_max();
        RetryPolicy {
            time_to_live: most.map_or(policy.time_to_live, |most| policy.time_to_live.min(most)),
            ..policy.clone()
        }
    }

    /// Creates an entry for a topic that has no subscriptions yet and belongs to no namespace.
    pub fn without_subscriptions(topic: Topic) -> Self {
        Self {
            resource_id: "".into(),
            topic,
            namespace: None,
            subscriptions: RedBlackTreeMapSync::default(),
            own: None,
            ruled_queues: Vec::new(),
            measured: Arc::default(),
            rules: RuleBook::default(),
        }
    }

    /// The settings of each queue and topic of Service Bus; `None` for a topic of events.
    pub fn upkeep(&self) -> Option<&EntityUpkeep> {
        match &self.topic.kind {
            TopicKind::Queue(_) => {
                let pulled = self.own.as_ref()?.definition.destination.pull_queue();
                pulled.map(|pulled| &pulled.upkeep)
            }
            TopicKind::ServiceBus(topic) => Some(&topic.upkeep),
            TopicKind::Custom(_) | TopicKind::Namespace { .. } | TopicKind::System(_) => None,
        }
    }

    /// Returns whether the status of the entity allows sending.
    pub fn lets_send(&self) -> bool {
        let upkeep = self.upkeep();
        upkeep.is_none_or(|upkeep| upkeep.status.lets_send())
    }

    /// The queue definition; `None` if the entity is not a queue.
    pub fn queue_definition(&self) -> Option<QueueDefinition> {
        match &self.topic.kind {
            TopicKind::Queue(sending) => Some(QueueDefinition {
                sending: sending.clone(),
                subscription: MessageSubscription::of(&self.own.as_ref()?.definition)?,
            }),
            TopicKind::Custom(_)
            | TopicKind::Namespace { .. }
            | TopicKind::ServiceBus(_)
            | TopicKind::System(_) => None,
        }
    }

    /// The kind of a subscription of this entity.
    pub fn subscription_kind(&self, subscription: &EventSubscription) -> SubscriptionKind {
        let mode = subscription.definition.destination.delivery_mode();
        match (&self.topic.kind, mode) {
            (TopicKind::Queue(_), DeliveryMode::Queue) => SubscriptionKind::OfQueue,
            (TopicKind::ServiceBus(_), DeliveryMode::Queue) => SubscriptionKind::ServiceBus,
            (TopicKind::Queue(_) | TopicKind::ServiceBus(_), DeliveryMode::Push)
            | (TopicKind::Custom(_) | TopicKind::Namespace { .. } | TopicKind::System(_), _) => {
                SubscriptionKind::Event
            }
        }
    }

    /// The event subscriptions, by name. Excludes the subscription of a queue and the subscriptions of a Service Bus
    /// topic that receivers pull from.
    pub fn event_subscriptions(&self) -> impl Iterator<Item = &Arc<EventSubscription>> {
        let all = self.subscriptions.values();
        all.filter(|each| self.subscription_kind(each) == SubscriptionKind::Event)
    }

    /// Returns whether a subscription is a Service Bus subscription, which selects messages by its rules, not its
    /// filter.
    pub fn has_rules(&self, subscription: &EventSubscription) -> bool {
        match self.subscription_kind(subscription) {
            SubscriptionKind::ServiceBus => true,
            SubscriptionKind::Event | SubscriptionKind::OfQueue => false,
        }
    }

    /// The Service Bus subscriptions of the topic, by name.
    pub fn message_subscriptions(&self) -> impl Iterator<Item = &Arc<EventSubscription>> {
        let all = self.subscriptions.values();
        all.filter(|subscription| self.has_rules(subscription))
    }

    /// The dialect of the filters of its subscriptions.
    pub fn filter_dialect(&self) -> Dialect {
        match self.topic.kind {
            TopicKind::Namespace { .. } => Dialect::Namespace,
            TopicKind::Custom(_)
            | TopicKind::Queue(_)
            | TopicKind::ServiceBus(_)
            | TopicKind::System(_) => Dialect::Basic,
        }
    }

    /// The event subscription of that name, in any letter case.
    pub fn subscription(&self, name: &SubscriptionName) -> Option<&Arc<EventSubscription>> {
        self.subscriptions.get(&name.key())
    }

    /// Returns the address by which clients of Service Bus know the queue, or a subscription of the topic.
    pub fn queue_address(&self, subscription: &EventSubscription) -> String {
        let name = &self.topic.name;
        match self.subscription_kind(subscription) {
            SubscriptionKind::OfQueue => name.to_string(),
            SubscriptionKind::Event | SubscriptionKind::ServiceBus => {
                format!("{name}/Subscriptions/{}", subscription.name)
            }
        }
    }

    /// Recomputes `own`, `measured` and `ruled_queues` from the subscriptions, in the order of their ids.
    fn arrange(&mut self) {
        let is_kind =
            |entry: &Self, each: &EventSubscription, kind| entry.subscription_kind(each) == kind;
        let mut all: Vec<_> = self.subscriptions.values().cloned().collect();
        all.sort_unstable_by_key(|each| each.id);
        let own = all
            .iter()
            .find(|each| is_kind(self, each, SubscriptionKind::OfQueue))
            .cloned();
        // The ids of transfer queues are the lowest ones.
        let transfers = own.iter().map(|own| own.id.transfers());
        let of_messages = all
            .iter()
            .filter(|each| !is_kind(self, each, SubscriptionKind::Event))
            .map(|each| each.id);
        let measured = transfers.chain(of_messages).collect();
        all.retain(|each| {
            let pulled = each.definition.destination.pull_queue();
            pulled.is_some_and(|pulled| pulled.receiving.has_sessions || pulled.receiving.forward())
        });
        (self.own, self.measured, self.ruled_queues) = (own, measured, all);
    }

    /// The maximum total size of the messages in bytes; `None` for a topic of events.
    pub fn bytes_max(&self) -> Option<u64> {
        let sending = self.topic.kind.sending()?;
        Some(u64::from(sending.megabytes_max) * 1_024 * 1_024)
    }

    /// `event` as the filters of this topic's subscriptions see it.
    pub fn view<'a>(&'a self, event: &'a Event) -> EventView<'a> {
        if self.topic.kind.input_schema().is_of_any_shape() {
            EventView::of_custom_input(event, &self.resource_id)
        } else {
            EventView::new(event, &self.resource_id)
        }
    }

    /// The subscriptions whose filters match `event`, published at `now`. Subscriptions with rules are excluded; see
    /// [`TopicEntry::rules`].
    pub fn fan_out(&self, event: &Event, now: Timestamp) -> Vec<SubscriptionId> {
        self.fan_out_part(event, now, 0, usize::MAX).targets
    }

    /// Performs part of [`TopicEntry::fan_out`]: starts at the subscription with index `from` and stops when the
    /// filters have taken about `steps_max` steps (see [`EventView::steps`]).
    pub fn fan_out_part(
        &self,
        event: &Event,
        now: Timestamp,
        from: usize,
        steps_max: usize,
    ) -> FanOutPart {
        let view = self.view(event);
        let mut part = FanOutPart::default();
        for (place, each) in self.subscriptions.values().enumerate().skip(from) {
            if view.steps() > steps_max {
                part.next = Some(place);
                break;
            }
            let takes = each.takes_events(now) && !self.has_rules(each);
            if takes && each.definition.filter.matches(&view) {
                part.targets.push(each.id);
            }
        }
        part.steps = view.steps();
        part
    }
}
