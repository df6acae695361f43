//! What the appliance tells of itself: every notice reaches a webhook, few tell of many dead letters, and none
//! leads to another.

use std::time::Duration;

use axum::http::Method;
use everpost::model::retention::RetentionRules;
use serde_json::{Value, json};

use crate::grid::{Grid, event};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

impl Grid {
    /// One with `orders`, and `ops`, who wants to be told.
    async fn with_ops(self) -> Self {
        let grid = self.topic("orders").await;
        grid.push("everpost-system", "ops", "200").await
    }

    /// What `ops` has been told: types and data, in the order of arrival.
    async fn told(&self) -> Vec<(String, Value)> {
        self.broker.publish_notices().await;
        self.run_for(SECOND).await;
        let told = self.heard("ops").into_iter();
        told.map(|request| {
            let events: Value = serde_json::from_slice(&request.body).expect("JSON");
            let event = &events[0];
            let kind = event["eventType"].as_str().expect("a type");
            let kind = kind.strip_prefix("Everpost.System.").expect("one of ours");
            let topic = event["topic"].as_str().expect("a topic");
            assert!(topic.ends_with("/topics/everpost-system"), "{topic}");
            (kind.to_owned(), event["data"].clone())
        })
        .collect()
    }

    async fn reject_events(&self, count: usize) {
        let events: Vec<Value> = (0..count).map(|each| event(&format!("e{each}"))).collect();
        self.post("orders", json!(events)).await;
        self.run_for(SECOND).await;
    }
}

#[tokio::test]
async fn many_dead_letters_are_few_notices() {
    let grid = Grid::new().await.with_ops().await;
    let grid = grid.push("orders", "billing", "400").await;
    let grid = grid.push("orders", "audit", "413").await;
    let start = grid.clock.now();
    grid.reject_events(3).await;
    let mut told = grid.told().await;
    told.sort_by_key(|(_, data)| data["eventSubscription"].to_string());
    let added = |subscription: &str, reason: &str, last: u32| {
        let data = json!({"topic": "orders", "eventSubscription": subscription,
            "deadLetterReason": reason, "count": 3, "firstAt": start.to_string(),
            "lastAt": start.to_string(), "lastDeliveryId": last});
        ("DeadLettersAdded".to_owned(), data)
    };
    let expected = [
        added("audit", "UndeliverableDueToHttpRequestEntityTooLarge", 5),
        added("billing", "UndeliverableDueToHttpBadRequest", 6),
    ];
    // Which of the two gets the greater numbers is nobody's business.
    let without_last = |told: &[(String, Value)]| -> Vec<Value> {
        let data = told.iter().map(|(kind, data)| {
            let mut data = data.clone();
            data["lastDeliveryId"] = json!(kind);
            data
        });
        data.collect()
    };
    assert_eq!(without_last(&told), without_last(&expected));

    // A storm within the window is one notice at its end.
    for _ in 0..5 {
        grid.reject_events(100).await;
        assert_eq!(grid.told().await.len(), 2);
    }
    grid.run_for(MINUTE).await;
    let told = grid.told().await;
    assert_eq!(told.len(), 4);
    assert!(told[2..].iter().all(|(_, data)| data["count"] == 500));
    grid.run_for(MINUTE * 5).await;
    assert_eq!(grid.told().await.len(), 4, "nothing more happened");
}

#[tokio::test]
async fn a_crash_loses_no_notice_of_dead_letters() {
    let grid = Grid::new().await.with_ops().await;
    let grid = grid.push("orders", "billing", "400").await;
    grid.reject_events(7).await;
    let grid = grid.restarted().await;
    let told = grid.told().await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].1["count"], 7);
    let grid = grid.restarted().await;
    grid.run_for(MINUTE * 2).await;
    assert_eq!(grid.told().await.len(), 1, "and tells none twice");
}

#[tokio::test]
async fn dead_letters_of_a_deleted_subscription_are_told_by_its_name() {
    let grid = Grid::new().await.with_ops().await;
    let grid = grid.push("orders", "billing", "503").await;
    grid.reject_events(2).await;
    let path = "/topics/orders/eventSubscriptions/billing?pending=deadLetter";
    grid.manage(Method::DELETE, path, Value::Null).await;
    let told = grid.told().await;
    let (kind, data) = &told[0];
    assert_eq!(
        (
            kind.as_str(),
            &data["eventSubscription"],
            &data["deadLetterReason"]
        ),
        (
            "DeadLettersAdded",
            &json!("billing"),
            &json!("SubscriptionDeleted")
        )
    );
}

#[tokio::test]
async fn no_notice_leads_to_another_one() {
    let grid = Grid::new().await.with_ops().await;
    let grid = grid.push("orders", "billing", "400").await;
    grid.script("ops", "400");
    grid.reject_events(1).await;
    for _ in 0..5 {
        // Each is rejected and becomes a dead letter, of which nothing is told.
        assert_eq!(grid.told().await.len(), 1);
        grid.run_for(MINUTE * 2).await;
    }
    let gone = json!({"disabled": true});
    let path = "/topics/everpost-system/eventSubscriptions/ops";
    let patched = grid.manage(Method::PATCH, path, gone).await;
    assert!(patched.status.is_success(), "{}", patched.text);
    let grid = grid.push("everpost-system", "other", "200").await;
    grid.broker.publish_notices().await;
    grid.run_for(MINUTE).await;
    assert!(grid.heard("other").is_empty());
}

