//! What becomes of the deliveries of a deleted event subscription, topic or namespace: they are ended later, in batches,
//! and not shown until then.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use everpost::model::event::EventKey;
use everpost::model::name::TopicName;
use everpost::store::DiscardRequest;
use serde_json::{Value, json};

use crate::grid::{Grid, event};

const SECOND: Duration = Duration::from_secs(1);
const EVENTS: usize = 10;

/// An appliance whose changes end four deliveries, with many pending ones of `orders/billing`.
async fn grid() -> Grid {
    let grid = Grid::in_bites_of(4).await.topic("orders").await;
    let grid = grid.push("orders", "billing", "503").await;
    for number in 0..EVENTS {
        grid.publish("orders", event(&number.to_string())).await;
    }
    grid
}

async fn delete(grid: &Grid, path: &str) {
    let reply = grid.manage(Method::DELETE, path, Value::Null).await;
    assert!(reply.status.is_success(), "{}", reply.text);
}

/// How many events a search finds.
async fn found(grid: &Grid, query: &str) -> usize {
    let path = format!("/everpost/events?limit=200&{query}");
    let found = grid.manage(Method::GET, &path, Value::Null).await.json();
    found["value"].as_array().expect("events").len()
}

/// How many deliveries one batch ends.
async fn batch(grid: &Grid) -> usize {
    let discard = DiscardRequest::OfDeleted;
    let batch = grid.store.ledger.discard(discard, 4, grid.clock.now());
    batch.await.expect("a batch").count()
}

#[tokio::test]
async fn a_deletion_is_answered_first_and_others_go_between_its_bites() {
    let grid = grid().await.topic("other").await;
    let grid = grid.push("other", "quick", "200").await;
    let path = "/topics/orders/eventSubscriptions/billing";
    delete(&grid, path).await;
    for state in ["pending", "dropped"] {
        assert_eq!(found(&grid, &format!("state={state}")).await, 0, "{state}");
    }
    let first = grid.manage(Method::GET, "/everpost/events/1", Value::Null);
    assert_eq!(first.await.json()["deliveries"], json!([]));
    let one = grid.manage(Method::GET, "/everpost/deliveries/1", Value::Null);
    assert_eq!(one.await.status, StatusCode::NOT_FOUND);
    assert_eq!(batch(&grid).await, 4);
    grid.publish("other", event("meanwhile")).await;
    grid.run_for(SECOND).await;
    assert_eq!(grid.heard("quick").len(), 1);
    let grid = grid.push("orders", "billing", "200").await; // its name is free
    assert_eq!(found(&grid, "state=dropped").await, 4);
    grid.broker.finish().await.expect("done");
    assert_eq!(found(&grid, "state=dropped").await, EVENTS);
    assert_eq!(batch(&grid).await, 0, "nothing is left");
}

#[tokio::test]
async fn a_crash_between_the_bites_leaves_the_rest_to_the_next_start() {
    let grid = grid().await;
    delete(&grid, "/topics/orders?pending=deadLetter").await;
    assert_eq!(batch(&grid).await, 4);
    let grid = grid.restarted().await;
    grid.broker.finish().await.expect("done");
    assert_eq!(found(&grid, "state=deadlettered").await, EVENTS);
}

#[tokio::test]
async fn what_was_matched_before_and_stored_after_the_deletion_is_ended_by_the_next_sweep() {
    let grid = grid().await;
    let name = TopicName::parse("orders").expect("a name");
    let before = grid.broker.topic(&name).expect("the topic");
    delete(&grid, "/topics/orders/eventSubscriptions/billing").await;
    grid.broker.finish().await.expect("done");
    let late = grid
        .store
        .views
        .event(EventKey(1))
        .await
        .expect("an answer");
    let late = late.expect("the event").stored.event;
    let published = grid.broker.publish(&before, vec![late], None).await;
    published.expect("stored");
    grid.broker.sweep().await.expect("a sweep");
    grid.broker.finish().await.expect("done");
    assert_eq!(found(&grid, "state=dropped").await, EVENTS + 1);
}

#[tokio::test]
async fn the_series_of_what_is_deleted_end() {
    let grid = grid().await;
    grid.post("orders", "not events")
        .await
        .error(400, "BadRequest");
    grid.run_for(SECOND).await;
    let series = async || {
        let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
        let of = |label: &str| metrics.lines().filter(|line| line.contains(label)).count();
        (of("topic=\"orders\""), of("subscription=\"billing\""))
    };
    let (of_topic, of_subscription) = series().await;
    assert!(
        of_topic > of_subscription && of_subscription > 3,
        "{of_topic} {of_subscription}"
    );
    delete(&grid, "/topics/orders/eventSubscriptions/billing").await;
    assert_eq!(series().await, (of_topic - of_subscription, 0));
    delete(&grid, "/topics/orders").await;
    assert_eq!(series().await, (0, 0));
    grid.leave();
}
