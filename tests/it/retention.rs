//! What goes of what has ended, what stays, and that the file gets smaller.

use std::path::Path;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use everpost::base::{Clock, Entropy, Timestamp};
use everpost::model::event::EventKey;
use everpost::model::registry::ResourceScope;
use everpost::model::retention::{Cutoff, RetentionRules};
use everpost::store::{DataDir, PruneBatch, PruneRequest, Store, StoreOptions};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::grid::{Grid, event};

const HOUR: Duration = Duration::from_secs(3_600);

fn rules(delivered: u32, dead_letters: Option<u32>) -> RetentionRules {
    RetentionRules {
        delivered: HOUR * delivered,
        dead_letters: dead_letters.map(|hours| HOUR * hours),
        bytes_max: None,
    }
}

/// Ids of the events that are left, oldest first.
async fn left(grid: &Grid) -> String {
    let list = grid
        .manage(Method::GET, "/everpost/events?limit=200", Value::Null)
        .await;
    assert_eq!(list.status, StatusCode::OK, "{}", list.text);
    let list = list.json();
    let events = list["value"].as_array().expect("events").iter().rev();
    let ids: Vec<&str> = events.filter_map(|event| event["id"].as_str()).collect();
    ids.join(" ")
}

async fn retain_after(grid: &Grid, time: Duration) {
    grid.run_for(time).await;
    grid.broker.retain().await.expect("a round");
}

async fn storage(grid: &Grid, query: &str) -> Value {
    let path = format!("/everpost/storage{query}");
    let report = grid.manage(Method::GET, &path, Value::Null).await;
    assert_eq!(report.status, StatusCode::OK, "{}", report.text);
    report.json()
}

#[tokio::test]
async fn what_has_ended_goes_by_its_age_and_the_rest_stays() {
    let (grid, _dir) = Grid::keeping(rules(48, None)).await;
    let grid = grid.topic("orders").await.topic("quiet").await;
    let slow = json!({"retryPolicy": {"schedule": ["PT6H"]}});
    let grid = grid
        .push_with("orders", "billing", "200 503 400 200", slow)
        .await;
    for id in ["done", "retried", "dead", "late"] {
        grid.publish("orders", event(id)).await;
        grid.run_for(Duration::from_secs(60)).await;
    }
    grid.publish("quiet", event("unmatched")).await;
    retain_after(&grid, HOUR * 47).await;
    assert_eq!(left(&grid).await, "done retried dead late unmatched");
    let preview = storage(&grid, "?hours=1").await;
    assert_eq!(preview["wouldGoNow"]["events"], 4, "{preview}");
    assert_eq!(preview["wouldGoNow"]["deliveries"], 3, "{preview}");
    let preview = storage(&grid, "?hours=1&deadLetterHours=1").await;
    assert_eq!(preview["wouldGoNow"]["events"], 5, "{preview}");
    // "retried" ended six hours after the others.
    retain_after(&grid, HOUR * 2).await;
    assert_eq!(left(&grid).await, "retried dead");
    retain_after(&grid, HOUR * 7).await;
    assert_eq!(left(&grid).await, "dead");
    let report = storage(&grid, "").await;
    let gone = json!({"events": 4, "deliveries": 3, "deliveryAttempts": 4});
    assert_eq!(report["prunedSinceStart"], gone, "{report}");
    assert_eq!(report["wouldGoNow"]["events"], 0, "{report}");
    assert_eq!(report["oldestEvent"]["key"], 3, "{report}");
    let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
    assert!(
        metrics.contains("everpost_pruned_events_total 4"),
        "{metrics}"
    );
    assert!(metrics.contains("everpost_database_bytes "), "{metrics}");
    grid.manage(Method::GET, "/everpost/storage?hours=876001", Value::Null)
        .await
        .error(400, "BadRequest");
    grid.leave();
}

#[tokio::test]
async fn a_resubmitted_dead_letter_and_its_successor_go_together() {
    let (grid, dir) = Grid::keeping(rules(1, None)).await;
    let grid = grid
        .topic("orders")
        .await
        .push("orders", "billing", "400 200")
        .await;
    grid.publish("orders", event("e1")).await;
    retain_after(&grid, HOUR * 100).await;
    assert_eq!(left(&grid).await, "e1", "dead letters stay");
    let resubmit = "/everpost/deadLetters/1/resubmit";
    let answer = grid.manage(Method::POST, resubmit, Value::Null).await;
    assert!(answer.status.is_success(), "{}", answer.text);
    retain_after(&grid, Duration::from_secs(60)).await;
    let shown = grid
        .manage(Method::GET, "/everpost/events/1", Value::Null)
        .await
        .json();
    assert_eq!(
        shown["deliveries"].as_array().map(Vec::len),
        Some(2),
        "{shown}"
    );
    retain_after(&grid, HOUR * 2).await;
    assert_eq!(left(&grid).await, "");
    let rows = Connection::open(dir.path().join("everpost.db")).expect("a connection");
    for table in ["event", "delivery", "delivery_attempt"] {
        let count = format!("SELECT count(*) FROM {table}");
        let count: i64 = rows
            .query_row(&count, [], |row| row.get(0))
            .expect("a count");
        assert_eq!(count, 0, "{table}");
    }
    grid.leave();
}

