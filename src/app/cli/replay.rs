//! `everpost replay`: resubmitting many at once.

use std::fmt;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::app::cli::confirm::confirm;
use crate::app::cli::output::{Screen, items, number, plural, text};
use crate::app::cli::progress::ShownProgress;
use crate::app::cli::request::{RemoteServer, Run, given};
use crate::app::cli::table::Cell::{Of, Text, Time, Word};
use crate::app::cli::table::{ListFormat, NamedValues};
use crate::wire::query::{DeadLetterParameters, Paging};

const PATH: [&str; 2] = ["everpost", "replays"];

/// Deliveries that are resubmitted without a question.
const UNASKED_MAX: u64 = 100;

/// The pause between two looks at a running job.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Subcommand, Debug)]
pub(super) enum ReplaySubcommand {
    /// Resubmit the dead letters, or the delivered events, that match the flags
    Start(Box<Start>),
    /// List replay jobs, newest first
    List(Paging),
    /// Show one replay job, and follow it while it runs
    Show {
        /// Number of the replay job
        job: i64,
        /// Wait until it has ended
        #[arg(long)]
        follow: bool,
    },
    /// Pause a replay job
    Pause {
        /// Number of the replay job
        job: i64,
    },
    /// Resume a paused replay job
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
pub(super) struct Start {
    /// Events that were delivered, for a receiver that has lost them; takes --subscription
    #[arg(long, requires = "subscription")]
    delivered: bool,
    #[command(flatten)]
    filter: DeadLetterParameters,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    how: ReplayOptions,
}

/// How a replay job is started.
#[derive(Args, Clone, Debug)]
pub(super) struct ReplayOptions {
    /// Events per second [default: as fast as the receivers keep up]
    #[arg(long, value_name = "EVENTS")]
    rate: Option<f64>,
    /// Do not ask before many are sent
    #[arg(long)]
    yes: bool,
    /// Do not wait until the replay job has ended
    #[arg(long)]
    detach: bool,
}

/// Where to, if not only to their own subscription.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct TargetArgs {
    /// To this topic, as a new event that is matched again
    #[arg(long, value_name = "TOPIC", conflicts_with_all = ["to_own_topic", "to_url"])]
    to_topic: Option<String>,
    /// Each to its own topic, matched again: all of its event subscriptions may receive it
    #[arg(long, conflicts_with = "to_url")]
    to_own_topic: bool,
    /// In one request to this URL; what it rejects stays where it is
    #[arg(long, value_name = "URL")]
    to_url: Option<String>,
}

impl TargetArgs {
    /// The target as the API takes it.
    pub(super) fn to_json(&self) -> Value {
        match (&self.to_topic, self.to_own_topic, &self.to_url) {
            (Some(topic), _, _) => json!({ "kind": "Topic", "topic": topic }),
            (None, true, _) => json!({ "kind": "Topic" }),
            (None, false, Some(url)) => json!({ "kind": "Url", "url": url }),
            (None, false, None) => json!({ "kind": "Subscription" }),
        }
    }

    /// Returns whether the target is a URL, to which each event is sent in a request of its own.
    pub(super) fn is_url(&self) -> bool {
        self.to_url.is_some()
    }
}

/// The end of a sentence about what is sent. A URL may hold a secret.
impl fmt::Display for TargetArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.to_topic, self.to_own_topic, &self.to_url) {
            (Some(topic), _, _) => write!(f, "to the topic {topic}"),
            (None, true, _) => f.write_str("each to its own topic"),
            (None, false, Some(_)) => f.write_str("to the URL"),
            (None, false, None) => f.write_str("each to its own event subscription"),
        }
    }
}

impl Run for ReplaySubcommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        match self {
            Self::Start(start) => {
                let kind = if start.delivered {
                    "Delivered"
                } else {
                    "DeadLetters"
                };
                let source = json!({ "kind": kind, "filter": given(&start.filter) });
                begin(server, &source, &start.target, &start.how).await
            }
            Self::List(page) => server.get(PATH).query(page).show(JOBS).await,
            Self::Show { job, follow: true } => server.show(&follow(server, job).await?, details),
            Self::Show { job, follow: false } => server.get(PATH).at(job).show(details).await,
            Self::Pause { job } => server.post(PATH).at(job).at("pause").show(details).await,
            Self::Resume { job } => server.post(PATH).at(job).at("resume").show(details).await,
            Self::Cancel { job } => server.post(PATH).at(job).at("cancel").show(details).await,
        }
    }
}

/// Counts, asks, starts and watches.
pub(super) async fn begin(
    server: &RemoteServer,
    source: &Value,
    target: &TargetArgs,
    how: &ReplayOptions,
) -> anyhow::Result<()> {
    let mut body = json!({ "source": source, "target": target.to_json() });
    if let Some(rate) = how.rate {
        body["eventsPerSecond"] = rate.into();
    }
    let preview = server.post(PATH).at("preview").json(&body).send().await?;
    let total = preview["total"]
        .as_u64()
        .context("the server does not count")?;
    if total == 0 {
        return server.show(&preview, |_: &_, _| "nothing to resubmit\n".to_owned());
    }
    if total > UNASKED_MAX && !how.yes {
        let deliveries = plural(total, "delivery", "deliveries");
        let question = format!("This resubmits {deliveries}, {target}.");
        confirm(&question, "nothing was sent")?;
    }
    let job = server.post(PATH).json(&body).send().await?;
    let id = job["id"]
        .as_i64()
        .context("the server starts no replay job")?;
    let job = if how.detach {
        job
    } else {
        follow(server, id).await?
    };
    server.show(&job, details)
}

