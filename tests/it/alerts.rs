//! Alerts, through the whole appliance: what is watched, who is told, and what a restart leaves.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::grid::{Grid, event};

const MINUTE: Duration = Duration::from_secs(60);

async fn get(grid: &Grid, path: &str) -> Value {
    let heard = grid.manage(Method::GET, path, Value::Null).await;
    assert_eq!(heard.status, StatusCode::OK, "{}", heard.text);
    heard.json()
}

async fn put(grid: &Grid, path: &str, body: Value) {
    let put = grid.manage(Method::PUT, path, body).await;
    assert!(put.status.is_success(), "{path}: {}", put.text);
}

async fn rule(grid: &Grid, name: &str, body: Value) {
    put(grid, &format!("/everpost/alerts/rules/{name}"), body).await;
}

/// A channel at the host of this name, which answers by the script.
async fn channel(grid: &Grid, name: &str, script: &str) {
    grid.script(name, script);
    let body = json!({ "type": "WebHook", "endpointUrl": format!("https://{name}.test/hush") });
    put(grid, &format!("/everpost/alerts/channels/{name}"), body).await;
}

/// The subjects that a channel was told, the first first.
fn told(grid: &Grid, name: &str) -> Vec<String> {
    let heard = grid.heard(name).into_iter();
    let body = |body: &[u8]| serde_json::from_slice::<Value>(body).expect("JSON");
    let subject = |body: Value| body["subject"].as_str().expect("a subject").to_owned();
    heard.map(|request| subject(body(&request.body))).collect()
}

/// What fires: rule and object of each.
async fn firing(grid: &Grid) -> Vec<String> {
    let alerts = get(grid, "/everpost/alerts").await;
    let alerts = alerts["value"].as_array().expect("a list").iter();
    let text = |alert: &Value| format!("{} {}", alert["rule"], alert["object"]).replace('"', "");
    alerts.map(text).collect()
}

async fn check(grid: &Grid) {
    grid.broker.check_alerts(None).await.expect("a look");
}

/// An endpoint that has failed for eleven minutes.
async fn failing() -> Grid {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push("orders", "billing", "503").await;
    grid.publish("orders", event("e-1")).await;
    grid.run_for(11 * MINUTE).await;
    grid
}

const BILLING: &str = "failing-endpoints orders/billing";
const FAILING: &str = "Endpoint failing: orders/billing";
const RESOLVED: &str = "Resolved: Endpoint failing: orders/billing";

#[tokio::test]
async fn a_failing_endpoint_is_told_once_and_so_is_its_end() {
    let grid = failing().await;
    check(&grid).await;
    assert_eq!(firing(&grid).await, [BILLING], "also while nobody listens");
    channel(&grid, "chat", "200").await;
    for _ in 0..3 {
        check(&grid).await;
        grid.run_for(MINUTE).await;
    }
    assert_eq!(told(&grid, "chat"), [FAILING]);
    grid.script("billing", "200");
    grid.run_for(30 * MINUTE).await;
    check(&grid).await;
    assert_eq!(told(&grid, "chat"), [FAILING, RESOLVED]);
    assert!(firing(&grid).await.is_empty());
    let messages = get(&grid, "/everpost/alerts/messages").await;
    let states = messages["value"].as_array().expect("a list").iter();
    let states: Vec<_> = states.map(|each| each["state"].clone()).collect();
    assert_eq!(states, ["Sent", "Sent"]);
    let shown = get(&grid, "/everpost/alerts/channels/chat").await;
    assert_eq!(
        (&shown["target"], &shown["endpointUrl"]),
        (&json!("chat.test"), &Value::Null)
    );
    assert!(
        shown["lastSentAt"].is_string() && shown["lastError"].is_null(),
        "{shown}"
    );
}

