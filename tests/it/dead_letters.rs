//! Dead letters that receivers make themselves, and the queue in which all of them lie.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use everpost::broker::{MessagingError, NotAllowed, ReceiveRequest};
use everpost::model::lease::QueueRef;
use everpost::store::LockSelection;
use serde_json::{Value, json};

use crate::grid::{Grid, SendResult, event};

/// A grid with one subscription, whose receiver answers like this.
async fn answered(status: u16, headers: &[(&'static str, &str)], properties: Value) -> Grid {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push_with("orders", "billing", "200", properties).await;
    let headers = headers
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect();
    grid.answer("billing", status, headers, String::new());
    grid.publish("orders", event("e1")).await;
    grid.broker.run_due().await;
    grid
}

async fn dead_letter(grid: &Grid, id: u32) -> Value {
    let path = format!("/everpost/deadLetters/{id}");
    grid.manage(Method::GET, &path, Value::Null).await.json()
}

const REASON: &str = "everpost-dead-letter-reason";
const DESCRIPTION: &str = "everpost-dead-letter-description";

#[tokio::test]
async fn a_webhook_dead_letters_in_its_own_words() {
    for status in [400, 422] {
        let headers = [
            (REASON, " Unknown customer "),
            (DESCRIPTION, "there is no customer 7"),
        ];
        let grid = answered(status, &headers, json!({})).await;
        let shown = dead_letter(&grid, 1).await;
        assert_eq!(shown["state"], "DeadLettered");
        assert_eq!(shown["deadLetterReason"], "Unknown customer");
        assert_eq!(
            shown["deadLetterErrorDescription"],
            "there is no customer 7"
        );
        assert_eq!(shown["deliveryAttempts"][0]["httpStatusCode"], status);
        let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
        assert!(metrics.contains("reason=\"Application\"} 1"), "{metrics}");
        assert!(
            !metrics.contains("customer"),
            "words of strangers are no labels"
        );
    }
}

#[tokio::test]
async fn only_a_rejection_with_a_reason_dead_letters() {
    for (status, headers, state) in [
        (500, [(REASON, "r")], "Pending"),
        (422, [(REASON, "  ")], "Pending"),
        (422, [(DESCRIPTION, "d")], "Pending"),
        (200, [(REASON, "r")], "Delivered"),
        (503, [(REASON, "r")], "Pending"),
    ] {
        let grid = answered(status, &headers, json!({})).await;
        let shown = grid
            .manage(Method::GET, "/everpost/events/1", Value::Null)
            .await;
        assert_eq!(
            shown.json()["deliveries"][0]["state"],
            state,
            "{status} {headers:?}"
        );
        grid.leave();
    }
    let grid = answered(400, &[(DESCRIPTION, "d")], json!({})).await;
    let shown = dead_letter(&grid, 1).await;
    assert_eq!(
        shown["deadLetterReason"],
        "UndeliverableDueToHttpBadRequest"
    );
    assert_eq!(
        shown["deadLetterErrorDescription"],
        "The webhook answered 400 Bad Request."
    );
}

#[tokio::test]
async fn words_that_are_too_long_are_cut_and_dropped_ones_are_kept() {
    let long = "x".repeat(5_000);
    let nowhere = json!({"deadLetterDestination": {"endpointType": "Drop"}});
    let grid = answered(422, &[(REASON, &long), (DESCRIPTION, &long)], nowhere).await;
    let shown = grid
        .manage(Method::GET, "/everpost/events/1", Value::Null)
        .await;
    let delivery = &shown.json()["deliveries"][0];
    assert_eq!(delivery["state"], "Dropped");
    for field in ["deadLetterReason", "deadLetterErrorDescription"] {
        let text = delivery[field].as_str().expect("a text");
        assert_eq!(text.len(), 4_096, "{field}");
    }
}

/// Three dead letters, `e1` to `e3`, of which each had one attempt.
async fn three() -> Grid {
    let grid = answered(400, &[], json!({})).await;
    for id in ["e2", "e3"] {
        grid.pass(Duration::from_millis(5));
        grid.publish("orders", event(id)).await;
        grid.broker.run_due().await;
    }
    grid
}

const QUEUE: &str = "/orders/Subscriptions/billing/$DeadLetterQueue/messages";

async fn ask(grid: &Grid, method: Method, path: &str) -> SendResult {
    grid.manage(method, path, Value::Null).await
}

/// Status, id of the event and address of its lock.
async fn peek_lock(grid: &Grid) -> (u16, String, String) {
    let heard = ask(grid, Method::POST, &format!("{QUEUE}/head?timeout=0")).await;
    if heard.status != StatusCode::CREATED {
        return (heard.status.as_u16(), String::new(), String::new());
    }
    let location = heard.headers["location"].to_str().expect("text");
    let path = location
        .strip_prefix("http://everpost.test")
        .expect("the public URL");
    let id = heard.json()["id"].as_str().expect("an id").to_owned();
    (201, id, path.to_owned())
}

async fn receive(grid: &Grid, body: Value) -> Value {
    let mut all = json!({"topic": "orders", "subscription": "billing"});
    for (name, value) in body.as_object().expect("an object") {
        all[name] = value.clone();
    }
    let heard = grid
        .manage(Method::POST, "/everpost/deadLetters/receive", all)
        .await;
    assert_eq!(heard.status, StatusCode::OK, "{}", heard.text);
    heard.json()["value"].clone()
}

async fn settle(grid: &Grid, verb: &str, tokens: &[&Value]) -> Value {
    let path = format!("/everpost/locks/{verb}");
    let heard = grid
        .manage(Method::POST, &path, json!({"lockTokens": tokens}))
        .await;
    assert_eq!(heard.status, StatusCode::OK, "{}", heard.text);
    heard.json()
}

#[tokio::test]
async fn an_abandoned_one_is_the_first_again_and_a_lapsed_one_comes_back() {
    let grid = three().await;
    let (status, id, lock) = peek_lock(&grid).await;
    assert_eq!((status, id.as_str()), (201, "e1"));
    assert_eq!(peek_lock(&grid).await.1, "e2");
    assert_eq!(ask(&grid, Method::PUT, &lock).await.status, StatusCode::OK);
    let (_, id, lock) = peek_lock(&grid).await;
    assert_eq!(id, "e1", "back to its place");
    grid.pass(Duration::from_secs(59));
    assert_eq!(
        ask(&grid, Method::POST, &lock).await.status,
        StatusCode::OK,
        "renewed"
    );
    assert_eq!(peek_lock(&grid).await.1, "e3");
    grid.pass(Duration::from_secs(59));
    assert_eq!(peek_lock(&grid).await.1, "e2", "its lock has lapsed");
    grid.pass(Duration::from_secs(1));
    let lost = ask(&grid, Method::DELETE, &lock).await;
    assert_eq!(lost.status, StatusCode::NOT_FOUND, "{}", lost.text);
    assert_eq!(peek_lock(&grid).await.1, "e1");
}

#[tokio::test]
async fn locks_outlive_a_restart() {
    let grid = three().await;
    let (_, _, lock) = peek_lock(&grid).await;
    let grid = grid.restarted().await;
    assert_eq!(peek_lock(&grid).await.1, "e2");
    assert_eq!(
        ask(&grid, Method::DELETE, &lock).await.status,
        StatusCode::OK
    );
    let shown = dead_letter(&grid, 1).await;
    assert_eq!(shown["state"], "Removed");
    assert!(shown["removedAt"].is_string());
    assert_eq!(shown["deliveryAttempts"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn neither_abandoning_nor_lapsing_counts() {
    let grid = three().await;
    for _ in 0..40 {
        let (status, id, lock) = peek_lock(&grid).await;
        assert_eq!((status, id.as_str()), (201, "e1"));
        ask(&grid, Method::PUT, &lock).await;
    }
    grid.pass(Duration::from_secs(400 * 24 * 3_600));
    let heard = ask(&grid, Method::DELETE, &format!("{QUEUE}/head?timeout=0")).await;
    assert_eq!(heard.status, StatusCode::OK, "dead letters do not grow old");
    let properties = heard.headers["brokerproperties"].to_str().expect("text");
    let properties: Value = serde_json::from_str(properties).expect("JSON");
    assert_eq!(properties["DeliveryCount"], 1);
    assert_eq!(heard.json()["id"], "e1");
}

#[tokio::test]
async fn a_lock_is_good_at_its_own_address_alone() {
    let grid = three().await.push("orders", "audit", "200").await;
    let (_, _, lock) = peek_lock(&grid).await;
    let (queue, token) = lock.rsplit_once('/').expect("a token");
    for path in [
        lock.replace("billing", "audit"),
        lock.replace("/messages/1/", "/messages/2/"),
        format!("{queue}/{}", uuid::Uuid::nil()),
        format!("{queue}/x{token}"),
    ] {
        let heard = ask(&grid, Method::DELETE, &path).await;
        assert_eq!(heard.status, StatusCode::NOT_FOUND, "{path}");
    }
    let by_event = lock.replace("/messages/1/", "/messages/e1/");
    assert_eq!(
        ask(&grid, Method::DELETE, &by_event).await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn a_locked_dead_letter_is_not_resubmitted() {
    let grid = three().await;
    let (_, _, lock) = peek_lock(&grid).await;
    let resubmit = || {
        grid.manage(
            Method::POST,
            "/everpost/deadLetters/1/resubmit",
            Value::Null,
        )
    };
    assert!(
        resubmit()
            .await
            .error(409, "Conflict")
            .contains("locked until")
    );
    ask(&grid, Method::PUT, &lock).await;
    assert_eq!(resubmit().await.status, StatusCode::OK);
    assert_eq!(
        ask(&grid, Method::DELETE, &lock).await.status,
        StatusCode::NOT_FOUND
    );
    grid.leave();
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_woken_and_who_waits_in_vain_is_told() {
    let grid = answered(200, &[], json!({})).await;
    let begun = tokio::time::Instant::now();
    let wait = |seconds: u64| format!("{QUEUE}/head?timeout={seconds}");
    let heard = ask(&grid, Method::POST, &wait(30)).await;
    assert_eq!(
        (heard.status, begun.elapsed().as_secs()),
        (StatusCode::NO_CONTENT, 30)
    );
    ask(&grid, Method::POST, &wait(100_000)).await;
    assert_eq!(
        begun.elapsed().as_secs(),
        150,
        "nobody waits longer than two minutes"
    );

    grid.script("billing", "400");
    grid.publish("orders", event("e2")).await;
    let path = wait(60);
    let waiting = ask(&grid, Method::POST, &path);
    let comes = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        grid.broker.run_due().await;
    };
    let (heard, ()) = tokio::join!(waiting, comes);
    assert_eq!(heard.status, StatusCode::CREATED);
    assert_eq!(begun.elapsed().as_secs(), 155, "at once");
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_get_what_falls_due_together() {
    let grid = three().await;
    receive(&grid, json!({"count": 3})).await;
    let begun = tokio::time::Instant::now();
    let path = format!("{QUEUE}/head?timeout=120");
    let waiting: Vec<_> = (0..4).map(|_| ask(&grid, Method::POST, &path)).collect();
    let locks_lapse = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        grid.pass(Duration::from_secs(61));
    };
    let (heard, ()) = tokio::join!(futures_util::future::join_all(waiting), locks_lapse);
    assert_eq!(begun.elapsed().as_secs(), 120, "of the one in vain");
    let mut numbers: Vec<_> = heard
        .iter()
        .filter(|each| each.status == StatusCode::CREATED)
        .map(|each| each.headers["location"].to_str().expect("a text"))
        .filter_map(|location| location.split('/').nth_back(1))
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, ["1", "2", "3"], "each once");
    grid.leave();
}

#[tokio::test(start_paused = true)]
async fn one_who_waits_gets_what_is_given_back() {
    let grid = three().await;
    let (_, _, lock) = peek_lock(&grid).await;
    receive(&grid, json!({"count": 3, "lockDurationInSeconds": 300})).await;
    let begun = tokio::time::Instant::now();
    let path = format!("{QUEUE}/head?timeout=30");
    let waiting = [(), ()].map(|()| ask(&grid, Method::POST, &path));
    let gives_back = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        ask(&grid, Method::PUT, &lock).await;
        begun.elapsed().as_secs()
    };
    let first = futures_util::future::select_ok(waiting.map(|each| {
        Box::pin(async {
            let heard = each.await;
            let waited = begun.elapsed().as_secs();
            (heard.status == StatusCode::CREATED)
                .then_some(waited)
                .ok_or(())
        })
    }));
    let (first, given_back) = tokio::join!(first, gives_back);
    assert_eq!(first.map(|(waited, _)| waited), Ok(given_back), "at once");
    grid.leave();
}

#[tokio::test(start_paused = true)]
async fn who_hangs_up_is_not_served() {
    let grid = answered(200, &[], json!({})).await;
    let path = format!("{QUEUE}/head?timeout=60");
    let waiting = ask(&grid, Method::DELETE, &path);
    let hung_up = tokio::time::timeout(Duration::from_secs(5), waiting).await;
    assert!(hung_up.is_err(), "it waits");
    grid.script("billing", "400");
    grid.publish("orders", event("e2")).await;
    grid.broker.run_due().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(dead_letter(&grid, 2).await["state"], "DeadLettered");
    assert_eq!(peek_lock(&grid).await.1, "e2", "nobody holds it");
}

#[tokio::test]
async fn many_are_locked_and_settled_at_once() {
    let grid = three().await;
    let locked = receive(&grid, json!({"count": 10, "lockDurationInSeconds": 300})).await;
    let ids: Vec<_> = locked
        .as_array()
        .expect("a list")
        .iter()
        .map(|each| &each["event"]["id"])
        .collect();
    assert_eq!(ids, ["e1", "e2", "e3"]);
    assert_eq!(
        locked[0]["deadLetterReason"],
        "UndeliverableDueToHttpBadRequest"
    );
    assert_eq!(locked[0]["deliveryCount"], 1);
    assert_eq!(receive(&grid, json!({"count": 10})).await, json!([]));
    let tokens: Vec<_> = (0..3).map(|n| &locked[n]["lockToken"]).collect();

    let rejected = settle(&grid, "deadLetter", &tokens[..1]).await;
    assert_eq!(
        rejected["failedLockTokens"][0]["error"]["code"],
        "NotAllowed"
    );
    let renewed = settle(&grid, "renew", &tokens).await;
    assert_eq!(
        renewed["succeededLockTokens"].as_array().map(Vec::len),
        Some(3)
    );
    settle(&grid, "complete", &tokens[..1]).await;
    settle(&grid, "defer", &tokens[1..2]).await;
    let (lost, bad) = (json!(tokens[0]), json!("nonsense"));
    let mixed = settle(&grid, "abandon", &[&lost, &bad, tokens[2]]).await;
    assert_eq!(mixed["succeededLockTokens"], json!([tokens[2]]));
    let codes: Vec<_> = (0..2)
        .map(|n| &mixed["failedLockTokens"][n]["error"]["code"])
        .collect();
    assert_eq!(codes, ["TokenLost", "BadToken"]);

    // What was put aside comes only by its number, and goes back there.
    let left = receive(&grid, json!({"count": 10})).await;
    assert_eq!(left.as_array().map(Vec::len), Some(1), "{left}");
    assert_eq!(left[0]["event"]["id"], "e3");
    for _ in 0..2 {
        let aside = receive(&grid, json!({"sequenceNumbers": [1, 2, 3, 99]})).await;
        assert_eq!(aside.as_array().map(Vec::len), Some(1), "{aside}");
        assert_eq!(
            (&aside[0]["event"]["id"], &aside[0]["deferred"]),
            (&json!("e2"), &json!(true))
        );
        assert_eq!(
            receive(&grid, json!({"sequenceNumbers": [2]})).await,
            json!([])
        );
        settle(&grid, "abandon", &[&aside[0]["lockToken"]]).await;
    }
    grid.pass(Duration::from_secs(61));
    let later = receive(&grid, json!({"count": 10})).await;
    assert_eq!(later.as_array().map(Vec::len), Some(1), "{later}");
}

#[tokio::test]
async fn requests_that_ask_for_nonsense_are_told_so() {
    let grid = three().await;
    for (path, body, word) in [
        (
            "deadLetters/receive",
            json!({"topic": "orders", "subscription": "billing", "count": 0}),
            "1 to 100",
        ),
        (
            "deadLetters/receive",
            json!({"topic": "orders", "subscription": "billing", "lockDurationInSeconds": 301}),
            "5 to 300",
        ),
        (
            "deadLetters/receive",
            json!({"topic": "orders"}),
            "subscription",
        ),
        (
            "deadLetters/receive",
            json!({"topic": "orders", "subscription": "billing", "cuont": 1}),
            "cuont",
        ),
        ("locks/complete", json!({"lockTokens": []}), "lockTokens"),
        (
            "locks/deadLetter",
            json!({"lockTokens": ["a"], "deadLetterReason": "x".repeat(4_097)}),
            "4096",
        ),
        (
            "locks/deadLetter",
            json!({"lockTokens": ["a"], "properties": {"a b": "c"}}),
            "a b",
        ),
    ] {
        let heard = grid
            .manage(Method::POST, &format!("/everpost/{path}"), body)
            .await;
        let message = heard.error(400, "BadRequest");
        assert!(message.contains(word), "{message}");
    }
    let unknown = grid.manage(
        Method::POST,
        "/everpost/locks/forget",
        json!({"lockTokens": ["a"]}),
    );
    unknown.await.error(404, "NotFound");
    let late = ask(&grid, Method::POST, &format!("{QUEUE}/head?timeout=soon")).await;
    assert_eq!(late.status, StatusCode::BAD_REQUEST, "{}", late.text);
}

#[tokio::test]
async fn pushed_deliveries_are_not_received() {
    let grid = three().await;
    let registry = grid.broker.registry();
    let (_, subscription) = registry.subscriptions().next().expect("a subscription");
    let request = ReceiveRequest {
        of: QueueRef::pending(subscription.id),
        which: LockSelection::Due,
        limit: 1,
        lock: Duration::from_secs(60),
        session: None,
    };
    let rejected = grid
        .broker
        .receive(&request)
        .await
        .expect_err("they are pushed");
    let is_pushed = matches!(
        &rejected,
        MessagingError::NotAllowed(NotAllowed::ReceivePushed(_))
    );
    assert!(is_pushed, "{rejected}");
}
