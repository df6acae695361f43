//! What Everpost does where the published texts are silent or contradict each other, as far as no other
//! table says it.

use axum::body::Body;
use axum::http::{Method, Request};
use everpost::model::limits::{EVENT_BYTES_MAX, PUBLISH_BYTES_MAX};
use serde_json::{Value, json};

use super::{SECOND, check, check_wait, delivery, millis, publish, stored, told};
use crate::grid::{Grid, event};

const BATCH: [(&str, &str); 1] = [("content-type", "application/cloudevents-batch+json")];

#[tokio::test]
async fn publishing() {
    let table = "decisions on publishing";
    let cloud = json!({"inputSchema": "CloudEventSchemaV1_0"});
    for (row, topic, headers) in [
        ("empty array, Event Grid", json!({}), &[][..]),
        ("empty array, CloudEvents", cloud.clone(), &BATCH),
        (
            "empty array, custom",
            super::custom(&super::least_mapping()),
            &[],
        ),
    ] {
        let grid = Grid::new().await.topic_with("orders", topic).await;
        let reply = publish(&grid, headers, "[]").await;
        assert_eq!(
            (reply.status.as_u16(), stored(&grid).await),
            (200, 0),
            "{table}: {row}"
        );
    }

    let one = |bytes: usize| {
        let head = r#"{"specversion":"1.0","id":"1","source":"/s","type":"T","data":""#;
        format!("{head}{}\"}}", "x".repeat(bytes - head.len() - 2))
    };
    let structured = [("content-type", "application/cloudevents+json")];
    let rest = PUBLISH_BYTES_MAX - EVENT_BYTES_MAX - "[,]".len();
    for (row, headers, body, status) in [
        (
            "one event of 1,049,600 bytes",
            &structured,
            one(EVENT_BYTES_MAX),
            200,
        ),
        (
            "one event of 1,049,601 bytes",
            &structured,
            one(EVENT_BYTES_MAX + 1),
            413,
        ),
        (
            "a request of 1,536,000 bytes",
            &BATCH,
            format!("[{},{}]", one(EVENT_BYTES_MAX), one(rest)),
            200,
        ),
        (
            "a request of 1,536,001 bytes",
            &BATCH,
            format!("[{},{}]", one(EVENT_BYTES_MAX), one(rest + 1)),
            413,
        ),
    ] {
        let grid = Grid::new().await.topic_with("orders", cloud.clone()).await;
        let found = publish(&grid, headers, &body).await.status.as_u16();
        assert_eq!(found, status, "{table}: {row}");
        let is_stored = stored(&grid).await > 0;
        assert_eq!(is_stored, status == 200, "{table}: {row}");
    }

    let grid = Grid::new().await.topic("orders").await;
    for (row, changed, place) in [
        (
            "a bad event is told by index and field",
            json!({"id": {}}),
            "400 event [1], field \"id\"",
        ),
        (
            "a bad event, another field",
            json!({"subject": ""}),
            "400 event [1], field \"subject\"",
        ),
    ] {
        let mut bad = event("e2");
        for (name, value) in changed.as_object().expect("an object") {
            bad[name] = value.clone();
        }
        let body = json!([event("e1"), bad, event("e3")]).to_string();
        check(table, row, &told(&publish(&grid, &[], &body).await), place);
        assert_eq!(stored(&grid).await, 0, "{table}: {row}: nothing is stored");
    }
}

#[tokio::test]
async fn selection_of_the_topic() {
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .topic("billing")
        .await;
    let key = grid.key("orders").await;
    for (row, path, host, status) in [
        (
            "by path, /topics/{name}/api/events",
            "/topics/orders/api/events",
            "",
            200,
        ),
        ("by path, /{name}/api/events", "/orders/api/events", "", 200),
        ("by host", "/api/events", "orders.anything.test", 200),
        (
            "by host, the older path",
            "/eventGrid/api/events",
            "orders.anything.test",
            200,
        ),
        (
            "by key, where one topic accepts it",
            "/api/events",
            "elsewhere.test",
            200,
        ),
        (
            "another topic's path",
            "/topics/billing/api/events",
            "",
            401,
        ),
        ("no such topic", "/topics/nothing/api/events", "", 401),
    ] {
        let mut request = Request::post(path).header("aeg-sas-key", &key);
        if !host.is_empty() {
            request = request.header("host", host);
        }
        let body = Body::from(json!([event("e1")]).to_string());
        let reply = grid.send(request.body(body).expect("a request")).await;
        assert_eq!(
            reply.status.as_u16(),
            status,
            "selection of the topic: {row}: {}",
            reply.text
        );
    }
}

