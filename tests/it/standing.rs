//! Subscriptions that do not simply deliver: paused, disabled, gone, expired, replaced, deleted.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::grid::{Grid, event};

const SECOND: Duration = Duration::from_secs(1);
const PATH: &str = "/topics/orders/eventSubscriptions/billing";

async fn grid(script: &str, properties: Value) -> Grid {
    let grid = Grid::new().await.topic("orders").await;
    grid.push_with("orders", "billing", script, properties)
        .await
}

async fn act(grid: &Grid, verb: &str) -> Value {
    let path = format!("{PATH}/{verb}");
    let reply = grid.manage(Method::POST, &path, Value::Null).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    reply.json()["properties"].clone()
}

async fn state(grid: &Grid) -> Value {
    grid.show("orders", "billing").await["everpost"]["state"].clone()
}

#[tokio::test]
async fn a_paused_subscription_collects_and_a_resumed_one_delivers() {
    let grid = grid("200", json!({})).await;
    let paused = act(&grid, "pause").await;
    assert_eq!(
        (&paused["paused"], &paused["everpost"]["state"]),
        (&json!(true), &json!("Paused"))
    );
    assert_eq!(paused["provisioningState"], "Succeeded");
    grid.publish("orders", event("e1")).await;
    grid.run_for(SECOND * 60).await;
    assert!(grid.heard("billing").is_empty());
    let grid = grid.restarted().await;
    grid.run_for(SECOND * 60).await;
    assert!(
        grid.heard("billing").is_empty(),
        "a restart is no resumption"
    );
    let resumed = act(&grid, "resume").await;
    assert_eq!(
        (resumed.get("paused"), &resumed["everpost"]["state"]),
        (None, &json!("Active")),
        "it is as nobody paused it"
    );
    grid.run_for(SECOND).await;
    assert_eq!(grid.timeline("billing").await, "e1 +120s=200 Delivered");
    grid.manage(
        Method::POST,
        "/topics/orders/eventSubscriptions/nobody/pause",
        Value::Null,
    )
    .await
    .error(404, "ResourceNotFound");
}

#[tokio::test]
async fn pausing_is_a_property_too_and_time_to_live_goes_on() {
    let short = json!({"paused": true, "retryPolicy": {"eventTimeToLiveInMinutes": 1}});
    let grid = grid("200", short).await;
    grid.publish("orders", event("old")).await;
    grid.run_for(SECOND * 50).await;
    grid.publish("orders", event("young")).await;
    grid.run_for(SECOND * 20).await;
    let patched = grid
        .manage(Method::PATCH, PATH, json!({"paused": false}))
        .await;
    assert_eq!(patched.status, StatusCode::CREATED, "{}", patched.text);
    grid.run_for(SECOND).await;
    assert_eq!(
        grid.timeline("billing").await,
        "old DeadLettered +70s TimeToLiveExceeded\nyoung +70s=200 Delivered"
    );
}

/// Spec A: 410 is retried as any other, and shown.
#[tokio::test]
async fn a_receiver_that_is_gone_is_shown() {
    let grid = grid("410 200", json!({})).await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(SECOND).await;
    let shown = grid.show("orders", "billing").await["everpost"].clone();
    let gone = json!({"since": "2026-11-21T12:00:00.000Z",
        "reason": "the receiver answers 410 (Gone)"});
    assert_eq!((&shown["state"], &shown["gone"]), (&json!("Gone"), &gone));
    grid.run_for(SECOND * 20).await;
    assert!(grid.timeline("billing").await.ends_with("=200 Delivered"));
    assert_eq!(state(&grid).await, "Active");
}

#[tokio::test]
async fn a_receiver_that_is_gone_can_disable_its_subscription() {
    let grid = grid("410", json!({"disableOnGone": true})).await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(SECOND * 3_600).await;
    assert_eq!(grid.heard("billing").len(), 1);
    // A crash does not forget it.
    let grid = grid.restarted().await;
    let shown = grid.show("orders", "billing").await;
    assert_eq!(
        (&shown["disabled"], &shown["everpost"]["state"]),
        (&json!(true), &json!("Disabled"))
    );
    assert_eq!(
        shown["everpost"]["gone"]["since"],
        "2026-11-21T12:00:00.000Z"
    );
    let reason = shown["everpost"]["stateReason"].as_str().expect("a reason");
    assert!(reason.contains("410 (Gone)"), "{reason}");
    grid.publish("orders", event("e2")).await;
    grid.script("billing", "200");
    act(&grid, "resume").await;
    grid.publish("orders", event("e3")).await;
    grid.run_for(SECOND).await;
    // What was pending is delivered, what was published meanwhile never matched.
    assert_eq!(
        grid.timeline("billing").await,
        "e1 +0s=410 +3600s=200 Delivered\ne3 +3600s=200 Delivered"
    );
}

