//! The health of each subscription's receiver since the start of the process. The rules are in
//! [`crate::model::probation`].

use std::collections::{HashMap, HashSet};

use crate::base::{TimeScale, Timestamp};
use crate::model::delivery::DeliveryId;
use crate::model::probation::{Admission, Health, Observation, ProbationRules};
use crate::model::subscription::SubscriptionId;

#[derive(Debug)]
pub(in crate::broker) struct HealthBook {
    rules: ProbationRules,
    scale: TimeScale,
    /// The health of subscriptions that something was sent to since the start; the others count as healthy.
    entries: HashMap<SubscriptionId, Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    health: Health,
    /// Requests that started earlier do not count: they went to another endpoint, or to one that was not
    /// repaired yet.
    reset_at: Option<Timestamp>,
    /// The last probe of the probation.
    probe: Option<DeliveryId>,
}

/// The health before and after an observation.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Change {
    pub(in crate::broker) before: Health,
    pub(in crate::broker) after: Health,
}

impl HealthBook {
    pub(in crate::broker) fn new(rules: ProbationRules, scale: TimeScale) -> Self {
        Self {
            rules,
            scale,
            entries: HashMap::new(),
        }
    }

    /// Judges by other rules from the next observation on.
    pub(in crate::broker) fn set_rules(&mut self, rules: ProbationRules) {
        self.rules = rules;
    }

    /// The health as far as it is known: `None` if nothing was sent since the start.
    pub(in crate::broker) fn known(&self, subscription: SubscriptionId) -> Option<Health> {
        self.entries.get(&subscription).map(|entry| entry.health)
    }

    pub(in crate::broker) fn of(&self, subscription: SubscriptionId) -> Health {
        self.known(subscription).unwrap_or_default()
    }

    /// Returns which requests the health of a subscription allows at `now`.
    pub(super) fn admission(&self, subscription: SubscriptionId, now: Timestamp) -> Admission {
        self.of(subscription).admission(self.rules.mode, now)
    }

    /// Updates the health by a request that ran from `started_at` to `now`.
    pub(in crate::broker) fn observe(
        &mut self,
        subscription: SubscriptionId,
        seen: Observation,
        started_at: Timestamp,
        now: Timestamp,
    ) -> Change {
        let before = self.entries.get(&subscription).copied().unwrap_or_default();
        if before.reset_at.is_some_and(|at| started_at < at) {
            return Change {
                before: before.health,
                after: before.health,
            };
        }
        let after = before.health.observed(seen, &self.rules, now, self.scale);
        let entry = self.entries.entry(subscription).or_default();
        entry.health = after;
        entry.probe = entry.probe.filter(|_| after.probation.is_some());
        Change {
            before: before.health,
            after,
        }
    }

    /// The probe is on the wire.
    pub(super) fn begin_probe(&mut self, subscription: SubscriptionId, probe: DeliveryId) {
        if let Some(entry) = self.entries.get_mut(&subscription) {
            entry.health = entry.health.probing(true);
            entry.probe = Some(probe);
        }
    }

    /// The delivery that the subscription was probed with last. It is the next probe too if it is due: a receiver
    /// that fails the first attempt of every event would otherwise never get out of its probation.
    pub(super) fn last_probe(&self, subscription: SubscriptionId) -> Option<DeliveryId> {
        self.entries.get(&subscription)?.probe
    }

    /// The subscription may be probed at `now`, however long its probation would still have lasted.
    pub(super) fn probe_at(&mut self, subscription: SubscriptionId, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(&subscription) {
            entry.health = entry.health.probing_at(now);
        }
    }

    /// The probe has ended without an outcome, so that another one may be made.
    pub(super) fn end_probe(&mut self, subscription: SubscriptionId) {
        if let Some(entry) = self.entries.get_mut(&subscription) {
            entry.health = entry.health.probing(false);
        }
    }

    /// Resets the health: there is another endpoint.
    pub(in crate::broker) fn reset_health(
        &mut self,
        subscription: SubscriptionId,
        now: Timestamp,
    ) -> Change {
        self.change(subscription, Health::default(), now)
    }