/// Watches a job until it has ended or is paused, and returns it as it is then.
async fn follow(server: &RemoteServer, id: i64) -> anyhow::Result<Value> {
    let mut progress = None;
    loop {
        let job = server.get(PATH).at(id).send().await?;
        if job["state"] != "Running" {
            return Ok(job);
        }
        let total = Some(number(&job, "/total"));
        let shown = progress.get_or_insert_with(|| ShownProgress::new(total));
        shown.set(number(&job, "/done"), &remarks(&job));
        tokio::time::sleep(PAUSE).await;
    }
}

/// `, 1 skipped, held by orders/billing`
fn remarks(job: &Value) -> String {
    let mut remarks = String::new();
    for (pointer, word) in [("/skipped", "skipped"), ("/failed", "failed")] {
        match number(job, pointer) {
            0 => {}
            count => remarks.push_str(&format!(", {count} {word}")),
        }
    }
    match text(job, "/waitsFor").as_str() {
        "" => remarks,
        receiver => format!("{remarks}, held by {receiver}"),
    }
}

const JOBS: ListFormat = ListFormat {
    none: "no replay jobs",
    columns: &[
        ("JOB", Word("/id")),
        ("STARTED (UTC)", Time("/createdAt")),
        ("STATE", Word("/state")),
        ("OF", Text("/source/kind")),
        ("TO", Of(destination)),
        ("DONE", Word("/done")),
        ("TOTAL", Word("/total")),
        ("SKIPPED", Word("/skipped")),
        ("FAILED", Word("/failed")),
    ],
};

/// `Subscription`, `Topic orders`, `Url https://…`.
fn destination(job: &Value) -> String {
    let words = ["/target/kind", "/target/topic", "/target/url"].map(|pointer| text(job, pointer));
    words.join(" ").trim_end().to_owned()
}

fn details(job: &Value, _: Screen) -> String {
    let mut lines = NamedValues::default();
    lines.add("replay job", text(job, "/id"));
    lines.add("state", text(job, "/state"));
    lines.add("of", text(job, "/source/kind"));
    let filter = job.pointer("/source/filter").and_then(Value::as_object);
    for (name, value) in filter.into_iter().flatten() {
        lines.add(format!("  {name}"), text(value, ""));
    }
    lines.add("to", destination(job));
    lines.add("events per second", text(job, "/eventsPerSecond"));
    lines.time("started", job, "/createdAt");
    lines.time("ended", job, "/endedAt");
    lines.add("total", text(job, "/total"));
    lines.add("done", text(job, "/done"));
    lines.add("resubmitted", text(job, "/resubmitted"));
    lines.add("  delivered", text(job, "/fates/delivered"));
    lines.add("  dead-lettered again", text(job, "/fates/givenUp"));
    lines.add("  pending", text(job, "/fates/waiting"));
    let reasons = job.pointer("/skippedReasons").and_then(Value::as_object);
    for (reason, count) in reasons.into_iter().flatten() {
        lines.add(format!("skipped, {reason}"), text(count, ""));
    }
    lines.add("failed", text(job, "/failed"));
    lines.add("held by", text(job, "/waitsFor"));
    let errors = items(job, "/errors").iter().map(|error| {
        let (delivery, error) = (text(error, "/deliveryId"), text(error, "/error"));
        format!("delivery {delivery}: {error}\n")
    });
    format!("{lines}{}", errors.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::cli::output::View;

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
    fn flags_become_what_the_server_takes() {
        let target = TargetArgs::default();
        assert_eq!(target.to_json(), json!({ "kind": "Subscription" }));
        let target = TargetArgs {
            to_own_topic: true,
            ..target
        };
        assert_eq!(target.to_json(), json!({ "kind": "Topic" }));
    }

    #[test]
    fn a_replay_job_is_shown_with_what_went_wrong() {
        assert_eq!(
            details(&job(), Screen::default()),
            "\
replay job             3
state                  Running
of                     DeadLetters
  status               503
  topic                orders
to                     Topic other
events per second      2.5
started                2026-11-21 06:41:00.000
total                  10
done                   4
resubmitted            3
  delivered            2
  dead-lettered again  0
  pending              1
skipped, Unmatched     1
failed                 0
held by                orders/billing
delivery 7: nobody wants it
"
        );
    }

    #[test]
    fn replay_jobs_are_listed_in_columns() {
        let page = json!({ "value": [job()], "nextBefore": 3 });
        assert_eq!(
            JOBS.text(&page, Screen::default()),
            "\
JOB  STARTED (UTC)        STATE    OF           TO           DONE  TOTAL  SKIPPED  FAILED
3    2026-11-21 06:41:00  Running  DeadLetters  Topic other  4     10     1        0
there is more: add --before 3
"
        );
    }

    #[test]
    fn progress_says_what_is_out_of_the_ordinary() {
        assert_eq!(remarks(&job()), ", 1 skipped, held by orders/billing");
        assert_eq!(remarks(&json!({ "skipped": 0 })), "");
    }
}
