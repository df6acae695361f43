//! What goes wrong inside of the appliance: damaged rows, commits that fail, defects of its own. One of
//! them must not cost anything but itself.

use std::path::Path;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use everpost::base::Clock;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::grid::{Grid, event};

/// Longer than any check takes.
const PATIENCE: Duration = Duration::from_secs(180);

/// Another connection to the database of the appliance in `dir`, through which things go wrong.
fn saboteur(dir: &Path) -> Connection {
    Connection::open(dir.join("everpost.db")).expect("a connection")
}

#[tokio::test(start_paused = true)]
async fn a_settlement_is_offered_until_it_is_stored() {
    let (grid, dir) = Grid::on_disk(0).await;
    let grid = grid
        .topic("orders")
        .await
        .push("orders", "billing", "200")
        .await;
    grid.publish("orders", event("e1")).await;
    let saboteur = saboteur(dir.path());
    let fail = "CREATE TRIGGER fail BEFORE UPDATE ON delivery BEGIN SELECT raise(ABORT, 'no'); END";
    saboteur.execute_batch(fail).expect("a trigger");
    let repair = async {
        while grid.heard("billing").is_empty() {
            tokio::task::yield_now().await;
        }
        // Behind the settlement in the store's queue: once it is answered, that has failed.
        let _ = grid.broker.check_writable().await;
        saboteur
            .execute_batch("DROP TRIGGER fail")
            .expect("no trigger");
    };
    tokio::join!(grid.broker.run_due(), repair);
    assert_eq!(grid.timeline("billing").await, "e1 +0s=200 Delivered");
    grid.run_for(Duration::from_secs(60)).await;
    assert_eq!(grid.heard("billing").len(), 1, "nobody hears it twice");
    grid.leave();
}

#[tokio::test]
async fn an_event_that_cannot_be_read_keeps_no_other() {
    let damages = [
        "UPDATE event SET attributes = '{' WHERE event_id = 'e1'",
        "UPDATE event SET data = '{\"total\":' WHERE event_id = 'e1'",
        "UPDATE event SET data = CAST(x'22ff22' AS TEXT) WHERE event_id = 'e1'",
        "UPDATE event SET subject = CAST(x'ff' AS TEXT) WHERE event_id = 'e1'",
        // What can be read and is not what was accepted.
        "UPDATE event SET subject = 'other' WHERE event_id = 'e1'",
        "UPDATE event SET event_type = event_type || 'x' WHERE event_id = 'e1'",
        "UPDATE event SET data = replace(data, '1', '2') || ' ' WHERE event_id = 'e1'",
        "UPDATE event SET event_time = '2020-01-01T00:00:00Z' WHERE event_id = 'e1'",
        "UPDATE event SET data_version = '7' WHERE event_id = 'e1'",
    ];
    for damage in damages {
        let (grid, dir) = Grid::on_disk(0).await;
        let grid = grid
            .topic("orders")
            .await
            .push("orders", "billing", "503")
            .await;
        for id in ["e0", "e1", "e2"] {
            grid.publish("orders", event(id)).await;
        }
        grid.leave();
        let damaged = saboteur(dir.path()).execute(damage, []);
        assert_eq!(damaged.expect("a damaged row"), 1, "{damage}");

        let grid = Grid::reopened(dir.path()).await;
        grid.script("billing", "200");
        grid.run_for(Duration::from_secs(3_600)).await;
        let heard = grid.heard("billing");
        let told = |id: &str| {
            let named = |body: &[u8]| String::from_utf8_lossy(body).contains(id);
            heard.iter().filter(|request| named(&request.body)).count()
        };
        assert_eq!((told("e0"), told("e1"), told("e2")), (1, 0, 1), "{damage}");
        let list = grid
            .manage(Method::GET, "/everpost/deadLetters", Value::Null)
            .await;
        assert_eq!(list.status, StatusCode::OK, "{}", list.text);
        let dead = &list.json()["value"];
        assert_eq!(
            dead.as_array().expect("a list").len(),
            1,
            "{damage}: {dead}"
        );
        assert_eq!(
            dead[0]["deadLetterReason"], "EventUnreadable",
            "{damage}: {dead}"
        );
        let events = grid
            .manage(Method::GET, "/everpost/events", Value::Null)
            .await;
        assert_eq!(
            events.json()["value"].as_array().map(Vec::len),
            Some(3),
            "{damage}"
        );
        let shown = format!("/everpost/events/{}", dead[0]["eventKey"]);
        let shown = grid.manage(Method::GET, &shown, Value::Null).await;
        let why = shown.error(500, "InternalServerError");
        assert!(why.contains("cannot be read"), "{damage}: {why}");
        grid.leave();
    }
}

