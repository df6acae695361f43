//! Event subscriptions whose destination is a queue or a topic of Service Bus (rule 6.6).

use std::time::Duration;

use axum::http::{Method, StatusCode};
use everpost::model::lease::QueueRef;
use everpost::model::name::TopicName;
use everpost::store::Peeked;
use everpost::wire::amqp::Value as Amqp;
use everpost::wire::amqp::message::Message;
use everpost::wire::service_bus::message::of_event;
use serde_json::{Value, json};

use crate::grid::{Grid, SendResult, event};

const BILLING: &str = "/topics/orders/eventSubscriptions/billing";

const AZURE: &str = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ServiceBus/namespaces/n";

async fn grid() -> Grid {
    Grid::new().await.topic("orders").await
}

async fn put(grid: &Grid, path: &str, properties: Value) -> SendResult {
    let body = json!({ "properties": properties });
    grid.manage(Method::PUT, path, body).await
}

async fn queue(grid: &Grid, name: &str, properties: Value) {
    let answer = put(grid, &format!("/queues/{name}"), properties).await;
    assert!(answer.status.is_success(), "{}", answer.text);
}

/// Sends the events of `orders` to the queue of that id.
async fn bridge(grid: &Grid, id: &str, mappings: Value) {
    let destination = json!({ "endpointType": "ServiceBusQueue",
        "properties": { "resourceId": id, "deliveryAttributeMappings": mappings } });
    let answer = put(grid, BILLING, json!({ "destination": destination })).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
}

async fn peek(grid: &Grid, of: QueueRef) -> Vec<Message> {
    let peeked = grid.broker.peek(of, None, 0, 250).await;
    let message = |each: Peeked| of_event(&each.event.event).expect("a message");
    peeked.expect("peeked").into_iter().map(message).collect()
}

/// What lies in the queue.
async fn messages(grid: &Grid, name: &str) -> Vec<Message> {
    let name = TopicName::parse(name).expect("a name");
    let (_, queue) = grid.broker.queue(&name).expect("the queue");
    peek(grid, QueueRef::pending(queue.id)).await
}

fn body(message: &Message) -> Value {
    serde_json::from_slice(&message.plain_body()).expect("JSON")
}

fn property(message: &Message, name: &str) -> Option<String> {
    let properties = message.application_properties().expect("properties");
    let mut named = properties.iter();
    let found = named.find(|(key, _)| key.as_text() == Some(name))?;
    found.1.as_text().map(str::to_owned)
}

fn fixed(name: &str, value: &str, is_secret: bool) -> Value {
    json!({ "name": name, "type": "Static", "properties": { "value": value, "isSecret": is_secret } })
}

fn from(name: &str, field: &str) -> Value {
    json!({ "name": name, "type": "Dynamic", "properties": { "sourceField": field } })
}

#[tokio::test]
async fn an_event_becomes_a_message_with_its_properties() {
    let grid = grid().await;
    queue(&grid, "jobs", json!({})).await;
    let mappings = json!([
        fixed("X-Tenant", "north", false),
        fixed("X-Key", "hush", true),
        from("Kind", "eventType"),
        from("Missing", "data.nowhere"),
        from("CorrelationId", "id"),
        fixed("Label", "paid", false),
    ]);
    bridge(&grid, &format!("{AZURE}/queues/jobs"), mappings).await;
    let shown = grid.show("orders", "billing").await;
    assert_eq!(shown["provisioningState"], "Succeeded");
    assert!(!shown.to_string().contains("hush"), "{shown}");
    grid.publish("orders", event("e1")).await;
    grid.run_for(Duration::from_secs(1)).await;
    assert_eq!(grid.timeline("billing").await, "e1 +0s=Delivered Delivered");
    let found = messages(&grid, "jobs").await;
    let [message] = found.as_slice() else {
        panic!("{} messages", found.len());
    };
    assert_eq!(body(message)["id"], "e1");
    let properties = message.properties().expect("properties");
    assert_eq!(
        properties.content_type.as_deref(),
        Some("application/json; charset=utf-8")
    );
    assert_eq!(properties.correlation_id, Some(Amqp::from("e1")));
    assert_eq!(properties.subject.as_deref(), Some("paid"));
    let id = property(message, "aeg-output-event-id").expect("an id");
    assert_eq!(properties.message_id, Some(Amqp::from(id.as_str())));
    for (name, expected) in [
        ("aeg-event-type", Some("Notification")),
        ("aeg-subscription-name", Some("BILLING")),
        ("aeg-delivery-count", Some("0")),
        ("aeg-metadata-version", Some("1")),
        ("X-Tenant", Some("north")),
        ("X-Key", Some("hush")),
        ("Kind", event("e1")["eventType"].as_str()),
        ("Missing", None),
        ("Label", None),
    ] {
        assert_eq!(property(message, name).as_deref(), expected, "{name}");
    }
    grid.leave();
}

