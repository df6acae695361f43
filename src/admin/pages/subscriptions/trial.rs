//! Trying a filter on stored events: in the form before it is saved, and as it is in force.

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admin::bare::draw_with;
use crate::admin::forms::field::{Field, Problem, mark};
use crate::admin::forms::form::refusals;
use crate::admin::lists::recipe::quoted;
use crate::admin::page::*;
use crate::admin::pages::subscriptions::definition::{Layout, filter_of};
use crate::admin::paths::{event_page, subscription_page, topic_page};
use crate::model::filter_trial::{Comparison, Sample, SampleCount, TrialFindings};
use crate::model::limits::{TRIAL_DEADLINE, TRIAL_EVENTS, TRIAL_EVENTS_MAX};
use crate::model::subscription::EventSubscription;
use crate::wire::explanation::unmet;
use crate::wire::filter_trial;
use crate::wire::resource::{InvalidResource, render_filter};

/// How many of the newest events a filter is tried on.
const LAST: &str = "last";

/// What a trial found, ready to print.
#[derive(Template)]
#[template(path = "widgets/trial.html")]
pub(crate) struct TrialText {
    summary: String,
    /// The moment of the oldest event that was tried.
    oldest: Option<Time>,
    /// What was not tried for want of time; empty if all were.
    cut: &'static str,
    /// How it differs from the filter in force; empty without one.
    comparison: String,
    tallies: Vec<SampleCountText>,
    /// Shown where there was nothing to try it on.
    empty: Empty,
    recipe: Recipe,
}

part!(TrialText);

/// Events on one side, ready to print.
struct SampleCountText {
    title: &'static str,
    count: String,
    /// Whether there are more than are shown.
    is_cut: bool,
    /// Whether they fail the filter that is tried, for reasons that are shown.
    fails: bool,
    rows: Vec<SampleRow>,
    /// How many of its newest are among the rows of a tally above, and so are not among these.
    listed_above: usize,
}

struct SampleRow {
    href: String,
    received_at: Time,
    event_type: String,
    subject: String,
    id: String,
    /// The clause that it fails, and the value that it has there; empty if it passes.
    why: String,
}

/// The field for the number of events.
pub(crate) fn field(form: &Form) -> Field {
    Field::number(LAST, "Newest events to try it on", form).hint(format!(
        "1 to {TRIAL_EVENTS_MAX}. Empty tries the newest {TRIAL_EVENTS}."
    ))
}

/// Tries the filter that is typed into `form`, beside that of `current`.
pub(crate) async fn try_typed(
    site: &Site,
    (topic, layout): (&TopicEntry, &Layout),
    current: Option<&EventSubscription>,
    form: &Form,
) -> Result<Result<TrialText, Vec<Refusal>>, PageError> {
    match filter_of(form, layout) {
        Ok(filter) => {
            let tried = try_on(site, topic, current, request(&filter, current, form)).await?;
            Ok(tried.map_err(|invalid| layout.refusals(form, &invalid)))
        }
        Err(refusal) => Ok(Err(vec![refusal])),
    }
}

/// The body of the request that the management API takes for it.
fn request(filter: &Value, current: Option<&EventSubscription>, form: &Form) -> Value {
    let mut body = json!({ "filter": filter });
    if form.filled(LAST).is_some() {
        body[LAST] = form.number(LAST);
    }
    if let Some(current) = current {
        body["eventSubscription"] = current.name.as_str().into();
    }
    body
}

async fn try_on(
    site: &Site,
    topic: &TopicEntry,
    current: Option<&EventSubscription>,
    body: Value,
) -> Result<Result<TrialText, InvalidResource>, PageError> {
    let request = match filter_trial::parse(topic, body.to_string().as_bytes()) {
        Ok(request) => request,
        Err(error) => return Ok(Err(error)),
    };
    let tried = site.broker.try_filter(topic, &request, TRIAL_DEADLINE);
    let (findings, is_complete) = tried.await?;
    let recipe = recipe(site, topic, &body);
    let mut text = TrialText::new(topic, &findings, is_complete, recipe);
    if let (Some(current), Some(comparison)) = (current, &findings.comparison) {
        text.compare(current, comparison);
    }
    Ok(Ok(text))
}

fn recipe(site: &Site, topic: &TopicEntry, body: &Value) -> Recipe {
    let name = &topic.topic.name;
    let url = site.management_url(&format!("{}/tryFilter", name.path()));
    let mut command = format!(
        "echo {} | everpost topics try-filter {name} --file -",
        quoted(&body["filter"].to_string())
    );
    if let Some(last) = body[LAST].as_i64() {
        command.push_str(&format!(" --last {last}"));
    }
    if let Some(current) = body["eventSubscription"].as_str() {
        command.push_str(&format!(" --compare {current}"));
    }
    Recipe::post(&url, body).everpost(command)
}

