//! How many publish requests are read and stored at once. Topics get the slots in turn, so that one with hundreds of
//! publishers does not make those of others wait.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::base::Stopwatch;
use crate::model::topic::TopicId;

/// Requests whose events are read and stored at once: a few more than one event subscription may have in flight, so
/// that deliveries keep up however many publish. With 64 of them 900 connections left a fifth of the deliveries.
const SLOTS: usize = 36;

/// How long a request waits for its slot before its publisher is told to come back.
const SLOT_WAIT: Duration = Duration::from_millis(200);

/// The slots. Cheap to clone.
#[derive(Clone)]
pub(super) struct Slots(Arc<Mutex<Queues>>);

struct Queues {
    /// None while anybody waits.
    free: usize,
    by_topic: HashMap<TopicId, Queue>,
    /// The topics whose requests wait, the next one first.
    order: VecDeque<TopicId>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<oneshot::Sender<Slot>>,
    /// How long the last request of the topic has waited.
    last_wait: Duration,
}

/// The slot of one request, until it is dropped.
pub(in crate::api) struct Slot(Slots);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

/// Why a request gets no slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoSlot {
    /// Whether others than the publishers of its topic are the cause.
    pub(super) is_overload: bool,
}

impl Default for Slots {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Queues {
            free: SLOTS,
            by_topic: HashMap::new(),
            order: VecDeque::new(),
        })))
    }
}

impl Slots {
    /// Waits a moment for a slot.
    pub(super) async fn take(&self, topic: TopicId) -> Result<Slot, NoSlot> {
        let waiting = {
            let mut queues = self.lock();
            if queues.free > 0 {
                queues.free -= 1; // as nearly always
                drop(queues);
                return Ok(Slot(self.clone()));
            }
            queues.add(topic)
        };
        let stopwatch = Stopwatch::begin();
        let slot = tokio::time::timeout(SLOT_WAIT, waiting).await;
        let mut queues = self.lock();
        let mut is_overload = true;
        if let Some(queue) = queues.by_topic.get_mut(&topic) {
            queue.last_wait = stopwatch.took();
            is_overload = queue.waiting.len() < SLOTS;
        }
        drop(queues); // a slot that came too late is passed on
        slot.ok().and_then(Result::ok).ok_or(NoSlot { is_overload })
    }

    /// Whether a request to `topic` would wait in vain, as far as the last one tells.
    pub(super) fn is_crowded(&self, topic: TopicId) -> bool {
        let queues = self.lock();
        let queue = queues.by_topic.get(&topic);
        queue.is_some_and(|queue| queue.waiting.len() >= SLOTS && queue.last_wait >= SLOT_WAIT)
    }

    fn pass_on(&self) {
        let next = {
            let mut queues = self.lock();
            let next = queues.next();
            queues.free += usize::from(next.is_none());
            next
        };
        if let Some(next) = next {
            drop(next.send(Slot(self.clone()))); // if nobody waits any more, it is passed on again
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap()
    }
}

impl Queues {
    fn add(&mut self, topic: TopicId) -> oneshot::Receiver<Slot> {
        let (sender, receiver) = oneshot::channel();
        let queue = self.by_topic.entry(topic).or_default();
        if queue.waiting.is_empty() {
            self.order.push_back(topic);
        }
        queue.waiting.push_back(sender);
        receiver
    }

    /// The request that waits longest of the topic whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<Slot>> {
        while let Some(topic) = self.order.pop_front() {
            let Some(queue) = self.by_topic.get_mut(&topic) else {
                continue;
            };
            let mut next = queue.waiting.pop_front();
            while next.as_ref().is_some_and(oneshot::Sender::is_closed) {
                next = queue.waiting.pop_front();
            }
            match queue.waiting.is_empty() {
                true => drop(self.by_topic.remove(&topic)),
                false => self.order.push_back(topic),
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    const BUSY: TopicId = TopicId(1);
    const QUIET: TopicId = TopicId(2);

    #[tokio::test(start_paused = true)]
    async fn topics_get_slots_in_turn() {
        let slots = Slots::default();
        let mut held = Vec::new();
        for _ in 0..SLOTS {
            held.push(slots.take(BUSY).await.expect("a slot"));
        }
        let mut busy: Vec<_> = (0..9).map(|_| Box::pin(slots.take(BUSY))).collect();
        for each in &mut busy {
            assert!(poll!(each).is_pending());
        }
        let mut quiet = Box::pin(slots.take(QUIET));
        assert!(poll!(&mut quiet).is_pending());
        held.truncate(SLOTS - 2);
        let first = poll!(&mut busy[0]);
        assert!(first.is_ready(), "the first that waits");
        let second = poll!(&mut quiet);
        assert!(second.is_ready(), "then the other topic");
        assert!(poll!(&mut busy[1]).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn who_gets_no_slot_is_told_soon_and_leaves_it_to_others() {
        let slots = Slots::default();
        let mut held = Vec::new();
        for _ in 0..SLOTS {
            held.push(slots.take(BUSY).await.expect("a slot"));
        }
        let none = slots.take(QUIET).await.err();
        assert_eq!(none, Some(NoSlot { is_overload: true }));
        assert!(!slots.is_crowded(BUSY), "nobody waits");
        drop(held);
        assert_eq!(slots.lock().free, SLOTS);
        assert!(slots.lock().by_topic.is_empty());
    }
}
