//! A process of the built binary.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
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
        Self::start_with(folder, &[]).await
    }

    /// Starts a process with further arguments.
    pub(crate) async fn start_with(folder: &Path, arguments: &[&str]) -> Self {
        let started = Self::spawn_with(folder, arguments).ready().await;
        started.unwrap_or_else(|(code, log)| panic!("the appliance ended with {code:?}:\n{log}"))
    }

    /// Starts a process that may end before it is ready: then its exit code and its log are returned.
    pub(crate) async fn try_start(folder: &Path) -> Result<Self, (Option<i32>, String)> {
        Self::spawn(folder).ready().await
    }

    async fn ready(self) -> Result<Self, (Option<i32>, String)> {
        let mut started = self;
        let url_file = started.data_dir.join("server.url");
        let url = eventually("the appliance says where it listens", async || {
            if let Some(end) = started.end() {
                return Some(Err(end));
            }
            let url = fs::read_to_string(&url_file).ok()?;
            url.strip_suffix('\n').map(|url| Ok(url.to_owned()))
        });
        started.url = url.await?;
        let ready = format!("{}/readyz", started.url);
        eventually("the appliance is ready", async || {
            if let Some(end) = started.end() {
                return Some(Err(end));
            }
            let answer = started.client.get(&ready).send().await.ok()?;
            answer.status().is_success().then_some(Ok(()))
        })
        .await?;
        Ok(started)
    }

    /// Starts a process and waits for nothing.
    pub(super) fn spawn(folder: &Path) -> Self {
        Self::spawn_with(folder, &[])
    }

    fn spawn_with(folder: &Path, arguments: &[&str]) -> Self {
        let data_dir = folder.join("data");
        // A process that was killed could not remove it.
        fs::remove_file(data_dir.join("server.url")).ok();
        let log = File::options()
            .create(true)
            .append(true)
            .open(folder.join("log"));
        let log = log.expect("a file for the log");
        let process = command(binary())
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
            .args(arguments)
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

    /// Ends the process as a supervisor does, and waits for its end.
    pub(super) async fn stop(&mut self) -> ExitStatus {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.expect("kill runs").success());
        eventually("the process ends", async || {
            self.process.try_wait().expect("the state of the process")
        })
        .await
    }

    /// The management token.
    pub(super) fn token(&self) -> String {
        let token = fs::read_to_string(self.data_dir.join("management.token"));
        token.expect("a management token").trim().to_owned()
    }

    /// The JSON of a management request that has to succeed.
    pub(super) async fn manage(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        request = request.bearer_auth(self.token());
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
        let request = self.client.get(format!("{}/metrics", self.url));
        let request = request.bearer_auth(self.token());
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

    /// The exit code and the log, if the process has ended.
    fn end(&mut self) -> Option<(Option<i32>, String)> {
        let ended = self.process.try_wait().expect("the state of the process")?;
        let log = fs::read_to_string(self.data_dir.with_file_name("log")).unwrap_or_default();
        Some((ended.code(), log))
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// The binary of this build, or another one that is given.
pub(super) fn binary() -> OsString {
    let given = std::env::var_os("EVERPOST_BINARY");
    given.unwrap_or_else(|| env!("CARGO_BIN_EXE_everpost").into())
}

/// A command without the environment variables of Everpost: those that tell these tests what to do are no settings.
pub(super) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("EVERPOST_") {
            command.env_remove(name);
        }
    }
    command
}

/// A client that goes straight to loopback.
pub(super) fn client() -> Client {
    let client = Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(30));
    client.build().expect("a client")
}
