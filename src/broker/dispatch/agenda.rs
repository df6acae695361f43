//! The scheduler of the dispatcher. It selects the next subscription that has due deliveries and a free slot. Pure.
//!
//! A subscription with deliveries waits in one of three ways: until a point in time (`later`), in the queue for its
//! turn (`ready`, first come, first served, which is fair), or parked until a request ends, because all of its slots
//! are taken. A subscription that has used up its rate waits in `later` until its next request is allowed.
//!
//! Slots are shared like the buffer of a network switch (dynamic thresholds). One half of all slots is kept for the
//! first requests of subscriptions. From the other half, a subscription may take another slot only while it has fewer
//! requests in flight than slots are left there. Quick answers enlarge the window of a subscription: the number of
//! requests that it may have in flight in any case. A healthy receiver therefore finds a slot however many slow
//! receivers there are.
//!
//! All due deliveries are in the store. The agenda holds a bounded part of them in memory, and the time from which on
//! the store has more due deliveries (`unread`). Before that time a subscription is caught up: new deliveries are
//! handed over to the agenda when they are stored, and nothing is read from the store.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use crate::base::Timestamp;
use crate::model::delivery::DeliveryId;
use crate::model::limits::UNSTORED_PER_SLOT;
use crate::model::pace::{Rate, TokenBucket};
use crate::model::subscription::SubscriptionId;

/// The limits on requests in flight, and on deliveries in memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct SlotLimits {
    pub(in crate::broker) per_subscription: usize,
    pub(in crate::broker) overall: usize,
    /// The most bytes of events in flight. At this limit no subscription gets a slot.
    pub(in crate::broker) wire_bytes: usize,
    /// The most bytes of deliveries that wait in memory for a slot.
    pub(in crate::broker) waiting_bytes: usize,
    /// The most answered deliveries whose results are not stored yet. At this limit no subscription gets a slot.
    pub(in crate::broker) unstored: usize,
}

/// The response time from which on an answer shrinks the window of its subscription. In that time the slot would have
/// served a thousand quick receivers.
const SLOW_ANSWER: Duration = Duration::from_secs(1);

/// The most entries for which debug builds check the sums over all entries.
const SUMMED_UP_MAX: usize = 64;

/// A delivery in memory.
pub(in crate::broker) trait InMemory {
    fn id(&self) -> DeliveryId;

    /// Returns the bytes that the delivery takes in memory and in a request.
    fn weight(&self) -> usize;
}

/// The limits in the definition of a subscription.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnLimits {
    /// Replaces [`SlotLimits::per_subscription`].
    pub(super) in_flight_max: Option<usize>,
    pub(super) rate: Option<Rate>,
}

/// A turn of a subscription. It may start up to `slots` requests, and must be ended with [`Agenda::end_turn`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DispatchSlot<W> {
    pub(super) subscription: SubscriptionId,
    pub(super) slots: usize,
    /// Deliveries in memory that had no slot so far, oldest first.
    pub(super) waiting: VecDeque<W>,
    /// From when on the store has something due that is not held.
    pub(super) unread: Option<Timestamp>,
}

/// The result of a turn.
#[derive(Debug)]
pub(super) struct Turned<W> {
    /// The number of requests that the turn started.
    pub(super) started: usize,
    /// The bytes of the events of the started requests.
    pub(super) bytes: usize,
    /// Deliveries that wait for the next turn. Deliveries that do not fit into memory are no longer held.
    pub(super) waiting: VecDeque<W>,
    /// Deliveries that are not held any more.
    pub(super) released: Vec<DeliveryId>,
    /// From when on the store has something due that is not held.
    pub(super) unread: Option<Timestamp>,
}

impl<W> Default for Turned<W> {
    fn default() -> Self {
        Self {
            started: 0,
            bytes: 0,
            waiting: VecDeque::new(),
            released: Vec::new(),
            unread: None,
        }
    }
}

/// The agenda. `W` is a delivery that waits for a slot.
#[derive(Debug)]
pub(in crate::broker) struct Agenda<W> {
    limits: SlotLimits,
    entries: HashMap<SubscriptionId, AgendaEntry<W>>,
    later: BTreeSet<(Timestamp, SubscriptionId)>,
    /// The queue of ready subscriptions. Some of them may have had their turn already.
    ready: VecDeque<SubscriptionId>,
    in_flight: usize,
    /// Bytes of events in flight, over all entries.
    wire_bytes: usize,
    /// Slots reserved for turns that have not ended.
    reserved: usize,
    /// Bytes of waiting deliveries, over all entries.
    waiting_bytes: usize,
    /// Answered deliveries that are not stored yet, over all entries.
    unstored: usize,
    /// The number of times that the agenda was locked.
    locks: u64,
}

#[derive(Debug)]
struct AgendaEntry<W> {
    state: EntryState,
    /// From when on the store has something due that is not held.
    unread: Option<Timestamp>,
    in_flight: usize,
    wire_bytes: usize,
    /// Unfinished changes of the store that store answered requests: one for each request, and more for a large batch.
    unstored: usize,
    /// The number of requests that may be in flight regardless of other subscriptions. Quick answers raise it.
    window: usize,
    /// The limit on requests in flight that applied to the last turn.
    in_flight_max: usize,
    /// Slots reserved for the current turn.
    reserved: usize,
    /// All deliveries in memory: waiting, in a turn, in flight, or answered and not stored yet.
    held: HashSet<DeliveryId>,
    waiting: VecDeque<W>,
    /// Deliveries recalled during the current turn. The turn may have read them from the store before the recall.
    recalled: Vec<DeliveryId>,
    /// The start of the current turn, and the rate that limits its requests.
    paced: Option<(Timestamp, Rate)>,
    allowance: TokenBucket,
}

