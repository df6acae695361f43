//! Figures as people read them.

use std::time::Duration;

use crate::base::{Timestamp, is_hidden};

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

/// `512 B`, `1.5 KiB`, `1.0 MiB`, `2.0 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let kib = bytes as f64 / 1_024.0;
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{kib:.1} KiB"),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", kib / 1_024.0),
        _ => format!("{:.1} GiB", kib / 1_048_576.0),
    }
}

/// `25 ms`, `1.5 s`, `10 s`, `1 min 40 s`, `22 h 46 min`, `2 d`.
pub(crate) fn span(span: Duration) -> String {
    let ms = span.as_millis();
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{ms} ms"),
        1..10 if !ms.is_multiple_of(1_000) => format!("{:.1} s", span.as_secs_f64()),
        1..60 => format!("{seconds} s"),
        60..3_600 => two(seconds, (60, "min"), (1, "s")),
        3_600..86_400 => two(seconds, (3_600, "h"), (60, "min")),
        _ => two(seconds, (86_400, "d"), (3_600, "h")),
    }
}

/// Days of 24 hours, in which retention is told.
pub(crate) fn days(retention: Duration) -> u64 {
    retention.as_secs() / 86_400
}

/// As `span`, with a tenth of a millisecond below ten: `0.4 ms`, `9.9 ms`, `25 ms`.
pub(crate) fn lap(lap: Duration) -> String {
    match lap.as_millis() {
        0..10 => format!("{:.1} ms", lap.as_secs_f64() * 1_000.0),
        _ => span(lap),
    }
}

fn two(seconds: u64, (big, big_name): (u64, &str), (small, small_name): (u64, &str)) -> String {
    let (first, second) = (seconds / big, seconds % big / small);
    match second {
        0 => format!("{first} {big_name}"),
        _ => format!("{first} {big_name} {second} {small_name}"),
    }
}

/// `3 min ago`, `in 10 s`, `now`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    let (ago, ahead) = (now.since(at), at.since(now));
    if ago < Duration::from_secs(1) && ahead < Duration::from_secs(1) {
        return "now".to_owned();
    }
    let whole = |span: Duration| self::span(Duration::from_secs(span.as_secs()));
    match ahead.is_zero() {
        true => format!("{} ago", whole(ago)),
        false => format!("in {}", whole(ahead)),
    }
}

/// The same for what is only known to the minute or hour: `just now`, `3 min ago`, `5 h ago`, `2 d ago`.
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
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) && !matches!(c, '\n' | '\r' | '\t') {
            true => visible.extend(c.escape_unicode()),
            false => visible.push(c),
        }
    }
    visible
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
        for (number, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_536, "1.5 KiB"),
            (1_048_576, "1.0 MiB"),
            (2_147_483_648, "2.0 GiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
        for (ms, text) in [
            (0, "0 ms"),
            (25, "25 ms"),
            (1_500, "1.5 s"),
            (10_000, "10 s"),
            (59_999, "59 s"),
            (60_000, "1 min"),
            (100_000, "1 min 40 s"),
            (81_999_000, "22 h 46 min"),
            (172_800_000, "2 d"),
            (180_000_000, "2 d 2 h"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), text);
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

    #[test]
    fn nothing_stays_hidden_in_the_text_of_strangers() {
        for (text, shown) in [
            (
                "größe, 注文, عدد, 👩\u{200d}🚀\r\n\t",
                "größe, 注文, عدد, 👩\u{200d}🚀\r\n\t",
            ),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("a\0b\u{1b}[2J", "a\\u{0}b\\u{1b}[2J"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn moments_are_told_from_now() {
        let now = Timestamp::from_ms(1_000_000);
        for (offset_ms, text) in [
            (0, "now"),
            (-999, "now"),
            (-1_500, "1 s ago"),
            (10_400, "in 10 s"),
            (-90_000, "1 min 30 s ago"),
        ] {
            let at = Timestamp::from_ms(now.as_ms() + offset_ms);
            assert_eq!(relative(at, now), text);
        }
    }
}
