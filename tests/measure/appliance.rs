//! A process of the built binary over an empty data directory.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::Value;
use tempfile::TempDir;

/// Who may sign in at the admin pages.
pub(crate) const USER: &str = "admin";
pub(crate) const PASSWORD: &str = "correct-horse-battery";

/// Much longer than a start takes.
const START_PATIENCE: Duration = Duration::from_secs(60);
const START_LOOKS: Duration = Duration::from_millis(20);

pub(crate) struct Appliance {
    process: Child,
    /// Goes once nobody writes there any more.
    _folder: TempDir,
    pub(crate) url: String,
    token: String,
    client: Client,
}

impl Appliance {
    /// Starts it with these settings more, and waits until it listens.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the data");
        let process = Command::new(env!("CARGO_BIN_EXE_everpost"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--egress-allow", "127.0.0.0/8", "--log-level", "warn"])
            .args(settings)
            .env("EVERPOST_ADMIN_USER", USER)
            .env("EVERPOST_ADMIN_PASSWORD", PASSWORD)
            .arg("--data-dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let read = |name| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        let waiting = async {
            while !read("server.url").ends_with('\n') {
                tokio::time::sleep(START_LOOKS).await;
            }
        };
        let started = tokio::time::timeout(START_PATIENCE, waiting).await;
        started.expect("the appliance listens");
        Self {
            url: read("server.url").trim_end().to_owned(),
            token: read("management.token").trim().to_owned(),
            client: Client::builder().no_proxy().build().expect("a client"),
            process,
            _folder: folder,
        }
    }

    /// Seconds of processor time that it has taken so far, where the system tells.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).ok()?;
        // The second field is the name in brackets and may hold anything; user and system time are the
        // 14th and 15th, in hundredths of a second.
        let (_, fields) = stat.rsplit_once(')')?;
        let hundredths = |place| fields.split_whitespace().nth(place)?.parse::<f64>().ok();
        Some((hundredths(11)? + hundredths(12)?) / 100.0)
    }

    /// The value of a metric without labels, named without its prefix.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let request = self.client.get(format!("{}/metrics", self.url));
        let answer = request.bearer_auth(&self.token).send().await;
        let text = answer.expect("an answer").text().await.expect("metrics");
        let line = text.lines().find_map(|line| {
            line.strip_prefix("everpost_")?
                .strip_prefix(name)?
                .strip_prefix(' ')
        });
        line.and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no metric {name}"))
    }

    /// Makes a topic and answers its key.
    pub(crate) async fn create_topic(&self, topic: &str) -> String {
        let properties = serde_json::json!({"location": "local", "properties": {}});
        let path = format!("/topics/{topic}");
        self.manage(Method::PUT, &path, Some(&properties)).await;
        let keys = self
            .manage(Method::POST, &format!("{path}/listKeys"), None)
            .await;
        keys["key1"].as_str().expect("a key").to_owned()
    }

    /// The JSON of a management request that has to succeed.
    pub(crate) async fn manage(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let mut request = request.bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json");
            request = request.body(body.to_string());
        }
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        let text = answer.text().await.expect("a whole answer");
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).expect("JSON")
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
