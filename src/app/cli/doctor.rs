//! `everpost doctor`: whether a running server is ready and can account for every delivery.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde_json::Value;

use crate::app::cli::client::Client;
use crate::app::cli::healthcheck::reasons;
use crate::app::cli::output::{Output, items, text};
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::Table;

/// Health is a quick answer, and this no probe.
const DEADLINE: Duration = Duration::from_secs(10);

/// Check that the server is ready and that every delivery is accounted for
///
/// For every event subscription: matched = pending + delivered + dead-lettered + dropped, and the counters
/// of pending deliveries and dead letters agree with a count of them. The exit code is 0 or 1.
#[derive(Args, Debug)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
}

impl DoctorArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(self.server.find()?)?;
        let (status, answer) = client.probe("readyz", DEADLINE).await?;
        let verify = [("verify", "true".to_owned())];
        let counts = client.get(&["everpost", "counts"], &verify).await?;
        self.output.show(&counts, sheet)?;
        if !status.is_success() {
            bail!("/readyz answers {status}{}", reasons(&answer));
        }
        let unsound = items(&counts, "/value").iter().filter(|row| !is_sound(row));
        match unsound.count() {
            0 => Ok(()),
            1 => bail!("the accounts of one event subscription do not balance"),
            more => bail!("the accounts of {more} event subscriptions do not balance"),
        }
    }
}

fn is_sound(row: &Value) -> bool {
    row["balance"] == true && row["recount"]["agrees"] == true
}

fn sheet(counts: &Value) -> String {
    let rows = items(counts, "/value");
    if rows.is_empty() {
        return "There are no event subscriptions.\n".to_owned();
    }
    let mut table = Table::headed([
        "SUBSCRIPTION",
        "MATCHED",
        "=",
        "PENDING",
        "DELIVERED",
        "DEAD-LETTERED",
        "DROPPED",
        "DEAD LETTERS",
        "ACCOUNTS",
    ]);
    for row in rows {
        let count = |name: &str| text(row, &format!("/{name}"));
        let verdict = match (row["balance"] == true, row["recount"]["agrees"] == true) {
            (true, true) => "balance".to_owned(),
            (false, _) => "DO NOT BALANCE".to_owned(),
            (true, false) => format!(
                "DIFFER from a count: {} pending, {} dead letters",
                text(row, "/recount/pending"),
                text(row, "/recount/deadLetters")
            ),
        };
        table.row([
            format!("{}/{}", count("topic"), count("subscription")),
            count("matched"),
            String::new(),
            count("pending"),
            count("delivered"),
            count("deadLettered"),
            count("dropped"),
            count("deadLetters"),
            verdict,
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sheet_says_whose_accounts_do_not_balance() {
        let row = |balance, agrees| {
            json!({"topic": "orders", "subscription": "billing", "matched": 7, "pending": 1,
                "delivered": 3, "deadLettered": 2, "dropped": 1, "deadLetters": 2, "balance": balance,
                "recount": {"pending": 1, "deadLetters": 4, "agrees": agrees}})
        };
        for (row, verdict, sound) in [
            (row(true, true), "balance", true),
            (row(false, true), "DO NOT BALANCE", false),
            (
                row(true, false),
                "DIFFER from a count: 1 pending, 4 dead letters",
                false,
            ),
        ] {
            assert_eq!(is_sound(&row), sound);
            let sheet = sheet(&json!({ "value": [row] }));
            let line = sheet.lines().nth(1).expect("a row");
            assert!(line.starts_with("orders/billing"), "{line}");
            assert!(line.ends_with(verdict), "{line}");
        }
        assert!(sheet(&json!({"value": []})).contains("no event subscriptions"));
    }
}
