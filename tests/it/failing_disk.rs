//! Disks that take no more: one that fails ends the process with its own exit code, one that is full does not
//! even keep it from starting, and what was acknowledged before is there.
//!
//! The limit on the size of a file stands in for the failing disk: writes past it fail with an error
//! that is none of a full disk.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

/// The exit code that the README names.
const STORE_FAILED: i32 = 74;

const TOKEN: &str = "a-token-of-these-tests-alone";

/// What every start of the appliance here has: `$0` is the binary and `$1` the data directory.
const SERVE: &str = "\"$0\" serve --data-dir \"$1\" --listen 127.0.0.1:0 --storage-min-free-mb 0";

/// Blocks of 512 bytes: enough for the schema and some events.
const FILE_BLOCKS: u32 = 6_000;

/// More events than fit under the limit, or on the disk of 24 MiB.
const EVENTS: usize = 800;

#[tokio::test]
async fn a_failing_disk_ends_the_process_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder for the data");
    let limited = |file_blocks: u32| {
        let script = format!("trap '' XFSZ; ulimit -f {file_blocks}; exec {SERVE}");
        Running::start("sh", &["-c", &script], folder.path())
    };
    let mut failing = limited(FILE_BLOCKS).expect("it starts");
    let acknowledged = failing.fill().await;
    let ended = failing.process.wait().expect("an end");
    assert_eq!(ended.code(), Some(STORE_FAILED));
    let healthy = limited(u32::MAX / 1_024).expect("it starts");
    healthy.check_stored(&acknowledged).await;
}

/// Both processes see a small disk of their own, for which there has to be a mount namespace.
#[tokio::test]
async fn a_start_on_a_full_disk_shows_what_is_stored_and_takes_nothing() {
    let folder = tempfile::tempdir().expect("a folder for the data");
    let script = format!(
        "mount -t tmpfs -o size=24m tmpfs \"$1\" || exit 1
         {SERVE} & pid=$!; echo \"process $pid\"; wait $pid
         rm \"$1/server.url\"; cat /dev/zero > \"$1/rest\" 2> /dev/null; exec {SERVE}"
    );
    let arguments = ["--map-root-user", "--mount", "sh", "-c", &script];
    let Some(mut running) = Running::start("unshare", &arguments, folder.path()) else {
        println!("skipped: this system gives no mount namespaces");
        return;
    };
    let acknowledged = running.fill().await;
    let first = running.pid.clone().expect("its number");
    let killed = Command::new("kill").args(["-KILL", &first]).status();
    assert!(killed.expect("kill").success());
    running.await_address().expect("a second start");
    running.check_stored(&acknowledged).await;
    let told = running.publish("one-more").await;
    assert_eq!(told.expect("an answer"), StatusCode::SERVICE_UNAVAILABLE);
}

/// A process and what it prints.
struct Running {
    process: Child,
    out: Lines<BufReader<ChildStdout>>,
    /// Of the appliance, where a shell waits for it.
    pid: Option<String>,
    url: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Running {
    /// Starts `program` and waits until the appliance listens; `None` if it ends before.
    fn start(program: &str, arguments: &[&str], folder: &Path) -> Option<Self> {
        let mut process = Command::new(program)
            .args(arguments)
            .arg(env!("CARGO_BIN_EXE_everpost"))
            .arg(folder)
            .env("EVERPOST_MANAGEMENT_TOKEN", TOKEN)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let out = BufReader::new(process.stdout.take().expect("its output"));
        let mut running = Self {
            process,
            out: out.lines(),
            pid: None,
            url: String::new(),
        };
        running.await_address().map(|()| running)
    }

    fn await_address(&mut self) -> Option<()> {
        for line in self.out.by_ref().map_while(Result::ok) {
            if let Some(pid) = line.strip_prefix("process ") {
                self.pid = Some(pid.to_owned());
            }
            if let Some(url) = line.strip_prefix("listening on ") {
                self.url = url.to_owned();
                return Some(());
            }
        }
        None
    }

    /// Publishes until nothing is taken any more. Returns the ids that were acknowledged.
    async fn fill(&self) -> Vec<String> {
        let put = Client::new()
            .put(format!("{}/topics/orders", self.url))
            .bearer_auth(TOKEN)
            .body(json!({"location": "local"}).to_string());
        assert_eq!(
            put.send().await.expect("an answer").status(),
            StatusCode::CREATED
        );
        let mut acknowledged = Vec::new();
        for number in 0..EVENTS {
            let id = format!("e{number}");
            match self.publish(&id).await {
                Ok(StatusCode::OK) => acknowledged.push(id),
                _ => break,
            }
        }
        let count = acknowledged.len();
        assert!(count > 0 && count < EVENTS, "{count} were acknowledged");
        acknowledged
    }

    async fn publish(&self, id: &str) -> reqwest::Result<StatusCode> {
        let event = json!([{"id": id, "subject": "s", "eventType": "t", "dataVersion": "1",
            "eventTime": "2026-11-21T06:40:53Z", "data": "x".repeat(50_000)}]);
        let publish = Client::new()
            .post(format!("{}/topics/orders/api/events", self.url))
            .bearer_auth(TOKEN)
            .body(event.to_string());
        publish.send().await.map(|answer| answer.status())
    }

    async fn check_stored(&self, acknowledged: &[String]) {
        let mut stored = HashSet::new();
        let mut page = format!("{}/everpost/events?limit=100", self.url);
        loop {
            let request = Client::new().get(&page).bearer_auth(TOKEN);
            let body = request.send().await.expect("an answer").text().await;
            let events: Value = serde_json::from_str(&body.expect("a body")).expect("JSON");
            let ids = events["value"].as_array().expect("a list").iter();
            stored.extend(ids.filter_map(|event| Some(event["id"].as_str()?.to_owned())));
            match events["nextBefore"].as_u64() {
                Some(before) => {
                    page = format!("{}/everpost/events?limit=100&before={before}", self.url);
                }
                None => break,
            }
        }
        for id in acknowledged {
            assert!(stored.contains(id), "{id} is lost");
        }
    }
}
