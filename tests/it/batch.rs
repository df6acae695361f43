//! Which deliveries share a request.

use std::time::Duration;

use serde_json::{Value, json};

use crate::grid::{Grid, event};

/// The ids of the events of each request to `name`, oldest request first.
fn requests(grid: &Grid, name: &str) -> String {
    let bodies = grid.heard(name).into_iter().map(|request| {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let events = body.as_array().expect("an array").iter();
        let ids = events.map(|event| event["id"].as_str().expect("an id").to_owned());
        ids.collect::<Vec<_>>().join("+")
    });
    bodies.collect::<Vec<_>>().join(" ")
}

fn batches_of(events: u32, attributes: &Value) -> Value {
    json!({"destination": {"properties": {
        "maxEventsPerBatch": events, "deliveryAttributeMappings": attributes}}})
}

#[tokio::test]
async fn only_events_with_the_same_dynamic_headers_share_a_request() {
    let attributes = json!([
        {"name": "X-Tenant", "type": "Dynamic", "properties": {"sourceField": "data.tenant"}}]);
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push_with("orders", "billing", "200", batches_of(3, &attributes))
        .await;
    let events = [
        ("n1", "north"),
        ("s1", "south"),
        ("n2", "north"),
        ("n3", "north"),
        ("s2", "south"),
        ("n4", "north"),
    ];
    let events = events.map(|(id, tenant)| {
        let mut event = event(id);
        event["data"]["tenant"] = tenant.into();
        event
    });
    grid.post("orders", json!(events)).await;
    grid.run_for(Duration::ZERO).await;
    assert_eq!(requests(&grid, "billing"), "n1+n2+n3 s1+s2 n4");
    let tenants = grid.heard("billing").into_iter();
    let tenants: Vec<_> = tenants
        .map(|each| each.headers["x-tenant"].clone())
        .collect();
    assert_eq!(tenants, ["north", "south", "north"]);
}

#[tokio::test]
async fn what_waits_longest_goes_first_even_if_it_has_failed_before() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push_with("orders", "billing", "500 200", batches_of(2, &json!([])))
        .await;
    grid.publish("orders", event("old")).await;
    grid.run_for(Duration::ZERO).await;
    grid.clock.advance(Duration::from_secs(12));
    grid.post("orders", json!(["a", "b", "c"].map(event))).await;
    grid.run_for(Duration::ZERO).await;
    assert_eq!(requests(&grid, "billing"), "old old a+b c");
}
