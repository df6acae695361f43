//! The retry of failed deliveries and their dead-lettering. The published schedules are data of the delivery profiles.

use std::time::Duration;

use crate::base::{TimeScale, Timestamp};
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{
    AttemptResult, Delivery, DeliveryAttempt, DeliveryId, Outcome, admit,
};
use crate::model::event::EventKey;
use crate::model::limits::{
    ATTEMPTS_MAX, NAMESPACE_ATTEMPTS_MAX, NAMESPACE_TIME_TO_LIVE_MAX, RETRY_AFTER_MAX,
    TIME_TO_LIVE_MINUTES_MAX,
};

const fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn minutes(m: u64) -> Duration {
    Duration::from_secs(m * 60)
}

const fn hours(h: u64) -> Duration {
    Duration::from_secs(h * 3_600)
}

/// The maximum jitter, as a fraction of the delay.
pub const JITTER: f64 = 0.1;

/// The maximum wait before any attempt. A delay requested by a receiver is at most `RETRY_AFTER_MAX` plus jitter. The
/// rest is a margin for clocks that are set back.
pub const WAIT_MAX: Duration = hours(48);

/// How long and how often a delivery is attempted (rule 3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Which published rules apply.
    pub profile: DeliveryProfile,
    /// Attempts, the first one included.
    pub attempts_max: u32,
    /// Counted from publishing.
    pub time_to_live: Duration,
    /// Extension: the delays after each failed attempt; the last one repeats. They replace the schedule and the minimum
    /// delays of the profile. Empty to use the profile.
    pub own_waits: Vec<Duration>,
}

impl RetryPolicy {
    /// Creates the default policy of a profile, which has the maximum attempts and time to live of the profile.
    pub fn of(profile: DeliveryProfile) -> Self {
        Self {
            profile,
            attempts_max: profile.attempts_max(),
            time_to_live: profile.time_to_live_max(),
            own_waits: Vec::new(),
        }
    }

    /// The time of the next attempt of `delivery` after a failed one. This is the later of the scheduled time and the
    /// end of the minimum delay, which depends on the result and on the delay that the receiver requested.
    ///
    /// `jitter` in `-1..1` moves the scheduled time by up to [`JITTER`] of the delay in both directions. Jitter only
    /// lengthens the minimum delay. Jitter never moves an attempt across the expiry of the delivery, so that the number
    /// of attempts does not depend on jitter.
    pub fn next_attempt_at(
        &self,
        delivery: &Delivery,
        failed: &DeliveryAttempt,
        scale: TimeScale,
        jitter: f64,
    ) -> Timestamp {
        assert!(failed.attempt >= 1, "attempts are counted from 1");
        let (result, now) = (&failed.result, failed.ended_at());
        let first_attempt_at = delivery.first_attempt_at.unwrap_or(failed.started_at);
        let planned = match self.step(failed.attempt) {
            RetryStep::Wait(wait) => scale.shrink(wait),
            RetryStep::Offset(offset) => (first_attempt_at + scale.shrink(offset)).since(now),
        };
        let asked = result.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        let least = scale.shrink(self.minimum_wait(result).max(asked));
        let moved = planned.mul_f64(1.0 + JITTER * jitter);
        let at = now + moved.max(least.mul_f64(1.0 + JITTER * jitter.abs()));
        let expires_at = self.expires_at(delivery.published_at, scale);
        let unmoved = now + planned.max(least);
        if (at < expires_at) == (unmoved < expires_at) {
            at
        } else {
            unmoved
        }
    }

    /// The moment from which on a delivery is not attempted any more.
    pub fn expires_at(&self, published_at: Timestamp, scale: TimeScale) -> Timestamp {
        published_at + scale.shrink(self.time_to_live)
    }

    /// Simulates a delivery whose attempts all fail. Returns the time of each attempt since publishing, then the time
    /// at which the delivery is dead-lettered, and the reason. The first attempt is immediate, and requests take no
    /// time.
    pub fn played_through(&self, scale: TimeScale) -> (Vec<Duration>, DeadLetterReason) {
        let start = Timestamp::from_ms(0);
        let mut delivery = Delivery {
            id: DeliveryId(0),
            number: 0,
            event: EventKey(0),
            attempts: 0,
            published_at: start,
            first_attempt_at: Some(start),
            batch_max: None,
        };
        let (mut times, mut at) = (Vec::new(), start);
        loop {
            delivery.attempts += 1;
            times.push(at.since(start));
            if delivery.attempts >= self.attempts_max {
                times.push(at.since(start));
                return (times, DeadLetterReason::MaxDeliveryAttemptsExceeded);
            }
            let failed = DeliveryAttempt {
                attempt: delivery.attempts,
                started_at: at,
                duration: Duration::ZERO,
                result: AttemptResult::of(Outcome::GenericError),
                late: None,
            };
            let next = self.next_attempt_at(&delivery, &failed, scale, 0.0);
            at = next.min(self.expires_at(start, scale));
            if let Err(reason) = admit(&delivery, self, at, scale) {
                times.push(at.since(start));
                return (times, reason);
            }
        }
    }

