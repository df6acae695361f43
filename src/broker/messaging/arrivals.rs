//! Receivers that wait until something arrives, or falls due.

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

/// How long a receiver waits before the store is read again: a lock may lapse.
const LOOK_INTERVAL: Duration = Duration::from_secs(15);

/// How long a receiver rests when what seemed due could not be received.
const VAIN_PAUSE: Duration = Duration::from_secs(1);

/// Bytes that a waiting receiver counts for, with the name of its session.
const WAITER_BYTES: usize = 512;

impl Broker {
    /// Waits until what is awaited may be there. `in_vain` says that the caller has just found nothing. May be dropped
    /// while it waits.
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
            // Registered before the store is read, so that nothing in between is missed.
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

    /// Lets a receiver wait, for one who has the key of `by`.
    pub(super) fn wait_at(
        &self,
        awaited: Awaited,
        by: &Actor,
    ) -> Result<Waiter<'_>, MessagingError> {
        let registry = self.registry();
        let found = registry.subscription(awaited.queue().subscription.owner());
        found.ok_or(MessagingError::EntityDeleted)?;
        self.shared.arrivals.wait_at(awaited, by)
    }

    /// Returns how long it takes until what is awaited may be there.
    pub(super) async fn time_until_due(&self, awaited: &Awaited) -> Result<Duration, StoreError> {
        let of = awaited.queue();
        let registry = self.registry();
        let found = registry.subscription(of.subscription);
        let is_held_back = found.is_some_and(|(_, own)| !own.may_deliver());
        if of.queue == SubQueue::Active && is_held_back {
            return Ok(LOOK_INTERVAL);
        }
        let ledger = &self.store().ledger;
        let due_at = match awaited {
            Awaited::Queue(of) => {
                let due = ledger.agenda(vec![*of]).await?;
                due.first().map(|due| due.at)
            }
            Awaited::Session(awaited) => ledger.session_due(awaited.clone()).await?,
        };
        let now = self.clock().now();
        Ok(due_at.map_or(LOOK_INTERVAL, |at| at.since(now)))
    }

    /// Returns whether receivers wait for messages of a queue or for its dead letters.
    pub(in crate::broker) fn has_receivers(&self, queue: SubscriptionId) -> bool {
        self.shared.arrivals.has_receivers(queue)
    }

    /// Wakes receivers of pull subscriptions. A subscription is listed once for each event that it gets.
    pub(in crate::broker) fn announce_arrivals(&self, subscriptions: &[SubscriptionId]) {
        self.shared.arrivals.announce_each(subscriptions);
    }
}

/// The arrival that a receiver waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Awaited {
    /// A delivery of a queue.
    Queue(QueueRef),
    /// A session, or a delivery of one.
    Session(SessionWait),
}

impl Awaited {
    fn queue(&self) -> QueueRef {
        match self {
            Self::Queue(of) => *of,
            Self::Session(SessionWait::Next(of) | SessionWait::In(of, _)) => QueueRef::pending(*of),
        }
    }
}

/// Waiting receivers, by what they wait for.
pub(in crate::broker) struct Arrivals {
    waiting: Mutex<HashMap<Awaited, Waiting>>,
    /// The bytes of all of them.
    memory: Budget,
    keys: MemoryGroups<Actor>,
}

struct Waiting {
    receivers: usize,
    bell: Arc<Bell>,
}

/// Wakes those who wait for the same.
#[derive(Default)]
struct Bell {
    /// Wakes one of them for each delivery that arrives.
    arrivals: Notify,
    /// Wakes the one who watches, since something is due sooner than was to be expected.
    sooner: Notify,
    /// Held by the one who watches when something falls due, so that thousands do not read the store for that. When that
    /// one has found something, the next one looks whether there is more.
    turn: tokio::sync::Mutex<()>,
}

/// A registered waiting receiver, until it is dropped.
pub(super) struct Waiter<'a> {
    arrivals: &'a Arrivals,
    awaited: Awaited,
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
    /// Nobody takes all places: a key, or the keys of an entity together, get more of them only while they have fewer than are left.
    /// The first receiver of a queue is let in, however many wait at others.
    fn wait_at(&self, awaited: Awaited, by: &Actor) -> Result<Waiter<'_>, MessagingError> {
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
        let here = waiting.entry(awaited.clone()).or_insert_with(|| Waiting {
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

    /// Wakes one receiver for each of `count` deliveries.
    pub(super) fn announce(&self, awaited: &Awaited, count: usize) {
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
                Awaited::Queue(QueueRef::pending(*subscription)),
                Awaited::Session(SessionWait::Next(*subscription)),
            ];
            for here in places.iter().filter_map(|awaited| waiting.get(awaited)) {
                here.bell.arrivals.notify_one();
            }
        }
    }

    /// Something is available earlier than receivers expect.
    pub(in crate::broker) fn announce_all(&self, of: QueueRef) {
        let waiting = self.waiting.lock().unwrap();
        let places = [
            Awaited::Queue(of),
            Awaited::Session(SessionWait::Next(of.subscription)),
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

/// Says whether somebody waits at a queue already, or in a session of it.
fn is_waited_at(waiting: &HashMap<Awaited, Waiting>, queue: QueueRef) -> bool {
    waiting.keys().any(|each| each.queue() == queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(subscription: i64) -> Awaited {
        Awaited::Queue(QueueRef::dead_letters(SubscriptionId(subscription)))
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
