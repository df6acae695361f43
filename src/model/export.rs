//! Rules for the export of dead letters: the time at which a blob is due, and the wait for unreachable storage (rule
//! 9.1, A).

use std::time::Duration;

use crate::base::{TimeScale, Timestamp};
use crate::model::limits::{EXPORT_DELAY, STORAGE_OUTAGE_MAX};

/// Retry delays after consecutive failures. The last delay repeats (rule N7).
const WAITS: [Duration; 3] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
];

/// The retry delay once storage has been unreachable for [`STORAGE_OUTAGE_MAX`]. Retries continue, so the appliance
/// still detects the recovery by itself.
const LONG_WAIT: Duration = Duration::from_secs(60 * 60);

/// Settings for the export of dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportRules {
    /// The time that the oldest dead letter of a blob waits for further dead letters.
    pub delay: Duration,
    pub when_unavailable: WhenUnavailable,
}

impl Default for ExportRules {
    fn default() -> Self {
        Self {
            delay: EXPORT_DELAY,
            when_unavailable: WhenUnavailable::Keep,
        }
    }
}

/// The treatment of dead letters whose storage was unreachable for [`STORAGE_OUTAGE_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenUnavailable {
    /// Dead letters stay in the queue until the storage is back.
    Keep,
    /// Dead letters are dropped, with a record, as Azure does.
    Drop,
}

/// A period in which uploads to a storage fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    pub since: Timestamp,
    /// The number of consecutive failures.
    pub failures: u32,
    pub tried_at: Timestamp,
    pub next_try_at: Timestamp,
    /// The last error, in plain words.
    pub error: String,
}

impl Outage {
    /// Returns `before` with a further failure; a new outage if `before` is `None`.
    pub fn after(before: Option<Self>, error: String, now: Timestamp, scale: TimeScale) -> Self {
        let (since, earlier) = before.map_or((now, 0), |before| (before.since, before.failures));
        let failures = earlier.saturating_add(1);
        let step = usize::try_from(failures - 1).unwrap_or(usize::MAX);
        let wait = if lasts_long(since, now, scale) {
            LONG_WAIT
        } else {
            WAITS[step.min(WAITS.len() - 1)]
        };
        Self {
            since,
            failures,
            tried_at: now,
            next_try_at: now + scale.shrink(wait),
            error,
        }
    }

    /// Returns the cutoff time: dead letters from before that time have waited too long. Returns `None` until the
    /// outage has lasted for [`STORAGE_OUTAGE_MAX`].
    pub fn given_up_before(&self, now: Timestamp, scale: TimeScale) -> Option<Timestamp> {
        lasts_long(self.since, now, scale).then(|| now - scale.shrink(STORAGE_OUTAGE_MAX))
    }

    /// Returns whether the next try is due. A change of the subscription after the last try makes the next try due at
    /// once.
    pub fn is_due(&self, changed_at: Timestamp, now: Timestamp) -> bool {
        self.next_try_at <= now || self.tried_at < changed_at
    }
}

fn lasts_long(since: Timestamp, now: Timestamp, scale: TimeScale) -> bool {
    now.since(since) >= scale.shrink(STORAGE_OUTAGE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_ms(1_000_000) + Duration::from_secs(seconds)
    }

    /// The seconds of all tries in an outage of so many seconds.
    fn tries(until: u64, scale: TimeScale) -> Vec<u64> {
        let (mut now, mut outage, mut seconds) = (at(0), None, Vec::new());
        while now <= at(until) {
            seconds.push(now.since(at(0)).as_secs());
            let after = Outage::after(outage, "away".to_owned(), now, scale);
            now = after.next_try_at;
            outage = Some(after);
        }
        seconds
    }

    #[test]
    fn tries_follow_the_published_waits_and_become_rare_in_the_end() {
        let tries = tries(6 * 3_600, TimeScale::REAL);
        assert_eq!(tries[..6], [0, 10, 70, 370, 670, 970]);
        let late: Vec<u64> = tries.into_iter().filter(|each| *each > 4 * 3_600).collect();
        assert_eq!(late, [14_470, 18_070], "5 min, then an hour");
    }

    #[test]
    fn a_time_scale_shortens_everything() {
        let scale = TimeScale::new(10).expect("a factor");
        assert_eq!(tries(40, scale), [0, 1, 7, 37]);
        let outage = Outage::after(None, "away".to_owned(), at(0), scale);
        assert_eq!(outage.given_up_before(at(1_439), scale), None);
        assert_eq!(outage.given_up_before(at(1_441), scale), Some(at(1)));
    }

    #[test]
    fn an_outage_gives_up_what_has_waited_for_four_hours() {
        let outage = Outage::after(None, "away".to_owned(), at(0), TimeScale::REAL);
        let given_up = |seconds| outage.given_up_before(at(seconds), TimeScale::REAL);
        assert_eq!(given_up(14_399), None);
        assert_eq!(given_up(14_400), Some(at(0)));
        assert_eq!(given_up(15_000), Some(at(600)));
    }

    #[test]
    fn a_changed_subscription_is_tried_at_once() {
        let outage = Outage::after(None, "away".to_owned(), at(100), TimeScale::REAL);
        assert!(!outage.is_due(at(50), at(101)));
        assert!(outage.is_due(at(50), at(110)));
        assert!(outage.is_due(at(101), at(101)));
    }
}
