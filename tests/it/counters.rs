//! The counters behind lists and pages say what happened, at any moment and whatever fails.

use std::time::Duration;

use axum::http::Method;
use everpost::store::views::{TrafficOf, TrafficQuery};
use serde_json::{Value, json};

use crate::grid::{Grid, event};

const MINUTE: Duration = Duration::from_secs(60);

async fn counts(grid: &Grid) -> Value {
    let counts = grid
        .manage(Method::GET, "/everpost/counts?verify=true", Value::Null)
        .await;
    assert_eq!(counts.status, 200, "{}", counts.text);
    counts.json()["value"].clone()
}

fn expected(subscription: &str, counts: [u64; 6]) -> Value {
    let [
        matched,
        pending,
        delivered,
        dead_lettered,
        dropped,
        dead_letters,
    ] = counts;
    json!({
        "topic": "orders", "subscription": subscription, "matched": matched, "pending": pending,
        "delivered": delivered, "deadLettered": dead_lettered, "dropped": dropped,
        "deadLetters": dead_letters, "balance": true,
        "recount": {"pending": pending, "deadLetters": dead_letters, "agrees": true},
    })
}

#[tokio::test]
async fn every_delivery_is_accounted_for() {
    let drops = json!({"deadLetterDestination": {"endpointType": "Drop"}});
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push("orders", "audit", "200").await;
    let grid = grid.push("orders", "billing", "400").await;
    let grid = grid.push_with("orders", "crm", "413", drops).await;
    for number in 1..=3 {
        grid.publish("orders", event(&format!("e{number}"))).await;
    }
    assert_eq!(
        counts(&grid).await,
        json!([
            expected("audit", [3, 3, 0, 0, 0, 0]),
            expected("billing", [3, 3, 0, 0, 0, 0]),
            expected("crm", [3, 3, 0, 0, 0, 0]),
        ])
    );
    grid.run_for(MINUTE).await;
    let (audit, crm) = (
        expected("audit", [3, 0, 3, 0, 0, 0]),
        expected("crm", [3, 0, 0, 0, 3, 0]),
    );
    assert_eq!(
        counts(&grid).await,
        json!([audit, expected("billing", [3, 0, 0, 3, 0, 3]), crm])
    );

    // A resubmission is a delivery of its own; the dead letter was one all the same.
    grid.script("billing", "503 200");
    let letters = grid
        .manage(Method::GET, "/everpost/deadLetters", Value::Null)
        .await
        .json();
    let path = format!(
        "/everpost/deadLetters/{}/resubmit",
        letters["value"][0]["deliveryId"]
    );
    grid.manage(Method::POST, &path, Value::Null).await;
    let waiting = expected("billing", [4, 1, 0, 3, 0, 2]);
    assert_eq!(counts(&grid).await[1], waiting);
    grid.run_for(MINUTE).await;
    let delivered = expected("billing", [4, 0, 1, 3, 0, 2]);
    assert_eq!(counts(&grid).await, json!([audit, delivered, crm]));

    // What another one did is told by the minute.
    let traffic = grid
        .manage(
            Method::GET,
            "/everpost/traffic?topic=orders&subscription=billing&slots=3",
            Value::Null,
        )
        .await
        .json();
    let slots = traffic["value"].as_array().expect("slots");
    let seen: Vec<_> = slots
        .iter()
        .map(|slot| {
            let count = |name: &str| slot[name].as_u64().expect("a count");
            let names = ["matched", "attempts", "deadLettered", "delivered"];
            names.map(count)
        })
        .collect();
    assert_eq!(seen, [[3, 3, 3, 0], [1, 2, 0, 1], [0, 0, 0, 0]]);
    assert_eq!(slots[1]["from"], "2026-11-21T12:01:00.000Z");
    assert_eq!(slots[1]["latencyMs"]["p50"], 60_000);
}

#[tokio::test]
async fn a_topic_counts_what_was_published_to_it() {
    let grid = Grid::new().await.topic("orders").await.topic("other").await;
    let none = json!({"filter": {"includedEventTypes": ["Nothing"]}});
    let grid = grid.push_with("orders", "billing", "200", none).await;
    for number in 1..=2 {
        grid.publish("orders", event(&format!("e{number}"))).await;
    }
    let published = async |path: &str| {
        let traffic = grid.manage(Method::GET, path, Value::Null).await.json();
        let slot = traffic["value"][0].clone();
        (
            slot["published"].as_u64().expect("a count"),
            slot["unmatched"].as_u64().expect("a count"),
            slot["bytes"].as_u64().expect("a count"),
        )
    };
    let bytes = 2 * r#"{"total":12.5}"#.len() as u64;
    for (path, expected) in [
        ("/everpost/traffic?slots=1", (2, 2, bytes)),
        ("/everpost/traffic?slots=1&topic=orders", (2, 2, bytes)),
        ("/everpost/traffic?slots=1&topic=other", (0, 0, 0)),
    ] {
        assert_eq!(published(path).await, expected, "{path}");
    }
    for (path, message) in [
        (
            "/everpost/traffic?stepSeconds=90",
            "stepSeconds is 90; it must be a multiple of 60.",
        ),
        (
            "/everpost/traffic?slots=0",
            "slots is 0; it must lie between 1 and 400.",
        ),
        (
            "/everpost/traffic?subscription=billing",
            "subscription needs topic beside it.",
        ),
    ] {
        let rejected = grid.manage(Method::GET, path, Value::Null).await;
        let said = rejected.error(400, "BadRequest");
        assert!(said.starts_with(message), "{said}");
    }
}

