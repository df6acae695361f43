//! What is told of stored events, their deliveries, counters and storage.

use axum::http::Method;
use serde_json::{Value, json};

use super::operation::{Area, Operation, on, query};
use super::schema::{
    Schema, anything, count, either, flag, integer, list, list_of, map, moment, named, object,
    page_of, schemas, text, words,
};
use crate::api::operate::counts::{MINUTE_S, SLOTS};
use crate::api::operate::records::PAGE_ROWS;
use crate::model::delivery::{DeliveryState, Outcome};
use crate::model::event_filter::DeliveryStage;
use crate::model::limits::{
    REJECTED_BYTES_KEPT_MAX, REJECTION_LIFE, REJECTIONS_MAX, RETENTION_HOURS_MAX,
};
use crate::model::retention::Pressure;
use crate::store::views::{PAGE_ROWS_MAX, SLOTS_MAX};

pub(super) fn area() -> Area {
    Area {
        name: "Events and deliveries",
        says: "What was published and what became of it: rows, counters, and the room that they take.",
        operations: operations(),
        schemas: schemas([
            ("EventRow", listed_row()),
            ("Event", envelope().with(fate())),
            ("StoredEvent", envelope()),
            ("Delivery", delivery()),
            ("DeliveryRow", delivery_row()),
            ("DeliveryAttempt", attempt()),
            ("Resubmission", resubmission()),
            ("RejectedEventRow", rejected_row()),
            ("RejectedEvent", rejected()),
            ("SubscriptionCounts", counts()),
            ("TrafficSlot", slot()),
            ("Storage", storage()),
        ]),
    }
}

/// The parameters of every list that comes in pages.
pub(super) fn paging() -> [Value; 2] {
    [
        query(
            "limit",
            count().by_default(PAGE_ROWS),
            &format!("Rows of a page; {PAGE_ROWS_MAX} at most."),
        ),
        query(
            "before",
            integer(),
            "The `nextBefore` of the page before this one.",
        ),
    ]
}

/// The name of a topic in a query.
pub(super) fn of_topic() -> Value {
    let says = "The name of a topic; one of a namespace is `namespace/topic`.";
    query("topic", text().such_as("orders"), says)
}

/// What events are chosen by; all that is given must hold.
fn filters() -> [Value; 10] {
    let any = "a `*` at the end stands for anything";
    let stages = words(DeliveryStage::ALL.map(DeliveryStage::name));
    [
        of_topic(),
        query(
            "subscription",
            text(),
            "An event subscription of that topic, which wanted the event.",
        ),
        query(
            "state",
            stages,
            "Where a delivery of the event stands, to that event subscription if one is given; `Retrying` is \
             pending after a failure.",
        ),
        query("id", text(), "The publisher's id of the event."),
        query("type", text(), &format!("The type of the event; {any}.")),
        query(
            "subject",
            text(),
            &format!("The subject of the event; {any}."),
        ),
        query("text", text(), "In id, type, subject or data of the event."),
        query("from", moment(), "Received at that moment or later."),
        query("to", moment(), "Received before that moment."),
        query(
            "unmatched",
            flag().by_default(false),
            "Those alone that nobody wanted.",
        ),
    ]
}

/// A page of them, with how far the search came.
fn found_events() -> Schema {
    let progress = object([
        ("events", count().says("Events that were looked at.")),
        ("to", moment().says("When the last of them was received.")),
    ]);
    let says = "Set where the search ended before the page was full and before the oldest event.";
    page_of("EventRow").with([("lookedBack", progress.or_null().says(says))])
}