impl<W> Default for AgendaEntry<W> {
    fn default() -> Self {
        Self {
            state: EntryState::Idle,
            unread: None,
            in_flight: 0,
            wire_bytes: 0,
            unstored: 0,
            window: 1,
            in_flight_max: 0,
            reserved: 0,
            held: HashSet::new(),
            waiting: VecDeque::new(),
            recalled: Vec::new(),
            paced: None,
            allowance: TokenBucket::default(),
        }
    }
}

impl<W> AgendaEntry<W> {
    fn is_behind(&self, now: Timestamp) -> bool {
        self.unread.is_some_and(|at| at <= now)
    }

    /// Returns the number of slots that the subscription may take in addition to its requests in flight.
    fn share_of(&self, left: Left) -> usize {
        if self.wire_bytes >= left.bytes || self.has_too_much_unstored() {
            return 0;
        }
        let own = self.in_flight_max.saturating_sub(self.in_flight);
        let in_window = self.window.saturating_sub(self.in_flight);
        // Each slot taken also leaves one slot less, so half of the difference can be taken.
        let beyond = left.beyond_first.saturating_sub(self.in_flight).div_ceil(2);
        own.min(left.slots).min(in_window.max(beyond))
    }

    fn has_too_much_unstored(&self) -> bool {
        self.unstored >= self.in_flight_max.saturating_mul(UNSTORED_PER_SLOT)
    }

    /// Adapts the window to an answer that took `took`.
    fn answered_after(&mut self, took: Duration) {
        self.window = if took < SLOW_ANSWER {
            (self.window + 1).min(self.in_flight_max)
        } else {
            self.window / 2
        };
        self.window = self.window.max(1);
    }
}

/// The unused part of the limits over all subscriptions.
#[derive(Clone, Copy)]
struct Left {
    slots: usize,
    /// The free slots beyond the half that is kept for first requests.
    beyond_first: usize,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryState {
    /// Nothing is known to be due.
    Idle,
    Later(Timestamp),
    Ready,
    InTurn,
    /// Deliveries are due, but no slot is available.
    Parked,
}

impl<W: InMemory> Agenda<W> {
    pub(in crate::broker) fn new(limits: SlotLimits) -> Self {
        Self {
            limits,
            entries: HashMap::new(),
            later: BTreeSet::new(),
            ready: VecDeque::new(),
            in_flight: 0,
            wire_bytes: 0,
            reserved: 0,
            waiting_bytes: 0,
            unstored: 0,
            locks: 0,
        }
    }

    /// Replaces the limits. Requests in flight go on.
    pub(in crate::broker) fn set_limits(&mut self, limits: SlotLimits) {
        self.limits = limits;
    }

    pub(in crate::broker) fn count_lock(&mut self) {
        self.locks += 1;
    }

    pub(in crate::broker) fn locks(&self) -> u64 {
        self.locks
    }

    /// Notes that the store has something due at `at` for `subscription`. Returns whether the dispatcher must
    /// wake up earlier.
    pub(in crate::broker) fn note(&mut self, subscription: SubscriptionId, at: Timestamp) -> bool {
        let earliest = self.earliest();
        let entry = self.entries.entry(subscription).or_default();
        entry.unread = Some(entry.unread.map_or(at, |unread| unread.min(at)));
        match entry.state {
            EntryState::Ready | EntryState::Parked | EntryState::InTurn => return false,
            EntryState::Later(planned) if planned <= at => return false,
            EntryState::Later(planned) => {
                self.later.remove(&(planned, subscription));
            }
            EntryState::Idle => {}
        }
        entry.state = EntryState::Later(at);
        self.later.insert((at, subscription));
        self.assert_consistent(subscription);
        earliest.is_none_or(|earliest| at < earliest)
    }

    /// Takes a due delivery that was just stored, if the subscription is caught up and memory has room. Otherwise the
    /// delivery is read from the store later. Returns whether the dispatcher must wake up.
    pub(in crate::broker) fn hand_over(
        &mut self,
        subscription: SubscriptionId,
        delivery: W,
        now: Timestamp,
    ) -> bool {
        let weight = delivery.weight();
        let fits = weight <= self.room();
        let entry = self.entries.entry(subscription).or_default();
        if entry.is_behind(now) || !fits {
            return self.note(subscription, now);
        }
        // A turn that is reading the store may already hold this delivery.
        if !entry.held.insert(delivery.id()) {
            return false;
        }
        entry.waiting.push_back(delivery);
        self.waiting_bytes += weight;
        self.make_ready(subscription)
    }

    /// Queues a subscription for its turn. Returns whether the dispatcher must wake up.
    fn make_ready(&mut self, subscription: SubscriptionId) -> bool {
        let entry = self.entries.entry(subscription).or_default();
        match entry.state {
            EntryState::Ready | EntryState::Parked | EntryState::InTurn => return false,
            EntryState::Later(planned) => {
                self.later.remove(&(planned, subscription));
            }
            EntryState::Idle => {}
        }
        entry.state = EntryState::Ready;
        self.ready.push_back(subscription);
        true
    }

    fn room(&self) -> usize {
        self.limits.waiting_bytes.saturating_sub(self.waiting_bytes)
    }

    /// Reschedules `subscription` after a change of its definition, since the reason for its wait may no longer apply.
    /// Returns whether the dispatcher must wake up earlier.
    pub(in crate::broker) fn reconsider(
        &mut self,
        subscription: SubscriptionId,
        now: Timestamp,
    ) -> bool {
        if let Some(entry) = self.entries.get_mut(&subscription) {
            // A current turn was taken under the old definition. Its old limit must not park the subscription.
            entry.in_flight_max = usize::MAX;
            if entry.state == EntryState::Parked {
                entry.state = EntryState::Ready;
                self.ready.push_back(subscription);
                return true;
            }
        }
        self.note(subscription, now)
    }

    /// Returns the earliest time at which a subscription in `later` gets a turn.
    pub(super) fn earliest(&self) -> Option<Timestamp> {
        self.later.first().map(|(at, _)| *at)
    }

