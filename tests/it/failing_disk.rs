//! A disk that stops taking writes: the built binary ends with its own exit code, and what it
//! acknowledged before is there after the next start.
//!
//! The limit on the size of a file stands in for the failing disk: writes past it fail with an error
//! that is none of a full disk.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

/// The exit code that the README names.
const STORE_FAILED: i32 = 74;

/// Blocks of 512 bytes: room for the schema and some events.
const FILE_BLOCKS: u32 = 6_000;

/// More events than fit under the limit.
const EVENTS: usize = 400;

#[tokio::test]
async fn a_failing_disk_ends_the_process_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder for the data");
    let mut failing = start(folder.path(), FILE_BLOCKS);
    let token = std::fs::read_to_string(folder.path().join("management.token")).expect("a token");
    let client = Client::new();
    let put = client
        .put(format!("{}/topics/orders", failing.url))
        .bearer_auth(token.trim())
        .body(json!({"location": "local"}).to_string());
    assert_eq!(
        put.send().await.expect("an answer").status(),
        StatusCode::CREATED
    );

    let mut acknowledged = Vec::new();
    for number in 0..EVENTS {
        let id = format!("e{number}");
        let event = json!([{"id": id, "subject": "s", "eventType": "t", "dataVersion": "1",
            "eventTime": "2026-11-21T06:40:53Z", "data": "x".repeat(50_000)}]);
        let publish = client
            .post(format!("{}/topics/orders/api/events", failing.url))
            .bearer_auth(token.trim())
            .body(event.to_string());
        match publish.send().await.map(|answer| answer.status()) {
            Ok(StatusCode::OK) => acknowledged.push(id),
            _ => break,
        }
    }
    assert!(
        !acknowledged.is_empty() && acknowledged.len() < EVENTS,
        "{}",
        acknowledged.len()
    );
    let ended = failing.process.wait().expect("an end");
    assert_eq!(ended.code(), Some(STORE_FAILED));

    let healthy = start(folder.path(), u32::MAX / 1_024);
    let events = client
        .get(format!("{}/everpost/events?limit=400", healthy.url))
        .bearer_auth(token.trim());
    let events = events
        .send()
        .await
        .expect("an answer")
        .text()
        .await
        .expect("a body");
    let events: Value = serde_json::from_str(&events).expect("JSON");
    let events = events["value"].as_array().expect("a list");
    for id in &acknowledged {
        assert!(
            events.iter().any(|event| event["id"] == *id),
            "{id} is lost"
        );
    }
}

struct Running {
    process: Child,
    url: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts the appliance with a limit on the size of its files, and waits until it listens.
fn start(folder: &Path, file_blocks: u32) -> Running {
    let script = format!(
        "trap '' XFSZ; ulimit -f {file_blocks}; exec \"$0\" serve --data-dir \"$1\" \
         --listen 127.0.0.1:0 --storage-min-free-mb 0"
    );
    let mut process = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_everpost")])
        .arg(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let out = BufReader::new(process.stdout.take().expect("its output"));
    let mut lines = out.lines();
    let url = lines
        .find_map(|line| line.ok()?.strip_prefix("listening on ").map(str::to_owned))
        .expect("the address");
    // Whoever stops reading would break the pipe under the appliance.
    std::thread::spawn(move || lines.for_each(drop));
    Running { process, url }
}
