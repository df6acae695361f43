//! Probation and delayed delivery, through the whole appliance.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};

use everpost::model::probation::{ProbationMode, ProbationRules};

use crate::grid::{Grid, event};

const SECOND: Duration = Duration::from_secs(1);

/// A subscription that is sent one request at a time, and has twelve events to deliver.
async fn twelve_events(mode: ProbationMode, script: &str, properties: Value) -> Grid {
    let rules = ProbationRules {
        mode,
        ..ProbationRules::default()
    };
    let mut all = json!({"destination": {"properties": {"maxRequestsInFlight": 1}}});
    for (name, value) in properties.as_object().expect("an object") {
        all[name] = value.clone();
    }
    let grid = Grid::by(rules).await.topic("orders").await;
    let grid = grid.push_with("orders", "billing", script, all).await;
    for number in 1..=12 {
        grid.publish("orders", event(&format!("e{number}"))).await;
    }
    grid
}

async fn metric(grid: &Grid) -> String {
    let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await;
    let mut lines = metrics.text.lines();
    let line = lines.find(|line| line.starts_with("everpost_subscription_on_probation{"));
    line.expect("a gauge").to_owned()
}

fn gauge(value: u32) -> String {
    format!(
        "everpost_subscription_on_probation{{topic=\"orders\",subscription=\"billing\"}} {value}"
    )
}

/// A receiver that fails the first attempt of every event gets out of its probation nevertheless.
#[tokio::test]
async fn a_probe_that_failed_is_the_next_one_as_soon_as_it_is_due() {
    let grid = twelve_events(ProbationMode::Hold, "500", json!({})).await;
    grid.run_for(SECOND * 11).await;
    grid.script("billing", "500 200");
    grid.run_for(SECOND * 20).await;
    let timeline = grid.timeline("billing").await;
    let lines: Vec<_> = timeline.lines().collect();
    assert_eq!(lines[10], "e11 +10s=500 +30s=500 next +60s");
    assert_eq!(lines[11], "e12 next +0s");
    grid.leave();
}

/// Spec 7.4 and section A, `hold`.
#[tokio::test]
async fn ten_failures_in_a_row_hold_everything_but_a_probe() {
    let grid = twelve_events(ProbationMode::Hold, "503", json!({})).await;
    grid.run_for(SECOND).await;
    assert_eq!(grid.heard("billing").len(), 10);
    let shown = grid.show("orders", "billing").await["everpost"].clone();
    assert_eq!(shown["state"], "OnProbation");
    let expected = json!({"cause": "Busy", "failures": 10,
        "since": "2026-11-21T12:00:00.000Z", "until": "2026-11-21T12:00:10.000Z"});
    assert_eq!(shown["probation"], expected);
    assert_eq!(metric(&grid).await, gauge(1));

    // Probes after 10 s and, doubled, 20 s more; the retries that fall due meanwhile wait.
    for (seconds, requests) in [(8, 10), (1, 11), (19, 11), (1, 12), (39, 12)] {
        grid.run_for(SECOND * seconds).await;
        assert_eq!(grid.heard("billing").len(), requests, "{seconds}");
    }
    grid.script("billing", "200");
    grid.run_for(SECOND).await;
    assert_eq!(
        grid.heard("billing").len(),
        24,
        "the probe let the others go"
    );
    let shown = grid.show("orders", "billing").await["everpost"].clone();
    assert_eq!(
        (&shown["state"], &shown["probation"]),
        (&json!("Active"), &Value::Null)
    );
    assert_eq!(metric(&grid).await, gauge(0));
    // What was held counts no attempt.
    let timeline = grid.timeline("billing").await;
    let held = timeline.lines().nth(11).expect("twelve lines");
    assert_eq!(held, "e12 +30s=503 +70s=200 Delivered");
}

/// Spec A, `azure`.
#[tokio::test]
async fn the_manner_of_azure_counts_attempts_that_are_not_made() {
    let grid = twelve_events(ProbationMode::Azure, "503", json!({})).await;
    grid.run_for(SECOND * 5).await;
    assert_eq!(grid.heard("billing").len(), 10);
    let timeline = grid.timeline("billing").await;
    let skipped = timeline.lines().nth(11).expect("twelve lines");
    assert!(
        skipped.starts_with("e12 +0s=Probation next +1"),
        "{skipped}"
    );
    let dead = grid
        .manage(Method::GET, "/everpost/events/12", Value::Null)
        .await;
    let attempt = dead.json()["deliveries"][0]["deliveryAttempts"][0].clone();
    let error = "not tried: on probation because of Busy";
    assert_eq!(
        (&attempt["attempt"], &attempt["error"]),
        (&json!(1), &json!(error))
    );
    grid.script("billing", "200");
    grid.run_for(SECOND * 60).await;
    let timeline = grid.timeline("billing").await;
    assert!(
        timeline
            .lines()
            .all(|line| line.ends_with("=200 Delivered")),
        "{timeline}"
    );
}

