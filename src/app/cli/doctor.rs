//! `everpost doctor`: whether a running server is ready, its database sound and every delivery accounted for.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::app::cli::healthcheck::reasons;
use crate::app::cli::output::{items, moment, note, number, text};
use crate::app::cli::progress::ShownProgress;
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::cli::table::Cell::{Of, Word};
use crate::app::cli::table::ListFormat;
use crate::base::Timestamp;
use crate::base::human::span;

/// Health is a quick answer, and this is no probe.
const DEADLINE: Duration = Duration::from_secs(10);

/// Between two looks at how far the integrity check is.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(super) struct DoctorArgs {}

impl Run for DoctorArgs {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let (status, answer) = server.probe("readyz", DEADLINE).await?;
        let counts = server
            .get(["everpost", "counts"])
            .query(json!({ "verify": true }))
            .send()
            .await?;
        server.show(&counts, COUNTS)?;
        if !status.is_success() {
            bail!("/readyz answers {status}{}", reasons(&answer));
        }
        check_integrity(server).await?;
        let backups = server.get(["everpost", "backups"]).send().await?;
        if let Some(overdue) = overdue_backup(&backups, server.time().await?) {
            note(&overdue);
        }
        let unsound = items(&counts, "/value").iter().filter(|row| !is_sound(row));
        match unsound.count() {
            0 => Ok(()),
            1 => bail!("the delivery counts of one event subscription are inconsistent"),
            more => bail!("the delivery counts of {more} event subscriptions are inconsistent"),
        }
    }
}

/// Has every page of the database read, and waits for it.
async fn check_integrity(server: &RemoteServer) -> anyhow::Result<()> {
    let path = ["everpost", "integrityCheck"];
    server.post(path).send().await?;
    let mut progress = ShownProgress::new(None);
    let status = loop {
        let status = server.get(path).send().await?;
        if text(&status, "/state") != "running" {
            break status;
        }
        let tables = number(&status, "/tables"); // 0 before it knows
        if tables > 0 {
            let checked = format!(" of {tables} tables checked");
            progress.set(number(&status, "/tablesChecked"), &checked);
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    };
    drop(progress);
    let said = |path: &str| {
        items(&status, path)
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for found in said("/foundAtStart").into_iter().chain(said("/repaired")) {
        note(&found);
    }
    match verdict(&status) {
        None => Ok(()),
        Some(fault) => bail!(fault),
    }
}

/// Says what is wrong with the database, if anything is.
fn verdict(status: &Value) -> Option<String> {
    let faults = items(status, "/faults");
    if let Some(error) = status["error"].as_str() {
        return Some(format!("the database could not be checked: {error}"));
    }
    (!faults.is_empty()).then(|| {
        let faults: Vec<_> = faults.iter().filter_map(Value::as_str).collect();
        format!(
            "the database is damaged; stop the server, and restore a backup or copy what can be read with \
             `everpost salvage NEW_DIR`:\n  {}",
            faults.join("\n  ")
        )
    })
}

/// Returns a warning if the newest scheduled backup is older than two intervals of the schedule.
fn overdue_backup(status: &Value, now: Timestamp) -> Option<String> {
    let every = status.pointer("/schedule/everyHours")?.as_u64()?;
    let age = moment(status, "/value/0/madeAt").map(|made_at| now.since(made_at));
    let newest = match age {
        Some(age) if age.as_secs() <= 2 * every * 3_600 => return None,
        Some(age) => format!("the newest backup is {} old", span(age)),
        None => "there is no backup yet".to_owned(),
    };
    let reason = match text(status, "/last/error") {
        error if error.is_empty() => String::new(),
        error => format!("; the last one failed: {error}"),
    };
    Some(format!("{newest}, and one is due every {every} h{reason}"))
}

fn is_sound(row: &Value) -> bool {
    row["balance"] == true && row["recount"]["agrees"] == true
}

const COUNTS: ListFormat = ListFormat {
    none: "no event subscriptions",
    columns: &[
        (
            "SUBSCRIPTION",
            Of(|row| format!("{}/{}", text(row, "/topic"), text(row, "/subscription"))),
        ),
        ("MATCHED", Word("/matched")),
        ("=", Of(|_| String::new())),
        ("PENDING", Word("/pending")),
        ("DELIVERED", Word("/delivered")),
        ("DEAD-LETTERED", Word("/deadLettered")),
        ("DROPPED", Word("/dropped")),
        ("DEAD LETTERS", Word("/deadLetters")),
        ("COUNTS", Of(consistency)),
    ],
};

fn consistency(row: &Value) -> String {
    match (row["balance"] == true, row["recount"]["agrees"] == true) {
        (true, true) => "consistent".to_owned(),
        (false, _) => "INCONSISTENT".to_owned(),
        (true, false) => format!(
            "DIFFER from a recount: {} pending, {} dead letters",
            text(row, "/recount/pending"),
            text(row, "/recount/deadLetters")
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::app::cli::output::{Screen, View};

    #[test]
    fn damage_is_told_with_what_to_do() {
        assert_eq!(verdict(&json!({"state": "done", "faults": []})), None);
        let damaged = json!({"state": "done", "faults": ["event: wrong page"]});
        let told = verdict(&damaged).expect("a fault");
        assert!(told.contains("everpost salvage") && told.ends_with("\n  event: wrong page"));
        let failed = json!({"state": "done", "faults": [], "error": "disk"});
        assert!(verdict(&failed).is_some());
    }

    #[test]
    fn backups_that_are_overdue_are_mentioned() {
        let now = "2026-11-24T18:00:00Z".parse().expect("RFC 3339");
        let told = |schedule: Value, made_at: &str, error: Value| {
            let status = json!({"schedule": schedule, "last": {"error": error},
                "value": [{"madeAt": made_at}]});
            overdue_backup(&status, now)
        };
        let daily = json!({"everyHours": 24});
        assert_eq!(told(json!(null), "2020-01-01T00:00:00Z", json!(null)), None);
        assert_eq!(
            told(daily.clone(), "2026-11-23T00:00:00Z", json!(null)),
            None
        );
        let old = told(daily.clone(), "2026-11-21T18:00:00Z", json!("full"));
        let expected =
            "the newest backup is 3 d old, and one is due every 24 h; the last one failed: full";
        assert_eq!(old.as_deref(), Some(expected));
        let none = told(daily, "", json!(null)).expect("a mention");
        assert!(none.starts_with("there is no backup yet"), "{none}");
    }

    #[test]
    fn inconsistent_counts_are_named() {
        let row = |balance, agrees| {
            json!({"topic": "orders", "subscription": "billing", "matched": 7, "pending": 1,
                "delivered": 3, "deadLettered": 2, "dropped": 1, "deadLetters": 2, "balance": balance,
                "recount": {"pending": 1, "deadLetters": 4, "agrees": agrees}})
        };
        for (row, verdict, sound) in [
            (row(true, true), "consistent", true),
            (row(false, true), "INCONSISTENT", false),
            (
                row(true, false),
                "DIFFER from a recount: 1 pending, 4 dead letters",
                false,
            ),
        ] {
            assert_eq!(is_sound(&row), sound);
            let text = COUNTS.text(&json!({ "value": [row] }), Screen::default());
            let line = text.lines().nth(1).expect("a row");
            assert!(line.starts_with("orders/billing"), "{line}");
            assert!(line.ends_with(verdict), "{line}");
        }
    }
}
