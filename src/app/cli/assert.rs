//! `everpost assert`: for scripts and tests, which wait for an outcome, or fail.

use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand, value_parser};
use serde_json::json;

use crate::app::cli::output::{items, plural, print};
use crate::app::cli::request::{RemoteServer, Run};
use crate::base::{Stopwatch, human};
use crate::store::views::PAGE_ROWS_MAX;
use crate::wire::query::EventParameters;

/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// The most events to wait for: as many as one page lists.
const COUNT_MAX: u64 = PAGE_ROWS_MAX as u64;

#[derive(Subcommand, Debug)]
pub(super) enum AssertCommand {
    /// Wait until events have been delivered; the exit code is 1 if they are not delivered in time
    Delivered(Box<Delivered>),
}

#[derive(Args, Debug)]
pub(super) struct Delivered {
    #[command(flatten)]
    filter: EventParameters,
    /// How many events to wait for, up to 200
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = value_parser!(u64).range(1..=COUNT_MAX))]
    count: u64,
    /// How long to wait for them, like 10s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = human::span_argument)]
    within: Duration,
}

impl Run for AssertCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let Self::Delivered(wanted) = self;
        let filter = EventParameters {
            state: Some("Delivered".to_owned()),
            ..wanted.filter
        };
        let waiting = Stopwatch::begin();
        loop {
            let events = server
                .get(["everpost", "events"])
                .query(&filter)
                .query(json!({ "limit": wanted.count }))
                .send()
                .await?;
            let found = items(&events, "/value").len() as u64;
            let delivered = plural(found, "event", "events");
            if found >= wanted.count {
                return Ok(print(&format!("{delivered} delivered\n"))?);
            }
            if waiting.took() >= wanted.within {
                let (count, within) = (wanted.count, human::span(wanted.within));
                bail!("{delivered} of {count} delivered within {within}");
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}
