//! Explanations.

use serde_json::json;

use crate::api::ApiOptions;
use crate::api::operate::explain;
use crate::api::routes::route::{Area, OPERATOR, Route, get, post};
use crate::api::routes::schema::{
    Schema, anything, count, either, flag, integer, list, moment, named, object, resources,
    schemas, text,
};
use crate::model::limits::{MANAGEMENT_BYTES_MAX, TRIAL_DEADLINE, TRIAL_EVENTS, TRIAL_EVENTS_MAX};

pub(crate) fn area(options: &ApiOptions) -> Area {
    // A pasted event may be as long as a published one.
    let pasted_bytes_max = options
        .publish_bytes_max
        .saturating_add(MANAGEMENT_BYTES_MAX);
    Area {
        name: "Explanations",
        description: "Who gets an event, who does not, and what another filter would do.",
        routes: routes(pasted_bytes_max),
        schemas: schemas([
            ("Question", question()),
            ("Explanation", explanation()),
            ("FilterPart", part()),
            ("FilterTrialRequest", trial_request()),
            ("FilterTrial", trial()),
            ("FilterTally", tally()),
        ]),
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
    .answers_schema(200, "The explanations.", resources("Explanation"));
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
        .takes_schema(named("Question"), asked())
        .answers_schema(200, "The explanations.", resources("Explanation")),
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
        .takes_schema(named("Question"), asked())
        .answers_schema(200, "The explanation.", named("Explanation")),
        post(format!("{topic}/tryFilter"), OPERATOR, explain::try_filter)
        .doc(format!("try{word}Filter"), "Try a filter on stored events")
        .says(format!(
            "The filter is a `{filter}`. It is tried on the newest events, for {seconds} s at most, and \
             compared with that of an event subscription if one is named."
        ))
        .takes_schema(
            named("FilterTrialRequest"),
            json!({ "filter": { "includedEventTypes": ["Order.Paid"] }, "last": 1_000 }),
        )
        .answers_schema(200, "What was found.", named("FilterTrial")),
    ]
}

fn question() -> Schema {
    let id = either([integer(), text()]);
    object([
        (
            "eventId",
            id.says("The number of a stored event, or the id that its publisher gave it.")
                .optional(),
        ),
        (
            "event",
            anything()
                .says("An event in the topic's input schema, in the place of `eventId`.")
                .optional(),
        ),
    ])
}

fn explanation() -> Schema {
    let reason = object([("code", text()), ("message", text())]);
    object([
        ("topic", text()),
        ("eventSubscription", text()),
        ("eventKey", integer().or_null()),
        ("eventId", text()),
        ("eventType", text()),
        ("subject", text().or_null()),
        ("matched", flag()),
        ("reason", reason.or_null().says("Why it does not match.")),
        ("clauses", list(named("FilterPart"))),
        (
            "changedSinceEvent",
            flag().says("The subscription was changed after the event."),
        ),
        ("deliveries", list(integer()).says("What really happened.")),
    ])
}

fn part() -> Schema {
    object([
        ("clause", text()),
        ("key", text()),
        ("operatorType", text().optional()),
        ("value", anything().optional()),
        ("values", list(anything()).or_null().optional()),
        ("wanted", text()),
        ("saw", anything()),
        ("held", flag()),
        ("remark", text().optional()),
    ])
}

fn trial_request() -> Schema {
    object([
        ("filter", object([]).open()),
        (
            "last",
            integer()
                .up_to(TRIAL_EVENTS_MAX)
                .by_default(TRIAL_EVENTS)
                .says("Events to try it on.")
                .optional(),
        ),
        (
            "eventSubscription",
            text().says("Whose filter it is compared with.").optional(),
        ),
    ])
}

fn trial() -> Schema {
    let oldest = object([("key", integer()), ("receivedAt", moment())]);
    let comparison = object([
        ("eventSubscription", text().or_null()),
        ("matched", count()),
        ("newlyMatched", named("FilterTally")),
        ("noLongerMatched", named("FilterTally")),
    ]);
    object([
        ("tried", count()),
        ("complete", flag().says("Time sufficed for all of them.")),
        ("oldest", oldest.or_null()),
        ("matched", named("FilterTally")),
        ("unmatched", named("FilterTally")),
        ("comparedWith", comparison.or_null()),
    ])
}

fn tally() -> Schema {
    let sample = object([
        ("key", integer()),
        ("receivedAt", moment()),
        ("id", text()),
        ("eventType", text()),
        ("subject", text().or_null()),
        (
            "failed",
            named("FilterPart")
                .or_null()
                .says("The part of the filter that decides."),
        ),
    ]);
    object([("count", count()), ("samples", list(sample))])
}
