//! Searches, counts and purges of dead letters.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use everpost::model::dead_letter_filter::DeadLetterFilter;
use everpost::store::views::GroupBy;
use serde_json::{Value, json};

use crate::grid::{Grid, event};

/// Ten minutes apart: `a` is rejected as bad at 12:00, `b` in the receiver's own words at 12:10, and `c`
/// expires at another subscription.
async fn filled() -> Grid {
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .topic("parcels")
        .await;
    let grid = grid.push("orders", "billing", "400").await;
    let short = json!({"retryPolicy": {"maxDeliveryAttempts": 1}});
    let grid = grid.push_with("parcels", "tracking", "503", short).await;
    let mut paid = event("a");
    paid["subject"] = json!("/orders/100%_sure");
    grid.publish("orders", paid).await;
    grid.broker.run_due().await;
    grid.pass(Duration::from_secs(600));
    let words = vec![("everpost-dead-letter-reason", "Unknown customer".to_owned())];
    grid.answer("billing", 422, words, String::new());
    let mut sent = event("b");
    sent["eventType"] = json!("Order.Sent");
    grid.publish("orders", sent).await;
    grid.broker.run_due().await;
    grid.pass(Duration::from_secs(600));
    grid.publish("parcels", event("c")).await;
    grid.broker.run_due().await;
    grid
}

/// The ids of the events that a search finds, newest first, checked against the count.
async fn found(grid: &Grid, query: &str) -> String {
    let path = format!("/everpost/deadLetters?{query}");
    let page = grid.manage(Method::GET, &path, Value::Null).await;
    assert_eq!(page.status, StatusCode::OK, "{query}: {}", page.text);
    let page = page.json();
    let rows = page["value"].as_array().expect("a list").clone();
    let path = format!("/everpost/deadLetters/count?{query}");
    let count = grid.manage(Method::GET, &path, Value::Null).await.json();
    assert_eq!(count["count"], rows.len(), "{query}");
    assert_eq!(page["nextBefore"], Value::Null, "{query}");
    let ids: Vec<_> = rows
        .iter()
        .map(|row| row["eventId"].as_str().expect("an id"))
        .collect();
    ids.join(" ")
}

