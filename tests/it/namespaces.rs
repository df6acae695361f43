//! Namespace topics from the door to the webhook, table by table of docs/azure-compatibility.md.

mod dead_letters;
mod deliver;
mod filter;
mod manage;
mod publish;
mod pull;

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use crate::grid::{Grid, SendResult};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

const NAMESPACE: &str = "/namespaces/shop";
const TOPIC: &str = "/namespaces/shop/topics/orders";
const SUBSCRIPTION: &str = "/namespaces/shop/topics/orders/eventSubscriptions/billing";

/// An appliance with the topic `shop/orders`.
async fn grid() -> Grid {
    let grid = Grid::new().await;
    put(&grid, NAMESPACE, json!({"location": "local"})).await;
    put(&grid, TOPIC, json!({})).await;
    grid
}

/// The same with a subscription whose receiver answers by `script`; `push` and `properties` are added to
/// its definition.
async fn subscribed(script: &str, push: Value, properties: Value) -> Grid {
    let grid = grid().await;
    grid.script("billing", script);
    put(&grid, SUBSCRIPTION, definition(push, properties)).await;
    grid
}

/// The document of a subscription to `billing.test`, which is not asked for consent.
fn definition(push: Value, properties: Value) -> Value {
    let mut delivery = json!({"destination": {"endpointType": "WebHook", "properties": {
        "endpointUrl": "http://billing.test/hook?code=secret", "skipValidation": true}}});
    merge(&mut delivery, push);
    let mut all = json!({"deliveryConfiguration": {"deliveryMode": "Push", "push": delivery}});
    merge(&mut all, properties);
    json!({ "properties": all })
}

fn merge(into: &mut Value, from: Value) {
    let Value::Object(from) = from else {
        panic!("an object, not {from}");
    };
    for (name, value) in from {
        match into.get_mut(&name) {
            Some(present) if present.is_object() && value.is_object() => merge(present, value),
            _ => into[&name] = value,
        }
    }
}

async fn put(grid: &Grid, path: &str, body: Value) -> Value {
    let reply = grid.manage(Method::PUT, path, body).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{path}: {}", reply.text);
    reply.json()
}

async fn get(grid: &Grid, path: &str) -> Value {
    let reply = grid.manage(Method::GET, path, Value::Null).await;
    assert_eq!(reply.status, StatusCode::OK, "{path}: {}", reply.text);
    reply.json()
}

/// What rejects a body PUT to the subscription: its target and its message.
async fn rejected(grid: &Grid, body: Value) -> (String, String) {
    let reply = grid.manage(Method::PUT, SUBSCRIPTION, body).await;
    let message = reply.error(400, "InvalidRequest");
    let target = reply.json()["error"]["target"].as_str().map(str::to_owned);
    (target.unwrap_or_default(), message)
}

/// The first key of what lives at `path`.
async fn key(grid: &Grid, path: &str) -> String {
    let keys = grid
        .manage(Method::POST, &format!("{path}/listKeys"), Value::Null)
        .await;
    keys.json()["key1"].as_str().expect("a key").to_owned()
}

fn cloud_event(id: &str) -> Value {
    json!({"id": id, "source": "/shop", "type": "Order.Paid", "specversion": "1.0",
        "subject": "/orders/7", "data": {"total": 12.5}})
}

/// A publish request with the key of the namespace and these headers besides.
async fn post(grid: &Grid, headers: &[(&str, &str)], body: impl Into<String>) -> SendResult {
    let key = key(grid, NAMESPACE).await;
    let mut request = Request::post(format!("{TOPIC}:publish?api-version=2024-06-01"))
        .header("authorization", format!("SharedAccessKey {key}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = Body::from(body.into());
    grid.send(request.body(body).expect("a request")).await
}

const BATCH: (&str, &str) = ("content-type", "application/cloudevents-batch+json");

/// Publishes events, which must be accepted.
async fn publish(grid: &Grid, events: Value) {
    let reply = post(grid, &[BATCH], events.to_string()).await;
    assert_eq!((reply.status, reply.text.as_str()), (StatusCode::OK, "{}"));
}
