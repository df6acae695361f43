//! Changes that wait for the writer.
//!
//! Settlements go first, so that what receivers have answered is not forgotten behind what publishers send;
//! but only up to half of a group, so that neither keeps the other out.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::base::Stopwatch;
use crate::store::error::StoreError;

/// Changes that may wait, settlements apart. Beyond it whoever sends one waits, which is the only back
/// pressure.
pub(super) const WAITING_MAX: usize = 4_096;

/// How long settlements wait for something else to share their commit with, which a publisher then does not have to
/// wait for. Nobody waits for a settlement itself.
const LINGER: Duration = Duration::from_millis(2);

/// Settlements that do not linger.
const LINGERING_MAX: usize = 64;

/// Which changes go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Lane {
    /// Settlements of the dispatcher. It bounds how many there are, so they never wait for room.
    Settlement,
    Other,
}

/// Both ends of a queue.
pub(super) fn queue<C>() -> (Sender<C>, Receiver<C>) {
    let shared = Arc::new(Shared {
        waiting: Mutex::new(Waiting {
            settlements: VecDeque::new(),
            others: VecDeque::new(),
            sleeps: Sleeps::No,
            is_closed: false,
        }),
        arrived: Condvar::new(),
        room: Semaphore::new(WAITING_MAX),
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// The end of those who have changes. Dropping it ends the writer once nothing waits.
pub(super) struct Sender<C>(Arc<Shared<C>>);

/// The writer's end. Dropping it drops what waits.
pub(super) struct Receiver<C>(Arc<Shared<C>>);

struct Shared<C> {
    waiting: Mutex<Waiting<C>>,
    arrived: Condvar,
    /// For other changes than settlements.
    room: Semaphore,
}

struct Waiting<C> {
    settlements: VecDeque<C>,
    others: VecDeque<C>,
    sleeps: Sleeps,
    is_closed: bool,
}

/// What wakes the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleeps {
    No,
    UntilAny,
    /// Settlements linger.
    UntilOther,
}

impl<C> Sender<C> {
    /// Adds a change, once there is room for it.
    pub(super) async fn send(&self, lane: Lane, change: C) -> Result<(), StoreError> {
        if lane == Lane::Other {
            let room = self.0.room.acquire().await;
            room.map_err(|_| StoreError::Closed)?.forget();
        }
        let mut waiting = self.0.lock();
        if waiting.is_closed {
            return Err(StoreError::Closed);
        }
        match lane {
            Lane::Settlement => waiting.settlements.push_back(change),
            Lane::Other => waiting.others.push_back(change),
        }
        let wakes = match waiting.sleeps {
            Sleeps::No => false,
            Sleeps::UntilAny => true,
            Sleeps::UntilOther => lane == Lane::Other || waiting.settlements.len() >= LINGERING_MAX,
        };
        if wakes {
            waiting.sleeps = Sleeps::No;
        }
        drop(waiting); // the writer wants it as soon as it wakes
        if wakes {
            self.0.arrived.notify_one();
        }
        Ok(())
    }

    /// How many changes wait.
    pub(super) fn len(&self) -> usize {
        let waiting = self.0.lock();
        waiting.settlements.len() + waiting.others.len()
    }
}

impl<C> Drop for Sender<C> {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.arrived.notify_one();
    }
}

impl<C> Receiver<C> {
    /// Waits for a change; `None` after the last one. Settlements alone wait for company, but not long.
    pub(super) fn wait(&self) -> Option<C> {
        let mut waiting = self.0.lock();
        let mut lingers_since = None;
        loop {
            let is_alone = waiting.others.is_empty() && waiting.settlements.len() < LINGERING_MAX;
            if waiting.settlements.is_empty() && waiting.others.is_empty() {
                if waiting.is_closed {
                    return None;
                }
                waiting.sleeps = Sleeps::UntilAny;
                waiting = self.0.arrived.wait(waiting).unwrap();
                continue;
            }
            let since: Stopwatch = *lingers_since.get_or_insert_with(Stopwatch::begin);
            let left = LINGER.saturating_sub(since.took());
            if !is_alone || waiting.is_closed || left.is_zero() {
                waiting.sleeps = Sleeps::No;
                return self.0.take(&mut waiting, Lane::Settlement);
            }
            waiting.sleeps = Sleeps::UntilOther;
            (waiting, _) = self.0.arrived.wait_timeout(waiting, left).unwrap();
        }
    }

    /// The next change, if one waits: of the lane `first`, else of the other one.
    pub(super) fn next(&self, first: Lane) -> Option<C> {
        self.0.take(&mut self.0.lock(), first)
    }
}

impl<C> Drop for Receiver<C> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.is_closed = true;
        self.0.room.close();
        let left = (
            std::mem::take(&mut waiting.settlements),
            std::mem::take(&mut waiting.others),
        );
        drop(waiting); // a change may hold the last handle, which closes the queue itself
        drop(left);
    }
}

impl<C> Shared<C> {
    fn lock(&self) -> MutexGuard<'_, Waiting<C>> {
        self.waiting.lock().unwrap()
    }

    fn take(&self, waiting: &mut Waiting<C>, first: Lane) -> Option<C> {
        let other = |waiting: &mut Waiting<C>| {
            let taken = waiting.others.pop_front();
            self.room.add_permits(usize::from(taken.is_some()));
            taken
        };
        match first {
            Lane::Settlement => waiting.settlements.pop_front().or_else(|| other(waiting)),
            Lane::Other => other(waiting).or_else(|| waiting.settlements.pop_front()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_lane_keeps_its_order_and_is_taken_when_the_other_is_empty() {
        let (sender, receiver) = queue();
        for (lane, change) in [
            (Lane::Other, 1),
            (Lane::Settlement, 2),
            (Lane::Other, 3),
            (Lane::Settlement, 4),
        ] {
            sender.send(lane, change).await.expect("room");
        }
        assert_eq!(sender.len(), 4);
        assert_eq!(receiver.wait(), Some(2));
        assert_eq!(receiver.next(Lane::Other), Some(1));
        assert_eq!(receiver.next(Lane::Settlement), Some(4));
        assert_eq!(receiver.next(Lane::Settlement), Some(3));
        assert_eq!(receiver.next(Lane::Other), None);
        drop(sender);
        assert_eq!(receiver.wait(), None);
    }

    #[tokio::test]
    async fn a_settlement_does_not_wait_for_room() {
        let (sender, receiver) = queue();
        for change in 0..WAITING_MAX {
            sender.send(Lane::Other, change).await.expect("room");
        }
        sender
            .send(Lane::Settlement, 7)
            .await
            .expect("no need of room");
        let waits = sender.send(Lane::Other, 8);
        let mut waits = Box::pin(waits);
        assert!(futures_util::poll!(&mut waits).is_pending());
        assert_eq!(receiver.next(Lane::Other), Some(0));
        waits.await.expect("room");
    }

    #[tokio::test]
    async fn what_waits_is_dropped_with_the_writer() {
        let (sender, receiver) = queue();
        let change = Arc::new(());
        let sent = sender.send(Lane::Other, Arc::clone(&change)).await;
        sent.expect("room");
        drop(receiver);
        assert_eq!(Arc::strong_count(&change), 1);
        for lane in [Lane::Settlement, Lane::Other] {
            let late = sender.send(lane, Arc::clone(&change)).await;
            assert_eq!(late, Err(StoreError::Closed));
        }
    }
}
