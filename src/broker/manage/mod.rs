//! Creating, changing and deleting namespaces, topics and event subscriptions.
//!
//! Each change is stored first and then replaces the snapshot of the registry. Changes run one at a time.

mod access_rules;
pub(super) mod alerts;
pub(super) mod inspectors;
pub(super) mod key_uses;
pub(super) mod namespaces;
mod provisioning;
pub(super) mod queues;
pub(super) mod service_bus;
pub(super) mod signing;
pub(super) mod try_filter;
pub(super) mod validate;

use std::sync::Arc;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::publish::Arrival;
use crate::model::access::{AccessKeys, KeyName, KeyOwner, KeyRef, Secret};
use crate::model::audit::{AuditAction, AuditEntry, AuditTarget, Caller, SecretKind, TargetKind};
use crate::model::destination::DeliveryMode;
use crate::model::limits::{
    ACCESS_RULES_MAX, NAMESPACES_MAX, RULE_BYTES_MAX, RULES_MEMORY_MAX, RULES_PER_TOPIC_MAX,
    SUBSCRIPTIONS_PER_TOPIC_MAX,
};
use crate::model::name::{AccessRuleName, NamespaceName, RuleName, SubscriptionName, TopicName};
use crate::model::namespace::NamespaceId;
use crate::model::queue::{FORWARD_PROPERTY, SizeNotInTier};
use crate::model::registry::{Registry, SubscriptionKind, TopicEntry};
use crate::model::retry::DeliveryProfile;
use crate::model::signing::TooManySecrets;
use crate::model::subscription::{
    Disabled, EventSubscription, OnDelete, SubscriptionDefinition, SubscriptionId, Validation,
    ValidationState,
};
use crate::model::topic::{EntityKind, Topic, TopicKind};
use crate::store::{Effects, RegistryChange, StoreError};
use crate::wire::sas;

