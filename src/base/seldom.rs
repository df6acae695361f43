//! Lines of the log that others can cause as often as they like: one a minute, so that nobody fills it.

use std::fmt::Display;
use std::sync::Mutex;
use std::time::Duration;

use crate::base::{Clock, Timestamp};

/// Between two lines.
const LINE_PAUSE: Duration = Duration::from_secs(60);

/// Counts what would be lines of one kind.
#[derive(Default)]
pub struct SeldomLine(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    logged_at: Option<Timestamp>,
    /// How many came since then.
    unlogged: u64,
}

impl SeldomLine {
    pub const fn new() -> Self {
        Self(Mutex::new(Noted {
            logged_at: None,
            unlogged: 0,
        }))
    }

    /// The number of those that were not logged before, if this one is to be.
    pub fn take(&self, now: Timestamp) -> Option<u64> {
        let mut noted = self.0.lock().unwrap();
        if noted.logged_at.is_some_and(|at| now.since(at) < LINE_PAUSE) {
            noted.unlogged += 1;
            return None;
        }
        noted.logged_at = Some(now);
        Some(std::mem::take(&mut noted.unlogged))
    }

    /// [`SeldomLine::take`] by the system's clock, where no other one is at hand.
    pub fn take_now(&self) -> Option<u64> {
        self.take(Clock::system().now())
    }

    /// Logs an error that is no client's fault, unless one was logged within a minute.
    pub fn log(&self, error: &dyn Display, problem: &str) {
        if let Some(unlogged) = self.take_now() {
            tracing::error!(
                %error,
                unlogged,
                "{problem}; further ones within a minute are only counted"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_a_minute_is_logged() {
        let (seldom, start) = (SeldomLine::default(), Timestamp::from_ms(0));
        let line = |after_s| seldom.take(start + Duration::from_secs(after_s));
        let lines = [0, 1, 59, 60, 61, 200].map(line);
        assert_eq!(lines, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
