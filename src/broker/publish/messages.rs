//! Messages that are sent to queues (rule S2), and what queues ask of them (rule S6).

use std::sync::Arc;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::publish::{Arrival, PublishError};
use crate::model::audit::{AuditAction, AuditEntry, Caller, TargetKind};
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{DeliveryId, Settlement};
use crate::model::event::Event;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::store::{
    AppendRequest, Appended, FreeChange, FreeChanges, FreeSettled, HandedOver, QueueIntake,
    StoreError,
};
use crate::wire::service_bus::message;

/// A message to send.
#[derive(Clone, Debug)]
pub struct NewMessage {
    pub event: Event,
    /// When receivers get it, if that lies ahead.
    pub scheduled_at: Option<Timestamp>,
}

/// The session of the event's delivery to a queue with sessions, `Some(None)` if it lacks one; `None` for all other
/// subscriptions.
pub(in crate::broker) fn session_at(
    subscription: &EventSubscription,
    event: &Event,
) -> Option<Option<String>> {
    let session = || message::session(event);
    subscription.has_sessions().then(session)
}

impl Broker {
    /// What the queue asks of these events that the topic is; `None` if it asks nothing.
    pub(super) fn intake(&self, topic: &TopicEntry, events: &[Event]) -> Option<Arc<QueueIntake>> {
        let queue = topic.ruled_queue.as_ref()?;
        let rules = queue.definition.destination.queue_rules();
        let rules = rules.filter(|rules| rules.inspect_messages())?;
        let sessions = || events.iter().map(message::session).collect();
        let remembers_for = self.time_scale().shrink(rules.duplicate_window);
        Some(Arc::new(QueueIntake {
            of: queue.id,
            sessions: rules.has_sessions.then(sessions),
            remembers_for: rules.detects_duplicates.then_some(remembers_for),
        }))
    }

    /// Accepts messages, all or none. When this returns they are on disk. Returns the numbers of their deliveries,
    /// which are known if one of them is scheduled.
    pub async fn send_messages(
        &self,
        topic: &Arc<TopicEntry>,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<DeliveryId>, PublishError> {
        self.accept_messages(topic, messages, None).await
    }

    /// The same for a message to a queue that somebody has typed.
    pub async fn send_by_hand(
        &self,
        by: &Caller,
        queue: &Arc<TopicEntry>,
        message: NewMessage,
    ) -> Result<(), PublishError> {
        let target = TargetKind::Queue.named(&queue.topic.name);
        let audit = by.did(AuditAction::SendMessage, target);
        let sent = self.accept_messages(queue, vec![message], Some(audit));
        sent.await.map(drop)
    }

    async fn accept_messages(
        &self,
        topic: &Arc<TopicEntry>,
        messages: Vec<NewMessage>,
        audit: Option<AuditEntry>,
    ) -> Result<Vec<DeliveryId>, PublishError> {
        self.may_publish(topic)?;
        let now = self.clock().now();
        let scheduled = messages.iter().enumerate().filter_map(|(place, each)| {
            let at = each.scheduled_at.filter(|at| *at > now)?;
            Some((place, at))
        });
        let scheduled = scheduled.collect();
        let events = messages.into_iter().map(|each| each.event).collect();
        let accepted = self.match_with(topic, events, None, scheduled).await;
        let accepted = AppendRequest { audit, ..accepted };
        match self.store_accepted(topic, accepted).await? {
            Appended::Repeated => Ok(Vec::new()),
            Appended::Stored { deliveries, .. } => Ok(deliveries),
        }
    }

    /// Wakes who waits for sessions, and counts what had none. Returns the arrival without what the queue has dropped
    /// because it remembered it.
    pub(super) fn taken_in(
        &self,
        topic: &TopicEntry,
        intake: &QueueIntake,
        arrival: Arrival,
        stored: &[HandedOver],
    ) -> Arrival {
        for session in intake.sessions.iter().flatten().flatten() {
            self.announce_message(intake.of, session);
        }
        let dead = match (topic.ruled_queue.as_ref(), arrival.is_for(intake.of)) {
            (Some(queue), true) => {
                let dead = intake.without_session();
                let reason = DeadLetterReason::SessionIdMissing;
                self.on_settled(topic, queue, &vec![Settlement::DeadLetter(reason); dead]);
                dead
            }
            (None, _) | (_, false) => 0,
        };
        let stored = stored.iter().map(|each| each.subscription);
        arrival.with_targets(stored.chain(std::iter::repeat_n(intake.of, dead)).collect())
    }

    /// Cancels deliveries that are scheduled. Returns whether all of them were.
    pub async fn cancel_scheduled(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        ids: Vec<DeliveryId>,
    ) -> Result<bool, StoreError> {
        let cancel = |id| (id, FreeChange::Cancel(subscription.id));
        let request = FreeChanges {
            changes: ids.into_iter().map(cancel).collect(),
            audit: None,
            now: self.clock().now(),
        };
        let settled = self.store().ledger.settle_free(request).await?;
        let is_done = |settled: &&FreeSettled| matches!(settled, FreeSettled::Done(_));
        let done = settled.iter().filter(is_done).count();
        let dropped = vec![Settlement::Drop(DeadLetterReason::Cancelled); done];
        self.on_settled(topic, subscription, &dropped);
        Ok(done == settled.len())
    }
}
