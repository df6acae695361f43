//! Searches in the events by the management API.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use crate::grid::{Grid, event};

/// Ten minutes apart: `a` is delivered at 12:00, `b` becomes a dead letter at 12:10, and nobody wants `c`.
async fn filled() -> Grid {
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .topic("parcels")
        .await;
    let grid = grid.push("orders", "billing", "200 400").await;
    let mut first = event("a");
    first["subject"] = json!("/orders/100%_sure");
    grid.publish("orders", first).await;
    grid.broker.run_due().await;
    grid.pass(Duration::from_secs(600));
    let mut sent = event("b");
    sent["eventType"] = json!("Order.Sent");
    sent["data"] = json!({"note": "Hush Hush, Zoë"});
    grid.publish("orders", sent).await;
    grid.broker.run_due().await;
    grid.pass(Duration::from_secs(600));
    grid.publish("parcels", event("c")).await;
    grid
}

async fn found(grid: &Grid, query: &str) -> String {
    let path = format!("/everpost/events?{query}");
    let page = grid.manage(Method::GET, &path, Value::Null).await;
    assert_eq!(page.status, StatusCode::OK, "{query}: {}", page.text);
    let page = page.json();
    assert_eq!(page["lookedBack"], Value::Null, "{query}");
    let rows = page["value"].as_array().expect("a list");
    let ids = rows.iter().map(|row| row["id"].as_str().expect("an id"));
    ids.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn events_are_found_by_parameters() {
    let grid = filled().await;
    for (query, expected) in [
        ("", "c b a"),
        ("topic=orders", "b a"),
        ("topic=orders&subscription=billing", "b a"),
        ("topic=orders&subscription=billing&state=Delivered", "a"),
        ("state=deadlettered", "b"),
        ("state=Retrying", ""),
        ("unmatched=true", "c"),
        ("id=a", "a"),
        ("type=Order.Sent", "b"),
        ("type=Order.*", "c b a"),
        ("subject=/orders/100%25_*", "a"),
        ("text=hush+hush", "b"),
        ("text=zoë", "b"),
        ("text=%25_SURE", "a"),
        ("from=2026-11-21T12:10:00Z", "c b"),
        ("to=2026-11-21T12:10:00Z", "a"),
        ("from=2026-11-21T12:10:00Z&to=2026-11-21T12:20:00Z", "b"),
    ] {
        assert_eq!(found(&grid, query).await, expected, "{query}");
    }
    let page = grid
        .manage(
            Method::GET,
            "/everpost/events?limit=1&before=3",
            Value::Null,
        )
        .await
        .json();
    assert_eq!(page["nextBefore"], 2);
    assert_eq!(page["value"][0]["deliveries"], json!({"DeadLettered": 1}));
}

#[tokio::test]
async fn parameters_that_mean_nothing_are_rejected() {
    let grid = filled().await;
    for (query, word) in [
        ("state=sent", "Retrying"),
        ("from=yesterday", "2026-11-21T06:40:53Z"),
        ("subscription=billing", "topic"),
        ("statee=x", "statee"),
    ] {
        let path = format!("/everpost/events?{query}");
        let heard = grid.manage(Method::GET, &path, Value::Null).await;
        let message = heard.error(400, "BadRequest");
        assert!(message.contains(word), "{query}: {message}");
    }
}

#[tokio::test]
async fn a_viewer_cannot_tell_by_a_search_what_data_says() {
    let grid = filled().await;
    let wish = json!({"name": "watcher", "role": "viewer", "days": 1});
    let made = grid.manage(Method::POST, "/everpost/tokens", wish).await;
    let token = made.json()["token"].as_str().expect("a token").to_owned();
    for list in ["/everpost/events", "/everpost/deadLetters"] {
        for (text, found) in [("hush", 0), ("Order.Sent", 1)] {
            let request = Request::get(format!("{list}?text={text}"))
                .header("authorization", format!("Bearer {token}"))
                .body(Body::empty());
            let heard = grid.send(request.expect("a request")).await;
            let rows = heard.json()["value"].as_array().map(Vec::len);
            assert_eq!(rows, Some(found), "{list} {text}");
        }
    }
}
