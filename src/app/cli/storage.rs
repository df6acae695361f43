//! `everpost storage`: how large the store is, and what retention makes of it.

use clap::Args;
use serde_json::Value;

use crate::app::cli::client::Client;
use crate::app::cli::moment::date;
use crate::app::cli::output::{Output, moment, text};
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::Table;

/// Show how large the store is, how long it keeps what, and what would go now; deletes nothing
#[derive(Args, Debug)]
pub(super) struct StorageArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    /// Show what would go if delivered events were kept for so many hours
    #[arg(long, value_name = "N")]
    hours: Option<u64>,
    /// Show what would go if dead letters were kept for so many hours
    #[arg(long, value_name = "N")]
    dead_letter_hours: Option<u64>,
}

impl StorageArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(self.server.find()?)?;
        let supposed = [
            ("hours", self.hours),
            ("deadLetterHours", self.dead_letter_hours),
        ];
        let query = supposed
            .into_iter()
            .filter_map(|(name, hours)| Some((name, hours?.to_string())));
        let query: Vec<_> = query.collect();
        let report = client.get(&["everpost", "storage"], &query).await?;
        Ok(self.output.show(&report, sheet)?)
    }
}

fn sheet(report: &Value) -> String {
    let size = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).map(bytes);
    let hours = |pointer: &str, never: &str| match text(report, pointer).as_str() {
        "" => never.to_owned(),
        hours => format!("{hours} h"),
    };
    let mut sheet = Table::sheet();
    let mut line = |name: &str, value: Option<String>| sheet.line(name, value.unwrap_or_default());
    line("database", size("/databaseBytes"));
    line("  in use", size("/usedBytes"));
    line("  free", size("/freeBytes"));
    line("log", size("/logBytes"));
    line("free on the disk", size("/diskFreeBytes"));
    line("oldest event", oldest(report));
    line("delivered kept for", Some(hours("/retention/hours", "")));
    let never = "ever";
    line(
        "dead letters kept for",
        Some(hours("/retention/deadLetterHours", never)),
    );
    let most = size("/retention/bytesMax").unwrap_or_else(|| "any size".to_owned());
    line("database up to", Some(most));
    line("pressure", Some(text(report, "/pressure")));
    line(
        "gone since the start",
        Some(counts(report, "/prunedSinceStart")),
    );
    let more = match text(report, "/wouldGoNow/isPartial").as_str() {
        "true" => "at least ",
        _ => "",
    };
    let would_go = counts(report, "/wouldGoNow");
    line("would go now", Some(format!("{more}{would_go}")));
    sheet.to_string()
}

fn oldest(report: &Value) -> Option<String> {
    let at = moment(report, "/oldestEvent/receivedAt")?;
    let key = text(report, "/oldestEvent/key");
    Some(format!("{key}, of {}", date(Some(at))))
}

fn counts(report: &Value, pointer: &str) -> String {
    let events = text(report, &format!("{pointer}/events"));
    let deliveries = text(report, &format!("{pointer}/deliveries"));
    format!("{events} events with {deliveries} deliveries")
}

/// `512 B`, `1.5 KiB`, `2.0 GiB`.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64;
    let mut unit = "B";
    for larger in UNITS {
        if size < 1_024.0 {
            break;
        }
        (size, unit) = (size / 1_024.0, larger);
    }
    match unit {
        "B" => format!("{bytes} B"),
        _ => format!("{size:.1} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_are_told_in_units_of_their_own() {
        for (size, expected) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_536, "1.5 KiB"),
            (2 * 1_024 * 1_024 * 1_024, "2.0 GiB"),
        ] {
            assert_eq!(bytes(size), expected);
        }
    }

    #[test]
    fn the_sheet_says_what_goes() {
        let report = json!({"databaseBytes": 2_048, "usedBytes": 1_024, "freeBytes": 1_024,
            "logBytes": 0, "diskFreeBytes": null, "oldestEvent": null, "pressure": null,
            "retention": {"hours": 168, "deadLetterHours": null, "bytesMax": null},
            "prunedSinceStart": {"events": 0, "deliveries": 0, "deliveryAttempts": 0},
            "wouldGoNow": {"events": 3, "deliveries": 4, "dataBytes": 9, "isPartial": true}});
        let text = sheet(&report);
        for words in [
            "2.0 KiB",
            "168 h",
            "ever",
            "any size",
            "at least 3 events with 4 deliveries",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
