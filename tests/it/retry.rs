//! Failures, retries and their ends, through the whole appliance.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};

use crate::grid::{Grid, event};

const HOUR: Duration = Duration::from_secs(3_600);

/// One subscription whose receiver answers by `script`; what became of one event after two days.
async fn check(script: &str, properties: Value, expected: &str) {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push_with("orders", "billing", script, properties)
        .await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(HOUR * 48).await;
    assert_timeline(&grid.timeline("billing").await, expected, script);
}

/// Asserts that a timeline is as expected, but for jitter, which moves each moment by a tenth at most.
fn assert_timeline(timeline: &str, expected: &str, script: &str) {
    let moment = |word: &str| -> Option<(f64, String)> {
        let (seconds, rest) = word.strip_prefix('+')?.split_once('s')?;
        Some((seconds.parse().ok()?, rest.to_owned()))
    };
    let is_meant = |(told, expected): (&str, &str)| match (moment(told), moment(expected)) {
        // Seconds that have begun do not count.
        (Some((at, told)), Some((planned, expected))) => {
            told == expected && (0.9 * planned - 1.0..=1.1 * planned).contains(&at)
        }
        _ => told == expected,
    };
    let words = timeline.split(' ').count() == expected.split(' ').count();
    let is_as_expected = words && timeline.split(' ').zip(expected.split(' ')).all(is_meant);
    assert!(is_as_expected, "{script}: {timeline} instead of {expected}");
}

/// How many bytes of the body and how many headers are kept with each attempt of an event.
async fn kept(grid: &Grid, event: u32) -> Vec<(usize, usize)> {
    let path = format!("/everpost/events/{event}");
    let shown = grid.manage(Method::GET, &path, Value::Null).await.json();
    let attempts = &shown["deliveries"][0]["deliveryAttempts"];
    let attempts = attempts.as_array().expect("attempts").iter();
    let kept = attempts.map(|each| {
        let body = each["responseBody"].as_str().expect("a body");
        let headers = each["responseHeaders"].as_array().expect("headers");
        (body.len(), headers.len())
    });
    kept.collect()
}

#[tokio::test]
async fn the_newest_answer_is_kept_whole_and_of_large_ones_the_beginning() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push("orders", "billing", "500").await;
    grid.publish("orders", event("e1")).await;
    for (body, seconds) in [(8_000, 5), (9, 10), (7_000, 35)] {
        let headers = vec![("x-a", "1".to_owned())];
        grid.answer("billing", 500, headers, "b".repeat(body));
        grid.run_for(Duration::from_secs(seconds)).await;
        assert_eq!(kept(&grid, 1).await.last(), Some(&(body, 1)));
    }
    grid.script("billing", "timeout");
    grid.run_for(Duration::from_secs(70)).await;
    let expected = [(1_024, 0), (9, 1), (7_000, 1), (0, 0)];
    assert_eq!(kept(&grid, 1).await, expected);
    grid.leave();
}

#[tokio::test]
async fn one_event_of_a_request_keeps_its_whole_answer() {
    let grid = Grid::new().await.topic("orders").await;
    let batches = json!({"destination": {"properties": {"maxEventsPerBatch": 3}}});
    let grid = grid.push_with("orders", "billing", "400", batches).await;
    let headers = vec![("x-a", "1".to_owned())];
    grid.answer("billing", 400, headers, "b".repeat(8_000));
    let events = json!([event("e1"), event("e2"), event("e3")]);
    grid.post("orders", events).await;
    grid.run_for(Duration::from_secs(5)).await;
    assert_eq!(grid.heard("billing").len(), 1);
    for (number, expected) in [(1, (1_024, 0)), (2, (1_024, 0)), (3, (8_000, 1))] {
        assert_eq!(kept(&grid, number).await, [expected], "{number}");
    }
}

/// Others take all places for the look-up of its host.
#[tokio::test]
async fn what_could_not_be_attempted_counts_as_no_attempt() {
    let once = json!({"retryPolicy": {"maxDeliveryAttempts": 1}});
    check("crowded crowded 200", once, "e1 +20s=200 Delivered").await;
}

#[tokio::test]
async fn failures_are_retried_by_the_schedule() {
    check("200", json!({}), "e1 +0s=200 Delivered").await;
    check("204", json!({}), "e1 +0s=204 Delivered").await;
    check(
        "500 500 500 200",
        json!({}),
        "e1 +0s=500 +10s=500 +40s=500 +100s=200 Delivered",
    )
    .await;
    check(
        "timeout 200",
        json!({}),
        "e1 +0s=TimedOut +10s=200 Delivered",
    )
    .await;
    check(
        "rejected 200",
        json!({}),
        "e1 +0s=SocketError +10s=200 Delivered",
    )
    .await;
    check(
        "205 302 200",
        json!({}),
        "e1 +0s=205 +10s=302 +40s=200 Delivered",
    )
    .await;
}

