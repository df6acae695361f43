//! Requests that wait for a message keep nothing of what came with them.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{Method, Request, StatusCode, header};
use futures_util::stream::once;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{Door, TOKEN};
use crate::base::budget::{Budget, MemoryAccount};
use crate::base::request_memory::RequestMemory;
use crate::model::limits::SENT_MESSAGE_BYTES;

/// Often enough for a request to come to where it waits.
const TURNS: usize = 1_000;

/// Bytes that are held for a request that waits: it counts for 16 KiB, of which its stream has a part.
const HELD_MAX: i64 = 14 * 1_024;

/// A body that never ends. It has `kept` for as long as there is something that could read it.
fn endless(kept: Arc<()>) -> Body {
    Body::from_stream(once(async move {
        let _kept = kept;
        pending::<Result<Bytes, Infallible>>().await
    }))
}

impl Door {
    async fn check_wait(&self, method: Method, path: &str, authorization: &str) {
        let kept = Arc::new(());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "127.0.0.1:8080")
            .header(header::AUTHORIZATION, authorization)
            .body(endless(Arc::clone(&kept)))
            .expect("a request");
        let waiting = tokio::spawn(self.doors.clone().answer(request));
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished(), "{path} does not wait");
        assert_eq!(Arc::strong_count(&kept), 1, "{path} keeps its body");
        waiting.abort();
    }

    /// Begins requests that wait, and returns how many bytes are held for them.
    fn held_by(
        &self,
        runtime: &Runtime,
        count: usize,
        (method, path, authorization): &(Method, String, String),
    ) -> i64 {
        let mut waiting = Vec::with_capacity(count);
        let begun = allocation_counter::measure(|| {
            runtime.block_on(async {
                for _ in 0..count {
                    let request = Request::builder()
                        .method(method)
                        .uri(path)
                        .header(header::HOST, "127.0.0.1:8080")
                        .header(header::AUTHORIZATION, authorization)
                        .header("x-more", "x".repeat(10_000))
                        .body(Body::empty())
                        .expect("a request");
                    waiting.push(tokio::spawn(self.doors.clone().answer(request)));
                }
                for _ in 0..TURNS {
                    tokio::task::yield_now().await;
                }
            });
        });
        let ended = waiting.iter().filter(|each| each.is_finished()).count();
        assert_eq!(ended, 0, "{path} does not wait");
        begun.bytes_current
    }

    /// How a request is answered that asks for what lies in the queue `jobs`, and may count for so many bytes.
    async fn answer_within(&self, asked: (Method, &str), bytes_max: usize) -> StatusCode {
        let account = Budget::of(usize::MAX / 2).account([None, None], bytes_max);
        self.answer_to(asked, &format!("Bearer {TOKEN}"), &account)
            .await
    }

    /// How a request is answered that counts for this account.
    async fn answer_to(
        &self,
        (method, path): (Method, &str),
        authorization: &str,
        account: &MemoryAccount,
    ) -> StatusCode {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "127.0.0.1:8080")
            .header(header::AUTHORIZATION, authorization)
            .extension(RequestMemory::take(account, 0).expect("nothing"))
            .body(Body::empty())
            .expect("a request");
        self.doors.clone().answer(request).await.status()
    }

    /// How a request is answered that sends a body of such a type to the queue `jobs`, and may count for so many bytes.
    async fn sent_within(&self, content_type: &str, body: &str, bytes_max: usize) -> StatusCode {
        let account = Budget::of(usize::MAX / 2).account([None, None], bytes_max);
        let request = Request::builder()
            .method(Method::POST)
            .uri("/jobs/messages")
            .header(header::HOST, "127.0.0.1:8080")
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
            .header(header::CONTENT_TYPE, content_type)
            .extension(RequestMemory::take(&account, 0).expect("nothing"))
            .body(Body::from(body.to_owned()))
            .expect("a request");
        let status = self.doors.clone().answer(request).await.status();
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        assert_eq!(account.taken(), 0, "it counts until it is stored");
        status
    }

    /// After such a request, returns whether its connection has to go before a smaller one that has shown nothing.
    async fn goes_first_after(&self, asked: (Method, &str), authorization: &str) -> bool {
        let budget = Budget::of(1_000_000_000);
        let account = || budget.closable_account([None, None], usize::MAX);
        let (asking, stranger) = (account(), account());
        let _kept = (asking.take(300_000_000), stranger.take(200_000_000));
        self.answer_to(asked, authorization, &asking).await;
        assert!(account().take(900_000_000).is_err());
        let goes_first = asking.asked_to_close().is_cancelled();
        assert_ne!(goes_first, stranger.asked_to_close().is_cancelled());
        goes_first
    }

    /// Returns whether the second of two connections, after such a request over each, has to close because both count for what was
    /// shown.
    async fn counts_for_what_was_shown(&self, asked: (Method, &str), shown: &str) -> bool {
        let budget = Budget::of(1_000_000_000);
        let account = || budget.closable_account([None, None], usize::MAX);
        let (first, second) = (account(), account());
        let _kept = (first.take(300_000_000), second.take(300_000_000));
        for account in [&first, &second] {
            self.answer_to(asked.clone(), shown, account).await;
        }
        assert!(!first.asked_to_close().is_cancelled());
        second.asked_to_close().is_cancelled()
    }

    async fn put(&self, path: &str, body: Value) {
        let (status, answer) = self.ask(TOKEN, Method::PUT, path, body).await;
        assert!(status.is_success(), "{path}: {answer}");
    }

    /// Makes the queue `jobs` and a pulled subscription. Returns the path of that, and a key for it.
    async fn with_queue_and_subscription(&self) -> (String, String) {
        let topic = "/namespaces/shop/topics/orders";
        let subscription = format!("{topic}/eventSubscriptions/billing");
        let pulled =
            json!({ "properties": { "deliveryConfiguration": { "deliveryMode": "Queue" } } });
        let located = json!({ "location": "local", "properties": {} });
        for (path, body) in [
            ("/queues/jobs", json!({})),
            ("/namespaces/shop", located),
            (topic, json!({})),
            (&*subscription, pulled),
        ] {
            self.put(path, body).await;
        }
        let path = "/namespaces/shop/listKeys";
        let (_, keys) = self.ask(TOKEN, Method::POST, path, json!({})).await;
        let key = keys["key1"].as_str().expect("a key").to_owned();
        (subscription, key)
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_locked_removed_or_read_for_an_answer_that_there_is_no_memory_for() {
    let door = Door::new().await;
    for (method, path, body) in [
        (Method::PUT, "/queues/jobs", json!({})),
        (Method::POST, "/jobs/messages", json!("a message")),
    ] {
        let (status, answer) = door.ask(TOKEN, method, path, body).await;
        assert!(status.is_success(), "{path}: {answer}");
    }
    let peek = || (Method::GET, "/queues/jobs/messages");
    let lock = || (Method::POST, "/jobs/messages/head?timeout=0");
    let take = (Method::DELETE, "/jobs/messages/head?timeout=0");
    for asked in [peek(), lock(), take] {
        let path = asked.1;
        let status = door.answer_within(asked, 10_000).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
    let enough = 100_000_000;
    assert_eq!(door.answer_within(peek(), enough).await, StatusCode::OK);
    assert_eq!(
        door.answer_within(lock(), enough).await,
        StatusCode::CREATED
    );
}

#[tokio::test(start_paused = true)]
async fn a_receiver_needs_room_for_the_message_that_there_is() {
    let door = Door::new().await;
    door.put("/queues/jobs", json!({})).await;
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    for (bytes, receivers) in [
        (10, &[(20_000, StatusCode::CREATED)][..]),
        (
            30_000,
            &[(60_000, unavailable), (200_000, StatusCode::CREATED)][..],
        ),
    ] {
        let message = json!("x".repeat(bytes));
        let (status, answer) = door
            .ask(TOKEN, Method::POST, "/jobs/messages", message)
            .await;
        assert!(status.is_success(), "{bytes}: {answer}");
        for (bytes_max, expected) in receivers {
            let lock = (Method::POST, "/jobs/messages/head?timeout=0");
            let status = door.answer_within(lock, *bytes_max).await;
            assert_eq!(status, *expected, "{bytes} within {bytes_max}");
        }
    }
}

/// Requests that wait: with what, where, and by which right.
fn waits(subscription: &str, key: &str) -> [(Method, String, String); 3] {
    let head = "/jobs/messages/head?timeout=60".to_owned();
    let received = format!("{subscription}:receive?api-version=2024-06-01&maxWaitTime=60");
    let bearer = format!("Bearer {TOKEN}");
    [
        (Method::DELETE, head.clone(), bearer.clone()),
        (Method::POST, head, bearer),
        (Method::POST, received, format!("SharedAccessKey {key}")),
    ]
}

#[tokio::test]
async fn who_waits_keeps_no_body() {
    let door = Door::new().await;
    let (subscription, key) = door.with_queue_and_subscription().await;
    for (method, path, authorization) in waits(&subscription, &key) {
        door.check_wait(method, &path, &authorization).await;
    }
}

#[test]
fn who_waits_holds_less_than_a_request_counts_for() {
    const WAITING: usize = 20;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    let door = runtime.block_on(Door::new());
    let (subscription, key) = runtime.block_on(door.with_queue_and_subscription());
    for wait in waits(&subscription, &key) {
        door.held_by(&runtime, 1, &wait); // fills caches
        let held = door.held_by(&runtime, WAITING, &wait) / WAITING as i64;
        assert!(held < HELD_MAX, "{wait:?}: {held}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_shown_a_key_or_token_goes_behind_strangers() {
    let door = Door::new().await;
    let (subscription, key) = door.with_queue_and_subscription().await;
    let (bearer, key) = (format!("Bearer {TOKEN}"), format!("SharedAccessKey {key}"));
    let received = format!("{subscription}:receive?api-version=2024-06-01&maxWaitTime=10");
    for (method, path, right) in [
        (Method::GET, "/queues", &bearer),
        (Method::DELETE, "/jobs/messages/head?timeout=0", &bearer),
        (Method::POST, &*received, &key),
    ] {
        let is_strangers = door.goes_first_after((method.clone(), path), "").await;
        assert!(is_strangers, "{path}");
        let asked = (method, path);
        let is_strangers = door.goes_first_after(asked.clone(), right).await;
        assert!(!is_strangers, "{path}");
        for (shown, counts) in [("", false), (&**right, true)] {
            let counted = door.counts_for_what_was_shown(asked.clone(), shown).await;
            assert_eq!(counted, counts, "{path}: {shown}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_message_of_a_batch_counts_before_it_is_read() {
    let door = Door::new().await;
    door.put("/queues/jobs", json!({})).await;
    let batch = "application/vnd.microsoft.servicebus.json";
    let messages = format!("[{}]", vec!["{}"; 1_000].join(","));
    let of_all = 1_000 * SENT_MESSAGE_BYTES;
    for (kind, body, bytes_max, is_stored) in [
        (batch, &*messages, of_all, false),
        (batch, &*messages, of_all + 20_000, true),
        ("text/plain", &*messages, of_all / 10, true),
        (batch, "[{}]", of_all / 10, true),
    ] {
        let status = door.sent_within(kind, body, bytes_max).await;
        let expected = if is_stored {
            StatusCode::CREATED
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        assert_eq!(status, expected, "{kind} within {bytes_max}");
    }
}