#[tokio::test]
async fn a_restart_neither_repeats_nor_forgets() {
    let grid = failing().await;
    channel(&grid, "chat", "200").await;
    check(&grid).await;
    let grid = grid.restarted().await;
    check(&grid).await;
    assert_eq!(firing(&grid).await, [BILLING]);
    grid.run_for(MINUTE).await;
    check(&grid).await;
    assert_eq!(told(&grid, "chat"), [FAILING]);
    grid.script("billing", "200");
    grid.run_for(60 * MINUTE).await;
    check(&grid).await;
    assert_eq!(told(&grid, "chat"), [FAILING, RESOLVED]);
}

#[tokio::test]
async fn a_channel_that_fails_is_tried_again_ever_later_and_in_the_end_no_more() {
    let grid = failing().await;
    channel(&grid, "chat", "500").await;
    channel(&grid, "mail", "200").await;
    for minute in 0..20 {
        check(&grid).await;
        let attempts = [0, 1, 3, 7, 15].iter().filter(|at| **at <= minute).count();
        assert_eq!(told(&grid, "chat").len(), attempts, "after {minute} min");
        grid.run_for(MINUTE).await;
    }
    assert_eq!(
        told(&grid, "mail"),
        [FAILING],
        "the other one is not held up"
    );
    let shown = get(&grid, "/everpost/alerts/channels/chat").await;
    assert_eq!(shown["lastError"], "500 Internal Server Error", "{shown}");
    let messages = get(&grid, "/everpost/alerts/messages").await;
    let chat = messages["value"].as_array().expect("a list").iter();
    let chat = chat.filter(|each| each["channel"] == "chat");
    let chat: Vec<_> = chat
        .map(|each| (&each["state"], &each["attempts"]))
        .collect();
    assert_eq!(chat, [(&json!("Failed"), &json!(5))]);
    grid.leave();
}

/// Whoever is told that something is over must not be told of its beginning afterwards.
#[tokio::test]
async fn messages_of_a_rule_arrive_in_their_order_and_a_minute_apart() {
    let grid = failing().await;
    channel(&grid, "chat", "500 500 200").await;
    check(&grid).await;
    let off = json!({ "type": "EndpointFailing", "minutes": 10, "enabled": false });
    rule(&grid, "failing-endpoints", off).await;
    for _ in 0..6 {
        grid.pass(MINUTE);
        check(&grid).await;
    }
    assert_eq!(told(&grid, "chat"), [FAILING, FAILING, FAILING, RESOLVED]);
    grid.leave();
}

#[tokio::test]
async fn what_is_paused_does_not_fail() {
    let grid = failing().await;
    check(&grid).await;
    let path = "/topics/orders/eventSubscriptions/billing/pause";
    grid.manage(Method::POST, path, Value::Null).await;
    check(&grid).await;
    assert!(firing(&grid).await.is_empty());
    grid.leave();
}

#[tokio::test]
async fn what_is_stored_is_watched_too() {
    let grid = Grid::new().await.topic("orders").await.topic("quiet").await;
    let grid = grid.push("orders", "billing", "400").await;
    let grid = grid.push("orders", "slow", "503").await;
    rule(
        &grid,
        "dead",
        json!({ "type": "DeadLetters", "count": 2, "minutes": 10 }),
    )
    .await;
    rule(
        &grid,
        "more-dead",
        json!({ "type": "DeadLetters", "count": 3, "minutes": 10 }),
    )
    .await;
    rule(&grid, "old", json!({ "type": "OldPending", "minutes": 9 })).await;
    rule(
        &grid,
        "no-orders",
        json!({ "type": "NoEvents", "topic": "orders", "minutes": 20 }),
    )
    .await;
    rule(
        &grid,
        "no-quiet",
        json!({ "type": "NoEvents", "topic": "quiet", "minutes": 8 }),
    )
    .await;
    rule(
        &grid,
        "failing-endpoints",
        json!({ "type": "BackupFailed" }),
    )
    .await;
    grid.publish("orders", event("e-1")).await;
    grid.publish("orders", event("e-2")).await;
    grid.run_for(8 * MINUTE).await;
    check(&grid).await;
    assert_eq!(firing(&grid).await, ["dead orders/billing"]);
    grid.run_for(4 * MINUTE).await;
    check(&grid).await;
    assert_eq!(firing(&grid).await, ["no-quiet quiet", "old orders/slow"]);
    grid.run_for(11 * MINUTE).await;
    check(&grid).await;
    assert_eq!(
        firing(&grid).await,
        ["no-orders orders", "no-quiet quiet", "old orders/slow"]
    );
    grid.leave();
}

