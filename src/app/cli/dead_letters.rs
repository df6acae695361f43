//! `everpost dead-letters`: what was given up, and a second chance for it.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::cli::client::Client;
use crate::app::cli::dead_letter_files::{Export, Import};
use crate::app::cli::dead_letter_filter::DeadLetterFilter;
use crate::app::cli::events::{EventWithData, Page, more};
use crate::app::cli::moment::date;
use crate::app::cli::output::{Output, items, moment, text};
use crate::app::cli::resubmit::Resubmit;
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::Table;
use crate::app::cli::timeline::timeline;
use crate::app::cli::watch;
use crate::base::{Clock, Timestamp};
use crate::wire::service_bus::address::queue_path;
use crate::wire::service_bus::sas::{RULE, sign};

const PATH: [&str; 2] = ["everpost", "deadLetters"];

/// Look at dead letters and deliver them again
#[derive(Args, Debug)]
pub(super) struct DeadLettersArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: DeadLettersCommand,
}

#[derive(Subcommand, Debug)]
enum DeadLettersCommand {
    /// List dead letters, newest first
    List {
        #[command(flatten)]
        filter: DeadLetterFilter,
        #[command(flatten)]
        page: Page,
    },
    /// Show one dead letter, its event and every attempt
    Show {
        /// Number of the delivery, as `dead-letters list` shows it
        delivery: i64,
    },
    /// Follow new dead letters as they come, until Ctrl-C
    ///
    /// With --json each is an object on a line of its own.
    Watch {
        #[command(flatten)]
        filter: DeadLetterFilter,
    },
    /// Count dead letters
    Count {
        #[command(flatten)]
        filter: DeadLetterFilter,
    },
    /// Print a shared access signature of Service Bus for one queue of dead letters
    ///
    /// Whoever has it can read and remove the dead letters of this event subscription, and nothing else.
    Token {
        /// Topic of the event subscription
        #[arg(long)]
        topic: String,
        /// The event subscription
        #[arg(long)]
        subscription: String,
        /// For how many hours it is good
        #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=8_784))]
        hours: u32,
    },
    /// Take dead letters out of their queues for good
    ///
    /// Without --yes it only counts them. Those that a receiver holds stay.
    Purge {
        #[command(flatten)]
        filter: DeadLetterFilter,
        /// All dead letters, where there is no filter
        #[arg(long)]
        all: bool,
        /// Do it
        #[arg(long)]
        yes: bool,
    },
    /// Write dead letters to files, in the layout and the shape of Azure's storage
    ///
    /// They stay in their queues.
    Export(Box<Export>),
    /// Deliver the events of such files again, Azure's own or exported ones
    ///
    /// Without --yes it only counts them.
    Import(Import),
    /// Deliver again, as new deliveries with all their attempts before them
    Resubmit(Box<Resubmit>),
}

