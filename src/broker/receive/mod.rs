//! Receivers: they lock deliveries of a queue and settle them.

pub(super) mod pull;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::model::audit::{AuditAction, Caller, Target};
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::{DeliveryId, Settlement, admit};
use crate::model::lease::{
    Disposition, Lock, LockError, LockSettlement, LockToken, SubQueue, dispose,
};
use crate::model::limits::{LOCK_BYTES_MAX, RECEIVERS_WAITING_MAX};
use crate::model::name::SubscriptionName;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{DeadLetterDestination, EventSubscription, SubscriptionId};
use crate::store::views::DeadLetterQuery;
use crate::store::{
    LockBatch, LockRequest, LockSelection, Locked, SettledLock, SettlementRecord, StoreError,
};

/// How long a receiver waits before the store is read again: a lock may lapse.
const LOOK_INTERVAL: Duration = Duration::from_secs(15);

/// Dead letters that one change removes: more would block the writer for too long.
const REMOVE_BATCH_MAX: usize = 250;

/// What to receive.
#[derive(Clone, Debug)]
pub struct ReceiveRequest {
    pub subscription: SubscriptionId,
    pub queue: SubQueue,
    pub which: LockSelection,
    /// The most deliveries to lock.
    pub limit: usize,
    /// How long to lock them.
    pub lock: Duration,
}

/// What a purge came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    pub removed: usize,
    /// Receivers hold these, so they stay.
    pub held: usize,
    /// Where the next search goes on; `None` when it has come to the end.
    pub next_before: Option<DeliveryId>,
}