#[tokio::test]
async fn dead_letters_go_by_an_age_of_their_own_if_they_have_one() {
    let (grid, _dir) = Grid::keeping(rules(1, Some(10))).await;
    let grid = grid
        .topic("orders")
        .await
        .push("orders", "billing", "400")
        .await;
    grid.publish("orders", event("e1")).await;
    retain_after(&grid, HOUR * 9).await;
    assert_eq!(left(&grid).await, "e1");
    retain_after(&grid, HOUR * 2).await;
    assert_eq!(left(&grid).await, "");
    grid.leave();
}

#[tokio::test]
async fn what_is_deleted_keeps_its_row_as_long_as_something_names_it() {
    let (grid, dir) = Grid::keeping(rules(1, Some(10))).await;
    let grid = grid
        .topic("orders")
        .await
        .push("orders", "billing", "400")
        .await
        .push("orders", "audit", "200")
        .await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(Duration::from_secs(60)).await;
    let grid = grid
        .push("orders", "idle", "200")
        .await
        .topic("empty")
        .await;
    for path in [
        "/topics/orders/eventSubscriptions/idle",
        "/topics/orders/eventSubscriptions/audit",
        "/topics/orders",
        "/topics/empty",
    ] {
        let reply = grid.manage(Method::DELETE, path, Value::Null).await;
        assert!(reply.status.is_success(), "{path}: {}", reply.text);
    }
    let database = Connection::open(dir.path().join("everpost.db")).expect("a connection");
    let names = |table: &str| -> String {
        let names = format!(
            "SELECT coalesce(group_concat(name, ' '), '') FROM \
             (SELECT name FROM {table} WHERE id > 0 ORDER BY id)"
        );
        database
            .query_row(&names, [], |row| row.get(0))
            .expect("names")
    };
    let expect = |subscriptions: &str, topics: &str| {
        assert_eq!(names("event_subscription"), subscriptions);
        assert_eq!(names("topic"), topics);
    };
    grid.broker.retain().await.expect("a round");
    expect("billing audit idle", "orders empty");
    let defined = "SELECT count(*) FROM event_subscription WHERE definition <> '{}'";
    let defined: i64 = database
        .query_row(defined, [], |row| row.get(0))
        .expect("a count");
    assert_eq!(defined, 0);
    retain_after(&grid, HOUR * 2).await;
    expect("billing audit", "orders");
    assert_eq!(left(&grid).await, "e1");
    retain_after(&grid, HOUR * 10).await;
    expect("", "");
    let of_all = "SELECT sum(subscription_id <> 0), sum(dead_lettered), sum(delivered) FROM subscription_rollup";
    let of_all: (i64, i64, i64) = database
        .query_row(of_all, [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .expect("counts");
    assert_eq!(of_all, (0, 1, 1), "what was counted stays counted");
    let totals: i64 = database
        .query_row("SELECT count(*) FROM subscription_total", [], |row| {
            row.get(0)
        })
        .expect("a count");
    assert_eq!(totals, 0);
    grid.leave();
}

#[tokio::test]
async fn a_full_database_loses_the_oldest_delivered_first_and_the_undelivered_never() {
    const MOST: u64 = 4 * 1_024 * 1_024;
    let small = RetentionRules {
        bytes_max: Some(MOST),
        ..rules(1_000, None)
    };
    let (grid, _dir) = Grid::keeping(small).await;
    let grid = grid
        .topic("orders")
        .await
        .push("orders", "billing", "200")
        .await;
    let large = |id: &str| {
        let mut event = event(id);
        event["data"] = "x".repeat(100_000).into();
        event
    };
    grid.publish("orders", event("pending")).await;
    let pause = "/topics/orders/eventSubscriptions/billing/pause";
    let resume = "/topics/orders/eventSubscriptions/billing/resume";
    grid.run_for(Duration::from_secs(1)).await;
    for number in 0..100 {
        grid.publish("orders", large(&format!("e{number}"))).await;
    }
    grid.run_for(Duration::from_secs(1)).await;
    grid.manage(Method::POST, pause, Value::Null).await;
    grid.publish("orders", large("waiting")).await;
    grid.broker.retain().await.expect("a round");
    let ids = left(&grid).await;
    let count = ids.split(' ').count();
    assert!(
        ids.ends_with("e98 e99 waiting") && count > 10 && count < 50,
        "{ids}"
    );
    let report = storage(&grid, "").await;
    let size = |name: &str| report[name].as_u64().expect("a size");
    assert!(size("usedBytes") <= MOST - MOST / 10, "{report}");
    assert!(size("databaseBytes") <= MOST, "{report}");
    // Nothing but what waits is left, and it stays however much that is.
    for number in 0..60 {
        grid.publish("orders", large(&format!("w{number}"))).await;
    }
    grid.broker.retain().await.expect("a round");
    let ids = left(&grid).await;
    assert!(
        ids.starts_with("waiting w0") && ids.ends_with("w59"),
        "{ids}"
    );
    assert_eq!(storage(&grid, "").await["pressure"], "Size");
    grid.manage(Method::POST, resume, Value::Null).await;
    grid.run_for(Duration::from_secs(1)).await;
    retain_after(&grid, HOUR).await;
    assert_eq!(storage(&grid, "").await["pressure"], Value::Null);
    grid.leave();
}

/// A store in `dir` with `count` delivered events of `bytes` each.
fn filled(dir: &Path, count: u32, bytes: u32) -> Store {
    let open = || {
        let options = StoreOptions {
            clock: Clock::system(),
            scope: ResourceScope {
                subscription: "s".to_owned(),
                resource_group: "g".to_owned(),
            },
            entropy: Entropy::Os,
            master_keys: None,
            on_fatal: Box::new(|error| panic!("{error}")),
        };
        let data_dir = DataDir::open(dir).expect("a data directory");
        Store::open(data_dir.into(), options, &|_| ()).expect("a store")
    };
    let store = open();
    let rows = Connection::open(dir.join("everpost.db")).expect("a connection");
    let fill = format!(
        "PRAGMA synchronous = OFF; BEGIN;
         INSERT INTO event (id, topic_id, received_at, event_id, event_type, data, matched, checksum)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
             SELECT i, 1, i, 'e' || i, 'T', '\"' || hex(zeroblob({bytes} / 2)) || '\"', 1, 0 FROM n;
         INSERT INTO delivery (id, event_id, subscription_id, state, next_attempt_at, published_at,
             attempts, ended_at, checksum) SELECT id, id, 1, 'Delivered', id, id, 1, id, 0 FROM event;
         INSERT INTO delivery_attempt (delivery_id, attempt, started_at, duration_ms, outcome, status)
             SELECT id, 1, id, 1, 'Delivered', 200 FROM delivery;
         COMMIT; PRAGMA wal_checkpoint(TRUNCATE);"
    );
    rows.execute_batch(&fill).expect("delivered events");
    store
}

/// Deletes everything in batches and gives the room back.
async fn empty(store: &Store) {
    let cutoff = Cutoff {
        delivered: Timestamp::from_ms(i64::MAX),
        dead_letters: None,
    };
    let batch = PruneBatch {
        events: 500,
        rows: 600,
        bytes: 1_024 * 1_024,
    };
    let mut after = EventKey(0);
    loop {
        let prune = |dry_run| {
            let request = PruneRequest {
                after,
                cutoff,
                batch,
                dry_run,
            };
            store.ledger.prune(request)
        };
        let found = prune(true).await.expect("a look");
        let Some((last_seen, _)) = found.last_seen else {
            break;
        };
        assert_eq!(prune(false).await, Ok(found));
        after = last_seen;
    }
    let mut size = u64::MAX;
    loop {
        let now = store.upkeep.sizes().await.expect("sizes").file;
        if now >= size {
            break;
        }
        size = now;
        store.upkeep.shrink(64).await.expect("a smaller file");
    }
    store.upkeep.cut_log().await.expect("a short log");
    store
        .upkeep
        .check_writable()
        .await
        .expect("the log is cut before the next change");
}

#[tokio::test]
async fn the_file_gets_smaller() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = filled(dir.path(), 8_000, 2_000);
    let size = |name: &str| std::fs::metadata(dir.path().join(name)).map_or(0, |file| file.len());
    let before = size("everpost.db");
    assert!(before > 16_000_000, "{before}");
    empty(&store).await;
    let (after, log) = (size("everpost.db"), size("everpost.db-wal"));
    assert!(after < before / 10, "{before} bytes became {after}");
    assert!(log < 100_000, "a log of {log} bytes");
}
