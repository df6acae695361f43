//! Dead letters on their way to a directory: when, in what shape, and what happens while it is away.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::Method;
use everpost::model::export::{ExportRules, WhenUnavailable};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::grid::{Grid, event};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// A directory, and an appliance that exports to it: what `billing` of `orders` rejects goes to the
/// container `dead`.
async fn exporting(rules: ExportRules) -> (Grid, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let grid = Grid::exporting(dir.path(), rules).await;
    let grid = grid.topic("orders").await;
    let grid = grid
        .push_with("orders", "billing", "400", to_container("dead"))
        .await;
    (grid, dir)
}

fn to_container(container: &str) -> Value {
    json!({"deadLetterDestination": {"endpointType": "StorageBlob", "properties":
        {"resourceId": "/local/store", "blobContainerName": container}}})
}

async fn publish(grid: &Grid, ids: &[&str]) {
    for id in ids {
        grid.publish("orders", event(id)).await;
    }
    grid.broker.run_due().await;
}

/// One round; how many blobs went.
async fn round(grid: &Grid) -> usize {
    grid.broker.export_round().await.expect("a round")
}

/// The files below `root`, sorted.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    found
}

/// The records of one file.
fn records(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a file");
    let records: Value = serde_json::from_str(&text).expect("JSON");
    records.as_array().expect("an array").clone()
}

/// The ids of the events in each file.
fn ids(root: &Path) -> Vec<Vec<String>> {
    let id = |record: &Value| record["id"].as_str().expect("an id").to_owned();
    let of_file = |file: &PathBuf| records(file).iter().map(id).collect();
    files(root).iter().map(of_file).collect()
}

async fn dead_letter(grid: &Grid, id: u32) -> Value {
    let path = format!("/everpost/deadLetters/{id}");
    grid.manage(Method::GET, &path, Value::Null).await.json()
}

/// How many dead letters lie in the queues.
async fn queued(grid: &Grid) -> u64 {
    let path = "/everpost/deadLetters/count";
    let count = grid.manage(Method::GET, path, Value::Null).await.json();
    count["count"].as_u64().expect("a count")
}

