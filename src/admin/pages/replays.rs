//! The pages of replay jobs: how far each has come, and how to pause, resume and end it.

use crate::admin::pages::*;
use crate::model::pace::Rate;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Paging {
    before: String,
}

pub(crate) async fn list(Query(paging): Query<Paging>, call: Call) -> PageResult {
    let before = cursor(&paging.before).map(ReplayJobId);
    let found = call.views.replay_jobs(before, ROWS).await?;
    let paging = Filled::with(paging);
    let mut list = List::new("/admin/replays", &paging).with_older(found.next_before, &paging);
    list.recipe = Recipe::list(&call, "replays", "replay list", &[]);
    list.of_page(found.rows.len(), ["replay job", "replay jobs"]);
    answer!("pages/replays.html", &call.visitor, "Replay jobs", {
        list: List = list,
        jobs: Vec<ReplayJob> = found.rows,
    })
}

pub(crate) async fn show(call: Call<ReplayJob>) -> PageResult {
    let id = call.of.id;
    answer!("pages/replay.html", &call.visitor, format!("Replay job {id}"), {
        // Whose backlog it waits for.
        waits_for: Option<SubscriptionId> = call.broker.replay_blocked_by(id),
        // What became of the deliveries that it has made, if it makes any.
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

/// `20 events per second`, `1 event every 17 min`.
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

/// When one that takes its time takes the next event.
fn next(job: &ReplayJob) -> Option<Timestamp> {
    let is_running = job.state == ReplayState::Running && job.progress.done() < total(job);
    let wait = job.request.rate.filter(|_| is_running).map(every)?;
    (wait > Duration::from_secs(1)).then(|| job.updated_at + wait)
}

/// How long the rest takes at its rate.
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
    // The subscription is told with its topic.
    let topic = filter.topic.filter(|_| filter.subscription.is_none());
    let topic = topic.and_then(|id| registry.topic_by_id(id));
    let of = filter.subscription.and_then(|id| registry.subscription(id));
    let of = of.map(|(topic, each)| format!("{} / {}", topic.topic.name, each.name));
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