#[tokio::test]
async fn the_manner_of_azure_gives_up_after_client_errors() {
    let grid = twelve_events(ProbationMode::Azure, "404", json!({})).await;
    grid.run_for(SECOND).await;
    let timeline = grid.timeline("billing").await;
    let reason = "UndeliverableDueToProbationCausedByClientError";
    for line in timeline.lines().skip(10) {
        let expected = format!("+0s=Probation DeadLettered +0s {reason}");
        assert!(line.ends_with(&expected), "{line}");
    }
    assert_eq!(grid.heard("billing").len(), 10);
    let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
    assert!(metrics.contains("error=\"Probation\"} 2"), "{metrics}");
    grid.leave();
}

#[tokio::test]
async fn failures_that_are_given_up_at_once_count_too() {
    let grid = twelve_events(ProbationMode::Hold, "401", json!({})).await;
    grid.run_for(SECOND * 299).await;
    assert_eq!(grid.heard("billing").len(), 10, "the others are spared");
    grid.script("billing", "200");
    grid.run_for(SECOND * 2).await;
    assert_eq!(grid.heard("billing").len(), 12);
}

#[tokio::test]
async fn rejected_events_are_no_reason() {
    let grid = twelve_events(ProbationMode::Hold, "400", json!({})).await;
    grid.run_for(SECOND).await;
    assert_eq!(grid.heard("billing").len(), 12);
    assert_eq!(
        grid.show("orders", "billing").await["everpost"]["state"],
        "Active"
    );
}

/// Spec 7.3: expiry is looked at when an attempt falls due.
#[tokio::test]
async fn what_expires_meanwhile_is_given_up_by_the_next_turn() {
    let policy = json!({"retryPolicy": {"eventTimeToLiveInMinutes": 1}});
    let grid = twelve_events(ProbationMode::Hold, "404", policy).await;
    grid.run_for(SECOND * 301).await;
    assert_eq!(grid.heard("billing").len(), 10);
    let timeline = grid.timeline("billing").await;
    let held = timeline.lines().nth(11).expect("twelve lines");
    assert_eq!(held, "e12 DeadLettered +300s TimeToLiveExceeded");
    // Nobody is left to probe; the next event does.
    grid.script("billing", "200");
    grid.publish("orders", event("e13")).await;
    grid.run_for(SECOND * 60).await;
    assert_eq!(
        grid.show("orders", "billing").await["everpost"]["state"],
        "Active"
    );
}

#[tokio::test]
async fn a_probe_is_one_event_even_of_a_batch() {
    let batched = json!({"destination": {"properties": {
        "maxRequestsInFlight": 1, "maxEventsPerBatch": 2}}});
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push_with("orders", "billing", "503", batched).await;
    for number in 1..=24 {
        grid.publish("orders", event(&format!("e{number}"))).await;
    }
    grid.run_for(SECOND * 11).await;
    let sizes: Vec<usize> = grid
        .heard("billing")
        .iter()
        .map(|request| serde_json::from_slice::<Vec<Value>>(&request.body).map_or(0, |e| e.len()))
        .collect();
    assert_eq!(sizes, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
    grid.leave();
}

/// A person who repairs something need not wait.
#[tokio::test]
async fn a_new_destination_a_resumption_and_a_restart_end_it() {
    for way in ["destination", "resume", "restart"] {
        let mut grid = twelve_events(ProbationMode::Hold, "404", json!({})).await;
        grid.run_for(SECOND).await;
        assert_eq!(grid.heard("billing").len(), 10);
        grid.script("billing", "200");
        let path = "/topics/orders/eventSubscriptions/billing";
        match way {
            "destination" => {
                let body = json!({"destination": {"endpointType": "WebHook", "properties": {
                    "endpointUrl": "http://billing.test/repaired", "skipValidation": true}}});
                grid.manage(Method::PATCH, path, body).await;
            }
            "resume" => {
                let path = format!("{path}/resume");
                grid.manage(Method::POST, &path, Value::Null).await;
            }
            _ => grid = grid.restarted().await,
        }
        assert_eq!(
            grid.show("orders", "billing").await["everpost"]["state"],
            "Active"
        );
        grid.run_for(SECOND).await;
        assert_eq!(grid.heard("billing").len(), 12, "{way}");
        grid.leave();
    }
}
