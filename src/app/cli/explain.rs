//! `everpost explain`: why event subscriptions get an event, or do not.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::cli::body;
use crate::app::cli::client::Client;
use crate::app::cli::output::{Output, items, text};
use crate::app::cli::place::NamespaceArgs;
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::Table;

/// Explain which event subscriptions get an event, clause by clause
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("asked").args(["event", "id", "file"]).required(true))]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    /// Number of a stored event, as `events list` shows it
    event: Option<i64>,
    /// The newest stored event to which its publisher gave this id
    #[arg(long, requires = "topic")]
    id: Option<String>,
    /// File with an event in the topic's input schema; - for standard input. It is not published
    #[arg(long, value_name = "FILE", requires = "topic")]
    file: Option<PathBuf>,
    /// The topic of the event
    #[arg(long)]
    topic: Option<String>,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Only this event subscription [default: all of the topic]
    #[arg(long, value_name = "NAME", requires = "topic")]
    subscription: Option<String>,
}

impl ExplainArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let question = self.question()?;
        let client = Client::new(self.server.find()?)?;
        let answer = match (&self.topic, self.event) {
            (None, event) => {
                let event = event.unwrap_or_default().to_string();
                let path = ["everpost", "events", &event, "explanations"];
                client.get(&path, &[]).await?
            }
            (Some(topic), _) => {
                let below = match &self.subscription {
                    Some(subscription) => vec!["eventSubscriptions", subscription, "explain"],
                    None => vec!["explain"],
                };
                let path = self.namespace.place(topic).path(&below);
                client.send_text(Method::POST, &path, question).await?
            }
        };
        Ok(self.output.show(&answer, explanations)?)
    }

    /// The request's body; a pasted event goes as it was written.
    fn question(&self) -> anyhow::Result<String> {
        Ok(match (&self.file, &self.id) {
            (Some(file), _) => format!("{{\"event\":{}}}", body::read_event(file)?),
            (None, Some(id)) => json!({ "eventId": id }).to_string(),
            (None, None) => json!({ "eventId": self.event }).to_string(),
        })
    }
}

/// One explanation, or a list of them.
fn explanations(answer: &Value) -> String {
    let all = match answer.get("value") {
        Some(_) => items(answer, "/value"),
        None => std::slice::from_ref(answer),
    };
    if all.is_empty() {
        return "the topic has no event subscriptions\n".to_owned();
    }
    let all: Vec<String> = all.iter().map(explanation).collect();
    all.join("\n")
}

fn explanation(each: &Value) -> String {
    let (topic, subscription) = (text(each, "/topic"), text(each, "/eventSubscription"));
    let said = match each["matched"] == true {
        true => "matches".to_owned(),
        false => format!("does not match: {}", text(each, "/reason/message")),
    };
    let mut shown = format!("{subscription} (topic {topic}): {said}\n");
    shown.push_str(&clauses(each));
    let deliveries: Vec<String> = items(each, "/deliveries")
        .iter()
        .map(Value::to_string)
        .collect();
    if !deliveries.is_empty() {
        shown.push_str(&format!(
            "  it was matched when published: delivery {}\n",
            deliveries.join(", ")
        ));
    }
    if each["changedSinceEvent"] == true {
        shown.push_str(
            "  the event subscription was changed after the event; this is how it is now\n",
        );
    }
    shown
}

fn clauses(explanation: &Value) -> String {
    let clauses = items(explanation, "/clauses");
    if clauses.is_empty() {
        return String::new();
    }
    let mut table = Table::headed(["HOLDS", "CLAUSE", "WANTED", "SAW", "REMARK"]).indented(2);
    for clause in clauses {
        let holds = match clause["held"] == true {
            true => "yes",
            false => "no",
        };
        let saw = match clause["saw"].is_null() {
            true => "missing".to_owned(),
            false => text(clause, "/saw"),
        };
        table.row([
            holds.to_owned(),
            text(clause, "/clause"),
            text(clause, "/wanted"),
            saw,
            text(clause, "/remark"),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_are_shown_in_columns() {
        let failed = json!({ "topic": "orders", "eventSubscription": "billing", "matched": false,
            "reason": { "code": "FilterNotMatched", "message": "because." },
            "clauses": [
                { "clause": "subjectBeginsWith", "wanted": "subject begins with \"/o\"", "saw": "\"/orders\"", "held": true },
                { "clause": "advancedFilters[0]", "wanted": "NumberIn data.n [1]", "saw": null, "held": false, "remark": "so" },
            ], "deliveries": [5, 6], "changedSinceEvent": true });
        let expected = "\
billing (topic orders): does not match: because.
  HOLDS  CLAUSE              WANTED                    SAW        REMARK
  yes    subjectBeginsWith   subject begins with \"/o\"  \"/orders\"
  no     advancedFilters[0]  NumberIn data.n [1]       missing    so
  it was matched when published: delivery 5, 6
  the event subscription was changed after the event; this is how it is now
";
        assert_eq!(explanations(&failed), expected);
        let matched = json!({ "topic": "orders", "eventSubscription": "audit", "matched": true, "reason": null, "clauses": [] });
        let list = json!({ "value": [failed, matched] });
        assert_eq!(
            explanations(&list),
            format!("{expected}\naudit (topic orders): matches\n")
        );
        let none = "the topic has no event subscriptions\n";
        assert_eq!(explanations(&json!({ "value": [] })), none);
    }
}
