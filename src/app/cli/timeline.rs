//! A delivery and its attempts in order.

use std::time::Duration;

use serde_json::Value;

use crate::app::cli::output::{Screen, items, moment, text};
use crate::app::cli::table::TextTable;
use crate::base::Timestamp;
use crate::base::human::{date_time, date_time_ms, relative, span};

const HEAD: [&str; 8] = [
    "ATTEMPT",
    "STARTED (UTC)",
    "AFTER",
    "TOOK",
    "OUTCOME",
    "STATUS",
    "ADDRESS",
    "ERROR",
];

/// One delivery with its attempts, as it stands `now`.
pub(super) fn timeline(delivery: &Value, now: Timestamp, screen: Screen) -> String {
    let mut lines = format!("{}\n", headline(delivery));
    let description = text(delivery, "/deadLetterErrorDescription");
    if !description.is_empty() {
        lines.push_str(&format!("  {description}\n"));
    }
    let attempts = items(delivery, "/deliveryAttempts");
    if !attempts.is_empty() {
        let mut table = TextTable::new(HEAD, 2);
        let mut before = None;
        for attempt in attempts {
            let started_at = moment(attempt, "/startedAt");
            table.row(attempt_cells(attempt, started_at, before));
            before = started_at;
        }
        lines.push_str(&table.text(screen));
    }
    let ahead = |at| format!("{}, at {} UTC", relative(at, now), date_time(at));
    let expires_at = moment(delivery, "/expiresAt").filter(|at| *at > now);
    if let Some(at) = expires_at {
        lines.push_str(&format!("  expires: {}\n", ahead(at)));
    } else if let Some(at) = moment(delivery, "/nextAttemptAt") {
        let next = held(delivery, now).unwrap_or_else(|| {
            if at > now {
                ahead(at)
            } else {
                format!("overdue since {} UTC", date_time(at))
            }
        });
        lines.push_str(&format!("  next attempt: {next}\n"));
    }
    lines
}

/// Says what holds back a delivery that would be due otherwise: `paused`, `held until … (in 9 min)`.
pub(super) fn held(delivery: &Value, now: Timestamp) -> Option<String> {
    let state = delivery.pointer("/held/state")?.as_str()?;
    Some(match (moment(delivery, "/held/until"), state) {
        (Some(at), _) => format!("held until {} UTC ({})", date_time(at), relative(at, now)),
        (None, "Paused") => "paused".to_owned(),
        (None, "Disabled") => "disabled".to_owned(),
        (None, "Pulled") => "when a receiver pulls it".to_owned(),
        (None, "OnProbation") => "held until the probe of its endpoint ends".to_owned(),
        (None, _) => "held until its endpoint is validated".to_owned(),
    })
}

/// `billing (topic orders): DeadLettered at …, MaxDeliveryAttemptsExceeded; delivery 5`
fn headline(delivery: &Value) -> String {
    let of = |pointer| text(delivery, pointer);
    let at = |pointer| moment(delivery, pointer).map(date_time_ms);
    let mut line = format!(
        "{} (topic {}): {}",
        of("/subscription"),
        of("/topic"),
        of("/state")
    );
    if let Some(at) = at("/endedAt") {
        line.push_str(&format!(" at {at}"));
    }
    if let Some(reason) = Some(of("/deadLetterReason")).filter(|reason| !reason.is_empty()) {
        line.push_str(&format!(", {reason}"));
    }
    line.push_str(&format!("; delivery {}", of("/deliveryId")));
    if let Some(at) = at("/removedAt") {
        line.push_str(&format!(", removed at {at}"));
    }
    for (pointer, words) in [
        ("/resubmissionOf", "resubmission of"),
        ("/resubmittedAs", "resubmitted as"),
    ] {
        let other = of(pointer);
        if !other.is_empty() {
            line.push_str(&format!(", {words} delivery {other}"));
        }
    }
    line
}

fn attempt_cells(
    attempt: &Value,
    started_at: Option<Timestamp>,
    before: Option<Timestamp>,
) -> [String; 8] {
    let after = started_at
        .zip(before)
        .map(|(at, before)| span(at.since(before)));
    [
        text(attempt, "/attempt"),
        started_at.map_or_else(String::new, date_time_ms),
        after.unwrap_or_default(),
        milliseconds(attempt, "/durationMs"),
        text(attempt, "/outcome"),
        text(attempt, "/httpStatusCode"),
        text(attempt, "/remoteAddress"),
        error(attempt),
    ]
}

/// Returns the error of an attempt, with the late answer of the receiver if there was one.
fn error(attempt: &Value) -> String {
    let error = text(attempt, "/error");
    match milliseconds(attempt, "/lateAfterMs").as_str() {
        "" => error,
        after => format!(
            "{error}; answered {} after {after}",
            text(attempt, "/lateHttpStatusCode")
        ),
    }
}

fn milliseconds(attempt: &Value, pointer: &str) -> String {
    let ms = attempt.pointer(pointer).and_then(Value::as_u64);
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
        assert_eq!(timeline(delivery, now, Screen::default()), expected);
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
  ATTEMPT  STARTED (UTC)            AFTER  TOOK  OUTCOME  STATUS  ADDRESS         ERROR
  1        2026-11-21 06:40:53.138         3 ms  Busy     503     127.0.0.1:9000
  2        2026-11-21 06:41:23.500  30 s   3 ms  Busy     503     127.0.0.1:9000
  next attempt: in 54 s, at 2026-11-21 06:42:24 UTC
",
        );
        pending["deliveryAttempts"] = json!([]);
        pending["expiresAt"] = json!("2026-11-21T06:42:00.000Z");
        check(
            &pending,
            "billing (topic orders): Pending; delivery 5\n  expires: in 30 s, at 2026-11-21 06:42:00 UTC\n",
        );
        pending["expiresAt"] = json!(null);
        let mut next = |at: Value, held: Value, expected: &str| {
            pending["nextAttemptAt"] = at;
            pending["held"] = held;
            let headline = "billing (topic orders): Pending; delivery 5";
            check(
                &pending,
                &format!("{headline}\n  next attempt: {expected}\n"),
            );
        };
        let (past, until) = (
            json!("2026-11-21T06:41:29.000Z"),
            "2026-11-21T06:50:30.000Z",
        );
        next(
            past.clone(),
            json!(null),
            "overdue since 2026-11-21 06:41:29 UTC",
        );
        let paused = json!({ "state": "Paused", "until": null });
        next(past.clone(), paused, "paused");
        let probation = json!({ "state": "OnProbation", "until": until });
        next(
            past,
            probation,
            "held until 2026-11-21 06:50:30 UTC (in 9 min)",
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
            "billing (topic orders): Resubmitted at 2026-11-21 06:41:00.000, TimeToLiveExceeded; delivery 5, resubmission of delivery 3, resubmitted as delivery 7\n",
        );
    }
}
