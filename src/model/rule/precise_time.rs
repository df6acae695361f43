//! Moments as .NET has them, to a tick of 100 ns.

use std::fmt;
use std::str::FromStr;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::base::Timestamp;

const TICKS_PER_MS: i128 = 10_000;
const TICK_NS: i128 = 100;

/// A moment and the ticks that it lies behind a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PreciseTime {
    at: Timestamp,
    ticks: u16,
}

impl PreciseTime {
    /// Returns the moment so many ticks after the beginning of 1970, as far as there is one.
    pub fn of_ticks(ticks: i128) -> Option<Self> {
        let ms = i64::try_from(ticks.div_euclid(TICKS_PER_MS)).ok()?;
        Some(Self {
            at: Timestamp::from_ms(ms),
            ticks: u16::try_from(ticks.rem_euclid(TICKS_PER_MS)).ok()?,
        })
    }

    /// Returns the moment to the millisecond.
    pub fn to_timestamp(self) -> Timestamp {
        self.at
    }
}

impl From<Timestamp> for PreciseTime {
    fn from(at: Timestamp) -> Self {
        Self { at, ticks: 0 }
    }
}

/// RFC 3339 in UTC, with as many digits as it takes.
impl fmt::Display for PreciseTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.to_string();
        if self.ticks == 0 {
            return f.write_str(&at);
        }
        let ticks = format!("{:04}", self.ticks);
        write!(
            f,
            "{}{}Z",
            at.trim_end_matches('Z'),
            ticks.trim_end_matches('0')
        )
    }
}

impl FromStr for PreciseTime {
    type Err = time::error::Parse;

    /// Reads RFC 3339; what is less than a tick is left out.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let date = OffsetDateTime::parse(text, &Rfc3339)?;
        let ticks = date.unix_timestamp_nanos().div_euclid(TICK_NS);
        // A year of four digits has fewer milliseconds than there can be.
        Ok(Self::of_ticks(ticks).unwrap_or_else(|| Timestamp::from_utc(date).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_keep_their_ticks() {
        for (text, expected) in [
            ("2026-11-25T10:00:00Z", "2026-11-25T10:00:00.000Z"),
            (
                "2026-11-25T12:00:00.1234567+02:00",
                "2026-11-25T10:00:00.1234567Z",
            ),
            ("2026-11-25T10:00:00.1234500Z", "2026-11-25T10:00:00.12345Z"),
            (
                "1969-12-31T23:59:59.9999999Z",
                "1969-12-31T23:59:59.9999999Z",
            ),
        ] {
            let at: PreciseTime = text.parse().expect("a moment");
            assert_eq!(at.to_string(), expected);
        }
        let at = |text: &str| text.parse::<PreciseTime>().expect("a moment");
        assert!(at("2026-11-25T10:00:00.0000001Z") > at("2026-11-25T10:00:00Z"));
        assert_eq!(
            PreciseTime::of_ticks(10_001)
                .map(|at| at.to_string())
                .as_deref(),
            Some("1970-01-01T00:00:00.0010001Z")
        );
        assert_eq!(PreciseTime::of_ticks(i128::MAX), None);
    }
}