/// Why nothing can be received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    #[error("the event subscription has been deleted")]
    SubscriptionDeleted,
    #[error(
        "the events of the subscription {0} are sent to its webhook; only its dead letters can be \
         received"
    )]
    Pushed(SubscriptionName),
    #[error("{RECEIVERS_WAITING_MAX} receivers wait already, which is the most there can be")]
    TooManyWaiting,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Broker {
    /// Locks what can be received from a queue now.
    pub async fn receive(&self, request: &ReceiveRequest) -> Result<Vec<Locked>, ReceiveError> {
        let registry = self.registry();
        let found = registry.subscription(request.subscription);
        let (topic, subscription) = found.ok_or(ReceiveError::SubscriptionDeleted)?;
        match (request.queue, subscription.definition.destination.queue()) {
            (SubQueue::DeadLetters, _) => Ok(self.lock(request).await?.locked),
            // The dispatcher's leases are in memory, where no receiver sees them.
            (SubQueue::Pending, None) => Err(ReceiveError::Pushed(subscription.name.clone())),
            (SubQueue::Pending, Some(_)) => {
                Ok(self.lock_pending(topic, subscription, request).await?)
            }
        }
    }

    /// Locks pending deliveries; none of a subscription that may not deliver.
    async fn lock_pending(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        request: &ReceiveRequest,
    ) -> Result<Vec<Locked>, StoreError> {
        while subscription.may_deliver() {
            let taken = self.lock(request).await?;
            let found_any = !taken.locked.is_empty() || !taken.unreadable.is_empty();
            self.quarantine(topic, subscription, &taken.unreadable)
                .await?;
            let handed_out = self.handed_out(topic, subscription, taken.locked).await?;
            if !handed_out.is_empty() || !found_any {
                return Ok(handed_out);
            }
            // All of them were unreadable or had used up their retry policy, and so may many more.
            self.end_oldest_exhausted(topic, subscription).await?;
        }
        Ok(Vec::new())
    }

    async fn lock(&self, request: &ReceiveRequest) -> Result<LockBatch, StoreError> {
        let now = self.clock().now();
        let tokens = std::iter::repeat_with(|| LockToken::generate(self.entropy()));
        let request = LockRequest {
            subscription: request.subscription,
            queue: request.queue,
            which: request.which.clone(),
            now,
            until: now + request.lock,
            tokens: tokens.take(request.limit).collect(),
            bytes_max: LOCK_BYTES_MAX,
        };
        self.store().deliveries.lock(request).await
    }

    /// Like [`Broker::receive`], but waits up to `wait` for the first delivery.
    pub async fn receive_within(
        &self,
        request: &ReceiveRequest,
        wait: Duration,
    ) -> Result<Vec<Locked>, ReceiveError> {
        let found = self.receive(request).await?;
        if !found.is_empty() || wait.is_zero() {
            return Ok(found);
        }
        let waiter = self.shared.arrivals.wait_at(request)?;
        let deadline = tokio::time::sleep(wait);
        tokio::pin!(deadline);
        loop {
            // Registered before the store is read, so that nothing in between is missed.
            let arrival = waiter.notify.notified();
            tokio::pin!(arrival);
            arrival.as_mut().enable();
            let pause = match self.time_until_due(request).await? {
                Duration::ZERO => {
                    let found = self.receive(request).await?;
                    if !found.is_empty() {
                        return Ok(found);
                    }
                    LOOK_INTERVAL // somebody was quicker
                }
                pause => pause.min(LOOK_INTERVAL),
            };
            tokio::select! {
                () = &mut arrival => {}
                () = tokio::time::sleep(pause) => {}
                () = &mut deadline => return Ok(Vec::new()),
                () = self.stopping() => return Ok(Vec::new()),
            }
        }
    }

    async fn time_until_due(&self, request: &ReceiveRequest) -> Result<Duration, StoreError> {
        let (subscription, queue) = (request.subscription, request.queue);
        let due = self.store().deliveries.first_due(subscription, queue);
        let now = self.clock().now();
        Ok(due.await?.map_or(LOOK_INTERVAL, |at| at.since(now)))
    }

    /// Keeps the locked deliveries that may be handed out, and ends those that have used up their retry
    /// policy.
    async fn handed_out(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        locked: Vec<Locked>,
    ) -> Result<Vec<Locked>, StoreError> {
        let (now, scale) = (self.clock().now(), self.time_scale());
        let policy = topic.retry_policy(subscription);
        let (mut ended, mut settlements) = (Vec::new(), Vec::new());
        let is_allowed = |each: &Locked| {
            let Err(reason) = admit(&each.delivery, &policy, now, scale) else {
                return true;
            };
            let settlement = Settlement::DeadLetter(reason)
                .for_destination(&subscription.definition.dead_letter);
            ended.push(SettledLock {
                token: each.token,
                settlement: LockSettlement::Settle(settlement),
                result: None,
            });
            settlements.push(SettlementRecord {
                delivery: each.delivery.id,
                attempt: None,
                settlement,
            });
            false
        };
        let handed_out = locked.into_iter().filter(is_allowed).collect();
        if !ended.is_empty() {
            self.store().deliveries.settle_locks(ended, now).await?;
            self.meters().settled(topic, subscription, &settlements);
            self.announce_dead_letters(subscription.id, &settlements);
        }
        Ok(handed_out)
    }

    /// The locks of these tokens, in their order.
    pub async fn locks(&self, tokens: Vec<LockToken>) -> Result<Vec<Option<Lock>>, StoreError> {
        let now = self.clock().now();
        self.store().deliveries.locks(tokens, now).await
    }

    /// Renews locks: they end `lock` from now on.
    pub async fn renew_locks(
        &self,
        locks: &[Lock],
        lock: Duration,
    ) -> Result<Vec<Result<Timestamp, LockError>>, StoreError> {
        let now = self.clock().now();
        let until = now + lock;
        let tokens = locks.iter().map(|lock| lock.token).collect();
        let renewed = self.store().deliveries.renew(tokens, until, now).await?;
        Ok(renewed
            .into_iter()
            .map(|each| each.map(|()| until))
            .collect())
    }

    /// Settles locks. Returns the result of each.
    pub async fn settle_locks(
        &self,
        locks: &[Lock],
        disposition: &Disposition,
    ) -> Result<Vec<Result<DeliveryId, LockError>>, StoreError> {
        self.settle_each(locks, |_| disposition.clone()).await
    }

    pub(super) async fn settle_each(
        &self,
        locks: &[Lock],
        disposition: impl Fn(&Lock) -> Disposition,
    ) -> Result<Vec<Result<DeliveryId, LockError>>, StoreError> {
        let now = self.clock().now();
        let mut settled = Vec::new();
        let mut places = Vec::new(); // in `settled`, or the refusal
        for lock in locks {
            let kept = self.dead_letter_destination(lock.subscription);
            places.push(dispose(lock.queue, disposition(lock), &kept).map(
                |(settlement, result)| {
                    settled.push(SettledLock {
                        token: lock.token,
                        settlement,
                        result: Some(result),
                    });
                    settled.len() - 1
                },
            ));
        }
        let meant: Vec<LockSettlement> =
            settled.iter().map(|each| each.settlement.clone()).collect();
        let ended = self.store().deliveries.settle_locks(settled, now).await?;
        let ended: Vec<_> = places
            .into_iter()
            .map(|place| place.and_then(|place| ended[place].map(|id| (id, &meant[place]))))
            .collect();
        for (lock, ended) in locks.iter().zip(&ended) {
            if let Ok((id, settlement)) = ended {
                self.lock_ended(lock, *id, settlement);
            }
        }
        Ok(ended
            .into_iter()
            .map(|each| each.map(|(id, _)| id))
            .collect())
    }

    /// Removes dead letters from their queues for good, unless they are locked. Returns how many.
    pub async fn purge_dead_letters(
        &self,
        by: &Caller,
        query: DeadLetterQuery,
    ) -> Result<Purged, StoreError> {
        let target = self.target_of(&query.filter);
        let purged = AuditAction::PurgeDeadLetters { dead_letters: 0 };
        let entry = by.did(purged, target);
        let now = self.clock().now();
        let found = self.store().views.dead_letter_numbers(query).await?;
        let (mut removed, mut rest) = (0, found.rows.len());
        // The first batch that removes any tells of all.
        let mut audit = Some(entry);
        for batch in found.rows.chunks(REMOVE_BATCH_MAX) {
            rest -= batch.len();
            let deliveries = &self.store().deliveries;
            removed += deliveries
                .remove(batch.to_vec(), audit.clone(), rest, now)
                .await?;
            audit = audit.filter(|_| removed == 0);
        }
        Ok(Purged {
            removed,
            held: found.rows.len() - removed,
            next_before: found.next_before,
        })
    }

    /// What a filter of dead letters is about.
    fn target_of(&self, filter: &DeadLetterFilter) -> Target {
        let registry = self.registry();
        let topic = filter.topic.and_then(|id| registry.topic_by_id(id));
        match filter.subscription.and_then(|id| registry.subscription(id)) {
            Some((topic, each)) => Target::subscription(&topic.topic.name, &each.name),
            None => topic.map_or_else(Target::appliance, |topic| Target::topic(&topic.topic.name)),
        }
    }

    fn dead_letter_destination(&self, subscription: SubscriptionId) -> DeadLetterDestination {
        let registry = self.registry();
        let found = registry.subscription(subscription);
        found.map_or(DeadLetterDestination::BuiltInQueue, |(_, each)| {
            each.definition.dead_letter.clone()
        })
    }

    /// Counts an ended lock, and wakes those who wait for what became available.
    fn lock_ended(&self, lock: &Lock, id: DeliveryId, settlement: &LockSettlement) {
        match (settlement, lock.queue) {
            (LockSettlement::Abandon | LockSettlement::Settle(Settlement::Retry { .. }), _) => {
                self.shared
                    .arrivals
                    .announce_all(lock.subscription, lock.queue);
            }
            (LockSettlement::Settle(settlement), SubQueue::Pending) => {
                let settled = [SettlementRecord {
                    delivery: id,
                    attempt: None,
                    settlement: *settlement,
                }];
                if let Some((topic, subscription)) = self.registry().subscription(lock.subscription)
                {
                    self.meters().settled(topic, subscription, &settled);
                }
                self.announce_dead_letters(lock.subscription, &settled);
            }
            (LockSettlement::Settle(_), SubQueue::DeadLetters) | (LockSettlement::Defer, _) => {}
        }
    }

    /// Wakes receivers of pull subscriptions. A subscription is listed once for each event that it gets.
    pub(super) fn announce_arrivals(&self, subscriptions: &[SubscriptionId]) {
        self.shared
            .arrivals
            .announce_each(subscriptions, SubQueue::Pending);
    }

    /// Wakes receivers of a subscription's dead letters.
    pub(super) fn announce_dead_letters(
        &self,
        subscription: SubscriptionId,
        settled: &[SettlementRecord],
    ) {
        let is_dead =
            |each: &&SettlementRecord| matches!(each.settlement, Settlement::DeadLetter(_));
        let dead = settled.iter().filter(is_dead).count();
        if dead > 0 {
            let arrivals = &self.shared.arrivals;
            arrivals.announce(subscription, SubQueue::DeadLetters, dead);
        }
    }
}

