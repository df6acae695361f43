//! A delivery and its attempts, told in order.

use std::time::Duration;

use serde_json::Value;

use crate::app::cli::moment::{date, span};
use crate::app::cli::output::{items, moment, text};
use crate::app::cli::table::Table;
use crate::base::Timestamp;

/// One delivery with its attempts, as it stands `now`.
pub(super) fn timeline(delivery: &Value, now: Timestamp) -> String {
    let mut told = format!("{}\n{}", headline(delivery), explanation(delivery));
    let attempts = items(delivery, "/deliveryAttempts");
    let next = moment(delivery, "/nextAttemptAt");
    if attempts.is_empty() && next.is_none() {
        return told;
    }
    let mut table = Table::headed([
        "ATTEMPT",
        "STARTED (UTC)",
        "AFTER",
        "TOOK",
        "OUTCOME",
        "STATUS",
        "ADDRESS",
        "ERROR",
    ])
    .indented(2);
    let mut before = None;
    for attempt in attempts {
        let started_at = moment(attempt, "/startedAt");
        table.row(attempt_cells(attempt, after(before, started_at)));
        before = started_at;
    }
    if let Some(at) = next {
        table.row(next_cells(at, now));
    }
    told.push_str(&table.to_string());
    told
}

/// Why it was given up, in a sentence; nothing where it was not.
fn explanation(delivery: &Value) -> String {
    match text(delivery, "/deadLetterErrorDescription") {
        none if none.is_empty() => none,
        description => format!("  {description}\n"),
    }
}

/// `billing (topic orders): DeadLettered at …, MaxDeliveryAttemptsExceeded; delivery 5`
fn headline(delivery: &Value) -> String {
    let mut line = format!(
        "{} (topic {}): {}",
        text(delivery, "/subscription"),
        text(delivery, "/topic"),
        text(delivery, "/state")
    );
    if let Some(at) = moment(delivery, "/endedAt") {
        line.push_str(&format!(" at {}", date(Some(at))));
    }
    let reason = text(delivery, "/deadLetterReason");
    if !reason.is_empty() {
        line.push_str(&format!(", {reason}"));
    }
    line.push_str(&format!("; delivery {}", text(delivery, "/deliveryId")));
    if let Some(at) = moment(delivery, "/removedAt") {
        line.push_str(&format!(", removed at {}", date(Some(at))));
    }
    for (pointer, words) in [
        ("/resubmissionOf", "again for"),
        ("/resubmittedAs", "resubmitted as"),
    ] {
        let other = text(delivery, pointer);
        if !other.is_empty() {
            line.push_str(&format!(", {words} delivery {other}"));
        }
    }
    line
}

fn attempt_cells(attempt: &Value, after: String) -> [String; 8] {
    [
        text(attempt, "/attempt"),
        date(moment(attempt, "/startedAt")),
        after,
        took(attempt),
        text(attempt, "/outcome"),
        text(attempt, "/httpStatusCode"),
        text(attempt, "/remoteAddress"),
        error(attempt),
    ]
}

/// What went wrong, and what the receiver answered after all.
fn error(attempt: &Value) -> String {
    let error = text(attempt, "/error");
    match attempt["lateAfterMs"].as_u64() {
        None => error,
        Some(ms) => {
            let (late, after) = (
                text(attempt, "/lateHttpStatusCode"),
                span(Duration::from_millis(ms)),
            );
            format!("{error}; answered {late} after {after}")
        }
    }
}

fn next_cells(at: Timestamp, now: Timestamp) -> [String; 8] {
    let wait = match at > now {
        true => format!("in {}", span(at.since(now))),
        false => "due".to_owned(),
    };
    let mut cells = ["next".to_owned(), date(Some(at)), wait].into_iter();
    std::array::from_fn(|_| cells.next().unwrap_or_default())
}

fn after(before: Option<Timestamp>, at: Option<Timestamp>) -> String {
    match (before, at) {
        (Some(before), Some(at)) => span(at.since(before)),
        _ => String::new(),
    }
}

fn took(attempt: &Value) -> String {
    let ms = attempt["durationMs"].as_u64();
    ms.map_or_else(String::new, |ms| span(Duration::from_millis(ms)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn attempt(number: u32, at: &str, status: u16) -> Value {
        json!({ "attempt": number, "startedAt": format!("2026-11-21T{at}Z"), "durationMs": 3, "outcome": "Busy", "httpStatusCode": status, "error": null, "remoteAddress": "127.0.0.1:9000" })
    }

    fn delivery(state: &str, attempts: &[Value]) -> Value {
        json!({ "deliveryId": 5, "topic": "orders", "subscription": "billing", "state": state, "attempts": attempts.len(), "nextAttemptAt": null, "endedAt": null, "deadLetterReason": null, "resubmittedAs": null, "resubmissionOf": null, "deliveryAttempts": attempts })
    }

    fn check(delivery: &Value, expected: &str) {
        let now = "2026-11-21T06:41:30Z".parse().expect("RFC 3339");
        assert_eq!(timeline(delivery, now), expected);
    }

    #[test]
    fn a_pending_delivery_shows_what_was_tried_and_what_comes() {
        let mut pending = delivery(
            "Pending",
            &[
                attempt(1, "06:40:53.138", 503),
                attempt(2, "06:41:23.500", 503),
            ],
        );
        pending["nextAttemptAt"] = json!("2026-11-21T06:42:24.000Z");
        check(
            &pending,
            "\
billing (topic orders): Pending; delivery 5
  ATTEMPT  STARTED (UTC)            AFTER    TOOK  OUTCOME  STATUS  ADDRESS         ERROR
  1        2026-11-21 06:40:53.138           3 ms  Busy     503     127.0.0.1:9000
  2        2026-11-21 06:41:23.500  30.3 s   3 ms  Busy     503     127.0.0.1:9000
  next     2026-11-21 06:42:24.000  in 54 s
",
        );
        pending["deliveryAttempts"] = json!([]);
        pending["nextAttemptAt"] = json!("2026-11-21T06:41:29.000Z");
        check(
            &pending,
            "\
billing (topic orders): Pending; delivery 5
  ATTEMPT  STARTED (UTC)            AFTER  TOOK  OUTCOME  STATUS  ADDRESS  ERROR
  next     2026-11-21 06:41:29.000  due
",
        );
    }

    #[test]
    fn a_late_answer_stands_behind_the_error() {
        let mut late = attempt(1, "06:40:53.138", 0);
        late["error"] = json!("no answer within the deadline");
        late["lateHttpStatusCode"] = json!(200);
        late["lateAfterMs"] = json!(45_000);
        assert_eq!(
            error(&late),
            "no answer within the deadline; answered 200 after 45 s"
        );
    }

    #[test]
    fn an_ended_delivery_says_when_and_why() {
        let mut dead = delivery("Resubmitted", &[]);
        dead["endedAt"] = json!("2026-11-21T06:41:00Z");
        dead["deadLetterReason"] = json!("TimeToLiveExceeded");
        dead["resubmittedAs"] = json!(7);
        dead["resubmissionOf"] = json!(3);
        check(
            &dead,
            "billing (topic orders): Resubmitted at 2026-11-21 06:41:00.000, TimeToLiveExceeded; delivery 5, again for delivery 3, resubmitted as delivery 7\n",
        );
    }
}
