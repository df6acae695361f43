//! When a failed delivery is tried again, and when it is given up: the published steps and waits.

use std::time::Duration;

use crate::model::limits::{ATTEMPTS_MAX, RETRY_AFTER_MAX, TIME_TO_LIVE_MINUTES_MAX};

const fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn minutes(m: u64) -> Duration {
    Duration::from_secs(m * 60)
}

const fn hours(h: u64) -> Duration {
    Duration::from_secs(h * 3_600)
}

/// The wait after each failed attempt; the last one repeats (spec 7.1).
pub const RETRY_SCHEDULE: [Duration; 10] = [
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
];

/// The shortest wait after certain statuses (spec 6.5, section A).
pub const MINIMUM_WAITS: [(u16, Duration); 3] =
    [(404, minutes(5)), (408, minutes(2)), (503, seconds(30))];

/// The shortest wait after any other failure (spec 6.5).
pub const MINIMUM_WAIT: Duration = seconds(10);

/// How much jitter may add to a wait, as a part of it; it never takes away (spec A).
pub const JITTER: f64 = 0.1;

/// How long and how often a delivery is tried (spec 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all, the first one included.
    pub attempts_max: u32,
    /// Measured from the moment of publishing.
    pub time_to_live: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts_max: ATTEMPTS_MAX,
            time_to_live: minutes(TIME_TO_LIVE_MINUTES_MAX as u64),
        }
    }
}

/// The wait after the failed attempt number `attempt` (from 1): the schedule's step, the minimum for
/// the status or what the receiver asked for, whichever is longest; `jitter` in `0..1` stretches it by
/// up to [`JITTER`].
pub fn wait_after(
    attempt: u32,
    status: Option<u16>,
    retry_after: Option<Duration>,
    jitter: f64,
) -> Duration {
    assert!(attempt >= 1, "attempts are counted from 1");
    let last = RETRY_SCHEDULE.len() - 1;
    let step = RETRY_SCHEDULE[(attempt as usize - 1).min(last)];
    let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
    step.max(minimum_wait(status))
        .max(asked)
        .mul_f64(1.0 + JITTER * jitter)
}

fn minimum_wait(status: Option<u16>) -> Duration {
    MINIMUM_WAITS
        .iter()
        .find(|(listed, _)| Some(*listed) == status)
        .map_or(MINIMUM_WAIT, |(_, wait)| *wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(attempt: u32, status: u16, retry_after_s: u64, expected_s: u64) {
        let asked = (retry_after_s > 0).then(|| seconds(retry_after_s));
        let wait = wait_after(attempt, Some(status), asked, 0.0);
        assert_eq!(
            wait,
            seconds(expected_s),
            "attempt {attempt}, {status}, {retry_after_s}"
        );
    }

    #[test]
    fn waits_follow_schedule_status_and_retry_after() {
        // The schedule (spec 7.1).
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
            check(attempt, 500, 0, expected_s);
        }
        // Minimum waits (spec 6.5).
        check(1, 404, 0, 300);
        check(5, 404, 0, 600);
        check(1, 408, 0, 120);
        check(1, 503, 0, 30);
        check(3, 503, 0, 60);
        check(1, 429, 0, 10);
        // Retry-After lengthens, never shortens, and is capped at 24 h (spec A).
        check(1, 429, 45, 45);
        check(2, 429, 5, 30);
        check(1, 503, 7_200, 7_200);
        check(1, 503, 1_000_000, 86_400);
    }

    #[test]
    fn jitter_only_adds_and_at_most_a_tenth() {
        for step in 0..100 {
            let jitter = f64::from(step) / 100.0;
            let wait = wait_after(1, Some(500), None, jitter);
            assert!(wait >= seconds(10) && wait <= seconds(11), "{wait:?}");
        }
    }
}
