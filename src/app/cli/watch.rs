//! `everpost dead-letters watch`: new dead letters as they come.
//!
//! They are asked for by the moment at which they were given up, since an old delivery may become one at any
//! time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::app::cli::client::Client;
use crate::app::cli::dead_letter_filter::DeadLetterFilter;
use crate::app::cli::moment::date;
use crate::app::cli::output::{Output, items, moment, print, tell, text};
use crate::app::interrupt::interrupted;
use crate::base::Timestamp;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// How far a look goes back: what is given up first is not always stored first.
const OVERLAP: Duration = Duration::from_secs(5);

/// Dead letters asked for at once.
const PAGE: &str = "200";

/// Widths of the columns but the last; longer texts move the rest of their line.
const WIDTHS: [usize; 5] = [23, 8, 30, 30, 6];

const HEAD: [&str; 6] = [
    "GIVEN UP (UTC)",
    "DELIVERY",
    "SUBSCRIPTION",
    "REASON",
    "STATUS",
    "EVENT",
];

/// Where watching stands.
#[derive(Debug)]
struct Watch {
    /// Nothing from before is shown.
    began_at: Timestamp,
    /// When the last one that is shown was given up.
    last_at: Timestamp,
    /// What has been shown and is still asked for: when each was given up.
    shown: BTreeMap<i64, Timestamp>,
}

/// Prints what comes, and ends with Ctrl-C.
pub(super) async fn until_interrupted(
    client: &Client,
    output: Output,
    filter: DeadLetterFilter,
) -> anyhow::Result<()> {
    let since = match &filter.from {
        Some(from) => from.parse()?,
        None => client.server_time().await?,
    };
    let mut watch = Watch::new(since);
    tell(&format!(
        "watching what is given up from {since} on; Ctrl-C ends"
    ));
    if !output.is_json() {
        print(&line(&HEAD.map(str::to_owned)))?;
    }
    tokio::select! {
        ended = watch.go_on(client, output, filter) => ended,
        () = interrupted() => Ok(()),
    }
}

impl Watch {
    fn new(began_at: Timestamp) -> Self {
        Self {
            began_at,
            last_at: began_at,
            shown: BTreeMap::new(),
        }
    }

    /// From when on dead letters are asked for.
    fn since(&self) -> Timestamp {
        self.began_at.max(self.last_at - OVERLAP)
    }

    async fn go_on(
        &mut self,
        client: &Client,
        output: Output,
        mut filter: DeadLetterFilter,
    ) -> anyhow::Result<()> {
        loop {
            filter.from = Some(self.since().to_string());
            match all(client, &filter).await {
                Ok(found) => {
                    for each in self.new_ones(found) {
                        print(&match output.is_json() {
                            true => format!("{each}\n"),
                            false => line(&cells(&each)),
                        })?;
                    }
                }
                // The server may be about to start again.
                Err(error) => tell(&format!("{error:#}; still watching")),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Those that have not been shown, in the order in which they were given up.
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

async fn all(client: &Client, filter: &DeadLetterFilter) -> anyhow::Result<Vec<Value>> {
    let mut found = Vec::new();
    let mut before: Option<i64> = None;
    loop {
        let page = [("limit", PAGE.to_owned())].into_iter();
        let page = page.chain(before.map(|before| ("before", before.to_string())));
        let query: Vec<_> = filter.query().into_iter().chain(page).collect();
        let page = client.get(&["everpost", "deadLetters"], &query).await?;
        found.extend_from_slice(items(&page, "/value"));
        let next = page["nextBefore"].as_i64();
        // Each page lies below the last: a server that breaks this is not followed in circles.
        match next.filter(|next| before.is_none_or(|before| *next < before)) {
            Some(next) => before = Some(next),
            None => return Ok(found),
        }
    }
}

fn cells(each: &Value) -> [String; 6] {
    let of = |names: [&str; 2], between: &str| names.map(|name| text(each, name)).join(between);
    [
        date(moment(each, "/endedAt")),
        text(each, "/deliveryId"),
        of(["/topic", "/subscription"], "/"),
        text(each, "/deadLetterReason"),
        text(each, "/lastHttpStatusCode"),
        of(["/eventType", "/eventId"], " "),
    ]
}

fn line(cells: &[String; 6]) -> String {
    let mut line = String::new();
    for (place, cell) in cells.iter().enumerate() {
        let width = WIDTHS.get(place).copied().unwrap_or_default();
        line.push_str(&format!("{cell:<width$}  "));
    }
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given_up(id: i64, at: &str) -> Value {
        json!({"deliveryId": id, "endedAt": at, "topic": "orders", "subscription": "billing",
            "deadLetterReason": "TimeToLiveExceeded", "lastHttpStatusCode": 503,
            "eventType": "Order.Paid", "eventId": "a-1"})
    }

    #[test]
    fn each_is_shown_once_in_the_order_of_giving_up() {
        let mut watch = Watch::new("2026-11-21T06:40:00Z".parse().expect("a moment"));
        let (early, late) = ("2026-11-21T06:41:00Z", "2026-11-21T06:42:00Z");
        let mut ids = |found: Vec<Value>| -> Vec<i64> {
            let new = watch.new_ones(found).into_iter();
            new.filter_map(|each| each["deliveryId"].as_i64()).collect()
        };
        assert_eq!(ids(vec![given_up(9, early), given_up(5, late)]), [9, 5]);
        assert_eq!(ids(vec![given_up(5, late)]), [0; 0]);
        // Two in the same millisecond, and an old delivery after them.
        assert_eq!(ids(vec![given_up(5, late), given_up(6, late)]), [6]);
        let later = "2026-11-21T06:43:00Z";
        assert_eq!(ids(vec![given_up(6, late), given_up(1, later)]), [1]);
        // Given up first, and stored last.
        let before = "2026-11-21T06:42:58Z";
        assert_eq!(ids(vec![given_up(1, later), given_up(3, before)]), [3]);
    }

    #[test]
    fn lines_stand_below_their_head() {
        let line = line(&cells(&given_up(5, "2026-11-21T06:41:00Z")));
        assert!(
            line.starts_with("2026-11-21 06:41:00.000  5         orders/billing "),
            "{line}"
        );
        assert!(line.ends_with("503     Order.Paid a-1\n"), "{line}");
    }
}
