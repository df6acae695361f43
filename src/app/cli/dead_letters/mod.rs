//! `everpost dead-letters`: what could not be delivered, and a second chance for it.

mod files;
mod resubmit;
mod watch;

use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};

use self::files::{ExportDeadLetterFiles, ImportDeadLetterFiles};
use self::resubmit::Resubmit;
use crate::app::cli::events::EventWithData;
use crate::app::cli::output::{Screen, note, number, plural, text};
use crate::app::cli::request::{RemoteServer, Run, given};
use crate::app::cli::table::Cell::{Of, Text, Time, Word};
use crate::app::cli::table::ListFormat;
use crate::app::cli::timeline::timeline;
use crate::base::{Clock, Timestamp};
use crate::model::shared_access::ROOT_RULE;
use crate::wire::query::{DeadLetterParameters, Paging};
use crate::wire::service_bus::address::queue_path;
use crate::wire::service_bus::sas::sign;

const PATH: [&str; 2] = ["everpost", "deadLetters"];

#[derive(Subcommand, Debug)]
pub(super) enum DeadLettersCommand {
    /// List dead letters, newest first
    List {
        #[command(flatten)]
        filter: DeadLetterParameters,
        #[command(flatten)]
        page: Paging,
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
        filter: DeadLetterParameters,
    },
    /// Count dead letters
    Count {
        #[command(flatten)]
        filter: DeadLetterParameters,
    },
    /// Print a shared access signature of Service Bus for one queue of dead letters
    ///
    /// Whoever has it can read and remove the dead letters of this event subscription, and nothing else.
    Token(DeadLetterToken),
    /// Remove dead letters from their queues for good
    ///
    /// Without --yes it only counts them. Those that a receiver has locked stay.
    Purge {
        #[command(flatten)]
        filter: DeadLetterParameters,
        /// All dead letters, where there is no filter
        #[arg(long)]
        all: bool,
        /// Apply instead of only counting
        #[arg(long)]
        yes: bool,
    },
    /// Write dead letters to files, in the layout and the shape of Azure's storage
    ///
    /// They stay in their queues.
    Export(Box<ExportDeadLetterFiles>),
    /// Deliver the events of such files again, Azure's own or exported ones
    ///
    /// Without --yes it only counts them.
    Import(ImportDeadLetterFiles),
    /// Deliver again, as new deliveries with all their attempts before them
    Resubmit(Box<Resubmit>),
}

#[derive(Args, Debug)]
pub(super) struct DeadLetterToken {
    /// Topic of the event subscription
    #[arg(long)]
    topic: String,
    /// The event subscription
    #[arg(long)]
    subscription: String,
    /// Hours for which it is valid
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=8_784))]
    hours: u32,
}

impl Run for DeadLettersCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        match self {
            Self::List { filter, page } => {
                let request = server.get(PATH).query(filter).query(page);
                request.show(DEAD_LETTERS).await
            }
            Self::Show { delivery } => {
                let now = Clock::system().now();
                let view = |found: &ShownDeadLetter, screen| details(found, now, screen);
                server.get(PATH).at(delivery).show_as(view).await
            }
            Self::Watch { filter } => watch::until_interrupted(server, filter).await,
            Self::Count { filter } => {
                let count = |counted: &Value, _| format!("{}\n", text(counted, "/count"));
                server.get(PATH).at("count").query(filter).show(count).await
            }
            Self::Token(token) => token.run(server),
            Self::Purge { filter, all, yes } => {
                let filter = purge_filter(&filter, all)?;
                if yes {
                    server.show(&purge(server, &filter).await?, purged)
                } else {
                    server
                        .get(PATH)
                        .at("count")
                        .query(filter)
                        .show(purged)
                        .await
                }
            }
            Self::Export(export) => export.run(server).await,
            Self::Import(import) => import.run(server).await,
            Self::Resubmit(resubmit) => resubmit.run(server).await,
        }
    }
}

impl DeadLetterToken {
    fn run(&self, server: &RemoteServer) -> anyhow::Result<()> {
        let access = &server.access;
        let missing = || format!("there is no management token in {}", access.token_origin);
        let key = access.token.as_ref().with_context(missing)?;
        let until = Clock::system().now() + Duration::from_secs(3_600 * u64::from(self.hours));
        let queue = queue_path(&self.topic, &self.subscription);
        let queue = format!("{}{queue}", access.url.as_str().trim_end_matches('/'));
        let token = sign(&queue, ROOT_RULE, until, key);
        let shown = json!({ "queue": queue, "token": token, "expiresAt": until.to_string() });
        server.show(&shown, |_: &_, _| format!("{token}\n"))
    }
}

/// A purge has to say what it means.
fn purge_filter(filter: &DeadLetterParameters, all: bool) -> anyhow::Result<Value> {
    let filter = given(filter);
    match (filter.is_empty(), all) {
        (true, false) => bail!("a purge needs a filter, or --all where all dead letters are meant"),
        (false, true) => bail!("--all cannot be combined with a filter"),
        (true, true) => Ok(json!({ "all": true })),
        (false, false) => Ok(Value::Object(filter)),
    }
}

/// Removes batch by batch, and says how far it is.
async fn purge(server: &RemoteServer, filter: &Value) -> anyhow::Result<Value> {
    let (mut removed, mut locked) = (0, 0);
    let batches = server.post(PATH).at("purge").query(filter);
    batches
        .pages(async |batch| {
            removed += number(batch, "/removed");
            locked += number(batch, "/locked");
            if !batch["nextBefore"].is_null() {
                note(&format!("{removed} removed so far"));
            }
            Ok(())
        })
        .await?;
    Ok(json!({ "removed": removed, "locked": locked }))
}

