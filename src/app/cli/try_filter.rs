//! `everpost topics try-filter`: what a filter would have matched.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::app::cli::body;
use crate::app::cli::filter::FilterArgs;
use crate::app::cli::output::{Screen, items, moment, number, text};
use crate::app::cli::request::RemoteServer;
use crate::app::cli::table::Cell::{Text, Time, Word};
use crate::app::cli::table::{Field, rows_of};
use crate::app::cli::topic_arg::NamespaceArgs;
use crate::base::human::date_time;

#[derive(Args, Debug)]
pub(super) struct TryFilter {
    topic: String,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// File with the filter in Azure's form; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "filter_flags")]
    file: Option<PathBuf>,
    /// Newest events to try it on, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    last: u32,
    /// Event subscription whose filter it is compared with
    #[arg(long, value_name = "SUBSCRIPTION")]
    compare: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
}

impl TryFilter {
    pub(super) async fn run(&self, server: &RemoteServer) -> anyhow::Result<()> {
        let topic = self.namespace.topic(&self.topic);
        let given = match (&self.file, topic.is_in_namespace()) {
            (Some(file), _) => Some(body::read(file)?),
            (None, true) => self.filter.changed_in_namespace(&Value::Null)?,
            (None, false) => self.filter.changed(&Value::Null),
        };
        let filter = given.unwrap_or_else(|| json!({}));
        let body =
            json!({ "filter": filter, "last": self.last, "eventSubscription": self.compare });
        let request = server.post(topic.path()).at("tryFilter");
        request.json(&body).show(findings).await
    }
}

fn findings(found: &Value, screen: Screen) -> String {
    let tried = number(found, "/tried");
    if tried == 0 {
        return "the topic has no stored events\n".to_owned();
    }
    let matched = number(found, "/matched/count");
    let oldest = moment(found, "/oldest/receivedAt").map_or_else(String::new, date_time);
    let mut shown =
        format!("it matches {matched} of the newest {tried} events, back to {oldest} UTC\n");
    if found["complete"] == false {
        shown.push_str("there was no time for more of them\n");
    }
    shown.push_str(&samples("matched", &found["matched"], screen));
    shown.push_str(&samples("not matched", &found["unmatched"], screen));
    if let Some(compared) = found.get("comparedWith").filter(|each| each.is_object()) {
        let (name, current) = (
            text(compared, "/eventSubscription"),
            text(compared, "/matched"),
        );
        shown.push_str(&format!(
            "\nthe filter of {name} matches {current} of them\n"
        ));
        shown.push_str(&samples("newly matched", &compared["newlyMatched"], screen));
        let lost = samples("no longer matched", &compared["noLongerMatched"], screen);
        shown.push_str(&lost);
    }
    shown
}

const SAMPLES: &[Field] = &[
    ("NUMBER", Word("/key")),
    ("RECEIVED (UTC)", Time("/receivedAt")),
    ("TYPE", Text("/eventType")),
    ("SUBJECT", Text("/subject")),
    ("ID", Text("/id")),
    ("FAILS", Text("/failed/wanted")),
    ("FOUND", Text("/failed/saw")),
];

fn samples(what: &str, counted: &Value, screen: Screen) -> String {
    let head = format!("\n{what}: {}\n", text(counted, "/count"));
    match items(counted, "/samples") {
        [] => head,
        samples => head + &rows_of(samples, SAMPLES, 2).text(screen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_shown_with_samples() {
        let sample = json!({ "key": 9, "receivedAt": "2026-11-21T06:40:53.138Z", "id": "a", "eventType": "T", "subject": "/s",
            "failed": { "wanted": "NumberIn data.n [1]", "saw": "2" } });
        let found = json!({ "tried": 3, "complete": false, "oldest": { "key": 7, "receivedAt": "2026-11-21T06:40:00Z" },
            "matched": { "count": 2, "samples": [] }, "unmatched": { "count": 1, "samples": [sample] },
            "comparedWith": { "eventSubscription": "billing", "matched": 3, "newlyMatched": { "count": 0, "samples": [] }, "noLongerMatched": { "count": 1, "samples": [] } } });
        let expected = "\
it matches 2 of the newest 3 events, back to 2026-11-21 06:40:00 UTC
there was no time for more of them

matched: 2

not matched: 1
  NUMBER  RECEIVED (UTC)       TYPE  SUBJECT  ID  FAILS                FOUND
  9       2026-11-21 06:40:53  T     /s       a   NumberIn data.n [1]  2

the filter of billing matches 3 of them

newly matched: 0

no longer matched: 1
";
        assert_eq!(findings(&found, Screen::default()), expected);
        let none = "the topic has no stored events\n";
        assert_eq!(findings(&json!({ "tried": 0 }), Screen::default()), none);
    }
}
