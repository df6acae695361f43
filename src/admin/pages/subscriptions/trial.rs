//! Trials of a filter on stored events: of a filter in the form before it is saved, and of the filter in force.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::Query;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Editing, Subscription, SubscriptionDraft};
use crate::admin::action::{Call, Subject};
use crate::admin::error::PageResult;
use crate::admin::form_error::form_errors;
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::{FormError, number};
use crate::admin::lists::filter::given;
use crate::admin::lists::recipe::{Recipe, quoted};
use crate::admin::pages::answer;
use crate::admin::paths;
use crate::admin::site::Site;
use crate::admin::widgets::{Empty, filters, part, print};
use crate::model::filter_trial::{SampleCount, SampleEvent, TrialFindings};
use crate::model::limits::TRIAL_DEADLINE;
use crate::model::name::TopicName;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::wire::explanation::unmet;
use crate::wire::filter_trial;
use crate::wire::resource::{InvalidResource, render_filter};

#[derive(Template)]
#[template(path = "widgets/trial.html")]
pub(crate) struct TrialText {
    pub(crate) topic: TopicName,
    /// Is true if the filter is tried on messages of a Service Bus topic.
    pub(crate) is_of_messages: bool,
    pub(crate) findings: TrialFindings,
    /// Is true if all events were examined before the deadline.
    pub(crate) is_complete: bool,
    /// The text that is shown if there was nothing to try the filter on.
    pub(crate) empty: Empty,
    pub(crate) recipe: Recipe,
}

part!(TrialText);

/// Tries the typed filter and compares it with the filter in force.
pub(crate) async fn try_typed(
    call: &Call<Editing>,
    draft: &SubscriptionDraft,
) -> PageResult<TrialText> {
    let Editing { topic, current } = &call.of;
    let (filter, last) = (draft.filter()?, draft.form.raw("last"));
    let form_errors = |invalid: &InvalidResource| draft.form_errors(invalid);
    try_on(call, topic, current.as_deref(), &filter, last, form_errors).await
}

/// Tries `filter` on the `last` events, with the trial request of the management API.
async fn try_on(
    site: &Site,
    topic: &TopicEntry,
    current: Option<&EventSubscription>,
    filter: &Value,
    last: &str,
    form_errors: impl Fn(&InvalidResource) -> Vec<FormError>,
) -> PageResult<TrialText> {
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
    let request = filter_trial::parse(topic, body.to_string().as_bytes())
        .map_err(|invalid| form_errors(&invalid))?;
    let tried = site.broker.try_filter(topic, &request, TRIAL_DEADLINE);
    let (findings, is_complete) = tried.await?;
    let publish = format!("{}/publish", paths::topic_page(name.as_str()));
    let step = (!topic.topic.kind.is_built_in()).then_some((publish, "Publish event"));
    let nothing = "The topic has no stored events to try the filter on.";
    let url = site.management_url(&format!("{}/tryFilter", name.path()));
    Ok(TrialText {
        topic: name.clone(),
        is_of_messages: false,
        findings,
        is_complete,
        empty: Empty::saying(nothing, step),
        recipe: Recipe::post(&url, &body).everpost(command),
    })
}

impl TrialText {
    /// Returns each group of events with the samples that no earlier group lists: first the differences if there is a
    /// comparison, then all events.
    fn counts(&self) -> Vec<(&'static str, &SampleCount, Vec<&SampleEvent>)> {
        let (found, mut listed) = (&self.findings, BTreeSet::new());
        let changed = found.comparison.iter().flat_map(|it| {
            let (new, old) = (&it.newly_matched, &it.no_longer_matched);
            [("Newly matched", new), ("No longer matched", old)]
        });
        let (yes, no) = (&found.matched, &found.unmatched);
        let all = [("Would match", yes), ("Would not match", no)];
        let sides = changed.chain(all).filter(|(_, of)| of.count > 0);
        let counts = sides.map(|(title, of)| {
            let rows = of
                .samples
                .iter()
                .filter(|each| listed.insert(each.key))
                .collect();
            (title, of, rows)
        });
        counts.collect()
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TrialForm {
    last: String,
}

/// Tries the filter in force.
pub(crate) async fn try_filter(
    Query(asked): Query<TrialForm>,
    call: Call<Subscription>,
) -> PageResult {
    let of = &call.of.subscription;
    let filter = render_filter(&of.definition.filter);
    let tried = try_on(
        &call,
        &call.of.topic,
        None,
        &filter,
        &asked.last,
        form_errors,
    )
    .await;
    let (trial, faults) = match tried {
        Ok(trial) => (Some(trial), Vec::new()),
        Err(error) => (None, error.in_form()?),
    };
    let title = format!("Try the filter of {}", of.name);
    answer!("pages/filter_trial.html", &call.visitor, title, {
        form: FilledForm<TrialForm> = FilledForm::with(asked).with_faults(faults),
        trial: Option<TrialText> = trial,
        of: Subscription = call.of,
    }, form)
}
