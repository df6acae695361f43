//! `everpost messages`: messages of queues, and of subscriptions of Service Bus topics, by hand.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::app::cli::filter::name_and_value;
use crate::app::cli::output::{Screen, View, text};
use crate::app::cli::request::{RemoteServer, Run, UnsentRequest, given};
use crate::app::cli::table::Cell::{Of, Text, Word};
use crate::app::cli::table::{Field, ListFormat};

pub(super) const EXAMPLES: &str = "\
Examples:
  everpost messages send jobs --body '{\"total\":5}' --content-type application/json --property color=red
  everpost messages peek jobs
  everpost messages peek large-sales --topic sales --dead-letters
  everpost messages receive jobs --count 10
  everpost dead-letters resubmit 42";

/// Messages of a batch, which may say all that a message can have.
const BATCH: &str = "application/vnd.microsoft.servicebus.json";

#[derive(Subcommand, Debug)]
pub(super) enum MessagesCommand {
    /// Show messages without taking any
    Peek(Peek),
    /// Send a message to a queue, or to a Service Bus topic
    Send(Send),
    /// Take messages for good, and show them
    Receive(Receive),
}

/// Where messages lie.
#[derive(Args, Debug)]
pub(super) struct MessagePlace {
    /// The queue; with --topic the subscription
    queue: String,
    /// The Service Bus topic of the subscription
    #[arg(long)]
    topic: Option<String>,
    /// The dead letters instead
    #[arg(long)]
    dead_letters: bool,
}

#[derive(Args, Debug)]
pub(super) struct Peek {
    #[command(flatten)]
    of: MessagePlace,
    /// Begin at this number
    #[arg(long, value_name = "NUMBER")]
    from: Option<i64>,
    /// Messages to show, up to 100
    #[arg(long, value_name = "N", default_value = "20")]
    limit: usize,
    /// Messages of this session alone
    #[arg(long)]
    session: Option<String>,
}

#[derive(Args, Debug)]
pub(super) struct Receive {
    #[command(flatten)]
    of: MessagePlace,
    /// Messages to take, up to 100
    #[arg(long, value_name = "N", default_value = "1")]
    count: usize,
}

#[derive(Args, Debug)]
pub(super) struct Send {
    /// The queue or the topic
    to: String,
    /// The body
    #[arg(long, value_name = "TEXT")]
    body: String,
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    #[arg(long)]
    subject: Option<String>,
    /// One is made without it
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
    #[arg(long, value_name = "ID")]
    session_id: Option<String>,
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// An application property, may be repeated: numbers, true and false keep their types
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = name_and_value)]
    properties: Vec<(String, String)>,
}

impl Run for MessagesCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        match self {
            Self::Peek(Peek {
                of,
                from,
                limit,
                session,
            }) => {
                let asked = json!({
                    "from": from, "limit": limit, "session": session,
                    "deadLetters": of.dead_letters.then_some(true),
                });
                let request = of.at(|path| server.get(path)).at("messages");
                request.query(asked).show(of.list()).await
            }
            Self::Receive(Receive { of, count }) => {
                let body = json!({ "limit": count, "deadLetters": of.dead_letters });
                let request = of.at(|path| server.post(path)).at("receive");
                request.json(&body).show(of.list()).await
            }
            Self::Send(send) => {
                let request = server.post([&*send.to, "messages"]);
                let batch = json!([send.message()]).to_string();
                request.body(BATCH, batch).text().await?;
                let sent = json!({ "sentTo": send.to });
                server.show(&sent, |_: &_, _| format!("sent to {}\n", send.to))
            }
        }
    }
}

impl MessagePlace {
    fn at<'a>(&self, request: impl FnOnce(Vec<&str>) -> UnsentRequest<'a>) -> UnsentRequest<'a> {
        let queue = self.queue.as_str();
        request(match &self.topic {
            None => vec!["queues", queue],
            Some(topic) => vec!["serviceBusTopics", topic, "subscriptions", queue],
        })
    }

    fn list(&self) -> Messages {
        Messages {
            are_dead: self.dead_letters,
        }
    }
}

