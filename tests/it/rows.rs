//! The published behaviour of Event Grid, one line for each row of its tables, through the whole
//! appliance: what a publisher, an operator or a receiver would see.
//!
//! A line begins with the name of its row, which is what a failure prints.

mod batches;
mod bodies;
mod conversions;
mod dead_letters;
mod decisions;
mod handshakes;
mod requests;
mod results;
mod schedule;
mod subscriptions;

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};

use crate::grid::{Grid, SendResult};

const SECOND: Duration = Duration::from_secs(1);

/// The resource id of the topic `orders` of every grid.
const TOPIC_ID: &str =
    "/subscriptions/sub/resourceGroups/group/providers/Microsoft.EventGrid/topics/orders";

/// Holds what came of a row against what should have come of it, which is written as
/// `/pointer = value`, `/pointer absent`, `/pointer is a UUID`, or `400 a part of the message`.
fn check(table: &str, row: &str, found: &Result<Value, String>, expected: &str) {
    let pointed = |pointer: &str| match found {
        Ok(found) => found.pointer(pointer).cloned(),
        Err(rejection) => panic!("{table}: {row}: {rejection}"),
    };
    if let Some((pointer, value)) = expected.split_once(" = ") {
        let value: Value = serde_json::from_str(value).expect(value);
        assert_eq!(pointed(pointer), Some(value), "{table}: {row}: {found:?}");
    } else if let Some(pointer) = expected.strip_suffix(" absent") {
        assert_eq!(pointed(pointer), None, "{table}: {row}: {found:?}");
    } else if let Some(pointer) = expected.strip_suffix(" is a UUID") {
        let value = pointed(pointer).unwrap_or_default();
        let read = value
            .as_str()
            .and_then(|text| text.parse::<uuid::Uuid>().ok());
        assert!(read.is_some(), "{table}: {row}: {value}");
    } else {
        let (status, part) = expected.split_once(' ').expect("a status and a part");
        let rejection = found.as_ref().expect_err(row);
        let fits = rejection.starts_with(status) && rejection.contains(part);
        assert!(fits, "{table}: {row}: expected {expected}, not {rejection}");
    }
}

/// The document of a success, or status and message of a rejection.
fn told(reply: &SendResult) -> Result<Value, String> {
    if reply.status.is_success() {
        return Ok(serde_json::from_str(&reply.text).unwrap_or_default());
    }
    let message = reply.json()["error"]["message"].to_string();
    Err(format!(
        "{} {}",
        reply.status.as_u16(),
        message.replace("\\\"", "\"")
    ))
}

/// Publishes a body to `orders` with these headers and no other.
async fn publish(grid: &Grid, headers: &[(&str, &str)], body: &str) -> SendResult {
    let mut request = Request::post("/topics/orders/api/events");
    request = request.header("aeg-sas-key", grid.key("orders").await);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned()));
    grid.send(request.expect("a request")).await
}

/// What `billing` is sent of a body that is published as JSON, or why it is rejected.
async fn delivered(grid: &Grid, body: &Value) -> Result<Value, String> {
    let headers = [("content-type", "application/json")];
    told(&publish(grid, &headers, &body.to_string()).await)?;
    grid.run_for(SECOND).await;
    let request = grid.heard("billing").pop().expect("a delivery");
    Ok(serde_json::from_slice(&request.body).expect("JSON"))
}

/// How many events the appliance holds.
async fn stored(grid: &Grid) -> usize {
    let path = "/everpost/events?limit=200";
    let list = grid.manage(Method::GET, path, Value::Null).await.json();
    list["value"].as_array().expect("a list").len()
}

/// The only delivery of the event with this key, attempts included.
async fn delivery(grid: &Grid, key: u32) -> Value {
    let path = format!("/everpost/events/{key}");
    let event = grid.manage(Method::GET, &path, Value::Null).await.json();
    event["deliveries"][0].clone()
}

/// Milliseconds of a moment in an answer.
fn millis(moment: &Value) -> u64 {
    let text = moment
        .as_str()
        .unwrap_or_else(|| panic!("no moment: {moment}"));
    let at: everpost::base::Timestamp = text.parse().expect("RFC 3339");
    at.since(everpost::base::Timestamp::default())
        .as_millis()
        .try_into()
        .expect("a moment of this age")
}

/// Asserts that a wait is as long as planned, but for jitter, which is a tenth at most.
fn check_wait(table: &str, row: &str, waited_ms: u64, planned_s: u64) {
    let planned_ms = planned_s * 1_000;
    assert!(
        waited_ms.abs_diff(planned_ms) <= planned_ms / 10,
        "{table}: {row}: waited {waited_ms} ms instead of {planned_ms} ms, a tenth more or less"
    );
}

/// The least that a mapping of custom events must say.
fn least_mapping() -> Value {
    json!({"eventType": {"defaultValue": "D"}, "subject": {"defaultValue": "/d"},
        "dataVersion": {"defaultValue": "1.0"}})
}

/// The properties of a topic that takes custom events with this mapping.
fn custom(mapping: &Value) -> Value {
    json!({"inputSchema": "CustomEventSchema",
        "inputSchemaMapping": {"inputSchemaMappingType": "Json", "properties": mapping}})
}
