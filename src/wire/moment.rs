//! Moments as clients write them: ISO 8601 in its common spellings, and the American date of .NET.

use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use crate::base::Timestamp;

const ISO: &[BorrowedFormatItem<'_>] = format_description!(
    version = 2,
    "[year]-[month]-[day][first [T][t][ ]][hour]:[minute]:[second][optional [.[subsecond]]]"
);

const AMERICAN: &[BorrowedFormatItem<'_>] = format_description!(
    version = 2,
    "[month padding:none]/[day padding:none]/[year] \
     [hour repr:12 padding:none]:[minute padding:none]:[second padding:none] \
     [period case_sensitive:false]"
);

const OFFSETS: [&[BorrowedFormatItem<'_>]; 3] = [
    format_description!("[offset_hour sign:mandatory]:[offset_minute]"),
    format_description!("[offset_hour sign:mandatory][offset_minute]"),
    format_description!("[offset_hour sign:mandatory]"),
];

/// Reads the expiry of a SAS token in any of the spellings of rule 1.2; without a zone it is UTC.
pub(super) fn expiry(text: &str) -> Option<Timestamp> {
    let (local, offset) = split(text)?;
    let date = PrimitiveDateTime::parse(local, ISO)
        .ok()
        .or_else(|| american(local))?;
    let moment = date.assume_offset(offset.unwrap_or(UtcOffset::UTC));
    Some(Timestamp::from_utc(moment))
}

/// Respells an ISO 8601 moment that has a zone as RFC 3339; `None` for anything else.
pub(super) fn respelled(text: &str) -> Option<String> {
    let (local, offset) = split(text)?;
    let date: OffsetDateTime = PrimitiveDateTime::parse(local, ISO)
        .ok()?
        .assume_offset(offset?);
    date.format(&Rfc3339).ok()
}

fn american(text: &str) -> Option<PrimitiveDateTime> {
    // Newer systems put a narrow no-break space before AM and PM.
    let words: Vec<&str> = text.split_whitespace().collect();
    PrimitiveDateTime::parse(&words.join(" "), AMERICAN).ok()
}

/// Splits the zone off the end. `None` when there is something that looks like one but is not.
fn split(text: &str) -> Option<(&str, Option<UtcOffset>)> {
    let text = text.trim();
    if let Some(local) = text.strip_suffix(['Z', 'z']) {
        return Some((local, Some(UtcOffset::UTC)));
    }
    // The date has no `+`, and any `-` of its own stands before the first colon.
    let time = text.find(':')?;
    let Some(sign) = text[time..].find(['+', '-']) else {
        return Some((text, None));
    };
    let (local, offset) = text.split_at(time + sign);
    let offset = OFFSETS
        .iter()
        .find_map(|form| UtcOffset::parse(offset, form).ok())?;
    Some((local.trim_end(), Some(offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiries_are_read() {
        for (text, expected) in [
            ("2030-01-01 00:00:00+00:00", "2030-01-01T00:00:00.000Z"),
            ("2030-01-01 00:00:00.123456", "2030-01-01T00:00:00.123Z"),
            ("2030-01-01T00:00:00.123456", "2030-01-01T00:00:00.123Z"),
            ("2030-01-01T00:00:00Z", "2030-01-01T00:00:00.000Z"),
            ("2030-01-01T02:00:00+02:00", "2030-01-01T00:00:00.000Z"),
            ("2030-01-01T00:00:00 -0130", "2030-01-01T01:30:00.000Z"),
            ("1/2/2030 3:04:05 AM", "2030-01-02T03:04:05.000Z"),
            ("12/31/2030 12:00:00 AM", "2030-12-31T00:00:00.000Z"),
            ("6/15/2017 6:20:15 PM", "2017-06-15T18:20:15.000Z"),
            ("6/15/2017 6:20:15\u{202f}PM", "2017-06-15T18:20:15.000Z"),
            ("1/1/2030 12:00:00 AM +00:00", "2030-01-01T00:00:00.000Z"),
            ("1/1/2030 12:00:00 PM -07:00", "2030-01-01T19:00:00.000Z"),
        ] {
            let read = expiry(text).map(|at| at.to_string());
            assert_eq!(read.as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_not_read() {
        for text in [
            "",
            "tomorrow",
            "1893456000",
            "2030-01-01",
            "2030-13-01T00:00:00Z",
            "2030-01-01T25:00:00Z",
            "2030-01-01T00:00:00+aa",
            "2030-01-01T00:00:00Z trailing",
            "13/1/2030 1:00:00 AM",
            "1/1/2030 13:00:00 AM",
            "1/1/2030 1:00:00",
        ] {
            assert_eq!(expiry(text), None, "{text}");
        }
    }

    #[test]
    fn zones_are_respelled() {
        for (text, expected) in [
            ("2026-11-21T06:40:53+0000", Some("2026-11-21T06:40:53Z")),
            (
                "2026-11-21 06:40:53.1234567+01",
                Some("2026-11-21T06:40:53.1234567+01:00"),
            ),
            ("2026-11-21T06:40:53", None),
            ("11/21/2026 6:40:53 AM +00:00", None),
        ] {
            assert_eq!(respelled(text).as_deref(), expected, "{text}");
        }
    }
}