#[tokio::test]
async fn included_event_types_are_compared_exactly() {
    for (row, included, matches) in [
        ("the same", json!(["Order.Paid"]), true),
        ("another letter case", json!(["order.paid"]), false),
        ("one of several", json!(["Order.Sent", "Order.Paid"]), true),
        ("a part", json!(["Order"]), false),
        ("All", json!(["All"]), true),
        ("null", Value::Null, true),
    ] {
        let grid = Grid::new().await.topic("orders").await;
        let filter = json!({"filter": {"includedEventTypes": included}});
        let grid = grid.push_with("orders", "billing", "200", filter).await;
        grid.publish("orders", event("e1")).await;
        grid.run_for(SECOND).await;
        assert_eq!(
            grid.heard("billing").len() == 1,
            matches,
            "includedEventTypes: {row}"
        );
    }
}

#[tokio::test]
async fn the_longest_of_all_waits_counts() {
    let table = "wait before the next attempt";
    for (row, script, wait_s) in [
        ("the step of the schedule", "500x2", 30),
        ("the minimum of the status is longer", "500x1 404", 300),
        ("the step is longer than the minimum", "500x3 503", 300),
        ("Retry-After is longer than both", "500x3 503/301", 301),
        ("Retry-After is shorter", "500x3 503/299", 300),
        (
            "404 at the fifth attempt: the step of 10 minutes",
            "500x4 404",
            600,
        ),
    ] {
        let words: Vec<String> = script
            .split(' ')
            .flat_map(|word| match word.split_once('x') {
                Some((status, times)) => vec![status.to_owned(); times.parse().expect("a number")],
                None => vec![word.to_owned()],
            })
            .collect();
        let grid = Grid::new().await.topic("orders").await;
        let script = format!("{} 200", words.join(" "));
        let grid = grid.push("orders", "billing", &script).await;
        grid.publish("orders", event("e1")).await;
        grid.run_for(SECOND * 7_200).await;
        let attempts = delivery(&grid, 1).await["deliveryAttempts"].clone();
        let start = |index: usize| millis(&attempts[index]["startedAt"]);
        let last = words.len();
        check_wait(table, row, start(last) - start(last - 1), wait_s);
    }
}

#[tokio::test]
async fn what_is_dropped_is_counted_and_shown() {
    let grid = Grid::new().await.topic("orders").await;
    let nowhere = json!({"deadLetterDestination": {"endpointType": "Drop"}});
    let grid = grid.push_with("orders", "billing", "400", nowhere).await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(SECOND).await;
    let found = delivery(&grid, 1).await;
    let reason = "UndeliverableDueToHttpBadRequest";
    assert_eq!(
        (&found["state"], &found["deadLetterReason"]),
        (&json!("Dropped"), &json!(reason))
    );
    let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
    let counted = metrics
        .lines()
        .find(|line| line.starts_with("everpost_dropped_events_total{"));
    let counted = counted.expect("a counter");
    assert!(
        counted.contains(reason) && counted.ends_with(" 1"),
        "{counted}"
    );
    let list = grid
        .manage(Method::GET, "/everpost/deadLetters", Value::Null)
        .await
        .json();
    assert_eq!(list["value"], json!([]), "a drop is no dead letter");
}

#[tokio::test]
async fn a_receiver_of_ones_own_is_not_asked() {
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .push("orders", "billing", "200")
        .await;
    let state = grid.show("orders", "billing").await["provisioningState"].clone();
    assert_eq!(
        (state, grid.heard("billing").len()),
        (json!("Succeeded"), 0),
        "skipValidation"
    );
}
