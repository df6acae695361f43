//! `everpost explain`: why event subscriptions receive an event, or do not.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use crate::app::cli::body;
use crate::app::cli::output::{Screen, items, text};
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::cli::table::Cell::{Of, Text};
use crate::app::cli::table::{Field, rows_of};
use crate::app::cli::topic_arg::NamespaceArgs;

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("event_to_explain").args(["event", "id", "file"]).required(true))]
pub(super) struct ExplainArgs {
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

impl Run for ExplainArgs {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let request = match (&self.topic, self.event) {
            (None, event) => {
                let events = server.get(["everpost", "events"]);
                events.at(event.unwrap_or_default()).at("explanations")
            }
            (Some(topic), _) => {
                let request = server.post(self.namespace.topic(topic).path());
                let request = match &self.subscription {
                    Some(subscription) => request.at("eventSubscriptions").at(subscription),
                    None => request,
                };
                request
                    .at("explain")
                    .body("application/json", self.question()?)
            }
        };
        request.show(explanations).await
    }
}

impl ExplainArgs {
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
fn explanations(answer: &Value, screen: Screen) -> String {
    let all = match answer.get("value") {
        Some(_) => items(answer, "/value"),
        None => std::slice::from_ref(answer),
    };
    if all.is_empty() {
        return "the topic has no event subscriptions\n".to_owned();
    }
    let all: Vec<String> = all.iter().map(|each| explanation(each, screen)).collect();
    all.join("\n")
}

fn explanation(each: &Value, screen: Screen) -> String {
    let (topic, subscription) = (text(each, "/topic"), text(each, "/eventSubscription"));
    let verdict = if each["matched"] == true {
        "matches".to_owned()
    } else {
        format!("does not match: {}", text(each, "/reason/message"))
    };
    let mut shown = format!("{subscription} (topic {topic}): {verdict}\n");
    let clauses = items(each, "/clauses");
    if !clauses.is_empty() {
        shown.push_str(&rows_of(clauses, CLAUSES, 2).text(screen));
    }
    let deliveries = items(each, "/deliveries").iter().map(Value::to_string);
    let deliveries: Vec<String> = deliveries.collect();
    if !deliveries.is_empty() {
        shown.push_str(&format!(
            "  it matched when it was published: delivery {}\n",
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

const CLAUSES: &[Field] = &[
    (
        "HOLDS",
        Of(|clause| if clause["held"] == true { "yes" } else { "no" }.to_owned()),
    ),
    ("CLAUSE", Text("/clause")),
    ("EXPECTED", Text("/wanted")),
    (
        "FOUND",
        Of(|clause| {
            if clause["saw"].is_null() {
                "missing".to_owned()
            } else {
                text(clause, "/saw")
            }
        }),
    ),
    ("REMARK", Text("/remark")),
];

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
  HOLDS  CLAUSE              EXPECTED                  FOUND      REMARK
  yes    subjectBeginsWith   subject begins with \"/o\"  \"/orders\"
  no     advancedFilters[0]  NumberIn data.n [1]       missing    so
  it matched when it was published: delivery 5, 6
  the event subscription was changed after the event; this is how it is now
";
        assert_eq!(explanations(&failed, Screen::default()), expected);
        let matched = json!({ "topic": "orders", "eventSubscription": "audit", "matched": true, "reason": null, "clauses": [] });
        let list = json!({ "value": [failed, matched] });
        assert_eq!(
            explanations(&list, Screen::default()),
            format!("{expected}\naudit (topic orders): matches\n")
        );
        let none = "the topic has no event subscriptions\n";
        assert_eq!(
            explanations(&json!({ "value": [] }), Screen::default()),
            none
        );
    }
}
