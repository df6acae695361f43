//! A process of the built binary.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::Value;

use super::eventually;

/// How much faster waits pass: the first retry comes after 100 ms.
const TIME_SCALE: &str = "100";

/// One process, from its start to the kill that ends it.
pub(crate) struct Appliance {
    process: Child,
    data_dir: PathBuf,
    /// Where it listens; empty until then.
    pub(crate) url: String,
    client: Client,
}

impl Appliance {
    /// Starts a process that keeps its data in `folder` and waits until it is ready.
    pub(crate) async fn start(folder: &Path) -> Self {
        let mut started = Self::spawn(folder);
        let url_file = started.data_dir.join("server.url");
        started.url = eventually("the appliance says where it listens", async || {
            started.insist_on_life();
            let url = fs::read_to_string(&url_file).ok()?;
            url.strip_suffix('\n').map(str::to_owned)
        })
        .await;
        let ready = format!("{}/readyz", started.url);
        eventually("the appliance is ready", async || {
            started.insist_on_life();
            let answer = started.client.get(&ready).send().await.ok()?;
            answer.status().is_success().then_some(())
        })
        .await;
        started
    }

    /// Starts a process and waits for nothing.
    pub(super) fn spawn(folder: &Path) -> Self {
        let data_dir = folder.join("data");
        // A process that was killed could not remove it.
        fs::remove_file(data_dir.join("server.url")).ok();
        let log = File::options()
            .create(true)
            .append(true)
            .open(folder.join("log"));
        let log = log.expect("a file for the log");
        let process = Command::new(binary())
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--egress-allow",
                "127.0.0.0/8",
            ])
            .args(["--time-scale", TIME_SCALE, "--data-dir"])
            .arg(&data_dir)
            .args(["--dead-letter-export-delay-s", "0"])
            .arg("--dead-letter-export-dir")
            .arg(folder.join("exported"))
            // What tells the test how to go about it is no setting.
            .env_remove("EVERPOST_BINARY")
            .env_remove("EVERPOST_DEAD_LETTERS")
            .env_remove("EVERPOST_KILLS")
            .env_remove("EVERPOST_SEED")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log once more"))
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        Self {
            process,
            data_dir,
            url: String::new(),
            client: client(),
        }
    }

    /// Ends the process with SIGKILL, in the middle of whatever it does.
    pub(super) fn kill(&mut self) {
        self.process.kill().expect("the process can be killed");
        self.process.wait().expect("the process has ended");
    }

    /// The JSON of a management request that has to succeed.
    pub(super) async fn manage(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let token = fs::read_to_string(self.data_dir.join("management.token"));
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        request = request.bearer_auth(token.expect("a management token").trim());
        if let Some(body) = body {
            request = request
                .header("Content-Type", "application/json")
                .body(body.to_string());
        }
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        let text = answer.text().await.expect("a whole answer");
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        self.manage(Method::GET, path, None).await
    }

    /// The metrics as text.
    pub(super) async fn metrics(&self) -> String {
        let token = fs::read_to_string(self.data_dir.join("management.token"));
        let request = self.client.get(format!("{}/metrics", self.url));
        let request = request.bearer_auth(token.expect("a management token").trim());
        let answer = request.send().await.expect("an answer");
        answer.text().await.expect("a whole answer")
    }

    /// Bytes that the process has in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.expect("the state of the process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        1_024
            * kib
                .and_then(|kib| kib.parse::<usize>().ok())
                .expect("a number")
    }

    fn insist_on_life(&mut self) {
        let ended = self.process.try_wait().expect("the state of the process");
        if let Some(status) = ended {
            let log = fs::read_to_string(self.data_dir.with_file_name("log")).unwrap_or_default();
            panic!("the appliance ended with {status}:\n{log}");
        }
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// The binary of this build, or another one that is given.
pub(super) fn binary() -> std::ffi::OsString {
    let given = std::env::var_os("EVERPOST_BINARY");
    given.unwrap_or_else(|| env!("CARGO_BIN_EXE_everpost").into())
}

/// A client that goes straight to loopback.
pub(super) fn client() -> Client {
    let client = Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(30));
    client.build().expect("a client")
}
