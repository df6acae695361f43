//! The managers' door: topics, event subscriptions and handshakes.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use crate::grid::{Grid, event};

const ARM: &str = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid";

fn webhook(name: &str) -> Value {
    json!({"properties": {"destination": {"endpointType": "WebHook",
        "properties": {"endpointUrl": format!("http://{name}.test/hook?code=secret")}}}})
}

#[tokio::test]
async fn nobody_manages_without_the_token() {
    let grid = Grid::new().await.topic("orders").await;
    for (method, path) in [
        (Method::GET, "/topics"),
        (Method::PUT, "/topics/other"),
        (Method::DELETE, "/topics/orders"),
        (Method::POST, "/topics/orders/listKeys"),
        (Method::GET, "/everpost/events"),
        (Method::POST, "/everpost/deadLetters/1/resubmit"),
        (Method::GET, "/metrics"),
    ] {
        for token in [
            None,
            Some("Bearer wrong"),
            Some("Basic bWFuYWdlbWVudC10b2tlbg=="),
        ] {
            let mut request = Request::builder().method(method.clone()).uri(path);
            if let Some(token) = token {
                request = request.header("authorization", token);
            }
            let reply = grid
                .send(request.body(Body::empty()).expect("a request"))
                .await;
            reply.error(401, "Unauthorized");
        }
    }
    for path in ["/healthz", "/readyz"] {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        assert_eq!(grid.send(request).await.status, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn topics_live_and_die() {
    let grid = Grid::new().await;
    let path = "/topics/orders";
    grid.manage(Method::GET, path, Value::Null)
        .await
        .error(404, "ResourceNotFound");
    let body = json!({"location": "westeurope", "tags": {"team": "shop"}});
    let made = grid.manage(Method::PUT, path, body.clone()).await;
    assert_eq!(made.status, StatusCode::CREATED);
    let made = made.json();
    assert_eq!(made["properties"]["provisioningState"], "Succeeded");
    assert_eq!(
        made["properties"]["endpoint"],
        "http://everpost.test/topics/orders/api/events"
    );
    let keys = grid
        .manage(Method::POST, "/topics/orders/listKeys", Value::Null)
        .await
        .json();
    assert_eq!(
        grid.manage(Method::PUT, path, body).await.status,
        StatusCode::CREATED
    );
    let same = grid
        .manage(Method::POST, "/topics/orders/listKeys", Value::Null)
        .await
        .json();
    assert_eq!(keys, same, "replacing a topic keeps its keys");
    let renewed = grid
        .manage(
            Method::POST,
            "/topics/orders/regenerateKey",
            json!({"keyName": "key1"}),
        )
        .await
        .json();
    assert_ne!(renewed["key1"], keys["key1"]);
    assert_eq!(renewed["key2"], keys["key2"]);
    let patched = grid
        .manage(Method::PATCH, path, json!({"tags": {"team": "till"}}))
        .await;
    assert_eq!(
        (patched.status, &patched.json()["tags"]["team"]),
        (StatusCode::OK, &json!("till"))
    );
    let other = json!({"location": "l", "properties": {"inputSchema": "CloudEventSchemaV1_0"}});
    grid.manage(Method::PUT, path, other)
        .await
        .error(400, "InvalidRequest");
    let list = grid
        .manage(Method::GET, &format!("{ARM}/topics"), Value::Null)
        .await
        .json();
    let mut list = list["value"].as_array().expect("topics").iter();
    assert!(list.any(|topic| topic["name"] == "orders"));
    for _ in 0..2 {
        let gone = grid.manage(Method::DELETE, path, Value::Null).await;
        assert_eq!(gone.status, StatusCode::NO_CONTENT);
    }
    grid.manage(Method::GET, path, Value::Null)
        .await
        .error(404, "ResourceNotFound");
    grid.manage(Method::PUT, "/topics/a", json!({"location": "l"}))
        .await
        .error(400, "InvalidRequest");
    grid.manage(Method::PUT, path, json!([]))
        .await
        .error(400, "InvalidRequest");
}

#[tokio::test]
async fn subscriptions_live_under_both_paths_and_keep_their_secrets() {
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .push("orders", "billing", "200")
        .await;
    let short = "/topics/orders/eventSubscriptions/billing";
    for path in [
        short.to_owned(),
        format!("{ARM}/topics/orders/eventSubscriptions/billing"),
        format!("{ARM}/topics/orders/providers/Microsoft.EventGrid/eventSubscriptions/billing"),
    ] {
        let shown = grid.manage(Method::GET, &path, Value::Null).await;
        assert_eq!(shown.status, StatusCode::OK, "{path}: {}", shown.text);
        let id = shown.json()["id"].as_str().expect("an id").to_owned();
        let below = |path: &str| path.split("/topics/").nth(1).map(str::to_owned);
        assert_eq!(below(&id), below(&path), "as it was asked for");
        assert!(!shown.text.contains("secret"), "{}", shown.text);
    }
    let full = grid
        .manage(Method::POST, &format!("{short}/getFullUrl"), Value::Null)
        .await;
    assert_eq!(
        full.json()["endpointUrl"],
        "http://billing.test/hook?code=secret"
    );
    let patched = grid
        .manage(Method::PATCH, short, json!({"labels": ["a"]}))
        .await;
    assert_eq!(patched.status, StatusCode::CREATED, "{}", patched.text);
    assert_eq!(patched.json()["properties"]["labels"], json!(["a"]));
    let gone = grid.manage(Method::DELETE, short, Value::Null).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    grid.manage(Method::GET, short, Value::Null)
        .await
        .error(404, "ResourceNotFound");
    let orphan = "/topics/nothing/eventSubscriptions/billing";
    grid.manage(Method::PUT, orphan, webhook("billing"))
        .await
        .error(404, "ResourceNotFound");
}

#[tokio::test]
async fn deleting_a_subscription_drops_what_it_had_to_deliver() {
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .push("orders", "billing", "500")
        .await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(Duration::from_secs(1)).await;
    let path = "/topics/orders/eventSubscriptions/billing";
    grid.manage(Method::DELETE, path, Value::Null).await;
    assert_eq!(
        grid.timeline("billing").await,
        "e1 +0s=500 Dropped +1s SubscriptionDeleted"
    );
    grid.run_for(Duration::from_secs(3_600)).await;
    let notifications = grid
        .heard("billing")
        .iter()
        .filter(|r| r.headers["aeg-event-type"] == "Notification")
        .count();
    assert_eq!(notifications, 1);
}

/// Creates `orders/name` with a handshake and returns the state reached.
async fn create(grid: &Grid, name: &str, schema: &str) -> String {
    let mut body = webhook(name);
    body["properties"]["eventDeliverySchema"] = json!(schema);
    let path = format!("/topics/orders/eventSubscriptions/{name}");
    let reply = grid.manage(Method::PUT, &path, body).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
    reply.json()["properties"]["provisioningState"]
        .as_str()
        .expect("a state")
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_receiver_must_agree_before_it_gets_events() {
    let grid = Grid::new().await.topic("orders").await;
    grid.script("silent", "200");
    grid.script("failing", "500");
    assert_eq!(
        create(&grid, "silent", "EventGridSchema").await,
        "AwaitingManualAction"
    );
    // Three tries, 5 s apart, take longer than the 5 s that a PUT waits.
    assert_eq!(
        create(&grid, "failing", "EventGridSchema").await,
        "Creating"
    );
    let failing = "/topics/orders/eventSubscriptions/failing";
    let shown = grid.manage(Method::GET, failing, Value::Null).await.json();
    let why = shown["properties"]["everpost"]["validationFailure"].to_string();
    assert!(why.contains("answered 500"), "{why}");
    assert!(why.contains("tries left: "), "{why}");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(grid.heard("failing").len(), 3);
    let shown = grid.manage(Method::GET, failing, Value::Null).await.json();
    assert_eq!(shown["properties"]["provisioningState"], "Failed");

    grid.publish("orders", event("too-early")).await;
    let silent = grid.heard("silent");
    let asked: Value = serde_json::from_slice(&silent[0].body).expect("JSON");
    assert_eq!(
        silent[0].headers["aeg-event-type"],
        "SubscriptionValidation"
    );
    let url = asked[0]["data"]["validationUrl"].as_str().expect("a URL");
    let path = url.strip_prefix("http://everpost.test").expect("ours");
    let open = || Request::get(path).body(Body::empty()).expect("a request");
    assert_eq!(grid.send(open()).await.status, StatusCode::OK);
    grid.send(open()).await.error(404, "NotFound");
    grid.publish("orders", event("e1")).await;
    grid.run_for(Duration::from_secs(1)).await;
    assert_eq!(grid.timeline("silent").await, "e1 +0s=200 Delivered");

    // A failed one can be asked again.
    let agreed = [
        ("webhook-allowed-origin", "*".to_owned()),
        ("webhook-allowed-rate", "120".to_owned()),
    ];
    grid.answer("failing", 200, agreed.to_vec(), String::new());
    let patch = json!({"eventDeliverySchema": "CloudEventSchemaV1_0"});
    let patched = grid.manage(Method::PATCH, failing, patch).await.json();
    assert_eq!(patched["properties"]["provisioningState"], "Succeeded");
    let asked = grid.heard("failing").pop().expect("a request");
    assert_eq!(asked.method, Method::OPTIONS);
    assert_eq!(
        asked.headers["webhook-request-origin"],
        "eventgrid.azure.net"
    );
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_may_not_be_called_fails_at_once_and_says_why() {
    let grid = Grid::new().await.topic("orders").await;
    grid.script("local", "denied");
    assert_eq!(create(&grid, "local", "EventGridSchema").await, "Failed");
    assert_eq!(grid.heard("local").len(), 1);
    let path = "/topics/orders/eventSubscriptions/local";
    let shown = grid.manage(Method::GET, path, Value::Null).await.json();
    let why = shown["properties"]["everpost"]["validationFailure"].to_string();
    assert!(why.contains("--egress-allow 127.0.0.1/32, or its"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_nobody_finishes_fails_in_ten_minutes() {
    let grid = Grid::new().await.topic("orders").await;
    grid.script("silent", "200");
    assert_eq!(
        create(&grid, "silent", "EventGridSchema").await,
        "AwaitingManualAction"
    );
    let house = tokio::spawn(grid.broker.clone().run_janitor());
    let path = "/topics/orders/eventSubscriptions/silent";
    for (minutes, state) in [(9, "AwaitingManualAction"), (2, "Failed")] {
        grid.clock.advance(Duration::from_secs(minutes * 60));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let shown = grid.manage(Method::GET, path, Value::Null).await.json();
        assert_eq!(shown["properties"]["provisioningState"], state);
    }
    house.abort();
    let again = grid
        .manage(Method::POST, &format!("{path}/validate"), Value::Null)
        .await;
    assert_eq!(
        again.json()["properties"]["provisioningState"],
        "AwaitingManualAction"
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_receiver_is_asked_while_its_events_wait() {
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .push("orders", "billing", "200")
        .await;
    grid.script("slow", "200");
    let path = "/topics/orders/eventSubscriptions/billing";
    let shown = grid.manage(Method::PUT, path, webhook("slow")).await.json();
    assert_eq!(
        shown["properties"]["provisioningState"],
        "AwaitingManualAction"
    );
    grid.publish("orders", event("e1")).await;
    grid.run_for(Duration::from_secs(60)).await;
    assert_eq!(grid.heard("slow").len(), 1, "the question and nothing else");
    let asked: Value = serde_json::from_slice(&grid.heard("slow")[0].body).expect("JSON");
    let url = asked[0]["data"]["validationUrl"]
        .as_str()
        .expect("a URL")
        .to_owned();
    let path = url
        .strip_prefix("http://everpost.test")
        .expect("ours")
        .to_owned();
    let open = Request::get(path).body(Body::empty()).expect("a request");
    assert_eq!(grid.send(open).await.status, StatusCode::OK);
    grid.run_for(Duration::from_secs(1)).await;
    assert_eq!(grid.timeline("billing").await, "e1 +60s=200 Delivered");
}

#[tokio::test]
async fn what_cannot_be_taken_apart_is_rejected_in_azures_shape() {
    let grid = Grid::new().await.topic("orders").await;
    for path in [
        "/everpost/events?limit=many",
        "/everpost/events/first",
        "/everpost/deadLetters?before=now",
        "/topics/%ff",
    ] {
        let reply = grid.manage(Method::GET, path, Value::Null).await;
        reply.error(400, "BadRequest");
    }
    let huge = json!({"location": "x".repeat(300_000)});
    let reply = grid.manage(Method::PUT, "/topics/orders", huge).await;
    reply.error(413, "RequestEntityTooLarge");
}
