//! What is recorded of an event that was given up.

use axum::http::Method;
use everpost::base::{Entropy, Timestamp};
use everpost::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use everpost::model::delivery::Outcome;
use everpost::model::event::{EventKey, StoredEvent};
use everpost::model::topic::{DeliverySchema, InputMapping, InputSchema, MappedField};
use everpost::wire::dead_letter::{DeadLetterFacts, record};
use everpost::wire::decode;
use http::HeaderMap;
use serde_json::{Value, json};

use super::{SECOND, check, delivery};
use crate::grid::{Grid, event};

const NOW: Timestamp = Timestamp::from_ms(1_795_243_253_138);

/// The record of an event that came as `input`, for a subscription with this delivery schema.
fn recorded(input: &InputSchema, body: &str, delivery: DeliverySchema) -> Result<Value, String> {
    let headers = HeaderMap::new();
    let entropy = Entropy::seeded(1);
    let mut events =
        decode(input, "/t", &headers, body.as_bytes(), NOW, &entropy).expect("an event");
    let stored = StoredEvent {
        key: EventKey(1),
        received_at: NOW,
        event: events.remove(0),
    };
    let facts = DeadLetterFacts {
        reason: DeadLetterReason::MaxDeliveryAttemptsExceeded,
        details: DeadLetterDetails::default(),
        attempts: 30,
        last_outcome: Some(Outcome::Busy),
        last_status: Some(503),
        publish_time: NOW,
        last_attempt_at: Some(NOW),
    };
    Ok(serde_json::from_slice(&record(delivery, "/t", &stored, &facts)).expect("JSON"))
}

#[test]
fn shapes_of_records() {
    let table = "dead-letter record";
    let fixed = |value: &str| MappedField {
        source_field: None,
        default_value: Some(value.to_owned()),
    };
    let mapping = InputMapping {
        event_type: fixed("D"),
        subject: fixed("/d"),
        ..InputMapping::default()
    };
    let cloud_event = r#"{"specversion":"1.0","id":"1","source":"/s","type":"T"}"#;
    let grid = recorded(
        &InputSchema::EventGridSchema,
        &json!([event("e1")]).to_string(),
        DeliverySchema::EventGridSchema,
    );
    let cloud = recorded(
        &InputSchema::CloudEventSchemaV1_0,
        cloud_event,
        DeliverySchema::CloudEventSchemaV1_0,
    );
    let custom = recorded(
        &InputSchema::CustomEventSchema(Box::new(mapping)),
        r#"[{"any":1}]"#,
        DeliverySchema::CustomInputSchema,
    );
    let moment = "\"2026-11-21T06:40:53.1380000Z\"";
    for (row, found, expected) in [
        (
            "Event Grid: beside the event's own",
            &grid,
            "/id = \"e1\"".to_owned(),
        ),
        (
            "Event Grid: reason",
            &grid,
            "/deadLetterReason = \"MaxDeliveryAttemptsExceeded\"".to_owned(),
        ),
        (
            "Event Grid: attempts",
            &grid,
            "/deliveryAttempts = 30".to_owned(),
        ),
        (
            "Event Grid: outcome",
            &grid,
            "/lastDeliveryOutcome = \"Busy\"".to_owned(),
        ),
        (
            "Event Grid: status",
            &grid,
            "/lastHttpStatusCode = 503".to_owned(),
        ),
        (
            "Event Grid: publish time, 7 digits",
            &grid,
            format!("/publishTime = {moment}"),
        ),
        (
            "Event Grid: last attempt, 7 digits",
            &grid,
            format!("/lastDeliveryAttemptTime = {moment}"),
        ),
        (
            "CloudEvents: beside the event's own",
            &cloud,
            "/id = \"1\"".to_owned(),
        ),
        (
            "CloudEvents: reason",
            &cloud,
            "/deadletterreason = \"MaxDeliveryAttemptsExceeded\"".to_owned(),
        ),
        (
            "CloudEvents: attempts",
            &cloud,
            "/deliveryattempts = 30".to_owned(),
        ),
        (
            "CloudEvents: outcome",
            &cloud,
            "/lastdeliveryoutcome = \"Busy\"".to_owned(),
        ),
        (
            "CloudEvents: publish time",
            &cloud,
            format!("/publishtime = {moment}"),
        ),
        (
            "CloudEvents: last attempt",
            &cloud,
            format!("/lastdeliveryattempttime = {moment}"),
        ),
        ("custom: wrapped, id", &custom, "/id is a UUID".to_owned()),
        (
            "custom: wrapped, eventTime",
            &custom,
            format!("/eventTime = {moment}"),
        ),
        (
            "custom: wrapped, eventType",
            &custom,
            "/eventType = \"D\"".to_owned(),
        ),
        (
            "custom: wrapped, dataVersion",
            &custom,
            "/dataVersion = \"\"".to_owned(),
        ),
        (
            "custom: wrapped, metadataVersion",
            &custom,
            "/metadataVersion = \"1\"".to_owned(),
        ),
        (
            "custom: wrapped, topic",
            &custom,
            "/topic = \"/t\"".to_owned(),
        ),
        (
            "custom: wrapped, subject",
            &custom,
            "/subject = \"/d\"".to_owned(),
        ),
        (
            "custom: the original is the data",
            &custom,
            "/data = {\"any\": 1}".to_owned(),
        ),
        (
            "custom: names of Event Grid",
            &custom,
            "/deliveryAttempts = 30".to_owned(),
        ),
    ] {
        check(table, row, found, &expected);
    }
}