    /// Returns whether no delivery is due, in flight, or answered and not stored yet.
    pub(in crate::broker) fn is_idle(&self, now: Timestamp) -> bool {
        let is_idle = |entry: &AgendaEntry<W>| match entry.state {
            EntryState::Idle => entry.held.is_empty(),
            EntryState::Later(at) => entry.held.is_empty() && at > now,
            EntryState::Ready | EntryState::InTurn | EntryState::Parked => false,
        };
        self.entries.values().all(is_idle)
    }

    /// Returns the number of requests in flight.
    pub(in crate::broker) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the number of requests that may be started now, and the bytes that they may have.
    fn left(&self) -> Left {
        let bytes = self.limits.wire_bytes.saturating_sub(self.wire_bytes);
        let slots = if self.unstored < self.limits.unstored && bytes > 0 {
            (self.limits.overall).saturating_sub(self.in_flight + self.reserved)
        } else {
            0
        };
        Left {
            slots,
            beyond_first: slots.saturating_sub(self.limits.overall / 2),
            bytes,
        }
    }

    /// Takes the turn of the next subscription that is due, has a free slot and has not used up its rate.
    pub(super) fn take(
        &mut self,
        now: Timestamp,
        own: impl Fn(SubscriptionId) -> OwnLimits,
    ) -> Option<DispatchSlot<W>> {
        self.promote(now);
        let left = self.left();
        if left.slots == 0 {
            return None;
        }
        while let Some(subscription) = self.ready.pop_front() {
            let Some(entry) = self.entries.get_mut(&subscription) else {
                continue;
            };
            if entry.state != EntryState::Ready {
                continue;
            }
            let OwnLimits {
                in_flight_max,
                rate,
            } = own(subscription);
            entry.in_flight_max = in_flight_max.unwrap_or(self.limits.per_subscription);
            let share = entry.share_of(left);
            if share == 0 {
                entry.state = EntryState::Parked;
                continue;
            }
            let allowed = rate.map_or(usize::MAX, |rate| {
                entry.allowance.come_under(rate, now);
                entry.allowance.available(rate, now)
            });
            if let (0, Some(rate)) = (allowed, rate) {
                let at = entry.allowance.next_at(rate);
                entry.state = EntryState::Later(at);
                self.later.insert((at, subscription));
                continue;
            }
            entry.paced = rate.map(|rate| (now, rate));
            return Some(self.begin_turn(subscription, share.min(allowed)));
        }
        None
    }

    /// Takes a turn of one request for a subscription whose request has just ended. `None` if the subscription is not
    /// parked, has a rate, or the free slots are needed for other subscriptions.
    pub(super) fn take_next(
        &mut self,
        subscription: SubscriptionId,
        own: impl Fn(SubscriptionId) -> OwnLimits,
    ) -> Option<DispatchSlot<W>> {
        let left = self.left();
        if left.slots <= self.ready.len() {
            return None;
        }
        let entry = self.entries.get_mut(&subscription)?;
        if entry.state != EntryState::Parked {
            return None;
        }
        let OwnLimits {
            in_flight_max,
            rate,
        } = own(subscription);
        entry.in_flight_max = in_flight_max.unwrap_or(self.limits.per_subscription);
        let may_go_on = entry.share_of(left) > 0 && rate.is_none();
        may_go_on.then(|| self.begin_turn(subscription, 1))
    }

    fn begin_turn(&mut self, subscription: SubscriptionId, slots: usize) -> DispatchSlot<W> {
        let entry = self.entries.entry(subscription).or_default();
        entry.state = EntryState::InTurn;
        entry.reserved = slots;
        self.reserved += slots;
        let waiting = std::mem::take(&mut entry.waiting);
        self.waiting_bytes -= weight_of(&waiting);
        // Deliveries stored from here on are noted or handed over, even if this turn reads them as well.
        let unread = entry.unread.take();
        self.assert_consistent(subscription);
        DispatchSlot {
            subscription,
            slots,
            waiting,
            unread,
        }
    }

    fn promote(&mut self, now: Timestamp) {
        while let Some((at, subscription)) = self.later.first().copied()
            && at <= now
        {
            self.later.pop_first();
            self.entries.entry(subscription).or_default().state = EntryState::Ready;
            self.ready.push_back(subscription);
        }
    }

    /// Holds the deliveries that a turn has read from the store. Returns them without the deliveries that were handed
    /// over or recalled during the read.
    pub(super) fn hold(&mut self, subscription: SubscriptionId, read: Vec<W>) -> Vec<W> {
        let entry = self.entries.entry(subscription).or_default();
        let recalled = &entry.recalled;
        read.into_iter()
            .filter(|each| !recalled.contains(&each.id()))
            .filter(|each| entry.held.insert(each.id()))
            .collect()
    }

    /// Returns the deliveries of `subscription` that are in memory.
    pub(super) fn held(&self, subscription: SubscriptionId) -> HashSet<DeliveryId> {
        let entry = self.entries.get(&subscription);
        entry.map(|entry| entry.held.clone()).unwrap_or_default()
    }

    /// Returns the deliveries of `subscription` in memory that do not wait for a slot: deliveries in a turn, in flight,
    /// or answered and not stored yet.
    pub(super) fn sent(&self, subscription: SubscriptionId) -> HashSet<DeliveryId> {
        let mut sent = self.held(subscription);
        if let Some(entry) = self.entries.get(&subscription) {
            for waiting in &entry.waiting {
                sent.remove(&waiting.id());
            }
        }
        sent
    }

    /// Removes deliveries that wait for a slot, and keeps the current turn from holding them.
    pub(super) fn recall(&mut self, subscription: SubscriptionId, recalled: &[DeliveryId]) {
        if let Some(entry) = self.entries.get_mut(&subscription) {
            self.waiting_bytes -= weight_of(&entry.waiting);
            entry.waiting.retain(|each| {
                let is_kept = !recalled.contains(&each.id());
                if !is_kept {
                    entry.held.remove(&each.id());
                }
                is_kept
            });
            self.waiting_bytes += weight_of(&entry.waiting);
            if entry.state == EntryState::InTurn {
                entry.recalled.extend_from_slice(recalled);
            }
        }
        self.assert_consistent(subscription);
    }

