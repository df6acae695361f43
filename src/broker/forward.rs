//! The forwarder: moves messages and dead letters of queues and subscriptions to the queues that they go on to
//! (rule S4.2).

use std::sync::Arc;
use std::time::Duration;

use crate::broker::Broker;
use crate::broker::publish::Arrival;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::Settlement;
use crate::model::destination::QueueRules;
use crate::model::lease::{QueueRef, SubQueue};
use crate::model::limits::FORWARDED_AT_ONCE_MAX;
use crate::model::name::TopicName;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::store::{ForwardRequest, ForwardTarget, Forwarded, StoreError};

/// How long the forwarder rests if nothing wakes it: scheduled messages fall due, and definitions change.
const REST: Duration = Duration::from_secs(1);

impl Broker {
    /// Forwards until the broker stops.
    pub async fn run_forwarder(self) {
        loop {
            if let Err(error) = self.forward_all().await {
                tracing::warn!(%error, "messages could not be forwarded; that will be tried again");
            }
            tokio::select! {
                () = self.shared.forward_wake.notified() => {}
                () = tokio::time::sleep(REST) => {}
                () = self.stopping() => return,
            }
        }
    }

    /// Forwards until nothing is left to go on. Simulations call it themselves.
    pub async fn forward_all(&self) -> Result<(), StoreError> {
        while !self.is_stopping() && self.forward_some().await? {}
        Ok(())
    }

    /// A batch of each queue in turn, so that a long one does not hold up the others. Returns whether there may be more.
    async fn forward_some(&self) -> Result<bool, StoreError> {
        let registry = self.registry();
        let mut done = Ok(false);
        let mut queues = Vec::new();
        for topic in registry.topics() {
            queues.extend(topic.ruled_queues.iter().map(|queue| (topic, queue)));
        }
        for (topic, queue) in queues {
            let Some(rules) = queue.definition.destination.queue_rules() else {
                continue;
            };
            for (to, from) in [
                (&rules.forward_to, QueueRef::pending(queue.id)),
                (
                    &rules.forward_dead_letters_to,
                    QueueRef::dead_letters(queue.id),
                ),
            ] {
                if let Some(to) = to {
                    let looked_at = self.forward(topic, queue, from, to).await;
                    // The trouble of one must not stop the others.
                    done = looked_at.and_then(|count| Ok(done? || count == FORWARDED_AT_ONCE_MAX));
                }
            }
        }
        done
    }

    /// Forwards some messages. Returns how many were looked at.
    async fn forward(
        &self,
        topic: &TopicEntry,
        queue: &EventSubscription,
        from: QueueRef,
        to: &TopicName,
    ) -> Result<usize, StoreError> {
        let (registry, now) = (self.registry(), self.clock().now());
        let due = self.store().ledger.agenda(vec![from]).await?;
        if due.first().is_none_or(|due| due.at > now) {
            return Ok(0); // as nearly always, and nothing is written
        }
        let to = registry.topic(to).and_then(|to| Some((to, to.queue()?)));
        let request = ForwardRequest {
            from,
            name: topic.queue_address(queue),
            to: to.map(|(topic, queue)| self.target(topic, queue)),
            limit: FORWARDED_AT_ONCE_MAX,
            now,
        };
        let forwarded = self.store().ledger.forward(request).await?;
        if from.queue == SubQueue::Pending {
            self.on_settled(topic, queue, &forwarded.ended);
        }
        if let Some((topic, queue)) = to {
            self.on_forwarded(topic, queue, &forwarded);
        }
        Ok(forwarded.ended.len())
    }

    fn target(&self, topic: &TopicEntry, queue: &EventSubscription) -> ForwardTarget {
        let rules = queue.definition.destination.queue_rules();
        let window = rules.filter(|rules| rules.detects_duplicates);
        ForwardTarget {
            topic: topic.topic.id,
            subscription: queue.id,
            has_sessions: queue.has_sessions(),
            remembers_for: window.map(|rules| self.time_scale().shrink(rules.duplicate_window)),
        }
    }

    /// Wakes the receivers of the queue that messages were forwarded to, and counts.
    fn on_forwarded(&self, topic: &Arc<TopicEntry>, queue: &EventSubscription, done: &Forwarded) {
        let lacking = done.without_session;
        let targets = vec![queue.id; done.sessions.len() + lacking];
        self.arrived(topic, Arrival::later(topic.topic.id, targets));
        let dead = Settlement::DeadLetter(DeadLetterReason::SessionIdMissing);
        self.on_settled(topic, queue, &vec![dead; lacking]);
        for session in done.sessions.iter().flatten() {
            self.announce_message(queue.id, session);
        }
    }

    /// Lets the forwarder look, since something has arrived that may have to go on.
    pub(super) fn note_forwarding(&self, queue: &EventSubscription) {
        let rules = queue.definition.destination.queue_rules();
        if rules.is_some_and(QueueRules::forward) {
            self.shared.forward_wake.notify_one();
        }
    }
}
