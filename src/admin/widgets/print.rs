//! Figures as people read them.

use std::time::Duration;

use crate::base::{self, Timestamp};

pub(crate) use crate::base::human::{bytes, relative, span};

/// A count with thin spaces: `9 999`, `10 000`.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// `1 topic`, `2 topics`.
pub(crate) fn plural(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{} {many}", count(number)),
    }
}

/// As `span`, with a tenth of a millisecond below ten: `0.4 ms`, `9.9 ms`, `25 ms`.
pub(crate) fn lap(lap: Duration) -> String {
    match lap.as_millis() {
        0..10 => format!("{:.1} ms", lap.as_secs_f64() * 1_000.0),
        _ => span(lap),
    }
}

/// Days of 24 hours, the unit of retention.
pub(crate) fn days(retention: Duration) -> u64 {
    retention.as_secs() / 86_400
}

/// How long ago something was that is only known to the minute or hour: `just now`, `3 min ago`, `5 h ago`, `2 d ago`.
pub(crate) fn roughly_ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(at).as_secs();
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// `98.5 %`, or a dash where there is nothing to have a share of.
pub(crate) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".to_owned(),
        _ if part >= whole => "100 %".to_owned(),
        // What is not all must not look like it.
        _ => format!("{:.1} %", (part as f64 * 100.0 / whole as f64).min(99.9)),
    }
}

/// The text of a stranger with nothing hidden in it: what steers is written out, as `\u{202e}`. Line
/// breaks and tabs stay.
pub(crate) fn visible(text: &str) -> String {
    base::visible(text, &['\n', '\r', '\t'])
}

/// An error's text with a capital letter and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut characters = text.trim_end_matches('.').chars();
    let first = characters
        .next()
        .map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), characters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_printed_for_people() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1\u{2009}000"),
            (10_000, "10\u{2009}000"),
        ] {
            assert_eq!(count(number), text);
        }
        for (us, text) in [
            (0, "0.0 ms"),
            (440, "0.4 ms"),
            (9_900, "9.9 ms"),
            (25_700, "25 ms"),
            (1_500_000, "1.5 s"),
        ] {
            assert_eq!(lap(Duration::from_micros(us)), text);
        }
        assert_eq!(plural(1, "event", "events"), "1 event");
        assert_eq!(plural(2, "event", "events"), "2 events");
    }

    #[test]
    fn rough_moments_are_told_by_one_unit() {
        let now = Timestamp::from_ms(1_000_000_000);
        for (ago_s, text) in [
            (0, "just now"),
            (59, "just now"),
            (119, "1 min ago"),
            (7_300, "2 h ago"),
            (90_000, "1 d ago"),
        ] {
            let at = Timestamp::from_ms(now.as_ms() - ago_s * 1_000);
            assert_eq!(roughly_ago(at, now), text);
        }
    }

    #[test]
    fn shares_never_round_up_to_all() {
        for (part, whole, expected) in [
            (0, 0, "–"),
            (0, 7, "0.0 %"),
            (9_999, 10_000, "99.9 %"),
            (1, 2, "50.0 %"),
            (3, 3, "100 %"),
        ] {
            assert_eq!(share(part, whole), expected);
        }
    }
}
