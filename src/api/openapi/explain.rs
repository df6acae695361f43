//! What is told of the question why.

use axum::http::Method;
use serde_json::json;

use super::operation::{Area, Operation, on};
use super::schema::{
    Schema, anything, count, either, flag, integer, list, moment, named, object, resources,
    schemas, text,
};
use crate::model::limits::{TRIAL_DEADLINE, TRIAL_EVENTS, TRIAL_EVENTS_MAX};

pub(super) fn area() -> Area {
    Area {
        name: "Explanations",
        says: "Who gets an event, who does not, and what another filter would do.",
        operations: operations(),
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

fn operations() -> Vec<Operation> {
    let stored = on(
        Method::GET,
        "/everpost/events/{key}/explanations",
        "explainStoredEvent",
        "Explain a stored event",
    )
    .says("For every event subscription of its topic.")
    .gives(200, "The explanations.", resources("Explanation"));
    let of_topics = of_topic("/topics/{topic}", "", "Filter");
    let of_namespaces = of_topic(
        "/namespaces/{namespace}/topics/{topic}",
        "Namespace",
        "FiltersConfiguration",
    );
    [stored]
        .into_iter()
        .chain(of_topics)
        .chain(of_namespaces)
        .collect()
}

fn of_topic(topic: &str, word: &str, filter: &str) -> [Operation; 3] {
    let asked = || json!({ "eventId": 1 });
    let seconds = TRIAL_DEADLINE.as_secs();
    [
        on(
            Method::POST,
            format!("{topic}/explain"),
            format!("explain{word}Event"),
            "Explain an event",
        )
        .says("For every event subscription of the topic. The event need not have been published.")
        .takes(named("Question"), asked())
        .gives(200, "The explanations.", resources("Explanation")),
        on(
            Method::POST,
            format!("{topic}/eventSubscriptions/{{name}}/explain"),
            format!("explain{word}EventToSubscription"),
            "Explain an event to one event subscription",
        )
        .says("Each clause of the filter with what it wanted and what it saw.")
        .takes(named("Question"), asked())
        .gives(200, "The explanation.", named("Explanation")),
        on(
            Method::POST,
            format!("{topic}/tryFilter"),
            format!("try{word}Filter"),
            "Try a filter on stored events",
        )
        .says(format!(
            "The filter is a `{filter}`. It is tried on the newest events, for {seconds} s at most, and \
             compared with that of an event subscription if one is named."
        ))
        .takes(
            named("FilterTrialRequest"),
            json!({ "filter": { "includedEventTypes": ["Order.Paid"] }, "last": 1_000 }),
        )
        .gives(200, "What was found.", named("FilterTrial")),
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
