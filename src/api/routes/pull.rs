//! Receiving from namespaces.

use axum::http::Method;
use serde_json::json;

use crate::api::publish::namespace::API_VERSIONS;
use crate::api::routes::publish::api_version;
use crate::api::routes::route::{Access, Area, Route, before_others};
use crate::api::routes::schema::{count, integer, list_of, named, object, query, schemas, text};
use crate::model::limits::{
    PULL_WAIT, RECEIVE_EVENTS, RECEIVE_WAIT_SECONDS, RELEASE_DELAYS_S, RENEWAL_WINDOW,
};
use crate::wire::pull::{SettledTokens, TokensBody};

pub(crate) fn area() -> Area {
    let properties = object([
        ("lockToken", text()),
        ("deliveryCount", count().says("Counted from 1.")),
    ]);
    let received = object([
        ("brokerProperties", properties),
        ("event", named("CloudEvent")),
    ]);
    Area {
        name: "Receiving from namespaces",
        description: "Receivers of a pulled subscription come for events, and say what becomes of them.",
        routes: routes(),
        schemas: schemas([("ReceivedEvent", received)]),
    }
}

fn routes() -> Vec<Route> {
    let places = [
        (
            "/topics/{topic}",
            "",
            "The namespace is told as for publishers.",
        ),
        (
            "/namespaces/{namespace}/topics/{topic}",
            "InNamespace",
            "All is named in the path.",
        ),
    ];
    let all = places
        .into_iter()
        .flat_map(|(topic, word, which)| of_topic(topic, word, which));
    all.collect()
}

fn of_topic(topic: &str, word: &str, which: &str) -> Vec<Route> {
    let asked = |verb: &str, id: &str, summary| {
        let path = format!("{topic}/eventsubscriptions/{{name}}:{verb}");
        before_others(Method::POST, path, Access::Key)
            .doc(format!("{id}{word}"), summary)
            .with([api_version(&API_VERSIONS)])
    };
    let settling = |verb: &str, id: &str, summary, says: &str| {
        asked(verb, id, summary)
            .says(format!("{says} {which}"))
            .takes::<TokensBody>(json!({ "lockTokens": ["CiYKJDUwNjE4QTFGLUM4REQtNDc3NQ=="] }))
            .answers::<SettledTokens>(200, "What came of each token.")
    };
    let wait = integer()
        .within(&RECEIVE_WAIT_SECONDS)
        .by_default(PULL_WAIT.as_secs());
    let most = integer()
        .within(&RECEIVE_EVENTS)
        .by_default(*RECEIVE_EVENTS.start());
    let delay = integer()
        .one_of(&RELEASE_DELAYS_S)
        .by_default(RELEASE_DELAYS_S[0]);
    let hour = RENEWAL_WINDOW.as_secs() / 60;
    vec![
        asked("receive", "receive", "Receive events")
            .says(format!("Each under a lock of its own. {which}"))
            .with([
                query("maxEvents", most, "How many at most."),
                query("maxWaitTime", wait, "Seconds to wait for the first one."),
            ])
            .answers_schema(
                200,
                "The events; none if none came.",
                list_of("ReceivedEvent"),
            )
            .rejects(429, "Too many receivers wait."),
        settling(
            "acknowledge",
            "acknowledge",
            "Be done with events",
            "They never come back.",
        ),
        settling(
            "release",
            "release",
            "Give events back",
            "Others receive them.",
        )
        .with([query(
            "releaseDelayInSeconds",
            delay,
            "For how long they are held back.",
        )]),
        settling(
            "reject",
            "reject",
            "Dead-letter events",
            "They go to the dead-letter queue.",
        ),
        settling(
            "renewLock",
            "renewLock",
            "Hold events longer",
            &format!("For another lock duration, up to {hour} minutes after they were received."),
        ),
    ]
}
