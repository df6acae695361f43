//! Creating, changing and deleting namespaces, and validating endpoints in them.

use std::sync::Arc;

use crate::broker::Broker;
use crate::broker::manage::{ManageError, check_mode, check_path, is_same_receiver};
use crate::model::access::{AccessKeys, KeyName, KeyOwner, KeyRef};
use crate::model::audit::{AuditAction, Caller, SecretKind, TargetKind};
use crate::model::limits::NAMESPACES_MAX;
use crate::model::name::{NamespaceName, SubscriptionName, TopicName};
use crate::model::namespace::NamespaceDefinition;
use crate::model::registry::{NamespaceEntry, TopicEntry};
use crate::model::subscription::{
    EventSubscription, OnDelete, SubscriptionDefinition, SubscriptionId, Validation,
};
use crate::store::{NamespaceChange, RegistryChange};

impl Broker {
    /// Returns the namespace with this name.
    pub fn namespace(&self, name: &NamespaceName) -> Result<Arc<NamespaceEntry>, ManageError> {
        let registry = self.registry();
        let found = registry.namespace(name).cloned();
        found.ok_or_else(|| ManageError::NamespaceNotFound(name.clone()))
    }

    /// Creates a namespace with new keys, or replaces the definition of an existing one.
    pub async fn put_namespace(
        &self,
        by: &Caller,
        name: NamespaceName,
        definition: NamespaceDefinition,
    ) -> Result<Arc<NamespaceEntry>, ManageError> {
        let _one_at_a_time = self.shared.managing.lock().await;
        self.define_namespace(by, name, definition).await
    }

    /// Applies `change` to the definition of an existing namespace, so that of two concurrent changes none is
    /// lost.
    pub async fn patch_namespace<E: From<ManageError>>(
        &self,
        by: &Caller,
        name: NamespaceName,
        change: impl FnOnce(&NamespaceDefinition) -> Result<NamespaceDefinition, E>,
    ) -> Result<Arc<NamespaceEntry>, E> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let definition = change(&self.namespace(&name)?.namespace.definition)?;
        Ok(self.define_namespace(by, name, definition).await?)
    }

    /// Creates a namespace or replaces its definition. The caller must hold the lock `managing`.
    async fn define_namespace(
        &self,
        by: &Caller,
        name: NamespaceName,
        definition: NamespaceDefinition,
    ) -> Result<Arc<NamespaceEntry>, ManageError> {
        let registry = self.registry();
        let change = match registry.namespace(&name) {
            Some(entry) => NamespaceChange::Change {
                id: entry.namespace.id,
                definition,
            },
            None if registry.namespaces().count() >= NAMESPACES_MAX => {
                return Err(ManageError::TooManyNamespaces);
            }
            None => {
                check_path(&registry, name.as_str())?;
                NamespaceChange::Add {
                    name: name.clone(),
                    definition,
                    keys: AccessKeys::generate(self.entropy()),
                }
            }
        };
        let known = registry.namespace(&name).map(|entry| &entry.namespace.name);
        let audit = by.defined(TargetKind::Namespace.named(known.unwrap_or(&name)));
        self.save(RegistryChange::Namespace(change), Some(audit))
            .await?;
        self.namespace(&name)
    }

    /// Shows the two keys of a namespace.
    pub async fn show_namespace_keys(
        &self,
        by: &Caller,
        name: &NamespaceName,
    ) -> Result<AccessKeys, ManageError> {
        let entry = self.namespace(name)?;
        let target = TargetKind::Namespace.named(&entry.namespace.name);
        self.audit_shown(by, SecretKind::Keys, target).await?;
        Ok(entry.namespace.keys.clone())
    }

    /// Regenerates one of the two keys of a namespace.
    pub async fn regenerate_namespace_key(
        &self,
        by: &Caller,
        name: &NamespaceName,
        key: KeyName,
    ) -> Result<Arc<NamespaceEntry>, ManageError> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let entry = self.namespace(name)?;
        let keys = entry.namespace.keys.regenerated(key, self.entropy());
        let id = entry.namespace.id;
        let renewed = key;
        let change = NamespaceChange::ChangeKeys { id, keys, renewed };
        let target = TargetKind::Namespace.named(&entry.namespace.name);
        let audit = by.did(AuditAction::RegenerateKey { key }, target);
        self.save(RegistryChange::Namespace(change), Some(audit))
            .await?;
        let owner = KeyOwner::Namespace(id);
        self.shared.key_uses.forget(KeyRef { owner, key });
        self.namespace(name)
    }

    /// Deletes a namespace with its topics and their event subscriptions, and has their pending deliveries ended
    /// as `pending` says. Returns whether there was such a namespace.
    pub async fn delete_namespace(
        &self,
        by: &Caller,
        name: &NamespaceName,
        pending: OnDelete,
    ) -> Result<bool, ManageError> {
        let one_at_a_time = self.shared.managing.lock().await;
        let Ok(entry) = self.namespace(name) else {
            return Ok(false);
        };
        let id = entry.namespace.id;
        let topics: Vec<Arc<TopicEntry>> = self.registry().topics_of(name).cloned().collect();
        let change = NamespaceChange::Delete { id, pending };
        let audit = by.defined(TargetKind::Namespace.named(&entry.namespace.name));
        self.save(RegistryChange::Namespace(change), Some(audit))
            .await?;
        drop(one_at_a_time);
        for topic in &topics {
            self.on_deleted(topic);
        }
        self.note_deleted();
        Ok(true)
    }

    /// Validates the endpoint of a subscription to a namespace topic before the subscription is stored, unless the
    /// present definition's endpoint is the same and was validated (rule N6.1).
    pub(super) async fn validate_first(
        &self,
        topic: &TopicName,
        name: &SubscriptionName,
        definition: &SubscriptionDefinition,
    ) -> Result<(), ManageError> {
        let entry = self.topic(topic)?;
        if entry.namespace.is_none() {
            return Ok(());
        }
        let has_agreed = |current: &SubscriptionDefinition| {
            !current.destination.skips_validation() && is_same_receiver(current, definition)
        };
        let current = entry.subscription(name);
        if let Some(current) = current {
            check_mode(&current.definition, definition)?;
        }
        if current.is_some_and(|current| has_agreed(&current.definition)) {
            return Ok(());
        }
        let now = self.clock().now();
        let asked = EventSubscription {
            // A new subscription has no id yet.
            id: current.map_or(SubscriptionId(0), |current| current.id),
            topic_id: entry.topic.id,
            name: name.clone(),
            definition: definition.clone(),
            validation: Validation::succeeded(None),
            created_at: now,
            updated_at: now,
        };
        self.validate_endpoint(&asked).await
    }

    /// Validates a webhook's endpoint with a single request, unless its validation is to be skipped. Other destinations
    /// need none.
    pub(super) async fn validate_endpoint(
        &self,
        subscription: &EventSubscription,
    ) -> Result<(), ManageError> {
        let webhook = subscription.definition.destination.webhook();
        let Some(webhook) = webhook.filter(|webhook| !webhook.skip_validation) else {
            return Ok(());
        };
        let deadline = self.options().response_deadline;
        let answer = self
            .outbound()
            .validate_endpoint(subscription, deadline)
            .await;
        answer.map_err(|reason| ManageError::NotValidated {
            endpoint: webhook.endpoint_url.base().to_owned(),
            reason,
        })
    }
}