#[tokio::test]
async fn certificates_and_tokens_are_watched_for_their_ends() {
    let grid = Grid::new().await;
    rule(&grid, "ends", json!({ "type": "Expiring", "days": 14 })).await;
    for (name, days) in [("soon", 10), ("later", 30)] {
        let body = json!({ "name": name, "role": "viewer", "days": days });
        grid.manage(Method::POST, "/everpost/tokens", body).await;
    }
    let certificate_end = Some(grid.clock.now() + 14 * 24 * 60 * MINUTE);
    let look = async || {
        let look = grid.broker.check_alerts(certificate_end).await;
        look.expect("a look");
        firing(&grid).await
    };
    assert_eq!(
        look().await,
        ["ends API token soon", "ends TLS certificate"]
    );
    grid.pass(17 * 24 * 60 * MINUTE);
    assert_eq!(look().await.len(), 3);
}

#[tokio::test]
async fn a_channel_is_tested_and_says_what_was_answered() {
    let grid = Grid::new().await;
    channel(&grid, "chat", "200 404").await;
    let test = "/everpost/alerts/channels/chat/test";
    let tested = grid.manage(Method::POST, test, Value::Null).await.json();
    assert_eq!(tested, json!({ "sent": true, "answer": "200 OK" }));
    let tested = grid.manage(Method::POST, test, Value::Null).await.json();
    assert_eq!(tested, json!({ "sent": false, "answer": "404 Not Found" }));
    let missing = "/everpost/alerts/channels/nobody/test";
    let missing = grid.manage(Method::POST, missing, Value::Null).await;
    missing.error(404, "NotFound");
    assert_eq!(told(&grid, "chat"), ["Test message", "Test message"]);
}

#[tokio::test]
async fn rules_and_channels_are_replaced_deleted_and_bounded() {
    let grid = Grid::new().await;
    let rules = get(&grid, "/everpost/alerts/rules").await;
    let names = rules["value"].as_array().expect("a list").iter();
    let names: Vec<_> = names.map(|each| each["name"].clone()).collect();
    assert_eq!(names, ["disk-space", "failing-endpoints"], "from the start");
    channel(&grid, "chat", "200").await;
    // What is left out stays, as long as it is the same channel.
    put(
        &grid,
        "/everpost/alerts/channels/CHAT",
        json!({ "type": "WebHook", "token": "t" }),
    )
    .await;
    let body = json!({ "type": "Email", "host": "smtp.test" });
    let changed = grid
        .manage(Method::PUT, "/everpost/alerts/channels/chat", body)
        .await;
    let message = changed.error(400, "InvalidRequest");
    assert!(message.contains("from: it is missing"), "{message}");
    for number in 1..20 {
        channel(&grid, &format!("chat-{number}"), "200").await;
    }
    let body = json!({ "type": "WebHook", "endpointUrl": "https://one-more.test/" });
    let path = "/everpost/alerts/channels/one-more";
    let put = grid.manage(Method::PUT, path, body).await;
    put.error(409, "Conflict");
    for path in ["channels/chat", "rules/disk-space", "rules/nothing"] {
        let path = format!("/everpost/alerts/{path}");
        let deleted = grid.manage(Method::DELETE, &path, Value::Null).await;
        assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    }
    let gone = grid
        .manage(Method::GET, "/everpost/alerts/channels/chat", Value::Null)
        .await;
    gone.error(404, "NotFound");
}
