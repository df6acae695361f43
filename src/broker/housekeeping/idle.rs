//! Automatic deletion of idle queues, Service Bus topics and Service Bus subscriptions (rule S1). Keeps in memory when
//! each entity was last used, and stores these times once a minute.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use crate::base::Timestamp;
use crate::broker::{Broker, ManageError};
use crate::model::audit::Caller;
use crate::model::lease::SubQueue;
use crate::model::queue::MessageEntity;
use crate::model::registry::{Registry, TopicEntry};
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::model::topic::TopicKind;
use crate::store::StoreError;

/// Times when messaging entities were last used.
pub(in crate::broker) struct Uses {
    last: Mutex<HashMap<MessageEntity, LastUse>>,
    /// Earliest time for deletion of idle entities. Gives clients time to reconnect after a start.
    may_delete_at: Timestamp,
}

struct LastUse {
    at: Timestamp,
    is_stored: bool,
}

impl Uses {
    /// Creates the in-memory times from the stored ones.
    pub(in crate::broker) fn of(
        stored: Vec<(MessageEntity, Timestamp)>,
        may_delete_at: Timestamp,
    ) -> Self {
        let is_stored = true;
        let last = stored
            .into_iter()
            .map(|(of, at)| (of, LastUse { at, is_stored }));
        Self {
            last: Mutex::new(last.collect()),
            may_delete_at,
        }
    }

    fn note(&self, of: MessageEntity, at: Timestamp) {
        let is_stored = false;
        self.last
            .lock()
            .unwrap()
            .insert(of, LastUse { at, is_stored });
    }

    fn last(&self, of: MessageEntity) -> Option<Timestamp> {
        self.last.lock().unwrap().get(&of).map(|last| last.at)
    }

    /// Removes all entities that are not in `these`.
    fn retain(&self, these: &HashSet<MessageEntity>) {
        self.last.lock().unwrap().retain(|of, _| these.contains(of));
    }

    /// Returns the uses that are not stored yet, and marks them as stored.
    fn take_unstored(&self) -> Vec<(MessageEntity, Timestamp)> {
        let mut last = self.last.lock().unwrap();
        let unstored = last.iter_mut().filter(|(_, each)| !each.is_stored);
        let taken = unstored.map(|(of, each)| {
            each.is_stored = true;
            (*of, each.at)
        });
        taken.collect()
    }
}

impl Broker {
    /// Records that a queue or a Service Bus subscription is used. Does not wait for the store.
    pub(in crate::broker) fn note_use(&self, own: &EventSubscription) {
        if own.definition.destination.pull_queue().is_some() {
            let now = self.clock().now();
            self.shared.uses.note(MessageEntity::Queue(own.id), now);
        }
    }

    /// Returns when a client last sent to the entity, received from it or changed its rules; `None` if never.
    pub fn last_use(&self, of: MessageEntity) -> Option<Timestamp> {
        self.shared.uses.last(of)
    }

    /// Records that the queue or Service Bus subscription with this id is used.
    pub(in crate::broker) fn note_use_of(&self, id: SubscriptionId) {
        if let Some((_, own)) = self.registry().subscription(id.owner()) {
            self.note_use(own);
        }
    }

    /// Records that a message was sent to a queue or a Service Bus topic.
    pub(in crate::broker) fn note_sent(&self, topic: &TopicEntry) {
        match (&topic.topic.kind, &topic.own) {
            (TopicKind::ServiceBus(_), _) => {
                let entity = MessageEntity::Topic(topic.topic.id);
                self.shared.uses.note(entity, self.clock().now());
            }
            (TopicKind::Queue(_), Some(own)) => self.note_use(own),
            (TopicKind::Queue(_), None)
            | (TopicKind::Custom(_) | TopicKind::Namespace { .. } | TopicKind::System(_), _) => {}
        }
    }

