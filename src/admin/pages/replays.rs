//! The pages of replay jobs: the progress of each job, with actions to pause, resume and end it.

use std::time::Duration;

use axum::extract::Query;
use serde::{Deserialize, Serialize};

use crate::admin::action::{Call, Names, Question, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::forms::filled::FilledForm;
use crate::admin::lists::list::{ListPage, ROWS, cursor};
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::paths;
use crate::admin::site::{Site, existing, numbered};
use crate::admin::widgets::{Badge, Empty, Flash, Icon, Tone, filters, print};
use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::pace::Rate;
use crate::model::registry::Registry;
use crate::model::replay::{
    ReplayCommand, ReplayJob, ReplayJobId, ReplayState, ReplayTarget, Replayed,
};
use crate::model::subscription::SubscriptionId;
use crate::store::views::{REPLAY_RESULTS_MAX, ReplayResults};

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReplayPaging {
    before: String,
}

pub(crate) async fn list(Query(paging): Query<ReplayPaging>, call: Call) -> PageResult {
    let before = cursor(&paging.before).map(ReplayJobId);
    let found = call.views.replay_jobs(before, ROWS).await?;
    let paging = FilledForm::with(paging);
    let mut list = ListPage::new("/admin/replays", &paging).with_older(found.next_before, &paging);
    list.recipe = Recipe::list(&call, "replays", "replay list", &[]);
    list.of_page(found.rows.len(), ["replay job", "replay jobs"]);
    answer!("pages/replays.html", &call.visitor, "Replay jobs", {
        list: ListPage = list,
        jobs: Vec<ReplayJob> = found.rows,
    })
}

pub(crate) async fn show(call: Call<ReplayJob>) -> PageResult {
    let id = call.of.id;
    answer!("pages/replay.html", &call.visitor, format!("Replay job {id}"), {
        // The subscription whose backlog the job waits for.
        waits_for: Option<SubscriptionId> = call.broker.replay_blocked_by(id),
        // The results of the deliveries that the job has created, if it creates any.
        fates: Option<ReplayResults> = call.views.replay_results(&call.of).await?,
        recipe: Recipe = Recipe::one(&call, "replays", "replay show --follow", id),
        job: ReplayJob = call.of,
    })
}

fn badge(state: ReplayState) -> Badge {
    let (tone, icon) = match state {
        ReplayState::Running => (Tone::Rest, "replay"),
        ReplayState::Paused => (Tone::Rest, "pause"),
        ReplayState::Cancelled => (Tone::Rest, "none"),
        ReplayState::Completed => (Tone::Good, "ok"),
    };
    Badge::new(tone, state.name()).with(icon)
}

/// Returns how many dead letters the job sends. More of them may come between the count and the run.
fn total(job: &ReplayJob) -> u64 {
    job.request.total.max(job.progress.done())
}

fn percent(job: &ReplayJob) -> String {
    print::share(job.progress.done(), total(job))
}

fn skipped(job: &ReplayJob) -> u64 {
    job.progress.skipped.values().sum()
}

/// Describes a rate in words, such as `20 events per second` or `1 event every 17 min`.
fn speed(rate: Rate) -> String {
    match rate.in_1000_s() {
        1_000 => "1 event per second".to_owned(),
        rate @ 1_001.. => format!("{} events per second", f64::from(rate) / 1_000.0),
        _ => format!("1 event every {}", print::span(every(rate))),
    }
}

fn every(rate: Rate) -> Duration {
    Duration::from_millis(1_000_000 / u64::from(rate.in_1000_s()))
}

/// Returns the time of the next event of a job that waits more than one second between events; `None` for others.
fn next(job: &ReplayJob) -> Option<Timestamp> {
    let is_running = job.state == ReplayState::Running && job.progress.done() < total(job);
    let wait = job.request.rate.filter(|_| is_running).map(every)?;
    (wait > Duration::from_secs(1)).then(|| job.updated_at + wait)
}

/// Returns the time that the job still needs at its rate.
fn left(job: &ReplayJob) -> Option<Duration> {
    let is_running = job.state == ReplayState::Running;
    let rate = job.request.rate.filter(|_| is_running)?;
    let ms = (total(job) - job.progress.done()) * 1_000_000 / u64::from(rate.in_1000_s());
    Some(Duration::from_millis(ms))
}

/// Describes a filter in words, as pairs of criterion and value; empty for a filter that matches everything. A reason
/// that a receiver gave is shown as it is.
pub(crate) fn filters(
    filter: &DeadLetterFilter,
    registry: &Registry,
) -> Vec<(&'static str, String)> {
    // A filter by subscription needs no separate topic, since the subscription is shown with its topic.
    let topic = filter
        .topic
        .filter(|_| filter.subscription.is_none())
        .and_then(|id| registry.topic_by_id(id));
    let of = filter
        .subscription
        .and_then(|id| registry.subscription(id))
        .map(|(topic, each)| format!("{} / {}", topic.topic.name, each.name));
    let in_words = |reason: &String| match DeadLetterReason::from_name(reason) {
        Some(known) => known.title().to_owned(),
        None => reason.clone(),
    };
    let texts = [
        ("Topic", topic.map(|topic| topic.topic.name.to_string())),
        ("Event subscription", of),
        ("Reason", filter.reason.as_ref().map(in_words)),
        (
            "Last response",
            filter.outcome.map(|it| it.name().to_owned()),
        ),
        ("Last status", filter.status.map(|it| it.to_string())),
        ("Event type", filter.event_type.clone()),
        ("Subject", filter.subject.clone()),
        ("Ended from", filter.from.map(|at| at.to_string())),
        ("Ended before", filter.to.map(|at| at.to_string())),
        ("Text", filter.text.as_ref().map(|text| text.text.clone())),
    ];
    let said = |(label, text): (_, Option<String>)| Some((label, print::visible(&text?)));
    texts.into_iter().filter_map(said).collect()
}

impl Subject for ReplayJob {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let id = numbered("replay job", name_of(names, "id")).map(ReplayJobId)?;
        existing(site.views.replay_job(id).await?, "replay job", id)
    }

    fn page(&self) -> String {
        paths::replay_page(self.id)
    }
}

pub(crate) async fn ask_to_cancel(call: Call<ReplayJob>) -> PageResult<Question> {
    let (done, total) = (call.of.progress.done(), call.of.request.total);
    let left = print::plural(total.saturating_sub(done), "event is", "events are");
    let (done, total) = (print::count(done), print::count(total));
    Ok(Question::new(format!("Cancel replay job {}?", call.of.id))
        .would(format!("{left} not resubmitted."))
        .would(format!(
            "{done} of {total} were resubmitted; that is not undone."
        ))
        .dangerously())
}

pub(crate) async fn command(call: Call<ReplayJob>, command: ReplayCommand) -> PageResult<Flash> {
    let id = call.of.id;
    let job = call.broker.command_replay(call.by(), id, command).await?;
    let word = match job.state {
        ReplayState::Running => "is resumed",
        ReplayState::Paused => "is paused",
        ReplayState::Completed => "is complete",
        ReplayState::Cancelled => "is cancelled",
    };
    Ok(Flash::done(format!("Replay job {id} {word}.")))
}