#[tokio::test]
async fn what_the_queue_rejects_is_retried_and_given_up() {
    let grid = grid().await;
    queue(&grid, "jobs", json!({})).await;
    bridge(&grid, "jobs", json!([])).await;
    queue(&grid, "jobs", json!({ "status": "SendDisabled" })).await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(Duration::from_secs(1)).await;
    queue(&grid, "jobs", json!({})).await;
    grid.run_for(Duration::from_secs(60)).await;
    let timeline = grid.timeline("billing").await;
    let words: Vec<&str> = timeline.split([' ', '=']).collect();
    let [_, _, "Disabled", _, "Delivered", "Delivered"] = words.as_slice() else {
        panic!("{timeline}");
    };
    let found = messages(&grid, "jobs").await;
    assert_eq!(
        property(&found[0], "aeg-delivery-count").as_deref(),
        Some("1")
    );
    let patch = json!({ "retryPolicy": { "maxDeliveryAttempts": 2, "schedule": ["PT10S"] } });
    grid.manage(Method::PATCH, BILLING, patch).await;
    grid.manage(Method::DELETE, "/queues/jobs", Value::Null)
        .await;
    grid.publish("orders", event("e2")).await;
    grid.run_for(Duration::from_secs(60)).await;
    let timeline = grid.timeline("billing").await;
    let given_up = "MaxDeliveryAttemptsExceeded";
    assert!(
        timeline.contains("=NotFound ") && timeline.ends_with(given_up),
        "{timeline}"
    );
    let letters = grid.manage(Method::GET, "/deadLetters", Value::Null).await;
    assert!(letters.text.contains("NotFound"), "{}", letters.text);
    grid.leave();
}

#[tokio::test]
async fn a_queue_with_sessions_wants_one_of_each_event() {
    let grid = grid().await;
    queue(&grid, "jobs", json!({ "requiresSession": true })).await;
    bridge(&grid, "jobs", json!([from("SessionId", "data.session")])).await;
    let mut with_one = event("e1");
    with_one["data"] = json!({ "session": "s1" });
    grid.publish("orders", with_one).await;
    let mut without = event("e2");
    without["data"] = json!({});
    grid.publish("orders", without).await;
    grid.run_for(Duration::from_secs(1)).await;
    let found = messages(&grid, "jobs").await;
    assert_eq!(found.len(), 1);
    let session = found[0].properties().expect("properties").group_id;
    assert_eq!(session.as_deref(), Some("s1"));
    let timeline = grid.timeline("billing").await;
    assert!(
        timeline.contains("e2 +0s=SessionQueueNotSupported"),
        "{timeline}"
    );
    grid.leave();
}

#[tokio::test]
async fn rules_of_a_topic_see_the_properties() {
    let grid = grid().await;
    let topic = "/serviceBusTopics/audit";
    assert!(put(&grid, topic, json!({})).await.status.is_success());
    for (name, filter) in [
        ("all", None),
        ("north", Some("tenant = 'north'")),
        ("south", Some("tenant = 'south'")),
    ] {
        let path = format!("{topic}/subscriptions/{name}");
        put(&grid, &path, json!({})).await;
        if let Some(filter) = filter {
            let rule = json!({ "sqlFilter": { "sqlExpression": filter } });
            put(&grid, &format!("{path}/rules/$Default"), rule).await;
        }
    }
    let destination = json!({ "endpointType": "servicebustopic", "properties": {
        "resourceId": format!("{AZURE}/topics/audit"),
        "deliveryAttributeMappings": [fixed("tenant", "north", false)] } });
    let answer = put(&grid, BILLING, json!({ "destination": destination })).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
    grid.publish("orders", event("e1")).await;
    grid.run_for(Duration::from_secs(1)).await;
    let audit = TopicName::parse("audit").expect("a name");
    let entry = grid.broker.service_bus_topic(&audit).expect("the topic");
    let mut counts = Vec::new();
    for subscription in entry.subscriptions.values() {
        let found = peek(&grid, QueueRef::pending(subscription.id)).await;
        counts.push((subscription.name.to_string(), found.len()));
    }
    let expected = [("all", 1), ("north", 1), ("south", 0)];
    assert_eq!(
        counts,
        expected.map(|(name, count)| (name.to_owned(), count))
    );
    grid.leave();
}

/// The message and the settlement are one change: whatever is on disk when the appliance starts again is the whole of it.
#[tokio::test]
async fn a_restart_makes_no_second_message() {
    let grid = grid().await;
    queue(&grid, "jobs", json!({})).await;
    bridge(&grid, "jobs", json!([])).await;
    for number in 0..20 {
        grid.publish("orders", event(&format!("e{number}"))).await;
        if number == 9 {
            grid.run_for(Duration::from_secs(1)).await;
        }
    }
    assert_eq!(messages(&grid, "jobs").await.len(), 10);
    let grid = grid.restarted().await;
    grid.run_for(Duration::from_secs(3_600)).await;
    assert_eq!(messages(&grid, "jobs").await.len(), 20);
    grid.leave();
}

#[tokio::test]
async fn a_destination_has_to_be_there_and_no_circle() {
    let grid = grid().await;
    let to = |kind: &str, id: &str| json!({ "destination": { "endpointType": kind, "properties": { "resourceId": id } } });
    let answer = put(&grid, BILLING, to("ServiceBusQueue", "jobs")).await;
    let problem = answer.error(400, "InvalidRequest");
    assert!(
        problem.contains("there is no queue jobs for events to go to"),
        "{problem}"
    );
    queue(&grid, "jobs", json!({})).await;
    queue(&grid, "others", json!({})).await;
    let answer = put(&grid, BILLING, to("ServiceBusTopic", "jobs")).await;
    let problem = answer.error(400, "InvalidRequest");
    assert!(problem.contains("no Service Bus topic jobs"), "{problem}");
    let circle = "/topics/others/eventSubscriptions/circle";
    let answer = put(&grid, circle, to("ServiceBusQueue", "jobs")).await;
    let problem = answer.error(400, "InvalidRequest");
    assert!(problem.contains("use forwardTo"), "{problem}");
    let answer = put(&grid, BILLING, to("ServiceBusQueue", "a b")).await;
    assert!(answer.text.contains("resourceId"), "{}", answer.text);
    let nowhere = json!({ "destination": { "endpointType": "ServiceBusQueue", "properties": {} } });
    let answer = put(&grid, BILLING, nowhere).await;
    assert!(answer.text.contains("resourceId"), "{}", answer.text);
    grid.leave();
}
