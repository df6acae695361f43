//! The difference between the local clock and a remote clock, measured in one HTTP exchange.

use std::time::Duration;

use crate::base::Timestamp;
use crate::model::limits::CLOCK_SKEW_MAX;

/// The resolution of times in HTTP: whole seconds, rounded down (RFC 9110, 5.6.7).
const RESOLUTION: Duration = Duration::from_secs(1);

/// The minimum difference between the local clock and a remote clock that a measurement proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSkew {
    /// The measurement proves no difference.
    None,
    /// The local clock is ahead by at least this duration.
    Ahead(Duration),
    /// The local clock is behind by at least this duration.
    Behind(Duration),
}

impl ClockSkew {
    /// Calculates the skew from one measurement: the remote clock showed `theirs` at some time between `sent_at` and
    /// `received_at` of the local clock.
    pub fn measured(theirs: Timestamp, sent_at: Timestamp, received_at: Timestamp) -> Self {
        let (ahead, behind) = (
            sent_at.since(theirs + RESOLUTION),
            theirs.since(received_at),
        );
        match (ahead.is_zero(), behind.is_zero()) {
            (false, _) => Self::Ahead(ahead),
            (true, false) => Self::Behind(behind),
            (true, true) => Self::None,
        }
    }

    /// Returns whether the skew is more than [`CLOCK_SKEW_MAX`].
    pub fn is_too_much(self) -> bool {
        match self {
            Self::None => false,
            Self::Ahead(by) | Self::Behind(by) => by > CLOCK_SKEW_MAX,
        }
    }

    /// Returns the skew in milliseconds, positive if the local clock is ahead.
    pub fn as_ms(self) -> i64 {
        let ms = |by: Duration| i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        match self {
            Self::None => 0,
            Self::Ahead(by) => ms(by),
            Self::Behind(by) => -ms(by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_told_than_is_certain() {
        for (theirs, sent_at, received_at, expected_ms, is_too_much) in [
            // Their second began before we received it, and ended after we sent the request.
            (10_000, 10_400, 10_700, 0, false),
            (10_000, 9_000, 10_000, 0, false),
            (10_000, 11_000, 12_000, 0, false),
            // A slow response leaves much uncertain.
            (10_000, 5_000, 30_000, 0, false),
            (10_000, 11_001, 11_002, 1, false),
            (10_000, 9_000, 9_999, -1, false),
            (10_000, 71_000, 71_500, 60_000, false),
            (10_000, 71_001, 71_500, 60_001, true),
            (70_001, 9_000, 10_000, -60_001, true),
        ] {
            let at = Timestamp::from_ms;
            let skew = ClockSkew::measured(at(theirs), at(sent_at), at(received_at));
            assert_eq!(
                skew.as_ms(),
                expected_ms,
                "{theirs} {sent_at} {received_at}"
            );
            assert_eq!(skew.is_too_much(), is_too_much, "{theirs} {sent_at}");
        }
    }
}