    /// Whatever was wrong may have been repaired. It is failing until an attempt has shown that it has been.
    pub(in crate::broker) fn end_probation(
        &mut self,
        subscription: SubscriptionId,
        now: Timestamp,
    ) -> Change {
        let health = self.of(subscription).without_probation();
        self.change(subscription, health, now)
    }

    fn change(&mut self, of: SubscriptionId, health: Health, now: Timestamp) -> Change {
        let entry = Entry {
            health,
            reset_at: Some(now),
            probe: None,
        };
        let before = self.entries.insert(of, entry);
        Change {
            before: before.unwrap_or_default().health,
            after: health,
        }
    }

    /// The subscription has been deleted.
    pub(in crate::broker) fn forget(&mut self, subscription: SubscriptionId) {
        self.entries.remove(&subscription);
    }

    pub(in crate::broker) fn on_probation(&self) -> HashSet<SubscriptionId> {
        let entries = self.entries.iter();
        entries
            .filter(|(_, entry)| entry.health.probation.is_some())
            .map(|(subscription, _)| *subscription)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::delivery::Outcome;
    use crate::model::probation::Failing;

    const A: SubscriptionId = SubscriptionId(1);
    const B: SubscriptionId = SubscriptionId(2);

    fn failures(book: &mut HealthBook, subscription: SubscriptionId, count: u32, at_ms: i64) {
        let seen = Observation {
            outcome: Outcome::Busy,
            is_gone: Some(false),
            status: Some(503),
            is_probe: false,
        };
        let at = Timestamp::from_ms(at_ms);
        for _ in 0..count {
            book.observe(subscription, seen, at, at);
        }
    }

    #[test]
    fn each_subscription_is_seen_by_itself() {
        let mut book = HealthBook::new(ProbationRules::default(), TimeScale::REAL);
        failures(&mut book, A, 10, 0);
        failures(&mut book, B, 9, 0);
        assert_eq!(book.on_probation(), HashSet::from([A]));
        let now = Timestamp::from_ms(0);
        assert_eq!(book.admission(B, now), Admission::Free);
        assert_ne!(book.admission(A, now), Admission::Free);
        book.forget(A);
        assert_eq!(book.of(A), Health::default());
    }

    #[test]
    fn it_is_known_since_when_an_endpoint_fails() {
        let mut book = HealthBook::new(ProbationRules::default(), TimeScale::REAL);
        assert_eq!(book.known(A), None);
        failures(&mut book, A, 1, 5);
        failures(&mut book, A, 1, 7);
        let failing = |book: &HealthBook| book.known(A).map(|health| health.failing);
        let since_the_first = Failing {
            since: Timestamp::from_ms(5),
            last: Outcome::Busy,
            status: Some(503),
        };
        assert_eq!(failing(&book), Some(Some(since_the_first)));
        let seen = Observation {
            outcome: Outcome::Delivered,
            is_gone: Some(false),
            status: Some(200),
            is_probe: false,
        };
        let now = Timestamp::from_ms(9);
        book.observe(A, seen, now, now);
        assert_eq!(failing(&book), Some(None));
    }

    #[test]
    fn what_was_on_the_wire_does_not_count_after_a_fresh_start() {
        let mut book = HealthBook::new(ProbationRules::default(), TimeScale::REAL);
        failures(&mut book, A, 10, 0);
        book.reset_health(A, Timestamp::from_ms(5));
        failures(&mut book, A, 10, 4);
        assert_eq!(book.of(A), Health::default());
        failures(&mut book, A, 10, 5);
        assert!(book.of(A).probation.is_some());
    }

    #[test]
    fn an_endpoint_that_may_have_been_repaired_is_failing_until_an_attempt_succeeds() {
        let mut book = HealthBook::new(ProbationRules::default(), TimeScale::REAL);
        failures(&mut book, A, 10, 0);
        book.end_probation(A, Timestamp::from_ms(5));
        let health = book.of(A);
        assert_eq!((health.failures, health.probation), (10, None));
        failures(&mut book, A, 1, 5);
        assert!(book.of(A).probation.is_some(), "one more failure is enough");
    }
}
