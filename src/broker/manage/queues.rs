//! Creation, change and deletion of Service Bus queues (rule S1).

use std::sync::Arc;

use crate::broker::Broker;
use crate::broker::manage::{ManageError, check_path, entity_not_found, entity_of_kind};
use crate::model::access::AccessKeys;
use crate::model::audit::{AuditTarget, Caller, TargetKind};
use crate::model::name::TopicName;
use crate::model::queue::{EntityReference, QueueDefinition, ReceiveRules};
use crate::model::registry::{Registry, TopicEntry};
use crate::model::subscription::{EventSubscription, OnDelete};
use crate::model::topic::EntityKind;
use crate::store::RegistryChange;

/// The two parts of a queue: its topic, and the subscription from which receivers receive.
pub type Queue = (Arc<TopicEntry>, Arc<EventSubscription>);

/// Kind of change that a put operation may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Create,
    Update,
    CreateOrUpdate,
}

impl Put {
    /// Returns an error if the operation may only create the object and the object exists, or may only update the
    /// object and the object is missing.
    pub(super) fn check(
        self,
        is_there: bool,
        target: &AuditTarget,
        missing: impl FnOnce() -> ManageError,
    ) -> Result<(), ManageError> {
        match (self, is_there) {
            (Self::Create, true) => Err(ManageError::Exists(target.clone())),
            (Self::Update, false) => Err(missing()),
            (Self::CreateOrUpdate, _) | (Self::Create, false) | (Self::Update, true) => Ok(()),
        }
    }
}

/// Rejects forwarding to an entity that is not a queue or Service Bus topic. Allows an entity to forward to itself, as
/// in Azure; the hop limit ends such a loop.
pub(super) fn check_targets(
    registry: &Registry,
    name: &TopicName,
    rules: &ReceiveRules,
) -> Result<(), ManageError> {
    for EntityReference { property, to } in rules.references() {
        let topic = registry.topic(to);
        if to.key() != name.key() && !topic.is_some_and(|topic| topic.topic.kind.takes_messages()) {
            return Err(ManageError::NoForwardTarget {
                property,
                to: to.clone(),
            });
        }
    }
    Ok(())
}

/// Returns an error if `property` is not `None`. It is the name of an immutable property that a request would change.
pub(super) fn check_fixed(
    of: &'static str,
    property: Option<&'static str>,
) -> Result<(), ManageError> {
    property.map_or(Ok(()), |property| {
        Err(ManageError::PropertyFixed { of, property })
    })
}

impl Broker {
    /// Returns the queue with this name.
    pub fn queue(&self, name: &TopicName) -> Result<Queue, ManageError> {
        let topic = self.entity(EntityKind::Queue, name)?;
        let subscription = topic.own.clone();
        let missing = || entity_not_found(EntityKind::Queue, name);
        Ok((topic, subscription.ok_or_else(missing)?))
    }

    /// Returns all queues, ordered by name.
    pub fn queues(&self) -> Vec<Queue> {
        let registry = self.registry();
        let queue = |topic: &Arc<TopicEntry>| Some((Arc::clone(topic), topic.own.clone()?));
        registry.topics().filter_map(queue).collect()
    }

    /// Creates a queue, or replaces the definition of an existing one, if `put` allows that change.
    pub async fn put_queue(
        &self,
        by: &Caller,
        name: TopicName,
        definition: QueueDefinition,
        put: Put,
    ) -> Result<Queue, ManageError> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let registry = self.registry();
        let found = entity_of_kind(&registry, &name, EntityKind::Queue)?;
        let missing = || entity_not_found(EntityKind::Queue, &name);
        let known = found.map_or(&name, |topic| &topic.topic.name);
        let target = TargetKind::Queue.named(known);
        put.check(found.is_some(), &target, missing)?;
        let pull = &definition.subscription.pull;
        pull.upkeep.check_size(self.options().service_bus_tier)?;
        check_targets(&registry, &name, &pull.receiving)?;
        let change = match found {
            None => {
                check_path(&registry, name.as_str())?;
                RegistryChange::AddQueue {
                    name: name.clone(),
                    sending: definition.sending,
                    keys: AccessKeys::generate(self.entropy()),
                    subscription: definition.subscription.subscription(),
                }
            }
            Some(topic) => {
                let before = topic.queue_definition();
                check_fixed(
                    "Queue",
                    before.and_then(|before| before.fixed_change(&definition)),
                )?;
                let own = topic.own.as_ref().ok_or_else(missing)?;
                RegistryChange::ChangeQueue {
                    id: topic.topic.id,
                    sending: definition.sending,
                    of: own.id,
                    subscription: definition.subscription.changed(&own.definition),
                }
            }
        };
        self.save(change, Some(by.defined(target))).await?;
        self.queue(&name)
    }

    /// Deletes a queue with its messages. Returns whether the queue existed.
    pub async fn delete_queue(&self, by: &Caller, name: &TopicName) -> Result<bool, ManageError> {
        self.delete_entity(by, EntityKind::Queue, name, OnDelete::Discard)
            .await
    }
}