    fn step(&self, attempt: u32) -> RetryStep {
        let Some(last) = self.own_waits.len().checked_sub(1) else {
            return self.profile.rules().schedule.step(attempt);
        };
        RetryStep::Wait(self.own_waits[(attempt as usize - 1).min(last)])
    }

    /// The minimum delays after certain HTTP statuses, by status. Empty if the policy has its own delays.
    pub fn minimum_waits(&self) -> impl Iterator<Item = (u16, Duration)> {
        let published = self.profile.rules().minimum_waits.iter();
        let in_force = published.filter(|_| self.own_waits.is_empty());
        in_force.filter_map(|(failure, wait)| match failure {
            Http(status) => Some((*status, *wait)),
            As(Outcome::NotFound) => Some((404, *wait)),
            As(_) => None,
        })
    }

    fn minimum_wait(&self, failed: &AttemptResult) -> Duration {
        if self.own_waits.is_empty() {
            self.profile.rules().minimum_wait(failed)
        } else {
            Duration::ZERO
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::of(DeliveryProfile::Basic)
    }
}

/// Which published rules of delivery apply: those of custom topics, or of namespace topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryProfile {
    #[default]
    Basic,
    Namespace,
}

impl DeliveryProfile {
    /// Attempts of one delivery, the first one included, at most.
    pub fn attempts_max(self) -> u32 {
        self.rules().attempts_max
    }

    /// The longest time to live.
    pub fn time_to_live_max(self) -> Duration {
        self.rules().time_to_live_max
    }

    /// The reason for which a delivery is dead-lettered at once after this result; `None` if it is retried.
    pub fn rejection(self, failed: &AttemptResult) -> Option<DeadLetterReason> {
        find(self.rules().rejections, failed)
    }

    fn rules(self) -> &'static RetryRules {
        match self {
            Self::Basic => &BASIC,
            Self::Namespace => &NAMESPACE,
        }
    }
}

/// A failure that a rule is about.
enum FailureKind {
    /// A failure of any destination with this outcome.
    As(Outcome),
    /// A response of a webhook with this status. Used where the rules distinguish statuses that share an outcome.
    Http(u16),
}

impl FailureKind {
    fn is(&self, failed: &AttemptResult) -> bool {
        match self {
            Self::As(outcome) => *outcome == failed.outcome,
            Self::Http(status) => failed.status() == Some(*status),
        }
    }
}

/// Returns what the rules list for a failure.
fn find<T: Copy>(rules: &[(FailureKind, T)], failed: &AttemptResult) -> Option<T> {
    let found = rules.iter().find(|(failure, _)| failure.is(failed));
    found.map(|(_, listed)| *listed)
}

use FailureKind::{As, Http};

/// The published rules of a profile.
struct RetryRules {
    schedule: Schedule,
    /// Minimum delays after certain failures.
    minimum_waits: &'static [(FailureKind, Duration)],
    /// The minimum delay after any other failure.
    minimum_wait: Duration,
    /// The failures that are not retried.
    rejections: &'static [(FailureKind, DeadLetterReason)],
    attempts_max: u32,
    time_to_live_max: Duration,
}

/// Custom topics: rule 3.3, 6.5, 7.1 and section A.
const BASIC: RetryRules = RetryRules {
    schedule: Schedule::Waits(&[
        seconds(10),
        seconds(30),
        minutes(1),
        minutes(5),
        minutes(10),
        minutes(30),
        hours(1),
        hours(3),
        hours(6),
        hours(12),
    ]),
    minimum_waits: &[
        (As(Outcome::NotFound), minutes(5)),
        (Http(408), minutes(2)),
        (Http(503), seconds(30)),
    ],
    minimum_wait: seconds(10),
    rejections: &[
        (
            As(Outcome::BadRequest),
            DeadLetterReason::UndeliverableDueToHttpBadRequest,
        ),
        (
            As(Outcome::Unauthorized),
            DeadLetterReason::UndeliverableDueToHttpUnauthorized,
        ),
        (
            As(Outcome::Forbidden),
            DeadLetterReason::UndeliverableDueToHttpForbidden,
        ),
        (
            As(Outcome::PayloadTooLarge),
            DeadLetterReason::UndeliverableDueToHttpRequestEntityTooLarge,
        ),
    ],
    attempts_max: ATTEMPTS_MAX,
    time_to_live_max: minutes(TIME_TO_LIVE_MINUTES_MAX as u64),
};

