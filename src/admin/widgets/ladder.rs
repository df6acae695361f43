//! What a retry policy comes to: how long it waits before each attempt, if all of them fail.

use std::time::Duration;

use askama::Template;

use crate::admin::widgets::{filters, hint, part};
use crate::base::{TimeScale, Timestamp};
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{
    AttemptResult, Delivery, DeliveryAttempt, DeliveryId, Outcome, admit,
};
use crate::model::event::EventKey;
use crate::model::retry::RetryPolicy;

/// Steps that are drawn; of more, the first and the number of the others.
const STEPS_SHOWN: usize = 14;

/// The waits, the shortest way, and the end.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/ladder.html")]
pub(crate) struct RetryLadder {
    /// Before each attempt, the first one included.
    waits: Vec<Duration>,
    /// Attempts that are not drawn.
    more: usize,
    /// Since the publishing.
    given_up_after: Duration,
    reason: &'static str,
}

part!(RetryLadder);

impl RetryLadder {
    pub(crate) fn new(policy: &RetryPolicy, scale: TimeScale) -> Self {
        let (times, reason) = times(policy, scale);
        let (last, attempts) = times
            .split_last()
            .expect("it is dead-lettered at some time");
        let before = std::iter::once(&Duration::ZERO).chain(attempts);
        let mut waits: Vec<Duration> = attempts
            .iter()
            .zip(before)
            .map(|(at, before)| at.saturating_sub(*before))
            .collect();
        let more = waits.len().saturating_sub(STEPS_SHOWN);
        waits.truncate(STEPS_SHOWN);
        Self {
            waits,
            more,
            given_up_after: *last,
            reason: hint::for_reason(reason),
        }
    }
}

/// When each attempt is made, since the publishing and the first attempt at once, and last when the delivery is given up; requests
/// themselves take no time here.
fn times(policy: &RetryPolicy, scale: TimeScale) -> (Vec<Duration>, DeadLetterReason) {
    let start = Timestamp::from_ms(0);
    let mut delivery = Delivery {
        id: DeliveryId(0),
        event: EventKey(0),
        attempts: 0,
        published_at: start,
        first_attempt_at: Some(start),
    };
    let mut times = vec![Duration::ZERO];
    loop {
        delivery.attempts += 1;
        let before = times[times.len() - 1];
        if delivery.attempts >= policy.attempts_max {
            times.push(before);
            return (times, DeadLetterReason::MaxDeliveryAttemptsExceeded);
        }
        let failed = DeliveryAttempt {
            attempt: delivery.attempts,
            started_at: start + before,
            duration: Duration::ZERO,
            result: AttemptResult::of(Outcome::GenericError),
            late: None,
        };
        let next_at = policy.next_attempt_at(&delivery, &failed, scale, 0.0);
        times.push(next_at.since(start));
        if let Err(reason) = admit(&delivery, policy, next_at, scale) {
            return (times, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(attempts_max: u32, minutes: u64, expected: &str) {
        let policy = RetryPolicy {
            attempts_max,
            time_to_live: Duration::from_secs(minutes * 60),
            ..RetryPolicy::default()
        };
        let (times, reason) = times(&policy, TimeScale::REAL);
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
        check(1, 1_440, "0 0 MaxDeliveryAttemptsExceeded");
        check(3, 1_440, "0 10 40 40 MaxDeliveryAttemptsExceeded");
        check(30, 1, "0 10 40 100 TimeToLiveExceeded");
        check(
            30,
            1_440,
            "0 10 40 100 400 1000 2800 6400 17200 38800 82000 125200 TimeToLiveExceeded",
        );
    }
}
