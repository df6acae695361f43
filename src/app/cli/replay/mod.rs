//! `everpost replay`: sending again in great numbers.

mod progress;
mod request;

use std::io::{self, BufRead, IsTerminal};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

pub(super) use self::progress::follow;
pub(super) use self::request::TargetArgs;
use crate::app::cli::client::Client;
use crate::app::cli::dead_letter_filter::DeadLetterFilter;
use crate::app::cli::events::{Page, more};
use crate::app::cli::moment::date;
use crate::app::cli::output::{Output, items, moment, print, text};
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::Table;

const PATH: [&str; 2] = ["everpost", "replays"];

/// Deliveries that are sent again without a question.
const UNASKED_MAX: u64 = 100;

/// Send again in great numbers: start replay jobs, watch them, stop them
#[derive(Args, Debug)]
pub(super) struct ReplayArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: ReplayCommand,
}

#[derive(Subcommand, Debug)]
enum ReplayCommand {
    /// Send again the dead letters, or the delivered events, that the flags mean
    Start(Box<Start>),
    /// List replay jobs, newest first
    List {
        #[command(flatten)]
        page: Page,
    },
    /// Show one replay job, and follow it while it runs
    Show {
        /// Number of the replay job
        job: i64,
        /// Wait until it is over
        #[arg(long)]
        follow: bool,
    },
    /// Let a replay job rest
    Pause {
        /// Number of the replay job
        job: i64,
    },
    /// Let a paused replay job go on
    Resume {
        /// Number of the replay job
        job: i64,
    },
    /// End a replay job; what it has sent stays sent
    Cancel {
        /// Number of the replay job
        job: i64,
    },
}

#[derive(Args, Debug)]
struct Start {
    /// Events that were delivered, for a receiver that has lost them; takes --subscription
    #[arg(long, requires = "subscription")]
    delivered: bool,
    #[command(flatten)]
    filter: DeadLetterFilter,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    how: How,
}

/// How a replay job is started.
#[derive(Args, Clone, Debug)]
pub(super) struct How {
    /// Events per second [default: as fast as the receivers keep up]
    #[arg(long, value_name = "EVENTS")]
    rate: Option<f64>,
    /// Do not ask before many are sent
    #[arg(long)]
    yes: bool,
    /// Do not wait until the replay job is over
    #[arg(long)]
    detach: bool,
}

impl ReplayArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(self.server.find()?)?;
        let output = self.output;
        match self.command {
            ReplayCommand::Start(start) => {
                let kind = if start.delivered {
                    "Delivered"
                } else {
                    "DeadLetters"
                };
                let source = json!({ "kind": kind, "filter": start.filter.to_json() });
                begin(&client, output, &source, &start.target, &start.how).await?;
            }
            ReplayCommand::List { page } => {
                let query: Vec<_> = page.query().collect();
                let found = client.get(&PATH, &query).await?;
                output.show(&found, list)?;
            }
            ReplayCommand::Show { job, follow: true } => {
                let job = follow(&client, output, job).await?;
                output.show(&job, sheet)?;
            }
            ReplayCommand::Show { job, follow: false } => {
                let job = client
                    .get(&[PATH[0], PATH[1], &job.to_string()], &[])
                    .await?;
                output.show(&job, sheet)?;
            }
            ReplayCommand::Pause { job } => command(&client, output, job, "pause").await?,
            ReplayCommand::Resume { job } => command(&client, output, job, "resume").await?,
            ReplayCommand::Cancel { job } => command(&client, output, job, "cancel").await?,
        }
        Ok(())
    }
}

/// Counts, asks, starts and watches.
pub(super) async fn begin(
    client: &Client,
    output: Output,
    source: &Value,
    target: &TargetArgs,
    how: &How,
) -> anyhow::Result<()> {
    let mut body = json!({ "source": source, "target": target.to_json() });
    if let Some(rate) = how.rate {
        body["eventsPerSecond"] = rate.into();
    }
    let path = [PATH[0], PATH[1], "preview"];
    let preview = client.send(Method::POST, &path, Some(&body)).await?;
    let total = preview["total"]
        .as_u64()
        .context("the server does not count")?;
    if total == 0 {
        output.show(&preview, |_| "nothing to send again\n".to_owned())?;
        return Ok(());
    }
    if total > UNASKED_MAX && !how.yes {
        ask(&format!(
            "{total} deliveries would be sent again, {target}."
        ))?;
    }
    let job = client.send(Method::POST, &PATH, Some(&body)).await?;
    let id = job["id"]
        .as_i64()
        .context("the server starts no replay job")?;
    let job = match how.detach {
        true => job,
        false => follow(client, output, id).await?,
    };
    Ok(output.show(&job, sheet)?)
}