    /// Returns whether memory has room for deliveries that are leased ahead of free slots.
    pub(super) fn may_lease_ahead(&self) -> bool {
        self.room() > 0
    }

    /// Ends a turn. Returns whether the dispatcher must wake up.
    pub(super) fn end_turn(
        &mut self,
        subscription: SubscriptionId,
        turned: Turned<W>,
        now: Timestamp,
    ) -> bool {
        let mut room = self.room();
        let Some(entry) = self.entries.get_mut(&subscription) else {
            return false;
        };
        let Turned {
            started,
            bytes,
            mut waiting,
            released,
            unread,
        } = turned;
        debug_assert_eq!(
            entry.state,
            EntryState::InTurn,
            "a turn that ends was taken"
        );
        debug_assert!(
            started <= entry.reserved,
            "a turn starts no more requests than it has slots"
        );
        let has_slots_left = started < entry.reserved;
        self.reserved -= std::mem::take(&mut entry.reserved);
        entry.in_flight += started;
        self.in_flight += started;
        entry.wire_bytes += bytes;
        self.wire_bytes += bytes;
        if let Some((taken_at, rate)) = entry.paced.take() {
            entry.allowance.spend(started, rate, taken_at);
        }
        for id in released {
            entry.held.remove(&id);
        }
        entry.recalled.clear();
        let fitting = waiting.iter().take_while(|each| {
            let left = room.checked_sub(each.weight());
            room = left.unwrap_or(0);
            left.is_some()
        });
        let fit = fitting.count();
        let surplus = waiting.split_off(fit);
        for each in &surplus {
            entry.held.remove(&each.id());
        }
        self.waiting_bytes += weight_of(&waiting);
        waiting.append(&mut entry.waiting); // what was handed over during the turn
        entry.waiting = waiting;
        entry.state = EntryState::Idle;
        let unread = if surplus.is_empty() {
            unread
        } else {
            Some(now)
        };
        entry.unread = unread.into_iter().chain(entry.unread).min();
        let is_due = !entry.waiting.is_empty() || entry.is_behind(now);
        let must_wake = match entry.unread {
            _ if is_due && entry.in_flight >= entry.in_flight_max => {
                entry.state = EntryState::Parked;
                false
            }
            _ if is_due => self.make_ready(subscription),
            Some(at) => self.note(subscription, at),
            None => false,
        };
        self.assert_consistent(subscription);
        self.forget_idle(subscription);
        must_wake || (has_slots_left && !self.ready.is_empty())
    }

    /// Counts answered deliveries of a request. They are held until [`Agenda::stored`] has been called for each of the
    /// `changes` that store their results.
    pub(super) fn answered(
        &mut self,
        subscription: SubscriptionId,
        deliveries: usize,
        changes: usize,
    ) {
        self.unstored += deliveries;
        if let Some(entry) = self.entries.get_mut(&subscription) {
            entry.unstored += changes;
        }
    }

    /// Ends a request whose events had `bytes` bytes and whose answer took `took`.
    pub(super) fn end_request(
        &mut self,
        subscription: SubscriptionId,
        bytes: usize,
        took: Duration,
    ) {
        debug_assert!(self.in_flight > 0, "a request that ends was started");
        self.in_flight = self.in_flight.saturating_sub(1);
        self.wire_bytes = self.wire_bytes.saturating_sub(bytes);
        if let Some(entry) = self.entries.get_mut(&subscription) {
            entry.in_flight = entry.in_flight.saturating_sub(1);
            entry.wire_bytes = entry.wire_bytes.saturating_sub(bytes);
            entry.answered_after(took);
        }
        self.assert_consistent(subscription);
    }

    /// Queues a parked subscription for its turn, since a slot may be free. Returns whether any subscription is ready.
    pub(super) fn unpark(&mut self, subscription: SubscriptionId) -> bool {
        if let Some(entry) = self.entries.get_mut(&subscription)
            && entry.state == EntryState::Parked
        {
            entry.state = EntryState::Ready;
            self.ready.push_back(subscription);
        }
        !self.ready.is_empty()
    }

    /// Releases deliveries whose results are stored or were given up. `answered` is the number of them that
    /// [`Agenda::answered`] counted; `next_due` is the time at which the first of them falls due again, if any does.
    /// Returns whether the dispatcher must wake up.
    pub(super) fn stored(
        &mut self,
        subscription: SubscriptionId,
        deliveries: impl Iterator<Item = DeliveryId>,
        answered: usize,
        next_due: Option<Timestamp>,
    ) -> bool {
        let mut was_full = self.unstored >= self.limits.unstored;
        debug_assert!(
            answered <= self.unstored,
            "no more answers are stored than there were"
        );
        self.unstored = self.unstored.saturating_sub(answered);
        if let Some(entry) = self.entries.get_mut(&subscription) {
            for delivery in deliveries {
                entry.held.remove(&delivery);
            }
            if answered > 0 {
                was_full |= entry.has_too_much_unstored();
                entry.unstored = entry.unstored.saturating_sub(1);
            }
        }
        if was_full {
            self.unpark(subscription);
        }
        let is_earlier = next_due.is_some_and(|at| self.note(subscription, at));
        self.forget_idle(subscription);
        is_earlier || (was_full && !self.ready.is_empty())
    }

    /// Removes the entries of deleted subscriptions that have nothing in memory.
    pub(super) fn forget_deleted(&mut self, is_known: impl Fn(SubscriptionId) -> bool) {
        self.entries.retain(|subscription, entry| {
            let is_idle = entry.state == EntryState::Idle && entry.held.is_empty();
            !is_idle || entry.in_flight > 0 || is_known(*subscription)
        });
    }

