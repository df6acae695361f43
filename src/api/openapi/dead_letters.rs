//! What is told of searching dead letters and sending them again.

use axum::http::Method;
use serde_json::{Value, json};

use super::events::{delivery, of_topic, outcome, paging};
use super::operation::{Area, Operation, needed, on, query};
use super::schema::{
    Schema, anything, count, either, flag, integer, list, moment, named, object, page_of, schemas,
    text, url, words,
};
use crate::model::limits::{IMPORT_BYTES_MAX, REPLAY_BATCH_MAX, REPLAY_REQUESTS_MAX};
use crate::store::views::NUMBERS_MAX;

pub(super) fn area() -> Area {
    let shown = delivery().with([
        ("event", named("StoredEvent")),
        (
            "record",
            anything().says("What Azure would have written to storage."),
        ),
    ]);
    Area {
        name: "Dead letters",
        says: "What could not be delivered: found, sent again, removed, taken in.",
        operations: operations(),
        schemas: schemas([
            ("DeadLetter", shown),
            ("ReplayTarget", target()),
            ("Resubmitted", resubmitted()),
            ("RefusedResubmission", refused()),
        ]),
    }
}

/// What dead letters are chosen by; all that is given must hold.
fn filters() -> [Value; 10] {
    let any = "a `*` at the end stands for anything";
    [
        of_topic(),
        query(
            "subscription",
            text(),
            "An event subscription of that topic.",
        ),
        query("reason", text(), "Why it was given up."),
        query("outcome", outcome(), "The outcome of the last attempt."),
        query("status", integer(), "The HTTP status of the last attempt."),
        query("from", moment(), "Given up at that moment or later."),
        query("to", moment(), "Given up before that moment."),
        query("type", text(), &format!("The type of the event; {any}.")),
        query(
            "subject",
            text(),
            &format!("The subject of the event; {any}."),
        ),
        query("text", text(), "In id, type, subject or data of the event."),
    ]
}

fn operations() -> Vec<Operation> {
    let missing = "There is no such topic or event subscription.";
    vec![
        on(Method::GET, "/everpost/deadLetters", "listDeadLetters", "List dead letters")
            .says(
                "The newest first. A page that is short and has a `nextBefore` has looked at as many as \
                 one search may.",
            )
            .with(filters())
            .with(paging())
            .gives(200, "A page of dead letters.", page_of("DeliveryRow"))
            .refuses(404, missing),
        on(Method::GET, "/everpost/deadLetters/count", "countDeadLetters", "Count dead letters")
            .says("Exactly, however many there are.")
            .with(filters())
            .gives(200, "The count.", object([("count", count())]))
            .refuses(404, missing),
        on(Method::GET, "/everpost/deadLetters/{id}", "getDeadLetter", "Get a dead letter")
            .says("With its event, its attempts and the record that Azure would have stored.")
            .gives(200, "The dead letter.", named("DeadLetter")),
        on(Method::POST, "/everpost/deadLetters/purge", "purgeDeadLetters", "Remove dead letters")
            .says(format!(
                "Up to {NUMBERS_MAX} a request; what a receiver holds stays. Needs a filter, or \
                 `all=true`."
            ))
            .with(filters())
            .with([
                query("all", flag().by_default(false), "All dead letters are meant."),
                query("limit", count().by_default(NUMBERS_MAX), "How many at most."),
                query("before", integer(), "The `nextBefore` of the last request."),
            ])
            .gives(
                200,
                "What was removed.",
                object([
                    ("removed", count()),
                    ("locked", count().says("Held by receivers, and left.")),
                    ("nextBefore", integer().or_null()),
                ]),
            )
            .refuses(404, missing),
        on(
            Method::POST,
            "/everpost/deadLetters/{id}/resubmit",
            "resubmitDeadLetter",
            "Send a dead letter again",
        )
        .says("With attempts and time to live starting afresh, to where it was or elsewhere, edited or not.")
        .may_take(one_body(), json!({ "target": { "kind": "Subscription" } }))
        .gives(200, "What it has become.", named("Resubmitted"))
        .refuses(409, "It is no dead letter any more, a receiver holds it, or it cannot be sent.")
        .refuses(502, "The URL did not take it."),
        on(
            Method::POST,
            "/everpost/deadLetters/resubmit",
            "resubmitDeadLetters",
            "Send several dead letters again",
        )
        .says(format!(
            "At most {REPLAY_BATCH_MAX}, or {REPLAY_REQUESTS_MAX} to a URL; a replay job is for more."
        ))
        .takes(selection(), json!({ "deliveryIds": [1, 2] }))
        .gives(
            200,
            "What came of each.",
            object([(
                "value",
                list(either([named("Resubmitted"), named("RefusedResubmission")])),
            )]),
        ),
        on(
            Method::POST,
            "/everpost/deadLetters/import",
            "importDeadLetters",
            "Take in dead letters from storage",
        )
        .says(format!(
            "Publishes the events of one blob of dead letters, Azure's or ours, all or none; up to \
             {IMPORT_BYTES_MAX} bytes. The same blob is taken once in ten minutes."
        ))
        .with([
            needed(of_topic()),
            query(
                "subscription",
                text(),
                "The only event subscription that gets them, whatever its filter says.",
            ),
        ])
        .takes(
            list(object([]).open()),
            json!([{
                "id": "a-1",
                "subject": "/orders/7",
                "eventType": "Order.Paid",
                "eventTime": "2026-11-21T06:40:53Z",
                "dataVersion": "1.0",
                "data": {},
                "deadLetterReason": "MaxDeliveryAttemptsExceeded",
                "deliveryAttempts": 10,
            }]),
        )
        .gives(
            200,
            "What was taken.",
            object([
                ("records", count()),
                ("imported", count()),
                ("repeated", flag().says("The blob had been taken before.")),
            ]),
        )
        .refuses(404, missing),
    ]
}

/// Where something is sent again.
fn target() -> Schema {
    object([
        (
            "kind",
            words(["Subscription", "Topic", "Url"])
                .by_default("Subscription")
                .optional(),
        ),
        (
            "topic",
            text()
                .says("With `Topic`: another than its own.")
                .or_null()
                .optional(),
        ),
        ("url", url().says("With `Url`: a webhook.").optional()),
    ])
}

fn one_body() -> Schema {
    object([
        ("target", named("ReplayTarget").or_null().optional()),
        (
            "event",
            anything()
                .says("An event in its place, in the topic's input schema.")
                .optional(),
        ),
        (
            "data",
            anything().says("Other data for the same event.").optional(),
        ),
    ])
}

fn selection() -> Schema {
    object([
        (
            "deliveryIds",
            list(integer()).elements(&(0..=REPLAY_BATCH_MAX)),
        ),
        ("target", named("ReplayTarget").or_null().optional()),
    ])
}

fn resubmitted() -> Schema {
    object([
        ("resubmissionOf", integer()),
        ("deliveryId", integer().or_null()),
        ("eventKey", integer()),
        ("matched", count()),
    ])
}

fn refused() -> Schema {
    let error = object([("code", text()), ("message", text())]);
    object([("resubmissionOf", integer()), ("error", error)])
}
