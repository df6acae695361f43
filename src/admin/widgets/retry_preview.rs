//! What a retry policy comes to: when each attempt would be made if all of them failed.

use std::time::Duration;

use crate::admin::widgets::Moment;
use crate::admin::widgets::{hint, print};
use crate::base::{TimeScale, Timestamp};
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{
    AttemptResult, Delivery, DeliveryAttempt, DeliveryId, Outcome, admit,
};
use crate::model::event::EventKey;
use crate::model::retry::RetryPolicy;

/// The attempts of an event published now, the shortest way, and how it ends.
pub(crate) struct RetryPreview {
    pub(crate) attempts: Vec<PreviewedAttempt>,
    /// Why the delivery is given up.
    pub(crate) reason: &'static str,
    pub(crate) given_up_at: Moment,
    /// Since the publishing.
    pub(crate) given_up_after: String,
}

/// One attempt, ready to print.
pub(crate) struct PreviewedAttempt {
    pub(crate) number: u32,
    /// Since the publishing.
    pub(crate) after: String,
    pub(crate) at: Moment,
}

/// It is looked at when an attempt falls due, which may be long after.
const OUTLIVED: &str = "Its time to live had ended before this attempt fell due";

impl RetryPreview {
    /// For an event published at `now`.
    pub(crate) fn new(policy: &RetryPolicy, now: Timestamp, scale: TimeScale) -> Self {
        let (times, reason) = times(policy, scale);
        let (last, attempts) = times.split_last().expect("it is given up at some time");
        let attempts = attempts
            .iter()
            .zip(1..)
            .map(|(after, number)| PreviewedAttempt {
                number,
                after: told(*after),
                at: Moment::at(now + *after),
            });
        Self {
            attempts: attempts.collect(),
            reason: match reason == DeadLetterReason::TimeToLiveExceeded {
                true => OUTLIVED,
                false => hint::for_reason(reason),
            },
            given_up_at: Moment::at(now + *last),
            given_up_after: told(*last),
        }
    }
}

fn told(after: Duration) -> String {
    match after.is_zero() {
        true => "at once".to_owned(),
        false => format!("after {}", print::span(after)),
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
        let next_at = policy.next_attempt_at(&failed, start, scale, 0.0);
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
