//! Messages and dead letters by Service Bus' REST API, and what that lacks.

use axum::http::Method;
use serde_json::{Value, json};

use crate::api::lists::List;
use crate::api::receive::locks::{self, LocksBody, ReceiveRequestBody, ShownLocked};
use crate::api::routes::bodies::{CloudEvent, QueueWait};
use crate::api::routes::publish::CLOUD_EVENT;
use crate::api::routes::route::{Area, OPERATOR, Route, RouteAccess, before_others, post};
use crate::model::limits::{LOCK_DURATION, LOCKS_PER_REQUEST_MAX, MESSAGE_BYTES_MAX};
use crate::wire::pull::SettledTokens;

pub(crate) fn area() -> Area {
    Area {
        name: "Messages and dead-letter queues",
        description: "Send messages, and receive them from queues, subscriptions and dead letters. It works as with Azure Service \
            Bus. Fixed words come in any letter case, and behind a queue there is its \
            `/$DeadLetterQueue`. Many dead letters at once are under `/everpost`.",
        routes: routes(),
    }
}

fn routes() -> Vec<Route> {
    let places = [
        ("{queue}", "Message", ""),
        ("{topic}/Subscriptions/{name}", "Message", "OfSubscription"),
        (
            "{topic}/Subscriptions/{name}/$DeadLetterQueue",
            "DeadLetter",
            "",
        ),
        (
            "{namespace}/{topic}/Subscriptions/{name}/$DeadLetterQueue",
            "DeadLetter",
            "InNamespace",
        ),
    ];
    let queues = places.into_iter().flat_map(of_queue);
    queues.chain([sending()]).chain(of_everpost()).collect()
}

fn sending() -> Route {
    before_others(Method::POST, "/{queue}/messages", RouteAccess::Queue)
        .bytes_max(MESSAGE_BYTES_MAX as usize)
        .doc("sendMessage", "Send a message")
        .says(
            "To a queue, or to a Service Bus topic. The body is that of the message, and its type the message's; headers \
             with a text in quotes, a number, `true` or `false` are its properties. With the type \
             `application/vnd.microsoft.servicebus.json` it is an array of objects with `Body`, `BrokerProperties` and \
             `UserProperties`.",
        )
        .header(
            "BrokerProperties",
            "string",
            "JSON with `MessageId`, `Label`, `SessionId`, `TimeToLive` in seconds, `ScheduledEnqueueTimeUtc` and others.",
        )
        .takes_as::<Value>("application/json", json!({ "total": 12.5 }))
        .answers_nothing(201, "It is stored.")
        .rejects(403, "It is too large, or nothing more is accepted.")
        .rejects(404, "There is no such queue or topic.")
}

fn of_queue((place, what, word): (&str, &str, &str)) -> [Route; 5] {
    let queue = format!("/{place}/messages");
    let seconds = LOCK_DURATION.as_secs();
    let noun = match what {
        "DeadLetter" => "dead letter",
        _ => "message",
    };
    let taking = |method, verb: &str, summary: String| {
        before_others(method, format!("{queue}/head"), RouteAccess::Queue)
            .doc(format!("{verb}{what}{word}"), summary)
            .query::<QueueWait>()
            .answers_nothing(204, "There was nothing to take.")
            .rejects(429, "Too many receivers wait.")
    };
    let settling = |method, verb: &str, of: &str, summary: String, says: &str| {
        before_others(
            method,
            format!("{queue}/{{numberOrId}}/{{lockToken}}"),
            RouteAccess::Queue,
        )
        .doc(format!("{verb}{what}{of}{word}"), summary)
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
            "peekLock",
            format!("Lock the first {noun}"),
        )
        .says(format!(
            "It is locked for the lock duration of its queue or subscription, {seconds} s by default. The answer has the body of the message, \
             or the event in the delivery schema of its subscription."
        ))
        .answers::<Value>(201, "The event.")
        .answers_as::<CloudEvent>(201, "The event.", CLOUD_EVENT)
        .with_headers(&[LOCATION, BROKER, REASON, DESCRIPTION]),
        taking(
            Method::DELETE,
            "receive",
            format!("Receive and delete the first {noun}"),
        )
        .says("It is removed with the answer, whether that arrives or not.")
        .answers::<Value>(200, "The event.")
        .answers_as::<CloudEvent>(200, "The event.", CLOUD_EVENT)
        .with_headers(&[BROKER, REASON, DESCRIPTION]),
        settling(
            Method::DELETE,
            "complete",
            "",
            format!("Complete a {noun}"),
            "It is removed for good.",
        ),
        settling(
            Method::PUT,
            "unlock",
            "",
            format!("Abandon a {noun}"),
            "It goes back to its place in the queue.",
        ),
        settling(
            Method::POST,
            "renew",
            "Lock",
            format!("Renew the lock of a {noun}"),
            "It is held for the lock duration from now on.",
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
const DESCRIPTION: (&str, &str) = (
    "DeadLetterErrorDescription",
    "What was said about the reason, as a JSON text.",
);

fn of_everpost() -> [Route; 2] {
    [
        post("/everpost/deadLetters/receive", OPERATOR, locks::receive).doc("receiveDeadLetters", "Lock several dead letters")
        .says(format!(
            "At most {LOCKS_PER_REQUEST_MAX} at once; does not wait. What was deferred comes only to those \
             who ask for it by its numbers."
        ))
        .takes::<ReceiveRequestBody>(
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