    /// Removes an entry with nothing due and nothing in memory. An entry with a used rate or a larger window stays, so
    /// that both remain in force.
    fn forget_idle(&mut self, subscription: SubscriptionId) {
        if let Some(entry) = self.entries.get(&subscription)
            && entry.state == EntryState::Idle
            && entry.held.is_empty()
            && entry.in_flight == 0
            && entry.window == 1
            && entry.allowance == TokenBucket::default()
        {
            self.entries.remove(&subscription);
        }
    }

    /// Checks, in debug builds, the invariants of a subscription and of the sums over all entries.
    fn assert_consistent(&self, subscription: SubscriptionId) {
        if !cfg!(debug_assertions) {
            return;
        }
        let Some(entry) = self.entries.get(&subscription) else {
            return;
        };
        let is_in_turn = entry.state == EntryState::InTurn;
        debug_assert_eq!(
            is_in_turn,
            entry.reserved > 0,
            "slots are reserved for turns, and each turn has one"
        );
        debug_assert!(entry.window > 0, "everybody may send one request");
        debug_assert!(
            entry
                .waiting
                .iter()
                .all(|each| entry.held.contains(&each.id())),
            "whatever waits for a slot is held, or it would be read and sent twice"
        );
        let is_idle = entry.state == EntryState::Idle;
        debug_assert!(
            !is_idle || entry.waiting.is_empty() && entry.unread.is_none(),
            "whoever has something to do gets a turn some time"
        );
        if let EntryState::Later(at) = entry.state {
            debug_assert!(
                self.later.contains(&(at, subscription)),
                "whoever waits for a moment is woken at it"
            );
        }
        if self.entries.len() <= SUMMED_UP_MAX {
            self.assert_sums();
        }
    }

