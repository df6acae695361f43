//! How many events go into one request.

use serde_json::{Value, json};

use super::{SECOND, publish};
use crate::grid::{Grid, event};

/// The number of events in each request, oldest request first.
fn sizes(grid: &Grid) -> Vec<usize> {
    let heard = grid.heard("billing").into_iter();
    heard
        .map(|request| serde_json::from_slice::<Vec<Value>>(&request.body).expect("an array"))
        .map(|events| events.len())
        .collect()
}

/// An event whose body takes about so many bytes.
fn sized(id: &str, bytes: usize) -> Value {
    let mut event = event(id);
    event["data"] = json!("x".repeat(bytes));
    event
}

async fn deliver(webhook: Value, events: &[Value]) -> Grid {
    let properties = json!({"destination": {"properties": webhook}});
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push_with("orders", "billing", "200", properties).await;
    let reply = publish(&grid, &[], &json!(events).to_string()).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
    grid.run_for(SECOND).await;
    grid
}

#[tokio::test]
async fn rules_of_batching() {
    let small: Vec<Value> = (0..7).map(|number| event(&format!("e{number}"))).collect();
    let kilobytes: Vec<Value> = (0..6)
        .map(|number| sized(&format!("k{number}"), 1_000))
        .collect();
    let oversized = [sized("small", 10), sized("big", 10_000), sized("last", 10)];
    let count = |events: u32| json!({ "maxEventsPerBatch": events });
    let size = |kilobytes: u32| json!({ "preferredBatchSizeInKilobytes": kilobytes });
    for (row, webhook, events, expected) in [
        (
            "off unless one of both is set",
            json!({}),
            &small[..],
            vec![1; 7],
        ),
        (
            "maxEventsPerBatch is never exceeded",
            count(3),
            &small,
            vec![3, 3, 1],
        ),
        (
            "only the count set: up to 1,024 KB",
            count(5_000),
            &small,
            vec![7],
        ),
        (
            "only the size set: up to 5,000 events",
            size(1_024),
            &small,
            vec![7],
        ),
        ("the size is a target", size(4), &kilobytes, vec![3, 3]),
        (
            "a count of 1 is no batching, whatever the size",
            json!({"maxEventsPerBatch": 1, "preferredBatchSizeInKilobytes": 64}),
            &small,
            vec![1; 7],
        ),
        (
            "an oversized event goes alone",
            size(4),
            &oversized,
            vec![1, 1, 1],
        ),
        ("nothing is waited for", count(10), &small[..1], vec![1]),
    ] {
        let grid = deliver(webhook, events).await;
        assert_eq!(sizes(&grid), expected, "rules of batching: {row}");
    }
    let most: Vec<Value> = (0..5_000)
        .map(|number| {
            json!({"id": number.to_string(), "subject": "s", "eventType": "T",
            "eventTime": "2026-11-21T06:40:53Z"})
        })
        .collect();
    // With what the schema adds, so many are a little more than one megabyte.
    let grid = deliver(json!({"maxEventsPerBatch": 5_000}), &most).await;
    let sizes = sizes(&grid);
    assert_eq!(
        sizes.iter().sum::<usize>(),
        5_000,
        "rules of batching: 5,000 events: {sizes:?}"
    );
    let largest = grid
        .heard("billing")
        .iter()
        .map(|each| each.body.len())
        .max();
    assert!(
        largest.is_some_and(|bytes| bytes <= 1_024 * 1_024),
        "rules of batching: 1,024 KB"
    );
}

#[tokio::test]
async fn a_request_succeeds_or_fails_as_a_whole() {
    let table = "rules of batching";
    let properties = json!({"destination": {"properties": {"maxEventsPerBatch": 10}}});
    for (row, script, ending) in [
        ("all of a request succeed", "200", "=200 Delivered"),
        (
            "all of a request fail",
            "400",
            "UndeliverableDueToHttpBadRequest",
        ),
        (
            "retried events may share a request again",
            "500 200",
            "=200 Delivered",
        ),
    ] {
        let grid = Grid::new().await.topic("orders").await;
        let grid = grid
            .push_with("orders", "billing", script, properties.clone())
            .await;
        let events: Vec<Value> = (1..=3).map(|number| event(&format!("e{number}"))).collect();
        publish(&grid, &[], &json!(events).to_string()).await;
        grid.run_for(SECOND * 20).await;
        let timeline = grid.timeline("billing").await;
        let ended = timeline
            .lines()
            .filter(|line| line.ends_with(ending))
            .count();
        assert_eq!(ended, 3, "{table}: {row}: {timeline}");
    }
}

#[tokio::test]
async fn counts_of_attempts_are_not_mixed() {
    let properties = json!({"retryPolicy": {"schedule": ["PT10S"]},
        "destination": {"properties": {"maxEventsPerBatch": 10}}});
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push_with("orders", "billing", "500 200", properties)
        .await;
    grid.publish("orders", event("tried")).await;
    grid.run_for(SECOND).await;
    grid.clock.advance(SECOND * 11);
    grid.publish("orders", event("new")).await;
    grid.run_for(SECOND).await;
    assert_eq!(
        sizes(&grid),
        [1, 1, 1],
        "rules of batching: no mixing of attempt counts"
    );
}
