//! The pages of replay jobs: how far each has come, and how to pause, resume and end it.

use serde::{Deserialize, Serialize};

use crate::admin::forms::filled::Filled;
use crate::admin::page::*;
use crate::admin::paths::{dead_letter_page, subscription_page};
use crate::admin::widgets::hint;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::Outcome;
use crate::model::pace::Rate;
use crate::model::registry::Registry;
use crate::model::replay::{
    ReplayCommand, ReplayJob, ReplayJobId, ReplayState, ReplayTarget, Replayed,
};
use crate::store::views::{REPLAY_RESULTS_MAX, ReplayResults};

/// Rows of one page.
const ROWS: usize = 50;

const PATH: &str = "/admin/replays";

const SUBSCRIPTION: &str = "Event subscription";

/// The page of a replay job.
pub(crate) fn replay_page(id: ReplayJobId) -> String {
    format!("{PATH}/{id}")
}

#[derive(Template)]
#[template(path = "pages/replays.html")]
struct ReplaysPage {
    frame: Frame,
    list: List,
    rows: Vec<ReplayText>,
    empty: Empty,
}

#[derive(Template)]
#[template(path = "pages/replay.html")]
struct ReplayPage {
    frame: Frame,
    job: ReplayText,
    is_running: bool,
    is_paused: bool,
    filters: Vec<Chosen>,
    rate: String,
    /// Whose backlog it waits for: name and page.
    waits_for: Option<(String, String)>,
    /// Whether what was sent makes deliveries that can be followed.
    fates: Option<ReplayResults>,
    /// How many of these were looked at, where there are more.
    of_first: Option<u64>,
    skipped: Vec<(String, String)>,
    errors: Vec<(String, String, String)>,
    recipe: Recipe,
}

/// One of the things that dead letters are chosen by.
pub(crate) struct Chosen {
    pub(crate) label: &'static str,
    pub(crate) text: String,
    href: Option<String>,
}

/// What every list and page says of a job.
struct ReplayText {
    id: String,
    href: String,
    state: Badge,
    of: &'static str,
    to: String,
    done: String,
    total: String,
    /// The same as plain numbers, for the bar.
    done_number: u64,
    total_number: u64,
    percent: u64,
    resubmitted: String,
    failed: String,
    skipped: String,
    started_at: Time,
    ended_at: Option<Time>,
}

impl ReplayText {
    fn new(job: &ReplayJob, registry: &Registry) -> Self {
        let (done, total) = (job.progress.done(), job.request.total);
        Self {
            id: job.id.to_string(),
            href: replay_page(job.id),
            state: badge(job.state),
            of: match job.request.source.of {
                Replayed::DeadLetters => "dead letters",
                Replayed::Delivered => "delivered events",
            },
            to: destination(&job.request.target, registry),
            done: print::count(done),
            total: print::count(total),
            done_number: done,
            // An empty bar has a length, too.
            total_number: total.max(1),
            percent: (done * 100 / total.max(1)).min(100),
            resubmitted: print::count(job.progress.resubmitted),
            failed: print::count(job.progress.failed),
            skipped: print::count(job.progress.skipped.values().sum()),
            started_at: Time::relative(job.created_at),
            ended_at: job.ended_at.map(Time::relative),
        }
    }
}

fn badge(state: ReplayState) -> Badge {
    let tone = match state {
        ReplayState::Running => Tone::Warn,
        ReplayState::Paused | ReplayState::Cancelled => Tone::Rest,
        ReplayState::Completed => Tone::Good,
    };
    Badge::new(tone, state.name())
}