#[tokio::test]
async fn reasons_and_last_outcomes() {
    let table = "dead-letter reasons and last outcomes";
    let once = json!({"maxDeliveryAttempts": 1});
    let exceeded = "MaxDeliveryAttemptsExceeded";
    for (row, answer, policy, reason, outcome) in [
        ("NotFound, 404", "404", &once, exceeded, json!("NotFound")),
        (
            "Unauthorized, 401",
            "401",
            &once,
            "UndeliverableDueToHttpUnauthorized",
            json!("Unauthorized"),
        ),
        (
            "Forbidden, 403",
            "403",
            &once,
            "UndeliverableDueToHttpForbidden",
            json!("Forbidden"),
        ),
        (
            "BadRequest, 400",
            "400",
            &once,
            "UndeliverableDueToHttpBadRequest",
            json!("BadRequest"),
        ),
        (
            "PayloadTooLarge, 413",
            "413",
            &once,
            "UndeliverableDueToHttpRequestEntityTooLarge",
            json!("PayloadTooLarge"),
        ),
        ("Busy, 503", "503", &once, exceeded, json!("Busy")),
        ("Busy, 429", "429", &once, exceeded, json!("Busy")),
        (
            "TimedOut, no answer",
            "timeout",
            &once,
            exceeded,
            json!("TimedOut"),
        ),
        ("TimedOut, 408", "408", &once, exceeded, json!("TimedOut")),
        (
            "SocketError",
            "rejected",
            &once,
            exceeded,
            json!("SocketError"),
        ),
        (
            "ResolutionError",
            "unknown",
            &once,
            exceeded,
            json!("ResolutionError"),
        ),
        (
            "Aborted, not allowed to be called",
            "denied",
            &once,
            exceeded,
            json!("Aborted"),
        ),
        (
            "GenericError, any other status",
            "500",
            &once,
            exceeded,
            json!("GenericError"),
        ),
        (
            "TimeToLiveExceeded",
            "503",
            &json!({"eventTimeToLiveInMinutes": 1}),
            "TimeToLiveExceeded",
            json!("Busy"),
        ),
    ] {
        let grid = Grid::new().await.topic("orders").await;
        let properties = json!({ "retryPolicy": policy });
        let grid = grid
            .push_with("orders", "billing", answer, properties)
            .await;
        grid.publish("orders", event("e1")).await;
        grid.run_for(SECOND * 600).await;
        let found = delivery(&grid, 1).await;
        let found = (&found["deadLetterReason"], &found["lastDeliveryOutcome"]);
        assert_eq!(found, (&json!(reason), &outcome), "{table}: {row}");
    }
}

#[tokio::test]
async fn dead_letters_of_deleted_subscriptions() {
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .push("orders", "billing", "500")
        .await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(SECOND).await;
    let path = "/topics/orders/eventSubscriptions/billing?pending=deadLetter";
    grid.manage(Method::DELETE, path, Value::Null).await;
    let reason = delivery(&grid, 1).await["deadLetterReason"].clone();
    assert_eq!(
        reason, "SubscriptionDeleted",
        "dead-letter reasons: SubscriptionDeleted"
    );
}
