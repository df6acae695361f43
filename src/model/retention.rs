//! How long what has ended is kept, and when it goes early. Pure.
//!
//! An event goes whole, with all its deliveries and attempts, once every one of them may go, so that what
//! is shown of it is always all of it. What is still to be delivered never goes.

use std::time::Duration;

use crate::base::Timestamp;

/// How long a delivered event is kept unless the settings say otherwise: long enough to look into last
/// week's incident.
pub const DELIVERED_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Bytes that the database may use unless the settings say otherwise.
pub const DATABASE_BYTES_MAX: u64 = 2 * 1_024 * 1_024 * 1_024;

/// How much is kept of what has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionRules {
    /// Since the end of an event's last delivery; since its publication where nobody wanted it.
    pub delivered: Duration,
    /// The same for dead letters; `None` keeps them.
    pub dead_letters: Option<Duration>,
    /// Bytes of the database past which delivered events go early; `None` for any number.
    pub bytes_max: Option<u64>,
}

impl Default for RetentionRules {
    fn default() -> Self {
        Self {
            delivered: DELIVERED_KEPT,
            dead_letters: None,
            bytes_max: Some(DATABASE_BYTES_MAX),
        }
    }
}

/// What may go: whatever has ended at these moments or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutoff {
    /// Of events that were delivered, dropped, or wanted by nobody.
    pub delivered: Timestamp,
    /// `None` if dead letters stay.
    pub dead_letters: Option<Timestamp>,
}

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of the database that hold something.
    pub used_bytes: u64,
    /// Bytes that are free on the disk; `None` where that does not matter.
    pub disk_free_bytes: Option<u64>,
    /// Bytes below which publishers are refused.
    pub disk_free_min: u64,
}

/// Why delivered events go before their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// The database uses more than it may.
    Size,
    /// The disk is close to where publishers would have to be refused.
    Disk,
}

impl Pressure {
    /// The word for it in answers and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Size => "Size",
            Self::Disk => "Disk",
        }
    }
}

impl RetentionRules {
    /// What may go at `now` because of its age, or, under pressure, of any age. Dead letters never go early.
    pub fn cutoff(&self, now: Timestamp, pressure: Option<Pressure>) -> Cutoff {
        Cutoff {
            delivered: match pressure {
                None => now - self.delivered,
                Some(_) => now,
            },
            dead_letters: self.dead_letters.map(|age| now - age),
        }
    }

    /// Whether there is pressure, there having been `before`. It begins at a bound and ends a tenth below
    /// it, so that it does not come and go with every event.
    pub fn pressure(&self, room: &Room, before: Option<Pressure>) -> Option<Pressure> {
        let most = self.bytes_max.unwrap_or(u64::MAX);
        let most = match before {
            Some(Pressure::Size) => most - most / 10,
            Some(Pressure::Disk) | None => most,
        };
        // A quarter above the bound of the publishers, who are to be refused last.
        let least = room.disk_free_min.saturating_add(room.disk_free_min / 4);
        let least = match before {
            Some(Pressure::Disk) => least.saturating_add(least / 10),
            Some(Pressure::Size) | None => least,
        };
        if room.used_bytes > most {
            return Some(Pressure::Size);
        }
        let is_short = room.disk_free_bytes.is_some_and(|free| free < least);
        is_short.then_some(Pressure::Disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_decides_unless_there_is_pressure() {
        let hours = |hours: u64| Duration::from_secs(hours * 3_600);
        let rules = RetentionRules {
            delivered: hours(2),
            dead_letters: Some(hours(5)),
            bytes_max: None,
        };
        let now = Timestamp::from_ms(0) + hours(10);
        let at = |hour| Timestamp::from_ms(0) + hours(hour);
        let aged = rules.cutoff(now, None);
        assert_eq!((aged.delivered, aged.dead_letters), (at(8), Some(at(5))));
        for pressure in [Pressure::Size, Pressure::Disk] {
            let early = rules.cutoff(now, Some(pressure));
            assert_eq!((early.delivered, early.dead_letters), (now, Some(at(5))));
        }
        let kept = RetentionRules::default().cutoff(now, Some(Pressure::Size));
        assert_eq!(kept.dead_letters, None);
    }

    #[test]
    fn pressure_ends_a_tenth_below_where_it_begins() {
        use Pressure::{Disk, Size};
        let rules = RetentionRules {
            bytes_max: Some(1_000),
            ..RetentionRules::default()
        };
        for (used, free, before, expected) in [
            (1_000, 500, None, None),
            (1_001, 500, None, Some(Size)),
            (950, 500, Some(Size), Some(Size)),
            (900, 500, Some(Size), None),
            (0, 500, None, None),
            (0, 499, None, Some(Disk)),
            (0, 549, Some(Disk), Some(Disk)),
            (0, 550, Some(Disk), None),
            (1_001, 0, Some(Disk), Some(Size)),
        ] {
            let room = Room {
                used_bytes: used,
                disk_free_bytes: Some(free),
                disk_free_min: 400,
            };
            let told = rules.pressure(&room, before);
            assert_eq!(told, expected, "{used} {free} {before:?}");
        }
        let anything = RetentionRules {
            bytes_max: None,
            ..rules
        };
        let room = Room {
            used_bytes: u64::MAX,
            disk_free_bytes: None,
            disk_free_min: u64::MAX,
        };
        assert_eq!(anything.pressure(&room, None), None);
    }
}
