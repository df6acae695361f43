//! Pushing (table 6): requests, results, retries.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{MINUTE, SECOND, SUBSCRIPTION, TOPIC, cloud_event, get, publish, subscribed};
use crate::grid::Grid;

/// A tenth of the longest wait, which may be a tenth longer after an attempt that came early.
const JITTER_S: u64 = 34;

#[tokio::test]
async fn table_6_2_one_structured_event_per_request() {
    let headers = json!([
        {"name": "X-Fixed", "type": "Static", "properties": {"value": "1", "isSecret": true}},
        {"name": "X-Total", "type": "Dynamic", "properties": {"sourceField": "data.total"}}]);
    let push = json!({"destination": {"properties": {"deliveryAttributeMappings": headers}}});
    let grid = subscribed("200", push, json!({})).await;
    publish(&grid, json!([cloud_event("e1"), cloud_event("e2")])).await;
    grid.run_for(SECOND).await;
    let heard = grid.heard("billing");
    assert_eq!(heard.len(), 2);
    let request = &heard[0];
    assert_eq!(request.method, Method::POST);
    assert_eq!(request.url.query(), Some("code=secret"));
    assert_eq!(
        request.headers["content-type"],
        "application/cloudevents+json; charset=utf-8"
    );
    assert_eq!(
        (&request.headers["x-fixed"], &request.headers["x-total"]),
        (&"1".parse().unwrap(), &"12.5".parse().unwrap())
    );
    assert_eq!(request.deadline, Duration::from_secs(30));
    let event: Value = serde_json::from_slice(&request.body).expect("JSON");
    assert_eq!(event, cloud_event("e1"));
}

#[tokio::test]
async fn table_6_2_batches_are_arrays_and_fail_as_one() {
    let push = json!({"destination": {"properties": {"maxEventsPerBatch": 2}}});
    let grid = subscribed("500 200", push, json!({})).await;
    publish(&grid, json!([cloud_event("e1"), cloud_event("e2")])).await;
    grid.run_for(MINUTE).await;
    let heard = grid.heard("billing");
    assert_eq!(heard.len(), 2);
    assert_eq!(
        heard[0].headers["content-type"],
        "application/cloudevents-batch+json; charset=utf-8"
    );
    let body: Value = serde_json::from_slice(&heard[0].body).expect("JSON");
    assert_eq!(body, json!([cloud_event("e1"), cloud_event("e2")]));
    assert_eq!(
        grid.timeline("billing").await,
        "e1 +0s=500 +10s=200 Delivered\ne2 +0s=500 +10s=200 Delivered"
    );
}

