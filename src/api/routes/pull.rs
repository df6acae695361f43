//! Receiving from namespaces.

use axum::http::Method;
use serde_json::json;

use crate::api::lists::List;
use crate::api::routes::bodies::{NamespaceVersion, ReceivedEvent, Receiving, Releasing};
use crate::api::routes::route::{Area, Route, RouteAccess, before_others};
use crate::model::limits::RENEWAL_WINDOW;
use crate::wire::pull::{SettledTokens, TokensBody};

pub(crate) fn area() -> Area {
    Area {
        name: "Receiving from namespaces",
        description: "Events of pull subscriptions: receive, acknowledge, release, reject, renew locks.",
        routes: routes(),
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
        before_others(Method::POST, path, RouteAccess::Key)
            .doc(format!("{id}{word}"), summary)
            .query::<NamespaceVersion>()
    };
    let settling = |verb: &str, id: &str, summary, says: &str| {
        asked(verb, id, summary)
            .says(format!("{says} {which}"))
            .takes::<TokensBody>(json!({ "lockTokens": ["CiYKJDUwNjE4QTFGLUM4REQtNDc3NQ=="] }))
            .answers::<SettledTokens>(200, "What came of each token.")
    };
    let hour = RENEWAL_WINDOW.as_secs() / 60;
    vec![
        asked("receive", "receive", "Receive events")
            .says(format!("Each under a lock of its own. {which}"))
            .query::<Receiving>()
            .answers::<List<ReceivedEvent>>(200, "The events; none if none came.")
            .rejects(429, "Too many receivers wait."),
        settling(
            "acknowledge",
            "acknowledge",
            "Acknowledge events",
            "They never come back.",
        ),
        settling(
            "release",
            "release",
            "Release events",
            "Others receive them.",
        )
        .query::<Releasing>(),
        settling(
            "reject",
            "reject",
            "Reject events",
            "They go to the dead-letter queue.",
        ),
        settling(
            "renewLock",
            "renewLock",
            "Renew the locks of events",
            &format!("For another lock duration, up to {hour} minutes after they were received."),
        ),
    ]
}