#[tokio::test]
async fn dead_letters_are_found_by_what_is_known_of_them() {
    let grid = filled().await;
    for (query, expected) in [
        ("", "c b a"),
        ("topic=orders", "b a"),
        ("topic=orders&subscription=billing", "b a"),
        ("topic=parcels&subscription=tracking", "c"),
        ("reason=UndeliverableDueToHttpBadRequest", "a"),
        ("reason=Unknown+customer", "b"),
        ("reason=Application", "b"),
        ("reason=MaxDeliveryAttemptsExceeded&topic=orders", ""),
        ("status=422", "b"),
        ("status=503", "c"),
        ("outcome=Busy", "c"),
        ("outcome=BadRequest&status=400", "a"),
        ("from=2026-11-21T12:10:00Z", "c b"),
        ("to=2026-11-21T12:10:00Z", "a"),
        ("from=2026-11-21T12:10:00Z&to=2026-11-21T12:20:00Z", "b"),
        ("type=Order.Sent", "b"),
        ("type=Order.*", "c b a"),
        ("type=Order.S*&status=400", ""),
        ("subject=/orders/7", "c b"),
        ("subject=/orders/100%25_*", "a"),
        ("subject=/orders", ""),
        ("text=SENT", "b"),
        ("text=%25_SURE", "a"),
        ("text=_", "a"),
        ("topic=orders&subscription=billing&text=order", "b a"),
        (
            "topic=orders&subscription=billing&reason=Application&status=422",
            "b",
        ),
    ] {
        assert_eq!(found(&grid, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn what_a_deleted_subscription_left_is_found_by_its_type_and_source() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push("orders", "billing", "200").await;
    let path = "/topics/orders/eventSubscriptions/billing";
    let pause = format!("{path}/pause");
    grid.manage(Method::POST, &pause, Value::Null).await;
    grid.publish("orders", event("a")).await;
    let keep = format!("{path}?pending=deadLetter");
    let deleted = grid.manage(Method::DELETE, &keep, Value::Null).await;
    assert!(deleted.status.is_success(), "{}", deleted.text);
    let kind = event("a")["eventType"].as_str().expect("a type").to_owned();
    assert_eq!(found(&grid, &format!("type={kind}")).await, "a");
    assert_eq!(found(&grid, "type=Other").await, "");
    let views = &grid.store.views;
    let groups = views
        .group_dead_letters(DeadLetterFilter::default(), GroupBy::Source)
        .await
        .expect("groups");
    let groups: Vec<_> = groups
        .groups
        .iter()
        .map(|group| group.key.as_str())
        .collect();
    assert_eq!(groups, ["orders"], "its topic, since it names no source");
}

#[tokio::test]
async fn pages_follow_each_other() {
    let grid = filled().await;
    for query in ["", "topic=orders&subscription=billing&", "type=Order*&"] {
        let path = format!("/everpost/deadLetters?{query}limit=1");
        let first = grid.manage(Method::GET, &path, Value::Null).await.json();
        let next = first["nextBefore"].as_i64().expect("there is more");
        let path = format!("{path}&before={next}");
        let second = grid.manage(Method::GET, &path, Value::Null).await.json();
        assert!(
            second["value"][0]["deliveryId"].as_i64() < Some(next),
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_purge_takes_what_fits_and_nobody_holds() {
    let grid = filled().await;
    let purge = |query: &'static str| grid.manage(Method::POST, query, Value::Null);
    let rejected = purge("/everpost/deadLetters/purge").await;
    assert!(rejected.error(400, "BadRequest").contains("all=true"));
    let lock = json!({"topic": "orders", "subscription": "billing"});
    let locked = grid
        .manage(Method::POST, "/everpost/deadLetters/receive", lock)
        .await
        .json();
    assert_eq!(locked["value"][0]["event"]["id"], "a");

    let purged = purge("/everpost/deadLetters/purge?topic=orders")
        .await
        .json();
    assert_eq!(
        purged,
        json!({"removed": 1, "locked": 1, "nextBefore": null})
    );
    assert_eq!(found(&grid, "").await, "c a");
    let shown = grid
        .manage(Method::GET, "/everpost/deadLetters/2", Value::Null)
        .await
        .json();
    assert_eq!(
        (&shown["state"], shown["removedAt"].is_string()),
        (&json!("Removed"), true)
    );

    grid.pass(Duration::from_secs(61));
    let first = purge("/everpost/deadLetters/purge?all=true&limit=1")
        .await
        .json();
    assert_eq!(
        (&first["removed"], &first["nextBefore"]),
        (&json!(1), &json!(3))
    );
    let rest = purge("/everpost/deadLetters/purge?all=true&before=3")
        .await
        .json();
    assert_eq!(rest["removed"], 1);
    assert_eq!(found(&grid, "").await, "");
}

#[tokio::test]
async fn each_batch_of_a_purge_is_audited_with_what_it_removed() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push("orders", "billing", "400").await;
    let events: Value = (0..253).map(|number| event(&number.to_string())).collect();
    let published = grid.post("orders", events).await;
    assert_eq!(published.status, StatusCode::OK);
    grid.broker.run_due().await;
    let lock = json!({"topic": "orders", "subscription": "billing"});
    grid.manage(Method::POST, "/everpost/deadLetters/receive", lock)
        .await;
    let path = "/everpost/deadLetters/purge?topic=orders";
    let purged = grid.manage(Method::POST, path, Value::Null).await.json();
    assert_eq!(
        (&purged["removed"], &purged["locked"]),
        (&json!(252), &json!(1))
    );
    let audit = grid
        .manage(
            Method::GET,
            "/everpost/audit?action=PurgeDeadLetters",
            Value::Null,
        )
        .await
        .json();
    let entries = audit["value"].as_array().expect("a list");
    let sentences: Vec<_> = entries.iter().map(|each| &each["sentence"]).collect();
    // The second batch had three, of which a receiver held one.
    assert_eq!(
        sentences,
        [
            "Purged 2 dead letters of topic orders",
            "Purged 250 dead letters of topic orders"
        ]
    );
}

#[tokio::test]
async fn filters_that_mean_nothing_are_rejected() {
    let grid = filled().await;
    for (query, word) in [
        ("outcome=Fine", "GenericError"),
        ("from=yesterday", "2026-11-21T06:40:53Z"),
        ("subscription=billing", "topic"),
        ("raeson=x", "raeson"),
        ("status=many", "status"),
    ] {
        let path = format!("/everpost/deadLetters?{query}");
        let heard = grid.manage(Method::GET, &path, Value::Null).await;
        let message = heard.error(400, "BadRequest");
        assert!(message.contains(word), "{query}: {message}");
    }
}
