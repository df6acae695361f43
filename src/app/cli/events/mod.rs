//! `everpost events`: what was published, and what became of it.

mod filter;
mod layout;

use anyhow::Context;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::filter::EventFilter;
use self::layout::laid_out;
use crate::app::cli::client::Client;
use crate::app::cli::moment::date;
use crate::app::cli::output::{Output, columns, items, moment, text};
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::{Table, printable};
use crate::app::cli::timeline::timeline;
use crate::base::{Clock, Timestamp};

/// Look at events
#[derive(Args, Debug)]
pub(super) struct EventsArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: EventsCommand,
}

#[derive(Subcommand, Debug)]
enum EventsCommand {
    /// List events, newest first
    List(Box<List>),
    /// Show one event and every attempt to deliver it
    Show {
        /// Number of the event, as `events list` shows it
        key: i64,
    },
    /// Send an event to an event subscription of its topic that has not got it
    ///
    /// Its filter is asked as it is now; no other event subscription gets the event again.
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
struct List {
    #[command(flatten)]
    filter: EventFilter,
    #[command(flatten)]
    page: Page,
}

/// Which part of a long list.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Page {
    /// Lines to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u32,
    /// Begin below this number
    #[arg(long, value_name = "NUMBER")]
    before: Option<i64>,
}

impl EventsArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(self.server.find()?)?;
        match self.command {
            EventsCommand::List(list) => {
                let events = client.get(&["everpost", "events"], &list.query()).await?;
                self.output.show(&events, self::list)?;
            }
            EventsCommand::Show { key } => {
                let path = ["everpost", "events", &key.to_string()];
                let answer = client.get_text(&path).await?;
                let event = serde_json::from_str(&answer).context("the server shows no event")?;
                let now = Clock::system().now();
                self.output.show_verbatim(&answer, || sheet(&event, now))?;
            }
            EventsCommand::Send { key, subscription } => {
                let path = ["everpost", "events", &key.to_string(), "send"];
                let body = json!({ "subscription": subscription });
                let sent = client.send(Method::POST, &path, Some(&body)).await?;
                self.output.show(&sent, |sent| {
                    let delivery = text(sent, "/deliveryId");
                    format!("delivery {delivery} of event {key} to {subscription} has been made\n")
                })?;
            }
            EventsCommand::TryNow { delivery } => {
                let number = delivery.to_string();
                let path = ["everpost", "deliveries", &number, "tryNow"];
                let due = client.send(Method::POST, &path, None).await?;
                self.output
                    .show(&due, |_| format!("delivery {delivery} is due now\n"))?;
            }
        }
        Ok(())
    }
}

impl List {
    fn query(&self) -> Vec<(&'static str, String)> {
        self.filter.query().chain(self.page.query()).collect()
    }
}

impl Page {
    pub(super) fn query(self) -> impl Iterator<Item = (&'static str, String)> {
        let before = self.before.map(|before| ("before", before.to_string()));
        std::iter::once(("limit", self.limit.to_string())).chain(before)
    }
}

/// How to see the rest of a list, if there is a rest.
pub(super) fn more(page: &Value) -> String {
    match text(page, "/nextBefore").as_str() {
        "" => String::new(),
        before => format!("there is more: add --before {before}\n"),
    }
}

/// The same for a search, which may have ended early.
fn further(page: &Value) -> String {
    match text(page, "/lookedBack/events").as_str() {
        "" => more(page),
        events => {
            let to = date(moment(page, "/lookedBack/to"));
            let before = text(page, "/nextBefore");
            format!(
                "looked at {events} events, back to {to}; to look further add --before {before}\n"
            )
        }
    }
}

fn list(page: &Value) -> String {
    let events = items(page, "/value");
    if events.is_empty() {
        return format!("no events\n{}", further(page));
    }
    let table = columns(
        events,
        [
            ("NUMBER", "/key"),
            ("RECEIVED (UTC)", "/receivedAt"),
            ("TOPIC", "/topic"),
            ("TYPE", "/eventType"),
            ("SUBJECT", "/subject"),
            ("ID", "/id"),
            ("BYTES", "/size"),
            ("MATCHED", "/matched"),
        ],
    );
    format!("{table}{}", further(page))
}

