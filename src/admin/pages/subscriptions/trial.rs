//! Trying a filter on stored events: in the form before it is saved, and as it is in force.

use std::collections::HashSet;

use super::*;
use crate::admin::forms::form::number;
use crate::model::limits::TRIAL_DEADLINE;
use crate::wire::explanation::unmet;
use crate::wire::filter_trial;
use crate::wire::resource::render_filter;

#[derive(Template)]
#[template(path = "widgets/trial.html")]
pub(crate) struct TrialText {
    topic: TopicName,
    /// The subscription whose filter it is compared with.
    current: Option<SubscriptionName>,
    findings: TrialFindings,
    /// Whether there was time for all events.
    is_complete: bool,
    /// Shown where there was nothing to try it on.
    empty: Empty,
    recipe: Recipe,
}

part!(TrialText);

/// Tries the filter that is typed, beside the one in force.
pub(crate) async fn try_typed(
    site: &Site,
    of: &Editing,
    draft: &Draft,
) -> PageResult<Result<TrialText, Vec<Refusal>>> {
    let filter = match draft.filter() {
        Ok(filter) => filter,
        Err(refusal) => return Ok(Err(vec![refusal])),
    };
    let (current, last) = (of.current.as_deref(), draft.form.raw("last"));
    let tried = try_on(site, &of.topic, current, &filter, last).await?;
    Ok(tried.map_err(|invalid| draft.refusals(&invalid)))
}

/// Tries it on the `last` events by the request that the management API takes for it.
async fn try_on(
    site: &Site,
    topic: &TopicEntry,
    current: Option<&EventSubscription>,
    filter: &Value,
    last: &str,
) -> PageResult<Result<TrialText, InvalidResource>> {
    let name = &topic.topic.name;
    let mut body = json!({ "filter": filter });
    let filter = quoted(&filter.to_string());
    let mut command = format!("echo {filter} | everpost topics try-filter {name} --file -");
    if given(last).is_some() {
        body["last"] = number(last);
        command.push_str(&format!(" --last {}", body["last"]));
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
    let publish = format!("{}/publish", paths::topic_page(name.as_str()));
    let step = (!topic.topic.is_built_in()).then_some((publish, "Publish event"));
    let nothing = "The topic has no stored events to try the filter on.";
    let url = site.management_url(&format!("{}/tryFilter", name.path()));
    Ok(Ok(TrialText {
        topic: name.clone(),
        current: current.map(|each| each.name.clone()),
        findings,
        is_complete,
        empty: Empty::saying(nothing, step),
        recipe: Recipe::post(&url, &body).everpost(command),
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
        let (found, mut sides) = (&self.findings, Vec::new());
        if let Some(each) = found.comparison.as_ref().filter(|it| Self::differs(it)) {
            sides.push(("Newly matched", &each.newly_matched));
            sides.push(("No longer matched", &each.no_longer_matched));
        }
        sides.push(("Would match", &found.matched));
        sides.push(("Would not match", &found.unmatched));
        let mut listed = HashSet::new();
        let tallies = sides.into_iter().map(|(title, of)| {
            let rows = of.samples.iter();
            let rows = rows.filter(|each| listed.insert(each.key)).collect();
            Tally { title, of, rows }
        });
        tallies.collect()
    }

    fn differs(comparison: &Comparison) -> bool {
        comparison.newly_matched.count + comparison.no_longer_matched.count > 0
    }
}

impl Tally<'_> {
    /// Whether they fail the filter that is tried, for reasons that are shown.
    fn fails(&self) -> bool {
        self.of.samples.iter().any(|each| each.failed.is_some())
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    last: String,
}

/// The filter in force, tried.
pub(crate) async fn try_filter(Query(asked): Query<Asked>, call: Call<Subscription>) -> PageResult {
    let of = &call.of.subscription;
    let filter = render_filter(&of.definition.filter);
    let (trial, faults) = match try_on(&call, &call.of.topic, None, &filter, &asked.last).await? {
        Ok(trial) => (Some(trial), Vec::new()),
        Err(invalid) => (None, refusals(&invalid)),
    };
    let title = format!("The filter of {}, tried", of.name);
    let page = page!("pages/filter_trial.html", &call.visitor, title, {
        form: Filled<Asked> = Filled::with(asked).with_faults(faults),
        trial: Option<TrialText> = trial,
        of: Subscription = call.of,
    });
    Ok(draw_with(page.form.status(), &page))
}
