//! Inspectors: receivers inside the appliance, called like any webhook.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::grid::{Grid, event};

const INSPECTOR: &str = "/everpost/inspectors/bin";

async fn get(grid: &Grid, path: &str) -> Value {
    let heard = grid.manage(Method::GET, path, Value::Null).await;
    assert_eq!(heard.status, StatusCode::OK, "{}", heard.text);
    heard.json()
}

/// An appliance with the inspector `bin` and a topic whose subscription delivers to it.
async fn with_inspector(definition: Value, subscription: Value) -> Grid {
    let grid = Grid::new().await.topic("orders").await;
    let made = grid.manage(Method::PUT, INSPECTOR, definition).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    subscribe(
        &grid,
        "https://inspector.everpost.internal/bin?code=s3cret",
        subscription,
    )
    .await;
    grid
}

async fn subscribe(grid: &Grid, url: &str, more: Value) {
    let mut destination = json!({ "endpointUrl": url });
    for (name, value) in more.as_object().expect("an object") {
        destination[name] = value.clone();
    }
    let body = json!({ "properties": {
        "destination": { "endpointType": "WebHook", "properties": destination } } });
    let path = "/topics/orders/eventSubscriptions/billing";
    let made = grid.manage(Method::PUT, path, body).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
}

/// What the inspector keeps, oldest first: kind, first event, signature, answer.
async fn kept(grid: &Grid) -> Vec<String> {
    let page = get(grid, &format!("{INSPECTOR}/requests?limit=200")).await;
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or("-").to_owned();
    let rows = page["value"].as_array().expect("a list").iter().rev();
    rows.map(|row| {
        let parts = ["kind", "eventId", "signature", "answer"].map(|name| text(row, name));
        parts.join(" ")
    })
    .collect()
}

#[tokio::test]
async fn an_inspector_agrees_and_answers_by_its_script() {
    let definition = json!({
        "answers": "503 503 200", "retryAfterInSeconds": 20, "responseHeaders": { "x-a": "b" } });
    let grid = with_inspector(definition, json!({})).await;
    let state = grid.show("orders", "billing").await["provisioningState"].clone();
    assert_eq!(state, "Succeeded", "the handshake");
    let first = &kept(&grid).await[0];
    assert!(
        first.starts_with("validation ") && first.ends_with(" - 200"),
        "{first}"
    );

    grid.publish("orders", event("e-1")).await;
    grid.run_for(Duration::from_secs(10 * 60)).await;
    assert_eq!(
        kept(&grid).await[1..],
        [
            "delivery e-1 - 503",
            "delivery e-1 - 503",
            "delivery e-1 - 200"
        ]
    );
    let timeline = grid.timeline("billing").await;
    assert_eq!(timeline.matches("503").count(), 2, "{timeline}");

    let shown = get(&grid, &format!("{INSPECTOR}/requests/2")).await;
    assert_eq!(shown["path"], "/bin?***", "{shown}");
    assert_eq!(shown["headers"]["aeg-delivery-count"], "0", "{shown}");
    let body = shown["body"].as_str().expect("text");
    assert!(
        body.contains("\"e-1\"") && shown["truncated"] == false,
        "{shown}"
    );
    let missing = format!("{INSPECTOR}/requests/9");
    let missing = grid.manage(Method::GET, &missing, Value::Null).await;
    missing.error(404, "NotFound");
}