/// What becomes of one event whose receiver answers by `script`.
async fn fate(script: &str, push: Value, time: Duration) -> String {
    let grid = subscribed(script, push, json!({})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    grid.run_for(time).await;
    let timeline = grid.timeline("billing").await;
    grid.leave();
    timeline
}

#[tokio::test]
async fn table_6_2_success_is_200_to_204() {
    for status in [200, 201, 202, 203, 204] {
        let told = fate(&status.to_string(), json!({}), SECOND).await;
        assert_eq!(told, format!("e1 +0s={status} Delivered"));
    }
    let told = fate("205", json!({}), SECOND).await;
    assert!(told.starts_with("e1 +0s=205 next +1"), "{told}");
}

#[tokio::test]
async fn table_6_3_ten_attempts_at_the_published_offsets() {
    let told = fate("500", json!({}), MINUTE * 60).await;
    let words: Vec<&str> = told.split(' ').collect();
    let offset = |word: &str| -> u64 {
        let digits = word.trim_start_matches('+').trim_end_matches("s=500");
        digits.parse().expect(word)
    };
    assert_eq!(words.len(), 14, "{told}");
    let planned = [0, 10, 30, 60, 300, 600, 900, 1_200, 1_500, 1_800];
    for (word, planned) in words[1..11].iter().zip(planned) {
        // Jitter moves it by a tenth of the wait; a moment that has passed leaves the least wait.
        assert!(offset(word).abs_diff(planned) <= JITTER_S, "{word}: {told}");
    }
    assert_eq!(words[11], "DeadLettered");
    assert_eq!(words[13], "MaxDeliveryAttemptsExceeded");
}

/// Also after a restart, which remembers when the first attempt was.
#[tokio::test]
async fn table_6_3_offsets_count_from_the_first_attempt() {
    let grid = subscribed("500", json!({}), json!({"paused": true})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    grid.run_for(MINUTE * 17).await;
    let resume = format!("{SUBSCRIPTION}/resume");
    let resumed = grid.manage(Method::POST, &resume, Value::Null).await;
    assert_eq!(resumed.status, StatusCode::OK, "{}", resumed.text);
    grid.run_for(SECOND * 45).await;
    let grid: Grid = grid.restarted().await;
    grid.run_for(MINUTE * 40).await;
    let told = grid.timeline("billing").await;
    let seconds = |word: &str| -> Option<u64> {
        let (seconds, _) = word.strip_prefix('+')?.split_once("s=500")?;
        seconds.parse().ok()
    };
    let attempts: Vec<u64> = told.split(' ').filter_map(seconds).collect();
    let first = MINUTE.as_secs() * 17;
    let planned = [0, 10, 30, 60, 300, 600, 900, 1_200, 1_500, 1_800];
    assert_eq!(attempts.len(), planned.len(), "{told}");
    for (at, planned) in attempts.iter().zip(planned) {
        assert!(at.abs_diff(first + planned) <= JITTER_S, "{at}: {told}");
    }
    assert!(told.ends_with("MaxDeliveryAttemptsExceeded"), "{told}");
}

#[tokio::test]
async fn table_6_3_max_delivery_count_is_the_number_of_attempts() {
    let told = fate("500", json!({"maxDeliveryCount": 1}), SECOND).await;
    assert_eq!(
        told,
        "e1 +0s=500 DeadLettered +0s MaxDeliveryAttemptsExceeded"
    );
}

#[tokio::test]
async fn table_6_3_final_statuses_are_not_tried_again() {
    for status in [400, 401, 403, 404, 413, 414] {
        let told = fate(&status.to_string(), json!({}), MINUTE).await;
        let expected = format!("e1 +0s={status} DeadLettered +0s UndeliverableDueToClientError");
        assert_eq!(told, expected);
    }
}

#[tokio::test]
async fn table_6_3_other_statuses_wait_as_long_as_they_must() {
    for (script, least_s) in [
        ("408 200", 120),
        ("503 200", 30),
        ("500 200", 10),
        ("302 200", 10),
        ("409 200", 10),
        ("timeout 200", 10),
        ("rejected 200", 10),
    ] {
        let told = fate(script, json!({}), MINUTE * 5).await;
        let second = told.split(' ').nth(2).expect("a second attempt");
        let seconds = second
            .trim_start_matches('+')
            .split('s')
            .next()
            .expect("seconds");
        let seconds: u64 = seconds.parse().expect(second);
        assert!(
            (least_s..=least_s + least_s / 10).contains(&seconds),
            "{script}: {told}"
        );
    }
}

#[tokio::test]
async fn table_6_3_what_has_outlived_its_time_waits_for_no_attempt() {
    let told = fate("500", json!({"eventTimeToLive": "PT2M"}), MINUTE * 10).await;
    assert!(
        told.contains("+0s=500 +1") && told.ends_with("TimeToLiveExceeded"),
        "{told}"
    );
    // Attempts at 0, 10, 30 and 60 s; the next one would come at 300 s.
    assert_eq!(told.matches("=500").count(), 4, "{told}");
    let ended = told.split(" DeadLettered +").nth(1).expect("an end");
    let ended: u64 = ended
        .split('s')
        .next()
        .expect("seconds")
        .parse()
        .expect("a number");
    assert_eq!(ended, 120, "{told}");
}

#[tokio::test]
async fn the_retention_of_the_topic_ends_what_has_a_longer_time_to_live() {
    let grid = subscribed("200", json!({}), json!({"paused": true})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    grid.run_for(MINUTE * 60 * 25).await;
    let reply = grid
        .manage(Method::POST, &format!("{SUBSCRIPTION}/resume"), Value::Null)
        .await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    grid.run_for(SECOND).await;
    let told = grid.timeline("billing").await;
    assert!(told.ends_with("TimeToLiveExceeded"), "{told}");
    let ended = told.split('+').nth(1).expect("an end");
    let ended: u64 = ended
        .split('s')
        .next()
        .expect("seconds")
        .parse()
        .expect("a number");
    assert!((86_400..=90_000).contains(&ended), "{told}");
}

#[tokio::test]
async fn a_schedule_of_its_own_pausing_and_gone_work_here_as_well() {
    let told = fate("500 500 200", json!({"schedule": ["PT1S", "PT2S"]}), MINUTE).await;
    assert_eq!(told, "e1 +0s=500 +1s=500 +3s=200 Delivered");

    let grid = subscribed("410", json!({}), json!({"disableOnGone": true})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    grid.run_for(SECOND).await;
    let shown = get(&grid, SUBSCRIPTION).await;
    assert_eq!(shown["properties"]["everpost"]["state"], "Disabled");
    grid.leave();
}

#[tokio::test]
async fn everything_is_still_there_after_a_restart() {
    let grid = subscribed("503 200", json!({}), json!({})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    grid.run_for(SECOND).await;
    let grid: Grid = grid.restarted().await;
    get(&grid, TOPIC).await;
    grid.run_for(MINUTE).await;
    let told = grid.timeline("billing").await;
    assert!(told.ends_with("=200 Delivered"), "{told}");
}