    /// Checks, in debug builds, that the totals equal the sums over all entries.
    fn assert_sums(&self) {
        let sum = |of: fn(&AgendaEntry<W>) -> usize| self.entries.values().map(of).sum::<usize>();
        debug_assert_eq!(self.in_flight, sum(|entry| entry.in_flight));
        debug_assert_eq!(self.wire_bytes, sum(|entry| entry.wire_bytes));
        debug_assert_eq!(self.reserved, sum(|entry| entry.reserved));
        debug_assert_eq!(
            self.waiting_bytes,
            sum(|entry| weight_of(&entry.waiting)),
            "what waits takes the room that is counted"
        );
        let planned = |entry: &&AgendaEntry<W>| matches!(entry.state, EntryState::Later(_));
        debug_assert_eq!(
            self.later.len(),
            self.entries.values().filter(planned).count(),
            "nobody is woken twice"
        );
    }
}

fn weight_of<W: InMemory>(all: &VecDeque<W>) -> usize {
    all.iter().map(InMemory::weight).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its id and its size are its value.
    impl InMemory for i32 {
        fn id(&self) -> DeliveryId {
            DeliveryId(i64::from(*self))
        }

        fn weight(&self) -> usize {
            usize::try_from(*self).expect("a weight")
        }
    }

    const A: SubscriptionId = SubscriptionId(1);
    const B: SubscriptionId = SubscriptionId(2);
    const QUICK: Duration = Duration::from_millis(5);

    fn agenda(per_subscription: usize, overall: usize) -> Agenda<i32> {
        Agenda::new(SlotLimits {
            per_subscription,
            overall,
            wire_bytes: 1_000,
            waiting_bytes: 100,
            unstored: 5,
        })
    }

    /// A turn that started these requests, left `waiting`, and has to be taken again at `unread`.
    fn end(
        agenda: &mut Agenda<i32>,
        subscription: SubscriptionId,
        started: &[Vec<DeliveryId>],
        waiting: Vec<i32>,
        unread: Option<Timestamp>,
    ) {
        let read: Vec<i32> = started.iter().flatten().map(|id| id.0 as i32).collect();
        agenda.hold(subscription, read);
        agenda.hold(subscription, waiting.clone());
        let turned = Turned {
            started: started.len(),
            waiting: waiting.into(),
            unread,
            ..Turned::default()
        };
        agenda.end_turn(subscription, turned, at(0));
    }

    /// A request that ends, and whose only delivery is stored at once.
    fn settle(agenda: &mut Agenda<i32>, subscription: SubscriptionId, id: i64) {
        agenda.end_request(subscription, 0, QUICK);
        agenda.unpark(subscription);
        agenda.stored(subscription, [DeliveryId(id)].into_iter(), 0, None);
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn taken(agenda: &mut Agenda<i32>, now: i64) -> Option<(SubscriptionId, usize)> {
        agenda
            .take(at(now), |_| OwnLimits::default())
            .map(|turn| (turn.subscription, turn.slots))
    }

    fn ids(numbers: std::ops::Range<i64>) -> Vec<Vec<DeliveryId>> {
        numbers.map(|number| vec![DeliveryId(number)]).collect()
    }

    #[test]
    fn only_a_new_earliest_moment_wakes() {
        let mut agenda = agenda(2, 10);
        assert!(agenda.note(A, at(100)));
        assert!(!agenda.note(A, at(200)));
        assert!(!agenda.note(B, at(150)));
        assert!(agenda.note(B, at(50)));
        assert_eq!(agenda.earliest(), Some(at(50)));
        assert_eq!(taken(&mut agenda, 49), None);
        assert_eq!(taken(&mut agenda, 50), Some((B, 2)));
        assert_eq!(agenda.earliest(), Some(at(100)));
    }

    #[test]
    fn what_waits_for_its_time_is_idle() {
        let mut agenda = agenda(1, 1);
        assert!(agenda.is_idle(at(0)));
        agenda.note(A, at(10));
        assert!(agenda.is_idle(at(9)) && !agenda.is_idle(at(10)));
        taken(&mut agenda, 10).expect("a turn");
        assert!(!agenda.is_idle(at(11)));
    }

    #[test]
    fn turns_go_round() {
        let mut agenda = agenda(2, 10);
        agenda.note(A, at(0));
        agenda.note(B, at(0));
        for round in 0..3 {
            assert_eq!(
                taken(&mut agenda, 10).map(|turn| turn.0),
                Some(A),
                "round {round}"
            );
            end(&mut agenda, A, &[], vec![], Some(at(0)));
            assert_eq!(
                taken(&mut agenda, 10).map(|turn| turn.0),
                Some(B),
                "round {round}"
            );
            end(&mut agenda, B, &[], vec![], Some(at(0)));
        }
    }

    #[test]
    fn a_subscription_with_all_slots_taken_waits_for_a_request_to_end() {
        let mut agenda = agenda(2, 10);
        agenda.note(A, at(0));
        assert_eq!(taken(&mut agenda, 0), Some((A, 2)));
        end(&mut agenda, A, &ids(1..3), vec![], Some(at(0)));
        assert_eq!(taken(&mut agenda, 0), None);
        agenda.note(B, at(0));
        assert_eq!(taken(&mut agenda, 0), Some((B, 2)));
        end(&mut agenda, B, &[], vec![], None);
        settle(&mut agenda, A, 1);
        let turn = agenda
            .take(at(0), |_| OwnLimits::default())
            .expect("a free slot");
        assert_eq!((turn.subscription, turn.slots), (A, 1));
        assert_eq!(agenda.held(A), HashSet::from([DeliveryId(2)]));
    }

    #[test]
    fn the_overall_limit_holds() {
        let mut agenda = agenda(5, 3);
        let others = (3..6).map(SubscriptionId);
        for subscription in others.clone() {
            agenda.note(subscription, at(0));
            assert_eq!(taken(&mut agenda, 0), Some((subscription, 1)));
            end(&mut agenda, subscription, &ids(1..2), vec![], None);
        }
        agenda.note(A, at(0));
        assert_eq!(taken(&mut agenda, 0), None);
        settle(&mut agenda, SubscriptionId(3), 1);
        assert_eq!(taken(&mut agenda, 0), Some((A, 1)));
    }

    /// Subscriptions with endless work and slow receivers take what they get; returns how many requests each
    /// has on the wire.
    fn crowd(agenda: &mut Agenda<i32>, count: i64) -> Vec<usize> {
        let crowd: Vec<_> = (100..100 + count).map(SubscriptionId).collect();
        for subscription in &crowd {
            agenda.note(*subscription, at(0));
        }
        while let Some(turn) = agenda.take(at(0), |_| OwnLimits::default()) {
            let first = turn.subscription.0 * 1_000 + turn.slots as i64;
            let requests = ids(first..first + turn.slots as i64);
            end(agenda, turn.subscription, &requests, vec![], Some(at(0)));
        }
        let in_flight = |subscription: &_| agenda.entries[subscription].in_flight;
        crowd.iter().map(in_flight).collect()
    }

    #[test]
    fn slow_receivers_leave_slots_for_the_others() {
        for crowded in [1, 32, 500] {
            let mut agenda = agenda(32, 1_024);
            let in_flight = crowd(&mut agenda, crowded);
            assert!(in_flight.iter().all(|each| *each >= 1), "everybody has one");
            agenda.note(A, at(0));
            assert!(taken(&mut agenda, 0).is_some(), "beside {crowded}");
        }
        let mut lonely = agenda(32, 1_024);
        assert_eq!(crowd(&mut lonely, 1), [32], "nobody else needs them");
    }

    #[test]
    fn quick_answers_earn_slots_that_slow_ones_do_not_take() {
        let mut agenda = agenda(32, 1_024);
        for round in 0..40 {
            agenda.note(A, at(0));
            assert!(taken(&mut agenda, 0).is_some());
            end(&mut agenda, A, &ids(round..round + 1), vec![], None);
            settle(&mut agenda, A, round);
        }
        crowd(&mut agenda, 500);
        agenda.note(A, at(0));
        let (_, slots) = taken(&mut agenda, 0).expect("a turn");
        assert!(slots > 8, "{slots} slots");
        end(&mut agenda, A, &ids(100..108), vec![], None);
        for _ in 0..8 {
            agenda.end_request(A, 0, SLOW_ANSWER);
        }
        assert_eq!(agenda.entries[&A].window, 1);
    }

    #[test]
    fn the_bytes_on_the_wire_are_bounded_and_shared() {
        let mut agenda = agenda(32, 1_024);
        let turn = |bytes| Turned {
            started: 1,
            bytes,
            unread: Some(at(0)),
            ..Turned::default()
        };
        agenda.note(A, at(0));
        assert!(taken(&mut agenda, 0).is_some());
        agenda.end_turn(A, turn(600), at(0));
        assert_eq!(taken(&mut agenda, 0), None, "more than is left");
        agenda.note(B, at(0));
        assert!(taken(&mut agenda, 0).is_some());
        agenda.end_turn(B, turn(400), at(0));
        agenda.note(SubscriptionId(3), at(0));
        assert_eq!(taken(&mut agenda, 0), None, "nothing is left");
        agenda.end_request(A, 600, QUICK);
        let next = |agenda: &mut _| taken(agenda, 0).map(|turn| turn.0);
        assert_eq!(next(&mut agenda), Some(B), "400 of 600 that are left");
        assert_eq!(next(&mut agenda), Some(SubscriptionId(3)));
    }

    #[test]
    fn what_waits_is_given_to_the_next_turn() {
        let mut agenda = agenda(2, 10);
        agenda.note(A, at(0));
        assert_eq!(taken(&mut agenda, 0), Some((A, 2)));
        end(&mut agenda, A, &ids(1..3), vec![7, 8], Some(at(0)));
        settle(&mut agenda, A, 1);
        let turn = agenda
            .take(at(0), |_| OwnLimits::default())
            .expect("a free slot");
        assert_eq!((turn.slots, turn.waiting), (1, [7, 8].into()));
    }

    #[test]
    fn what_is_noted_during_a_turn_is_not_lost() {
        let mut agenda = agenda(2, 10);
        agenda.note(A, at(0));
        assert_eq!(taken(&mut agenda, 0), Some((A, 2)));
        agenda.note(A, at(5));
        end(&mut agenda, A, &[], vec![], None);
        assert_eq!(agenda.earliest(), Some(at(5)));
    }

    #[test]
    fn nothing_is_kept_of_a_subscription_with_nothing_to_do() {
        let mut agenda = agenda(2, 10);
        for subscription in (1..100).map(SubscriptionId) {
            agenda.note(subscription, at(0));
            assert_eq!(taken(&mut agenda, 0), Some((subscription, 2)));
            end(&mut agenda, subscription, &ids(1..2), vec![], None);
            assert_eq!(agenda.held(subscription).len(), 1);
            settle(&mut agenda, subscription, 1);
        }
        agenda.forget_deleted(|_| false);
        assert!(agenda.entries.is_empty());
    }

    #[test]
    fn a_subscriptions_own_number_of_slots_holds() {
        let mut agenda = agenda(2, 100);
        let own = |most| {
            move |_| OwnLimits {
                in_flight_max: Some(most),
                rate: None,
            }
        };
        agenda.note(A, at(0));
        let turn = agenda.take(at(0), own(5)).expect("free slots");
        assert_eq!(turn.slots, 5);
        end(&mut agenda, A, &ids(1..2), vec![], Some(at(0)));
        assert!(agenda.take(at(0), own(1)).is_none());
        settle(&mut agenda, A, 1);
        assert!(agenda.take(at(0), own(1)).is_some());
    }

    #[test]
    fn what_waits_for_a_limit_does_not_wait_for_one_that_is_lifted() {
        let limits = |in_flight_max, rate| {
            move |_| OwnLimits {
                in_flight_max,
                rate,
            }
        };
        let mut parked = agenda(9, 9);
        parked.note(A, at(0));
        assert!(parked.take(at(0), limits(Some(1), None)).is_some());
        end(&mut parked, A, &ids(1..2), vec![], Some(at(0)));
        assert!(parked.take(at(0), limits(Some(1), None)).is_none());
        assert!(parked.reconsider(A, at(0)));
        assert!(parked.take(at(0), limits(Some(2), None)).is_some());

        let mut in_turn = agenda(9, 9);
        in_turn.note(A, at(0));
        assert!(in_turn.take(at(0), limits(Some(1), None)).is_some());
        in_turn.reconsider(A, at(0));
        end(&mut in_turn, A, &ids(1..2), vec![], Some(at(0)));
        assert!(in_turn.take(at(0), limits(Some(2), None)).is_some());

        let mut paced = agenda(9, 9);
        let slow = limits(None, Rate::per_1000_s(1));
        paced.note(A, at(0));
        assert!(paced.take(at(0), slow).is_some());
        end(&mut paced, A, &ids(1..2), vec![], Some(at(0)));
        assert!(paced.take(at(0), slow).is_none());
        assert!(paced.reconsider(A, at(0)));
        assert!(paced.take(at(0), limits(None, None)).is_some());
    }

    #[test]
    fn a_rate_spaces_the_turns() {
        let mut agenda = agenda(9, 9);
        let own = |_| OwnLimits {
            in_flight_max: None,
            rate: Rate::per_1000_s(2_000),
        };
        agenda.note(A, at(1_000));
        let mut started = Vec::new();
        for now in (1_000..3_000).step_by(50) {
            while let Some(turn) = agenda.take(at(now), own) {
                started.push((now, turn.slots));
                let id = DeliveryId(now);
                end(&mut agenda, A, &[vec![id]], vec![], Some(at(now)));
                settle(&mut agenda, A, now);
            }
        }
        let moments = [1_000, 1_500, 2_000, 2_500];
        assert_eq!(started, moments.map(|moment| (moment, 1)));
        assert_eq!(agenda.earliest(), Some(at(3_000)));
    }

    #[test]
    fn a_turn_without_requests_costs_no_rate() {
        let mut agenda = agenda(9, 9);
        let own = |_| OwnLimits {
            in_flight_max: None,
            rate: Rate::per_1000_s(1),
        };
        for _ in 0..3 {
            agenda.note(A, at(1_000));
            assert!(agenda.take(at(1_000), own).is_some());
            end(&mut agenda, A, &[], vec![], None);
        }
    }

    #[test]
    fn what_waits_can_be_recalled() {
        let mut agenda = agenda(1, 10);
        agenda.note(A, at(0));
        assert_eq!(taken(&mut agenda, 0), Some((A, 1)));
        end(&mut agenda, A, &ids(1..2), vec![7, 8, 9], Some(at(0)));
        agenda.recall(A, &[DeliveryId(8)]);
        settle(&mut agenda, A, 1);
        let turn = agenda
            .take(at(0), |_| OwnLimits::default())
            .expect("a turn");
        assert_eq!(turn.waiting, [7, 9]);
    }

    #[test]
    fn what_waits_fits_into_the_memory_that_it_may_take() {
        let mut agenda = agenda(1, 10);
        let mut serve = |subscription, waiting: Vec<i32>| {
            agenda.note(subscription, at(0));
            agenda.unpark(subscription);
            let nobody_else = |id| OwnLimits {
                in_flight_max: (id != subscription).then_some(0),
                rate: None,
            };
            let turn = agenda.take(at(0), nobody_else);
            let found = turn.expect("a turn").waiting;
            let is_new = |each: &i32| !found.contains(each);
            let read = waiting.iter().copied().filter(is_new);
            agenda.hold(subscription, read.collect());
            let released = found.iter().filter(|each| !waiting.contains(each));
            let turned = Turned {
                released: released.map(InMemory::id).collect(),
                waiting: waiting.into(),
                ..Turned::default()
            };
            agenda.end_turn(subscription, turned, at(0));
            (Vec::from(found), agenda.may_lease_ahead())
        };
        assert_eq!(serve(A, vec![30, 30]), (vec![], true));
        assert_eq!(
            serve(B, vec![30, 20, 5]),
            (vec![], true),
            "the third does not fit"
        );
        assert_eq!(
            serve(A, vec![70]),
            (vec![30, 30], false),
            "70 and 30 are all there may be"
        );
        assert_eq!(serve(B, vec![30, 1]), (vec![30], false));
        assert_eq!(serve(A, vec![]), (vec![70], true));
        agenda.recall(B, &[DeliveryId(30)]);
        assert_eq!(agenda.waiting_bytes, 0);
    }

    #[test]
    fn what_was_just_stored_is_handed_over_while_nothing_else_is_due() {
        let mut agenda = agenda(1, 10);
        assert!(agenda.hand_over(A, 1, at(0)), "somebody has to send it");
        let turn = agenda.take(at(0), |_| OwnLimits::default());
        let turn = turn.expect("a turn");
        assert_eq!((turn.waiting, turn.unread), ([1].into(), None));
        end(&mut agenda, A, &ids(1..2), vec![], Some(at(100)));
        agenda.hand_over(A, 2, at(50));
        assert_eq!(
            agenda.held(A).len(),
            2,
            "a retry that is due later is no backlog"
        );
        agenda.hand_over(A, 3, at(100));
        assert_eq!(agenda.held(A).len(), 2, "what is older comes first");
    }

    #[test]
    fn what_is_read_and_handed_over_is_sent_once() {
        let mut agenda = agenda(9, 9);
        agenda.note(A, at(0));
        assert!(taken(&mut agenda, 0).is_some());
        agenda.hand_over(A, 2, at(0));
        assert_eq!(agenda.hold(A, vec![1, 2]), [1]);
        end(&mut agenda, A, &ids(1..2), vec![], None);
        agenda.hand_over(A, 1, at(0));
        let turn = agenda.take(at(0), |_| OwnLimits::default());
        assert_eq!(turn.expect("a turn").waiting, [2]);
    }

    #[test]
    fn what_is_recalled_while_it_is_read_is_not_sent() {
        let mut agenda = agenda(9, 9);
        agenda.note(A, at(0));
        assert!(taken(&mut agenda, 0).is_some());
        agenda.recall(A, &[DeliveryId(1)]);
        assert_eq!(agenda.hold(A, vec![1, 2]), [2]);
        end(&mut agenda, A, &ids(2..3), vec![], None);
        agenda.note(A, at(1));
        assert!(taken(&mut agenda, 1).is_some());
        assert_eq!(agenda.hold(A, vec![1]), [1], "if it is due again");
    }

    #[test]
    fn what_finds_no_room_is_read_later() {
        let mut agenda = agenda(9, 9);
        agenda.hand_over(A, 80, at(0));
        agenda.hand_over(A, 30, at(0));
        let turn = agenda.take(at(0), |_| OwnLimits::default());
        let turn = turn.expect("a turn");
        assert_eq!((turn.waiting, turn.unread), ([80].into(), Some(at(0))));
    }

    #[test]
    fn an_answered_delivery_has_no_slot_and_is_held_until_it_is_stored() {
        let mut agenda = agenda(1, 10);
        agenda.hand_over(A, 1, at(0));
        agenda.hand_over(A, 2, at(0));
        let turn = agenda.take(at(0), |_| OwnLimits::default());
        assert!(turn.is_some());
        end(&mut agenda, A, &ids(1..2), vec![2], None);
        agenda.end_request(A, 0, QUICK);
        agenda.answered(A, 1, 1);
        let next = agenda.take_next(A, |_| OwnLimits::default());
        assert_eq!(next.expect("the next turn").waiting, [2]);
        end(&mut agenda, A, &ids(2..3), vec![], None);
        assert_eq!(agenda.held(A).len(), 2);
        agenda.stored(A, [DeliveryId(1)].into_iter(), 1, None);
        assert_eq!(agenda.held(A), HashSet::from([DeliveryId(2)]));
    }

    #[test]
    fn what_is_answered_and_not_stored_is_bounded() {
        let mut agenda = agenda(9, 100);
        agenda.answered(B, 5, 1);
        agenda.hand_over(A, 1, at(0));
        assert_eq!(taken(&mut agenda, 0), None);
        assert!(agenda.stored(B, std::iter::empty(), 1, None), "A waits");
        assert_eq!(taken(&mut agenda, 0), Some((A, 9)));
    }

    #[test]
    fn what_a_crash_would_repeat_is_bounded_for_each_subscription() {
        let mut agenda = Agenda::new(SlotLimits {
            unstored: 1_000,
            ..agenda(1, 10).limits
        });
        for id in 1..=UNSTORED_PER_SLOT as i64 {
            agenda.note(A, at(0));
            assert_eq!(taken(&mut agenda, 0), Some((A, 1)));
            end(&mut agenda, A, &ids(id..id + 1), vec![], None);
            agenda.end_request(A, 0, QUICK);
            agenda.answered(A, 1, 1);
        }
        agenda.note(A, at(0));
        assert_eq!(taken(&mut agenda, 0), None);
        assert!(
            agenda.stored(A, [DeliveryId(1)].into_iter(), 1, None),
            "A waits"
        );
        assert_eq!(taken(&mut agenda, 0), Some((A, 1)));
    }

    #[test]
    fn nobody_goes_on_while_others_wait_for_the_slot() {
        let mut agenda = agenda(1, 1);
        agenda.hand_over(A, 1, at(0));
        agenda.hand_over(A, 2, at(0));
        assert_eq!(taken(&mut agenda, 0), Some((A, 1)));
        end(&mut agenda, A, &ids(1..2), vec![2], None);
        agenda.hand_over(B, 3, at(0));
        agenda.end_request(A, 0, QUICK);
        assert!(agenda.take_next(A, |_| OwnLimits::default()).is_none());
        assert!(agenda.unpark(A));
        assert_eq!(taken(&mut agenda, 0).map(|turn| turn.0), Some(B));
    }
}
