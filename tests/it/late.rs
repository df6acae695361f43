//! Answers that come after their deadline, through the whole appliance (rule 7.2).

use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::grid::{Grid, event};

const SECOND: Duration = Duration::from_secs(1);

/// A subscription with this policy whose receiver does not answer in time, and an event on its way.
async fn unanswered(script: &str, properties: Value) -> Grid {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push_with("orders", "billing", script, properties)
        .await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(SECOND * 5).await;
    grid
}

async fn attempts(grid: &Grid) -> Value {
    let event = grid
        .manage(Method::GET, "/everpost/events/1", Value::Null)
        .await;
    event.json()["deliveries"][0]["deliveryAttempts"].clone()
}

#[tokio::test]
async fn a_late_success_cancels_the_retry() {
    let grid = unanswered("late 200", json!({})).await;
    grid.answer_late("billing", 204).await;
    assert_eq!(grid.timeline("billing").await, "e1 +0s=TimedOut Delivered");
    let attempt = &attempts(&grid).await[0];
    assert_eq!(attempt["outcome"], "TimedOut");
    assert_eq!(attempt["lateHttpStatusCode"], 204);
    assert_eq!(attempt["lateAfterMs"], 5_000);
    grid.run_for(SECOND * 3_600).await;
    assert_eq!(grid.heard("billing").len(), 1);
    let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
    let delivered = "everpost_delivered_events_total{topic=\"orders\",subscription=\"billing\"} 1";
    assert!(metrics.contains(delivered), "{metrics}");
}

#[tokio::test]
async fn a_late_failure_changes_nothing_but_is_kept() {
    let grid = unanswered("late 200", json!({})).await;
    grid.answer_late("billing", 500).await;
    assert_eq!(attempts(&grid).await[0]["lateHttpStatusCode"], 500);
    grid.run_for(SECOND * 60).await;
    assert_eq!(grid.heard("billing").len(), 2);
    let timeline = grid.timeline("billing").await;
    assert!(timeline.starts_with("e1 +0s=TimedOut +1"), "{timeline}");
    assert!(timeline.ends_with("=200 Delivered"), "{timeline}");
}

#[tokio::test]
async fn a_success_after_the_next_attempt_is_too_late() {
    let grid = unanswered("late 500", json!({})).await;
    grid.run_for(SECOND * 10).await;
    assert_eq!(grid.heard("billing").len(), 2);
    grid.answer_late("billing", 200).await;
    assert_eq!(attempts(&grid).await[0]["lateHttpStatusCode"], 200);
    assert!(grid.timeline("billing").await.contains(" next "));
    grid.leave();
}

#[tokio::test]
async fn what_has_been_given_up_stays_given_up() {
    let once = json!({"retryPolicy": {"maxDeliveryAttempts": 1}});
    let grid = unanswered("late", once).await;
    grid.answer_late("billing", 200).await;
    assert_eq!(
        grid.timeline("billing").await,
        "e1 +0s=TimedOut DeadLettered +0s MaxDeliveryAttemptsExceeded"
    );
    assert_eq!(attempts(&grid).await[0]["lateHttpStatusCode"], 200);
}

#[tokio::test]
async fn a_whole_batch_is_completed() {
    let grid = Grid::new().await.topic("orders").await;
    let batched = json!({"destination": {"properties": {"maxEventsPerBatch": 10}}});
    let grid = grid.push_with("orders", "billing", "late", batched).await;
    for id in ["e1", "e2", "e3"] {
        grid.publish("orders", event(id)).await;
    }
    grid.run_for(SECOND).await;
    grid.answer_late("billing", 200).await;
    let timeline = grid.timeline("billing").await;
    assert_eq!(timeline.matches("+0s=TimedOut Delivered").count(), 3);
}

/// The receiver says it only once, so it must not be forgotten.
#[tokio::test(start_paused = true)]
async fn a_late_success_waits_for_room_on_the_disk() {
    const EVENTS: usize = 1_000; // more than the last page has room for
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .topic("others")
        .await;
    let grid = grid.push("others", "filler", "200").await;
    let batched = json!({"destination": {"properties": {"maxEventsPerBatch": EVENTS}}});
    let grid = grid.push_with("orders", "billing", "late", batched).await;
    let events: Vec<Value> = (0..EVENTS)
        .map(|number| event(&format!("e{number}")))
        .collect();
    grid.post("orders", Value::from(events)).await;
    grid.run_for(SECOND).await;
    grid.set_disk_full(true);
    // Pages that were given back have room, until others take them.
    while grid.post("others", json!([event("e")])).await.status == StatusCode::OK {}
    grid.answer_late("billing", 200).await;
    assert_ne!(pending(&grid).await, 0, "there is room");
    grid.set_disk_full(false);
    tokio::time::sleep(SECOND * 10).await;
    assert_eq!(pending(&grid).await, 0);
    let timeline = grid.timeline("billing").await;
    let lines = timeline.lines().count();
    assert_eq!(timeline.matches("=TimedOut Delivered").count(), lines);
    assert_eq!(attempts(&grid).await[0]["lateAfterMs"], 1_000);
    grid.run_for(SECOND).await;
}

async fn pending(grid: &Grid) -> Value {
    let counts = grid
        .manage(Method::GET, "/everpost/counts", Value::Null)
        .await;
    let counts = counts.json();
    let counts = counts["value"].as_array().expect("counts");
    let billing = counts.iter().find(|each| each["topic"] == "orders");
    billing.expect("its counts")["pending"].clone()
}

/// A receiver that always answers late works nevertheless.
#[tokio::test]
async fn late_successes_end_a_probation() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push("orders", "billing", "late").await;
    for number in 0..10 {
        grid.publish("orders", event(&format!("e{number}"))).await;
    }
    grid.run_for(SECOND).await;
    assert_eq!(
        grid.show("orders", "billing").await["everpost"]["state"],
        "OnProbation"
    );
    grid.answer_late("billing", 200).await;
    assert_eq!(
        grid.show("orders", "billing").await["everpost"]["state"],
        "Active"
    );
}
