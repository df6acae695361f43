//! Trying a filter on stored events: in the form before it is saved, and as it is in force.

use std::borrow::Borrow;
use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::admin::forms::form::refusals;
use crate::admin::lists::recipe::quoted;
use crate::admin::page::*;
use crate::admin::pages::subscriptions::definition::Draft;
use crate::admin::paths::{event_page, subscription_page, topic_page};
use crate::model::filter_trial::{Comparison, Sample, SampleCount, TrialFindings};
use crate::model::limits::TRIAL_DEADLINE;
use crate::model::subscription::EventSubscription;
use crate::wire::explanation::unmet;
use crate::wire::filter_trial;
use crate::wire::resource::{InvalidResource, render_filter};

/// How many of the newest events a filter is tried on.
const LAST: &str = "last";

/// What a trial found.
#[derive(Template)]
#[template(path = "widgets/trial.html")]
pub(crate) struct TrialText {
    topic: String,
    /// The subscription whose filter it is compared with.
    current: Option<String>,
    findings: TrialFindings,
    /// Whether there was time for all events.
    is_complete: bool,
    /// Shown where there was nothing to try it on.
    empty: Empty,
    recipe: Recipe,
}

part!(TrialText);

/// Tries the filter that is typed, beside that of `current`.
pub(crate) async fn try_typed(
    site: &Site,
    topic: &TopicEntry,
    current: Option<&EventSubscription>,
    draft: &Draft,
) -> Result<Result<TrialText, Vec<Refusal>>, PageError> {
    match draft.filter() {
        Ok(filter) => {
            let tried = try_on(site, topic, current, (&filter, &draft.form)).await?;
            Ok(tried.map_err(|invalid| draft.refusals(&invalid)))
        }
        Err(refusal) => Ok(Err(vec![refusal])),
    }
}

/// Tries it by the request that the management API takes for it.
async fn try_on(
    site: &Site,
    topic: &TopicEntry,
    current: Option<&EventSubscription>,
    (filter, form): (&Value, &Form),
) -> Result<Result<TrialText, InvalidResource>, PageError> {
    let name = &topic.topic.name;
    let mut body = json!({ "filter": filter });
    let filter = quoted(&filter.to_string());
    let mut command = format!("echo {filter} | everpost topics try-filter {name} --file -");
    if form.filled(LAST).is_some() {
        body[LAST] = form.number(LAST);
        command.push_str(&format!(" --last {}", body[LAST]));
    }
    if let Some(EventSubscription { name, .. }) = current {
        body["eventSubscription"] = name.as_str().into();
        command.push_str(&format!(" --compare {name}"));
    }
    let request = match filter_trial::parse(topic, body.to_string().as_bytes()) {
        Ok(request) => request,
        Err(error) => return Ok(Err(error)),
    };
    let tried = site.broker.try_filter(topic, &request, TRIAL_DEADLINE);
    let (findings, is_complete) = tried.await?;
    let publish = format!("{}/publish", topic_page(name.as_str()));
    Ok(Ok(TrialText {
        topic: name.to_string(),
        current: current.map(|each| each.name.to_string()),
        findings,
        is_complete,
        empty: Empty::saying(
            "The topic has no stored events to try the filter on.",
            (!topic.topic.is_built_in()).then_some((publish, "Publish event")),
        ),
        recipe: Recipe::post(
            &site.management_url(&format!("{}/tryFilter", name.path())),
            &body,
        )
        .everpost(command),
    }))
}

/// Events on one side, and those of them that no side above lists.
struct Tally<'a> {
    title: &'static str,
    of: &'a SampleCount,
    rows: Vec<&'a Sample>,
}

impl TrialText {
    /// What is different where it is compared, and all.
    fn tallies(&self) -> Vec<Tally<'_>> {
        let TrialFindings {
            matched,
            unmatched,
            comparison,
            ..
        } = &self.findings;
        let changes = comparison.iter().filter(|each| Self::differs(each));
        let changes = changes.flat_map(|each| {
            [
                ("Newly matched", &each.newly_matched),
                ("No longer matched", &each.no_longer_matched),
            ]
        });
        let all = [("Would match", matched), ("Would not match", unmatched)];
        let mut listed = HashSet::new();
        let tallies = changes.chain(all).map(|(title, of)| {
            let rows = of.samples.iter();
            let rows = rows.filter(|each| listed.insert(each.key)).collect();
            Tally { title, of, rows }
        });
        tallies.collect()
    }

    fn differs(comparison: &Comparison) -> bool {
        comparison.newly_matched.count + comparison.no_longer_matched.count > 0
    }

    fn whole(count: impl Borrow<usize>) -> u64 {
        u64::try_from(*count.borrow()).unwrap_or(u64::MAX)
    }

    fn page(sample: &Sample) -> String {
        event_page(sample.key)
    }
}

impl Tally<'_> {
    /// Whether they fail the filter that is tried, for reasons that are shown.
    fn fails(&self) -> bool {
        self.of.samples.iter().any(|each| each.failed.is_some())
    }

    fn listed_above(&self) -> usize {
        self.of.samples.len() - self.rows.len()
    }

    /// Whether there are more than are listed.
    fn is_cut(&self) -> bool {
        self.of.samples.len() < self.of.count
    }
}

/// What the URL asks for.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    last: String,
}

#[derive(Template)]
#[template(path = "pages/filter_trial.html")]
struct FilterTrialPage {
    frame: Frame,
    topic: String,
    name: String,
    path: String,
    form: Filled<Asked>,
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
    let typed = Form::of([(LAST, asked.last.clone())]);
    let filter = render_filter(&subscription.definition.filter);
    let form = Filled::with(asked);
    let (form, trial) = match try_on(&site, &topic, None, (&filter, &typed)).await? {
        Ok(trial) => (form, Some(trial)),
        Err(error) => (form.with_faults(refusals(&error)), None),
    };
    let topic = topic.topic.name.to_string();
    let page = FilterTrialPage {
        frame: Frame::new(&visitor, format!("The filter of {name}, tried")),
        path: subscription_page(&topic, &name),
        topic,
        name,
        form,
        trial,
    };
    Ok(draw_with(page.form.status(), &page))
}
