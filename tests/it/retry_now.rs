//! A pending delivery can be tried before its time.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde_json::Value;

use crate::grid::{Grid, SendResult, event};

async fn try_now(grid: &Grid, delivery: i64) -> SendResult {
    let path = format!("/everpost/deliveries/{delivery}/tryNow");
    grid.manage(Method::POST, &path, Value::Null).await
}

#[tokio::test]
async fn the_next_attempt_is_made_at_once_and_counts() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push("orders", "billing", "503 503 200").await;
    grid.publish("orders", event("e-1")).await;
    grid.run_for(Duration::from_secs(1)).await;
    assert_eq!(grid.heard("billing").len(), 1);

    assert_eq!(try_now(&grid, 1).await.status, StatusCode::OK);
    grid.run_for(Duration::from_secs(1)).await;
    assert_eq!(grid.heard("billing").len(), 2, "before its time");
    // The wait after it is that of a second attempt, not a repetition of the first one's.
    grid.run_for(Duration::from_secs(25)).await;
    assert_eq!(grid.heard("billing").len(), 2);
    assert_eq!(try_now(&grid, 1).await.status, StatusCode::OK);
    grid.run_for(Duration::from_secs(1)).await;
    let heard = grid.heard("billing");
    let counts: Vec<_> = heard
        .iter()
        .map(|each| &each.headers["aeg-delivery-count"])
        .collect();
    assert_eq!(counts, ["0", "1", "2"]);

    let told = try_now(&grid, 1).await.error(409, "Conflict");
    assert!(told.contains("only a pending one"), "{told}");
    try_now(&grid, 2).await.error(404, "NotFound");
}

#[tokio::test]
async fn a_paused_subscription_waits_nevertheless() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push("orders", "billing", "503 200").await;
    grid.publish("orders", event("e-1")).await;
    grid.run_for(Duration::from_secs(1)).await;
    let of = "/topics/orders/eventSubscriptions/billing";
    grid.manage(Method::POST, &format!("{of}/pause"), Value::Null)
        .await;
    let answer = try_now(&grid, 1).await.json();
    assert_eq!(answer["due"], false);
    assert_eq!(answer["held"]["state"], "Paused");
    let event = grid.manage(Method::GET, "/everpost/events/1", Value::Null);
    let event = event.await.json();
    assert_eq!(event["deliveries"][0]["held"]["state"], "Paused");
    grid.run_for(Duration::from_secs(1)).await;
    assert_eq!(grid.heard("billing").len(), 1, "while it is paused");
    grid.manage(Method::POST, &format!("{of}/resume"), Value::Null)
        .await;
    grid.run_for(Duration::from_secs(1)).await;
    assert_eq!(grid.heard("billing").len(), 2, "afterwards");
}