impl Send {
    fn message(&self) -> Value {
        let broker = given(&json!({
            "ContentType": self.content_type,
            "Label": self.subject,
            "MessageId": self.message_id,
            "SessionId": self.session_id,
            "CorrelationId": self.correlation_id,
        }));
        let own = self.properties.iter();
        let own: Map<String, Value> = own
            .map(|(name, value)| (name.clone(), typed(value)))
            .collect();
        json!({ "Body": self.body, "BrokerProperties": broker, "UserProperties": own })
    }
}

/// A number or a truth value, or else the text.
fn typed(text: &str) -> Value {
    let value: Option<Value> = serde_json::from_str(text).ok();
    value
        .filter(|value| value.is_number() || value.is_boolean())
        .unwrap_or_else(|| text.into())
}

/// A list of messages, or of dead letters.
struct Messages {
    are_dead: bool,
}

impl View for Messages {
    fn text(self, page: &Value, screen: Screen) -> String {
        let (none, columns) = if self.are_dead {
            ("no dead letters", DEAD_LETTERS)
        } else {
            ("no messages", MESSAGES)
        };
        ListFormat { none, columns }.text(page, screen)
    }
}

const MESSAGES: &[Field] = &[
    ("NUMBER", Word("/sequenceNumber")),
    ("ID", Text("/messageId")),
    ("SUBJECT", Text("/subject")),
    ("STATE", Word("/state")),
    ("DELIVERIES", Word("/deliveryCount")),
    ("BODY", Of(body)),
];

const DEAD_LETTERS: &[Field] = &[
    ("NUMBER", Word("/sequenceNumber")),
    ("ID", Text("/messageId")),
    ("SUBJECT", Text("/subject")),
    ("REASON", Text("/deadLetterReason")),
    ("DESCRIPTION", Text("/deadLetterErrorDescription")),
    ("BODY", Of(body)),
];

fn body(message: &Value) -> String {
    match (&message["body"], &message["bodyBase64"]) {
        (Value::Null, Value::Null) => String::new(),
        (Value::Null, _) => text(message, "/bodyBase64"),
        (Value::String(text), _) => text.clone(),
        (json, _) => json.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_listed_with_their_bodies() {
        let page = json!({ "value": [
            { "sequenceNumber": 7, "messageId": "m1", "subject": "paid", "state": "Active", "deliveryCount": 2,
                "body": { "total": 5 }, "deadLetterReason": "broken" },
            { "sequenceNumber": 8, "messageId": "m2", "state": "Scheduled", "deliveryCount": 0, "body": "hello" },
            { "sequenceNumber": 9, "messageId": "m3", "state": "Active", "deliveryCount": 0, "bodyBase64": "AAE=" },
        ] });
        let shown = |are_dead| Messages { are_dead }.text(&page, Screen::default());
        assert_eq!(
            shown(false),
            "\
NUMBER  ID  SUBJECT  STATE      DELIVERIES  BODY
7       m1  paid     Active     2           {\"total\":5}
8       m2           Scheduled  0           hello
9       m3           Active     0           AAE=
"
        );
        assert!(shown(true).contains("broken"));
        let none = Messages { are_dead: true }.text(&json!({ "value": [] }), Screen::default());
        assert_eq!(none, "no dead letters\n");
    }

    #[test]
    fn what_is_sent_keeps_its_types() {
        let send = Send {
            to: "jobs".to_owned(),
            body: "b".to_owned(),
            content_type: None,
            subject: Some("paid".to_owned()),
            message_id: None,
            session_id: None,
            correlation_id: None,
            properties: [
                ("n", "7"),
                ("yes", "true"),
                ("text", "red"),
                ("quoted", "\"7\""),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        };
        let expected = json!({ "Body": "b", "BrokerProperties": { "Label": "paid" },
            "UserProperties": { "n": 7, "yes": true, "text": "red", "quoted": "\"7\"" } });
        assert_eq!(send.message(), expected);
    }
}
