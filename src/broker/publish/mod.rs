//! Publishing: match, store, wake the dispatcher.

pub(super) mod notices;
pub(super) mod rejections;
pub(super) mod send;
pub(super) mod system;

use std::sync::Arc;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::model::audit::{AuditAction, AuditEntry, Caller, Target};
use crate::model::event::{Event, EventKey};
use crate::model::name::TopicName;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::model::topic::TopicId;
use crate::store::{AppendRequest, Appended, RequestMark, StoreError};

/// What was stored, for those who serve the subscriptions.
pub(super) struct Arrival {
    topic: TopicId,
    /// A subscription is listed once for each event that it gets.
    targets: Vec<SubscriptionId>,
    events: usize,
    /// Events that match no subscription.
    unmatched: usize,
}

impl Arrival {
    /// Of these events, once they are stored.
    pub(super) fn of(request: &AppendRequest) -> Self {
        let events = &request.events;
        Self {
            topic: request.topic,
            targets: events.iter().flat_map(|(_, to)| to).copied().collect(),
            events: events.len(),
            unmatched: events.iter().filter(|(_, to)| to.is_empty()).count(),
        }
    }
}

/// Why events were not accepted. Nothing was stored, except that after [`StoreError::Closed`] it may have
/// been.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    #[error("the appliance is stopping")]
    Stopping,
    #[error("the disk is almost full")]
    DiskLow,
    #[error("the topic {0} is built in, and nobody but the appliance publishes to it")]
    BuiltIn(TopicName),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Broker {
    /// Accepts the events of one request for `topic`, all or none. When this returns they are on disk, with a
    /// delivery for every subscription that matches. Returns no keys for a repeated request, which stores
    /// nothing.
    pub async fn publish(
        &self,
        topic: &Arc<TopicEntry>,
        events: Vec<Event>,
        request: Option<RequestMark>,
    ) -> Result<Vec<EventKey>, PublishError> {
        self.may_publish(topic)?;
        Ok(self.accept(topic, events, request).await?)
    }

    /// The same for events that somebody has typed.
    pub async fn publish_by_hand(
        &self,
        by: &Caller,
        topic: &Arc<TopicEntry>,
        events: Vec<Event>,
    ) -> Result<Vec<EventKey>, PublishError> {
        self.may_publish(topic)?;
        let published = AuditAction::PublishEvents {
            events: count(&events),
        };
        let target = Target::topic(&topic.topic.name);
        let audit = by.did(published, target);
        let accepted = matched(topic, events, None, Some(audit), self.clock().now());
        Ok(self.append(topic, accepted).await?)
    }

    /// The same for the events of a file of dead letters; for `subscription` alone, whatever its filter says,
    /// if that is given.
    pub async fn import(
        &self,
        by: &Caller,
        topic: &Arc<TopicEntry>,
        subscription: Option<&EventSubscription>,
        events: Vec<Event>,
        request: Option<RequestMark>,
    ) -> Result<Vec<EventKey>, PublishError> {
        self.may_publish(topic)?;
        let name = &topic.topic.name;
        let target = subscription.map_or_else(
            || Target::topic(name),
            |subscription| Target::subscription(name, &subscription.name),
        );
        let imported = AuditAction::ImportDeadLetters {
            events: count(&events),
        };
        let audit = Some(by.did(imported, target));
        let mut accepted = matched(topic, events, request, audit, self.clock().now());
        if let Some(subscription) = subscription {
            let targets = accepted.events.iter_mut().map(|(_, targets)| targets);
            targets.for_each(|targets| *targets = vec![subscription.id]);
        }
        Ok(self.append(topic, accepted).await?)
    }

    fn may_publish(&self, topic: &TopicEntry) -> Result<(), PublishError> {
        if self.is_stopping() {
            return Err(PublishError::Stopping);
        }
        if self.disk_is_low() {
            return Err(PublishError::DiskLow);
        }
        if topic.topic.is_built_in() {
            return Err(PublishError::BuiltIn(topic.topic.name.clone()));
        }
        Ok(())
    }

    /// Matches and stores the events, and wakes those who serve the subscriptions.
    pub(super) async fn accept(
        &self,
        topic: &Arc<TopicEntry>,
        events: Vec<Event>,
        request: Option<RequestMark>,
    ) -> Result<Vec<EventKey>, StoreError> {
        let accepted = matched(topic, events, request, None, self.clock().now());
        self.append(topic, accepted).await
    }

    /// Stores the events, and hands them to those who serve the subscriptions, even if nobody waits for this any
    /// more.
    pub(super) async fn append(
        &self,
        topic: &Arc<TopicEntry>,
        accepted: AppendRequest,
    ) -> Result<Vec<EventKey>, StoreError> {
        let arrival = Arrival::of(&accepted);
        let (broker, topic) = (self.clone(), Arc::clone(topic));
        let then = move |handed_over| {
            broker.announce(&topic, &arrival);
            broker.hand_over(handed_over);
        };
        match self.store().ledger.append(accepted, then).await? {
            Appended::Repeated => Ok(Vec::new()),
            Appended::Stored { events } => Ok(events),
        }
    }

    /// Wakes those who serve the subscriptions of stored events.
    pub(super) fn arrived(&self, topic: &TopicEntry, arrival: Arrival) {
        self.announce(topic, &arrival);
        let mut targets = arrival.targets;
        targets.sort_unstable();
        targets.dedup();
        self.note_due(&targets, self.clock().now());
    }

    /// Counts stored events, and wakes receivers of pull subscriptions.
    fn announce(&self, topic: &TopicEntry, arrival: &Arrival) {
        let targets = &arrival.targets;
        self.meters().matched(topic, targets, arrival.unmatched);
        self.announce_arrivals(targets);
    }
}

fn count(events: &[Event]) -> u64 {
    u64::try_from(events.len()).unwrap_or(u64::MAX)
}

/// Matches events with the subscriptions of `topic`.
pub(super) fn matched(
    topic: &TopicEntry,
    events: Vec<Event>,
    request: Option<RequestMark>,
    audit: Option<AuditEntry>,
    now: Timestamp,
) -> AppendRequest {
    let with_targets = |event| {
        let targets = topic.fan_out(&event, now);
        (event, targets)
    };
    AppendRequest {
        topic: topic.topic.id,
        received_at: now,
        events: events.into_iter().map(with_targets).collect(),
        request,
        audit,
        notified: Vec::new(),
    }
}
