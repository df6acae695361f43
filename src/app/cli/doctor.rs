//! `everpost doctor`: whether a running server is ready and every delivery is accounted for.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::app::cli::healthcheck::reasons;
use crate::app::cli::output::{items, text};
use crate::app::cli::request::{Run, Server};
use crate::app::cli::table::Cell::{Of, Word};
use crate::app::cli::table::List;

/// Health is a quick answer, and this is no probe.
const DEADLINE: Duration = Duration::from_secs(10);

#[derive(Args, Debug)]
pub(super) struct DoctorArgs {}

impl Run for DoctorArgs {
    async fn run(self, server: &Server) -> anyhow::Result<()> {
        let (status, answer) = server.probe("readyz", DEADLINE).await?;
        let counts = server.get(["everpost", "counts"]);
        let counts = counts.query(json!({ "verify": true })).send().await?;
        server.show(&counts, COUNTS)?;
        if !status.is_success() {
            bail!("/readyz answers {status}{}", reasons(&answer));
        }
        let unsound = items(&counts, "/value").iter().filter(|row| !is_sound(row));
        match unsound.count() {
            0 => Ok(()),
            1 => bail!("the delivery counts of one event subscription are inconsistent"),
            more => bail!("the delivery counts of {more} event subscriptions are inconsistent"),
        }
    }
}

fn is_sound(row: &Value) -> bool {
    row["balance"] == true && row["recount"]["agrees"] == true
}

const COUNTS: List = List {
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
