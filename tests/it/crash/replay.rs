//! A replay job, killed twice in the middle: each dead letter that it covers arrives, none of the others
//! does, and a kill costs no more duplicates than were on the wire.
//!
//! `EVERPOST_DEAD_LETTERS=100000` makes it large, and `EVERPOST_BINARY` lets it run on another build; it
//! prints how long the stages took.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use everpost::model::limits::UNSTORED_PER_SLOT;

use super::appliance::{Appliance, client};
use super::eventually;

/// Dead letters when nobody says how many. Three of five are meant.
const DEAD_LETTERS: usize = 1_500;

const EVENTS_PER_REQUEST: usize = 500;

/// Requests of one subscription that are on the wire, or answered and not stored: the default.
const ON_THE_WIRE_MAX: usize = 32 * (1 + UNSTORED_PER_SLOT);

const KILLS: usize = 2;

/// What has arrived, and how it is answered.
#[derive(Default)]
struct Book {
    /// Rejects, so that dead letters come of it.
    accepts: bool,
    arrivals: HashMap<String, usize>,
    others: usize,
}

type Shared = Arc<Mutex<Book>>;

async fn answer(State(book): State<Shared>, Json(events): Json<Vec<Value>>) -> StatusCode {
    let id = events[0]["id"].as_str().expect("an id").to_owned();
    let is_meant = id.starts_with("meant");
    let mut book = book.lock().unwrap();
    if !book.accepts {
        return match is_meant {
            true => StatusCode::BAD_REQUEST,
            false => StatusCode::PAYLOAD_TOO_LARGE,
        };
    }
    match is_meant {
        true => *book.arrivals.entry(id).or_default() += 1,
        false => book.others += 1,
    }
    StatusCode::OK
}

fn is_meant(number: usize) -> bool {
    number % 5 < 3
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_job_survives_every_kill() {
    let given = std::env::var("EVERPOST_DEAD_LETTERS").ok();
    let count = given.map_or(DEAD_LETTERS, |text| text.parse().expect("a number"));
    let meant = (0..count).filter(|number| is_meant(*number)).count();
    let book = Shared::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let webhook = format!("http://{}/", listener.local_addr().expect("an address"));
    let router = Router::new().route("/", post(answer));
    let router = router.with_state(Arc::clone(&book));
    tokio::spawn(async { axum::serve(listener, router).await });
    let folder = tempfile::tempdir().expect("a folder for the data");
    let mut appliance = Appliance::start(folder.path()).await;

    let began = Instant::now();
    publish(&appliance, &webhook, count).await;
    wait_for_dead_letters(&appliance, count).await;
    println!("{count} dead letters after {:?}", began.elapsed());
    book.lock().unwrap().accepts = true;

    let began = Instant::now();
    let filter = json!({"topic": "orders", "reason": "UndeliverableDueToHttpBadRequest"});
    let replay = json!({"source": {"kind": "DeadLetters", "filter": filter}});
    let job = appliance
        .manage(Method::POST, "/everpost/replays", Some(&replay))
        .await;
    println!("counted and started after {:?}", began.elapsed());
    assert_eq!(job["total"], meant);
    let path = format!("/everpost/replays/{}", job["id"]);
    let mut slowest = Duration::ZERO;
    for kill in 1..=KILLS {
        wait_for_arrivals(&appliance, &book, meant * kill / (KILLS + 1), &mut slowest).await;
        appliance.kill();
        appliance = Appliance::start(folder.path()).await;
        let job = appliance.get(&path).await;
        println!(
            "killed and back after {:?}: {} of {meant}",
            began.elapsed(),
            job["done"]
        );
    }
    wait_for_arrivals(&appliance, &book, meant, &mut slowest).await;
    let done = eventually("the job is over", async || {
        let job = appliance.get(&path).await;
        (job["state"] == "Completed").then_some(job)
    });
    let done = done.await;
    println!(
        "{meant} resubmitted after {:?}, slowest page {slowest:?}",
        began.elapsed()
    );

    assert_eq!(
        (&done["resubmitted"], &done["skipped"], &done["failed"]),
        (&json!(meant), &json!(0), &json!(0))
    );
    let left = total(&appliance, &json!({})).await;
    assert_eq!(left, count - meant, "the others stay where they are");
    eventually("nothing is on its way", async || {
        let text = appliance.metrics().await;
        text.contains("everpost_requests_in_flight 0").then_some(())
    })
    .await;
    let book = book.lock().unwrap();
    assert_eq!(book.others, 0, "none of the others arrives");
    assert_eq!(book.arrivals.len(), meant);
    let twice: usize = book.arrivals.values().map(|arrivals| arrivals - 1).sum();
    println!("{twice} duplicates");
    assert!(twice <= KILLS * ON_THE_WIRE_MAX, "{twice} duplicates");
}

async fn publish(appliance: &Appliance, webhook: &str, count: usize) {
    let topic = json!({"location": "local", "properties": {}});
    appliance
        .manage(Method::PUT, "/topics/orders", Some(&topic))
        .await;
    let destination = json!({"endpointType": "WebHook",
        "properties": {"endpointUrl": webhook, "skipValidation": true}});
    let subscription = json!({"properties": {"destination": destination}});
    let path = "/topics/orders/eventSubscriptions/billing";
    appliance
        .manage(Method::PUT, path, Some(&subscription))
        .await;
    let keys = appliance
        .manage(Method::POST, "/topics/orders/listKeys", None)
        .await;
    let key = keys["key1"].as_str().expect("a key");
    let numbers: Vec<usize> = (0..count).collect();
    for some in numbers.chunks(EVENTS_PER_REQUEST) {
        let events: Vec<Value> = some.iter().map(|number| event(*number)).collect();
        let sent = client()
            .post(format!("{}/topics/orders/api/events", appliance.url))
            .header("aeg-sas-key", key)
            .body(Value::from(events).to_string())
            .send();
        assert_eq!(sent.await.expect("an answer").status(), 200);
    }
}

fn event(number: usize) -> Value {
    let kind = if is_meant(number) { "meant" } else { "other" };
    json!({
        "id": format!("{kind}-{number}"), "subject": format!("/orders/{number}"),
        "eventType": "Order.Paid", "eventTime": "2026-11-21T06:40:53Z", "dataVersion": "1",
        "data": {"total": 12.50, "text": "x".repeat(600)},
    })
}

async fn total(appliance: &Appliance, filter: &Value) -> usize {
    let body = json!({"source": {"filter": filter}});
    let path = "/everpost/replays/preview";
    let preview = appliance.manage(Method::POST, path, Some(&body)).await;
    preview["total"].as_u64().expect("a number") as usize
}

/// In tenths, each of which has all the patience.
async fn wait_for_dead_letters(appliance: &Appliance, count: usize) {
    for tenth in 1..=10 {
        eventually("dead letters", async || {
            let there = total(appliance, &json!({})).await;
            (there >= count * tenth / 10).then_some(())
        })
        .await;
    }
}

/// Looks at pages meanwhile, as people do.
async fn wait_for_arrivals(
    appliance: &Appliance,
    book: &Shared,
    count: usize,
    slowest: &mut Duration,
) {
    let seen = book.lock().unwrap().arrivals.len();
    for tenth in 1..=10 {
        // After a start more may have arrived than is waited for.
        let goal = seen + count.saturating_sub(seen) * tenth / 10;
        eventually("resubmitted events", async || {
            let asked = Instant::now();
            appliance.get("/everpost/deadLetters?limit=50").await;
            *slowest = asked.elapsed().max(*slowest);
            (book.lock().unwrap().arrivals.len() >= goal).then_some(())
        })
        .await;
    }
}
