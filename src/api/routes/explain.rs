//! Explanations.

use serde_json::json;

use crate::api::ApiOptions;
use crate::api::operate::explain;
use crate::api::routes::route::{Area, OPERATOR, Route, get, post};
use crate::model::limits::{MANAGEMENT_BYTES_MAX, TRIAL_DEADLINE};
use crate::wire::explanation::{QuestionBody, ShownExplanation};
use crate::wire::filter_trial::{ShownTrial, TrialBody};
use crate::wire::resource::bodies::ResourceList;

pub(crate) fn area(options: &ApiOptions) -> Area {
    // A pasted event may be as long as a published one.
    let pasted_bytes_max = options
        .publish_bytes_max
        .saturating_add(MANAGEMENT_BYTES_MAX);
    Area {
        name: "Filter checks",
        description: "Which event subscriptions an event matches, and what another filter would match.",
        routes: routes(pasted_bytes_max),
    }
}

fn routes(pasted_bytes_max: usize) -> Vec<Route> {
    let stored = get(
        "/everpost/events/{key}/explanations",
        OPERATOR,
        explain::explain_stored,
    )
    .doc("explainStoredEvent", "Explain a stored event")
    .says("For every event subscription of its topic.")
    .answers::<ResourceList<ShownExplanation>>(200, "The explanations.");
    let of_topics = of_topic("/topics/{topic}", "", "Filter", pasted_bytes_max);
    let of_namespaces = of_topic(
        "/namespaces/{namespace}/topics/{topic}",
        "Namespace",
        "FiltersConfiguration",
        pasted_bytes_max,
    );
    [stored]
        .into_iter()
        .chain(of_topics)
        .chain(of_namespaces)
        .collect()
}

fn of_topic(topic: &str, word: &str, filter: &str, pasted_bytes_max: usize) -> [Route; 3] {
    let asked = || json!({ "eventId": 1 });
    let seconds = TRIAL_DEADLINE.as_secs();
    [
        post(format!("{topic}/explain"), OPERATOR, explain::explain_all)
        .doc(format!("explain{word}Event"), "Explain an event")
        .bytes_max(pasted_bytes_max)
        .says("For every event subscription of the topic. The event need not have been published.")
        .takes::<QuestionBody<'static>>(asked())
        .answers::<ResourceList<ShownExplanation>>(200, "The explanations."),
        post(
            format!("{topic}/eventSubscriptions/{{name}}/explain"),
            OPERATOR,
            explain::explain_one,
        )
        .doc(
            format!("explain{word}EventToSubscription"),
            "Explain an event to one event subscription",
        )
        .bytes_max(pasted_bytes_max)
        .says("Each clause of the filter with what it wanted and what it saw.")
        .takes::<QuestionBody<'static>>(asked())
        .answers::<ShownExplanation>(200, "The explanation."),
        post(format!("{topic}/tryFilter"), OPERATOR, explain::try_filter)
        .doc(format!("try{word}Filter"), "Try a filter on stored events")
        .says(format!(
            "The filter is a `{filter}`. It is tried on the newest events, for {seconds} s at most, and \
             compared with that of an event subscription if one is named."
        ))
        .takes::<TrialBody>(json!({ "filter": { "includedEventTypes": ["Order.Paid"] }, "last": 1_000 }),
        )
        .answers::<ShownTrial>(200, "What was found."),
    ]
}
