//! `everpost events`: what was published, and what became of it.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::app::cli::client::Client;
use crate::app::cli::moment::date;
use crate::app::cli::output::{Output, items, moment, text};
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
    List(List),
    /// Show one event and every attempt to deliver it
    Show {
        /// Number of the event, as `events list` shows it
        key: i64,
    },
}

#[derive(Args, Debug)]
struct List {
    /// Events of this topic
    #[arg(long)]
    topic: Option<String>,
    /// Events with this id
    #[arg(long)]
    id: Option<String>,
    /// Events of this type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
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
                let event = client
                    .get(&["everpost", "events", &key.to_string()], &[])
                    .await?;
                let now = Clock::system().now();
                self.output.show(&event, |event| sheet(event, now))?;
            }
        }
        Ok(())
    }
}

impl List {
    fn query(&self) -> Vec<(&'static str, String)> {
        let filters = [
            ("topic", self.topic.clone()),
            ("id", self.id.clone()),
            ("type", self.event_type.clone()),
        ];
        let filters = filters
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        filters.chain(self.page.query()).collect()
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

fn list(page: &Value) -> String {
    let events = items(page, "/value");
    if events.is_empty() {
        return "no events\n".to_owned();
    }
    let mut table = Table::headed([
        "NUMBER",
        "RECEIVED (UTC)",
        "TOPIC",
        "TYPE",
        "SUBJECT",
        "ID",
        "BYTES",
        "MATCHED",
    ]);
    for event in events {
        table.row([
            text(event, "/key"),
            date(moment(event, "/receivedAt")),
            text(event, "/topic"),
            text(event, "/eventType"),
            text(event, "/subject"),
            text(event, "/id"),
            text(event, "/size"),
            text(event, "/matched"),
        ]);
    }
    format!("{table}{}", more(page))
}

fn sheet(event: &Value, now: Timestamp) -> String {
    let mut sheet = event_sheet(event);
    let deliveries = items(event, "/deliveries");
    if deliveries.is_empty() {
        sheet.push_str("\nno event subscription wanted it\n");
    }
    for delivery in deliveries {
        sheet.push('\n');
        sheet.push_str(&timeline(delivery, now));
    }
    sheet
}

/// The event itself.
pub(super) fn event_sheet(event: &Value) -> String {
    let mut table = Table::sheet();
    table.line("event", text(event, "/key"));
    table.line("id", text(event, "/id"));
    table.line("topic", text(event, "/topic"));
    table.line("type", text(event, "/eventType"));
    table.line("subject", text(event, "/subject"));
    table.line("event time", text(event, "/eventTime"));
    table.line("received", date(moment(event, "/receivedAt")));
    table.line("bytes", text(event, "/size"));
    format!("{table}{}", data(&event["data"]))
}

fn data(data: &Value) -> String {
    if data.is_null() {
        return String::new();
    }
    let pretty = format!("{data:#}");
    let lines = pretty
        .lines()
        .map(|line| format!("  {}\n", printable(line)));
    format!("data\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
    }

    #[test]
    fn an_event_is_shown_with_its_data_and_deliveries() {
        let mut event = event();
        event["eventTime"] = json!("2026-11-21T06:40:00Z");
        event["data"] = json!({ "total": 5 });
        event["deliveries"] = json!([]);
        let now = Timestamp::from_ms(0);
        assert_eq!(
            sheet(&event, now),
            "\
event       12
id          a-1
topic       orders
type        Order.Paid
subject     /orders/1
event time  2026-11-21T06:40:00Z
received    2026-11-21 06:40:53.138
bytes       123
data
  {
    \"total\": 5
  }

no event subscription wanted it
"
        );
        event["deliveries"] = json!([{ "deliveryId": 5, "topic": "orders", "subscription": "billing", "state": "Delivered" }]);
        assert!(
            sheet(&event, now).ends_with("\n\nbilling (topic orders): Delivered; delivery 5\n")
        );
    }

    #[test]
    fn filters_become_the_query() {
        let list = List {
            topic: Some("orders".to_owned()),
            id: None,
            event_type: Some("T".to_owned()),
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
        assert_eq!(query.join("&"), "topic=orders&type=T&limit=5&before=9");
    }
}