/// Why a namespace, a topic or an event subscription was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManageError {
    #[error("there is no namespace {0}")]
    NamespaceNotFound(NamespaceName),
    #[error("there are {NAMESPACES_MAX} namespaces, which is the most there can be")]
    TooManyNamespaces,
    #[error(
        "the namespace {0} has {1} topics, which is the most it can have with its throughput units; \
         give it a greater sku.capacity"
    )]
    TooManyTopics(NamespaceName, usize),
    /// Failed validation of the endpoint of a namespace subscription. Nothing was changed, because subscriptions of
    /// namespaces have no pending state (rule N6.1).
    #[error(
        "webhook validation handshake failed for {endpoint}: {reason}. A webhook agrees by answering \
         OPTIONS with status 200 and the header WebHook-Allowed-Origin"
    )]
    NotValidated {
        /// URL of the endpoint without its query.
        endpoint: String,
        reason: String,
    },
    /// Change of the delivery mode. Rejected, because events that are locked or being delivered would be delivered
    /// twice.
    #[error(
        "the deliveryMode of an event subscription cannot be changed, and it is {}; delete the \
         subscription and create it with the mode you want", .0.name()
    )]
    DeliveryModeFixed(DeliveryMode),
    #[error("the subscription {0} has no webhook, so nothing is asked, sent or signed")]
    NothingSent(SubscriptionName),
    #[error("there is no {} {name}", kind.noun())]
    EntityNotFound { kind: EntityKind, name: TopicName },
    /// Name of an entity of another kind than requested. Nothing was changed.
    #[error(
        "{name} is a {}, and not a {}; it is managed under {}", is.noun(), wanted.noun(), is.path()
    )]
    OtherKind {
        name: TopicName,
        is: EntityKind,
        wanted: EntityKind,
    },
    #[error(
        "the topic {0} is built in: it can be subscribed to, but not be changed, deleted or published \
         to, and it has no keys"
    )]
    BuiltIn(TopicName),
    #[error("the subscription of the queue {0} goes with the queue; change or delete that")]
    OfQueue(TopicName),
    #[error(
        "The value for the {}{} property of an existing {of} cannot be changed; delete it and create it as you want it",
        property[..1].to_uppercase(),
        &property[1..]
    )]
    PropertyFixed {
        of: &'static str,
        property: &'static str,
    },
    #[error("{to} is no queue or Service Bus topic, so nothing can be forwarded to it")]
    NoForwardTarget {
        property: &'static str,
        to: TopicName,
    },
    /// Missing destination. The field is the beginning of the message, which names the destination.
    #[error("{0} for events to go to; create it first")]
    NoDestination(String),
    #[error(
        "{0} is a queue or a topic of Service Bus itself, so its event subscriptions have webhooks alone; use {forward}",
        forward = FORWARD_PROPERTY
    )]
    ForwardInstead(TopicName),
    #[error("the Service Bus topic {0} has no subscription {1}")]
    ServiceBusSubscriptionNotFound(TopicName, SubscriptionName),
    #[error("what the keys belong to was deleted meanwhile")]
    OwnerDeleted,
    #[error("there is no access rule {0}")]
    AccessRuleNotFound(AccessRuleName),
    #[error("there is no queue or Service Bus topic {0}")]
    NoMessagingEntity(TopicName),
    #[error(
        "a queue or topic can have up to {ACCESS_RULES_MAX} access rules, and up to {ACCESS_RULES_MAX} can be for all of them"
    )]
    TooManyAccessRules,
    #[error("the subscription {1} of the Service Bus topic {0} has no rule {2}")]
    RuleNotFound(TopicName, SubscriptionName, RuleName),
    /// Name whose path is above or below that of an existing entity. Rejected, because an access key of one entity
    /// would also authorize access to the other (rule S1).
    #[error(
        "{0} cannot be the name of a queue, a Service Bus topic or a namespace, because there is {1}, and the path of \
         one of the two would be above the other"
    )]
    InTheWay(String, String),
    #[error("the subscription {1} of the Service Bus topic {0} is managed under /serviceBusTopics")]
    OfServiceBus(TopicName, SubscriptionName),
    #[error("the topic {0} has an event subscription {1}, which is none of Service Bus")]
    EventSubscriptionInTheWay(TopicName, SubscriptionName),
    #[error("the {0} exists already")]
    Exists(AuditTarget),
    #[error(
        "the subscriptions of the topic {0} have {RULES_PER_TOPIC_MAX} rules, which is the most they can have"
    )]
    TooManyRules(TopicName),
    #[error(
        "the rule {1} does not fit into the memory that the rules of the subscriptions of the topic {0} may take together, \
         {RULES_MEMORY_MAX} bytes; shorten or delete some of them"
    )]
    RulesTooLarge(TopicName, RuleName),
    #[error("the rule has {0} bytes; it may have {RULE_BYTES_MAX}")]
    RuleTooLarge(usize),
    #[error("the topic {0} has no event subscription {1}")]
    SubscriptionNotFound(TopicName, SubscriptionName),
    #[error(
        "the input schema of a topic cannot be changed; delete the topic and create it with the \
         schema you want"
    )]
    InputSchemaFixed,
    #[error(
        "the topic {0} has {SUBSCRIPTIONS_PER_TOPIC_MAX} event subscriptions, which is the most it \
         can have"
    )]
    TooManySubscriptions(TopicName),
    #[error(transparent)]
    SizeNotInTier(#[from] SizeNotInTier),
    #[error(transparent)]
    TooManySecrets(#[from] TooManySecrets),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Category of a [`ManageError`]. Each API derives its response from this category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Request for an object that does not exist.
    NotFound,
    /// Creation of an object that exists already.
    Exists,
    /// Conflict with another object or with the current state.
    Conflict,
    /// Limit on a number or size that is reached.
    Limit,
    /// Invalid request.
    Invalid,
    /// Operation that no caller is allowed to do.
    Forbidden,
    /// Failure of the store: rejected change, failed read or failed write.
    Unavailable,
}

impl ManageError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NamespaceNotFound(_)
            | Self::EntityNotFound { .. }
            | Self::NoMessagingEntity(_)
            | Self::SubscriptionNotFound(..)
            | Self::ServiceBusSubscriptionNotFound(..)
            | Self::RuleNotFound(..)
            | Self::AccessRuleNotFound(_)
            | Self::OwnerDeleted => ErrorKind::NotFound,
            Self::Exists(_) => ErrorKind::Exists,
            Self::OtherKind { .. }
            | Self::OfQueue(_)
            | Self::OfServiceBus(..)
            | Self::InTheWay(..)
            | Self::EventSubscriptionInTheWay(..)
            | Self::TooManySecrets(_)
            | Self::Store(StoreError::Provisioned { .. }) => ErrorKind::Conflict,
            Self::TooManyNamespaces
            | Self::TooManyTopics(..)
            | Self::TooManySubscriptions(_)
            | Self::TooManyRules(_)
            | Self::RulesTooLarge(..)
            | Self::TooManyAccessRules => ErrorKind::Limit,
            Self::NotValidated { .. }
            | Self::DeliveryModeFixed(_)
            | Self::InputSchemaFixed
            | Self::PropertyFixed { .. }
            | Self::SizeNotInTier(_)
            | Self::NoForwardTarget { .. }
            | Self::NoDestination(_)
            | Self::ForwardInstead(_)
            | Self::RuleTooLarge(_)
            | Self::NothingSent(_) => ErrorKind::Invalid,
            Self::BuiltIn(_) => ErrorKind::Forbidden,
            Self::Store(_) => ErrorKind::Unavailable,
        }
    }
}

