//! The pages of replay jobs: how far each has come, and how to pause, resume and end it.

use serde::{Deserialize, Serialize};

use crate::admin::page::*;
use crate::admin::widgets::hint;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::registry::Registry;
use crate::model::replay::{
    ReplayCommand, ReplayJob, ReplayJobId, ReplayState, ReplayTarget, Replayed,
};
use crate::model::subscription::EventSubscription;
use crate::store::views::{REPLAY_RESULTS_MAX, ReplayResults};

/// Rows of one page.
const ROWS: usize = 50;

const SUBSCRIPTION: &str = "Event subscription";

#[derive(Template)]
#[template(path = "pages/replays.html")]
struct ReplaysPage {
    frame: Frame,
    list: List,
    jobs: Vec<ReplayJob>,
    registry: Arc<Registry>,
}

#[derive(Template)]
#[template(path = "pages/replay.html")]
struct ReplayPage {
    frame: Frame,
    job: ReplayJob,
    registry: Arc<Registry>,
    /// Whose backlog it waits for.
    waits_for: Option<(Arc<TopicEntry>, Arc<EventSubscription>)>,
    /// What became of the deliveries that it has made, if it makes any.
    fates: Option<ReplayResults>,
    recipe: Recipe,
}

impl ReplaysPage {
    fn none_yet() -> Empty {
        let text = "A replay job resubmits dead letters, as many as there are.";
        let step = ("/admin/dead-letters".to_owned(), "Dead letters");
        Empty::new("replay", "No replay jobs yet.", text).leading_to(Some(step))
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Paging {
    before: String,
}

/// Replay jobs, newest first.
pub(crate) async fn list(Query(paging): Query<Paging>, call: Call) -> PageResult {
    let before = paging.before.parse().ok().map(ReplayJobId);
    let found = call.views.replay_jobs(before, ROWS).await?;
    let paging = Filled::with(paging);
    let next = found.next_before.map(|id| id.to_string());
    let mut list = List::new("/admin/replays", &paging).with_older(next, &paging);
    list.recipe = Recipe::list(&call, "replays", "replay list", &[]);
    list.shown = print::plural(found.rows.len(), "replay job", "replay jobs");
    Ok(draw(&ReplaysPage {
        frame: Frame::new(&call.visitor, "Replay jobs"),
        list,
        jobs: found.rows,
        registry: call.broker.registry(),
    }))
}

/// One replay job.
pub(crate) async fn show(call: Call<ReplayJob>) -> PageResult {
    let (id, registry) = (call.of.id, call.broker.registry());
    let waits_for = call.broker.replay_blocked_by(id);
    let waits_for = waits_for.and_then(|id| registry.subscription(id));
    Ok(draw(&ReplayPage {
        frame: Frame::new(&call.visitor, format!("Replay job {id}")),
        waits_for: waits_for.map(|(topic, each)| (Arc::clone(topic), Arc::clone(each))),
        fates: call.views.replay_results(&call.of).await?,
        recipe: Recipe::one(&call, "replays", "replay show --follow", id),
        registry,
        job: call.of,
    }))
}

fn badge(state: ReplayState) -> Badge {
    let tone = match state {
        ReplayState::Running => Tone::Warn,
        ReplayState::Paused | ReplayState::Cancelled => Tone::Rest,
        ReplayState::Completed => Tone::Good,
    };
    Badge::new(tone, state.name())
}

/// How much of a job is done; of nothing, too, which still has a bar.
fn percent(job: &ReplayJob) -> u64 {
    (job.progress.done() * 100 / job.request.total.max(1)).min(100)
}

fn skipped(job: &ReplayJob) -> u64 {
    job.progress.skipped.values().sum()
}

impl ReplayPage {
    /// Of the subscription that its filter names, beside that label.
    fn subscription_page(&self, label: &str) -> Option<String> {
        let named = self.job.request.source.filter.subscription;
        let id = named.filter(|_| label == SUBSCRIPTION)?;
        let (topic, each) = self.registry.subscription(id)?;
        let (topic, name) = (topic.topic.name.as_str(), each.name.as_str());
        Some(paths::subscription_page(topic, name))
    }
}

/// What a filter chooses by, in words; nothing for everything. A reason that receivers give stands for itself.
pub(crate) fn filters(
    filter: &DeadLetterFilter,
    registry: &Registry,
) -> Vec<(&'static str, String)> {
    let topic = filter.topic.and_then(|id| registry.topic_by_id(id));
    let of = filter.subscription.and_then(|id| registry.subscription(id));
    let of = of.map(|(topic, each)| format!("{} / {}", topic.topic.name, each.name));
    let in_words = |reason: &String| match DeadLetterReason::from_name(reason) {
        Some(known) => hint::for_reason(known).to_owned(),
        None => reason.clone(),
    };
    let texts = [
        ("Topic", topic.map(|topic| topic.topic.name.to_string())),
        (SUBSCRIPTION, of),
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
        let id = name_of(names, "id");
        let missing = || PageError::NotFound(format!("replay job {id}"));
        let number = id.parse().map(ReplayJobId).map_err(|_| missing())?;
        site.views.replay_job(number).await?.ok_or_else(missing)
    }

    fn page(&self) -> String {
        paths::replay_page(self.id)
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
