//! Waiting receivers: wake-up of receivers when a message or session becomes available.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::base::budget::{Budget, MemoryGroups, TakenBytes};
use crate::broker::Broker;
use crate::broker::messaging::MessagingError;
use crate::model::audit::Actor;
use crate::model::lease::{QueueRef, SubQueue};
use crate::model::limits::RECEIVERS_WAITING_MAX;
use crate::model::subscription::SubscriptionId;
use crate::store::{SessionWait, StoreError};

/// Maximum interval between two reads of the store for waiting receivers. Covers locks that expire meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_secs(15);

/// Pause of a receiver after it found nothing to receive although a message or session seemed due.
const VAIN_PAUSE: Duration = Duration::from_secs(1);

/// Number of bytes accounted for a waiting receiver, including the name of its session.
const WAITER_BYTES: usize = 512;

impl Broker {
    /// Waits until the awaited message or session may be available. `in_vain` is true if the caller has just found
    /// nothing to receive. The future may be dropped while it waits.
    pub(super) async fn due(&self, waiter: &Waiter<'_>, in_vain: bool) -> Result<(), StoreError> {
        let bell = &*waiter.bell;
        if in_vain {
            tokio::select! {
                () = bell.arrivals.notified() => {}
                () = bell.sooner.notified() => {}
                () = tokio::time::sleep(VAIN_PAUSE) => {}
            }
        }
        let mut turn = bell.turn.try_lock().ok();
        loop {
            // Registers for wake-ups before the store is read, so that no arrival is missed.
            let (arrival, sooner) = (bell.arrivals.notified(), bell.sooner.notified());
            tokio::pin!(arrival, sooner);
            arrival.as_mut().enable();
            sooner.as_mut().enable();
            let pause = Box::pin(self.time_until_due(&waiter.awaited)).await?;
            if pause.is_zero() {
                return Ok(());
            }
            let is_watching = turn.is_some();
            tokio::select! {
                () = &mut arrival => {}
                () = &mut sooner, if is_watching => {}
                () = tokio::time::sleep(pause.min(LOOK_INTERVAL)), if is_watching => {}
                own = bell.turn.lock(), if !is_watching => turn = Some(own),
            }
        }
    }

    /// Registers a waiting receiver, accounted to the access key of `by`.
    pub(super) fn wait_at(
        &self,
        awaited: AwaitedArrival,
        by: &Actor,
    ) -> Result<Waiter<'_>, MessagingError> {
        let registry = self.registry();
        let found = registry.subscription(awaited.queue().subscription.owner());
        found.ok_or(MessagingError::EntityDeleted)?;
        self.shared.arrivals.wait_at(awaited, by)
    }

    /// Returns the time until the awaited message or session may be available, or `LOOK_INTERVAL` if unknown.
    pub(super) async fn time_until_due(
        &self,
        awaited: &AwaitedArrival,
    ) -> Result<Duration, StoreError> {
        let of = awaited.queue();
        let registry = self.registry();
        let found = registry.subscription(of.subscription);
        let is_held_back = found.is_some_and(|(_, own)| !own.may_deliver());
        if of.queue == SubQueue::Active && is_held_back {
            return Ok(LOOK_INTERVAL);
        }
        let ledger = &self.store().ledger;
        let due_at = match awaited {
            AwaitedArrival::Queue(of) => {
                let due = ledger.agenda(vec![*of]).await?;
                due.first().map(|due| due.at)
            }
            AwaitedArrival::Session(awaited) => ledger.session_due(awaited.clone()).await?,
        };
        let now = self.clock().now();
        Ok(due_at.map_or(LOOK_INTERVAL, |at| at.since(now)))
    }

    /// Returns whether receivers are waiting for messages or dead letters of a queue.
    pub(in crate::broker) fn has_receivers(&self, queue: SubscriptionId) -> bool {
        self.shared.arrivals.has_receivers(queue)
    }

    /// Wakes receivers of pull subscriptions. `subscriptions` lists a subscription once per new event.
    pub(in crate::broker) fn announce_arrivals(&self, subscriptions: &[SubscriptionId]) {
        self.shared.arrivals.announce_each(subscriptions);
    }
}

/// Arrival that a receiver waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum AwaitedArrival {
    /// Message of a queue.
    Queue(QueueRef),
    /// Next available session, or a message of a session.
    Session(SessionWait),
}

impl AwaitedArrival {
    fn queue(&self) -> QueueRef {
        match self {
            Self::Queue(of) => *of,
            Self::Session(SessionWait::Next(of) | SessionWait::In(of, _)) => QueueRef::pending(*of),
        }
    }
}

/// Waiting receivers, grouped by awaited arrival.
pub(in crate::broker) struct Arrivals {
    waiting: Mutex<HashMap<AwaitedArrival, WaitingReceivers>>,
    /// Memory budget of all waiting receivers.
    memory: Budget,
    keys: MemoryGroups<Actor>,
}

struct WaitingReceivers {
    receivers: usize,
    bell: Arc<Bell>,
}

/// Wake-up signals for receivers that wait for the same arrival.
#[derive(Default)]
struct Bell {
    /// Wakes one receiver per arriving message.
    arrivals: Notify,
    /// Wakes the receiver that holds `turn`, because a message or session is due earlier than expected.
    sooner: Notify,
    /// Lock of the one receiver that waits for the next due time, so that not every waiting receiver reads the store.
    /// Once that receiver finds something due, the next one takes the lock and checks for more.
    turn: tokio::sync::Mutex<()>,
}