/// Returns the entity with this name, or an error if the entity is of another kind; `None` if no entity has the name.
/// Callers that change the entity must hold the `managing` lock.
pub(super) fn entity_of_kind<'a>(
    registry: &'a Registry,
    name: &TopicName,
    wanted: EntityKind,
) -> Result<Option<&'a Arc<TopicEntry>>, ManageError> {
    let found = registry.topic(name);
    match found.filter(|entry| entry.topic.kind.entity() != wanted) {
        Some(other) => Err(ManageError::OtherKind {
            name: other.topic.name.clone(),
            is: other.topic.kind.entity(),
            wanted,
        }),
        None => Ok(found),
    }
}

/// Returns the event subscription with this name; `None` if the topic or queue has no subscription with the name.
/// Returns an error for the subscription of a queue and for a Service Bus subscription.
pub fn event_subscription<'a>(
    topic: &'a TopicEntry,
    name: &SubscriptionName,
) -> Result<Option<&'a Arc<EventSubscription>>, ManageError> {
    let Some(found) = topic.subscription(name) else {
        return Ok(None);
    };
    let of = &topic.topic.name;
    match topic.subscription_kind(found) {
        SubscriptionKind::Event => Ok(Some(found)),
        SubscriptionKind::OfQueue => Err(ManageError::OfQueue(of.clone())),
        SubscriptionKind::ServiceBus => {
            Err(ManageError::OfServiceBus(of.clone(), found.name.clone()))
        }
    }
}

fn entity_not_found(kind: EntityKind, name: &TopicName) -> ManageError {
    ManageError::EntityNotFound {
        kind,
        name: name.clone(),
    }
}

impl Broker {
    /// Returns the topic of any kind, or the queue, with this name.
    pub fn topic(&self, name: &TopicName) -> Result<Arc<TopicEntry>, ManageError> {
        let found = self.registry().topic(name).cloned();
        found.ok_or_else(|| entity_not_found(EntityKind::Topic, name))
    }

    /// Returns the entity with this name and kind. Treats an entity of another kind as not found.
    pub fn entity(
        &self,
        kind: EntityKind,
        name: &TopicName,
    ) -> Result<Arc<TopicEntry>, ManageError> {
        let registry = self.registry();
        let found = entity_of_kind(&registry, name, kind).ok().flatten();
        found.cloned().ok_or_else(|| entity_not_found(kind, name))
    }

    /// Returns all entities of a kind, ordered by name.
    pub fn entities(&self, kind: EntityKind) -> Vec<Arc<TopicEntry>> {
        let registry = self.registry();
        let all = registry
            .topics()
            .filter(|entry| entry.topic.kind.entity() == kind);
        all.cloned().collect()
    }

    /// Returns the subscription of any kind with this name, and its topic.
    pub fn subscription(
        &self,
        topic: &TopicName,
        name: &SubscriptionName,
    ) -> Result<(Arc<TopicEntry>, Arc<EventSubscription>), ManageError> {
        let entry = self.topic(topic)?;
        let subscription = entry.subscription(name).cloned();
        let missing = || ManageError::SubscriptionNotFound(topic.clone(), name.clone());
        Ok((entry, subscription.ok_or_else(missing)?))
    }

    /// Returns the event subscription with this name, and its topic or queue. Treats Service Bus subscriptions and the
    /// subscription of a queue as not found.
    pub fn event_subscription(
        &self,
        topic: &TopicName,
        name: &SubscriptionName,
    ) -> Result<(Arc<TopicEntry>, Arc<EventSubscription>), ManageError> {
        let entry = self.topic(topic)?;
        let subscription = event_subscription(&entry, name).ok().flatten().cloned();
        let missing = || ManageError::SubscriptionNotFound(topic.clone(), name.clone());
        Ok((entry, subscription.ok_or_else(missing)?))
    }

    /// Returns an event subscription that the caller is going to change. For the change itself, the caller must hold
    /// the `managing` lock.
    pub(super) fn changing_subscription(
        &self,
        topic: &TopicName,
        name: &SubscriptionName,
    ) -> Result<(Arc<TopicEntry>, Arc<EventSubscription>), ManageError> {
        let entry = self.topic(topic)?;
        let subscription = event_subscription(&entry, name)?.cloned();
        let missing = || ManageError::SubscriptionNotFound(topic.clone(), name.clone());
        Ok((entry, subscription.ok_or_else(missing)?))
    }