fn destination(target: &ReplayTarget, registry: &Registry) -> String {
    match target {
        ReplayTarget::Subscription => "their own event subscriptions".to_owned(),
        ReplayTarget::Topic(None) => "their own topics, as new events".to_owned(),
        ReplayTarget::Topic(Some(id)) => match registry.topic_by_id(*id) {
            Some(topic) => format!("the topic {}, as new events", topic.topic.name),
            None => "a topic that has been deleted".to_owned(),
        },
        ReplayTarget::Url(url) => url.base(),
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Paging {
    before: String,
}

/// Replay jobs, newest first.
pub(crate) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(paging): Query<Paging>,
) -> PageResult {
    let before = paging.before.parse().ok().map(ReplayJobId);
    let found = site.views.replay_jobs(before, ROWS).await?;
    let registry = site.broker.registry();
    let rows = found.rows.iter();
    let next = found.next_before.map(|id| id.to_string());
    let paging = Filled::with(paging);
    let mut list = List::new(PATH, &paging).with_older(next, &paging);
    list.recipe =
        Recipe::get(&site.management_url("/everpost/replays")).everpost("everpost replay list");
    list.shown = print::plural(found.rows.len() as u64, "replay job", "replay jobs");
    Ok(draw(&ReplaysPage {
        frame: Frame::new(&visitor, "Replay jobs"),
        rows: rows.map(|job| ReplayText::new(job, &registry)).collect(),
        list,
        empty: Empty::new(
            "replay",
            "No replay jobs yet.",
            "A replay job resubmits dead letters, as many as there are.",
        )
        .leading_to(Some(("/admin/dead-letters".to_owned(), "Dead letters"))),
    }))
}

/// One replay job.
pub(crate) async fn show(
    Call {
        site,
        visitor,
        of: job,
        ..
    }: Call<ReplayJob>,
) -> PageResult {
    let registry = site.broker.registry();
    let waiting = site.broker.replay_blocked_by(job.id);
    let waiting = waiting.and_then(|id| registry.subscription(id));
    let waits_for = waiting.map(|(topic, each)| {
        let (of, name) = (topic.topic.name.as_str(), each.name.as_str());
        (format!("{of} / {name}"), subscription_page(of, name))
    });
    let progress = &job.progress;
    let skipped = progress.skipped.iter();
    let errors = progress.errors.iter();
    let id = job.id;
    let fates = site.views.replay_results(&job).await?;
    Ok(draw(&ReplayPage {
        frame: Frame::new(&visitor, format!("Replay job {id}")),
        is_running: job.state == ReplayState::Running,
        is_paused: job.state == ReplayState::Paused,
        filters: filters(&job.request.source.filter, &registry),
        rate: rate(job.request.rate),
        waits_for,
        fates,
        of_first: Some(REPLAY_RESULTS_MAX).filter(|most| job.progress.resubmitted > *most),
        skipped: skipped
            .map(|(refusal, count)| (refusal.explanation().to_owned(), print::count(*count)))
            .collect(),
        errors: errors
            .map(|(id, error)| (id.to_string(), dead_letter_page(*id), print::visible(error)))
            .collect(),
        job: ReplayText::new(&job, &registry),
        recipe: Recipe::get(&site.management_url(&format!("/everpost/replays/{id}")))
            .everpost(format!("everpost replay show {id} --follow")),
    }))
}

fn rate(rate: Option<Rate>) -> String {
    rate.map_or_else(
        || "as fast as the receivers keep up".to_owned(),
        |rate| {
            let in_1_s = f64::from(rate.in_1000_s()) / 1_000.0;
            match rate.in_1000_s() {
                1_000 => "1 event per second".to_owned(),
                _ => format!("{in_1_s} events per second"),
            }
        },
    )
}

/// What the job covers, in words; nothing for everything.
pub(crate) fn filters(filter: &DeadLetterFilter, registry: &Registry) -> Vec<Chosen> {
    let topic = filter.topic.and_then(|id| registry.topic_by_id(id));
    let subscription = filter.subscription.and_then(|id| registry.subscription(id));
    let subscription_href = subscription
        .map(|(topic, each)| subscription_page(topic.topic.name.as_str(), each.name.as_str()));
    let texts = [
        ("Topic", topic.map(|topic| topic.topic.name.to_string())),
        (
            SUBSCRIPTION,
            subscription.map(|(topic, each)| format!("{} / {}", topic.topic.name, each.name)),
        ),
        ("Reason", filter.reason.as_deref().map(in_words)),
        (
            "Last response",
            filter
                .outcome
                .map(|outcome| Outcome::name(outcome).to_owned()),
        ),
        (
            "Last status",
            filter.status.map(|status| status.to_string()),
        ),
        ("Event type", filter.event_type.clone()),
        ("Subject", filter.subject.clone()),
        ("Ended from", filter.from.map(|at| at.to_string())),
        ("Ended before", filter.to.map(|at| at.to_string())),
        ("Text", filter.text.as_ref().map(|text| text.text.clone())),
    ];
    let said = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)));
    let chosen = said.map(|(label, text)| Chosen {
        label,
        text: print::visible(&text),
        href: subscription_href.clone().filter(|_| label == SUBSCRIPTION),
    });
    chosen.collect()
}

/// A reason that receivers give stands for itself.
fn in_words(reason: &str) -> String {
    let known = DeadLetterReason::from_name(reason);
    known.map_or_else(
        || reason.to_owned(),
        |known| hint::for_reason(known).to_owned(),
    )
}

impl Subject for ReplayJob {
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
        let id = name_of(names, "id");
        let missing = || PageError::NotFound(format!("replay job {id}"));
        let number = id.parse().map(ReplayJobId).map_err(|_| missing())?;
        site.views.replay_job(number).await?.ok_or_else(missing)
    }

    fn page(&self) -> String {
        replay_page(self.id)
    }
}

pub(crate) async fn pause(call: Call<ReplayJob>) -> PageResult<Done> {
    command(&call, ReplayCommand::Pause).await
}

pub(crate) async fn resume(call: Call<ReplayJob>) -> PageResult<Done> {
    command(&call, ReplayCommand::Resume).await
}

pub(crate) async fn ask_to_cancel(call: Call<ReplayJob>) -> PageResult<Question> {
    let (done, total) = (call.of.progress.done(), call.of.request.total);
    let left = print::plural(total.saturating_sub(done), "delivery", "deliveries");
    let (done, total) = (print::count(done), print::count(total));
    Ok(Question::new(format!("Cancel replay job {}?", call.of.id))
        .would(format!("{left} would not be dealt with any more."))
        .would(format!(
            "{done} of {total} have been: what is sent stays sent."
        ))
        .dangerously())
}

/// Ends it for good.
pub(crate) async fn cancel(call: Call<ReplayJob>) -> PageResult<Done> {
    command(&call, ReplayCommand::Cancel).await
}

async fn command(call: &Call<ReplayJob>, command: ReplayCommand) -> PageResult<Done> {
    let id = call.of.id;
    let job = call.broker.command_replay(call.by(), id, command).await?;
    let word = match job.state {
        ReplayState::Running => "is resumed",
        ReplayState::Paused => "is paused",
        ReplayState::Completed => "is complete",
        ReplayState::Cancelled => "is cancelled",
    };
    Ok(Done::well(format!("Replay job {id} {word}.")))
}