const CLIENT_ERROR: DeadLetterReason = DeadLetterReason::UndeliverableDueToClientError;

/// Namespace topics: rule N6.3 and 7.
const NAMESPACE: RetryRules = RetryRules {
    schedule: Schedule::Offsets {
        listed: &[
            Duration::ZERO,
            seconds(10),
            seconds(30),
            minutes(1),
            minutes(5),
        ],
        then_every: minutes(5),
    },
    minimum_waits: &[(Http(408), minutes(2)), (Http(503), seconds(30))],
    minimum_wait: seconds(10),
    rejections: &[
        (As(Outcome::BadRequest), CLIENT_ERROR),
        (As(Outcome::Unauthorized), CLIENT_ERROR),
        (As(Outcome::Forbidden), CLIENT_ERROR),
        (As(Outcome::NotFound), CLIENT_ERROR),
        (As(Outcome::PayloadTooLarge), CLIENT_ERROR),
        (Http(414), CLIENT_ERROR),
    ],
    attempts_max: NAMESPACE_ATTEMPTS_MAX,
    time_to_live_max: NAMESPACE_TIME_TO_LIVE_MAX,
};

impl RetryRules {
    fn minimum_wait(&self, failed: &AttemptResult) -> Duration {
        find(self.minimum_waits, failed).unwrap_or(self.minimum_wait)
    }
}

