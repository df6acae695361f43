//! Human-readable durations, times and sizes, in one format for the admin pages and the command line.

use std::time::Duration;

use bytesize::ByteSize;

use crate::base::Timestamp;

/// `25 ms`, `1.5 s`, `10 s`, `1 min 40 s`, `22 h 46 min`, `2 d`.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{} ms", span.as_millis()),
        1..10 if span.subsec_millis() > 0 => format!("{:.1} s", span.as_secs_f64()),
        1..60 => format!("{seconds} s"),
        60..3_600 => two(seconds, (60, "min"), (1, "s")),
        3_600..86_400 => two(seconds, (3_600, "h"), (60, "min")),
        _ => two(seconds, (86_400, "d"), (3_600, "h")),
    }
}

fn two(seconds: u64, (big, big_name): (u64, &str), (small, small_name): (u64, &str)) -> String {
    let (first, second) = (seconds / big, seconds % big / small);
    match second {
        0 => format!("{first} {big_name}"),
        _ => format!("{first} {big_name} {second} {small_name}"),
    }
}

/// Units of time that people write, and the milliseconds in them.
const UNITS: [(&[&str], u64); 5] = [
    (&["ms", "millisecond", "milliseconds"], 1),
    (&["s", "sec", "second", "seconds"], 1_000),
    (&["m", "min", "minute", "minutes"], 60_000),
    (&["h", "hour", "hours"], 3_600_000),
    (&["d", "day", "days"], 86_400_000),
];

/// Parses an argument like [`parse_span`]. The error says what would be right.
pub fn span_argument(text: &str) -> Result<Duration, &'static str> {
    parse_span(text).ok_or("write a time, such as 500ms, 10s or 1h 30min")
}

/// Reads whole numbers with units: `500 ms`, `90 s`, `1 h 30 min`, `14 days`.
pub fn parse_span(text: &str) -> Option<Duration> {
    let (mut milliseconds, mut rest) = (0_u64, text.trim());
    loop {
        let (number, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let unit_text = behind.trim_start();
        let end = unit_text.find(|c: char| !c.is_alphabetic());
        let (unit, behind) = unit_text.split_at(end.unwrap_or(unit_text.len()));
        let folded = unit.to_lowercase();
        let (_, worth) = UNITS.iter().find(|(names, _)| names.contains(&&*folded))?;
        milliseconds =
            milliseconds.checked_add(number.parse::<u64>().ok()?.checked_mul(*worth)?)?;
        rest = behind.trim_start();
        if rest.is_empty() {
            return Some(Duration::from_millis(milliseconds));
        }
    }
}

/// `3 min ago`, `in 10 s`, `now`.
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    let (ago, ahead) = (now.since(at), at.since(now));
    if ago < Duration::from_secs(1) && ahead < Duration::from_secs(1) {
        return "now".to_owned();
    }
    let whole = |span: Duration| self::span(Duration::from_secs(span.as_secs()));
    if ahead.is_zero() {
        format!("{} ago", whole(ago))
    } else {
        format!("in {}", whole(ahead))
    }
}

/// To the second, in UTC: `2026-11-21 06:40:53`.
pub fn date_time(at: Timestamp) -> String {
    let mut text = date_time_ms(at);
    text.truncate(text.len() - ".000".len());
    text
}

/// To the millisecond, in UTC: `2026-11-21 06:40:53.138`.
pub fn date_time_ms(at: Timestamp) -> String {
    at.to_string().trim_end_matches('Z').replace('T', " ")
}

/// A count with commas: `999`, `10,000`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// `512 B`, `1.5 KiB`, `1 MiB`, `2 GiB`.
pub fn bytes(bytes: u64) -> String {
    ByteSize(bytes)
        .display()
        .iec()
        .to_string()
        .replace(".0 ", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
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
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("90 s", 90),
            (" 1 h 30 min ", 5_400),
            ("14 days", 1_209_600),
            ("1d2h", 93_600),
            ("10 Minutes", 600),
        ] {
            assert_eq!(
                parse_span(text),
                Some(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        assert_eq!(parse_span("500ms"), Some(Duration::from_millis(500)));
        for text in [
            "",
            "5",
            "min",
            "5 parsecs",
            "1.5 h",
            "-5 s",
            "5 s!",
            "99999999999999999999 s",
            "999999999999999999 d",
        ] {
            assert_eq!(parse_span(text), None, "{text}");
        }
    }

    #[test]
    fn moments_are_in_utc_or_relative_to_now() {
        let at = "2026-11-21T06:40:53.138Z".parse().expect("RFC 3339");
        assert_eq!(date_time(at), "2026-11-21 06:40:53");
        assert_eq!(date_time_ms(at), "2026-11-21 06:40:53.138");
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

    #[test]
    fn sizes_have_binary_units() {
        for (number, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_536, "1.5 KiB"),
            (1_048_576, "1 MiB"),
            (2_147_483_648, "2 GiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }
}