/// Waiting receivers, by queue.
#[derive(Default)]
pub(super) struct Arrivals {
    waiting: Mutex<HashMap<(SubscriptionId, SubQueue), Waiting>>,
}

#[derive(Default)]
struct Waiting {
    receivers: usize,
    notify: Arc<Notify>,
}

/// A registered waiting receiver, until it is dropped.
struct Waiter<'a> {
    arrivals: &'a Arrivals,
    queue: (SubscriptionId, SubQueue),
    notify: Arc<Notify>,
}

impl Arrivals {
    fn wait_at(&self, request: &ReceiveRequest) -> Result<Waiter<'_>, ReceiveError> {
        let mut waiting = self.waiting.lock().unwrap();
        let receivers: usize = waiting.values().map(|each| each.receivers).sum();
        if receivers >= RECEIVERS_WAITING_MAX {
            return Err(ReceiveError::TooManyWaiting);
        }
        let queue = (request.subscription, request.queue);
        let here = waiting.entry(queue).or_default();
        here.receivers += 1;
        Ok(Waiter {
            arrivals: self,
            queue,
            notify: Arc::clone(&here.notify),
        })
    }

    /// Wakes one receiver for each of `count` deliveries.
    fn announce(&self, subscription: SubscriptionId, queue: SubQueue, count: usize) {
        if let Some(here) = self.waiting.lock().unwrap().get(&(subscription, queue)) {
            for _ in 0..count.min(here.receivers) {
                here.notify.notify_one();
            }
        }
    }

    /// Wakes one receiver for each entry of `subscriptions`.
    fn announce_each(&self, subscriptions: &[SubscriptionId], queue: SubQueue) {
        let waiting = self.waiting.lock().unwrap();
        if waiting.is_empty() {
            return; // as with nearly every publishing
        }
        for subscription in subscriptions {
            if let Some(here) = waiting.get(&(*subscription, queue)) {
                here.notify.notify_one();
            }
        }
    }

    /// Wakes all receivers: something is available earlier than they expect.
    pub(super) fn announce_all(&self, subscription: SubscriptionId, queue: SubQueue) {
        if let Some(here) = self.waiting.lock().unwrap().get(&(subscription, queue)) {
            here.notify.notify_waiters();
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.arrivals.waiting.lock().unwrap();
        if let Some(here) = waiting.get_mut(&self.queue) {
            here.receivers -= 1;
            if here.receivers == 0 {
                waiting.remove(&self.queue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(subscription: i64) -> ReceiveRequest {
        ReceiveRequest {
            subscription: SubscriptionId(subscription),
            queue: SubQueue::DeadLetters,
            which: LockSelection::Due,
            limit: 1,
            lock: Duration::from_secs(60),
        }
    }

    #[test]
    fn seats_are_counted_over_all_queues_and_given_back() {
        let arrivals = Arrivals::default();
        let sit = |number: usize| {
            let queue = i64::try_from(number % 3).expect("few");
            arrivals.wait_at(&request(queue))
        };
        let seats: Vec<_> = (0..RECEIVERS_WAITING_MAX)
            .map(|number| sit(number).expect("a seat"))
            .collect();
        assert_eq!(sit(0).err(), Some(ReceiveError::TooManyWaiting));
        drop(seats);
        assert!(arrivals.waiting.lock().unwrap().is_empty());
        assert!(sit(0).is_ok());
    }
}