/// What waited is told from counters alone, and is what was seen at the time: whatever failed, was sent
/// again, was dropped or was deleted meanwhile.
#[tokio::test]
async fn what_waited_can_be_told_afterwards() {
    let drops = json!({"deadLetterDestination": {"endpointType": "Drop"}});
    let grid = Grid::new().await.topic("orders").await.topic("other").await;
    let grid = grid.push("orders", "billing", "503 400 200 503 200").await;
    let grid = grid.push_with("orders", "crm", "503 503 413", drops).await;
    let grid = grid.push("other", "audit", "503").await;
    let mut seen = Vec::new();
    for minute in 0..20 {
        if minute % 3 == 0 {
            let id = format!("e{minute}");
            grid.publish("orders", event(&id)).await;
            grid.publish("other", event(&id)).await;
        }
        if minute == 10 {
            resubmit_all(&grid).await;
        }
        if minute == 14 {
            let gone = "/topics/other/eventSubscriptions/audit";
            grid.manage(Method::DELETE, gone, Value::Null).await;
            grid.broker.sweep().await.expect("a sweep");
        }
        grid.run_for(MINUTE - Duration::from_millis(1)).await;
        let counts = counts(&grid).await;
        let counts = counts.as_array().expect("counts").iter();
        seen.push(
            counts
                .map(|each| each["pending"].as_u64().expect("a count"))
                .sum::<u64>(),
        );
        grid.run_for(Duration::from_millis(1)).await;
    }
    assert!(seen.iter().any(|waiting| *waiting > 4), "{seen:?}");
    assert!(seen.windows(2).any(|two| two[0] > two[1]), "{seen:?}");
    let path = "/everpost/traffic?slots=21";
    let traffic = grid.manage(Method::GET, path, Value::Null).await.json();
    let slots = traffic["value"].as_array().expect("slots").iter();
    let told: Vec<_> = slots
        .map(|slot| slot["pending"].as_u64().expect("a count"))
        .collect();
    assert_eq!(told[..20], seen);
    // A clock that is put back by ten minutes leaves out what was counted for later.
    let back = grid.clock.now() - 10 * MINUTE;
    let query = TrafficQuery::until(back, TrafficOf::Everything, 60_000, 11);
    let slots = grid.store.views.traffic(query).await.expect("slots");
    let told: Vec<_> = slots.iter().map(|slot| slot.pending).collect();
    assert_eq!(told, seen[..11]);
    grid.leave();
}

async fn resubmit_all(grid: &Grid) {
    let path = "/everpost/deadLetters";
    let letters = grid.manage(Method::GET, path, Value::Null).await.json();
    let letters = letters["value"].as_array().expect("dead letters");
    assert!(!letters.is_empty(), "something was given up");
    for letter in letters {
        let path = format!("{path}/{}/resubmit", letter["deliveryId"]);
        grid.manage(Method::POST, &path, Value::Null).await;
    }
}

/// Minutes become hours, and hours days, and their sums stay.
#[tokio::test]
async fn old_counters_become_coarser() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push("orders", "billing", "200").await;
    for minute in 0..120 {
        grid.publish("orders", event(&format!("e{minute}"))).await;
        grid.run_for(MINUTE).await;
    }
    let delivered = async |step: u32, slots: u32| -> Vec<u64> {
        let path = format!("/everpost/traffic?stepSeconds={step}&slots={slots}");
        let traffic = grid.manage(Method::GET, &path, Value::Null).await.json();
        let slots = traffic["value"].as_array().expect("slots").iter();
        slots
            .map(|slot| {
                assert_eq!(slot["published"], slot["delivered"]);
                slot["delivered"].as_u64().expect("a count")
            })
            .filter(|count| *count > 0)
            .collect()
    };
    assert_eq!(delivered(60, 200).await, vec![1; 120]);
    grid.run_for(MINUTE * 60 * 10).await;
    grid.broker.sweep().await.expect("a sweep");
    assert_eq!(delivered(3_600, 48).await, [60, 60]);
    assert_eq!(
        delivered(60, 400).await,
        Vec::<u64>::new(),
        "the minutes are gone"
    );
    grid.run_for(MINUTE * 60 * 24 * 40).await;
    grid.broker.sweep().await.expect("a sweep");
    assert_eq!(delivered(86_400, 60).await, [120]);
    assert_eq!(delivered(3_600, 400).await, Vec::<u64>::new());
    grid.run_for(MINUTE * 60 * 24 * 400).await;
    grid.broker.sweep().await.expect("a sweep");
    assert_eq!(
        delivered(86_400, 400).await,
        Vec::<u64>::new(),
        "nothing is kept for ever"
    );
}