#[tokio::test]
async fn nothing_is_kept_for_nobody() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push("orders", "billing", "400").await;
    grid.reject_events(3).await;
    grid.broker.publish_notices().await;
    let grid = grid.push("everpost-system", "ops", "200").await;
    assert!(grid.told().await.is_empty());
    let events = grid
        .manage(
            Method::GET,
            "/everpost/events?topic=everpost-system",
            Value::Null,
        )
        .await;
    assert_eq!(events.json()["value"], json!([]));
}

#[tokio::test]
async fn a_probation_is_told_when_it_begins_and_when_it_ends() {
    let grid = Grid::new().await.with_ops().await;
    let grid = grid.push("orders", "billing", "503").await;
    for number in 1..=12 {
        grid.publish("orders", event(&format!("e{number}"))).await;
    }
    grid.run_for(SECOND).await;
    let told = grid.told().await;
    assert_eq!(told.len(), 1);
    let (kind, data) = &told[0];
    assert_eq!(kind, "ProbationBegun");
    assert_eq!(
        (&data["topic"], &data["eventSubscription"], &data["cause"]),
        (&json!("orders"), &json!("billing"), &json!("Busy"))
    );
    grid.script("billing", "200");
    grid.run_for(MINUTE * 30).await;
    let told = grid.told().await;
    assert_eq!(told.len(), 2);
    assert_eq!(told[1].0, "ProbationEnded");
    assert_eq!(told[1].1["since"], "2026-11-21T12:00:00.000Z");
}

#[tokio::test]
async fn whoever_disables_a_subscription_is_told() {
    let grid = Grid::new().await.with_ops().await;
    let gone = json!({"disableOnGone": true});
    let grid = grid.push_with("orders", "billing", "410", gone).await;
    let grid = grid.push("orders", "audit", "200").await;
    grid.publish("orders", event("e")).await;
    grid.run_for(SECOND).await;
    let patch = json!({"disabled": true});
    for _ in 0..2 {
        let path = "/topics/orders/eventSubscriptions/audit";
        let patched = grid.manage(Method::PATCH, path, patch.clone()).await;
        assert!(patched.status.is_success(), "{}", patched.text);
    }
    let told = grid.told().await;
    let expected = [("billing", "Gone"), ("audit", "Operator")].map(|(subscription, by)| {
        let data = json!({"topic": "orders", "eventSubscription": subscription, "disabledBy": by});
        ("SubscriptionDisabled".to_owned(), data)
    });
    assert_eq!(told, expected);
    grid.leave();
}

#[tokio::test]
async fn a_failed_validation_is_told() {
    let grid = Grid::new().await.with_ops().await;
    let asks = json!({"destination": {"properties": {"skipValidation": false}}});
    let grid = grid.push_with("orders", "billing", "denied", asks).await;
    let told = grid.told().await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, "ValidationFailed");
    assert_eq!(told[0].1["eventSubscription"], "billing");
    assert!(!told[0].1["reason"].as_str().expect("a reason").is_empty());
}

#[tokio::test]
async fn too_little_room_is_told_and_its_end() {
    let rules = RetentionRules {
        bytes_max: Some(3 * 1_024 * 1_024),
        ..RetentionRules::default()
    };
    let (grid, _dir) = Grid::keeping(rules).await;
    let grid = grid.with_ops().await;
    for number in 0..5 {
        let mut large = event(&format!("e{number}"));
        large["data"] = json!("x".repeat(1_000_000));
        grid.publish("orders", large).await;
    }
    grid.broker.retain().await.expect("a round");
    grid.broker.retain().await.expect("a round");
    let data = json!({"cause": "DatabaseSize", "effect": "DeliveredEventsGoEarly"});
    let expected =
        ["DiskPressureBegun", "DiskPressureEnded"].map(|kind| (kind.to_owned(), data.clone()));
    assert_eq!(grid.told().await, expected);
    grid.leave();

    // The publishers' own bound is told even while they are rejected.
    let (grid, dir) = Grid::on_disk(0).await;
    grid.with_ops().await.leave();
    let grid = Grid::reopened_on_disk(dir.path(), u64::MAX).await;
    grid.script("ops", "200");
    assert!(grid.broker.disk_is_low());
    let told = grid.told().await;
    let data = json!({"cause": "DiskSpace", "effect": "PublishersRefused"});
    assert!(
        told.contains(&("DiskPressureBegun".to_owned(), data)),
        "{told:?}"
    );
    grid.leave();
}

#[tokio::test]
async fn the_end_of_a_replay_job_is_told() {
    let grid = Grid::new().await.with_ops().await;
    let grid = grid.push("orders", "billing", "400").await;
    grid.reject_events(3).await;
    grid.script("billing", "200");
    let start = json!({"source": {"kind": "DeadLetters", "filter": {"topic": "orders"}}});
    for _ in 0..2 {
        let started = grid
            .manage(Method::POST, "/everpost/replays", start.clone())
            .await;
        assert_eq!(started.status.as_u16(), 201, "{}", started.text);
    }
    grid.manage(Method::POST, "/everpost/replays/2/cancel", Value::Null)
        .await;
    while let Some(next) = grid.broker.replay_round().await {
        grid.run_for(next.since(grid.clock.now())).await;
    }
    let told = grid.told().await;
    let finished = told.iter().filter(|(kind, _)| kind == "ReplayFinished");
    let finished: Vec<_> = finished.map(|(_, data)| data.clone()).collect();
    let expected = |job: u32, state: &str, resubmitted: u32| {
        json!({"replayJobId": job, "state": state, "total": 3, "resubmitted": resubmitted,
            "failed": 0, "skipped": 0})
    };
    assert_eq!(
        finished,
        [expected(2, "Cancelled", 0), expected(1, "Completed", 3)]
    );
}