fn sheet(event: &EventWithData, now: Timestamp) -> String {
    let mut sheet = event.sheet();
    let deliveries = items(&event.members, "/deliveries");
    if deliveries.is_empty() {
        sheet.push_str("\nno event subscription wanted it\n");
    }
    for delivery in deliveries {
        sheet.push('\n');
        sheet.push_str(&timeline(delivery, now));
    }
    sheet
}

/// An event as the server shows it, its data byte for byte.
#[derive(Deserialize)]
pub(super) struct EventWithData {
    data: Option<Box<RawValue>>,
    #[serde(flatten)]
    members: Value,
}

impl EventWithData {
    pub(super) fn sheet(&self) -> String {
        let event = &self.members;
        let mut table = Table::sheet();
        table.line("event", text(event, "/key"));
        table.line("id", text(event, "/id"));
        table.line("topic", text(event, "/topic"));
        table.line("source", text(event, "/source"));
        table.line("type", text(event, "/eventType"));
        table.line("subject", text(event, "/subject"));
        table.line("event time", text(event, "/eventTime"));
        table.line("data version", text(event, "/dataVersion"));
        table.line("received", date(moment(event, "/receivedAt")));
        table.line("bytes", text(event, "/size"));
        table.line("data", text(event, "/data_base64"));
        format!("{table}{}", self.data())
    }

    fn data(&self) -> String {
        let Some(data) = &self.data else {
            return String::new();
        };
        let laid_out = laid_out(data.get());
        let lines = laid_out
            .lines()
            .map(|line| format!("  {}\n", printable(line)));
        format!("data\n{}", lines.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::app::cli::about_event::AboutEvent;

    fn event() -> Value {
        json!({ "key": 12, "topic": "orders", "id": "a-1", "eventType": "Order.Paid", "subject": "/orders/1", "receivedAt": "2026-11-21T06:40:53.138Z", "size": 123, "matched": 1 })
    }

    #[test]
    fn events_are_listed_in_columns() {
        let mut page = json!({ "value": [event()], "nextBefore": null });
        let expected = "\
NUMBER  RECEIVED (UTC)           TOPIC   TYPE        SUBJECT    ID   BYTES  MATCHED
12      2026-11-21 06:40:53.138  orders  Order.Paid  /orders/1  a-1  123    1
";
        assert_eq!(list(&page), expected);
        page["nextBefore"] = json!(12);
        assert_eq!(
            list(&page),
            format!("{expected}there is more: add --before 12\n")
        );
        assert_eq!(list(&json!({ "value": [] })), "no events\n");
        page["value"] = json!([]);
        page["lookedBack"] = json!({ "events": 20_000, "to": "2026-11-21T06:40:53.138Z" });
        let looked = "looked at 20000 events, back to 2026-11-21 06:40:53.138; to look further add --before 12\n";
        assert_eq!(list(&page), format!("no events\n{looked}"));
    }

    fn check(event: &str, expected: &str) {
        let event: EventWithData = serde_json::from_str(event).expect("an event");
        assert_eq!(sheet(&event, Timestamp::from_ms(0)), expected);
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
            &format!("{sheet}no event subscription wanted it\n"),
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
        let end = "\nno event subscription wanted it\n";
        check(r#"{"key":1}"#, &format!("event  1\n{end}"));
        check(
            r#"{"key":1,"data_base64":"AQID"}"#,
            &format!("event  1\ndata   AQID\n{end}"),
        );
        check(r#"{"key":1,"data":null}"#, &format!("event  1\n{end}"));
    }

    #[test]
    fn filters_become_the_query() {
        let list = List {
            filter: EventFilter {
                topic: Some("orders".to_owned()),
                state: Some("retrying".to_owned()),
                about: AboutEvent {
                    event_type: Some("T".to_owned()),
                    ..AboutEvent::default()
                },
                unmatched: true,
                ..EventFilter::default()
            },
            page: Page {
                limit: 5,
                before: Some(9),
            },
        };
        let query = list
            .query()
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>();
        assert_eq!(
            query.join("&"),
            "topic=orders&state=retrying&unmatched=true&type=T&limit=5&before=9"
        );
    }
}