fn operations() -> Vec<Operation> {
    vec![
        on(Method::GET, "/everpost/events", "listEvents", "List stored events")
            .says(
                "The newest first, without their data. A search looks at a bounded number of events, and says \
                 how far it came where it ended before the page was full.",
            )
            .with(filters())
            .with(paging())
            .gives(200, "A page of events.", found_events())
            .refuses(404, "There is no such topic or event subscription."),
        on(Method::GET, "/everpost/events/{key}", "getEvent", "Get an event")
            .says("With its data, its deliveries and all of their attempts.")
            .gives(200, "The event.", named("Event")),
        on(
            Method::POST,
            "/everpost/events/{key}/send",
            "sendEvent",
            "Send an event to an event subscription",
        )
        .says(
            "To one of its topic that has not got it. Its filter is asked as it is now; no other event \
             subscription gets the event again.",
        )
        .takes(object([("subscription", text())]), json!({ "subscription": "billing" }))
        .gives(200, "It is due.", object([("deliveryId", integer())]))
        .refuses(409, "The event subscription has got it already, or does not want it."),
        on(
            Method::POST,
            "/everpost/deliveries/{id}/tryNow",
            "tryDeliveryNow",
            "Try a delivery now",
        )
        .says("Makes a pending delivery due at once, whatever its schedule says.")
        .gives(
            200,
            "It is due, or held back.",
            object([("deliveryId", integer()), ("due", flag()), ("held", held())]),
        )
        .refuses(409, "It is not pending, or a receiver holds it."),
        on(Method::GET, "/everpost/rejectedEvents", "listRejectedEvents", "List refused requests")
            .says(format!(
                "Publish requests that were refused, the newest first; {REJECTIONS_MAX} are kept, for {} \
                 days.",
                REJECTION_LIFE.as_secs() / 86_400
            ))
            .with([
            of_topic(),
            query("reason", text(), "Part of what the publisher was told, or the whole code."),
        ])
            .with(paging())
            .gives(200, "A page of requests.", page_of("RejectedEventRow"))
            .refuses(404, "There is no such topic."),
        on(
            Method::GET,
            "/everpost/rejectedEvents/{id}",
            "getRejectedEvent",
            "Get a refused request",
        )
        .says(format!("With the first {REJECTED_BYTES_KEPT_MAX} bytes of its body."))
        .gives(200, "The request.", named("RejectedEvent")),
        on(Method::GET, "/everpost/counts", "listCounts", "Count deliveries")
            .says("How the deliveries of each event subscription stand.")
            .with([query(
                "verify",
                flag().by_default(false),
                "Counts the rows as well, and compares.",
            )])
            .gives(200, "The counts.", list_of("SubscriptionCounts")),
        on(Method::GET, "/everpost/traffic", "listTraffic", "Count what happened when")
            .says("A series of slots of equal length, up to now.")
            .with([
                of_topic(),
                query("subscription", text(), "An event subscription of that topic."),
                query(
                    "stepSeconds",
                    integer().multiple_of(MINUTE_S).at_least(MINUTE_S).by_default(MINUTE_S),
                    "The length of a slot.",
                ),
                query("slots", integer().up_to(SLOTS_MAX).by_default(SLOTS), "How many slots."),
            ])
            .gives(
                200,
                "The slots, the oldest first.",
                list_of("TrafficSlot").with([("stepSeconds", integer())]),
            )
            .refuses(404, "There is no such topic or event subscription."),
        on(Method::GET, "/everpost/storage", "getStorage", "Ask for sizes and ages")
            .says("How large the store is, how long it keeps what, and what would go now. Deletes nothing.")
            .with([
                query("hours", hours(), "Another age of delivered events, to see what would go."),
                query("deadLetterHours", hours(), "Another age of dead letters."),
            ])
            .gives(200, "The sizes.", named("Storage")),
    ]
}

fn hours() -> Schema {
    integer().within(&(0..=RETENTION_HOURS_MAX))
}

fn event_row() -> Schema {
    object([
        ("key", integer().says("The appliance's own number.")),
        ("topic", text()),
        ("id", text().says("The publisher's id.")),
        ("eventType", text()),
        ("subject", text().or_null()),
        ("receivedAt", moment()),
        ("size", count().says("Bytes of the data.")),
        (
            "matched",
            count().says("Event subscriptions that it was for."),
        ),
    ])
}

fn listed_row() -> Schema {
    let says = "Its deliveries, counted by their states.";
    event_row().with([("deliveries", map(count()).says(says))])
}

fn envelope() -> Schema {
    event_row().with([
        ("source", text().or_null()),
        ("eventTime", text().or_null()),
        ("dataVersion", text().or_null()),
        ("data", anything().says("As it was published.").optional()),
        (
            "data_base64",
            text()
                .says("Binary data, in the place of `data`.")
                .optional(),
        ),
    ])
}