#[tokio::test]
async fn credentials_are_not_kept() {
    let grid = with_inspector(json!({}), json!({
        "deliveryAttributeMappings": [
            { "name": "x-key", "type": "Static", "properties": { "value": "s3cret-1", "isSecret": true } },
            { "name": "x-open", "type": "Static", "properties": { "value": "open", "isSecret": false } },
        ],
        "authentication": { "type": "Bearer", "token": "s3cret-2" },
    })).await;
    grid.publish("orders", event("e-1")).await;
    grid.run_for(Duration::from_secs(60)).await;
    let shown = get(&grid, &format!("{INSPECTOR}/requests/2")).await;
    assert_eq!(shown["headers"]["x-key"], "***", "{shown}");
    assert_eq!(shown["headers"]["x-open"], "open", "{shown}");
    assert_eq!(shown["headers"]["authorization"], "Bearer ***", "{shown}");
    assert!(!shown.to_string().contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn signatures_are_checked_by_the_secrets_of_the_subscription() {
    let grid = with_inspector(json!({}), json!({ "signing": {} })).await;
    let rotate = "/topics/orders/eventSubscriptions/billing/rotateSigningSecret";
    let rotated = grid.manage(Method::POST, rotate, json!({})).await;
    assert_eq!(rotated.status, StatusCode::OK, "{}", rotated.text);
    grid.publish("orders", event("e-1")).await;
    grid.run_for(Duration::from_secs(60)).await;
    let last = kept(&grid).await.pop();
    assert_eq!(last.as_deref(), Some("delivery e-1 good 200"));
}

#[tokio::test]
async fn every_event_can_go_through_the_script_on_its_own() {
    let grid = with_inspector(json!({ "answers": "503 200", "perEvent": true }), json!({})).await;
    grid.publish("orders", event("a")).await;
    grid.publish("orders", event("b")).await;
    grid.run_for(Duration::from_secs(10 * 60)).await;
    let mut answers = kept(&grid).await.split_off(1);
    answers.sort();
    let expected = [
        "delivery a - 200",
        "delivery a - 503",
        "delivery b - 200",
        "delivery b - 503",
    ];
    assert_eq!(answers, expected);
}

#[tokio::test(start_paused = true)]
async fn an_inspector_can_be_slow_and_rude() {
    let grid = with_inspector(json!({ "answers": "timeout close 200" }), json!({})).await;
    grid.publish("orders", event("e-1")).await;
    grid.run_for(Duration::from_secs(10 * 60)).await;
    let timeline = grid.timeline("billing").await;
    assert!(
        timeline.contains("TimedOut") && timeline.contains("SocketError"),
        "{timeline}"
    );
    assert_eq!(
        kept(&grid).await.last().map(String::as_str),
        Some("delivery e-1 - 200")
    );
}

#[tokio::test]
async fn inspectors_survive_a_restart_and_keep_the_newest_requests() {
    let grid = with_inspector(json!({ "answers": "200" }), json!({})).await;
    for number in 0..120 {
        grid.publish("orders", event(&format!("e-{number}"))).await;
    }
    grid.run_for(Duration::from_secs(60)).await;
    let grid = grid.restarted().await;
    let inspector = get(&grid, INSPECTOR).await;
    assert_eq!(inspector["requestsReceived"], 121);
    assert_eq!(inspector["requestsKept"], 100);
    assert_eq!(inspector["deliveriesAnswered"], 120);
    let page = get(&grid, &format!("{INSPECTOR}/requests?limit=60")).await;
    assert_eq!(page["nextBefore"], 62);
    let older = get(&grid, &format!("{INSPECTOR}/requests?limit=60&before=62")).await;
    assert_eq!(older["value"].as_array().map(Vec::len), Some(40));

    let cleared = grid
        .manage(Method::POST, &format!("{INSPECTOR}/clear"), Value::Null)
        .await;
    assert_eq!(cleared.json()["cleared"], 100);
    let inspector = get(&grid, INSPECTOR).await;
    assert_eq!(
        (&inspector["requestsKept"], &inspector["deliveriesAnswered"]),
        (&json!(0), &json!(0))
    );
}

#[tokio::test]
async fn inspectors_are_managed_within_bounds() {
    let grid = Grid::new().await;
    let put = async |name: &str, body: Value| {
        grid.manage(Method::PUT, &format!("/everpost/inspectors/{name}"), body)
            .await
    };
    put("b_d", json!({})).await.error(400, "InvalidRequest");
    let told = put("bin", json!({ "answers": "maybe" }))
        .await
        .error(400, "InvalidRequest");
    assert!(told.contains("answers: \"maybe\" is no answer"), "{told}");
    let told = put("bin", json!({ "colour": "red" }))
        .await
        .error(400, "InvalidRequest");
    assert!(told.contains("colour: there is no such property"), "{told}");
    for number in 0..25 {
        let made = put(&format!("bin-{number}"), json!({})).await;
        assert_eq!(made.status, StatusCode::CREATED);
    }
    put("bin", json!({})).await.error(409, "Conflict");
    assert_eq!(
        put("BIN-3", json!({ "answers": "404" })).await.status,
        StatusCode::OK
    );
    let shown = get(&grid, "/everpost/inspectors/bin-3").await;
    assert_eq!(
        (&shown["name"], &shown["answers"]),
        (&json!("bin-3"), &json!("404"))
    );
    let deleted = grid
        .manage(Method::DELETE, "/everpost/inspectors/bin-3", Value::Null)
        .await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    let gone = grid
        .manage(Method::GET, "/everpost/inspectors/bin-3", Value::Null)
        .await;
    gone.error(404, "NotFound");
    let all = get(&grid, "/everpost/inspectors").await;
    assert_eq!(all["value"].as_array().map(Vec::len), Some(24));
}

#[tokio::test]
async fn what_names_no_inspector_is_answered_with_404() {
    let grid = Grid::new().await.topic("orders").await;
    let skip = json!({ "skipValidation": true });
    subscribe(&grid, "https://inspector.everpost.internal/nobody", skip).await;
    grid.publish("orders", event("e-1")).await;
    grid.run_for(Duration::from_secs(1)).await;
    let timeline = grid.timeline("billing").await;
    assert!(timeline.contains("404"), "{timeline}");
    grid.leave();
}
