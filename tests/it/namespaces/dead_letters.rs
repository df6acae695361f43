//! What is given up (table 7), as `/everpost/deadLetters/{id}` shows it.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{MINUTE, SECOND, cloud_event, get, publish, subscribed};
use crate::grid::{Grid, event};

/// The record of the only dead letter of a topic.
pub(super) async fn record(grid: &Grid, topic: &str) -> Value {
    let page = get(grid, &format!("/everpost/deadLetters?topic={topic}")).await;
    assert_eq!(page["value"][0]["topic"], topic);
    assert_eq!(page["value"].as_array().map(Vec::len), Some(1), "{page}");
    let path = format!("/everpost/deadLetters/{}", page["value"][0]["deliveryId"]);
    get(grid, &path).await["record"].clone()
}

#[tokio::test]
async fn table_7_the_record_wraps_the_event() {
    let headers = json!([
        {"name": "custom-header-1", "type": "Static", "properties": {"value": "value1"}},
        {"name": "custom-header-2", "type": "Static", "properties": {"value": "s", "isSecret": true}}]);
    let push = json!({"destination": {"properties": {"deliveryAttributeMappings": headers}}});
    let grid = subscribed("401", push, json!({})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    grid.run_for(SECOND).await;
    let expected = json!({
        "event": cloud_event("e1"),
        "customDeliveryProperties": {"custom-header-1": "value1"},
        "deadletterProperties": {
            "deadletterreason": "Undeliverable due to client error", "deliveryattempts": 1,
            "deliveryresult": "Unauthorized", "publishutc": "2026-11-21T12:00:00.0000000Z",
            "deliveryattemptutc": "2026-11-21T12:00:00.0000000Z",
        },
    });
    assert_eq!(record(&grid, "shop/orders").await, expected);
}

#[tokio::test]
async fn table_7_each_trigger_has_its_words() {
    for (script, push, reason, result) in [
        (
            "500",
            json!({"maxDeliveryCount": 1}),
            "Maximum delivery attempts was exceeded.",
            "InternalServerError",
        ),
        (
            "404",
            json!({}),
            "Undeliverable due to client error",
            "NotFound",
        ),
        (
            "timeout",
            json!({"eventTimeToLive": "PT1M"}),
            "Event time to live has expired.",
            "TimedOut",
        ),
    ] {
        let grid = subscribed(script, push, json!({})).await;
        publish(&grid, json!([cloud_event("e1")])).await;
        grid.run_for(MINUTE * 10).await;
        let facts = record(&grid, "shop/orders").await["deadletterProperties"].clone();
        assert_eq!(
            (&facts["deadletterreason"], &facts["deliveryresult"]),
            (&json!(reason), &json!(result))
        );
    }
}

#[tokio::test]
async fn table_7_without_a_destination_the_event_is_dropped() {
    let push = json!({"deadLetterDestinationWithResourceIdentity": {"deadLetterDestination": {"endpointType": "Drop"}}});
    let grid = subscribed("401", push, json!({})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    grid.run_for(SECOND).await;
    assert_eq!(
        grid.timeline("billing").await,
        "e1 +0s=401 Dropped +0s UndeliverableDueToClientError"
    );
}

#[tokio::test]
async fn dead_letters_of_namespace_topics_are_resubmitted_like_others() {
    let grid = subscribed("401 200", json!({}), json!({})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    grid.run_for(SECOND).await;
    let query = "/everpost/deadLetters?topic=shop/orders&subscription=billing";
    let id = get(&grid, query).await["value"][0]["deliveryId"].clone();
    let path = format!("/everpost/deadLetters/{id}/resubmit");
    let reply = grid.manage(Method::POST, &path, Value::Null).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    grid.run_for(SECOND).await;
    assert!(
        grid.timeline("billing")
            .await
            .ends_with("+1s=200 Delivered")
    );
}

#[tokio::test]
async fn records_of_custom_topics_have_the_facts_beside_the_event() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push("orders", "billing", "413").await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(SECOND).await;
    let mut expected = event("e1");
    for (name, value) in [
        (
            "topic",
            json!(
                "/subscriptions/sub/resourceGroups/group/providers/Microsoft.EventGrid/topics/orders"
            ),
        ),
        ("metadataVersion", json!("1")),
        (
            "deadLetterReason",
            json!("UndeliverableDueToHttpRequestEntityTooLarge"),
        ),
        ("deliveryAttempts", json!(1)),
        ("lastDeliveryOutcome", json!("PayloadTooLarge")),
        ("lastHttpStatusCode", json!(413)),
        ("publishTime", json!("2026-11-21T12:00:00.0000000Z")),
        (
            "lastDeliveryAttemptTime",
            json!("2026-11-21T12:00:00.0000000Z"),
        ),
    ] {
        expected[name] = value;
    }
    assert_eq!(record(&grid, "orders").await, expected);
    // The subscription and the topic are gone; the dead letter stays what it is.
    grid.manage(Method::DELETE, "/topics/orders", Value::Null)
        .await;
    let path = "/everpost/deadLetters/1";
    assert_eq!(get(&grid, path).await["record"], expected);
}

#[tokio::test]
async fn their_queues_have_addresses_of_service_bus() {
    let grid = subscribed("401", json!({}), json!({})).await;
    publish(&grid, json!([cloud_event("e1"), cloud_event("e2")])).await;
    grid.run_for(SECOND).await;
    let queue = "/shop/orders/subscriptions/billing/$deadletterqueue";
    let head = format!("{queue}/messages/head?timeout=0");
    let locked = grid.manage(Method::POST, &head, Value::Null).await;
    assert_eq!(locked.status, StatusCode::CREATED, "{}", locked.text);
    assert_eq!(locked.json(), cloud_event("e1"));
    let text = |name: &str| locked.headers[name].to_str().expect("text").to_owned();
    assert!(text("content-type").starts_with("application/cloudevents+json"));
    let reason = "\"UndeliverableDueToClientError\"";
    assert_eq!(text("deadletterreason"), reason);
    let location = text("location");
    let path = location
        .split_once("/shop/")
        .expect("a path of the namespace");
    let path = format!("/shop/{}", path.1);
    let settled = grid.manage(Method::DELETE, &path, Value::Null).await;
    assert_eq!(settled.status, StatusCode::OK, "{}", settled.text);

    let removed = grid.manage(Method::DELETE, &head, Value::Null).await;
    assert_eq!(
        (removed.status, removed.json()),
        (StatusCode::OK, cloud_event("e2"))
    );
    let none = grid.manage(Method::DELETE, &head, Value::Null).await;
    assert_eq!(none.status, StatusCode::NO_CONTENT);
    let left = get(&grid, "/everpost/deadLetters").await;
    assert_eq!(left["value"], json!([]));
    // A topic of no namespace is another one.
    let other = "/orders/Subscriptions/billing/$DeadLetterQueue/messages/head?timeout=0";
    let other = grid.manage(Method::POST, other, Value::Null).await;
    assert_eq!(other.status, StatusCode::NOT_FOUND);
}
