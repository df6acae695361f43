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

    /// Converts the moment to a calendar date in UTC; a year that the `time` crate cannot represent yields the epoch.
    pub fn to_utc(self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    /// Converts a time of the system clock; times before the epoch yield the epoch.
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
    System(Arc<SteadyClock>),
    /// A clock that only moves when told to.
    Simulated(Arc<AtomicI64>),
}

/// Longest forward jump of the wall clock that [`Clock::now`] follows at once.
const JUMP_FOLLOWED_MAX: Duration = Duration::from_secs(60);

/// Time for which the wall clock must stay ahead by more than [`JUMP_FOLLOWED_MAX`] before [`Clock::now`] follows it. A
/// jump that is reversed within this time, such as one caused by a wrong response of a time server, has no effect.
const JUMP_HELD_FOR: Duration = Duration::from_secs(5 * 60);

/// The machine's clock, corrected so that it never goes back (see [`Clock::system`]).
#[derive(Debug)]
pub struct SteadyClock {
    began_at: Instant,
    steady: Mutex<Steady>,
}

/// A reference point of the steady clock: a time, and the reading of the monotonic clock at that time. The present time
/// is `wall` plus the monotonic time that has passed since `at`.
#[derive(Debug)]
struct Steady {
    wall: Timestamp,
    /// The reading of the monotonic clock when the time was `wall`.
    at: Duration,
    /// The reading of the monotonic clock since which the wall clock has been ahead by more than [`JUMP_FOLLOWED_MAX`];
    /// `None` while it is not.
    ahead_since: Option<Duration>,
}

impl Steady {
    /// Returns the present time, given the readings `wall` of the wall clock and `at` of the monotonic clock.
    fn now(&mut self, wall: Timestamp, at: Duration) -> Timestamp {
        let steady = self.wall + at.saturating_sub(self.at);
        if wall <= steady {
            self.ahead_since = None;
            return steady;
        }
        if wall.since(steady) > JUMP_FOLLOWED_MAX {
            let since = *self.ahead_since.get_or_insert(at);
            if at.saturating_sub(since) < JUMP_HELD_FOR {
                return steady;
            }
        }
        *self = Self {
            wall,
            at,
            ahead_since: None,
        };
        wall
    }
}

/// The difference between the machine's wall clock and [`Clock::now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WallClock {
    /// The difference is at most [`JUMP_FOLLOWED_MAX`].
    Agrees,
    /// The wall clock is ahead by this much after a jump that [`Clock::now`] does not follow yet.
    Ahead(Duration),
    /// The wall clock is behind by this much, as after it was set back; [`Clock::now`] goes on without it until it has
    /// caught up.
    Behind(Duration),
}

impl WallClock {
    fn of(wall: Timestamp, told: Timestamp) -> Self {
        let (ahead, behind) = (wall.since(told), told.since(wall));
        if ahead > JUMP_FOLLOWED_MAX {
            Self::Ahead(ahead)
        } else if behind > JUMP_FOLLOWED_MAX {
            Self::Behind(behind)
        } else {
            Self::Agrees
        }
    }
}

impl Clock {
    /// The machine's clock. It never goes back and never stands still: when somebody sets the wall clock back, time
    /// goes on from where it was at the pace of the monotonic clock, so a retry is neither repeated nor put off by the
    /// length of the jump. A forward jump of the wall clock is followed at once up to [`JUMP_FOLLOWED_MAX`]; a longer
    /// one is followed only after it has lasted for [`JUMP_HELD_FOR`], so that a jump by mistake neither expires
    /// anything nor hands out anything early.
    pub fn system() -> Self {
        let steady = Steady {
            wall: wall_now(),
            at: Duration::ZERO,
            ahead_since: None,
        };
        Self::System(Arc::new(SteadyClock {
            began_at: Instant::now(),
            steady: Mutex::new(steady),
        }))
    }