impl TrialText {
    fn new(
        topic: &TopicEntry,
        findings: &TrialFindings,
        is_complete: bool,
        recipe: Recipe,
    ) -> Self {
        let name = topic.topic.name.as_str();
        let tried = whole(findings.tried());
        let page = topic_page(name);
        Self {
            summary: format!(
                "The filter matches {} of the newest {} of {name}",
                print::count(whole(findings.matched.count)),
                print::plural(tried, "event", "events"),
            ),
            oldest: findings.oldest.map(|(_, at)| Time::at(at)),
            cut: match is_complete {
                true => "",
                false => "There was no time for older ones.",
            },
            comparison: String::new(),
            tallies: vec![
                SampleCountText::new("Would match", &findings.matched),
                SampleCountText::new("Would not match", &findings.unmatched),
            ],
            empty: Empty::saying(
                "The topic has no stored events to try the filter on.",
                match topic.topic.is_built_in() {
                    true => None,
                    false => Some((format!("{page}/publish"), "Publish event")),
                },
            ),
            recipe,
        }
    }

    fn compare(&mut self, current: &EventSubscription, comparison: &Comparison) {
        let matched = print::count(whole(comparison.current_matched));
        let name = &current.name;
        let differs = comparison.newly_matched.count + comparison.no_longer_matched.count > 0;
        self.comparison = match differs {
            true => format!("The filter that {name} has now matches {matched} of them."),
            false => format!("The filter that {name} has now matches the same {matched} of them."),
        };
        if differs {
            let newly = SampleCountText::new("Newly matched", &comparison.newly_matched);
            let no_longer =
                SampleCountText::new("No longer matched", &comparison.no_longer_matched);
            for tally in &mut self.tallies {
                tally.leave_out(&[&newly, &no_longer]);
            }
            self.tallies.splice(0..0, [newly, no_longer]);
        }
    }
}

impl SampleCountText {
    fn new(title: &'static str, tally: &SampleCount) -> Self {
        Self {
            title,
            count: print::count(whole(tally.count)),
            is_cut: tally.samples.len() < tally.count,
            fails: tally.samples.iter().any(|each| each.failed.is_some()),
            rows: tally.samples.iter().map(SampleRow::new).collect(),
            listed_above: 0,
        }
    }

    /// Lists each event once: those of the tallies `above` are not listed here again.
    fn leave_out(&mut self, above: &[&Self]) {
        let before = self.rows.len();
        let is_above = |row: &SampleRow| above.iter().any(|tally| tally.lists(row));
        self.rows.retain(|row| !is_above(row));
        self.listed_above = before - self.rows.len();
    }

    fn lists(&self, row: &SampleRow) -> bool {
        self.rows.iter().any(|each| each.href == row.href)
    }
}

impl SampleRow {
    fn new(sample: &Sample) -> Self {
        Self {
            href: event_page(sample.key),
            received_at: Time::exactly(sample.received_at),
            event_type: print::visible(&sample.event_type),
            subject: print::visible(sample.subject.as_deref().unwrap_or_default()),
            id: print::visible(&sample.id),
            why: sample
                .failed
                .as_ref()
                .map(|failed| print::visible(&unmet(failed)))
                .unwrap_or_default(),
        }
    }
}

fn whole(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// What the URL asks for.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    last: String,
}

#[derive(Template)]
#[template(path = "pages/filter_trial.html")]
struct FilterTrialPage {
    frame: Frame,
    topic: String,
    topic_path: String,
    name: String,
    path: String,
    problem: Option<Problem>,
    field: Field,
    trial: Option<TrialText>,
}

/// The filter in force, tried.
pub(crate) async fn try_filter(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let form = Form::of([(LAST, asked.last)]);
    let filter = render_filter(&subscription.definition.filter);
    let tried = try_on(&site, &topic, None, request(&filter, None, &form)).await?;
    let mut field = field(&form);
    let (status, trial, refusals) = match tried {
        Ok(trial) => (StatusCode::OK, Some(trial), Vec::new()),
        Err(error) => (StatusCode::UNPROCESSABLE_ENTITY, None, refusals(&error)),
    };
    let of = topic.topic.name.as_str();
    let page = FilterTrialPage {
        frame: Frame::new(&visitor, format!("The filter of {name}, tried")),
        topic_path: topic_page(of),
        path: subscription_page(of, &name),
        topic: of.to_owned(),
        problem: mark(std::iter::once(&mut field), refusals),
        field,
        trial,
        name,
    };
    Ok(draw_with(status, &page))
}
