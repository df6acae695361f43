//! Formatting of figures and text for people.

use std::fmt::Display;
use std::time::Duration;

use crate::base::{self, Timestamp};
use crate::model::entity_status::EntityStatus;
use crate::wire::service_bus::message::EVENT_TYPE;

pub(crate) use crate::base::human::{bytes, count, span};

/// The maximum number of names listed in a sentence.
const LISTED_MAX: usize = 10;

/// Formats a number with its noun: `1 topic`, `2 topics`.
pub(crate) fn plural(number: impl TryInto<u64>, one: &str, many: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        number => format!("{} {many}", count(number)),
    }
}

/// Formats a count with names, `3 rules: a, b, c`; `None` if there are no names.
pub(crate) fn some_of<T: Display>(
    names: impl IntoIterator<Item = T>,
    (one, many): (&str, &str),
) -> Option<String> {
    let names = Vec::from_iter(names);
    let said = plural(names.len(), one, many);
    (!names.is_empty()).then(|| format!("{said}: {}", listed(&names)))
}

/// Formats a list of names: `a, b, c and 7 more`.
pub(crate) fn listed(names: &[impl Display]) -> String {
    let shown = names.iter().take(LISTED_MAX).map(ToString::to_string);
    let shown = Vec::from_iter(shown).join(", ");
    match names.len().saturating_sub(LISTED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Returns the label of an event in a list, which is its type. Messages all have the same type, so their label is the
/// subject or the id.
pub(crate) fn called<'a>(event_type: &'a str, subject: &'a Option<String>, id: &'a str) -> &'a str {
    match event_type {
        EVENT_TYPE => subject.as_deref().unwrap_or(id),
        other => other,
    }
}

/// Formats a duration like [`span`], with tenths of a millisecond below ten milliseconds: `0.4 ms`, `9.9 ms`, `25 ms`.
pub(crate) fn lap(lap: Duration) -> String {
    match lap.as_millis() {
        0..10 => format!("{:.1} ms", lap.as_secs_f64() * 1_000.0),
        _ => span(lap),
    }
}

/// Returns the common name of an event schema.
pub(crate) fn schema(name: &str) -> &str {
    match name {
        "EventGridSchema" => "Event Grid",
        "CloudEventSchemaV1_0" => "CloudEvents 1.0",
        "CustomEventSchema" | "CustomInputSchema" => "Custom",
        name => name,
    }
}

/// Returns the label for the status of a queue, a Service Bus topic or a subscription.
pub(crate) fn status(status: EntityStatus) -> &'static str {
    match status {
        EntityStatus::Active => "Active",
        EntityStatus::SendDisabled => "Sending disabled",
        EntityStatus::ReceiveDisabled => "Receiving disabled",
        EntityStatus::Disabled => "Disabled",
    }
}

/// Reports whether the text is longer than the line beside its label.
pub(crate) fn is_long(text: &str) -> bool {
    text.len() > 24
}

/// Returns the number of 24-hour days, the unit of retention.
pub(crate) fn days(retention: Duration) -> u64 {
    retention.as_secs() / 86_400
}

/// Formats a time relative to now: `3 min ago`, `in 10 s`, `just now`; in days after one day.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    let (ago, ahead) = (now.since(at), at.since(now));
    match (ago.as_secs(), ahead.as_secs()) {
        (0..5, 0) if ahead.is_zero() => "just now".to_owned(),
        (0, 0) => "now".to_owned(),
        (0, _) => format!("in {}", roughly(ahead)),
        _ => format!("{} ago", roughly(ago)),
    }
}

/// Formats a duration coarsely: `8 s`, `3 min`, `1 h 42 min`, `23 d`. Whole hours and days are rounded to the nearest,
/// minutes down.
pub(crate) fn roughly(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..36_000 => self::span(Duration::from_secs(seconds / 60 * 60)),
        36_000..86_400 => format!("{} h", (seconds + 1_800) / 3_600),
        _ => format!("{} d", (seconds + 43_200) / 86_400),
    }
}

/// Formats a percentage, `98.5 %`, or a dash if the whole is zero.
pub(crate) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".to_owned(),
        _ if part == 0 => "0 %".to_owned(),
        _ if part >= whole => "100 %".to_owned(),
        // A share below 100 % must not be displayed as 100 %.
        _ => format!("{:.1} %", (part as f64 * 100.0 / whole as f64).min(99.9)),
    }
}

/// Returns untrusted text with control and invisible characters escaped, such as `\u{202e}`. Line breaks and tabs stay.
pub(crate) fn visible(text: &str) -> String {
    base::visible(text, &['\n', '\r', '\t'])
}

/// Returns the text as HTML that keeps control and invisible characters, which pages normally escape. Browsers decode
/// their numeric references, except where HTML has none (U+0000, U+007F to U+009F).
pub(crate) fn exact(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '<' | '>' | '"' | '\'' => html.push_str(&format!("&#{};", u32::from(c))),
            '\n' | '\r' | '\t' => html.push(c),
            c if base::steers(c) => html.push_str(&format!("&#{};", u32::from(c))),
            c => html.push(c),
        }
    }
    html
}

/// Returns an error text with a capital letter and a full stop.
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
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (10_000, "10,000")] {
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
    fn shares_never_round_up_to_all() {
        for (part, whole, expected) in [
            (0, 0, "–"),
            (0, 7, "0 %"),
            (9_999, 10_000, "99.9 %"),
            (1, 2, "50.0 %"),
            (3, 3, "100 %"),
        ] {
            assert_eq!(share(part, whole), expected);
        }
    }

    #[test]
    fn moments_are_told_from_now() {
        let now = Timestamp::from_ms(10_000_000_000);
        for (offset_ms, text) in [
            (0, "just now"),
            (-4_999, "just now"),
            (-8_500, "8 s ago"),
            (400, "now"),
            (10_400, "in 10 s"),
            (-90_000, "1 min ago"),
            (9 * 60_000, "in 9 min"),
            (-6_120_000, "1 h 42 min ago"),
            (-23 * 86_400_000, "23 d ago"),
            (30 * 86_400_000 - 60_000, "in 30 d"),
        ] {
            let at = Timestamp::from_ms(now.as_ms() + offset_ms);
            assert_eq!(relative(at, now), text);
        }
    }
}