    /// Creates a topic with new keys, or replaces the definition of an existing one.
    pub async fn put_topic(
        &self,
        by: &Caller,
        name: TopicName,
        kind: TopicKind,
    ) -> Result<Arc<TopicEntry>, ManageError> {
        let _one_at_a_time = self.shared.managing.lock().await;
        self.define_topic(by, name, kind).await
    }

    /// Applies `change` to the definition of an existing topic under the lock, so that concurrent changes are not lost.
    pub async fn patch_topic<E: From<ManageError>>(
        &self,
        by: &Caller,
        name: TopicName,
        change: impl FnOnce(&TopicEntry) -> Result<TopicKind, E>,
    ) -> Result<Arc<TopicEntry>, E> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let registry = self.registry();
        let entry = entity_of_kind(&registry, &name, EntityKind::Topic)?;
        let missing = || entity_not_found(EntityKind::Topic, &name);
        let kind = change(entry.ok_or_else(missing)?)?;
        Ok(self.define_topic(by, name, kind).await?)
    }

    /// Creates a topic, or replaces the definition of an existing one. The caller must hold the `managing` lock.
    async fn define_topic(
        &self,
        by: &Caller,
        name: TopicName,
        kind: TopicKind,
    ) -> Result<Arc<TopicEntry>, ManageError> {
        let registry = self.registry();
        let found = entity_of_kind(&registry, &name, kind.entity())?;
        let change = match found {
            None => {
                let keys = AccessKeys::generate(self.entropy());
                RegistryChange::AddTopic {
                    namespace: room_in_namespace(&registry, &name)?,
                    name: name.clone(),
                    kind,
                    keys,
                }
            }
            Some(entry) if entry.topic.kind.is_built_in() => {
                return Err(ManageError::BuiltIn(name));
            }
            Some(entry) if !kind.may_replace(&entry.topic.kind) => {
                return Err(ManageError::InputSchemaFixed);
            }
            Some(entry) => RegistryChange::ChangeTopic {
                id: entry.topic.id,
                kind,
            },
        };
        let known = found.map_or(&name, |entry| &entry.topic.name);
        let audit = by.defined(AuditTarget::topic(known));
        self.save(change, Some(audit)).await?;
        self.topic(&name)
    }

    /// Shows the two keys of a topic.
    pub async fn show_topic_keys(
        &self,
        by: &Caller,
        name: &TopicName,
    ) -> Result<AccessKeys, ManageError> {
        let entry = self.topic(name)?;
        let keys = own_keys(&entry.topic)?;
        self.audit_shown(by, SecretKind::Keys, target(&entry))
            .await?;
        Ok(keys.clone())
    }

    /// Creates a SAS token, signed with one of the keys of the topic. Its bearer may publish to the topic until the
    /// token expires.
    pub async fn create_sas_token(
        &self,
        by: &Caller,
        name: &TopicName,
        key: KeyName,
        expires_at: Timestamp,
    ) -> Result<String, ManageError> {
        let entry = self.topic(name)?;
        let secret = own_keys(&entry.topic)?.get(key);
        let resource = entry.publish_url(&self.options().public_url);
        let token = sas::sign(&resource, expires_at, secret);
        let action = AuditAction::CreateSasToken {
            key,
            expires_at: expires_at.to_string(),
        };
        self.record(by, action, target(&entry)).await?;
        Ok(token)
    }

    /// Regenerates one of the two keys of a topic, and returns both keys.
    pub async fn regenerate_key(
        &self,
        by: &Caller,
        name: &TopicName,
        key: KeyName,
    ) -> Result<AccessKeys, ManageError> {
        let fresh = Secret::new(self.entropy().access_key());
        self.replace_key(by, name, key, fresh).await
    }

    /// Replaces one of the two keys of a topic with `fresh`, and returns both keys.
    pub async fn replace_key(
        &self,
        by: &Caller,
        name: &TopicName,
        key: KeyName,
        fresh: Secret,
    ) -> Result<AccessKeys, ManageError> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let entry = self.topic(name)?;
        let keys = own_keys(&entry.topic)?.with(key, fresh);
        let owner = KeyOwner::Topic(entry.topic.id);
        let of = KeyRef { owner, key };
        let change = RegistryChange::ChangeKeys {
            id: entry.topic.id,
            keys: keys.clone(),
            renewed: key,
        };
        let action = AuditAction::RegenerateKey { key };
        let entry = by.did(action, target(&entry));
        self.save(change, Some(entry)).await?;
        self.shared.key_uses.forget(of);
        Ok(keys)
    }

    /// Regenerates the key `renewed` of a topic, namespace or access rule. If `renewed` is `None`, records that both
    /// keys are shown.
    pub async fn access_keys(
        &self,
        by: &Caller,
        of: KeyOwner,
        renewed: Option<KeyName>,
    ) -> Result<(), ManageError> {
        let registry = self.registry();
        match of {
            KeyOwner::Topic(id) => {
                let topic = registry.topic_by_id(id).ok_or(ManageError::OwnerDeleted)?;
                let name = &topic.topic.name;
                match renewed {
                    Some(key) => self.regenerate_key(by, name, key).await.map(drop),
                    None => self.show_topic_keys(by, name).await.map(drop),
                }
            }
            KeyOwner::Namespace(id) => {
                let mut all = registry.namespaces();
                let found = all.find(|each| each.namespace.id == id);
                let name = &found.ok_or(ManageError::OwnerDeleted)?.namespace.name;
                match renewed {
                    Some(key) => self.regenerate_namespace_key(by, name, key).await.map(drop),
                    None => self.show_namespace_keys(by, name).await.map(drop),
                }
            }
            KeyOwner::AccessRule(id) => {
                let found = registry.access_rules().find(|each| each.id == id);
                let name = &found.ok_or(ManageError::OwnerDeleted)?.name;
                match renewed {
                    Some(key) => self
                        .regenerate_access_rule_key(by, name, key)
                        .await
                        .map(drop),
                    None => self.show_access_rule_keys(by, name).await.map(drop),
                }
            }
        }
    }

    /// Deletes an Event Grid topic with its event subscriptions. Ends their pending deliveries as set by `pending`.
    /// Returns whether the topic existed.
    pub async fn delete_topic(
        &self,
        by: &Caller,
        name: &TopicName,
        pending: OnDelete,
    ) -> Result<bool, ManageError> {
        self.delete_entity(by, EntityKind::Topic, name, pending)
            .await
    }

    /// Deletes the entity with this name and kind. Returns whether the entity existed.
    pub(super) async fn delete_entity(
        &self,
        by: &Caller,
        kind: EntityKind,
        name: &TopicName,
        pending: OnDelete,
    ) -> Result<bool, ManageError> {
        let one_at_a_time = self.shared.managing.lock().await;
        let registry = self.registry();
        let Some(entry) = entity_of_kind(&registry, name, kind)? else {
            return Ok(false);
        };
        if entry.topic.kind.is_built_in() {
            return Err(ManageError::BuiltIn(name.clone()));
        }
        let id = entry.topic.id;
        let audit = by.defined(target(entry));
        self.save(RegistryChange::DeleteTopic { id, pending }, Some(audit))
            .await?;
        drop(one_at_a_time);
        self.on_deleted(entry);
        self.note_deleted();
        Ok(true)
    }

    /// Removes health state and metrics of a deleted topic and its subscriptions, and notifies their endpoints.
    pub(super) fn on_deleted(&self, entry: &Arc<TopicEntry>) {
        for subscription in entry.subscriptions.values() {
            self.on_subscription_deleted(entry, subscription);
        }
        self.meters().forget_topic(entry);
    }

    fn on_subscription_deleted(
        &self,
        entry: &Arc<TopicEntry>,
        subscription: &Arc<EventSubscription>,
    ) {
        self.health().forget(subscription.id);
        self.meters().forget_subscription(entry, subscription);
        self.notify_deleted(entry, subscription);
    }

    /// Creates an event subscription or replaces the definition of an existing one, and validates the endpoint if
    /// needed. Returns the validation state reached within [`crate::model::limits::HANDSHAKE_PUT_WAIT`]. In a
    /// namespace, the endpoint is validated before anything is stored.
    pub async fn put_subscription(
        &self,
        by: &Caller,
        topic: &TopicName,
        name: SubscriptionName,
        definition: SubscriptionDefinition,
    ) -> Result<(Arc<TopicEntry>, Arc<EventSubscription>), ManageError> {
        self.validate_first(topic, &name, &definition).await?;
        let one_at_a_time = self.shared.managing.lock().await;
        let replaced = self.define(by, topic, &name, definition).await?;
        drop(one_at_a_time);
        self.on_defined(topic, &name, replaced).await
    }

    /// Applies `change` to the definition of an existing event subscription, so that concurrent changes are not lost.
    /// Otherwise works like [`Broker::put_subscription`]. Calls `change` twice: for the validation of the endpoint,
    /// and for the definition that is stored.
    pub async fn patch_subscription<E: From<ManageError>>(
        &self,
        by: &Caller,
        topic: &TopicName,
        name: SubscriptionName,
        change: impl Fn(&TopicEntry, &EventSubscription) -> Result<SubscriptionDefinition, E>,
    ) -> Result<(Arc<TopicEntry>, Arc<EventSubscription>), E> {
        let (entry, current) = self.changing_subscription(topic, &name)?;
        // Validation may take long, so it runs outside of the lock.
        self.validate_first(topic, &name, &change(&entry, &current)?)
            .await?;
        let one_at_a_time = self.shared.managing.lock().await;
        let (entry, current) = self.changing_subscription(topic, &name)?;
        let definition = change(&entry, &current)?;
        let replaced = self.define(by, topic, &name, definition).await?;
        drop(one_at_a_time);
        Ok(self.on_defined(topic, &name, replaced).await?)
    }

    /// Stores the definition of an event subscription, and returns the replaced subscription if it existed. The caller
    /// must hold the `managing` lock.
    async fn define(
        &self,
        by: &Caller,
        topic: &TopicName,
        name: &SubscriptionName,
        definition: SubscriptionDefinition,
    ) -> Result<Option<Arc<EventSubscription>>, ManageError> {
        let entry = self.topic(topic)?;
        let replaced = event_subscription(&entry, name)?.cloned();
        let before = replaced.as_ref().map(|it| &it.definition.destination);
        if before != Some(&definition.destination) {
            self.check_destination(&entry, &definition.destination)?;
        }
        let change = match &replaced {
            Some(current) => {
                check_mode(&current.definition, &definition)?;
                let validation = self.validation_after_change(current, &definition);
                RegistryChange::ChangeSubscription {
                    id: current.id,
                    definition,
                    validation,
                }
            }
            None if entry.subscriptions.size() >= SUBSCRIPTIONS_PER_TOPIC_MAX => {
                return Err(ManageError::TooManySubscriptions(topic.clone()));
            }
            None => RegistryChange::AddSubscription {
                topic: entry.topic.id,
                name: name.clone(),
                validation: self.first_validation(&definition),
                definition,
            },
        };
        let name = replaced.as_ref().map_or(name, |replaced| &replaced.name);
        let audit = by.defined(AuditTarget::subscription(&entry.topic.name, name));
        self.save(change, Some(audit)).await?;
        Ok(replaced)
    }

    /// Completes a change of a definition: resets the health if the destination changed, and validates the endpoint if
    /// needed.
    async fn on_defined(
        &self,
        topic: &TopicName,
        name: &SubscriptionName,
        replaced: Option<Arc<EventSubscription>>,
    ) -> Result<(Arc<TopicEntry>, Arc<EventSubscription>), ManageError> {
        let (_, subscription) = self.subscription(topic, name)?;
        let destination = &subscription.definition.destination;
        if replaced.is_some_and(|replaced| replaced.definition.destination != *destination) {
            self.reset_health(subscription.id, self.clock().now());
        }
        self.settle_validation(&subscription).await;
        self.subscription(topic, name)
    }

    /// Pauses the deliveries of an event subscription. The subscription continues to match events.
    pub async fn pause_subscription(
        &self,
        by: &Caller,
        topic: &TopicName,
        name: &SubscriptionName,
    ) -> Result<(Arc<TopicEntry>, Arc<EventSubscription>), ManageError> {
        let pause = |mut definition: SubscriptionDefinition| {
            definition.options.paused = true;
            definition
        };
        self.redefine(by, AuditAction::Pause, topic, name, pause)
            .await
    }

    /// Resumes an event subscription that was paused or disabled, and resets the health of its receiver.
    pub async fn resume_subscription(
        &self,
        by: &Caller,
        topic: &TopicName,
        name: &SubscriptionName,
    ) -> Result<(Arc<TopicEntry>, Arc<EventSubscription>), ManageError> {
        let resume = |mut definition: SubscriptionDefinition| {
            definition.options.paused = false;
            definition.disabled = None;
            definition
        };
        let resumed = self
            .redefine(by, AuditAction::Resume, topic, name, resume)
            .await?;
        self.resume_deliveries(resumed.1.id, self.clock().now());
        Ok(resumed)
    }

    /// Applies a change that needs no validation of the endpoint.
    pub(super) async fn redefine(
        &self,
        by: &Caller,
        action: AuditAction,
        topic: &TopicName,
        name: &SubscriptionName,
        change: impl FnOnce(SubscriptionDefinition) -> SubscriptionDefinition,
    ) -> Result<(Arc<TopicEntry>, Arc<EventSubscription>), ManageError> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let (entry, current) = self.changing_subscription(topic, name)?;
        let change = RegistryChange::ChangeSubscription {
            id: current.id,
            definition: change(current.definition.clone()),
            validation: current.validation.clone(),
        };
        let target = AuditTarget::subscription(&entry.topic.name, &current.name);
        self.save(change, Some(by.did(action, target))).await?;
        self.subscription(topic, name)
    }

    /// Disables an event subscription whose receiver responded with status 410, if `disable_on_gone` is set and the
    /// definition has not changed since the attempt.
    pub(super) async fn disable_gone(&self, asked: &EventSubscription, now: Timestamp) {
        if !asked.definition.options.disable_on_gone {
            return;
        }
        let _one_at_a_time = self.shared.managing.lock().await;
        let registry = self.registry();
        let current = registry.subscription(asked.id).map(|(_, current)| current);
        let Some(current) = current.filter(|current| current.definition == asked.definition) else {
            return;
        };
        let disable = RegistryChange::ChangeSubscription {
            id: current.id,
            definition: SubscriptionDefinition {
                disabled: Some(Disabled::Gone { at: now }),
                ..current.definition.clone()
            },
            validation: current.validation.clone(),
        };
        match self.save(disable, None).await {
            Ok(_) => tracing::warn!(subscription.name = %asked.name,
                "an event subscription is disabled, because its receiver answered 410"),
            Err(error) => tracing::error!(%error, "a subscription could not be disabled"),
        }
    }

    /// Ends the probation of the receiver, and starts the deliveries that are due.
    pub(super) fn resume_deliveries(&self, id: SubscriptionId, now: Timestamp) {
        let change = self.health().end_probation(id, now);
        self.note_probation(id, change);
        self.set_free(id, now);
    }

    fn reset_health(&self, id: SubscriptionId, now: Timestamp) {
        let change = self.health().reset_health(id, now);
        self.note_probation(id, change);
    }

    /// Validates the endpoint again.
    pub async fn validate_again(
        &self,
        by: &Caller,
        topic: &TopicName,
        name: &SubscriptionName,
    ) -> Result<(Arc<TopicEntry>, Arc<EventSubscription>), ManageError> {
        let (entry, current) = self.changing_subscription(topic, name)?;
        let target = AuditTarget::subscription(&entry.topic.name, &current.name);
        let audit = by.did(AuditAction::Validate, target);
        if entry.namespace.is_some() {
            self.validate_endpoint(&current).await?;
            self.store().audit.record(audit).await?;
            return Ok((entry, current));
        }
        let one_at_a_time = self.shared.managing.lock().await;
        let (_, current) = self.changing_subscription(topic, name)?;
        let validation = self.new_handshake(ValidationState::Updating, &current.validation);
        let change = RegistryChange::ChangeValidation {
            id: current.id,
            validation,
        };
        self.save(change, Some(audit)).await?;
        drop(one_at_a_time);
        let (_, subscription) = self.subscription(topic, name)?;
        self.settle_validation(&subscription).await;
        self.subscription(topic, name)
    }

    /// Deletes an event subscription. Ends its pending deliveries as set by `pending`. Returns whether the
    /// subscription existed.
    pub async fn delete_subscription(
        &self,
        by: &Caller,
        topic: &TopicName,
        name: &SubscriptionName,
        pending: OnDelete,
    ) -> Result<bool, ManageError> {
        let one_at_a_time = self.shared.managing.lock().await;
        let Ok(entry) = self.topic(topic) else {
            return Ok(false);
        };
        let Some(subscription) = event_subscription(&entry, name)? else {
            return Ok(false);
        };
        let id = subscription.id;
        let audit = by.defined(AuditTarget::subscription(
            &entry.topic.name,
            &subscription.name,
        ));
        self.save(
            RegistryChange::DeleteSubscription { id, pending },
            Some(audit),
        )
        .await?;
        drop(one_at_a_time);
        self.on_subscription_deleted(&entry, subscription);
        self.note_deleted();
        Ok(true)
    }

    /// Returns the event subscription, and records in the audit log that its secrets are shown.
    pub async fn show_secrets(
        &self,
        by: &Caller,
        what: SecretKind,
        topic: &TopicName,
        name: &SubscriptionName,
    ) -> Result<Arc<EventSubscription>, ManageError> {
        let (entry, subscription) = self.event_subscription(topic, name)?;
        let target = AuditTarget::subscription(&entry.topic.name, &subscription.name);
        self.audit_shown(by, what, target).await?;
        Ok(subscription)
    }

    /// Records in the audit log that secrets of `target` are shown.
    pub(super) async fn audit_shown(
        &self,
        by: &Caller,
        what: SecretKind,
        target: AuditTarget,
    ) -> Result<(), StoreError> {
        let action = AuditAction::ShowSecrets { what };
        self.record(by, action, target).await
    }

    /// Stores a change with its audit entry, and replaces the registry. The caller must hold the `managing` lock.
    pub(super) async fn save(
        &self,
        change: RegistryChange,
        audit: Option<AuditEntry>,
    ) -> Result<Arc<Registry>, StoreError> {
        let now = self.clock().now();
        let effects = Effects {
            audit,
            notice: self.notice_of_change(&change),
        };
        let arrival = effects.notice.as_ref().map(Arrival::of);
        let ledger = &self.store().ledger;
        let before = self.registry();
        let registry = ledger.change_catalog(&before, change, effects, now).await?;
        let registry = Arc::new(registry);
        *self.shared.registry.write().unwrap() = Arc::clone(&registry);
        if let Some(arrival) = arrival {
            self.on_notice_stored(arrival);
        }
        Ok(registry)
    }

    fn first_validation(&self, definition: &SubscriptionDefinition) -> Validation {
        if needs_no_handshake(definition) {
            return Validation::succeeded(None);
        }
        let unasked = Validation {
            validated_once: false,
            ..Validation::succeeded(None)
        };
        self.new_handshake(ValidationState::Creating, &unasked)
    }

    /// Returns the validation state after a change. The endpoint must be validated if the endpoint or the delivery
    /// schema has changed, or if the last validation did not succeed. Other settings have no effect.
    fn validation_after_change(
        &self,
        current: &EventSubscription,
        definition: &SubscriptionDefinition,
    ) -> Validation {
        if needs_no_handshake(definition) {
            return Validation::succeeded(None);
        }
        if is_same_receiver(&current.definition, definition)
            && current.validation.state == ValidationState::Succeeded
        {
            return current.validation.clone();
        }
        self.new_handshake(ValidationState::Updating, &current.validation)
    }
}

