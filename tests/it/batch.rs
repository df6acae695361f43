//! Which deliveries share a request.

use std::time::Duration;

use serde_json::{Value, json};

use crate::grid::{Grid, event};

const SECOND: Duration = Duration::from_secs(1);

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
    grid.clock.advance(SECOND * 12);
    grid.post("orders", json!(["a", "b", "c"].map(event))).await;
    grid.run_for(Duration::ZERO).await;
    assert_eq!(requests(&grid, "billing"), "old old a+b c");
}

/// The ids of each request's events, with the value of one header.
fn told(grid: &Grid, header: &str) -> Vec<String> {
    let requests = grid.heard("billing");
    let tell = |request: &everpost::outbound::transport::TransportRequest| {
        let events: Vec<Value> = serde_json::from_slice(&request.body).expect("an array");
        let ids: Vec<&str> = events
            .iter()
            .filter_map(|each| each["id"].as_str())
            .collect();
        let value = request.headers.get(header);
        let value = value.map_or("-", |value| value.to_str().expect("text"));
        format!("{value}: {}", ids.join(" "))
    };
    requests.iter().map(tell).collect()
}

#[tokio::test]
async fn events_of_one_request_share_their_delivery_count() {
    let properties = json!({"retryPolicy": {"schedule": ["PT2S"]},
        "destination": {"properties": {"maxEventsPerBatch": 10}}});
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push_with("orders", "billing", "500 200", properties)
        .await;
    grid.publish("orders", event("1")).await;
    grid.publish("orders", event("2")).await;
    grid.run_for(SECOND).await;
    grid.clock.advance(SECOND * 2);
    grid.publish("orders", event("3")).await;
    grid.run_for(SECOND).await;
    let mut told = told(&grid, "aeg-delivery-count");
    told[1..].sort();
    assert_eq!(told, ["0: 1 2", "0: 3", "1: 1 2"]);
}

#[tokio::test]
async fn the_preferred_size_is_that_of_the_body() {
    let properties = json!({"destination": {"properties": {"preferredBatchSizeInKilobytes": 4}}});
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push_with("orders", "billing", "200", properties).await;
    let mut big = event("big");
    big["data"] = json!("x".repeat(10_000));
    let mut events: Vec<Value> = (0..40).map(|number| event(&format!("e{number}"))).collect();
    events.push(big);
    assert_eq!(grid.post("orders", json!(events)).await.status, 200);
    grid.run_for(SECOND).await;
    let sizes: Vec<usize> = grid
        .heard("billing")
        .iter()
        .map(|each| each.body.len())
        .collect();
    let (alone, full) = (sizes.iter().max(), &sizes[..sizes.len() - 2]);
    assert!(alone.is_some_and(|size| *size > 10_000), "{sizes:?}");
    // Nearly four kilobytes each, but never more.
    assert!(
        full.iter().all(|size| (3_600..=4_096).contains(size)),
        "{sizes:?}"
    );
}

#[tokio::test]
async fn a_large_batch_is_settled_in_several_changes() {
    let operations = async |grid: Grid| {
        let grid = grid.topic("orders").await;
        let batches = batches_of(8, &json!([]));
        let grid = grid.push_with("orders", "billing", "200", batches).await;
        for number in 0..8 {
            grid.publish("orders", event(&number.to_string())).await;
        }
        let before = grid.operations();
        grid.broker.run_due().await;
        assert_eq!(grid.heard("billing").len(), 1);
        grid.operations() - before
    };
    let one = operations(Grid::new().await).await;
    let several = operations(Grid::in_bites_of(8).await).await;
    assert_eq!(several - one, 3, "two settlements in each of four changes");
}

/// A subscription that splits what is rejected, with these settings of its webhook besides, whose receiver has been sent
/// so many events.
async fn splitting(webhook: &Value, script: &str, events: u32) -> Grid {
    let mut properties = json!({"retryPolicy": {"schedule": ["PT10S"], "maxDeliveryAttempts": 2},
        "destination": {"properties": webhook}});
    properties["destination"]["properties"]["splitBatchOnError"] = true.into();
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push_with("orders", "billing", script, properties)
        .await;
    let events: Vec<Value> = (1..=events)
        .map(|number| event(&number.to_string()))
        .collect();
    assert_eq!(grid.post("orders", json!(events)).await.status, 200);
    grid.run_for(Duration::ZERO).await;
    grid
}

#[tokio::test]
async fn of_a_split_batch_only_what_is_rejected_alone_becomes_a_dead_letter() {
    // The seventh of ten is rejected.
    let script = "400 200 400 400 200 413 200 200 413";
    let grid = splitting(&json!({"maxEventsPerBatch": 10}), script, 10).await;
    let expected = "1+2+3+4+5+6+7+8+9+10 1+2+3+4+5 6+7+8+9+10 6+7+8 9+10 6+7 8 6 7";
    assert_eq!(requests(&grid, "billing"), expected);
    // No request that was split is an attempt, of which there may be two.
    let counts = told(&grid, "aeg-delivery-count");
    assert!(counts.iter().all(|each| each.starts_with("0: ")));
    let line = |number: u32| match number {
        7 => "7 +0s=413 DeadLettered +0s UndeliverableDueToHttpRequestEntityTooLarge".to_owned(),
        _ => format!("{number} +0s=200 Delivered"),
    };
    let expected: Vec<String> = (1..=10).map(line).collect();
    assert_eq!(grid.timeline("billing").await, expected.join("\n"));
}

#[tokio::test]
async fn a_batch_of_rejected_events_becomes_dead_letters_one_by_one() {
    let webhook = json!({"maxEventsPerBatch": 3});
    let grid = splitting(&webhook, "400", 3).await;
    assert_eq!(requests(&grid, "billing"), "1+2+3 1+2 3 1 2");
    let shown = grid.timeline("billing").await;
    let single = "+0s=400 DeadLettered +0s UndeliverableDueToHttpBadRequest";
    let ended = shown.lines().filter(|line| line.ends_with(single));
    assert_eq!(ended.count(), 3, "{shown}");
}

#[tokio::test]
async fn other_failures_are_retried_in_batches_as_they_were() {
    let webhook = json!({"maxEventsPerBatch": 3});
    let grid = splitting(&webhook, "422 200", 3).await;
    grid.run_for(SECOND * 12).await;
    assert_eq!(requests(&grid, "billing"), "1+2+3 1+2+3");
}

#[tokio::test]
async fn how_far_a_batch_was_split_outlives_failures_and_a_restart() {
    let webhook = json!({"maxEventsPerBatch": 4});
    let grid = splitting(&webhook, "400 503 503 200", 4).await;
    let grid = grid.restarted().await;
    grid.clock.advance(SECOND * 12);
    grid.run_for(Duration::ZERO).await;
    let all = requests(&grid, "billing");
    let mut all: Vec<&str> = all.split(' ').collect();
    all[3..].sort_unstable(); // jitter decides which half is due first
    assert_eq!(all, ["1+2+3+4", "1+2", "3+4", "1+2", "3+4"]);
}

#[tokio::test]
async fn the_halves_of_a_batch_keep_to_the_rate_of_their_subscription() {
    let webhook = json!({"maxEventsPerBatch": 4, "maxRequestsPerSecond": 1});
    let grid = splitting(&webhook, "400 200", 4).await;
    assert_eq!(requests(&grid, "billing"), "1+2+3+4");
    grid.run_for(SECOND).await;
    assert_eq!(requests(&grid, "billing"), "1+2+3+4 1+2");
    grid.run_for(SECOND).await;
    assert_eq!(requests(&grid, "billing"), "1+2+3+4 1+2 3+4");
}