/// A damaged delivery would bring its subscription what is for somebody else.
#[tokio::test]
async fn a_delivery_that_is_not_as_it_was_stored_is_dead_lettered() {
    let e1 = "event_id = (SELECT id FROM event WHERE event_id = 'e1')";
    let damages = [
        "event_id = (SELECT id FROM event WHERE event_id = 'e2')",
        "published_at = published_at + 1",
        "session = 'another'",
        "message_properties = x'c10100'",
        "checksum = checksum + 1",
    ];
    for damage in damages {
        let (grid, dir) = Grid::on_disk(0).await;
        let grid = grid
            .topic("orders")
            .await
            .push("orders", "billing", "503")
            .await;
        for id in ["e1", "e2"] {
            grid.publish("orders", event(id)).await;
        }
        grid.leave();
        let update = format!("UPDATE delivery SET {damage} WHERE {e1}");
        let damaged = saboteur(dir.path()).execute(&update, []);
        assert_eq!(damaged.expect("a damaged row"), 1, "{damage}");

        let grid = Grid::reopened(dir.path()).await;
        grid.script("billing", "200");
        grid.run_for(Duration::from_secs(3_600)).await;
        let heard = grid.heard("billing");
        assert_eq!(heard.len(), 1, "{damage}");
        assert!(String::from_utf8_lossy(&heard[0].body).contains("e2"));
        let list = grid
            .manage(Method::GET, "/everpost/deadLetters", Value::Null)
            .await;
        let reason = &list.json()["value"][0]["deadLetterReason"];
        assert_eq!(reason, "EventUnreadable", "{damage}");
        grid.leave();
    }
}

/// A record of who gets the events of a large request, of which the deliveries are still to be created.
#[tokio::test]
async fn a_damaged_record_of_a_fan_out_stops_no_other_and_is_told() {
    let damages = [
        "targets = zeroblob(length(targets))",
        "next_event_id = last_event_id",
        "last_event_id = 1 << 40",
    ];
    for damage in damages {
        let (grid, dir) = Grid::in_bites_on_disk(4).await;
        let grid = grid.topic("orders").await;
        let grid = grid.push("orders", "billing", "200").await;
        let many: Vec<Value> = (0..20).map(|number| event(&format!("e{number}"))).collect();
        assert_eq!(
            grid.post("orders", Value::from(many)).await.status,
            StatusCode::OK
        );
        grid.leave();
        let update = format!("UPDATE fan_out SET {damage}");
        let damaged = saboteur(dir.path()).execute(&update, []);
        assert_eq!(damaged.expect("a damaged row"), 1, "{damage}");

        let grid = Grid::reopened(dir.path()).await;
        grid.script("billing", "200");
        grid.publish("orders", event("later")).await;
        grid.broker.finish().await.expect("what is left is done");
        grid.run_for(Duration::from_secs(60)).await;
        let heard = grid.heard("billing");
        assert_eq!(heard.len(), 1, "{damage}");
        assert!(String::from_utf8_lossy(&heard[0].body).contains("later"));
        let clock = Clock::system();
        let check = grid.store.upkeep.check_integrity(clock, PATIENCE, |_| {});
        let found = check.await.expect("a check").faults;
        assert!(
            found.iter().any(|fault| fault.contains("fan_out")),
            "{damage}: {found:?}"
        );
        grid.leave();
    }
}

/// What the operator finds of the database, as in `everpost doctor`.
async fn found_at_start(grid: &Grid) -> String {
    let path = "/everpost/integrityCheck";
    let told = grid.manage(Method::GET, path, Value::Null).await;
    told.json()["foundAtStart"].to_string()
}

