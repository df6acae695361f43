//! Slows down the guessing of passwords, codes and links by delays that grow and end (docs/security.md B3).

use std::time::Duration;

use crate::base::Timestamp;

/// Failures without a delay (docs/security.md B3).
const FREE_TRIES: u32 = 5;

/// The longest delay: nobody is locked out for good (docs/security.md B3).
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Time without a failure after which the count starts from zero.
pub const LOGIN_FAILURES_LIFE: Duration = Duration::from_secs(3_600);

/// Time for which a network is known for an account after a sign-in: longer than a holiday.
pub const KNOWN_NETWORK_LIFE: Duration = Duration::from_secs(90 * 86_400);

/// The failed logins at one account, or from one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginFailures {
    pub count: u32,
    pub last_at: Timestamp,
    /// When the next attempt is allowed.
    pub free_at: Timestamp,
}

impl LoginFailures {
    /// No failures.
    pub fn none(now: Timestamp) -> Self {
        Self {
            count: 0,
            last_at: now,
            free_at: now,
        }
    }

    /// Returns the failures including another one at `now`; old ones do not count.
    pub fn one_more(self, now: Timestamp) -> Self {
        let is_forgotten = now.since(self.last_at) >= LOGIN_FAILURES_LIFE;
        let before = if is_forgotten { 0 } else { self.count };
        let count = before.saturating_add(1);
        Self {
            count,
            last_at: now,
            free_at: now + wait_after(count),
        }
    }

    /// Returns the failures without the last one, which was no failure after all.
    pub fn one_fewer(self) -> Self {
        Self {
            count: self.count.saturating_sub(1),
            free_at: self.last_at,
            ..self
        }
    }
}

/// Returns the delay after a number of failures: none after the first ones, then 1, 2, 4 … seconds.
fn wait_after(failures: u32) -> Duration {
    match failures.checked_sub(FREE_TRIES) {
        None => Duration::ZERO,
        Some(beyond) => Duration::from_secs(1 << beyond.min(16)).min(WAIT_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_tries_are_free_and_then_waits_grow_to_five_minutes() {
        let mut failures = LoginFailures::none(Timestamp::from_ms(1_000));
        let waits = (0..15).map(|_| {
            failures = failures.one_more(failures.free_at);
            failures.free_at.since(failures.last_at).as_secs()
        });
        let expected = [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
        assert_eq!(waits.collect::<Vec<_>>(), expected);
        let later = failures.last_at + LOGIN_FAILURES_LIFE;
        assert_eq!(failures.one_more(later).count, 1, "an hour later");
        assert_eq!(failures.one_fewer().count, 14);
    }
}
