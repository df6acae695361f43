//! Publish requests that were rejected, and events that nobody wanted, can be looked at.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use everpost::model::limits::PUBLISH_BYTES_MAX;

use crate::grid::{Grid, event};

async fn get(grid: &Grid, path: &str) -> Value {
    let heard = grid.manage(Method::GET, path, Value::Null).await;
    assert_eq!(heard.status, StatusCode::OK, "{}", heard.text);
    heard.json()
}

/// The codes and ids of what was rejected, newest first, once the janitor has been round.
async fn rejected(grid: &Grid) -> Vec<String> {
    grid.broker.store_rejections().await;
    let list = get(grid, "/everpost/rejectedEvents?limit=200").await;
    let rows = list["value"].as_array().expect("a list").iter();
    rows.map(|row| {
        format!(
            "{} {}",
            row["httpStatusCode"],
            row["code"].as_str().unwrap_or("?")
        )
    })
    .collect()
}

async fn send(grid: &Grid, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> u16 {
    let mut request = Request::post(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(body.into()).expect("a request");
    grid.send(request).await.status.as_u16()
}

#[tokio::test]
async fn a_rejected_request_is_kept_with_its_reason() {
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .topic("invoices")
        .await;
    let reply = grid
        .post("orders", "[{\"id\": \"1\", \"subjet\": 5}]")
        .await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(rejected(&grid).await, ["400 BadRequest"]);
    let shown = get(&grid, "/everpost/rejectedEvents/1").await;
    let reason = shown["reason"].as_str().expect("a reason").to_owned();
    assert!(
        reason.contains("event [0]") && !reason.contains("Report"),
        "{reason}"
    );
    let expected = json!({
        "id": 1, "topic": "orders", "receivedAt": crate::grid::START.replace('Z', ".000Z"),
        "httpStatusCode": 400, "code": "BadRequest", "reason": reason,
        "contentType": "application/json", "size": 26,
        "body": "[{\"id\": \"1\", \"subjet\": 5}]", "truncated": false,
    });
    assert_eq!(shown, expected);
    let missing = grid
        .manage(Method::GET, "/everpost/rejectedEvents/2", Value::Null)
        .await;
    missing.error(404, "NotFound");

    grid.post("invoices", "[").await.error(400, "BadRequest");
    assert_eq!(rejected(&grid).await.len(), 2);
    let list = get(&grid, "/everpost/rejectedEvents?topic=orders").await;
    assert_eq!(list["value"].as_array().map(Vec::len), Some(1));
    assert_eq!(list["value"][0]["id"], 1);
    let page = get(&grid, "/everpost/rejectedEvents?limit=1").await;
    assert_eq!(
        (&page["value"][0]["id"], &page["nextBefore"]),
        (&json!(2), &json!(2))
    );
    let page = get(&grid, "/everpost/rejectedEvents?limit=1&before=2").await;
    assert_eq!(page["value"][0]["id"], 1);
    let unknown = grid
        .manage(Method::GET, "/everpost/rejectedEvents?topic=x", Value::Null)
        .await;
    assert_eq!(unknown.status.as_u16() / 100, 4);
}

#[tokio::test]
async fn every_kind_of_rejection_is_kept_and_nothing_of_strangers() {
    let grid = Grid::new().await.topic("orders").await;
    let key = grid.key("orders").await;
    let path = "/topics/orders/api/events";
    let version = format!("{path}?api-version=2017-01-01");
    let keyed: &[_] = &[("aeg-sas-key", key.as_str())];
    let zipped: &[_] = &[keyed[0], ("content-encoding", "gzip")];
    let large = format!("[\"{}\"]", "ä".repeat(PUBLISH_BYTES_MAX));
    assert_eq!(send(&grid, path, zipped, &b"\x1f\x8b\xff"[..]).await, 415);
    assert_eq!(send(&grid, &version, keyed, "[]").await, 400);
    assert_eq!(send(&grid, path, keyed, large).await, 413);
    // Strangers: no key, a wrong one, and a wrong version besides.
    assert_eq!(send(&grid, path, &[], "secret").await, 401);
    assert_eq!(
        send(&grid, path, &[("aeg-sas-key", "guess")], "secret").await,
        401
    );
    assert_eq!(send(&grid, &version, &[], "secret").await, 401);
    assert_eq!(
        send(&grid, "/topics/none/api/events", keyed, "secret").await,
        401
    );
    let kept = [
        "413 RequestEntityTooLarge",
        "400 BadRequest",
        "415 UnsupportedMediaType",
    ];
    assert_eq!(rejected(&grid).await, kept);

    let large = get(&grid, "/everpost/rejectedEvents/3").await;
    assert_eq!(large["size"], 2 * PUBLISH_BYTES_MAX + 4);
    assert_eq!(large["truncated"], true);
    let body = large["body"].as_str().expect("text");
    assert!((16_383..=16_384).contains(&body.len()), "{}", body.len());
    let zipped = get(&grid, "/everpost/rejectedEvents/1").await;
    assert_eq!(
        (&zipped["bodyBase64"], &zipped["body"]),
        (&json!("H4v/"), &Value::Null)
    );
    for id in 1..=3 {
        let text = get(&grid, &format!("/everpost/rejectedEvents/{id}"))
            .await
            .to_string();
        assert!(!text.contains(&key), "{text}");
    }
    let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
    for line in [
        "everpost_rejected_requests_kept_total 3",
        "everpost_publish_failed_requests_total{topic=\"orders\",error=\"Unauthorized\"} 3",
        "everpost_publish_failed_requests_total{topic=\"orders\",error=\"RequestEntityTooLarge\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
}

#[tokio::test]
async fn a_broken_publisher_is_kept_a_few_times_a_second_and_hides_nobody() {
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .topic("invoices")
        .await;
    for _ in 0..50 {
        grid.post("orders", "[").await.error(400, "BadRequest");
    }
    grid.post("invoices", "[").await.error(400, "BadRequest");
    grid.publish("orders", event("fine")).await;
    assert_eq!(rejected(&grid).await.len(), 5);
    let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
    let lost = "everpost_rejected_requests_not_kept_total{reason=\"TooMany\"} 46";
    assert!(metrics.contains(lost), "{metrics}");
    // The next round has room again.
    grid.post("orders", "[").await.error(400, "BadRequest");
    assert_eq!(rejected(&grid).await.len(), 6);
}

#[tokio::test]
async fn on_a_full_disk_rejections_are_counted_alone() {
    let (grid, _dir) = Grid::on_disk(u64::MAX).await;
    let grid = grid.topic("orders").await;
    grid.post("orders", "[").await.error(400, "BadRequest");
    assert_eq!(rejected(&grid).await, [""; 0]);
    let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
    let lost = "everpost_rejected_requests_not_kept_total{reason=\"DiskLow\"} 1";
    assert!(metrics.contains(lost), "{metrics}");
    grid.leave();
}

#[tokio::test(start_paused = true)]
async fn the_janitor_keeps_and_forgets_rejections() {
    let grid = Grid::new().await.topic("orders").await;
    grid.post("orders", "[").await.error(400, "BadRequest");
    let house = tokio::spawn(grid.broker.clone().run_janitor());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let list = get(&grid, "/everpost/rejectedEvents").await;
    assert_eq!(list["value"].as_array().map(Vec::len), Some(1));
    grid.clock.advance(Duration::from_secs(7 * 24 * 3_600 + 1));
    tokio::time::sleep(Duration::from_secs(61)).await;
    let list = get(&grid, "/everpost/rejectedEvents").await;
    assert_eq!(list["value"], json!([]));
    // What is noted while it stops is still kept.
    grid.post("orders", "[").await.error(400, "BadRequest");
    grid.broker.stop();
    house.await.expect("it ends");
    let list = get(&grid, "/everpost/rejectedEvents").await;
    assert_eq!(list["value"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn events_that_nobody_wanted_say_why() {
    let filter = json!({"filter": {"includedEventTypes": ["Order.Sent"]}});
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .push("orders", "all", "200")
        .await;
    grid.publish("orders", event("wanted")).await;
    let disabled = json!({"disabled": true});
    let path = "/topics/orders/eventSubscriptions/all";
    grid.manage(Method::PATCH, path, disabled).await;
    let grid = grid.push_with("orders", "sent", "200", filter).await;
    grid.publish("orders", event("unwanted")).await;
    let list = get(&grid, "/everpost/events?unmatched=true&topic=orders").await;
    assert_eq!(list["value"].as_array().map(Vec::len), Some(1));
    let key = &list["value"][0]["key"];
    let list = get(&grid, &format!("/everpost/events/{key}/explanations")).await;
    let reasons = list["value"].as_array().expect("a list").iter();
    let reasons: Vec<_> = reasons.map(|each| each["reason"]["code"].clone()).collect();
    assert_eq!(reasons, ["Disabled", "FilterNotMatched"]);
    grid.leave();
}