impl DeadLettersArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(self.server.find()?)?;
        match self.command {
            DeadLettersCommand::List { filter, page } => {
                let query: Vec<_> = filter.query().into_iter().chain(page.query()).collect();
                let found = client.get(&PATH, &query).await?;
                self.output.show(&found, list)?;
            }
            DeadLettersCommand::Show { delivery } => {
                let path = [PATH[0], PATH[1], &delivery.to_string()];
                let answer = client.get_text(&path).await?;
                let found =
                    serde_json::from_str(&answer).context("the server shows no dead letter")?;
                let now = Clock::system().now();
                self.output.show_verbatim(&answer, || sheet(&found, now))?;
            }
            DeadLettersCommand::Watch { filter } => {
                watch::until_interrupted(&client, self.output, filter).await?;
            }
            DeadLettersCommand::Count { filter } => {
                let counted = count(&client, &filter).await?;
                self.output
                    .show(&counted, |counted| format!("{}\n", text(counted, "/count")))?;
            }
            DeadLettersCommand::Token {
                topic,
                subscription,
                hours,
            } => {
                let server = self.server.find()?;
                let missing = || format!("there is no management token in {}", server.token_origin);
                let key = server.token.as_ref().with_context(missing)?;
                let until = Clock::system().now() + Duration::from_secs(3_600 * u64::from(hours));
                let queue = queue_path(&topic, &subscription);
                let queue = format!("{}{queue}", server.url.as_str().trim_end_matches('/'));
                let token = sign(&queue, RULE, until, key);
                let shown =
                    json!({ "queue": queue, "token": token, "expiresAt": until.to_string() });
                self.output
                    .show(&shown, |shown| format!("{}\n", text(shown, "/token")))?;
            }
            DeadLettersCommand::Purge { filter, all, yes } => {
                let query = purge_query(&filter, all)?;
                let purged = match yes {
                    true => purge(&client, &query).await?,
                    false => count(&client, &filter).await?,
                };
                self.output.show(&purged, purge_told)?;
            }
            DeadLettersCommand::Export(args) => args.run(&client, self.output).await?,
            DeadLettersCommand::Import(args) => args.run(&client, self.output).await?,
            DeadLettersCommand::Resubmit(args) => args.run(&client, self.output).await?,
        }
        Ok(())
    }
}

async fn count(client: &Client, filter: &DeadLetterFilter) -> anyhow::Result<Value> {
    client
        .get(&[PATH[0], PATH[1], "count"], &filter.query())
        .await
}

fn purge_query(
    filter: &DeadLetterFilter,
    all: bool,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut query = filter.query();
    match (query.is_empty(), all) {
        (true, false) => bail!("a purge needs a filter, or --all where all dead letters are meant"),
        (false, true) => bail!("--all goes without a filter"),
        (true, true) => query.push(("all", "true".to_owned())),
        (false, false) => {}
    }
    Ok(query)
}

