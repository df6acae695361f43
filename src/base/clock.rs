//! The clock: moments as milliseconds since the epoch, from the system or from a simulation.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment `ms` milliseconds after the epoch.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the epoch.
    pub const fn as_ms(self) -> i64 {
        self.0
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The moment as a calendar date in UTC; years outside of what `time` knows read as the epoch.
    pub fn to_utc(self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    /// A moment of the system's clock; what lies before the epoch reads as the epoch.
    pub fn from_system(time: SystemTime) -> Self {
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    /// The calendar date as a moment, fractions of a millisecond cut off.
    pub fn from_utc(date: OffsetDateTime) -> Self {
        Self(i64::try_from(date.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX))
    }

    /// RFC 3339 with seven fractional digits, as Azure writes moments: `2026-11-21T06:40:53.1380000Z`.
    pub fn to_azure(self) -> String {
        format!("{}0000Z", self.to_milliseconds())
    }

    /// RFC 3339 to the millisecond, without the zone.
    fn to_milliseconds(self) -> String {
        let at = self.to_utc();
        let (date, time) = (at.date(), at.time());
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}",
            date.year(),
            u8::from(date.month()),
            date.day(),
            time.hour(),
            time.minute(),
            time.second(),
            time.millisecond()
        )
    }
}

/// RFC 3339 with milliseconds: `2026-11-21T06:40:53.138Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}Z", self.to_milliseconds())
    }
}

impl FromStr for Timestamp {
    type Err = time::error::Parse;

    /// Reads RFC 3339.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        OffsetDateTime::parse(text, &Rfc3339).map(Self::from_utc)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, wait: Duration) -> Timestamp {
        Timestamp(
            self.0
                .saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, wait: Duration) -> Timestamp {
        Timestamp(
            self.0
                .saturating_sub(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

/// Tells the time. Cheap to clone; clones of a simulated clock share one time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's clock, made steady (see [`Clock::system`]).
    System(Arc<Mutex<Anchor>>),
    /// A clock that only moves when told to.
    Simulated(Arc<AtomicI64>),
}

/// The last agreement between the wall clock and the monotonic one.
#[derive(Debug)]
pub struct Anchor {
    wall: Timestamp,
    read_at: Instant,
}

impl Clock {
    /// The machine's clock. It never goes back and never stands still: when somebody sets the wall
    /// clock back, time goes on from where it was at the pace of the monotonic clock, so a retry is
    /// neither repeated nor put off by the length of the jump. Set ahead, it is followed at once.
    pub fn system() -> Self {
        Self::System(Arc::new(Mutex::new(Anchor {
            wall: wall_now(),
            read_at: Instant::now(),
        })))
    }

    /// A clock that stands at `start` until [`Clock::advance`] moves it.
    pub fn simulated(start: Timestamp) -> Self {
        Self::Simulated(Arc::new(AtomicI64::new(start.as_ms())))
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System(anchor) => {
                let mut anchor = anchor.lock().unwrap();
                let steady = anchor.wall + anchor.read_at.elapsed();
                let wall = wall_now();
                if wall <= steady {
                    return steady;
                }
                *anchor = Anchor {
                    wall,
                    read_at: Instant::now(),
                };
                wall
            }
            Self::Simulated(now) => Timestamp::from_ms(now.load(Ordering::SeqCst)),
        }
    }

    /// Moves the clock ahead. That of the system goes on from there at its pace, until the wall clock has caught up.
    pub fn advance(&self, by: Duration) {
        match self {
            Self::System(anchor) => {
                let wall = self.now() + by;
                *anchor.lock().unwrap() = Anchor {
                    wall,
                    read_at: Instant::now(),
                };
            }
            Self::Simulated(now) => {
                let by = i64::try_from(by.as_millis()).expect("a simulation of fewer years");
                now.fetch_add(by, Ordering::SeqCst);
            }
        }
    }
}

fn wall_now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

/// How many times faster than real the waits of the delivery domain pass (retry schedule, minimum
/// waits, time to live, handshake windows). 1 in production; more for tests and demonstrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeScale(u32);

impl TimeScale {
    /// Waits take as long as the specification says.
    pub const REAL: TimeScale = TimeScale(1);

    /// Divides waits by `factor`; `None` for zero.
    pub fn new(factor: u32) -> Option<Self> {
        (factor > 0).then_some(Self(factor))
    }

    /// The divisor.
    pub fn factor(self) -> u32 {
        self.0
    }

    /// What is left of `wait`.
    pub fn shrink(self, wait: Duration) -> Duration {
        wait / self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_and_read_back() {
        let at: Timestamp = "2026-11-21T06:40:53.138Z".parse().expect("RFC 3339");
        assert_eq!(at.to_string(), "2026-11-21T06:40:53.138Z");
        assert_eq!(at.to_azure(), "2026-11-21T06:40:53.1380000Z");
        let offset: Timestamp = "2026-11-21T07:40:53.138+01:00".parse().expect("RFC 3339");
        assert_eq!(offset, at);
    }

    #[test]
    fn a_wall_clock_set_back_does_not_take_time_back() {
        let clock = Clock::system();
        let before = clock.now();
        if let Clock::System(anchor) = &clock {
            anchor.lock().unwrap().wall = before + Duration::from_secs(3600);
        }
        assert!(clock.now() >= before + Duration::from_secs(3600));
    }

    #[test]
    fn a_simulated_clock_moves_only_when_told() {
        let clock = Clock::simulated(Timestamp::from_ms(1_000));
        assert_eq!(clock.now().as_ms(), 1_000);
        clock.clone().advance(Duration::from_secs(2));
        assert_eq!(clock.now().as_ms(), 3_000);
    }
}
