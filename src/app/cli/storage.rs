//! `everpost storage`: how large the database is, and what retention deletes of it.

use serde_json::Value;

use crate::app::cli::output::{moment, text};
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::cli::table::Cell::{Of, Text};
use crate::app::cli::table::Details;
use crate::base::human::{bytes, date_time};
use crate::wire::query::StorageParameters;

impl Run for StorageParameters {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let request = server.get(["everpost", "storage"]);
        request.query(self).show(STORAGE).await
    }
}

const STORAGE: Details = Details(&[
    ("database", Of(|report| size(report, "/databaseBytes"))),
    ("  used", Of(|report| size(report, "/usedBytes"))),
    ("  free", Of(|report| size(report, "/freeBytes"))),
    ("log", Of(|report| size(report, "/logBytes"))),
    (
        "free on the disk",
        Of(|report| size(report, "/diskFreeBytes")),
    ),
    ("oldest event", Of(oldest)),
    (
        "delivered kept for",
        Of(|report| hours(report, "/retention/hours")),
    ),
    (
        "dead letters kept for",
        Of(|report| hours(report, "/retention/deadLetterHours")),
    ),
    ("database limit", Of(limit)),
    ("pressure", Text("/pressure")),
    (
        "deleted since the start",
        Of(|report| counts(report, "/prunedSinceStart")),
    ),
    ("would be deleted now", Of(would_go)),
]);

fn size(report: &Value, pointer: &str) -> String {
    let size = report.pointer(pointer).and_then(Value::as_u64);
    size.map_or_else(String::new, bytes)
}

fn hours(report: &Value, pointer: &str) -> String {
    match text(report, pointer).as_str() {
        "" => "no limit".to_owned(),
        hours => format!("{hours} h"),
    }
}

fn limit(report: &Value) -> String {
    match size(report, "/retention/bytesMax").as_str() {
        "" => "none".to_owned(),
        limit => limit.to_owned(),
    }
}

fn oldest(report: &Value) -> String {
    let at = moment(report, "/oldestEvent/receivedAt").map(date_time);
    let key = text(report, "/oldestEvent/key");
    at.map_or_else(String::new, |at| format!("{key}, received {at}"))
}

fn would_go(report: &Value) -> String {
    let at_least = if report["wouldGoNow"]["isPartial"] == true {
        "at least "
    } else {
        ""
    };
    format!("{at_least}{}", counts(report, "/wouldGoNow"))
}

fn counts(report: &Value, pointer: &str) -> String {
    let of = |name: &str| text(report, &format!("{pointer}/{name}"));
    format!(
        "{} events with {} deliveries",
        of("events"),
        of("deliveries")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::app::cli::output::{Screen, View};

    #[test]
    fn the_report_says_what_would_be_deleted() {
        let report = json!({"databaseBytes": 2_048, "usedBytes": 1_024, "freeBytes": 1_024,
            "logBytes": 0, "diskFreeBytes": null, "oldestEvent": null, "pressure": null,
            "retention": {"hours": 168, "deadLetterHours": null, "bytesMax": null},
            "prunedSinceStart": {"events": 0, "deliveries": 0, "deliveryAttempts": 0},
            "wouldGoNow": {"events": 3, "deliveries": 4, "dataBytes": 9, "isPartial": true}});
        let text = STORAGE.text(&report, Screen::default());
        for words in [
            "2 KiB",
            "168 h",
            "dead letters kept for    no limit",
            "database limit           none",
            "at least 3 events with 4 deliveries",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