#[tokio::test]
async fn a_subscription_can_be_disabled_by_hand() {
    let grid = grid("200", json!({"disabled": true})).await;
    assert_eq!(state(&grid).await, "Disabled");
    grid.publish("orders", event("e1")).await;
    grid.manage(Method::PATCH, PATH, json!({"disabled": false}))
        .await;
    grid.publish("orders", event("e2")).await;
    grid.run_for(SECOND).await;
    assert_eq!(grid.timeline("billing").await, "e2 +0s=200 Delivered");
}

#[tokio::test]
async fn an_expired_subscription_finishes_what_it_accepted() {
    let grid = grid(
        "500 500 200",
        json!({"expirationTimeUtc": "2026-11-21T12:00:05Z"}),
    )
    .await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(SECOND * 5).await;
    let shown = grid.show("orders", "billing").await["everpost"].clone();
    assert_eq!(shown["state"], "Expired");
    let reason = shown["stateReason"].as_str().expect("a reason");
    assert!(reason.contains("2026-11-21T12:00:05.000Z"), "{reason}");
    grid.publish("orders", event("e2")).await;
    grid.run_for(SECOND * 60).await;
    let timeline = grid.timeline("billing").await;
    assert!(timeline.ends_with("=200 Delivered"), "{timeline}");
    assert_eq!(grid.heard("billing").len(), 3, "{timeline}");
}

#[tokio::test]
async fn whoever_deletes_says_what_becomes_of_what_is_pending() {
    for (query, ended) in [
        ("", "Dropped +1s SubscriptionDeleted"),
        ("?pending=discard", "Dropped +1s SubscriptionDeleted"),
        (
            "?pending=deadLetter",
            "DeadLettered +1s SubscriptionDeleted",
        ),
        (
            "?api-version=2025-02-15&pending=deadletter",
            "DeadLettered +1s SubscriptionDeleted",
        ),
    ] {
        for path in [PATH, "/topics/orders"] {
            // Even where the subscription drops its own dead letters.
            let grid = grid(
                "500",
                json!({"deadLetterDestination": {"endpointType": "Drop"}}),
            )
            .await;
            grid.publish("orders", event("e1")).await;
            grid.run_for(SECOND).await;
            grid.manage(Method::DELETE, &format!("{PATH}?pending=keep"), Value::Null)
                .await
                .error(400, "BadRequest");
            let path = format!("{path}{query}");
            let deleted = grid.manage(Method::DELETE, &path, Value::Null).await;
            assert_eq!(deleted.status, StatusCode::NO_CONTENT, "{path}");
            let timeline = grid.timeline("billing").await;
            assert_eq!(timeline, format!("e1 +0s=500 {ended}"), "{path}");
        }
    }
}

#[tokio::test]
async fn an_update_keeps_what_is_queued() {
    let grid = grid("500 200", json!({})).await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(SECOND).await;
    grid.script("elsewhere", "200");
    let body = json!({"properties": {
        "filter": {"includedEventTypes": ["Nothing"]},
        "destination": {"endpointType": "WebHook", "properties": {
            "endpointUrl": "http://elsewhere.test/", "skipValidation": true}}}});
    grid.manage(Method::PUT, PATH, body).await;
    grid.run_for(SECOND * 20).await;
    assert_eq!(grid.heard("elsewhere").len(), 1);
    assert!(grid.timeline("billing").await.ends_with("=200 Delivered"));
}

/// A receiver is asked again when it is another one, or is to hear another schema, and not otherwise.
#[tokio::test]
async fn only_another_endpoint_or_schema_is_validated_again() {
    let grid = Grid::new().await.topic("orders").await;
    let agreed = vec![("webhook-allowed-origin", "*".to_owned())];
    grid.answer("billing", 200, agreed, String::new());
    let webhook = |properties: Value| {
        let mut all = json!({"endpointUrl": "http://billing.test/in"});
        for (name, value) in properties.as_object().expect("an object") {
            all[name] = value.clone();
        }
        json!({"destination": {"endpointType": "WebHook", "properties": all}})
    };
    let mut first = webhook(json!({}));
    first["eventDeliverySchema"] = json!("CloudEventSchemaV1_0");
    grid.manage(Method::PUT, PATH, json!({"properties": first}))
        .await;
    assert_eq!(grid.heard("billing").len(), 1);
    let header = json!([{"name": "X-A", "type": "Static", "properties": {"value": "1"}}]);
    for (patch, asked) in [
        (json!({"labels": ["a"]}), 1),
        (json!({"retryPolicy": {"maxDeliveryAttempts": 3}}), 1),
        (json!({"filter": {"subjectBeginsWith": "/x"}}), 1),
        (webhook(json!({"maxEventsPerBatch": 5})), 1),
        (webhook(json!({"maxRequestsPerSecond": 5})), 1),
        (webhook(json!({"deliveryAttributeMappings": header})), 1),
        (
            webhook(json!({"endpointUrl": "http://billing.test/out"})),
            2,
        ),
        (json!({"eventDeliverySchema": "EventGridSchema"}), 3),
    ] {
        grid.manage(Method::PATCH, PATH, patch.clone()).await;
        assert_eq!(grid.heard("billing").len(), asked, "{patch}");
    }
}