/// The schedule of attempts, each of which is made only if all earlier ones failed.
enum Schedule {
    /// The delay after each failed attempt; the last one repeats.
    Waits(&'static [Duration]),
    /// The offset of each attempt from the first attempt. The list includes the first attempt; later attempts follow at
    /// equal intervals.
    Offsets {
        listed: &'static [Duration],
        then_every: Duration,
    },
}

/// The time of one attempt.
enum RetryStep {
    /// After the previous failure.
    Wait(Duration),
    /// After the first attempt.
    Offset(Duration),
}

impl Schedule {
    /// The time of the attempt that follows failed attempt number `attempt` (from 1).
    fn step(&self, attempt: u32) -> RetryStep {
        match self {
            Self::Waits(waits) => {
                let last = waits.len() - 1;
                RetryStep::Wait(waits[(attempt as usize - 1).min(last)])
            }
            Self::Offsets { listed, then_every } => {
                let last = listed.len() - 1;
                let beyond = attempt.saturating_sub(u32::try_from(last).unwrap_or(u32::MAX));
                RetryStep::Offset(listed[(attempt as usize).min(last)] + *then_every * beyond)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::delivery::{DeliveryId, HttpResponse};

    /// An attempt that takes no time.
    fn failed(attempt: u32, at: Timestamp, result: AttemptResult) -> DeliveryAttempt {
        DeliveryAttempt {
            attempt,
            started_at: at,
            duration: Duration::ZERO,
            result,
            late: None,
        }
    }

    /// Begun and failed now.
    fn wait(
        policy: &RetryPolicy,
        attempt: u32,
        status: u16,
        asked_s: u64,
        jitter: f64,
    ) -> Duration {
        let now = Timestamp::from_ms(0);
        let result = AttemptResult {
            retry_after: (asked_s > 0).then(|| seconds(asked_s)),
            ..AttemptResult::answered(HttpResponse::bare(status))
        };
        let failed = failed(attempt, now, result);
        let at = policy.next_attempt_at(&delivery(now), &failed, TimeScale::REAL, jitter);
        at.since(now)
    }

    /// Published, and attempted for the first time, at that moment.
    fn delivery(at: Timestamp) -> Delivery {
        Delivery {
            id: DeliveryId(1),
            number: 1,
            event: EventKey(1),
            attempts: 1,
            published_at: at,
            first_attempt_at: Some(at),
            batch_max: None,
        }
    }

    fn check(policy: &RetryPolicy, attempt: u32, status: u16, asked_s: u64, expected_s: u64) {
        assert_eq!(
            wait(policy, attempt, status, asked_s, 0.0),
            seconds(expected_s),
            "{:?}: attempt {attempt}, {status}, {asked_s}",
            policy.profile
        );
    }

    #[test]
    fn waits_follow_schedule_status_and_retry_after() {
        let basic = &RetryPolicy::default();
        // The schedule (rule 7.1).
        for (attempt, expected_s) in [
            (1, 10),
            (2, 30),
            (3, 60),
            (4, 300),
            (5, 600),
            (6, 1_800),
            (7, 3_600),
            (8, 10_800),
            (9, 21_600),
            (10, 43_200),
            (11, 43_200),
            (29, 43_200),
        ] {
            check(basic, attempt, 500, 0, expected_s);
        }
        // Minimum waits (rule 6.5).
        check(basic, 1, 404, 0, 300);
        check(basic, 5, 404, 0, 600);
        check(basic, 1, 408, 0, 120);
        check(basic, 1, 503, 0, 30);
        check(basic, 3, 503, 0, 60);
        check(basic, 1, 429, 0, 10);
        // Retry-After lengthens, never shortens, and is capped at 24 h (rule A).
        check(basic, 1, 429, 45, 45);
        check(basic, 2, 429, 5, 30);
        check(basic, 1, 503, 7_200, 7_200);
        check(basic, 1, 503, 1_000_000, 86_400);
    }

    #[test]
    fn namespace_topics_have_offsets_from_the_first_attempt() {
        let namespace = &RetryPolicy::of(DeliveryProfile::Namespace);
        // Namespaces 6.3: attempt 8 at minute 20, attempt 10 at minute 30.
        for (attempt, expected_s) in [
            (1, 10),
            (2, 30),
            (3, 60),
            (4, 300),
            (5, 600),
            (6, 900),
            (7, 1_200),
            (9, 1_800),
        ] {
            check(namespace, attempt, 500, 0, expected_s);
        }
        check(namespace, 1, 408, 0, 120);
        check(namespace, 1, 503, 0, 30);
        check(namespace, 1, 503, 90, 90);
        // A moment that has passed already leaves the minimum wait.
        let now = Timestamp::from_ms(3_600_000);
        let late = failed(2, now, AttemptResult::of(Outcome::TimedOut));
        let first = Timestamp::from_ms(0);
        let next = namespace.next_attempt_at(&delivery(first), &late, TimeScale::REAL, 0.0);
        assert_eq!(next, now + seconds(10));
    }

    #[test]
    fn waits_of_ones_own_stand_in_for_the_published_ones() {
        let own = &RetryPolicy {
            own_waits: vec![seconds(1), minutes(2)],
            ..RetryPolicy::default()
        };
        check(own, 1, 500, 0, 1);
        check(own, 2, 500, 0, 120);
        check(own, 30, 500, 0, 120);
        // Minimum waits belong to the published schedule; what the receiver asks for still counts.
        check(own, 1, 404, 0, 1);
        check(own, 1, 503, 45, 45);
    }

    #[test]
    fn each_profile_rejects_its_own_statuses() {
        // rule 6.5; rule N6.3.
        for (profile, rejected) in [
            (DeliveryProfile::Basic, &[400, 401, 403, 413][..]),
            (
                DeliveryProfile::Namespace,
                &[400, 401, 403, 404, 413, 414][..],
            ),
        ] {
            for status in 100..600 {
                let answered = AttemptResult::answered(HttpResponse::bare(status));
                let rejection = profile.rejection(&answered);
                let expected = rejected.contains(&status);
                assert_eq!(rejection.is_some(), expected, "{profile:?} {status}");
            }
            let no_response = AttemptResult::of(Outcome::TimedOut);
            assert_eq!(profile.rejection(&no_response), None, "{profile:?}");
        }
    }

    #[test]
    fn jitter_moves_the_schedule_both_ways_and_only_adds_to_what_is_asked_for() {
        let basic = &RetryPolicy::default();
        for (status, asked_s, jitter, expected_s) in [
            (500, 0, -1.0, 27),
            (500, 0, 1.0, 33),
            (408, 0, -1.0, 132),
            (503, 60, -0.5, 63),
            (503, 60, 1.0, 66),
        ] {
            let wait = wait(basic, 2, status, asked_s, jitter);
            assert_eq!(wait, seconds(expected_s), "{status} {asked_s} {jitter}");
        }
    }

    /// When the attempt after so many failed ones is made, with the same jitter for all.
    fn after_failures(policy: &RetryPolicy, failures: u32, jitter: f64) -> Timestamp {
        let start = Timestamp::from_ms(0);
        (1..=failures).fold(start, |now, attempt| {
            let failed = failed(attempt, now, AttemptResult::of(Outcome::SocketError));
            policy.next_attempt_at(&delivery(start), &failed, TimeScale::REAL, jitter)
        })
    }

    #[test]
    fn jitter_does_not_decide_how_many_attempts_there_are() {
        // With the time to live of a day, the step of 12 h is made.
        let basic = &RetryPolicy::default();
        let expires_at = Timestamp::from_ms(0) + basic.time_to_live;
        assert!(after_failures(basic, 10, 0.999_999) < expires_at);
        // The eighth attempt of a namespace topic falls due after 20 minutes, and so is not made.
        let namespace = &RetryPolicy {
            time_to_live: minutes(20),
            ..RetryPolicy::of(DeliveryProfile::Namespace)
        };
        let expires_at = Timestamp::from_ms(0) + minutes(20);
        assert!(after_failures(namespace, 7, -0.999_999) >= expires_at);
    }

    fn check_played_through(attempts_max: u32, minutes: u64, expected: &str) {
        let policy = RetryPolicy {
            attempts_max,
            time_to_live: Duration::from_secs(minutes * 60),
            ..RetryPolicy::default()
        };
        let (times, reason) = policy.played_through(TimeScale::REAL);
        let times: Vec<String> = times
            .iter()
            .map(|time| time.as_secs().to_string())
            .collect();
        assert_eq!(
            format!("{} {}", times.join(" "), reason.name()),
            expected,
            "{attempts_max} attempts, {minutes} min"
        );
    }

    #[test]
    fn a_policy_is_played_through() {
        check_played_through(1, 1_440, "0 0 MaxDeliveryAttemptsExceeded");
        check_played_through(3, 1_440, "0 10 40 40 MaxDeliveryAttemptsExceeded");
        check_played_through(30, 1, "0 10 40 60 TimeToLiveExceeded");
        check_played_through(
            30,
            1_440,
            "0 10 40 100 400 1000 2800 6400 17200 38800 82000 86400 TimeToLiveExceeded",
        );
    }

    /// A failed attempt of either profile, or with waits of one's own.
    fn policies() -> impl Strategy<Value = RetryPolicy> {
        let profile = prop_oneof![
            Just(DeliveryProfile::Basic),
            Just(DeliveryProfile::Namespace)
        ];
        let own = proptest::collection::vec(1..86_400_u64, 0..4);
        (profile, own).prop_map(|(profile, own)| RetryPolicy {
            own_waits: own.into_iter().map(seconds).collect(),
            ..RetryPolicy::of(profile)
        })
    }

    proptest! {
        /// Never before the status's minimum or what the receiver asked for, and at most a tenth away from the
        /// greatest of them and the schedule.
        #[test]
        fn a_wait_is_what_is_asked_for_and_at_most_a_tenth_away(
            policy in policies(),
            attempt in 1..30_u32,
            status in proptest::option::of(100..600_u16),
            asked in proptest::option::of(0..200_000_u64),
            late_ms in 0..10_000_000_i64,
            jitter in -1.0..1.0_f64,
        ) {
            let (first_attempt_at, now) = (Timestamp::from_ms(0), Timestamp::from_ms(late_ms));
            let retry_after = asked.map(seconds);
            let result = AttemptResult {
                retry_after,
                ..match status {
                    Some(status) => AttemptResult::answered(HttpResponse::bare(status)),
                    None => AttemptResult::of(Outcome::SocketError),
                }
            };
            let failed = failed(attempt, now, result);
            let delivery = delivery(first_attempt_at);
            let next = policy.next_attempt_at(&delivery, &failed, TimeScale::REAL, jitter);
            let planned = match policy.step(attempt) {
                RetryStep::Wait(wait) => now + wait,
                RetryStep::Offset(offset) => first_attempt_at + offset,
            };
            let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
            let least = now + policy.minimum_wait(&failed.result).max(asked);
            let target = planned.max(least).since(now);
            let earliest = least.max(now + target.mul_f64(1.0 - JITTER));
            prop_assert!(next >= earliest, "{next} before {earliest}");
            let latest = now + target.mul_f64(1.0 + JITTER);
            prop_assert!(next <= latest, "{next} after {latest}");
        }

        /// Later attempts never wait less than earlier ones, all else being equal.
        #[test]
        fn the_published_waits_never_shrink(
            profile in prop_oneof![Just(DeliveryProfile::Basic), Just(DeliveryProfile::Namespace)],
            attempt in 1..29_u32,
            status in 100..600_u16,
        ) {
            let policy = RetryPolicy::of(profile);
            let earlier = wait(&policy, attempt, status, 0, 0.0);
            prop_assert!(wait(&policy, attempt + 1, status, 0, 0.0) >= earlier);
        }
    }
}
