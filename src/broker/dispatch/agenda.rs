//! Which subscription is served next: who is due, and who has a free slot. Pure.
//!
//! A subscription waits for a moment (`later`), or for its turn (`ready`, first come, first served, which
//! makes it fair), or is parked because all of its slots are taken, until a request ends. One that has used
//! up its rate waits for the moment of its next request. What exactly is due is in the store; the agenda only
//! knows when it is worth reading.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use crate::base::Timestamp;
use crate::model::delivery::DeliveryId;
use crate::model::pace::{Rate, TokenBucket};
use crate::model::subscription::SubscriptionId;

/// How many requests may be on the wire, and how much may wait in memory for a slot.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct SlotLimits {
    pub(in crate::broker) per_subscription: usize,
    pub(in crate::broker) overall: usize,
    /// Bytes of everything that waits in memory for a slot.
    pub(in crate::broker) waiting_bytes: usize,
}

/// The memory that a waiting delivery takes.
pub(in crate::broker) trait ByteSize {
    /// Its size in bytes.
    fn weight(&self) -> usize;
}

/// The limits of a subscription's own definition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnLimits {
    /// Replaces [`SlotLimits::per_subscription`].
    pub(super) in_flight_max: Option<usize>,
    pub(super) rate: Option<Rate>,
}

/// The turn of a subscription: it may start up to `slots` requests, and must end with [`Agenda::end_turn`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DispatchSlot<W> {
    pub(super) subscription: SubscriptionId,
    pub(super) slots: usize,
    /// Deliveries that an earlier turn leased and had no slot for, oldest first.
    pub(super) waiting: Vec<W>,
}

/// The agenda. `W` is a leased delivery that waits for a slot.
#[derive(Debug)]
pub(in crate::broker) struct Agenda<W> {
    limits: SlotLimits,
    entries: HashMap<SubscriptionId, Entry<W>>,
    later: BTreeSet<(Timestamp, SubscriptionId)>,
    ready: VecDeque<SubscriptionId>,
    in_flight: usize,
    /// Bytes of waiting deliveries, over all entries.
    waiting_bytes: usize,
}

#[derive(Debug)]
struct Entry<W> {
    state: EntryState,
    /// Noted during a turn or while parked: when to read again.
    noted: Option<Timestamp>,
    in_flight: usize,
    /// Deliveries on the wire.
    held: HashSet<DeliveryId>,
    waiting: Vec<W>,
    /// When the current turn was taken, and the rate that its requests count against.
    paced: Option<(Timestamp, Rate)>,
    allowance: TokenBucket,
}

