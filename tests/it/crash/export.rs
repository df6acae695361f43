//! An export, killed again and again while it is under way: every dead letter is in storage under one name,
//! and the import of what is there delivers it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use everpost::base::Entropy;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::appliance::{Appliance, binary, client, command};
use super::{KILLS, PATIENCE, dice, eventually, given, up_to};

/// Events before each kill, at most.
const EVENTS_BETWEEN_KILLS: u64 = 60;

/// Every other kill comes as soon as a further file is there, hence before it is marked; the others come
/// within the time after publishing that follows.
const KILL_WITHIN_MS: u64 = 1_500;

const CONTAINER: &str = "dead";

/// Rejects everything until it is told to accept, and then notes what arrives.
#[derive(Default)]
struct Book {
    accepts: bool,
    arrivals: HashSet<String>,
}

type Shared = Arc<Mutex<Book>>;

async fn answer(State(book): State<Shared>, Json(events): Json<Vec<Value>>) -> StatusCode {
    let mut book = book.lock().unwrap();
    if !book.accepts {
        return StatusCode::BAD_REQUEST;
    }
    let ids = events.iter().map(id);
    book.arrivals.extend(ids);
    StatusCode::OK
}

fn id(event: &Value) -> String {
    event["id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_survives_every_kill_and_its_import_delivers() {
    let dice = dice();
    let book = Shared::default();
    let folder = tempfile::tempdir().expect("a folder for the data");
    let storage = folder.path().join("exported");
    std::fs::create_dir(&storage).expect("a folder for the storage");
    let mut appliance = Appliance::start(folder.path()).await;
    subscribe(&appliance, &start_receiver(&book).await).await;

    let mut published = BTreeSet::new();
    for kill in 0..given("EVERPOST_KILLS", KILLS) {
        let files = exported(&storage).len();
        publish(
            &appliance,
            &mut published,
            1 + up_to(&dice, EVENTS_BETWEEN_KILLS),
        )
        .await;
        wait_for_a_moment(&storage, files, kill, &dice).await;
        appliance.kill();
        appliance = Appliance::start(folder.path()).await;
    }
    let names = eventually("everything is exported", async || {
        let left = appliance.get("/everpost/deadLetters/count").await;
        let names = names(&storage);
        (left["count"] == 0 && names.len() >= published.len()).then_some(names)
    })
    .await;

    let stored: BTreeSet<String> = names.keys().cloned().collect();
    assert_eq!(stored, published, "nothing else is there");
    let twice: Vec<_> = names.iter().filter(|(_, files)| files.len() != 1).collect();
    assert!(twice.is_empty(), "under one name each: {twice:?}");

    book.lock().unwrap().accepts = true;
    let imported = import(&folder.path().join("data"), &storage).await;
    assert_eq!(imported["imported"], published.len(), "{imported}");
    eventually("what was imported arrives", async || {
        let arrived = book.lock().unwrap().arrivals.len();
        (arrived == published.len()).then_some(())
    })
    .await;
}

/// Returns the URL of the receiver.
async fn start_receiver(book: &Shared) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let router = Router::new().route("/", post(answer));
    let router = router.with_state(Arc::clone(book));
    tokio::spawn(async { axum::serve(listener, router).await });
    url
}

async fn subscribe(appliance: &Appliance, webhook: &str) {
    let topic = json!({"location": "local", "properties": {}});
    let topics = "/topics/orders";
    appliance.manage(Method::PUT, topics, Some(&topic)).await;
    let subscription = json!({"properties": {
        "destination": {"endpointType": "WebHook",
            "properties": {"endpointUrl": webhook, "skipValidation": true}},
        "deadLetterDestination": {"endpointType": "StorageBlob",
            "properties": {"resourceId": "/local", "blobContainerName": CONTAINER}},
    }});
    let path = "/topics/orders/eventSubscriptions/billing";
    let put = appliance.manage(Method::PUT, path, Some(&subscription));
    put.await;
}

async fn publish(appliance: &Appliance, published: &mut BTreeSet<String>, count: u64) {
    let keys = "/topics/orders/listKeys";
    let keys = appliance.manage(Method::POST, keys, None).await;
    let event = |number: u64| {
        json!({"id": format!("e{:06}", published.len() as u64 + number), "subject": "/s",
            "eventType": "T", "eventTime": "2026-11-21T06:40:53Z", "dataVersion": "1", "data": 1})
    };
    let events: Vec<Value> = (0..count).map(event).collect();
    let sent = client()
        .post(format!("{}/topics/orders/api/events", appliance.url))
        .header("aeg-sas-key", keys["key1"].as_str().expect("a key"))
        .body(Value::from(events.clone()).to_string())
        .send();
    assert_eq!(sent.await.expect("an answer").status(), 200);
    published.extend(events.iter().map(id));
}

async fn wait_for_a_moment(storage: &Path, files: usize, kill: u32, dice: &Entropy) {
    if kill.is_multiple_of(2) {
        let further = async {
            while exported(storage).len() == files {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let further = tokio::time::timeout(PATIENCE, further).await;
        further.expect("something is exported");
    } else {
        let wait = Duration::from_millis(up_to(dice, KILL_WITHIN_MS));
        tokio::time::sleep(wait).await;
    }
}

/// The blobs that the record of each event is in.
fn names(storage: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut names: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in exported(storage) {
        let text = std::fs::read_to_string(&file).expect("a file");
        let records: Vec<Value> = serde_json::from_str(&text).expect("an array");
        for record in &records {
            names.entry(id(record)).or_default().push(file.clone());
        }
    }
    names
}

/// The blobs in the storage.
fn exported(storage: &Path) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![storage.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|each| each == "json") {
                found.push(path);
            }
        }
    }
    found
}

/// By the command line.
async fn import(data_dir: &Path, storage: &Path) -> Value {
    let mut command = command(binary());
    command.args(["dead-letters", "import", "--yes", "--json"]);
    command.args(["--topic", "orders", "--subscription", "billing"]);
    command.arg("--data-dir").arg(data_dir).arg(storage);
    let ended = tokio::task::spawn_blocking(move || command.output()).await;
    let output = ended.expect("it ends").expect("it starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}
