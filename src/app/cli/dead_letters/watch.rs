//! `everpost dead-letters watch`: new dead letters as they come.
//!
//! Dead letters are queried by the time at which they were dead-lettered, since an old delivery can be dead-lettered
//! at any time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::app::cli::dead_letters::{DEAD_LETTERS, PATH};
use crate::app::cli::output::{items, json_for_stdout, moment, note, print, print_exactly};
use crate::app::cli::request::{RemoteServer, given};
use crate::app::interrupt::interrupted;
use crate::base::Timestamp;
use crate::wire::query::DeadLetterParameters;

/// Pause between two queries.
const PAUSE: Duration = Duration::from_secs(1);

/// Time by which queries overlap: dead letters are not always stored in the order in which they were dead-lettered.
const OVERLAP: Duration = Duration::from_secs(5);

/// Maximum number of dead letters per query.
const PAGE: u32 = 200;

/// Widths of the columns of the list; longer texts move the rest of their line.
const WIDTHS: [usize; 7] = [8, 19, 25, 32, 6, 20, 0];

/// Position in the stream of dead letters.
#[derive(Debug)]
struct WatchPosition {
    /// Time before which nothing is shown.
    began_at: Timestamp,
    /// Time at which the last dead letter shown was dead-lettered.
    last_at: Timestamp,
    /// The deliveries that have been shown and may be listed again, with the moments when they were dead-lettered.
    shown: BTreeMap<i64, Timestamp>,
}

/// Prints new dead letters until Ctrl-C.
pub(super) async fn until_interrupted(
    server: &RemoteServer,
    filter: DeadLetterParameters,
) -> anyhow::Result<()> {
    let since = match &filter.from {
        Some(from) => from.parse()?,
        None => server.time().await?,
    };
    note(&format!("watching dead letters since {since}; Ctrl-C ends"));
    if !server.output.is_json() {
        let head = DEAD_LETTERS
            .columns
            .iter()
            .map(|(name, _)| (*name).to_owned());
        print(&line(head))?;
    }
    let mut watch = WatchPosition::new(since);
    tokio::select! {
        ended = watch.go_on(server, &filter) => ended,
        () = interrupted() => Ok(()),
    }
}

impl WatchPosition {
    fn new(began_at: Timestamp) -> Self {
        Self {
            began_at,
            last_at: began_at,
            shown: BTreeMap::new(),
        }
    }

    /// Returns the time from which dead letters are queried.
    fn since(&self) -> Timestamp {
        self.began_at.max(self.last_at - OVERLAP)
    }

    async fn go_on(
        &mut self,
        server: &RemoteServer,
        filter: &DeadLetterParameters,
    ) -> anyhow::Result<()> {
        let mut filter = given(filter);
        loop {
            filter.insert("from".to_owned(), self.since().to_string().into());
            let mut found = Vec::new();
            let request = server
                .get(PATH)
                .query(&filter)
                .query(json!({ "limit": PAGE }));
            let looked = request.pages(async |page| {
                found.extend_from_slice(items(page, "/value"));
                Ok(())
            });
            match looked.await {
                Ok(()) => {
                    for each in self.new_ones(found) {
                        if server.output.is_json() {
                            print_exactly(&json_for_stdout(format!("{each}\n")))?;
                        } else {
                            print(&row(&each))?;
                        }
                    }
                }
                // The server may be restarting.
                Err(error) => note(&format!("{error:#}; still watching")),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns the dead letters that have not been shown, in the order in which they were dead-lettered.
    fn new_ones(&mut self, found: Vec<Value>) -> Vec<Value> {
        let key = |each: &Value| Some((moment(each, "/endedAt")?, each["deliveryId"].as_i64()?));
        let keyed = found
            .into_iter()
            .filter_map(|each| Some((key(&each)?, each)));
        let is_new = |((_, id), _): &((_, i64), Value)| !self.shown.contains_key(id);
        let mut fresh: Vec<_> = keyed.filter(is_new).collect();
        fresh.sort_by_key(|(key, _)| *key);
        for ((at, id), _) in &fresh {
            self.last_at = self.last_at.max(*at);
            self.shown.insert(*id, *at);
        }
        let since = self.since();
        self.shown.retain(|_, at| *at >= since);
        fresh.into_iter().map(|(_, each)| each).collect()
    }
}

fn row(dead_letter: &Value) -> String {
    line(
        DEAD_LETTERS
            .columns
            .iter()
            .map(|(_, cell)| cell.text(dead_letter)),
    )
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let line: String = cells
        .zip(WIDTHS)
        .map(|(cell, width)| format!("{cell:<width$}  "))
        .collect();
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dead_letter(id: i64, at: &str) -> Value {
        json!({"deliveryId": id, "endedAt": at, "topic": "orders", "subscription": "billing",
            "deadLetterReason": "TimeToLiveExceeded", "lastHttpStatusCode": 503,
            "eventType": "Order.Paid", "eventId": "a-1"})
    }

    #[test]
    fn each_is_shown_once_in_the_order_of_their_ends() {
        let mut watch = WatchPosition::new("2026-11-21T06:40:00Z".parse().expect("a moment"));
        let (early, late) = ("2026-11-21T06:41:00Z", "2026-11-21T06:42:00Z");
        let mut ids = |found: Vec<Value>| -> Vec<i64> {
            let new = watch.new_ones(found).into_iter();
            new.filter_map(|each| each["deliveryId"].as_i64()).collect()
        };
        assert_eq!(
            ids(vec![dead_letter(9, early), dead_letter(5, late)]),
            [9, 5]
        );
        assert_eq!(ids(vec![dead_letter(5, late)]), [0; 0]);
        // Two in the same millisecond, and an old delivery after them.
        assert_eq!(ids(vec![dead_letter(5, late), dead_letter(6, late)]), [6]);
        let later = "2026-11-21T06:43:00Z";
        assert_eq!(ids(vec![dead_letter(6, late), dead_letter(1, later)]), [1]);
        // Dead-lettered first, and stored last.
        let before = "2026-11-21T06:42:58Z";
        assert_eq!(
            ids(vec![dead_letter(1, later), dead_letter(3, before)]),
            [3]
        );
    }

    #[test]
    fn lines_stand_below_their_head() {
        let row = row(&dead_letter(5, "2026-11-21T06:41:00Z"));
        assert!(
            row.starts_with("5         2026-11-21 06:41:00  orders/billing "),
            "{row}"
        );
        assert!(
            row.ends_with("503     Order.Paid            a-1\n"),
            "{row}"
        );
    }
}