#[tokio::test]
async fn dead_letters_go_to_storage_five_minutes_after_the_first() {
    let (grid, dir) = exporting(ExportRules::default()).await;
    publish(&grid, &["e1"]).await;
    grid.pass(MINUTE * 4);
    publish(&grid, &["e2", "e3"]).await;
    grid.pass(SECOND * 59);
    assert_eq!((round(&grid).await, files(dir.path()).len()), (0, 0));
    grid.pass(SECOND);
    assert_eq!(round(&grid).await, 1);
    assert_eq!(ids(dir.path()), [["e1", "e2", "e3"]], "one blob for all");
    assert_eq!(round(&grid).await, 0, "nothing is left");
    assert_eq!(queued(&grid).await, 0);

    let file = &files(dir.path())[0];
    let name = file.strip_prefix(dir.path().join("dead")).expect("in it");
    let name = name.to_str().expect("UTF-8");
    assert!(name.starts_with("BILLING/2026/11/21/12/"), "{name}");
    let shown = dead_letter(&grid, 1).await;
    assert_eq!(shown["state"], "Removed");
    assert_eq!(shown["blob"], name);
    assert_eq!(shown["record"], records(file)[0], "what the API shows");
    assert_eq!(
        shown["record"]["deadLetterReason"],
        "UndeliverableDueToHttpBadRequest"
    );
    let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
    assert!(
        metrics.contains("everpost_exported_dead_letters_total 3"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_backlog_goes_in_blobs_of_bounded_size() {
    let (grid, dir) = exporting(ExportRules::default()).await;
    let all: Vec<Value> = (0..501).map(|n| event(&format!("e{n}"))).collect();
    let reply = grid.post("orders", json!(all)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    grid.run_for(SECOND).await;
    grid.pass(MINUTE * 5);
    assert_eq!(round(&grid).await, 1);
    assert_eq!(round(&grid).await, 1);
    assert_eq!(round(&grid).await, 0);
    let mut sizes: Vec<usize> = ids(dir.path()).iter().map(Vec::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 500]);
}

#[tokio::test]
async fn a_blob_that_was_begun_keeps_its_name_and_its_contents() {
    let (grid, dir) = exporting(ExportRules::default()).await;
    publish(&grid, &["e1", "e2"]).await;
    grid.pass(MINUTE * 5);
    let away = dir.path().with_extension("away");
    std::fs::rename(dir.path(), &away).expect("taken away");
    assert_eq!(round(&grid).await, 0, "it is begun, and cannot be put");
    // As after a put whose mark a crash prevented: others come, and one leaves its queue.
    publish(&grid, &["e3"]).await;
    let resubmit = "/everpost/deadLetters/1/resubmit";
    grid.script("billing", "200");
    let reply = grid.manage(Method::POST, resubmit, json!({})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let grid = grid.restarted().await;
    grid.broker.run_due().await;
    std::fs::rename(&away, dir.path()).expect("brought back");
    grid.pass(SECOND * 10);
    assert_eq!(round(&grid).await, 1);
    assert_eq!(ids(dir.path()), [["e1", "e2"]]);
    assert_eq!(dead_letter(&grid, 1).await["state"], "Resubmitted");
    assert_eq!(dead_letter(&grid, 2).await["state"], "Removed");
    assert_eq!(queued(&grid).await, 1);
    grid.pass(MINUTE * 5);
    assert_eq!(round(&grid).await, 1);
    assert_eq!(queued(&grid).await, 0);
}

/// Takes the directory away, dead-letters an event, and returns the seconds of all tries of so long.
async fn tries(grid: &Grid, seconds: u64) -> Vec<u64> {
    let mut tries = Vec::new();
    let mut failures = 0;
    for second in (0..=seconds).step_by(10) {
        assert_eq!(round(grid).await, 0);
        let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix("everpost_export_failures_total "));
        let now: u64 = line.expect("a counter").parse().expect("a number");
        if now > failures {
            failures = now;
            tries.push(second);
        }
        grid.pass(SECOND * 10);
    }
    tries
}

#[tokio::test]
async fn storage_that_is_away_is_tried_again_and_keeps_its_dead_letters() {
    let (grid, dir) = exporting(ExportRules::default()).await;
    publish(&grid, &["e1"]).await;
    let away = dir.path().with_extension("away");
    std::fs::rename(dir.path(), &away).expect("taken away");
    grid.pass(MINUTE * 5);
    assert_eq!(tries(&grid, 700).await, [0, 10, 70, 370, 670]);
    grid.pass(HOUR * 5);
    assert_eq!(tries(&grid, 3_610).await, [0, 3_600], "rarely in the end");
    assert_eq!(queued(&grid).await, 1, "it is kept");
    let shown = grid.show("orders", "billing").await;
    let outage = &shown["everpost"]["deadLetterStorage"];
    assert_eq!(outage["failures"], 7, "{shown}");
    assert!(
        outage["error"]
            .as_str()
            .is_some_and(|error| !error.is_empty())
    );

    // Whoever repairs it by changing the subscription need not wait.
    std::fs::rename(&away, dir.path()).expect("brought back");
    assert_eq!(round(&grid).await, 0);
    let path = "/topics/orders/eventSubscriptions/billing";
    let changed = grid
        .manage(Method::PATCH, path, to_container("letters"))
        .await;
    assert_eq!(changed.status, 201, "{}", changed.text);
    assert_eq!(round(&grid).await, 1);
    assert!(files(dir.path())[0].starts_with(dir.path().join("letters")));
    let shown = grid.show("orders", "billing").await;
    assert_eq!(shown["everpost"]["deadLetterStorage"], Value::Null);
}

#[tokio::test]
async fn what_waited_four_hours_is_dropped_if_that_is_the_wish() {
    let rules = ExportRules {
        when_unavailable: WhenUnavailable::Drop,
        ..ExportRules::default()
    };
    let (grid, dir) = exporting(rules).await;
    publish(&grid, &["e1"]).await;
    let away = dir.path().with_extension("away");
    std::fs::rename(dir.path(), &away).expect("taken away");
    grid.pass(MINUTE * 5);
    round(&grid).await;
    grid.pass(HOUR * 3);
    publish(&grid, &["e2"]).await;
    grid.pass(MINUTE * 59);
    round(&grid).await;
    assert_eq!(queued(&grid).await, 2);
    grid.pass(MINUTE * 2);
    round(&grid).await;
    assert_eq!(queued(&grid).await, 1, "the younger one waits");
    let shown = grid.manage(Method::GET, "/everpost/events/1", Value::Null);
    let dropped = &shown.await.json()["deliveries"][0];
    assert_eq!(dropped["state"], "Dropped");
    assert_eq!(
        dropped["deadLetterReason"],
        "UndeliverableDueToHttpBadRequest"
    );
    std::fs::rename(&away, dir.path()).expect("brought back");
    grid.pass(HOUR);
    round(&grid).await;
    assert_eq!(round(&grid).await + queued(&grid).await as usize, 0);
    assert_eq!(ids(dir.path()), [["e2"]]);
}

#[tokio::test]
async fn what_somebody_holds_stays_with_them() {
    let (grid, dir) = exporting(ExportRules::default()).await;
    publish(&grid, &["e1", "e2"]).await;
    grid.pass(MINUTE * 5);
    let receive = "/everpost/deadLetters/receive";
    let first = json!({"topic": "orders", "subscription": "billing"});
    let held = grid.manage(Method::POST, receive, first).await;
    assert_eq!(held.status, 200, "{}", held.text);
    assert_eq!(round(&grid).await, 1);
    assert_eq!(ids(dir.path()), [["e2"]]);
    assert_eq!(queued(&grid).await, 1);
    // The lock lapses, and what it held goes as well.
    grid.pass(HOUR);
    assert_eq!(round(&grid).await, 1);
    assert_eq!(queued(&grid).await, 0);
}

#[tokio::test]
async fn a_destination_that_is_taken_back_leaves_the_dead_letters_in_their_queue() {
    let (grid, dir) = exporting(ExportRules::default()).await;
    publish(&grid, &["e1"]).await;
    let away = dir.path().with_extension("away");
    std::fs::rename(dir.path(), &away).expect("taken away");
    grid.pass(MINUTE * 5);
    round(&grid).await;
    std::fs::rename(&away, dir.path()).expect("brought back");
    let path = "/topics/orders/eventSubscriptions/billing";
    let mut body = grid.show("orders", "billing").await;
    body.as_object_mut()
        .expect("properties")
        .remove("deadLetterDestination");
    body["destination"]["properties"]["endpointUrl"] = json!("http://billing.test/hook");
    let reply = grid
        .manage(Method::PUT, path, json!({ "properties": body }))
        .await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    grid.pass(HOUR);
    assert_eq!((round(&grid).await, queued(&grid).await), (0, 1));
    // Named again, it gets what lies there.
    let again = to_container("dead");
    grid.manage(Method::PATCH, path, again).await;
    assert_eq!((round(&grid).await, queued(&grid).await), (1, 0));
}

#[tokio::test]
async fn namespaces_have_their_own_layout_and_shape() {
    let dir = tempfile::tempdir().expect("a directory");
    let grid = Grid::exporting(dir.path(), ExportRules::default()).await;
    grid.script("billing", "404");
    let push = json!({
        "destination": {"endpointType": "WebHook", "properties":
            {"endpointUrl": "http://billing.test/hook", "skipValidation": true}},
        "deadLetterDestinationWithResourceIdentity": to_container("dead"),
    });
    let subscription = json!({"properties": {"deliveryConfiguration":
        {"deliveryMode": "Push", "push": push}}});
    for (path, body) in [
        ("/namespaces/shop", json!({"location": "local"})),
        ("/namespaces/shop/topics/orders", json!({})),
        (
            "/namespaces/shop/topics/orders/eventSubscriptions/billing",
            subscription,
        ),
    ] {
        let reply = grid.manage(Method::PUT, path, body).await;
        assert!(reply.status.is_success(), "{}", reply.text);
    }
    let publish = "/namespaces/shop/topics/orders:publish?api-version=2024-06-01";
    let event = json!([{"specversion": "1.0", "id": "e1", "source": "/s", "type": "T", "data": 1}]);
    let keys = grid.manage(Method::POST, "/namespaces/shop/listKeys", Value::Null);
    let key = keys.await.json()["key1"]
        .as_str()
        .expect("a key")
        .to_owned();
    let request = axum::http::Request::post(publish)
        .header("authorization", format!("SharedAccessKey {key}"))
        .header("content-type", "application/cloudevents-batch+json")
        .body(axum::body::Body::from(event.to_string()));
    let reply = grid.send(request.expect("a request")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    grid.broker.run_due().await;
    grid.pass(MINUTE * 5);
    assert_eq!(round(&grid).await, 1);
    let files = files(dir.path());
    let folder = dir.path().join("dead/shop/orders/billing/2026/11/21/12");
    assert!(files[0].starts_with(folder), "{files:?}");
    let record = &records(&files[0])[0];
    assert_eq!(record["event"]["id"], "e1");
    assert_eq!(
        record["deadletterProperties"]["deadletterreason"],
        "Undeliverable due to client error"
    );
}

#[tokio::test]
async fn without_a_directory_dead_letters_stay_in_their_queue() {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push_with("orders", "billing", "400", to_container("dead"))
        .await;
    publish(&grid, &["e1"]).await;
    grid.pass(HOUR);
    assert_eq!((round(&grid).await, queued(&grid).await), (0, 1));
}

#[tokio::test]
async fn whoever_subscribes_to_the_storage_hears_of_each_blob() {
    let (grid, dir) = exporting(ExportRules::default()).await;
    let grid = grid.push("dead-letter-storage", "archivist", "200").await;
    publish(&grid, &["e1", "e2"]).await;
    grid.pass(MINUTE * 5);
    assert_eq!(round(&grid).await, 1);
    grid.broker.run_due().await;
    let heard = grid.heard("archivist");
    assert_eq!(heard.len(), 1);
    let told: Value = serde_json::from_slice(&heard[0].body).expect("JSON");
    let told = &told[0];
    assert_eq!(told["eventType"], "Microsoft.Storage.BlobCreated");
    let file = &files(dir.path())[0];
    let name = file.strip_prefix(dir.path().join("dead")).expect("in it");
    let subject = format!(
        "/blobServices/default/containers/dead/blobs/{}",
        name.display()
    );
    assert_eq!(told["subject"], subject);
    let bytes = std::fs::read(file).expect("a file").len();
    assert_eq!(told["data"]["contentLength"], bytes);
    let url = told["data"]["url"].as_str().expect("a URL");
    assert!(
        url.starts_with("file:///") && url.ends_with(name.to_str().expect("UTF-8")),
        "{url}"
    );
}

#[tokio::test]
async fn a_bucket_is_written_to_with_the_credentials_of_the_subscription() {
    let grid = Grid::new().await.topic("orders").await;
    let storage = json!({"type": "S3", "endpointUrl": "http://store.test/s3",
        "accessKeyId": "AKID", "secretAccessKey": "very-secret"});
    let destination = json!({"deadLetterDestination": {"endpointType": "StorageBlob",
        "properties": {"blobContainerName": "dead", "storage": storage}}});
    let grid = grid
        .push_with("orders", "billing", "400", destination.clone())
        .await;
    let shown = grid.show("orders", "billing").await.to_string();
    assert!(
        shown.contains("AKID") && !shown.contains("very-secret"),
        "{shown}"
    );

    publish(&grid, &["e1"]).await;
    grid.pass(MINUTE * 5);
    grid.script("store", "403");
    assert_eq!(round(&grid).await, 0);
    let shown = grid.show("orders", "billing").await;
    let error = shown["everpost"]["deadLetterStorage"]["error"].to_string();
    assert!(
        error.contains("403") && !error.contains("secret"),
        "{error}"
    );

    grid.answer(
        "store",
        200,
        vec![("etag", "\"1\"".to_owned())],
        String::new(),
    );
    // Left out, the secret is kept as long as it belongs to the same key.
    let path = "/topics/orders/eventSubscriptions/billing";
    let mut again = destination.clone();
    let secret = &mut again["deadLetterDestination"]["properties"]["storage"]["secretAccessKey"];
    *secret = Value::Null;
    let reply = grid.manage(Method::PATCH, path, again.clone()).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    again["deadLetterDestination"]["properties"]["storage"]["accessKeyId"] = json!("OTHER");
    let rejected = grid.manage(Method::PATCH, path, again).await;
    assert_eq!(rejected.status, 400, "{}", rejected.text);
    assert!(
        rejected.text.contains("storage.secretAccessKey"),
        "{}",
        rejected.text
    );

    grid.pass(SECOND * 10);
    let done = (round(&grid).await, queued(&grid).await);
    let shown = grid.show("orders", "billing").await;
    let outage = &shown["everpost"]["deadLetterStorage"];
    assert_eq!(done, (1, 0), "{outage}");
    let heard = grid.heard("store");
    assert_eq!(heard.len(), 2);
    assert_eq!(heard[0].url, heard[1].url, "the same name");
    let put = &heard[1];
    assert_eq!(put.method, Method::PUT);
    assert!(
        put.url
            .path()
            .starts_with("/s3/dead/BILLING/2026/11/21/12/"),
        "{}",
        put.url
    );
    let authorization = put.headers["authorization"].to_str().expect("text");
    assert!(
        authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKID/"),
        "{authorization}"
    );
    let records: Value = serde_json::from_slice(&put.body).expect("JSON");
    assert_eq!(records[0]["id"], "e1");
}

#[tokio::test]
async fn an_export_that_panics_waits_like_one_that_fails() {
    let grid = Grid::new().await.topic("orders").await;
    let storage = json!({"type": "S3", "endpointUrl": "http:store.test",
        "accessKeyId": "AKID", "secretAccessKey": "very-secret"});
    let destination = json!({"deadLetterDestination": {"endpointType": "StorageBlob",
        "properties": {"blobContainerName": "dead", "storage": storage}}});
    let grid = grid
        .push_with("orders", "billing", "400", destination)
        .await;
    publish(&grid, &["e1"]).await;
    grid.pass(MINUTE * 5);
    grid.script("store", "panic");
    assert_eq!(tries(&grid, 80).await, [0, 10, 70]);
    let shown = grid.show("orders", "billing").await;
    let outage = &shown["everpost"]["deadLetterStorage"];
    assert_eq!(outage["failures"], 3, "{outage}");
    let error = outage["error"].as_str().expect("an error");
    assert!(error.contains("bug in Everpost"), "{error}");
}

#[tokio::test]
async fn azure_is_written_to_with_a_key_or_a_shared_access_signature() {
    for (secret, proof) in [
        (json!({"accountKey": "c2VjcmV0"}), "SharedKey shop:"),
        (json!({"sasToken": "?sv=2026&sig=a%2Bb"}), ""),
    ] {
        let grid = Grid::new().await.topic("orders").await;
        let mut storage = json!({"type": "AzureBlob", "accountName": "shop",
            "endpointUrl": "http://store.test/shop"});
        for (name, value) in secret.as_object().expect("an object") {
            storage[name] = value.clone();
        }
        let destination = json!({"deadLetterDestination": {"endpointType": "StorageBlob",
            "properties": {"blobContainerName": "dead", "storage": storage}}});
        let grid = grid
            .push_with("orders", "billing", "400", destination)
            .await;
        publish(&grid, &["e1"]).await;
        grid.pass(MINUTE * 5);
        grid.answer(
            "store",
            201,
            vec![("etag", "\"1\"".to_owned())],
            String::new(),
        );
        assert_eq!((round(&grid).await, queued(&grid).await), (1, 0));
        let put = &grid.heard("store")[0];
        assert!(
            put.url
                .path()
                .starts_with("/shop/dead/BILLING/2026/11/21/12/"),
            "{}",
            put.url
        );
        assert_eq!(put.headers["x-ms-blob-type"], "BlockBlob");
        match proof {
            "" => assert!(
                put.url
                    .query()
                    .is_some_and(|query| query.contains("sig=a%2Bb"))
            ),
            _ => {
                let proven = put.headers["authorization"].to_str().expect("text");
                assert!(proven.starts_with(proof), "{proven}");
            }
        }
        let shown = grid.show("orders", "billing").await.to_string();
        assert!(
            !shown.contains("c2VjcmV0") && !shown.contains("sig="),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn storage_that_cannot_be_used_is_rejected_by_the_name_of_its_property() {
    let grid = Grid::new().await.topic("orders").await;
    grid.script("billing", "200");
    for (storage, property) in [
        (json!({"type": "Ftp"}), "storage.type"),
        (json!({"type": "S3"}), "storage.accessKeyId"),
        (
            json!({"type": "S3", "accessKeyId": "A"}),
            "storage.secretAccessKey",
        ),
        (
            json!({"type": "S3", "accessKeyId": "A", "secretAccessKey": "s", "region": "a/b"}),
            "storage.region",
        ),
        (
            json!({"type": "S3", "accessKeyId": "A", "secretAccessKey": "s", "endpointUrl": "ftp://a"}),
            "storage.endpointUrl",
        ),
        (
            json!({"type": "S3", "accessKeyId": "A", "secretAccessKey": "s", "endpointUrl": "http://a{b}"}),
            "storage.endpointUrl",
        ),
        (
            json!({"type": "AzureBlob", "accountName": "a"}),
            "storage.accountKey",
        ),
        (
            json!({"type": "AzureBlob", "accountName": "a", "accountKey": "?"}),
            "storage.accountKey",
        ),
        (
            json!({"type": "AzureBlob", "accountName": "a", "accountKey": "", "sasToken": "s"}),
            "storage.sasToken",
        ),
        // It might be a secret, and endpoints are shown.
        (
            json!({"type": "AzureBlob", "accountName": "a", "sasToken": "sig=s", "endpointUrl": "http://a?sig=hush"}),
            "storage.endpointUrl",
        ),
    ] {
        let body = json!({"properties": {
            "destination": {"endpointType": "WebHook", "properties":
                {"endpointUrl": "http://billing.test/", "skipValidation": true}},
            "deadLetterDestination": {"endpointType": "StorageBlob", "properties":
                {"blobContainerName": "dead", "storage": storage}}}});
        let path = "/topics/orders/eventSubscriptions/billing";
        let rejected = grid.manage(Method::PUT, path, body).await;
        assert_eq!(rejected.status, 400, "{}", rejected.text);
        assert!(
            rejected.text.contains(property),
            "{property}: {}",
            rejected.text
        );
        assert!(!rejected.text.contains("hush"), "{}", rejected.text);
    }
}

#[tokio::test]
async fn an_import_reaches_one_subscription_or_all_that_want_it_and_once() {
    let grid = Grid::new().await.topic("orders").await;
    let only = json!({"filter": {"includedEventTypes": ["Other"]}});
    let grid = grid.push_with("orders", "billing", "200", only).await;
    let grid = grid.push("orders", "archive", "200").await;
    let mut record = event("e1");
    record["topic"] = json!("/subscriptions/0/elsewhere");
    record["deadLetterReason"] = json!("MaxDeliveryAttemptsExceeded");
    record["deliveryAttempts"] = json!(30);
    let blob = json!([record]);
    let import = "/everpost/deadLetters/import?topic=orders";
    let to_one = format!("{import}&subscription=billing");
    for (path, expected) in [
        (
            to_one.as_str(),
            json!({"records": 1, "imported": 1, "repeated": false}),
        ),
        (
            to_one.as_str(),
            json!({"records": 1, "imported": 0, "repeated": true}),
        ),
        (
            import,
            json!({"records": 1, "imported": 1, "repeated": false}),
        ),
    ] {
        let done = grid.manage(Method::POST, path, blob.clone()).await;
        assert_eq!(done.json(), expected, "{path}");
    }
    grid.broker.run_due().await;
    let heard = |name| grid.heard(name).len();
    assert_eq!((heard("billing"), heard("archive")), (1, 1));
    let told: Value = serde_json::from_slice(&grid.heard("billing")[0].body).expect("JSON");
    assert_eq!(told[0]["id"], "e1");
    assert_eq!(told[0]["deadLetterReason"], Value::Null);
    for (path, body, status) in [
        (import, json!([{"a": 1}]), 400),
        (
            "/everpost/deadLetters/import?topic=dead-letter-storage",
            blob.clone(),
            403,
        ),
        (
            "/everpost/deadLetters/import?topic=missing",
            blob.clone(),
            404,
        ),
    ] {
        let rejected = grid.manage(Method::POST, path, body).await;
        assert_eq!(rejected.status, status, "{path}: {}", rejected.text);
    }
}