    /// A clock that stands at `start` until [`Clock::advance`] moves it.
    pub fn simulated(start: Timestamp) -> Self {
        Self::Simulated(Arc::new(AtomicI64::new(start.as_ms())))
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System(clock) => {
                let mut steady = clock.steady.lock().unwrap();
                steady.now(wall_now(), clock.began_at.elapsed())
            }
            Self::Simulated(now) => Timestamp::from_ms(now.load(Ordering::SeqCst)),
        }
    }

    /// Returns the difference between the machine's wall clock and [`Clock::now`]. A simulated clock always agrees.
    pub fn wall_clock(&self) -> WallClock {
        match self {
            Self::System(_) => WallClock::of(wall_now(), self.now()),
            Self::Simulated(_) => WallClock::Agrees,
        }
    }

    /// Moves the clock ahead by `by`. A system clock goes on from there at the pace of the monotonic clock until the
    /// wall clock has caught up.
    pub fn advance(&self, by: Duration) {
        match self {
            Self::System(clock) => {
                let wall = self.now() + by;
                *clock.steady.lock().unwrap() = Steady {
                    wall,
                    at: clock.began_at.elapsed(),
                    ahead_since: None,
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

/// The factor by which the waits of event delivery (retry schedule, minimum waits, time to live, handshake windows) are
/// shortened: 1 in production, more for tests and demonstrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeScale(u32);

impl TimeScale {
    /// Waits take as long as the specification says.
    pub const REAL: TimeScale = TimeScale(1);

    /// Creates a scale that divides waits by `factor`; `None` for zero.
    pub fn new(factor: u32) -> Option<Self> {
        (factor > 0).then_some(Self(factor))
    }

    /// The divisor.
    pub fn factor(self) -> u32 {
        self.0
    }

    /// Divides `wait` by the factor.
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

    /// Returns the time that is told when the wall clock is so many seconds ahead of the monotonic one, at these seconds.
    fn told(steps: &[(u64, i64)]) -> Vec<i64> {
        let mut steady = Steady {
            wall: Timestamp::from_ms(0),
            at: Duration::ZERO,
            ahead_since: None,
        };
        let tell = |(at, ahead): &(u64, i64)| {
            let wall = at.cast_signed() + ahead;
            let told = steady.now(Timestamp::from_ms(wall * 1_000), Duration::from_secs(*at));
            told.as_ms() / 1_000
        };
        steps.iter().map(tell).collect()
    }

    const DAY: i64 = 86_400;

    #[test]
    fn a_wall_clock_set_back_does_not_take_time_back() {
        assert_eq!(
            told(&[(1, 0), (2, -3_600), (3, -3_600), (4, 0)]),
            [1, 2, 3, 4]
        );
        let clock = Clock::system();
        let before = clock.now();
        clock.advance(Duration::from_secs(3_600));
        assert!(clock.now() >= before + Duration::from_secs(3_600));
        assert!(matches!(clock.wall_clock(), WallClock::Behind(_)));
    }

    #[test]
    fn a_wall_clock_a_little_ahead_is_followed_at_once() {
        assert_eq!(
            told(&[(1, 0), (2, 60), (3, 60), (4, 120)]),
            [1, 62, 63, 124]
        );
    }

    #[test]
    fn a_wall_clock_that_comes_back_has_changed_nothing() {
        let steps = [
            (1, 0),
            (2, DAY),
            (30, DAY),
            (31, 0),
            (32, DAY),
            (330, DAY),
            (331, 0),
        ];
        assert_eq!(told(&steps), [1, 2, 30, 31, 32, 330, 331]);
    }

    #[test]
    fn a_wall_clock_that_stays_ahead_is_followed_after_a_while() {
        let steps = [(1, 0), (2, DAY), (301, DAY), (302, DAY), (303, DAY)];
        assert_eq!(told(&steps), [1, 2, 301, 302 + DAY, 303 + DAY]);
    }

    #[test]
    fn how_far_the_wall_clock_is_away_is_told() {
        let (at, day) = (Timestamp::from_ms(1_000), Duration::from_secs(86_400));
        assert_eq!(WallClock::of(at, at), WallClock::Agrees);
        assert_eq!(
            WallClock::of(at + Duration::from_secs(60), at),
            WallClock::Agrees
        );
        assert_eq!(WallClock::of(at + day, at), WallClock::Ahead(day));
        assert_eq!(WallClock::of(at, at + day), WallClock::Behind(day));
        assert_eq!(Clock::simulated(at).wall_clock(), WallClock::Agrees);
    }

    #[test]
    fn a_simulated_clock_moves_only_when_told() {
        let clock = Clock::simulated(Timestamp::from_ms(1_000));
        assert_eq!(clock.now().as_ms(), 1_000);
        clock.clone().advance(Duration::from_secs(2));
        assert_eq!(clock.now().as_ms(), 3_000);
    }
}
