//! The health of the receiver of each subscription, since the start of the process. [`crate::model::probation`] has the
//! rules.

use std::collections::{HashMap, HashSet};

use crate::base::{TimeScale, Timestamp};
use crate::model::delivery::DeliveryId;
use crate::model::probation::{Admission, Health, Observation, ProbationRules};
use crate::model::subscription::SubscriptionId;

#[derive(Debug)]
pub(in crate::broker) struct HealthBook {
    rules: ProbationRules,
    scale: TimeScale,
    /// The health of subscriptions that have sent requests since the start. All others count as healthy.
    entries: HashMap<SubscriptionId, HealthEntry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct HealthEntry {
    health: Health,
    /// The time of the last reset. Requests that started earlier do not count: they went to another endpoint, or to an
    /// endpoint that was not repaired yet.
    reset_at: Option<Timestamp>,
    /// The delivery of the last probe in the current probation.
    probe: Option<DeliveryId>,
}

/// The health before and after an observation.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct HealthChange {
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

    /// Replaces the probation rules from the next observation on.
    pub(in crate::broker) fn set_rules(&mut self, rules: ProbationRules) {
        self.rules = rules;
    }

    /// Returns the known health of a subscription; `None` if it has sent no request since the start.
    pub(in crate::broker) fn known(&self, subscription: SubscriptionId) -> Option<Health> {
        self.entries.get(&subscription).map(|entry| entry.health)
    }

    pub(in crate::broker) fn of(&self, subscription: SubscriptionId) -> Health {
        self.known(subscription).unwrap_or_default()
    }

    /// Returns the requests that the health of a subscription allows at `now`.
    pub(super) fn admission(&self, subscription: SubscriptionId, now: Timestamp) -> Admission {
        self.of(subscription).admission(self.rules.mode, now)
    }

    /// Updates the health by the result of a request that ran from `started_at` to `now`.
    pub(in crate::broker) fn observe(
        &mut self,
        subscription: SubscriptionId,
        seen: Observation,
        started_at: Timestamp,
        now: Timestamp,
    ) -> HealthChange {
        let before = self.entries.get(&subscription).copied().unwrap_or_default();
        if before.reset_at.is_some_and(|at| started_at < at) {
            return HealthChange {
                before: before.health,
                after: before.health,
            };
        }
        let after = before.health.observed(seen, &self.rules, now, self.scale);
        let entry = self.entries.entry(subscription).or_default();
        entry.health = after;
        entry.probe = entry.probe.filter(|_| after.probation.is_some());
        HealthChange {
            before: before.health,
            after,
        }
    }

    /// Notes that a probe is in flight.
    pub(super) fn begin_probe(&mut self, subscription: SubscriptionId, probe: DeliveryId) {
        if let Some(entry) = self.entries.get_mut(&subscription) {
            entry.health = entry.health.probing(true);
            entry.probe = Some(probe);
        }
    }

    /// Returns the delivery of the last probe. If that delivery is due, the next probe sends it again. Otherwise a
    /// receiver that fails the first attempt of every event would stay on probation forever.
    pub(super) fn last_probe(&self, subscription: SubscriptionId) -> Option<DeliveryId> {
        self.entries.get(&subscription)?.probe
    }

    /// Allows a probe of the subscription at `now`, even if its probation would last longer.
    pub(super) fn probe_at(&mut self, subscription: SubscriptionId, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(&subscription) {
            entry.health = entry.health.probing_at(now);
        }
    }

    /// Notes that a probe has ended without an outcome, which allows another probe.
    pub(super) fn end_probe(&mut self, subscription: SubscriptionId) {
        if let Some(entry) = self.entries.get_mut(&subscription) {
            entry.health = entry.health.probing(false);
        }
    }

    /// Resets the health after a change of the endpoint.
    pub(in crate::broker) fn reset_health(
        &mut self,
        subscription: SubscriptionId,
        now: Timestamp,
    ) -> HealthChange {
        self.change(subscription, Health::default(), now)
    }

    /// Ends a probation, since the receiver may have been repaired. It still counts as failing until an attempt
    /// succeeds.
    pub(in crate::broker) fn end_probation(
        &mut self,
        subscription: SubscriptionId,
        now: Timestamp,
    ) -> HealthChange {
        let health = self.of(subscription).without_probation();
        self.change(subscription, health, now)
    }

    fn change(&mut self, of: SubscriptionId, health: Health, now: Timestamp) -> HealthChange {
        let entry = HealthEntry {
            health,
            reset_at: Some(now),
            probe: None,
        };
        let before = self.entries.insert(of, entry);
        HealthChange {
            before: before.unwrap_or_default().health,
            after: health,
        }
    }

    /// Removes the health of a deleted subscription.
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
