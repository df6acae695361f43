//! `everpost topics try-filter`: what a filter would have matched.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::app::cli::body;
use crate::app::cli::filter::FilterArgs;
use crate::app::cli::moment::date;
use crate::app::cli::output::{items, moment, text};
use crate::app::cli::place::{NamespaceArgs, Place};
use crate::app::cli::table::Table;

#[derive(Args, Debug)]
pub(super) struct TryFilter {
    topic: String,
    #[command(flatten)]
    namespace: NamespaceArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// File with the filter in Azure's form; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "filter_flags")]
    file: Option<PathBuf>,
    /// Newest events to try it on, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    last: u32,
    /// Event subscription whose filter it is compared with
    #[arg(long, value_name = "SUBSCRIPTION")]
    compare: Option<String>,
}

impl TryFilter {
    pub(super) fn place(&self) -> Place<'_> {
        self.namespace.place(&self.topic)
    }

    pub(super) fn body(&self) -> anyhow::Result<Value> {
        let filter = match &self.file {
            Some(file) => body::read(file)?,
            None => {
                let given = match self.place().is_in_namespace() {
                    true => self.filter.changed_in_namespace(&Value::Null)?,
                    false => self.filter.changed(&Value::Null),
                };
                given.unwrap_or_else(|| json!({}))
            }
        };
        Ok(json!({ "filter": filter, "last": self.last, "eventSubscription": self.compare }))
    }
}

/// What a trial found, for people.
pub(super) fn findings(found: &Value) -> String {
    let count = |pointer: &str| found.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let tried = count("/tried");
    if tried == 0 {
        return "the topic has no stored events\n".to_owned();
    }
    let matched = count("/matched/count");
    let oldest = date(moment(found, "/oldest/receivedAt"));
    let mut shown =
        format!("it matches {matched} of the newest {tried} events, back to {oldest} UTC\n");
    if found["complete"] == false {
        shown.push_str("time did not suffice for more of them\n");
    }
    shown.push_str(&samples("matched", &found["matched"]));
    shown.push_str(&samples("not matched", &found["unmatched"]));
    if let Some(compared) = found.get("comparedWith").filter(|each| each.is_object()) {
        let (name, current) = (
            text(compared, "/eventSubscription"),
            text(compared, "/matched"),
        );
        shown.push_str(&format!(
            "\nthe filter of {name} matches {current} of them\n"
        ));
        shown.push_str(&samples("newly matched", &compared["newlyMatched"]));
        shown.push_str(&samples("no longer matched", &compared["noLongerMatched"]));
    }
    shown
}

fn samples(what: &str, tally: &Value) -> String {
    let samples = items(tally, "/samples");
    let head = format!("\n{what}: {}\n", text(tally, "/count"));
    if samples.is_empty() {
        return head;
    }
    let head_row = [
        "NUMBER",
        "RECEIVED (UTC)",
        "TYPE",
        "SUBJECT",
        "ID",
        "FAILS",
        "SAW",
    ];
    let mut table = Table::headed(head_row).indented(2);
    for each in samples {
        table.row([
            text(each, "/key"),
            date(moment(each, "/receivedAt")),
            text(each, "/eventType"),
            text(each, "/subject"),
            text(each, "/id"),
            text(each, "/failed/wanted"),
            text(each, "/failed/saw"),
        ]);
    }
    format!("{head}{table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_told_with_samples() {
        let sample = json!({ "key": 9, "receivedAt": "2026-11-21T06:40:53.138Z", "id": "a", "eventType": "T", "subject": "/s",
            "failed": { "wanted": "NumberIn data.n [1]", "saw": "2" } });
        let found = json!({ "tried": 3, "complete": false, "oldest": { "key": 7, "receivedAt": "2026-11-21T06:40:00Z" },
            "matched": { "count": 2, "samples": [] }, "unmatched": { "count": 1, "samples": [sample] },
            "comparedWith": { "eventSubscription": "billing", "matched": 3, "newlyMatched": { "count": 0, "samples": [] }, "noLongerMatched": { "count": 1, "samples": [] } } });
        let expected = "\
it matches 2 of the newest 3 events, back to 2026-11-21 06:40:00.000 UTC
time did not suffice for more of them

matched: 2

not matched: 1
  NUMBER  RECEIVED (UTC)           TYPE  SUBJECT  ID  FAILS                SAW
  9       2026-11-21 06:40:53.138  T     /s       a   NumberIn data.n [1]  2

the filter of billing matches 3 of them

newly matched: 0

no longer matched: 1
";
        assert_eq!(findings(&found), expected);
        let none = "the topic has no stored events\n";
        assert_eq!(findings(&json!({ "tried": 0 })), none);
    }
}