/// Goes on after a yes alone.
fn ask(what: &str) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() {
        bail!("{what} Say --yes if that is meant");
    }
    print(&format!("{what} Go on? [y/N] "))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => bail!("nothing was sent"),
    }
}

async fn command(client: &Client, output: Output, job: i64, verb: &str) -> anyhow::Result<()> {
    let path = [PATH[0], PATH[1], &job.to_string(), verb];
    let job = client.send(Method::POST, &path, None).await?;
    Ok(output.show(&job, sheet)?)
}

fn list(page: &Value) -> String {
    let jobs = items(page, "/value");
    if jobs.is_empty() {
        return "no replay jobs\n".to_owned();
    }
    let mut table = Table::headed([
        "JOB",
        "STARTED (UTC)",
        "STATE",
        "OF",
        "TO",
        "DONE",
        "TOTAL",
        "SKIPPED",
        "FAILED",
    ]);
    for job in jobs {
        table.row([
            text(job, "/id"),
            date(moment(job, "/createdAt")),
            text(job, "/state"),
            text(job, "/source/kind"),
            destination(job),
            text(job, "/done"),
            text(job, "/total"),
            text(job, "/skipped"),
            text(job, "/failed"),
        ]);
    }
    format!("{table}{}", more(page))
}

/// `Subscription`, `Topic orders`, `Url https://…`.
fn destination(job: &Value) -> String {
    let words = ["/target/kind", "/target/topic", "/target/url"];
    let words = words.map(|pointer| text(job, pointer));
    words.join(" ").trim_end().to_owned()
}

fn sheet(job: &Value) -> String {
    let mut table = Table::sheet();
    table.line("replay job", text(job, "/id"));
    table.line("state", text(job, "/state"));
    table.line("of", text(job, "/source/kind"));
    let filter = job.pointer("/source/filter").and_then(Value::as_object);
    for (name, value) in filter.into_iter().flatten() {
        table.line(&format!("  {name}"), text(value, ""));
    }
    table.line("to", destination(job));
    table.line("events per second", text(job, "/eventsPerSecond"));
    table.line("started", date(moment(job, "/createdAt")));
    table.line("ended", date(moment(job, "/endedAt")));
    table.line("total", text(job, "/total"));
    table.line("done", text(job, "/done"));
    table.line("resubmitted", text(job, "/resubmitted"));
    table.line("  delivered", text(job, "/fates/delivered"));
    table.line("  given up again", text(job, "/fates/givenUp"));
    table.line("  waiting", text(job, "/fates/waiting"));
    let reasons = job.pointer("/skippedReasons").and_then(Value::as_object);
    for (reason, count) in reasons.into_iter().flatten() {
        table.line(&format!("skipped, {reason}"), text(count, ""));
    }
    table.line("failed", text(job, "/failed"));
    table.line("waits for", text(job, "/waitsFor"));
    let errors = items(job, "/errors").iter().map(|error| {
        let (delivery, error) = (text(error, "/deliveryId"), text(error, "/error"));
        format!("delivery {delivery}: {error}\n")
    });
    format!("{table}{}", errors.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Value {
        json!({
            "id": 3, "state": "Running", "createdAt": "2026-11-21T06:41:00Z", "endedAt": null,
            "source": {"kind": "DeadLetters", "filter": {"topic": "orders", "status": 503}},
            "target": {"kind": "Topic", "topic": "other"}, "eventsPerSecond": 2.5,
            "total": 10, "done": 4, "resubmitted": 3, "failed": 0, "skipped": 1,
            "skippedReasons": {"Unmatched": 1},
            "errors": [{"deliveryId": 7, "error": "nobody wants it"}], "waitsFor": "orders/billing",
            "fates": {"delivered": 2, "givenUp": 0, "waiting": 1},
        })
    }

    #[test]
    fn a_replay_job_is_shown_with_what_went_wrong() {
        assert_eq!(
            sheet(&job()),
            "\
replay job          3
state               Running
of                  DeadLetters
  status            503
  topic             orders
to                  Topic other
events per second   2.5
started             2026-11-21 06:41:00.000
total               10
done                4
resubmitted         3
  delivered         2
  given up again    0
  waiting           1
skipped, Unmatched  1
failed              0
waits for           orders/billing
delivery 7: nobody wants it
"
        );
    }

    #[test]
    fn replay_jobs_are_listed_in_columns() {
        let page = json!({ "value": [job()], "nextBefore": 3 });
        assert_eq!(
            list(&page),
            "\
JOB  STARTED (UTC)            STATE    OF           TO           DONE  TOTAL  SKIPPED  FAILED
3    2026-11-21 06:41:00.000  Running  DeadLetters  Topic other  4     10     1        0
there is more: add --before 3
"
        );
    }
}