    /// Stores the times of last use that are not stored yet, and removes those of deleted entities.
    pub(super) async fn store_uses(&self) -> Result<(), StoreError> {
        let registry = self.registry();
        let candidates = message_entities(&registry);
        let there = candidates.iter().map(IdleCandidate::entity);
        self.shared.uses.retain(&there.collect());
        match self.shared.uses.take_unstored() {
            uses if uses.is_empty() => Ok(()),
            uses => self.store().ledger.keep_uses(uses).await,
        }
    }

    /// Deletes the entities that have been idle for the time set in their definition.
    pub async fn delete_idle(&self) -> Result<(), StoreError> {
        let (registry, now) = (self.registry(), self.clock().now());
        let mut found = message_entities(&registry);
        found.retain(|each| each.limit().is_some());
        if found.is_empty() || now < self.shared.uses.may_delete_at {
            return Ok(()); // the first as nearly always
        }
        for candidate in &found {
            self.delete_if_idle(candidate, now).await?;
        }
        Ok(())
    }

    async fn delete_if_idle(
        &self,
        candidate: &IdleCandidate<'_>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let IdleCandidate(topic, own) = *candidate;
        if let Some(own) = own.filter(|own| self.has_receivers(own.id)) {
            self.note_use(own);
        }
        let last_use = self.shared.uses.last(candidate.entity());
        let used_at = last_use.max(Some(candidate.changed_at()));
        let limit = candidate
            .limit()
            .map(|limit| self.time_scale().shrink(limit));
        let is_idle = used_at
            .zip(limit)
            .is_some_and(|(at, limit)| now >= at + limit);
        if !is_idle {
            return Ok(());
        }
        let (by, name) = (Caller::appliance(now), &topic.topic.name);
        let deleted = match (own, &topic.own) {
            (None, _) => self.delete_service_bus_topic(&by, name).await,
            (Some(_), Some(_)) => self.delete_queue(&by, name).await,
            (Some(own), None) => {
                let delete = self.delete_service_bus_subscription(&by, name, &own.name);
                delete.await
            }
        };
        match deleted {
            // An entity from a provisioning file is not deleted, because the file would create it again.
            Err(ManageError::Store(StoreError::Provisioned { .. })) => {
                self.shared.uses.note(candidate.entity(), now);
                Ok(())
            }
            Err(ManageError::Store(error)) => Err(error),
            Err(error) => {
                tracing::warn!(%error, "what is idle could not be deleted");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}

/// A Service Bus topic, or a queue or Service Bus subscription with its topic, to be checked for idleness.
struct IdleCandidate<'a>(&'a TopicEntry, Option<&'a EventSubscription>);

impl IdleCandidate<'_> {
    fn entity(&self) -> MessageEntity {
        let Self(topic, own) = self;
        own.map_or(MessageEntity::Topic(topic.topic.id), |own| {
            MessageEntity::Queue(own.id)
        })
    }

    fn changed_at(&self) -> Timestamp {
        let Self(topic, own) = self;
        own.map_or(topic.topic.updated_at, |own| own.updated_at)
    }

    /// Returns how long the entity may be idle before it is deleted; `None` for no limit. Queues and subscriptions
    /// that forward their messages have no limit.
    fn limit(&self) -> Option<Duration> {
        let Self(topic, own) = self;
        let Some(own) = own else {
            return topic.upkeep()?.delete_on_idle;
        };
        let pulled = own.definition.destination.pull_queue()?;
        let goes_on = pulled.receiving.forward_target(SubQueue::Active).is_some();
        pulled.upkeep.delete_on_idle.filter(|_| !goes_on)
    }
}

fn message_entities(registry: &Registry) -> Vec<IdleCandidate<'_>> {
    let mut found = Vec::new();
    for topic in registry.topics() {
        match &topic.topic.kind {
            TopicKind::Custom(_) | TopicKind::Namespace { .. } | TopicKind::System(_) => {}
            TopicKind::Queue(_) => {
                found.extend(topic.own.iter().map(|own| IdleCandidate(topic, Some(own))));
            }
            TopicKind::ServiceBus(_) => {
                found.push(IdleCandidate(topic, None));
                let own = topic.message_subscriptions();
                found.extend(own.map(|own| IdleCandidate(topic, Some(own))));
            }
        }
    }
    found
}
