//! Dead-letter queues: Service Bus' REST API, and what it lacks.

use axum::http::Method;
use serde_json::{Value, json};

use crate::api::lists::List;
use crate::api::receive::locks::{self, LocksBody, ReceiveBody, ShownLocked};
use crate::api::routes::bodies::{CloudEvent, QueueWait};
use crate::api::routes::publish::CLOUD_EVENT;
use crate::api::routes::route::{Access, Area, OPERATOR, Route, before_others, post};
use crate::model::limits::{LOCK_DURATION, LOCKS_PER_REQUEST_MAX};
use crate::wire::pull::SettledTokens;

pub(crate) fn area() -> Area {
    Area {
        name: "Dead-letter queues",
        description: "The dead letters of an event subscription as a queue that programs drain: as Azure Service \
            Bus has it, whose fixed words come in any letter case, and many at once under `/everpost`.",
        routes: routes(),
    }
}

fn routes() -> Vec<Route> {
    let places = [("{topic}", ""), ("{namespace}/{topic}", "InNamespace")];
    let queues = places
        .into_iter()
        .flat_map(|(topic, word)| of_queue(topic, word));
    queues.chain(of_everpost()).collect()
}

fn of_queue(topic: &str, word: &str) -> [Route; 5] {
    let queue = format!("/{topic}/Subscriptions/{{name}}/$DeadLetterQueue/messages");
    let seconds = LOCK_DURATION.as_secs();
    let taking = |method, id: &str, summary| {
        before_others(method, format!("{queue}/head"), Access::Queue)
            .doc(format!("{id}{word}"), summary)
            .query::<QueueWait>()
            .answers_nothing(204, "There was nothing to take.")
            .rejects(429, "Too many receivers wait.")
    };
    let settling = |method, id: &str, summary, says: &str| {
        before_others(
            method,
            format!("{queue}/{{numberOrId}}/{{lockToken}}"),
            Access::Queue,
        )
        .doc(format!("{id}{word}"), summary)
        .says(says)
        .answers_nothing(200, "It is done.")
        .rejects(
            404,
            "The lock has expired or was settled before, or there is no such queue.",
        )
    };
    [
        taking(
            Method::POST,
            "peekLockDeadLetter",
            "Lock the first dead letter",
        )
        .says(format!(
            "For {seconds} s. The body is the event in the delivery schema of its subscription."
        ))
        .answers::<Value>(201, "The event.")
        .answers_as::<CloudEvent>(201, "The event.", CLOUD_EVENT)
        .with_headers(&[LOCATION, BROKER, REASON, DESCRIPTION]),
        taking(
            Method::DELETE,
            "receiveDeadLetter",
            "Take the first dead letter for good",
        )
        .says("It is removed with the answer, whether that arrives or not.")
        .answers::<Value>(200, "The event.")
        .answers_as::<CloudEvent>(200, "The event.", CLOUD_EVENT)
        .with_headers(&[BROKER, REASON, DESCRIPTION]),
        settling(
            Method::DELETE,
            "completeDeadLetter",
            "Complete",
            "It is removed for good.",
        ),
        settling(
            Method::PUT,
            "unlockDeadLetter",
            "Abandon",
            "It goes back to its place in the queue.",
        ),
        settling(
            Method::POST,
            "renewDeadLetterLock",
            "Renew the lock",
            &format!("It is held for {seconds} s from now on."),
        ),
    ]
}

const LOCATION: (&str, &str) = ("Location", "The address of the lock.");
const BROKER: (&str, &str) = (
    "BrokerProperties",
    "JSON with `MessageId`, `SequenceNumber`, `DeliveryCount`, `EnqueuedTimeUtc` and the lock.",
);
const REASON: (&str, &str) = (
    "DeadLetterReason",
    "The reason for dead-lettering, as a JSON text.",
);
const DESCRIPTION: (&str, &str) = ("DeadLetterErrorDescription", "The same in a sentence.");

fn of_everpost() -> [Route; 2] {
    [
        post("/everpost/deadLetters/receive", OPERATOR, locks::receive).doc("receiveDeadLetters", "Lock several dead letters")
        .says(format!(
            "At most {LOCKS_PER_REQUEST_MAX} at once; does not wait. What was deferred comes only to those \
             who ask for it by its numbers."
        ))
        .takes::<ReceiveBody>(
            json!({ "topic": "orders", "subscription": "billing", "count": 10 }),
        )
        .answers::<List<ShownLocked>>(200, "The dead letters; none if there are none.")
        .rejects(404, "There is no such topic or event subscription."),
        post("/everpost/locks/{verb}", OPERATOR, locks::settle).doc("settleLocks", "Settle or renew locks")
            .says("A lock that cannot be settled does not affect the others.")
            .takes::<LocksBody>(
                json!({ "lockTokens": ["7c9e6679-7425-40de-944b-e07fc1f90ae7"] }),
            )
            .answers::<SettledTokens>(200, "What came of each token."),
    ]
}