#[tokio::test]
async fn some_statuses_wait_longer() {
    check("503 200", json!({}), "e1 +0s=503 +30s=200 Delivered").await;
    check("404 200", json!({}), "e1 +0s=404 +300s=200 Delivered").await;
    check("408 200", json!({}), "e1 +0s=408 +120s=200 Delivered").await;
    check("429/60 200", json!({}), "e1 +0s=429 +60s=200 Delivered").await;
    check("503/90 200", json!({}), "e1 +0s=503 +90s=200 Delivered").await;
    check("500/90 200", json!({}), "e1 +0s=500 +10s=200 Delivered").await;
}

#[tokio::test]
async fn some_statuses_are_final() {
    for (status, reason) in [
        (400, "UndeliverableDueToHttpBadRequest"),
        (401, "UndeliverableDueToHttpUnauthorized"),
        (403, "UndeliverableDueToHttpForbidden"),
        (413, "UndeliverableDueToHttpRequestEntityTooLarge"),
    ] {
        let expected = format!("e1 +0s={status} DeadLettered +0s {reason}");
        check(&status.to_string(), json!({}), &expected).await;
    }
}

#[tokio::test]
async fn attempts_and_time_to_live_end_a_delivery() {
    check(
        "500",
        json!({"retryPolicy": {"maxDeliveryAttempts": 3}}),
        "e1 +0s=500 +10s=500 +40s=500 DeadLettered +40s MaxDeliveryAttemptsExceeded",
    )
    .await;
    // A time to live of 30 min admits six attempts; it ends before the seventh (rule 7.1, 7.3).
    check(
        "500",
        json!({"retryPolicy": {"maxDeliveryAttempts": 10, "eventTimeToLiveInMinutes": 30}}),
        "e1 +0s=500 +10s=500 +40s=500 +100s=500 +400s=500 +1000s=500 \
         DeadLettered +1800s TimeToLiveExceeded",
    )
    .await;
}

#[tokio::test]
async fn without_a_dead_letter_destination_it_is_dropped() {
    check(
        "400",
        json!({"deadLetterDestination": {"endpointType": "Drop"}}),
        "e1 +0s=400 Dropped +0s UndeliverableDueToHttpBadRequest",
    )
    .await;
}

#[tokio::test]
async fn a_crash_forgets_nothing_and_repeats_nothing() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push("orders", "billing", "500 200")
        .await
        .push("orders", "audit", "200")
        .await;
    grid.publish("orders", event("e1")).await;
    let grid = grid.restarted().await;
    grid.run_for(Duration::from_secs(1)).await;
    let grid = grid.restarted().await;
    grid.run_for(Duration::from_secs(60)).await;
    let timeline = grid.timeline("billing").await;
    assert_timeline(&timeline, "e1 +0s=500 +10s=200 Delivered", "two crashes");
    assert_eq!(grid.timeline("audit").await, "e1 +0s=200 Delivered");
}

#[tokio::test]
async fn a_resubmitted_dead_letter_goes_to_its_own_subscription_alone() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push("orders", "billing", "400")
        .await
        .push("orders", "audit", "200")
        .await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(HOUR).await;
    let list = grid
        .manage(Method::GET, "/everpost/deadLetters", Value::Null)
        .await
        .json();
    let dead = list["value"][0].clone();
    assert_eq!(dead["deadLetterReason"], "UndeliverableDueToHttpBadRequest");
    assert_eq!(
        (&dead["lastHttpStatusCode"], &dead["attempts"]),
        (&json!(400), &json!(1))
    );

    grid.script("billing", "200");
    let path = format!("/everpost/deadLetters/{}/resubmit", dead["deliveryId"]);
    let fresh = grid.manage(Method::POST, &path, Value::Null).await.json();
    grid.run_for(HOUR).await;
    assert_eq!(grid.heard("audit").len(), 1);
    assert_eq!(grid.heard("billing").len(), 2);
    assert_eq!(
        grid.timeline("billing").await,
        "e1 +0s=400 Resubmitted +0s UndeliverableDueToHttpBadRequest\ne1 +3600s=200 Delivered"
    );
    let path = format!("/everpost/deadLetters/{}", dead["deliveryId"]);
    let old = grid.manage(Method::GET, &path, Value::Null).await.json();
    assert_eq!(old["resubmittedAs"], fresh["deliveryId"]);
    assert_eq!(old["event"]["data"], json!({"total": 12.5}));
    let again = format!("{path}/resubmit");
    grid.manage(Method::POST, &again, Value::Null)
        .await
        .error(409, "Conflict");
    grid.manage(
        Method::POST,
        "/everpost/deadLetters/999/resubmit",
        Value::Null,
    )
    .await
    .error(404, "NotFound");
}

#[tokio::test]
async fn a_dead_receiver_holds_up_nobody_else() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push("orders", "dead", "500")
        .await
        .push("orders", "alive", "200")
        .await;
    for number in 0..200 {
        grid.publish("orders", event(&format!("e{number}"))).await;
    }
    grid.run_for(Duration::from_secs(1)).await;
    assert_eq!(grid.heard("alive").len(), 200);
    // It is on probation; more than ten, because so many requests were on the wire when it began.
    assert_eq!(grid.heard("dead").len(), 32);
    grid.leave();
}