/// Returns the audit target for a topic or a queue.
pub(in crate::broker) fn target(entry: &TopicEntry) -> AuditTarget {
    TargetKind::from(entry.topic.kind.entity()).named(&entry.topic.name)
}

/// Returns the audit target for a subscription. The subscription of a queue is recorded under the queue.
pub(in crate::broker) fn subscription_target(
    entry: &TopicEntry,
    subscription: &EventSubscription,
) -> AuditTarget {
    let (of, name) = (&entry.topic.name, &subscription.name);
    match entry.subscription_kind(subscription) {
        SubscriptionKind::Event => AuditTarget::subscription(of, name),
        SubscriptionKind::OfQueue => target(entry),
        SubscriptionKind::ServiceBus => AuditTarget::service_bus_subscription(of, name),
    }
}

/// Returns the keys of the topic, or an error for a built-in topic, which has none.
fn own_keys(topic: &Topic) -> Result<&AccessKeys, ManageError> {
    let missing = || ManageError::BuiltIn(topic.name.clone());
    topic.keys.as_ref().ok_or_else(missing)
}

/// Returns whether the subscription needs no handshake after it is stored. True if the destination needs no
/// validation, and for namespace topics, which validate the endpoint before.
fn needs_no_handshake(definition: &SubscriptionDefinition) -> bool {
    definition.destination.skips_validation()
        || definition.retry_policy.profile == DeliveryProfile::Namespace
}