fn fate() -> [(&'static str, Schema); 3] {
    [
        ("deliveries", list(named("Delivery"))),
        ("madeBy", made_by()),
        ("resubmissions", list(named("Resubmission"))),
    ]
}

/// Without its attempts.
fn delivery_row() -> Schema {
    object([
        ("deliveryId", integer()),
        ("eventKey", integer()),
        ("eventId", text()),
        ("eventType", text()),
        ("subject", text().or_null()),
        ("topic", text()),
        ("subscription", text()),
        ("state", words(DeliveryState::ALL.map(DeliveryState::name))),
        ("attempts", count()),
        ("publishedAt", moment()),
        ("nextAttemptAt", moment().or_null()),
        ("endedAt", moment().or_null()),
        ("removedAt", moment().or_null()),
        ("lockedUntil", moment().or_null()),
        ("deferred", flag()),
        (
            "blob",
            text()
                .or_null()
                .says("The blob that the dead letter went to."),
        ),
        ("deadLetterReason", text().or_null()),
        ("deadLetterErrorDescription", text().or_null()),
        ("deadLetterProperties", map(text())),
        ("lastDeliveryOutcome", outcome().or_null()),
        ("lastHttpStatusCode", integer().or_null()),
        ("lastAttemptAt", moment().or_null()),
        ("resubmissionOf", integer().or_null()),
        ("resubmittedAs", integer().or_null()),
    ])
}

pub(super) fn outcome() -> Schema {
    words(Outcome::ALL.map(Outcome::name))
}

/// What holds a delivery back that would be due otherwise.
fn held() -> Schema {
    let held = object([("state", text()), ("until", moment().or_null())]);
    held.or_null()
        .says("Why it is not attempted although it is due, such as Paused or OnProbation.")
}

/// With its attempts.
pub(super) fn delivery() -> Schema {
    delivery_row().with([
        ("held", held().optional()),
        ("deliveryAttempts", list(named("DeliveryAttempt"))),
        ("madeBy", made_by()),
        ("resubmissions", list(named("Resubmission"))),
    ])
}

fn attempt() -> Schema {
    let header = list(text()).elements(&(2..=2));
    object([
        ("attempt", count()),
        ("startedAt", moment()),
        ("durationMs", count()),
        ("outcome", outcome()),
        ("httpStatusCode", integer().or_null()),
        ("error", text().or_null()),
        ("remoteAddress", text().or_null()),
        ("responseHeaders", list(header).says("Names and values.")),
        ("responseBody", text().says("As far as it is kept.")),
        (
            "lateHttpStatusCode",
            integer().or_null().says("Of an answer after the deadline."),
        ),
        ("lateAfterMs", count().or_null()),
    ])
}

fn made_by() -> Schema {
    let made_by = named("Resubmission").or_null();
    made_by.says("Null for what a publisher sent.")
}

fn resubmission() -> Schema {
    object([
        ("deliveryId", integer()),
        ("eventKey", integer()),
        ("asDeliveryId", integer().or_null()),
        ("asEventKey", integer().or_null()),
        (
            "asTopic",
            text()
                .or_null()
                .says("The topic of the new event; null also once that event is gone."),
        ),
        ("url", text().or_null()),
        ("replayJob", integer().or_null()),
        ("resubmittedAt", moment()),
    ])
}

fn rejected_row() -> Schema {
    object([
        ("id", integer()),
        ("topic", text()),
        ("receivedAt", moment()),
        ("httpStatusCode", integer()),
        ("code", text()),
        ("reason", text()),
        ("contentType", text().or_null()),
        ("size", count()),
    ])
}

fn rejected() -> Schema {
    rejected_row().with([
        ("truncated", flag()),
        ("body", text().optional()),
        (
            "bodyBase64",
            text()
                .says("In the place of `body` if it is no text.")
                .optional(),
        ),
    ])
}

fn counts() -> Schema {
    let recount = object([
        ("pending", count()),
        ("deadLetters", count()),
        ("agrees", flag()),
    ]);
    object([
        ("topic", text()),
        ("subscription", text()),
        ("matched", count()),
        ("pending", count()),
        ("delivered", count()),
        ("deadLettered", count().says("Ever.")),
        ("dropped", count()),
        ("deadLetters", count().says("In the queue right now.")),
        (
            "balance",
            flag().says("All that was matched is accounted for."),
        ),
        ("recount", recount.says("With `verify` alone.").optional()),
    ])
}

fn slot() -> Schema {
    let within = || either([count(), words(["longer"])]).or_null();
    let latency = object([("p50", within()), ("p95", within()), ("p99", within())]);
    object([
        ("from", moment()),
        ("published", count()),
        ("unmatched", count()),
        ("bytes", count()),
        ("matched", count()),
        ("attempts", count()),
        ("delivered", count()),
        ("deadLettered", count()),
        ("dropped", count()),
        (
            "pending",
            count().says("Deliveries that waited when the slot ended, or wait now."),
        ),
        (
            "latencyMs",
            latency.says("Within how long such a part was delivered."),
        ),
    ])
}

fn storage() -> Schema {
    let oldest = object([("key", integer()), ("receivedAt", moment())]);
    let retention = object([
        ("hours", count()),
        ("deadLetterHours", count().or_null()),
        ("bytesMax", count().or_null()),
    ]);
    let pruned = object([
        ("events", count()),
        ("deliveries", count()),
        ("deliveryAttempts", count()),
    ]);
    let preview = object([
        ("events", count()),
        ("deliveries", count()),
        ("dataBytes", count()),
        ("isPartial", flag().says("There is more than was counted.")),
    ]);
    let pressures = [Pressure::Size, Pressure::Disk].map(Pressure::name);
    object([
        ("databaseBytes", count()),
        ("usedBytes", count()),
        ("freeBytes", count()),
        ("logBytes", count()),
        ("diskFreeBytes", count().or_null()),
        ("oldestEvent", oldest.or_null()),
        ("retention", retention),
        (
            "pressure",
            words(pressures).or_null().says("Why events go early."),
        ),
        ("prunedSinceStart", pruned),
        ("wouldGoNow", preview),
    ])
}
