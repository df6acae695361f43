//! `everpost events`: what was published, and what became of it.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::app::cli::output::{Screen, items, printable, text};
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::cli::table::Cell::{Text, Time, Word};
use crate::app::cli::table::{ListFormat, NamedValues};
use crate::app::cli::timeline::{held, timeline};
use crate::base::{Clock, Timestamp};
use crate::wire::json_layout::laid_out;
use crate::wire::query::{EventParameters, Paging};

#[derive(Subcommand, Debug)]
pub(super) enum EventsCommand {
    /// List events, newest first
    List(Box<SearchArguments>),
    /// Show one event and every attempt to deliver it
    Show {
        /// Number of the event, as `events list` shows it
        key: i64,
    },
    /// Send an event to an event subscription of its topic that has not received it
    ///
    /// It has to match the filter as it is now. No other event subscription receives the event again.
    Send {
        /// Number of the event, as `events list` shows it
        key: i64,
        /// Name of the event subscription
        subscription: String,
    },
    /// Make the next attempt of a pending delivery now, before its time
    TryNow {
        /// Number of the delivery, as `events show` shows it
        delivery: i64,
    },
}

#[derive(Args, Debug)]
pub(super) struct SearchArguments {
    #[command(flatten)]
    filter: EventParameters,
    #[command(flatten)]
    page: Paging,
}

impl Run for EventsCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let events = ["everpost", "events"];
        match self {
            Self::List(search) => {
                let request = server.get(events).query(&search.filter);
                request.query(search.page).show(EVENTS).await
            }
            Self::Show { key } => {
                let now = Clock::system().now();
                let view = |event: &EventWithData, screen| details(event, now, screen);
                server.get(events).at(key).show_as(view).await
            }
            Self::Send { key, subscription } => {
                let request = server
                    .post(events)
                    .at(key)
                    .at("send")
                    .json(&json!({ "subscription": subscription }));
                let sent = |sent: &Value, _| {
                    let delivery = text(sent, "/deliveryId");
                    format!("delivery {delivery} sends event {key} to {subscription}\n")
                };
                request.show(sent).await
            }
            Self::TryNow { delivery } => {
                let request = server.post(["everpost", "deliveries"]);
                let now = Clock::system().now();
                let due = |answer: &Value, _| match held(answer, now) {
                    Some(held) => format!("delivery {delivery} is not sent yet: {held}\n"),
                    None => format!("delivery {delivery} is sent now\n"),
                };
                request.at(delivery).at("tryNow").show(due).await
            }
        }
    }
}

const EVENTS: ListFormat = ListFormat {
    none: "no events",
    columns: &[
        ("NUMBER", Word("/key")),
        ("RECEIVED (UTC)", Time("/receivedAt")),
        ("TOPIC", Text("/topic")),
        ("TYPE", Text("/eventType")),
        ("SUBJECT", Text("/subject")),
        ("ID", Text("/id")),
        ("BYTES", Word("/size")),
        ("MATCHED", Word("/matched")),
    ],
};

fn details(event: &EventWithData, now: Timestamp, screen: Screen) -> String {
    let mut details = event.details();
    let deliveries = items(&event.members, "/deliveries");
    if deliveries.is_empty() {
        details.push_str("\nit matched no event subscription\n");
    }
    for delivery in deliveries {
        details.push('\n');
        details.push_str(&timeline(delivery, now, screen));
    }
    details
}

/// An event as the server shows it, its data byte for byte.
#[derive(Deserialize)]
pub(super) struct EventWithData {
    data: Option<Box<RawValue>>,
    #[serde(flatten)]
    members: Value,
}

impl EventWithData {
    pub(super) fn details(&self) -> String {
        let event = &self.members;
        let mut lines = NamedValues::default();
        lines.add("event", text(event, "/key"));
        lines.add("id", text(event, "/id"));
        lines.add("topic", text(event, "/topic"));
        lines.add("source", text(event, "/source"));
        lines.add("type", text(event, "/eventType"));
        lines.add("subject", text(event, "/subject"));
        lines.add("event time", text(event, "/eventTime"));
        lines.add("data version", text(event, "/dataVersion"));
        lines.time("received", event, "/receivedAt");
        lines.add("bytes", text(event, "/size"));
        lines.add("data", text(event, "/data_base64"));
        format!("{lines}{}", self.data())
    }

    fn data(&self) -> String {
        let Some(data) = &self.data else {
            return String::new();
        };
        let data = laid_out(data.get());
        let lines = data.lines().map(|line| format!("  {}\n", printable(line)));
        format!("data\n{}", lines.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::app::cli::output::View;

    #[test]
    fn events_are_listed_in_columns() {
        let event = json!({ "key": 12, "topic": "orders", "id": "a-1", "eventType": "Order.Paid", "subject": "/orders/1", "receivedAt": "2026-11-21T06:40:53.138Z", "size": 123, "matched": 1 });
        let page = json!({ "value": [event], "nextBefore": null });
        let expected = "\
NUMBER  RECEIVED (UTC)       TOPIC   TYPE        SUBJECT    ID   BYTES  MATCHED
12      2026-11-21 06:40:53  orders  Order.Paid  /orders/1  a-1  123    1
";
        assert_eq!(EVENTS.text(&page, Screen::default()), expected);
    }

    fn check(event: &str, expected: &str) {
        let event: EventWithData = serde_json::from_str(event).expect("an event");
        let details = details(&event, Timestamp::from_ms(0), Screen::default());
        assert_eq!(details, expected);
    }

    #[test]
    fn an_event_is_shown_with_its_data_and_deliveries() {
        let envelope = r#""key":12,"topic":"orders","id":"a-1","eventType":"Order.Paid","eventTime":"2026-11-21T06:40:00Z","dataVersion":"1","receivedAt":"2026-11-21T06:40:53.138Z","size":123,"data":{"total":1.10}"#;
        let sheet = "\
event         12
id            a-1
topic         orders
type          Order.Paid
event time    2026-11-21T06:40:00Z
data version  1
received      2026-11-21 06:40:53.138
bytes         123
data
  {
    \"total\": 1.10
  }

";
        let unwanted = format!("{{{envelope},\"deliveries\":[]}}");
        check(
            &unwanted,
            &format!("{sheet}it matched no event subscription\n"),
        );
        let delivery =
            r#"{"deliveryId":5,"topic":"orders","subscription":"billing","state":"Delivered"}"#;
        let delivered = format!("{{{envelope},\"deliveries\":[{delivery}]}}");
        check(
            &delivered,
            &format!("{sheet}billing (topic orders): Delivered; delivery 5\n"),
        );
    }

    #[test]
    fn an_event_without_json_is_shown_as_it_is() {
        let end = "\nit matched no event subscription\n";
        check(r#"{"key":1}"#, &format!("event  1\n{end}"));
        check(
            r#"{"key":1,"data_base64":"AQID"}"#,
            &format!("event  1\ndata   AQID\n{end}"),
        );
        check(r#"{"key":1,"data":null}"#, &format!("event  1\n{end}"));
    }
}