impl<W> Default for Entry<W> {
    fn default() -> Self {
        Self {
            state: EntryState::Idle,
            noted: None,
            in_flight: 0,
            held: HashSet::new(),
            waiting: Vec::new(),
            paced: None,
            allowance: TokenBucket::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryState {
    /// Nothing is known to be due.
    Idle,
    Later(Timestamp),
    Ready,
    InTurn,
    /// Due, with all slots taken.
    Parked,
}

impl<W: ByteSize> Agenda<W> {
    pub(in crate::broker) fn new(limits: SlotLimits) -> Self {
        Self {
            limits,
            entries: HashMap::new(),
            later: BTreeSet::new(),
            ready: VecDeque::new(),
            in_flight: 0,
            waiting_bytes: 0,
        }
    }

    /// Notes that `subscription` has something due at `at`. Returns whether the dispatcher must wake up
    /// earlier.
    pub(in crate::broker) fn note(&mut self, subscription: SubscriptionId, at: Timestamp) -> bool {
        let earliest = self.earliest();
        let entry = self.entries.entry(subscription).or_default();
        match entry.state {
            EntryState::Ready | EntryState::Parked => return false,
            EntryState::InTurn => {
                entry.noted = Some(entry.noted.map_or(at, |noted| noted.min(at)));
                return false;
            }
            EntryState::Later(planned) if planned <= at => return false,
            EntryState::Later(planned) => {
                self.later.remove(&(planned, subscription));
            }
            EntryState::Idle => {}
        }
        entry.state = EntryState::Later(at);
        self.later.insert((at, subscription));
        earliest.is_none_or(|earliest| at < earliest)
    }

    /// The definition of `subscription` has changed, so that what it waited for may not apply any more.
    /// Returns whether the dispatcher must wake up earlier.
    pub(in crate::broker) fn reconsider(
        &mut self,
        subscription: SubscriptionId,
        now: Timestamp,
    ) -> bool {
        if let Some(entry) = self.entries.get_mut(&subscription)
            && entry.state == EntryState::Parked
        {
            entry.state = EntryState::Ready;
            self.ready.push_back(subscription);
            return true;
        }
        self.note(subscription, now)
    }

    /// The moment of the next turn, as far as it depends on time.
    pub(super) fn earliest(&self) -> Option<Timestamp> {
        self.later.first().map(|(at, _)| *at)
    }

    /// Requests on the wire.
    pub(in crate::broker) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The next subscription that is due, has a free slot and has not used up its rate.
    pub(super) fn take(
        &mut self,
        now: Timestamp,
        own: impl Fn(SubscriptionId) -> OwnLimits,
    ) -> Option<DispatchSlot<W>> {
        self.promote(now);
        let overall = self.limits.overall.saturating_sub(self.in_flight);
        if overall == 0 {
            return None;
        }
        while let Some(subscription) = self.ready.pop_front() {
            let Some(entry) = self.entries.get_mut(&subscription) else {
                continue;
            };
            let OwnLimits {
                in_flight_max,
                rate,
            } = own(subscription);
            let most = in_flight_max.unwrap_or(self.limits.per_subscription);
            let free = most.saturating_sub(entry.in_flight);
            if free == 0 {
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
            entry.state = EntryState::InTurn;
            let waiting = std::mem::take(&mut entry.waiting);
            self.waiting_bytes -= weight_of(&waiting);
            entry.paced = rate.map(|rate| (now, rate));
            return Some(DispatchSlot {
                subscription,
                slots: free.min(overall).min(allowed),
                waiting,
            });
        }
        None
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

    /// The deliveries of `subscription` that are on the wire.
    pub(in crate::broker) fn held(&self, subscription: SubscriptionId) -> HashSet<DeliveryId> {
        self.entries
            .get(&subscription)
            .map(|entry| entry.held.clone())
            .unwrap_or_default()
    }

    /// Removes deliveries that wait for a slot.
    pub(super) fn recall(&mut self, subscription: SubscriptionId, keep: impl Fn(&W) -> bool) {
        if let Some(entry) = self.entries.get_mut(&subscription) {
            self.waiting_bytes -= weight_of(&entry.waiting);
            entry.waiting.retain(keep);
            self.waiting_bytes += weight_of(&entry.waiting);
        }
    }

    /// Whether more may be leased than there are slots for.
    pub(super) fn may_lease_ahead(&self) -> bool {
        self.waiting_bytes < self.limits.waiting_bytes
    }

    /// Ends a turn that started the requests `started` (each a list of deliveries) and leaves `waiting` for
    /// the next turn, as far as there is room for it; the rest is not leased any more. `next_due` is the
    /// moment of the next turn.
    pub(super) fn end_turn(
        &mut self,
        subscription: SubscriptionId,
        started: &[Vec<DeliveryId>],
        mut waiting: Vec<W>,
        next_due: Option<Timestamp>,
    ) {
        let Some(entry) = self.entries.get_mut(&subscription) else {
            return;
        };
        entry.in_flight += started.len();
        self.in_flight += started.len();
        entry.held.extend(started.iter().flatten());
        if let Some((taken_at, rate)) = entry.paced.take() {
            entry.allowance.spend(started.len(), rate, taken_at);
        }
        let mut room = self.limits.waiting_bytes.saturating_sub(self.waiting_bytes);
        let fits = waiting.iter().take_while(|each| {
            let left = room.checked_sub(each.weight());
            room = left.unwrap_or(0);
            left.is_some()
        });
        let fits = fits.count();
        waiting.truncate(fits);
        self.waiting_bytes += weight_of(&waiting);
        entry.waiting = waiting;
        entry.state = EntryState::Idle;
        let noted = entry.noted.take();
        for at in noted.into_iter().chain(next_due) {
            self.note(subscription, at);
        }
        self.forget_idle(subscription);
    }

    /// Ends a request; `next_due` is when its deliveries fall due again, if they do.
    pub(super) fn end_request(
        &mut self,
        subscription: SubscriptionId,
        deliveries: &[DeliveryId],
        next_due: Option<Timestamp>,
    ) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let Some(entry) = self.entries.get_mut(&subscription) else {
            return;
        };
        entry.in_flight = entry.in_flight.saturating_sub(1);
        for delivery in deliveries {
            entry.held.remove(delivery);
        }
        if entry.state == EntryState::Parked {
            entry.state = EntryState::Ready;
            self.ready.push_back(subscription);
        }
        if let Some(at) = next_due {
            self.note(subscription, at);
        }
        self.forget_idle(subscription);
    }

    /// Removes an entry with nothing due and nothing on the wire: the subscription may be deleted. One that
    /// has a rate stays, so that the rate holds.
    fn forget_idle(&mut self, subscription: SubscriptionId) {
        if let Some(entry) = self.entries.get(&subscription)
            && entry.state == EntryState::Idle
            && entry.in_flight == 0
            && entry.waiting.is_empty()
            && entry.allowance == TokenBucket::default()
        {
            self.entries.remove(&subscription);
        }
    }
}

fn weight_of<W: ByteSize>(all: &[W]) -> usize {
    all.iter().map(ByteSize::weight).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its size is its value.
    impl ByteSize for i32 {
        fn weight(&self) -> usize {
            usize::try_from(*self).expect("a weight")
        }
    }

    const A: SubscriptionId = SubscriptionId(1);
    const B: SubscriptionId = SubscriptionId(2);

    fn agenda(per_subscription: usize, overall: usize) -> Agenda<i32> {
        Agenda::new(SlotLimits {
            per_subscription,
            overall,
            waiting_bytes: 100,
        })
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
            agenda.end_turn(A, &[], vec![], Some(at(0)));
            assert_eq!(
                taken(&mut agenda, 10).map(|turn| turn.0),
                Some(B),
                "round {round}"
            );
            agenda.end_turn(B, &[], vec![], Some(at(0)));
        }
    }

    #[test]
    fn a_subscription_with_all_slots_taken_waits_for_a_request_to_end() {
        let mut agenda = agenda(2, 10);
        agenda.note(A, at(0));
        assert_eq!(taken(&mut agenda, 0), Some((A, 2)));
        agenda.end_turn(A, &ids(1..3), vec![], Some(at(0)));
        assert_eq!(taken(&mut agenda, 0), None);
        agenda.note(B, at(0));
        assert_eq!(taken(&mut agenda, 0), Some((B, 2)));
        agenda.end_turn(B, &[], vec![], None);
        agenda.end_request(A, &[DeliveryId(1)], None);
        let turn = agenda
            .take(at(0), |_| OwnLimits::default())
            .expect("a free slot");
        assert_eq!((turn.subscription, turn.slots), (A, 1));
        assert_eq!(agenda.held(A), HashSet::from([DeliveryId(2)]));
    }

    #[test]
    fn the_overall_limit_holds() {
        let mut agenda = agenda(5, 3);
        agenda.note(A, at(0));
        agenda.note(B, at(0));
        assert_eq!(taken(&mut agenda, 0), Some((A, 3)));
        agenda.end_turn(A, &ids(1..4), vec![], None);
        assert_eq!(taken(&mut agenda, 0), None);
        agenda.end_request(A, &[DeliveryId(1)], None);
        assert_eq!(taken(&mut agenda, 0), Some((B, 1)));
    }

    #[test]
    fn what_waits_is_given_to_the_next_turn() {
        let mut agenda = agenda(2, 10);
        agenda.note(A, at(0));
        assert_eq!(taken(&mut agenda, 0), Some((A, 2)));
        agenda.end_turn(A, &ids(1..3), vec![7, 8], Some(at(0)));
        agenda.end_request(A, &[DeliveryId(1)], None);
        let turn = agenda
            .take(at(0), |_| OwnLimits::default())
            .expect("a free slot");
        assert_eq!((turn.slots, turn.waiting), (1, vec![7, 8]));
    }

    #[test]
    fn what_is_noted_during_a_turn_is_not_lost() {
        let mut agenda = agenda(2, 10);
        agenda.note(A, at(0));
        assert_eq!(taken(&mut agenda, 0), Some((A, 2)));
        agenda.note(A, at(5));
        agenda.end_turn(A, &[], vec![], None);
        assert_eq!(agenda.earliest(), Some(at(5)));
    }

    #[test]
    fn nothing_is_kept_of_a_subscription_with_nothing_to_do() {
        let mut agenda = agenda(2, 10);
        for subscription in (1..100).map(SubscriptionId) {
            agenda.note(subscription, at(0));
            assert_eq!(taken(&mut agenda, 0), Some((subscription, 2)));
            agenda.end_turn(subscription, &ids(1..2), vec![], None);
            assert_eq!(agenda.held(subscription).len(), 1);
            agenda.end_request(subscription, &[DeliveryId(1)], None);
        }
        assert!(agenda.entries.is_empty());
    }

    #[test]
    fn a_subscriptions_own_number_of_slots_holds() {
        let mut agenda = agenda(2, 10);
        let own = |most| {
            move |_| OwnLimits {
                in_flight_max: Some(most),
                rate: None,
            }
        };
        agenda.note(A, at(0));
        let turn = agenda.take(at(0), own(5)).expect("free slots");
        assert_eq!(turn.slots, 5);
        agenda.end_turn(A, &ids(1..2), vec![], Some(at(0)));
        assert!(agenda.take(at(0), own(1)).is_none());
        agenda.end_request(A, &[DeliveryId(1)], None);
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
        parked.end_turn(A, &ids(1..2), vec![], Some(at(0)));
        assert!(parked.take(at(0), limits(Some(1), None)).is_none());
        assert!(parked.reconsider(A, at(0)));
        assert!(parked.take(at(0), limits(Some(2), None)).is_some());

        let mut paced = agenda(9, 9);
        let slow = limits(None, Rate::per_1000_s(1));
        paced.note(A, at(0));
        assert!(paced.take(at(0), slow).is_some());
        paced.end_turn(A, &ids(1..2), vec![], Some(at(0)));
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
                agenda.end_turn(A, &[vec![id]], vec![], Some(at(now)));
                agenda.end_request(A, &[id], None);
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
            agenda.end_turn(A, &[], vec![], None);
        }
    }

    #[test]
    fn what_waits_can_be_recalled() {
        let mut agenda = agenda(1, 10);
        agenda.note(A, at(0));
        assert_eq!(taken(&mut agenda, 0), Some((A, 1)));
        agenda.end_turn(A, &ids(1..2), vec![7, 8, 9], Some(at(0)));
        agenda.recall(A, |waiting| *waiting != 8);
        agenda.end_request(A, &[DeliveryId(1)], None);
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
            let turn = agenda.take(at(0), |_| OwnLimits::default());
            let found = turn.expect("a turn").waiting;
            agenda.end_turn(subscription, &[], waiting, None);
            (found, agenda.may_lease_ahead())
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
        agenda.recall(B, |_| false);
        assert_eq!(agenda.waiting_bytes, 0);
    }
}