/// Registration of a waiting receiver. Dropping it removes the registration.
pub(super) struct Waiter<'a> {
    arrivals: &'a Arrivals,
    awaited: AwaitedArrival,
    bell: Arc<Bell>,
    _memory: TakenBytes,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            memory: Budget::of(RECEIVERS_WAITING_MAX * WAITER_BYTES),
            keys: MemoryGroups::default(),
        }
    }
}

impl Arrivals {
    /// Registers a waiting receiver. An access key, or all keys of an entity together, may hold more places only while
    /// they hold fewer than are free, so that no client takes all places. The first receiver of a queue is always
    /// accepted.
    fn wait_at(&self, awaited: AwaitedArrival, by: &Actor) -> Result<Waiter<'_>, MessagingError> {
        let key = self.keys.of(by.holder());
        let account = self.memory.account([Some(key), None], usize::MAX);
        let mut memory = account.nothing();
        let mut waiting = self.waiting.lock().unwrap();
        if memory.add(WAITER_BYTES).is_err() {
            if is_waited_at(&waiting, awaited.queue()) {
                return Err(MessagingError::TooManyWaiting);
            }
            memory.add_anyway(WAITER_BYTES);
        }
        let here = waiting
            .entry(awaited.clone())
            .or_insert_with(|| WaitingReceivers {
                receivers: 0,
                bell: Arc::default(),
            });
        here.receivers += 1;
        Ok(Waiter {
            arrivals: self,
            awaited,
            bell: Arc::clone(&here.bell),
            _memory: memory,
        })
    }

    fn has_receivers(&self, queue: SubscriptionId) -> bool {
        let waiting = self.waiting.lock().unwrap();
        let mut queues = waiting.keys().map(|each| each.queue().subscription);
        queues.any(|each| each == queue)
    }

    /// Wakes up to `count` receivers, one per new message.
    pub(super) fn announce(&self, awaited: &AwaitedArrival, count: usize) {
        if let Some(here) = self.waiting.lock().unwrap().get(awaited) {
            for _ in 0..count.min(here.receivers) {
                here.bell.arrivals.notify_one();
            }
        }
    }

    /// Wakes one receiver of pending deliveries, and one of those that wait for a session, for each entry of
    /// `subscriptions`.
    fn announce_each(&self, subscriptions: &[SubscriptionId]) {
        let waiting = self.waiting.lock().unwrap();
        if waiting.is_empty() {
            return; // as with nearly every publishing
        }
        for subscription in subscriptions {
            let places = [
                AwaitedArrival::Queue(QueueRef::pending(*subscription)),
                AwaitedArrival::Session(SessionWait::Next(*subscription)),
            ];
            for here in places.iter().filter_map(|awaited| waiting.get(awaited)) {
                here.bell.arrivals.notify_one();
            }
        }
    }

    /// Notifies receivers of a queue that a message or session is available earlier than expected.
    pub(in crate::broker) fn announce_all(&self, of: QueueRef) {
        let waiting = self.waiting.lock().unwrap();
        let places = [
            AwaitedArrival::Queue(of),
            AwaitedArrival::Session(SessionWait::Next(of.subscription)),
        ];
        for here in places.iter().filter_map(|awaited| waiting.get(awaited)) {
            here.bell.sooner.notify_waiters();
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.arrivals.waiting.lock().unwrap();
        if let Some(here) = waiting.get_mut(&self.awaited) {
            here.receivers -= 1;
            if here.receivers == 0 {
                waiting.remove(&self.awaited);
            }
        }
    }
}

/// Returns whether a receiver is already waiting at a queue or one of its sessions.
fn is_waited_at(waiting: &HashMap<AwaitedArrival, WaitingReceivers>, queue: QueueRef) -> bool {
    waiting.keys().any(|each| each.queue() == queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(subscription: i64) -> AwaitedArrival {
        AwaitedArrival::Queue(QueueRef::dead_letters(SubscriptionId(subscription)))
    }

    #[test]
    fn no_key_takes_all_places_and_each_queue_has_one() {
        let arrivals = Arrivals::default();
        let key = |name: &str| Actor::AccessRule(name.to_owned());
        let all_by = |name: &str, at: i64| -> Vec<_> {
            let place = || arrivals.wait_at(queue(at), &key(name)).ok();
            std::iter::from_fn(place).collect()
        };
        let half = RECEIVERS_WAITING_MAX / 2;
        let first = all_by("a", 1);
        assert_eq!(first.len(), half, "of one key at one queue, beside nobody");
        assert_eq!(all_by("a", 2).len(), 1, "the first one at a queue");
        let others = ["b", "c", "d"].map(|name| all_by(name, 1));
        let taken = others.iter().map(Vec::len);
        assert_eq!(Vec::from_iter(taken), [half / 2, half / 4, half / 8]);
        let rest: Vec<_> = (0..40).map(|n| all_by(&format!("{n}"), 1)).collect();
        let error = arrivals.wait_at(queue(1), &key("z")).err();
        assert_eq!(error, Some(MessagingError::TooManyWaiting), "none are left");
        let firsts: Vec<_> = (2..500)
            .map(|at| arrivals.wait_at(queue(at), &key("a")))
            .collect();
        assert!(firsts.iter().all(Result::is_ok));
        drop((first, others, rest, firsts));
        let of_entity = all_by("jobs/one", 1);
        assert!(all_by("jobs/two", 1).is_empty(), "another rule of the same");
        drop(of_entity);
        assert!(arrivals.waiting.lock().unwrap().is_empty());
        assert_eq!(arrivals.memory.taken(), 0);
    }
}
