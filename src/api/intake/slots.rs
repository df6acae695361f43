//! How many publish requests are read and stored at once. Topics get the slots in turn, so that one with hundreds of
//! publishers does not make those of others wait.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::base::Stopwatch;
use crate::base::places::{Places, TakenPlace};
use crate::model::topic::TopicId;

/// Requests whose events are read and stored at once: a few more than one event subscription may have in flight, so
/// that deliveries keep up however many publish. With 64 of them 900 connections left a fifth of the deliveries.
const SLOTS: usize = 36;

/// How long a request waits for its slot before its publisher is told to come back.
const SLOT_WAIT: Duration = Duration::from_millis(200);

/// How long it waits if no other request of its topic does. Only other topics have their turn before it, but their requests may take
/// long where many filters look at many events.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// The slots. Cheap to clone.
#[derive(Clone)]
pub(super) struct Slots {
    places: Places<TopicId>,
    /// How long the last request of each topic has waited whose requests wait.
    last_waits: Arc<Mutex<HashMap<TopicId, Duration>>>,
    held: Arc<SlotCounts>,
}

/// How many slots each topic has that has any.
#[derive(Default)]
struct SlotCounts(Mutex<HashMap<TopicId, usize>>);

/// The slot of one request, until it is dropped.
pub(in crate::api) struct RequestSlot {
    _place: TakenPlace<TopicId>,
    topic: TopicId,
    held: Arc<SlotCounts>,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        let mut held = self.held.0.lock().unwrap();
        if let Entry::Occupied(mut count) = held.entry(self.topic) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Why a request gets no slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoSlot {
    /// True if others than the publishers of its topic are the cause. Where the topic has many slots, or many wait for it, its own
    /// publishers are.
    pub(super) is_overload: bool,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            places: Places::of(SLOTS),
            last_waits: Arc::default(),
            held: Arc::default(),
        }
    }
}

impl Slots {
    /// Waits a moment for a slot.
    pub(super) async fn take(&self, topic: TopicId) -> Result<RequestSlot, NoSlot> {
        if let Some(place) = self.places.take_free() {
            return Ok(self.slot(topic, place)); // as nearly always
        }
        let is_first = self.places.waiting(&topic) == 0;
        if is_first {
            self.last_waits.lock().unwrap().remove(&topic); // of another time
        }
        let wait = if is_first { FIRST_WAIT } else { SLOT_WAIT };
        let stopwatch = Stopwatch::begin();
        let place = tokio::time::timeout(wait, self.places.take(topic)).await;
        let waiting = self.places.waiting(&topic);
        let mut last_waits = self.last_waits.lock().unwrap();
        match waiting {
            0 => last_waits.remove(&topic),
            _ => last_waits.insert(topic, stopwatch.took()),
        };
        drop(last_waits);
        let is_overload = self.held(topic) + waiting < SLOTS / 2;
        place
            .map(|place| self.slot(topic, place))
            .map_err(|_| NoSlot { is_overload })
    }

    fn slot(&self, topic: TopicId, place: TakenPlace<TopicId>) -> RequestSlot {
        *self.held.0.lock().unwrap().entry(topic).or_default() += 1;
        RequestSlot {
            _place: place,
            topic,
            held: Arc::clone(&self.held),
        }
    }

    /// How many slots a topic has.
    fn held(&self, topic: TopicId) -> usize {
        let held = self.held.0.lock().unwrap();
        held.get(&topic).copied().unwrap_or_default()
    }

    /// Whether a request to `topic` would wait in vain, as far as the last one tells.
    pub(super) fn is_crowded(&self, topic: TopicId) -> bool {
        let last_wait = self.last_waits.lock().unwrap().get(&topic).copied();
        last_wait.is_some_and(|last| last >= SLOT_WAIT) && self.places.waiting(&topic) >= SLOTS
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
        let begun = tokio::time::Instant::now();
        let mut first = Box::pin(slots.take(QUIET));
        assert!(poll!(&mut first).is_pending());
        let none = slots.take(QUIET).await.err();
        assert_eq!(none, Some(NoSlot { is_overload: true }));
        assert_eq!(begun.elapsed(), SLOT_WAIT);
        let none = first.await.err();
        assert_eq!(none, Some(NoSlot { is_overload: true }));
        assert_eq!(begun.elapsed(), FIRST_WAIT);
        assert!(!slots.is_crowded(BUSY), "nobody waits");
        let none = slots.take(BUSY).await.err();
        assert_eq!(none, Some(NoSlot { is_overload: false }), "its own doing");
        drop(held);
        assert_eq!(slots.held(BUSY), 0);
        assert_eq!(slots.places.free(), SLOTS);
    }
}
