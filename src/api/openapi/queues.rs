//! What is told of draining dead-letter queues: Service Bus' REST API, and what it lacks.

use axum::http::Method;
use serde_json::json;

use super::operation::{Area, Operation, on, query};
use super::schema::{
    Schema, anything, count, flag, integer, list, list_of, map, moment, named, object, schemas,
    text,
};
use crate::model::limits::{
    DEAD_LETTER_PROPERTIES_MAX, DEAD_LETTER_TEXT_MAX, LOCK_DURATION, LOCK_SECONDS,
    LOCKS_PER_REQUEST_MAX, RECEIVE_WAIT, RECEIVE_WAIT_MAX,
};

pub(super) fn area() -> Area {
    Area {
        name: "Dead-letter queues",
        says: "The dead letters of an event subscription as a queue that programs drain: as Azure Service \
            Bus has it, whose fixed words come in any letter case, and many at once under `/everpost`.",
        operations: operations(),
        schemas: schemas([
            ("ReceiveRequest", receive()),
            ("LockedDeadLetter", locked()),
            ("SettleRequest", settle()),
            (
                "ServiceBusError",
                text().says("`<Error><Code>404</Code><Detail>…</Detail></Error>`"),
            ),
        ]),
    }
}

fn operations() -> Vec<Operation> {
    let places = [("{topic}", ""), ("{namespace}/{topic}", "InNamespace")];
    let queues = places
        .into_iter()
        .flat_map(|(topic, word)| of_queue(topic, word));
    queues.chain(of_everpost()).collect()
}

fn of_queue(topic: &str, word: &str) -> [Operation; 5] {
    let queue = format!("/{topic}/Subscriptions/{{name}}/$DeadLetterQueue/messages");
    let seconds = LOCK_DURATION.as_secs();
    let taking = |method, id: &str, summary| {
        let wait = count().by_default(RECEIVE_WAIT.as_secs());
        let most = RECEIVE_WAIT_MAX.as_secs();
        on(
            method,
            format!("{queue}/head"),
            format!("{id}{word}"),
            summary,
        )
        .with([query(
            "timeout",
            wait,
            &format!("Seconds to wait for something to take; {most} at most."),
        )])
        .gives_nothing(204, "There was nothing to take.")
        .refuses(429, "Too many receivers wait.")
    };
    let settling = |method, id: &str, summary, says: &str| {
        on(
            method,
            format!("{queue}/{{numberOrId}}/{{lockToken}}"),
            format!("{id}{word}"),
            summary,
        )
        .says(says)
        .gives_nothing(200, "It is done.")
        .refuses(
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
        .gives(201, "The event.", anything())
        .gives_as(
            201,
            "The event.",
            "application/cloudevents+json",
            named("CloudEvent"),
        )
        .tells(
            201,
            [LOCATION, BROKER, REASON, DESCRIPTION].map(|(name, says)| (name, text(), says)),
        ),
        taking(
            Method::DELETE,
            "receiveDeadLetter",
            "Take the first dead letter for good",
        )
        .says("It is removed with the answer, whether that arrives or not.")
        .gives(200, "The event.", anything())
        .gives_as(
            200,
            "The event.",
            "application/cloudevents+json",
            named("CloudEvent"),
        )
        .tells(
            200,
            [BROKER, REASON, DESCRIPTION].map(|(name, says)| (name, text(), says)),
        ),
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
const REASON: (&str, &str) = ("DeadLetterReason", "Why it lies here, as a JSON text.");
const DESCRIPTION: (&str, &str) = ("DeadLetterErrorDescription", "The same in a sentence.");

fn of_everpost() -> [Operation; 2] {
    [
        on(
            Method::POST,
            "/everpost/deadLetters/receive",
            "receiveDeadLetters",
            "Lock several dead letters",
        )
        .says(format!(
            "At most {LOCKS_PER_REQUEST_MAX} at once; does not wait. What was deferred comes only to those \
             who ask for it by its numbers."
        ))
        .takes(
            named("ReceiveRequest"),
            json!({ "topic": "orders", "subscription": "billing", "count": 10 }),
        )
        .gives(200, "The dead letters; none if there are none.", list_of("LockedDeadLetter"))
        .refuses(404, "There is no such topic or event subscription."),
        on(Method::POST, "/everpost/locks/{verb}", "settleLocks", "Settle or renew locks")
            .says("One that is refused does not keep the others from it.")
            .takes(
                named("SettleRequest"),
                json!({ "lockTokens": ["7c9e6679-7425-40de-944b-e07fc1f90ae7"] }),
            )
            .gives(200, "What came of each token.", named("SettledLockTokens")),
    ]
}

fn lock_duration() -> Schema {
    integer()
        .within(&LOCK_SECONDS)
        .by_default(LOCK_DURATION.as_secs())
        .or_null()
        .optional()
}

fn receive() -> Schema {
    let number = integer().up_to(LOCKS_PER_REQUEST_MAX).by_default(1);
    let numbers = list(integer()).elements(&(1..=LOCKS_PER_REQUEST_MAX));
    object([
        ("topic", text()),
        ("subscription", text()),
        ("count", number.or_null().optional()),
        (
            "sequenceNumbers",
            numbers
                .or_null()
                .says("Of those that were deferred: these and no others.")
                .optional(),
        ),
        ("lockDurationInSeconds", lock_duration()),
    ])
}

fn locked() -> Schema {
    object([
        ("lockToken", text()),
        ("lockedUntil", moment()),
        ("sequenceNumber", integer()),
        ("deliveryCount", count()),
        ("publishedAt", moment()),
        ("deadLetteredAt", moment().or_null()),
        ("deadLetterReason", text().or_null()),
        ("deadLetterErrorDescription", text().or_null()),
        ("deadLetterProperties", map(text()).or_null()),
        ("deferred", flag()),
        (
            "event",
            anything().says("In the delivery schema of the event subscription."),
        ),
    ])
}

fn settle() -> Schema {
    let words = || {
        text()
            .long(&(0..=DEAD_LETTER_TEXT_MAX))
            .or_null()
            .optional()
    };
    object([
        (
            "lockTokens",
            list(text()).elements(&(1..=LOCKS_PER_REQUEST_MAX)),
        ),
        (
            "lockDurationInSeconds",
            lock_duration().says("With `renew`."),
        ),
        ("deadLetterReason", words().says("With `deadLetter`.")),
        (
            "deadLetterErrorDescription",
            words().says("With `deadLetter`."),
        ),
        (
            "properties",
            map(text())
                .says(format!(
                    "With `deadLetter`; at most {DEAD_LETTER_PROPERTIES_MAX}."
                ))
                .optional(),
        ),
    ])
}
