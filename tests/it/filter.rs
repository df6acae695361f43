//! Filters through the whole appliance: who receives what, for each input schema.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use crate::grid::{Grid, event};

/// A topic with a subscription for each of `clauses`, as `name`, `operatorType`, `key` and value.
async fn grid(topic: Value, clauses: &[(&str, &str, &str, Value)]) -> Grid {
    let mut grid = Grid::new().await.topic_with("orders", topic).await;
    for (name, operator, key, value) in clauses {
        let clause = json!({"operatorType": operator, "key": key, "value": value});
        let filter = json!({"filter": {"advancedFilters": [clause]}});
        grid = grid.push_with("orders", name, "200", filter).await;
    }
    grid
}

/// Delivers what is due and asserts how many requests each subscription's receiver got.
async fn expect(grid: &Grid, expected: &[(&str, usize)]) {
    grid.run_for(Duration::from_secs(1)).await;
    for (name, count) in expected {
        assert_eq!(grid.heard(name).len(), *count, "{name}");
    }
}

#[tokio::test]
async fn event_grid_events_are_filtered_by_envelope_and_data() {
    let grid = grid(
        json!({}),
        &[
            ("dear", "NumberGreaterThan", "data.total", json!(100)),
            ("exact", "NumberIn", "data.total", json!(12.5)),
            ("orders", "StringBeginsWith", "Subject", json!("/ORDERS/")),
            ("local", "StringEndsWith", "topic", json!("/topics/orders")),
            ("untold", "IsNullOrUndefined", "data.country", Value::Null),
        ],
    )
    .await;
    let mut dear = event("e2");
    dear["data"] = json!({"total": 1_000, "country": "DE"});
    grid.publish("orders", event("e1")).await;
    grid.publish("orders", dear).await;
    expect(
        &grid,
        &[
            ("dear", 1),
            ("exact", 1),
            ("orders", 2),
            ("local", 2),
            ("untold", 1),
        ],
    )
    .await;
}

#[tokio::test]
async fn cloud_events_are_filtered_by_their_attributes() {
    let grid = grid(
        json!({"inputSchema": "CloudEventSchemaV1_0"}),
        &[
            ("north", "StringIn", "region", json!("NORTH")),
            ("urgent", "StringBeginsWith", "priority", json!("5")),
            ("typed", "StringContains", "EventType", json!("paid")),
            ("inner", "BoolEquals", "data.inner", json!(true)),
            ("south", "StringIn", "region", json!("south")),
        ],
    )
    .await;
    let event = json!({
        "specversion": "1.0", "id": "e1", "source": "/shop", "type": "Order.Paid",
        "region": "North", "priority": 5, "data": {"inner": true},
    });
    let request = Request::post("/topics/orders/api/events")
        .header("aeg-sas-key", grid.key("orders").await)
        .header("content-type", "application/cloudevents+json")
        .body(Body::from(event.to_string()));
    let reply = grid.send(request.expect("a request")).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    expect(
        &grid,
        &[
            ("north", 1),
            ("urgent", 1),
            ("typed", 1),
            ("inner", 1),
            ("south", 0),
        ],
    )
    .await;
}

#[tokio::test]
async fn custom_events_are_filtered_as_they_were_sent() {
    let mapping = json!({"inputSchemaMappingType": "Json", "properties": {
        "eventType": {"sourceField": "kind"},
        "subject": {"defaultValue": "/orders"},
        "dataVersion": {"defaultValue": "1"},
    }});
    let grid = grid(
        json!({"inputSchema": "CustomEventSchema", "inputSchemaMapping": mapping}),
        &[
            ("prefixed", "NumberLessThan", "data.sum", json!(5)),
            ("bare", "NumberLessThan", "Sum", json!(5)),
            ("mapped", "StringIn", "eventType", json!("Paid")),
            ("other", "StringIn", "kind", json!("Sent")),
        ],
    )
    .await;
    let reply = grid
        .post("orders", json!([{"kind": "Paid", "sum": 4.99}]))
        .await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    expect(
        &grid,
        &[("prefixed", 1), ("bare", 1), ("mapped", 1), ("other", 0)],
    )
    .await;
}

#[tokio::test]
async fn a_filter_is_given_back_and_a_wrong_one_is_rejected() {
    let grid = grid(
        json!({}),
        &[("dear", "NumberGreaterThan", "data.total", json!(100))],
    )
    .await;
    let path = "/topics/orders/eventSubscriptions/dear";
    let read = grid.manage(Method::GET, path, Value::Null).await.json();
    assert_eq!(
        read["properties"]["filter"]["advancedFilters"],
        json!([{"operatorType": "NumberGreaterThan", "key": "data.total", "value": 100}])
    );
    let mut wrong = read;
    wrong["properties"]["filter"]["advancedFilters"][0]["value"] = json!("100");
    wrong["properties"]["destination"]["properties"]["endpointUrl"] = json!("http://dear.test/");
    let error = grid.manage(Method::PUT, path, wrong).await;
    let error = error.error(400, "InvalidRequest");
    assert!(error.contains("filter.advancedFilters[0].value"), "{error}");
}
