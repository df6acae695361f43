//! A limited number of places, like a semaphore. Waiting keys take turns.

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;

use crate::base::turns::FairQueue;

/// A limited number of places. Cheap to clone.
pub struct Places<K: Clone + Eq + Hash>(Arc<Mutex<PlacesState<K>>>);

struct PlacesState<K: Clone + Eq + Hash> {
    /// Number of free places; 0 while anybody waits.
    free: usize,
    waiting: FairQueue<K, oneshot::Sender<TakenPlace<K>>>,
}

/// Maximum number of waiters, for one key and in total.
#[derive(Clone, Copy, Debug)]
pub struct WaitingMax {
    pub by_key: usize,
    pub in_all: usize,
}

/// A place, until it is dropped.
pub struct TakenPlace<K: Clone + Eq + Hash>(Places<K>);

impl<K: Clone + Eq + Hash> Drop for TakenPlace<K> {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

impl<K: Clone + Eq + Hash> Clone for Places<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for Places<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash> Places<K> {
    /// Creates `count` free places.
    pub fn of(count: usize) -> Self {
        Self(Arc::new(Mutex::new(PlacesState {
            free: count,
            waiting: FairQueue::default(),
        })))
    }

    /// Takes a place if one is free.
    pub fn take_free(&self) -> Option<TakenPlace<K>> {
        let mut held = self.lock();
        held.free = held.free.checked_sub(1)?;
        Some(TakenPlace(self.clone()))
    }

    /// Waits for a place. The keys of the waiters take turns, and the waiters of one key are served in order of
    /// arrival.
    pub async fn take(&self, key: K) -> TakenPlace<K> {
        self.take_in(key.clone(), key).await
    }

    /// Waits for a place as [`Places::take`] does, but the keys of a group share one turn.
    pub async fn take_in(&self, group: K, key: K) -> TakenPlace<K> {
        let any = WaitingMax {
            by_key: usize::MAX,
            in_all: usize::MAX,
        };
        let place = self.line_up(any, group, key).await;
        place.expect("any number may wait")
    }

    /// Waits for a place as [`Places::take`] does, within limits on the number of waiters. Returns `None` if too many
    /// wait for the key. If too many wait in total, the last waiter of the key with most waiters gets `None`.
    pub async fn take_within(&self, most: WaitingMax, key: K) -> Option<TakenPlace<K>> {
        self.line_up(most, key.clone(), key).await
    }

    async fn line_up(&self, most: WaitingMax, group: K, key: K) -> Option<TakenPlace<K>> {
        let next = {
            let mut held = self.lock();
            if let Some(left) = held.free.checked_sub(1) {
                held.free = left;
                return Some(TakenPlace(self.clone()));
            }
            let waiting = &mut held.waiting;
            if waiting.waiting(&key) >= most.by_key {
                return None;
            }
            if waiting.len() >= most.in_all {
                drop(waiting.pop_last_beyond(&key)?); // it has to come back in place of this one
            }
            let (sender, next) = oneshot::channel();
            waiting.push_in(group, key, sender);
            next
        };
        next.await.ok()
    }

    /// Returns the number of waiters with this key.
    pub fn waiting(&self, key: &K) -> usize {
        self.lock().waiting.waiting(key)
    }

    /// Returns the number of free places.
    pub fn free(&self) -> usize {
        self.lock().free
    }

    fn pass_on(&self) {
        let mut held = self.lock();
        let next = std::iter::from_fn(|| held.waiting.pop()).find(|next| !next.is_closed());
        let Some(next) = next else {
            held.free += 1;
            return;
        };
        drop(held);
        drop(next.send(TakenPlace(self.clone()))); // if nobody waits any more, it is passed on again
    }

    fn lock(&self) -> MutexGuard<'_, PlacesState<K>> {
        self.0.lock().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn keys_get_places_in_turn_and_whoever_goes_away_holds_none() {
        let places = Places::of(1);
        let held = places.take("busy").await;
        let mut busy: Vec<_> = (0..3).map(|_| Box::pin(places.take("busy"))).collect();
        for each in &mut busy {
            assert!(poll!(each).is_pending());
        }
        let mut quiet = Box::pin(places.take("quiet"));
        assert!(poll!(&mut quiet).is_pending());
        assert_eq!((places.waiting(&"busy"), places.free()), (3, 0));
        drop(busy.remove(0));
        drop(held);
        let std::task::Poll::Ready(first) = poll!(&mut quiet) else {
            panic!("the one whose turn it is");
        };
        assert!(poll!(&mut busy[0]).is_pending());
        drop(first);
        assert!(poll!(&mut busy[0]).is_ready(), "the other's next");
        assert_eq!(places.free(), 0, "it was given to the last one");
        drop(busy);
        assert_eq!(places.free(), 1);
    }

    #[tokio::test]
    async fn no_more_wait_than_may() {
        let places = Places::of(1);
        let most = WaitingMax {
            by_key: 2,
            in_all: 3,
        };
        let take = |key: &'static str| Box::pin(places.take_within(most, key));
        let held = take("busy").await.expect("a place");
        let mut waiting = ["busy", "busy", "quiet"].map(take);
        for each in &mut waiting[..2] {
            assert!(poll!(each).is_pending());
        }
        assert!(take("busy").await.is_none(), "two of this key wait");
        assert!(poll!(&mut waiting[2]).is_pending());
        let mut late = take("late");
        assert!(poll!(&mut late).is_pending());
        let [first, second, _quiet] = &mut waiting;
        assert!(second.await.is_none(), "two of its key waited");
        assert!(take("later").await.is_none(), "one waits of each key");
        drop(held);
        assert!(poll!(first).is_ready());
        assert!(poll!(take("later")).is_pending(), "there is room again");
    }
}
