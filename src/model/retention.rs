//! Retention of ended deliveries, and early pruning. This module does no I/O.
//!
//! An event is pruned together with all its deliveries and attempts, once every delivery may be pruned. The displayed
//! history of an event is therefore always complete. Pending deliveries are never pruned.

use std::time::Duration;

use crate::base::Timestamp;
use crate::base::named::named_enum;

/// The default retention of delivered events: 7 days, enough to investigate an incident of the previous week.
pub const DELIVERED_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Bytes that the database may use by default.
pub const DATABASE_BYTES_MAX: u64 = 2 * 1_024 * 1_024 * 1_024;

/// How long events are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionRules {
    /// The retention of events after the end of their last delivery, or after publishing for unmatched events.
    pub delivered: Duration,
    /// The retention of dead letters after the end of an event's last delivery; `None` keeps dead letters forever.
    pub dead_letters: Option<Duration>,
    /// Bytes of the database above which delivered events are pruned early; `None` for no limit.
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

/// The time limits of pruning. Events whose last delivery ended at or before these times may be pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutoff {
    /// For events that were delivered, dropped or unmatched.
    pub delivered: Timestamp,
    /// `None` keeps dead letters.
    pub dead_letters: Option<Timestamp>,
}

/// How much space there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRoom {
    /// Used bytes of the database.
    pub used_bytes: u64,
    /// Free bytes on the disk; `None` if that does not matter.
    pub disk_free_bytes: Option<u64>,
    /// Free bytes below which publish requests are rejected.
    pub disk_free_min: u64,
}

named_enum! {
    /// Why delivered events are pruned early.
    pub enum Pressure {
        /// The database uses more than it may.
        Size,
        /// The disk is almost so full that publish requests must be rejected.
        Disk,
    }
}

impl RetentionRules {
    /// Returns the limits of pruning at `now`. Under pressure, delivered events may be pruned at any age. Dead letters
    /// are never pruned early.
    pub fn cutoff(&self, now: Timestamp, pressure: Option<Pressure>) -> Cutoff {
        Cutoff {
            delivered: match pressure {
                None => now - self.delivered,
                Some(_) => now,
            },
            dead_letters: self.dead_letters.map(|age| now - age),
        }
    }

    /// Returns the pressure, if there is any; `before` is the previous result. Pressure begins at a bound. It ends only
    /// at a tenth less used space, or a tenth more free space, so that it does not change with every event.
    pub fn pressure(&self, room: &DiskRoom, before: Option<Pressure>) -> Option<Pressure> {
        let most = self.bytes_max.unwrap_or(u64::MAX);
        let most = match before {
            Some(Pressure::Size) => most - most / 10,
            Some(Pressure::Disk) | None => most,
        };
        // Add a quarter to the limit at which publish requests are rejected, so that pruning starts before that.
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
            let room = DiskRoom {
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
        let room = DiskRoom {
            used_bytes: u64::MAX,
            disk_free_bytes: None,
            disk_free_min: u64::MAX,
        };
        assert_eq!(anything.pressure(&room, None), None);
    }
}
