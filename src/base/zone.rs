//! Time zones for showing times to people, by their names in the IANA time zone database, which is compiled into the
//! program.

use jiff::Zoned;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::base::Timestamp;

/// A time zone.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// Returns UTC, the zone that the clocks of programs use.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// Returns the zone with the IANA name `name`, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        TimeZone::get(name).ok().map(Self)
    }

    /// Returns the zone's IANA name.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Returns the names of all zones in the database.
    pub fn names() -> impl Iterator<Item = String> {
        let names = jiff::tz::db().available();
        names.map(|name| name.as_str().to_owned())
    }

    /// Returns the local time in this zone.
    pub fn local(&self, at: Timestamp) -> Zoned {
        let at = jiff::Timestamp::from_millisecond(at.as_ms()).unwrap_or_default();
        at.to_zoned(self.0.clone())
    }

    /// Returns the zone's offset from UTC at `at`: `UTC`, `UTC+1`, `UTC-3:30`.
    pub fn offset(&self, at: Timestamp) -> String {
        let seconds = self.local(at).offset().seconds();
        let (hours, minutes) = (seconds.abs() / 3_600, seconds.abs() % 3_600 / 60);
        let sign = if seconds < 0 { '-' } else { '+' };
        match (hours, minutes) {
            (0, 0) => "UTC".to_owned(),
            (hours, 0) => format!("UTC{sign}{hours}"),
            (hours, minutes) => format!("UTC{sign}{hours}:{minutes:02}"),
        }
    }

    /// Parses a moment: local time as browsers write it (`2026-11-21T06:40`), or RFC 3339; `None` for anything else.
    pub fn moment(&self, text: &str) -> Option<Timestamp> {
        let trimmed = text.trim();
        trimmed.parse().ok().or_else(|| {
            let local: DateTime = trimmed.parse().ok()?;
            let at = local.to_zoned(self.0.clone()).ok()?;
            Some(Timestamp::from_ms(at.timestamp().as_millisecond()))
        })
    }

    /// Formats a moment in local time as browsers' date-and-time fields hold it: `2026-11-21T06:40`.
    pub fn typed(&self, at: Timestamp) -> String {
        self.local(at).strftime("%Y-%m-%dT%H:%M").to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("RFC 3339")
    }

    #[test]
    fn moments_are_typed_as_clocks_show_them() {
        let berlin = Zone::named("Europe/Berlin").expect("a zone");
        for (typed, meant) in [
            ("2026-11-21T06:40", "2026-11-21T05:40:00Z"),
            ("2026-07-21T06:40", "2026-07-21T04:40:00Z"),
            ("2026-11-21T06:40:53", "2026-11-21T05:40:53Z"),
            ("2026-11-21", "2026-11-20T23:00:00Z"),
            ("2026-11-21T06:40:53.138Z", "2026-11-21T06:40:53.138Z"),
        ] {
            assert_eq!(berlin.moment(typed), Some(at(meant)), "{typed}");
        }
        assert_eq!(berlin.moment("yesterday"), None);
        assert_eq!(berlin.typed(at("2026-11-21T05:40:53Z")), "2026-11-21T06:40");
    }

    #[test]
    fn zones_are_known_by_name_and_say_how_far_ahead_they_are() {
        for (name, offset) in [
            ("UTC", "UTC"),
            ("Europe/Berlin", "UTC+1"),
            ("Asia/Kolkata", "UTC+5:30"),
            ("America/St_Johns", "UTC-3:30"),
        ] {
            let zone = Zone::named(name).expect(name);
            assert_eq!(zone.name(), name);
            assert_eq!(zone.offset(at("2026-11-21T05:40:53Z")), offset);
        }
        assert!(Zone::named("Europe/Nowhere").is_none());
        assert!(Zone::names().any(|name| name == "Europe/Berlin"));
    }
}