fn purged(purged: &Value, _: Screen) -> String {
    let letters = |pointer| plural(number(purged, pointer), "dead letter", "dead letters");
    match (purged["count"].is_u64(), number(purged, "/locked")) {
        (true, _) => format!(
            "{} would be removed; add --yes to apply\n",
            letters("/count")
        ),
        (false, 0) => format!("{} removed\n", letters("/removed")),
        (false, locked) => format!(
            "{} removed; {locked} locked by receivers stay\n",
            letters("/removed")
        ),
    }
}

const DEAD_LETTERS: ListFormat = ListFormat {
    none: "no dead letters",
    columns: &[
        ("DELIVERY", Word("/deliveryId")),
        ("DEAD-LETTERED (UTC)", Time("/endedAt")),
        ("SUBSCRIPTION", Of(subscription)),
        ("REASON", Word("/deadLetterReason")),
        ("STATUS", Word("/lastHttpStatusCode")),
        ("TYPE", Text("/eventType")),
        ("EVENT ID", Text("/eventId")),
    ],
};

/// `orders/billing`
fn subscription(delivery: &Value) -> String {
    format!(
        "{}/{}",
        text(delivery, "/topic"),
        text(delivery, "/subscription")
    )
}

/// A dead letter as the server shows it.
#[derive(Deserialize)]
struct ShownDeadLetter {
    event: EventWithData,
    #[serde(flatten)]
    delivery: Value,
}

fn details(dead_letter: &ShownDeadLetter, now: Timestamp, screen: Screen) -> String {
    let timeline = timeline(&dead_letter.delivery, now, screen);
    format!("{}\n{timeline}", dead_letter.event.details())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use axum::extract::Query;
    use axum::routing::post;
    use axum::{Json, Router};

    use super::*;
    use crate::app::cli::output::View;
    use crate::app::cli::request::tests::serving;

    #[test]
    fn dead_letters_are_listed_in_120_columns() {
        let row = |reason: &str, id: &str| json!({ "deliveryId": 5, "endedAt": "2026-11-21T06:41:00Z", "topic": "orders", "subscription": "billing", "deadLetterReason": reason, "lastHttpStatusCode": 503, "eventId": id, "eventType": "Order.Paid" });
        let page = json!({ "value": [
            row("UndeliverableDueToHttpBadRequest", "9e4b4e80-9a0a-4a79-8d3c-33f8c0a37f1f"),
            row("TimeToLiveExceeded", "a-1"),
        ] });
        let screen = Screen {
            width: Some(120),
            is_colored: false,
        };
        assert_eq!(DEAD_LETTERS.text(&page, screen), "\
DELIVERY  DEAD-LETTERED (UTC)  SUBSCRIPTION    REASON                            STATUS  TYPE        EVENT ID
5         2026-11-21 06:41:00  orders/billing  UndeliverableDueToHttpBadRequest  503     Order.Paid  9e4b4e80-9a0a-4a…
5         2026-11-21 06:41:00  orders/billing  TimeToLiveExceeded                503     Order.Paid  a-1
");
    }

    #[test]
    fn a_dead_letter_is_shown_with_its_event() {
        let dead_letter = r#"{"deliveryId":5,"topic":"orders","subscription":"billing","state":"DeadLettered","event":{"key":12,"data":1.10}}"#;
        let dead_letter: ShownDeadLetter =
            serde_json::from_str(dead_letter).expect("a dead letter");
        let expected =
            "event  12\ndata\n  1.10\n\nbilling (topic orders): DeadLettered; delivery 5\n";
        let details = details(&dead_letter, Timestamp::from_ms(0), Screen::default());
        assert_eq!(details, expected);
    }

    #[test]
    fn a_purge_needs_a_filter_or_all() {
        let filter = DeadLetterParameters {
            topic: Some("orders".to_owned()),
            ..DeadLetterParameters::default()
        };
        let topic = json!({ "topic": "orders" });
        assert_eq!(purge_filter(&filter, false).expect("a filter"), topic);
        assert!(purge_filter(&filter, true).is_err());
        let none = DeadLetterParameters::default();
        assert!(purge_filter(&none, false).is_err());
        let all = json!({ "all": true });
        assert_eq!(purge_filter(&none, true).expect("all"), all);
    }

    #[tokio::test]
    async fn a_purge_goes_on_until_there_is_no_more() {
        let batch = async |Query(query): Query<HashMap<String, String>>| {
            let before = query.get("before").map_or("9", String::as_str);
            Json(match before {
                "9" => json!({ "removed": 5, "locked": 1, "nextBefore": 4 }),
                _ => json!({ "removed": 2, "locked": 0, "nextBefore": null }),
            })
        };
        let server = serving(Router::new().route("/everpost/deadLetters/purge", post(batch))).await;
        let done = purge(&server, &json!({ "all": true })).await;
        let done = done.expect("purged");
        assert_eq!(done, json!({ "removed": 7, "locked": 1 }));
        let text = |done: &Value| purged(done, Screen::default());
        assert_eq!(
            text(&done),
            "7 dead letters removed; 1 locked by receivers stay\n"
        );
        assert!(text(&json!({ "count": 3 })).contains("--yes"));
    }
}
