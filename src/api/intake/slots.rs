//! Slots for publish requests. The number of slots limits the number of requests that are decoded and stored at once.
//! Topics get slots in turn, so that a topic with hundreds of publishers does not delay the publishers of other topics.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::base::Stopwatch;
use crate::base::places::{Places, TakenPlace};
use crate::model::topic::TopicId;

/// Maximum number of requests whose events are decoded and stored at once. It is slightly larger than the number of
/// deliveries that one event subscription may have in flight, so that deliveries keep up with any number of publishers.
/// With 64 slots, 900 connections reduced deliveries to a fifth.
const SLOTS: usize = 36;

/// Number of used slots plus waiting requests of one topic at which the publishers of the topic themselves count as the
/// cause if a request gets no slot.
const MANY_SLOTS: usize = SLOTS / 2;

/// Time that a request waits for a slot before its publisher is told to retry, if the topic has at least [`MANY_SLOTS`]
/// used slots plus waiting requests.
const SLOT_WAIT: Duration = Duration::from_millis(200);

/// Time that a request waits for a slot if the topic has fewer than [`MANY_SLOTS`] used slots plus waiting requests.
/// The request waits for requests to other topics, which may take long if many filters are evaluated for many events.
const FEW_WAIT: Duration = Duration::from_secs(5);

/// The slots for publish requests. Cheap to clone.
#[derive(Clone)]
pub(super) struct Slots {
    places: Places<TopicId>,
    /// Time that the last request of each topic waited. Contains only topics that have waiting requests.
    last_waits: Arc<Mutex<HashMap<TopicId, Duration>>>,
    held: Arc<SlotCounts>,
}

/// Number of slots in use by each topic. Contains only topics that use a slot.
#[derive(Default)]
struct SlotCounts(Mutex<HashMap<TopicId, usize>>);

impl SlotCounts {
    /// Returns the largest number of slots that one topic uses.
    fn most(&self) -> usize {
        let counts = self.0.lock().unwrap();
        counts.values().copied().max().unwrap_or_default()
    }
}

/// The slot of one request; released on drop.
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

/// The reason why a request gets no slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoSlot {
    /// True if the load of all publishers together is the cause. False if the topic of the request has at least
    /// [`MANY_SLOTS`] used slots plus waiting requests, or any topic uses at least [`MANY_SLOTS`] slots.
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
    /// Waits for a slot, for up to [`SLOT_WAIT`] or [`FEW_WAIT`].
    pub(super) async fn take(&self, topic: TopicId) -> Result<RequestSlot, NoSlot> {
        if let Some(place) = self.places.take_free() {
            return Ok(self.slot(topic, place)); // as nearly always
        }
        if self.places.waiting(&topic) == 0 {
            self.last_waits.lock().unwrap().remove(&topic); // of another time
        }
        let wait = if self.has_many(topic) {
            SLOT_WAIT
        } else {
            FEW_WAIT
        };
        let stopwatch = Stopwatch::begin();
        let place = tokio::time::timeout(wait, self.places.take(topic)).await;
        let waiting = self.places.waiting(&topic);
        let mut last_waits = self.last_waits.lock().unwrap();
        match waiting {
            0 => last_waits.remove(&topic),
            _ => last_waits.insert(topic, stopwatch.took()),
        };
        drop(last_waits);
        let is_overload = !self.has_many(topic) && self.held.most() < MANY_SLOTS;
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

    /// Reports whether a topic has at least [`MANY_SLOTS`] used slots plus waiting requests.
    fn has_many(&self, topic: TopicId) -> bool {
        self.held(topic) + self.places.waiting(&topic) >= MANY_SLOTS
    }

    /// Returns the number of slots that a topic uses.
    fn held(&self, topic: TopicId) -> usize {
        let held = self.held.0.lock().unwrap();
        held.get(&topic).copied().unwrap_or_default()
    }

    /// Reports whether a request to `topic` would probably get no slot, because the last request to the topic waited
    /// for at least [`SLOT_WAIT`] and at least [`SLOTS`] requests to the topic wait.
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
        let (first, second) = tokio::join!(slots.take(QUIET), slots.take(QUIET));
        let own_doing = NoSlot { is_overload: false };
        assert_eq!(first.err().as_ref(), Some(&own_doing), "of one topic");
        assert_eq!(second.err().as_ref(), Some(&own_doing));
        assert_eq!(begun.elapsed(), FEW_WAIT);
        assert!(!slots.is_crowded(BUSY), "nobody waits");
        assert_eq!(slots.take(BUSY).await.err(), Some(own_doing));
        assert_eq!(begun.elapsed(), FEW_WAIT + SLOT_WAIT);
        drop(held);
        assert_eq!(slots.held(BUSY), 0);
        assert_eq!(slots.places.free(), SLOTS);
    }

    #[tokio::test(start_paused = true)]
    async fn all_together_are_an_overload_and_one_topic_is_none() {
        for (of_one, is_overload) in [(MANY_SLOTS, false), (MANY_SLOTS - 1, true)] {
            let slots = Slots::default();
            let mut held = Vec::new();
            for number in 0..SLOTS {
                let other = 10 + i64::try_from(number % 3).expect("small");
                let topic = if number < of_one {
                    BUSY
                } else {
                    TopicId(other)
                };
                held.push(slots.take(topic).await.expect("a slot"));
            }
            let none = slots.take(QUIET).await.err();
            assert_eq!(none, Some(NoSlot { is_overload }), "{of_one}");
        }
    }
}