/// Rejects a change of the delivery mode.
pub(super) fn check_mode(
    current: &SubscriptionDefinition,
    changed: &SubscriptionDefinition,
) -> Result<(), ManageError> {
    let mode = current.destination.delivery_mode();
    if changed.destination.delivery_mode() == mode {
        Ok(())
    } else {
        Err(ManageError::DeliveryModeFixed(mode))
    }
}

/// Returns whether both the endpoint and the delivery schema are unchanged.
pub(super) fn is_same_receiver(
    current: &SubscriptionDefinition,
    changed: &SubscriptionDefinition,
) -> bool {
    current.destination.is_same_receiver(&changed.destination)
        && current.delivery_schema == changed.delivery_schema
}

/// Rejects the name of a new queue, Service Bus topic or namespace if its path is above or below an existing one.
pub(super) fn check_path(registry: &Registry, name: &str) -> Result<(), ManageError> {
    match registry.in_the_way(name) {
        Some(other) => Err(ManageError::InTheWay(name.to_owned(), other)),
        None => Ok(()),
    }
}

/// Returns the id of the namespace of a new topic, or an error if the namespace is missing or has its maximum of
/// topics; `None` for a custom topic.
fn room_in_namespace(
    registry: &Registry,
    topic: &TopicName,
) -> Result<Option<NamespaceId>, ManageError> {
    let Some(name) = topic.namespace() else {
        return Ok(None);
    };
    let Some(entry) = registry.namespace(&name) else {
        return Err(ManageError::NamespaceNotFound(name));
    };
    let most = entry.namespace.topics_max();
    if registry.topics_of(&name).count() >= most {
        return Err(ManageError::TooManyTopics(name, most));
    }
    Ok(Some(entry.namespace.id))
}