/// Bite by bite, and says how far it is.
async fn purge(client: &Client, query: &[(&'static str, String)]) -> anyhow::Result<Value> {
    let (mut removed, mut locked) = (0, 0);
    let mut before: Option<i64> = None;
    loop {
        let below = before.map(|before| ("before", before.to_string()));
        let query: Vec<_> = query.iter().cloned().chain(below).collect();
        let bite = client.post(&[PATH[0], PATH[1], "purge"], &query).await?;
        removed += bite["removed"].as_u64().unwrap_or(0);
        locked += bite["locked"].as_u64().unwrap_or(0);
        let next = bite["nextBefore"].as_i64();
        // Each bite lies below the last: a server that breaks this is not followed in circles.
        match next.filter(|next| before.is_none_or(|before| *next < before)) {
            Some(next) => before = Some(next),
            None => return Ok(json!({ "removed": removed, "locked": locked })),
        }
        eprintln!("{removed} removed so far");
    }
}

fn purge_told(purged: &Value) -> String {
    match (purged["count"].as_u64(), purged["locked"].as_u64()) {
        (Some(count), _) => format!("{count} dead letters would be removed; add --yes to do it\n"),
        (None, Some(locked)) if locked > 0 => format!(
            "{} dead letters removed; {locked} are held by receivers and stay\n",
            text(purged, "/removed")
        ),
        _ => format!("{} dead letters removed\n", text(purged, "/removed")),
    }
}

fn list(page: &Value) -> String {
    let dead_letters = items(page, "/value");
    if dead_letters.is_empty() {
        return "no dead letters\n".to_owned();
    }
    let mut table = Table::headed([
        "DELIVERY",
        "GIVEN UP (UTC)",
        "TOPIC",
        "SUBSCRIPTION",
        "REASON",
        "ATTEMPTS",
        "LAST STATUS",
        "TYPE",
        "SUBJECT",
        "EVENT ID",
    ]);
    for each in dead_letters {
        table.row([
            text(each, "/deliveryId"),
            date(moment(each, "/endedAt")),
            text(each, "/topic"),
            text(each, "/subscription"),
            text(each, "/deadLetterReason"),
            text(each, "/attempts"),
            text(each, "/lastHttpStatusCode"),
            text(each, "/eventType"),
            text(each, "/subject"),
            text(each, "/eventId"),
        ]);
    }
    format!("{table}{}", more(page))
}

/// A dead letter as the server shows it.
#[derive(Deserialize)]
struct DeadLetter {
    event: EventWithData,
    #[serde(flatten)]
    delivery: Value,
}

fn sheet(dead_letter: &DeadLetter, now: Timestamp) -> String {
    format!(
        "{}\n{}",
        dead_letter.event.sheet(),
        timeline(&dead_letter.delivery, now)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use axum::extract::Query;
    use axum::routing::post;
    use axum::{Json, Router};

    use super::*;
    use crate::app::cli::client::tests::serving;

    #[test]
    fn dead_letters_are_listed_in_columns() {
        let page = json!({ "value": [{ "deliveryId": 5, "endedAt": "2026-11-21T06:41:00Z", "topic": "orders", "subscription": "billing", "deadLetterReason": "TimeToLiveExceeded", "attempts": 3, "lastHttpStatusCode": 503, "eventId": "a-1", "eventType": "Order.Paid", "subject": "/orders/1" }], "nextBefore": 5 });
        assert_eq!(list(&page), "\
DELIVERY  GIVEN UP (UTC)           TOPIC   SUBSCRIPTION  REASON              ATTEMPTS  LAST STATUS  TYPE        SUBJECT    EVENT ID
5         2026-11-21 06:41:00.000  orders  billing       TimeToLiveExceeded  3         503          Order.Paid  /orders/1  a-1
there is more: add --before 5
");
    }

    #[test]
    fn a_dead_letter_is_shown_with_its_event() {
        let dead_letter = r#"{"deliveryId":5,"topic":"orders","subscription":"billing","state":"DeadLettered","event":{"key":12,"data":1.10}}"#;
        let dead_letter: DeadLetter = serde_json::from_str(dead_letter).expect("a dead letter");
        let expected =
            "event  12\ndata\n  1.10\n\nbilling (topic orders): DeadLettered; delivery 5\n";
        assert_eq!(sheet(&dead_letter, Timestamp::from_ms(0)), expected);
    }

    #[test]
    fn a_purge_is_asked_for_in_so_many_words() {
        let filter = DeadLetterFilter {
            topic: Some("orders".to_owned()),
            ..DeadLetterFilter::default()
        };
        let topic = ("topic", "orders".to_owned());
        assert_eq!(purge_query(&filter, false).expect("a filter"), [topic]);
        assert!(purge_query(&filter, true).is_err());
        let none = DeadLetterFilter::default();
        assert!(purge_query(&none, false).is_err());
        let all = ("all", "true".to_owned());
        assert_eq!(purge_query(&none, true).expect("all"), [all]);
    }

    #[tokio::test]
    async fn a_purge_goes_on_until_there_is_no_more() {
        let bite = async |Query(query): Query<HashMap<String, String>>| {
            let before = query.get("before").map_or("9", String::as_str);
            Json(match before {
                "9" => json!({ "removed": 5, "locked": 1, "nextBefore": 4 }),
                _ => json!({ "removed": 2, "locked": 0, "nextBefore": null }),
            })
        };
        let client = serving(Router::new().route("/everpost/deadLetters/purge", post(bite))).await;
        let purged = purge(&client, &[("all", "true".to_owned())]).await;
        let purged = purged.expect("purged");
        assert_eq!(purged, json!({ "removed": 7, "locked": 1 }));
        let told = purge_told(&purged);
        assert_eq!(
            told,
            "7 dead letters removed; 1 are held by receivers and stay\n"
        );
        assert!(purge_told(&json!({ "count": 3 })).contains("--yes"));
    }
}
