//! Publish requests with more deliveries than one change makes: their deliveries are created later, in batches.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use everpost::base::Timestamp;
use everpost::model::event::{Event, EventData, EventKey};
use everpost::model::name::TopicName;
use everpost::model::retention::Cutoff;
use everpost::model::topic::TopicId;
use everpost::store::{PruneBatch, PruneRequest};
use futures_util::poll;
use serde_json::{Value, json};

use crate::grid::{Grid, event};

const SECOND: Duration = Duration::from_secs(1);

/// An appliance whose changes make four deliveries, with three subscriptions of `orders`.
async fn grid() -> Grid {
    let grid = Grid::in_bites_of(4).await.topic("orders").await;
    let grid = grid.push("orders", "audit", "200").await;
    let grid = grid.push("orders", "billing", "200").await;
    grid.push("orders", "crm", "200").await
}

async fn post(grid: &Grid, ids: &[&str]) {
    let events: Vec<Value> = ids.iter().map(|id| event(id)).collect();
    let reply = grid.post("orders", Value::from(events)).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
}

fn topic(grid: &Grid) -> TopicId {
    let name = TopicName::parse("orders").expect("a name");
    grid.broker.topic(&name).expect("the topic").topic.id
}

/// How many deliveries one batch creates.
async fn batch(grid: &Grid) -> usize {
    let batch = grid.store.ledger.fan_out(topic(grid), 4).await;
    batch.expect("a batch").targets.len()
}

/// The subscriptions that have a delivery of an event, with its state.
async fn deliveries(grid: &Grid, key: u64) -> Vec<String> {
    let path = format!("/everpost/events/{key}");
    let event = grid.manage(Method::GET, &path, Value::Null).await.json();
    let deliveries = event["deliveries"].as_array().expect("deliveries").iter();
    let shown = deliveries.map(|each| {
        let word = |name: &str| each[name].as_str().expect("a word").to_owned();
        format!("{} {}", word("subscription"), word("state"))
    });
    shown.collect()
}

/// The ids that a receiver got, in their order.
fn heard(grid: &Grid, name: &str) -> String {
    let ids = grid.heard(name).into_iter().map(|request| {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        body[0]["id"].as_str().expect("an id").to_owned()
    });
    ids.collect::<Vec<_>>().join(" ")
}

async fn finish(grid: &Grid) {
    grid.broker.finish().await.expect("done");
    grid.run_for(SECOND).await;
}

#[tokio::test]
async fn others_go_between_the_bites_and_each_subscription_keeps_its_order() {
    let grid = grid().await.topic("other").await;
    let grid = grid.push("other", "quick", "200").await;
    post(&grid, &["e1", "e2", "e3"]).await;
    assert_eq!(deliveries(&grid, 1).await, [""; 0], "nothing yet");
    assert_eq!(
        batch(&grid).await,
        3,
        "those of the first subscription; more would be too much"
    );
    grid.publish("other", event("meanwhile")).await;
    post(&grid, &["e4"]).await;
    grid.run_for(SECOND).await;
    assert_eq!(heard(&grid, "quick"), "meanwhile");
    assert_eq!(
        deliveries(&grid, 5).await,
        [""; 0],
        "it is behind the others"
    );
    finish(&grid).await;
    for name in ["audit", "billing", "crm"] {
        assert_eq!(heard(&grid, name), "e1 e2 e3 e4");
    }
    post(&grid, &["e5"]).await;
    assert_eq!(deliveries(&grid, 6).await.len(), 3, "with the event again");
    grid.run_for(SECOND).await;
    let counts = grid.manage(Method::GET, "/everpost/counts?verify=true", Value::Null);
    let counts = counts.await.json();
    assert_eq!(counts["value"][0]["delivered"], 5);
    assert_eq!(counts["value"][0]["balance"], true);
    let metrics = grid.broker.metrics_text();
    // The first batch was not the broker's.
    for (subscription, matched) in [("audit", 2), ("billing", 5), ("crm", 5)] {
        let matched = format!(
            r#"everpost_matched_events_total{{topic="orders",subscription="{subscription}"}} {matched}"#
        );
        assert!(metrics.contains(&matched), "{metrics}");
    }
}

