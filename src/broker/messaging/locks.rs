//! Message locks: settling and renewing them for receivers.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::broker::Broker;
use crate::broker::messaging::arrivals::AwaitedArrival;
use crate::model::audit::AuditEntry;
use crate::model::delivery::{DeliveryId, Settlement};
use crate::model::lease::{Disposition, LockChange, LockEnd, LockError, NEVER, QueueRef, SubQueue};
use crate::model::registry::TopicEntry;
use crate::model::subscription::{DeadLetterDestination, EventSubscription, SubscriptionId};
use crate::store::{LockChanges, LockSettled, LocksSettled, QueueRoom, StoreError};

impl Broker {
    /// Settles and renews message locks. Uses several store changes if there are many locks, or if receivers have set
    /// large properties on the messages. If a lock is named several times, only its first change is made. Returns the
    /// result for each entry of `changes`, in order. Records `audit` if dead letters leave their queue for good: one
    /// entry per store change, with the number of dead letters in that change.
    pub async fn settle_locks(
        &self,
        changes: Vec<LockChange>,
        audit: Option<AuditEntry>,
    ) -> Result<Vec<Result<DeliveryId, LockError>>, StoreError> {
        let (changes, places) = each_once(changes);
        let mut ended = Vec::with_capacity(changes.len());
        let mut request = LockChanges {
            dropping: self.dropping(&changes),
            room: QueueRoom::default(),
            changes,
            audit,
            now: self.clock().now(),
        };
        while !request.changes.is_empty() {
            request.room = self.room_for(&request.changes, []); // others may have taken some
            let LocksSettled { settled, rest } = self.store().ledger.settle_locks(request).await?;
            self.on_locks_settled(settled.iter().flatten()).await?;
            let each = settled.into_iter();
            ended.extend(each.map(|settled| settled.map(|done| done.lock.delivery)));
            request = rest;
        }
        Ok(places.into_iter().map(|place| ended[place]).collect())
    }

    /// Counts settled locks, wakes the receivers that wait for messages that became available, and ends messages that
    /// were returned after their last permitted attempt.
    pub(in crate::broker) async fn on_locks_settled(
        &self,
        settled: impl IntoIterator<Item = &LockSettled> + Clone,
    ) -> Result<(), StoreError> {
        for LockSettled { lock, end } in settled.clone() {
            self.on_lock_settled(lock.of, *end);
        }
        self.end_returned(settled.into_iter()).await
    }

    /// Ends messages that were returned after the last attempt that their retry policy permits.
    async fn end_returned(
        &self,
        settled: impl Iterator<Item = &LockSettled>,
    ) -> Result<(), StoreError> {
        let registry = self.registry();
        let is_last = |each: &&LockSettled| {
            let found = registry.subscription(each.lock.of.subscription);
            let policy = found.map(|(_, subscription)| &subscription.definition.retry_policy);
            each.is_returned()
                && policy.is_some_and(|policy| each.lock.attempts >= policy.attempts_max)
        };
        let ended: BTreeSet<_> = settled
            .filter(is_last)
            .map(|each| each.lock.of.subscription)
            .collect();
        for (topic, subscription) in ended.iter().filter_map(|id| registry.subscription(*id)) {
            self.end_oldest_exhausted(topic, subscription).await?;
        }
        Ok(())
    }

    /// Returns the subscriptions that drop messages instead of dead-lettering them. The set is empty if none of the
    /// changes can dead-letter a message.
    pub(in crate::broker) fn dropping(&self, changes: &[LockChange]) -> HashSet<SubscriptionId> {
        let dead_letters = |each: &LockChange| {
            matches!(
                each.disposition,
                Disposition::DeadLetter(_) | Disposition::Release { .. }
            )
        };
        if !changes.iter().any(dead_letters) {
            return HashSet::new();
        }
        let registry = self.registry();
        let subscriptions = registry.subscriptions().map(|(_, each)| each);
        let drops = subscriptions
            .filter(|each| each.definition.dead_letter == DeadLetterDestination::Drop)
            .map(|each| each.id);
        drops.collect()
    }

    /// Returns the number of bytes by which each queue may grow, for the queues in `others` and the queues in which
    /// `changes` enlarge a message. Returns it for all queues if one of these changes does not name its queue.
    pub(super) fn room_for(
        &self,
        changes: &[LockChange],
        others: impl IntoIterator<Item = SubscriptionId>,
    ) -> QueueRoom {
        let adding = changes.iter().filter(|each| each.adds());
        let named = adding.map(|each| each.of.queue.map(|queue| queue.subscription));
        let queues: Option<BTreeSet<_>> = named.chain(others.into_iter().map(Some)).collect();
        if let Some(queues) = queues {
            return queues.iter().map(|of| (*of, self.room_of(*of))).collect();
        }
        // A change without a queue has only a lock token, which does not identify the queue, so all queues are
        // listed.
        let registry = self.registry();
        let each = registry.topics().flat_map(|topic| {
            let room = self.room(topic);
            topic.measured.iter().map(move |of| (*of, room))
        });
        each.collect()
    }

    /// Counts a settled lock, and wakes the receivers that wait for messages that became available.
    fn on_lock_settled(&self, of: QueueRef, end: LockEnd) {
        self.note_use_of(of.subscription);
        match (end, of.queue) {
            (LockEnd::Settled(Settlement::Retry { at }), _) if at != NEVER => {
                self.shared.arrivals.announce_all(of);
            }
            (LockEnd::Settled(settlement), SubQueue::Active) => {
                if let Some((topic, subscription)) = self.registry().subscription(of.subscription) {
                    self.on_settled(topic, subscription, &[settlement]);
                }
            }
            (LockEnd::Settled(_), SubQueue::DeadLetter) | (LockEnd::Renewed { .. }, _) => {}
        }
    }

    /// Counts settled deliveries of a subscription, and wakes receivers of its dead letters.
    pub(in crate::broker) fn on_settled(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        settlements: &[Settlement],
    ) {
        self.meters().settled(topic, subscription, settlements);
        if self.announce_dead_letters(subscription.id, settlements) {
            self.note_forwarding(subscription);
        }
    }

    /// Wakes the receivers of a dead-letter queue if `settlements` dead-lettered any message. Returns whether any
    /// message was dead-lettered.
    pub(super) fn announce_dead_letters(
        &self,
        of: SubscriptionId,
        settlements: &[Settlement],
    ) -> bool {
        let is_dead = |each: &&Settlement| matches!(each, Settlement::DeadLetter(_));
        let dead = settlements.iter().filter(is_dead).count();
        if dead > 0 {
            let awaited = AwaitedArrival::Queue(QueueRef::dead_letters(of));
            self.shared.arrivals.announce(&awaited, dead);
        }
        dead > 0
    }
}

/// Keeps only the first change of each lock token. Returns the kept changes and, for each entry of `changes`, the index
/// of the kept change with its lock token.
fn each_once(changes: Vec<LockChange>) -> (Vec<LockChange>, Vec<usize>) {
    let mut first = Vec::with_capacity(changes.len());
    let mut places = Vec::with_capacity(changes.len());
    let mut named = HashMap::with_capacity(changes.len());
    for change in changes {
        let next = first.len();
        let place = *named.entry(change.token).or_insert(next);
        places.push(place);
        if place == next {
            first.push(change);
        }
    }
    (first, places)
}