async fn put(grid: &Grid, path: &str, properties: Value) {
    let body = json!({ "properties": properties });
    let put = grid.manage(Method::PUT, path, body).await;
    assert_eq!(put.status, StatusCode::CREATED, "{}", put.text);
}

#[tokio::test]
async fn a_rule_that_cannot_be_read_matches_nothing_and_can_be_deleted() {
    let subscription = "/serviceBusTopics/orders/subscriptions/all";
    for damage in [
        r#"{"properties":{"filterType":"CorrelationFilter","correlationFilter":{"properties":{"p":null}}}}"#,
        "{",
        "",
    ] {
        let (grid, dir) = Grid::on_disk(0).await;
        put(&grid, "/serviceBusTopics/orders", json!({})).await;
        put(&grid, subscription, json!({})).await;
        put(&grid, &format!("{subscription}/rules/paid"), json!({})).await;
        grid.leave();
        let update = "UPDATE subscription_rule SET definition = ?1 WHERE name = 'paid'";
        let damaged = saboteur(dir.path()).execute(update, [damage]);
        assert_eq!(damaged.expect("a damaged row"), 1);

        let grid = Grid::reopened(dir.path()).await;
        let found = found_at_start(&grid).await;
        assert!(found.contains("a stored rule cannot be read"), "{found}");
        assert!(found.contains("paid"), "{found}");
        let rule = format!("{subscription}/rules/paid");
        let shown = grid.manage(Method::GET, &rule, Value::Null).await;
        assert_eq!(shown.json()["properties"]["filterType"], "FalseFilter");
        let rest = format!("{subscription}/rules/$Default");
        let rest = grid.manage(Method::GET, &rest, Value::Null).await;
        assert_eq!(rest.json()["properties"]["filterType"], "TrueFilter");
        let deleted = grid.manage(Method::DELETE, &rule, Value::Null).await;
        assert_eq!(deleted.status, StatusCode::NO_CONTENT, "{}", deleted.text);
        grid.leave();
        let grid = Grid::reopened(dir.path()).await;
        assert!(!found_at_start(&grid).await.contains("paid"));
        grid.leave();
    }
}

#[tokio::test]
async fn subscriptions_that_cannot_be_read_are_disabled_and_can_be_deleted() {
    let (grid, dir) = Grid::on_disk(0).await;
    let grid = grid.topic("orders").await;
    let grid = grid.push("orders", "billing", "200").await;
    let grid = grid.push("orders", "mail", "200").await;
    put(&grid, "/queues/jobs", json!({})).await;
    grid.leave();
    let update = "UPDATE event_subscription SET definition = 'x' WHERE name IN ('billing', 'jobs')";
    let damaged = saboteur(dir.path()).execute(update, []);
    assert_eq!(damaged.expect("damaged rows"), 2);

    let grid = Grid::reopened(dir.path()).await;
    let found = found_at_start(&grid).await;
    assert!(
        found.contains("billing") && found.contains("jobs"),
        "{found}"
    );
    grid.script("mail", "200");
    grid.publish("orders", event("e1")).await;
    grid.run_for(Duration::from_secs(60)).await;
    assert_eq!(grid.heard("mail").len(), 1);
    let billing = "/topics/orders/eventSubscriptions/billing";
    for path in [billing, "/queues/jobs"] {
        let shown = grid.manage(Method::GET, path, Value::Null).await;
        assert_eq!(shown.status, StatusCode::OK, "{}", shown.text);
        assert!(
            shown.text.to_lowercase().contains("disabled"),
            "{}",
            shown.text
        );
        let deleted = grid.manage(Method::DELETE, path, Value::Null).await;
        assert!(deleted.status.is_success(), "{}", deleted.text);
    }
    grid.leave();
}