#[tokio::test]
async fn a_crash_between_the_bites_loses_and_repeats_nothing() {
    let grid = grid().await;
    post(&grid, &["e1", "e2", "e3"]).await;
    assert_eq!(batch(&grid).await, 3);
    let grid = grid.restarted().await;
    post(&grid, &["e4"]).await;
    finish(&grid).await;
    for name in ["audit", "billing", "crm"] {
        assert_eq!(heard(&grid, name), "e1 e2 e3 e4");
    }
}

#[tokio::test]
async fn what_is_deleted_meanwhile_gets_nothing_unless_it_is_kept() {
    let grid = grid().await;
    post(&grid, &["e1", "e2"]).await;
    for (name, pending) in [("audit", "discard"), ("billing", "deadLetter")] {
        let path = format!("/topics/orders/eventSubscriptions/{name}?pending={pending}");
        let reply = grid.manage(Method::DELETE, &path, Value::Null).await;
        assert!(reply.status.is_success(), "{}", reply.text);
    }
    finish(&grid).await;
    grid.broker.sweep().await.expect("a sweep");
    finish(&grid).await;
    for key in [1, 2] {
        let expected = ["billing DeadLettered", "crm Delivered"];
        assert_eq!(deliveries(&grid, key).await, expected);
    }
}

#[tokio::test]
async fn an_event_is_neither_pruned_nor_sent_by_hand_before_it_is_fanned_out() {
    let grid = grid().await;
    post(&grid, &["e1", "e2"]).await;
    assert_eq!(batch(&grid).await, 3);
    let body = json!({"subscription": "crm"});
    let sent = grid
        .manage(Method::POST, "/everpost/events/2/send", body)
        .await;
    assert_eq!(sent.status, StatusCode::CONFLICT, "{}", sent.text);
    assert!(sent.text.contains("still being created"), "{}", sent.text);
    let request = PruneRequest {
        after: EventKey(0),
        cutoff: Cutoff {
            delivered: Timestamp::from_ms(i64::MAX),
            dead_letters: None,
        },
        batch: PruneBatch {
            events: 10,
            rows: 10,
            bytes: 1_000_000,
        },
        dry_run: false,
    };
    let pruned = grid.store.ledger.prune(request).await.expect("an answer");
    assert_eq!(pruned.events, 0, "{pruned:?}");
    finish(&grid).await;
    let pruned = grid.store.ledger.prune(request).await.expect("an answer");
    assert_eq!(pruned.events, 2, "{pruned:?}");
}

#[tokio::test]
async fn a_repeated_request_is_fanned_out_once() {
    let grid = grid().await;
    for _ in 0..2 {
        let request = Request::post("/topics/orders/api/events")
            .header("aeg-sas-key", grid.key("orders").await)
            .header("content-type", "application/json")
            .header("x-ms-client-request-id", "one")
            .body(Body::from(json!([event("e1"), event("e2")]).to_string()));
        let reply = grid.send(request.expect("a request")).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    }
    finish(&grid).await;
    assert_eq!(heard(&grid, "audit"), "e1 e2");
    post(&grid, &["e3"]).await;
    assert_eq!(
        deliveries(&grid, 3).await.len(),
        3,
        "at once: nothing is left"
    );
    grid.run_for(SECOND).await;
}

#[tokio::test]
async fn matching_a_large_request_lets_others_have_their_turn() {
    let grid = grid().await;
    let name = TopicName::parse("orders").expect("a name");
    let topic = grid.broker.topic(&name).expect("the topic");
    let events = |count: usize| {
        let number = |number: usize| Event {
            id: number.to_string(),
            source: None,
            event_type: "Order.Paid".to_owned(),
            subject: None,
            time: None,
            data_version: None,
            attributes: Vec::new(),
            data: EventData::Absent,
        };
        (0..count).map(number).collect()
    };
    let mut small = Box::pin(grid.broker.publish(&topic, events(1), None));
    assert!(poll!(&mut small).is_ready());
    let mut large = Box::pin(grid.broker.publish(&topic, events(2_000), None));
    assert!(poll!(&mut large).is_pending(), "3 filters for each");
    assert_eq!(large.await.expect("stored").len(), 2_000);
    drop(small);
    grid.leave();
}
