//! What a subscription asks for itself: waits, deadlines and rates of its own.

use std::time::Duration;

use axum::http::Method;
use everpost::broker::BrokerOptions;
use serde_json::{Value, json};

use crate::grid::{Grid, event};

const SECOND: Duration = Duration::from_secs(1);

fn webhook(properties: &Value) -> Value {
    json!({"destination": {"properties": properties}})
}

/// When each of the events `e0`, `e1`, … was sent, in whole seconds.
async fn sent(grid: &Grid) -> Vec<String> {
    let timeline = grid.timeline("billing").await;
    let lines = timeline.lines();
    lines
        .map(|line| line.split([' ', '=']).nth(1).unwrap_or_default().to_owned())
        .collect()
}

async fn publish(grid: &Grid, events: usize) {
    for number in 0..events {
        grid.publish("orders", event(&format!("e{number}"))).await;
    }
}

#[tokio::test]
async fn waits_of_ones_own_are_kept_and_the_last_repeats() {
    let policy = json!({"retryPolicy": {"schedule": ["PT1S", "PT1M"]}});
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push_with("orders", "billing", "503 404 503/90 200", policy)
        .await;
    publish(&grid, 1).await;
    grid.run_for(SECOND * 600).await;
    let timeline = grid.timeline("billing").await;
    // Jitter moves waits of 1 s and 60 s by a tenth, and adds a tenth at most to the 90 s that are asked for.
    let moments: Vec<u32> = timeline
        .split(' ')
        .filter_map(|word| word.strip_prefix('+')?.split('s').next()?.parse().ok())
        .collect();
    let [first, second, third, fourth] = moments[..] else {
        panic!("{timeline}");
    };
    assert!(first == 0 && second <= 1, "{timeline}");
    assert!((54..=67).contains(&third), "{timeline}");
    assert!((144..=167).contains(&fourth), "{timeline}");
}

#[tokio::test]
async fn a_deadline_of_ones_own_is_that_of_the_request() {
    for (properties, seconds) in [
        (json!({}), 30),
        (json!({"responseDeadlineInSeconds": 120}), 120),
    ] {
        let grid = Grid::new().await.topic("orders").await;
        let grid = grid
            .push_with("orders", "billing", "200", webhook(&properties))
            .await;
        publish(&grid, 1).await;
        grid.run_for(SECOND).await;
        let deadline = grid.heard("billing")[0].deadline;
        assert_eq!(deadline, SECOND * seconds, "{properties}");
    }
}

#[tokio::test]
async fn a_rate_spaces_the_requests() {
    let grid = Grid::new().await.topic("orders").await;
    let slow = webhook(&json!({"maxRequestsPerSecond": 0.5}));
    let grid = grid.push_with("orders", "billing", "200", slow).await;
    publish(&grid, 4).await;
    grid.run_for(SECOND * 10).await;
    assert_eq!(sent(&grid).await, ["+0s", "+2s", "+4s", "+6s"]);
}

#[tokio::test]
async fn a_rate_counts_requests_and_not_events() {
    let grid = Grid::new().await.topic("orders").await;
    let slow = webhook(&json!({"maxRequestsPerSecond": 1, "maxEventsPerBatch": 2}));
    let grid = grid.push_with("orders", "billing", "200", slow).await;
    publish(&grid, 5).await;
    grid.run_for(SECOND * 10).await;
    assert_eq!(sent(&grid).await, ["+0s", "+0s", "+1s", "+1s", "+2s"]);
}

/// Spec A: the rate granted in the handshake is kept as a cap of requests per minute.
#[tokio::test]
async fn the_rate_granted_in_the_handshake_is_a_cap() {
    let grid = Grid::new().await.topic("orders").await;
    let agreed = vec![
        ("webhook-allowed-origin", "*".to_owned()),
        ("webhook-allowed-rate", "60".to_owned()),
    ];
    grid.answer("billing", 200, agreed, String::new());
    let body = json!({"properties": {
        "eventDeliverySchema": "CloudEventSchemaV1_0",
        "destination": {"endpointType": "WebHook", "properties": {
            "endpointUrl": "http://billing.test/", "maxRequestsPerSecond": 100}}}});
    let path = "/topics/orders/eventSubscriptions/billing";
    let made = grid.manage(Method::PUT, path, body).await.json();
    assert_eq!(
        made["properties"]["everpost"]["allowedRequestsPerMinute"],
        60
    );
    publish(&grid, 3).await;
    grid.run_for(SECOND * 10).await;
    assert_eq!(sent(&grid).await, ["+0s", "+1s", "+2s"]);
}

#[tokio::test]
async fn without_requests_in_flight_everything_waits() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push("orders", "billing", "200").await;
    let allow = |in_flight_max| {
        let options = grid.broker.options();
        let options = BrokerOptions {
            in_flight_max,
            ..BrokerOptions::clone(&options)
        };
        grid.broker.set_options(options).expect("settings");
    };
    allow(0);
    publish(&grid, 2).await;
    grid.run_for(SECOND * 3_600).await;
    assert!(grid.heard("billing").is_empty());
    allow(1);
    grid.run_for(SECOND).await;
    assert_eq!(sent(&grid).await, ["+3600s", "+3600s"]);
}