#[tokio::test]
async fn other_definitions_that_cannot_be_read_are_left_out() {
    let damages = [
        "UPDATE topic SET definition = '{' WHERE name = 'orders'",
        "UPDATE topic SET key1 = key2 WHERE name = 'orders'",
        "INSERT INTO provisioned (kind, name, file) VALUES ('nothing', 'orders', 'a.yaml')",
    ];
    for damage in damages {
        let (grid, dir) = Grid::on_disk(0).await;
        let grid = grid.topic("orders").await.topic("bills").await;
        grid.leave();
        let damaged = saboteur(dir.path()).execute(damage, []);
        assert_eq!(damaged.expect("a damaged row"), 1, "{damage}");
        let grid = Grid::reopened(dir.path()).await;
        let bills = grid.manage(Method::GET, "/topics/bills", Value::Null).await;
        assert_eq!(bills.status, StatusCode::OK, "{damage}");
        let is_told = found_at_start(&grid).await.contains("orders");
        assert_eq!(is_told, damage.starts_with("UPDATE"), "{damage}");
        grid.leave();
    }
}

#[tokio::test]
async fn a_defect_in_a_delivery_costs_one_attempt() {
    let properties = json!({"destination": {"properties": {"maxRequestsInFlight": 1}}});
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push_with("orders", "billing", "panic 200", properties)
        .await;
    grid.publish("orders", event("e1")).await;
    grid.publish("orders", event("e2")).await;
    grid.run_for(Duration::from_secs(60)).await;
    assert_eq!(
        grid.timeline("billing").await,
        "e1 +0s=GenericError +10s=200 Delivered\ne2 +0s=200 Delivered"
    );
    let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
    assert!(
        metrics.contains("everpost_request_panics_total 1"),
        "{metrics}"
    );
}

#[tokio::test]
async fn of_two_changes_at_once_none_is_lost() {
    let (grid, _dir) = Grid::on_disk(0).await;
    let grid = grid
        .topic("orders")
        .await
        .push("orders", "billing", "200")
        .await;
    let path = "/topics/orders/eventSubscriptions/billing";
    let (one, other) = tokio::join!(
        grid.manage(Method::PATCH, path, json!({"labels": ["a"]})),
        grid.manage(
            Method::PATCH,
            path,
            json!({"retryPolicy": {"maxDeliveryAttempts": 3}})
        ),
    );
    assert_eq!(
        (one.status, other.status),
        (StatusCode::CREATED, StatusCode::CREATED)
    );
    let shown = grid.show("orders", "billing").await;
    assert_eq!(shown["labels"], json!(["a"]));
    assert_eq!(shown["retryPolicy"]["maxDeliveryAttempts"], 3);

    let (one, other) = tokio::join!(
        grid.manage(Method::PATCH, "/topics/orders", json!({"tags": {"a": "1"}})),
        grid.manage(
            Method::PATCH,
            "/topics/orders",
            json!({"properties": {"publicNetworkAccess": "Disabled"}})
        ),
    );
    assert_eq!((one.status, other.status), (StatusCode::OK, StatusCode::OK));
    let topic = grid
        .manage(Method::GET, "/topics/orders", Value::Null)
        .await
        .json();
    assert_eq!(topic["tags"], json!({"a": "1"}));
    assert_eq!(topic["properties"]["publicNetworkAccess"], "Disabled");
    grid.leave();
}

#[tokio::test]
async fn a_paused_subscription_gives_up_what_has_outlived_its_policy() {
    let policy = json!({"retryPolicy": {"eventTimeToLiveInMinutes": 10}});
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push_with("orders", "billing", "200", policy).await;
    let path = "/topics/orders/eventSubscriptions/billing/pause";
    let paused = grid.manage(Method::POST, path, Value::Null).await;
    assert_eq!(paused.status, StatusCode::OK, "{}", paused.text);
    for number in 0..3 {
        grid.publish("orders", event(&format!("e{number}"))).await;
        grid.clock.advance(Duration::from_secs(240));
    }
    grid.broker.sweep().await.expect("a sweep");
    let expected = "e0 DeadLettered +720s TimeToLiveExceeded\ne1 next +240s\ne2 next +480s";
    assert_eq!(grid.timeline("billing").await, expected);
    let path = "/topics/orders/eventSubscriptions/billing/resume";
    grid.manage(Method::POST, path, Value::Null).await;
    grid.run_for(Duration::from_secs(1)).await;
    assert_eq!(grid.heard("billing").len(), 2);
}
