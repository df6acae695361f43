//! What is told of inspectors.

use axum::http::Method;
use serde_json::json;

use super::events::paging;
use super::operation::{Area, Operation, on};
use super::schema::{
    Schema, count, flag, integer, list_of, map, moment, named, object, page_of, schemas, text, url,
    words,
};
use crate::model::limits::{
    INSPECTED_BYTES_MAX, INSPECTED_REQUESTS_MAX, INSPECTOR_BODY_BYTES_MAX, INSPECTOR_DELAY_MAX,
    INSPECTOR_HEADERS_MAX, INSPECTORS_MAX, RETRY_AFTER_MAX,
};

pub(super) fn area() -> Area {
    Area {
        name: "Inspectors",
        says: "Webhooks inside the appliance that answer as they are told and show what they got.",
        operations: operations(),
        schemas: schemas([
            ("InspectorDefinition", definition()),
            ("Inspector", inspector()),
            ("InspectedRow", row()),
            ("InspectedRequest", request()),
        ]),
    }
}

fn operations() -> Vec<Operation> {
    let (all, one) = ("/everpost/inspectors", "/everpost/inspectors/{name}");
    let requests = "/everpost/inspectors/{name}/requests";
    vec![
        on(Method::GET, all, "listInspectors", "List inspectors")
            .says("All inspectors.")
            .gives(200, "The inspectors.", list_of("Inspector")),
        on(Method::GET, one, "getInspector", "Get an inspector")
            .says("With the URL that event subscriptions deliver to.")
            .gives(200, "The inspector.", named("Inspector")),
        on(
            Method::PUT,
            one,
            "putInspector",
            "Create or change an inspector",
        )
        .says(format!(
            "Its answers begin anew; its requests stay. There may be {INSPECTORS_MAX}."
        ))
        .takes(
            named("InspectorDefinition"),
            json!({ "answers": "503 503 200" }),
        )
        .gives(200, "It was there before.", named("Inspector"))
        .gives(201, "It is new.", named("Inspector"))
        .refuses(409, "There are as many inspectors as there may be."),
        on(
            Method::DELETE,
            one,
            "deleteInspector",
            "Delete an inspector",
        )
        .says("With its requests.")
        .gives_nothing(204, "It is gone."),
        on(
            Method::POST,
            "/everpost/inspectors/{name}/clear",
            "clearInspector",
            "Forget an inspector's requests",
        )
        .says("The inspector itself stays.")
        .gives(200, "How many there were.", object([("cleared", count())])),
        on(
            Method::GET,
            requests,
            "listInspectedRequests",
            "List what an inspector got",
        )
        .says(format!(
            "The newest first, without headers and bodies. {INSPECTED_REQUESTS_MAX} are kept."
        ))
        .with(paging())
        .gives(200, "A page of requests.", page_of("InspectedRow")),
        on(
            Method::GET,
            "/everpost/inspectors/{name}/requests/{number}",
            "getInspectedRequest",
            "Get what an inspector got",
        )
        .says(format!(
            "With its headers and up to {INSPECTED_BYTES_MAX} bytes of its body."
        ))
        .gives(200, "The request.", named("InspectedRequest")),
    ]
}

fn script() -> Schema {
    text().such_as("503x2 timeout 200").says(
        "Statuses, `timeout` and `close`; `503x3` repeats one, and the last one repeats for ever.",
    )
}

fn delay() -> Schema {
    let most = u64::try_from(INSPECTOR_DELAY_MAX.as_millis()).unwrap_or(u64::MAX);
    integer()
        .within(&(0..=most))
        .says("Passes before each answer.")
}

fn retry_after() -> Schema {
    integer()
        .within(&(0..=RETRY_AFTER_MAX.as_secs()))
        .or_null()
        .says("Sent with every 429 and 503.")
}

fn headers() -> Schema {
    map(text()).says(format!(
        "Sent with every answer; at most {INSPECTOR_HEADERS_MAX}."
    ))
}

fn body() -> Schema {
    text().says(format!(
        "The body of every answer whose status allows for one; at most {INSPECTOR_BODY_BYTES_MAX} bytes."
    ))
}

fn per_event() -> Schema {
    flag().says("Every event goes through the answers on its own.")
}

fn definition() -> Schema {
    object([
        ("answers", script().or_null().by_default("200").optional()),
        (
            "delayInMilliseconds",
            delay().or_null().by_default(0).optional(),
        ),
        ("retryAfterInSeconds", retry_after().optional()),
        ("responseHeaders", headers().or_null().optional()),
        ("responseBody", body().or_null().by_default("").optional()),
        (
            "perEvent",
            per_event().or_null().by_default(false).optional(),
        ),
    ])
    .open()
}

fn inspector() -> Schema {
    object([
        ("name", text()),
        ("url", url().says("Where event subscriptions deliver to.")),
        ("answers", script()),
        ("delayInMilliseconds", delay()),
        ("retryAfterInSeconds", retry_after()),
        ("responseHeaders", headers()),
        ("responseBody", body()),
        ("perEvent", per_event()),
        (
            "deliveriesAnswered",
            count().says("Since the answers were written."),
        ),
        ("requestsReceived", count().says("Ever.")),
        ("requestsKept", count()),
        ("createdAt", moment()),
        ("lastModifiedAt", moment()),
    ])
}

fn row() -> Schema {
    object([
        ("number", count()),
        ("receivedAt", moment()),
        ("method", text()),
        ("path", text()),
        ("kind", words(["delivery", "validation", "abuseProtection"])),
        ("events", count()),
        ("eventId", text().or_null()),
        ("eventType", text().or_null()),
        ("size", count()),
        (
            "signature",
            text().or_null().says("What is to be said of it."),
        ),
        ("answer", text()),
    ])
}

fn request() -> Schema {
    row().with([
        ("headers", map(text())),
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
