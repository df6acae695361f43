//! Moments and spans of time for people.

use std::time::Duration;

use crate::base::Timestamp;

/// `2026-11-21 06:40:53.138`, in UTC as the head of the column says; `""` for no moment.
pub(super) fn date(at: Option<Timestamp>) -> String {
    at.map_or_else(String::new, |at| {
        at.to_string().replace('T', " ").replace('Z', "")
    })
}

/// `3 ms`, `30.5 s`, `2 min 5 s`, `3 h 4 min`, `2 d 1 h`.
pub(super) fn span(span: Duration) -> String {
    let (ms, s) = (span.as_millis(), span.as_secs());
    let (min, h, d) = (s / 60, s / 3_600, s / 86_400);
    let two = |big, big_unit, small, small_unit| match small {
        0 => format!("{big} {big_unit}"),
        small => format!("{big} {big_unit} {small} {small_unit}"),
    };
    match s {
        0 => format!("{ms} ms"),
        1..60 => match ms % 1_000 / 100 {
            0 => format!("{s} s"),
            tenths => format!("{s}.{tenths} s"),
        },
        60..3_600 => two(min, "min", s % 60, "s"),
        3_600..86_400 => two(h, "h", min % 60, "min"),
        _ => two(d, "d", h % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_two_units_at_most() {
        for (ms, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (30_560, "30.5 s"),
            (59_999, "59.9 s"),
            (60_000, "1 min"),
            (125_000, "2 min 5 s"),
            (3_600_000, "1 h"),
            (11_040_000, "3 h 4 min"),
            (86_400_000, "1 d"),
            (176_400_000, "2 d 1 h"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), expected);
        }
    }

    #[test]
    fn dates_are_told_in_utc() {
        let at = "2026-11-21T06:40:53.138Z".parse().expect("RFC 3339");
        assert_eq!(date(Some(at)), "2026-11-21 06:40:53.138");
        assert_eq!(date(None), "");
    }
}
