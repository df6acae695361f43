//! Secrets of every kind go through the built binary at the log level `debug`, and are looked for in all
//! that comes out of it: answers, pages of metrics, the log, the command line's output, and every file
//! that it keeps.

mod roles;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use everpost::app::receive::{ReceiverOptions, WebhookReceiver};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What is in every secret that a test can choose.
const MARK: &str = "CANARY";

/// Files that hold secrets by their very nature.
const KEY_FILES: [&str; 3] = ["master.key", "management.token", "setup-url"];

/// The appliance, and everything that it has let out.
struct Watched {
    process: Child,
    folder: tempfile::TempDir,
    url: String,
    token: String,
    client: Client,
    said: Vec<String>,
    /// Texts that must not be found, besides [`MARK`].
    secrets: Vec<String>,
}

impl Watched {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let log = File::create(folder.path().join("log")).expect("a log");
        let process = everpost(folder.path())
            .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "debug"])
            .args(["--egress-allow", "127.0.0.0/8", "--time-scale", "100"])
            .env("EVERPOST_ADMIN_USER", "root")
            .env("EVERPOST_ADMIN_PASSWORD", format!("{MARK}-of-root"))
            .stdout(log.try_clone().expect("the log"))
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        let data_dir = folder.path().join("data");
        let client = Client::builder().no_proxy().build().expect("a client");
        let url = eventually(async || {
            let url = fs::read_to_string(data_dir.join("server.url")).ok()?;
            let url = url.strip_suffix('\n')?.to_owned();
            client.get(format!("{url}/readyz")).send().await.ok()?;
            Some(url)
        })
        .await;
        let token = fs::read_to_string(data_dir.join("management.token")).expect("a token");
        let token = token.trim().to_owned();
        let master_key = fs::read_to_string(data_dir.join("master.key")).expect("a key");
        Self {
            process,
            folder,
            url,
            secrets: vec![token.clone(), master_key.trim().to_owned()],
            token,
            client,
            said: Vec::new(),
        }
    }

    async fn ask(&mut self, method: Method, path: &str, body: &Value) -> Value {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let request = request.bearer_auth(&self.token);
        let request = request.header("content-type", "application/json");
        let answer = request.body(body.to_string()).send().await;
        let answer = answer.expect("an answer");
        let text = format!("{path} {:?} ", answer.headers());
        let body = answer.text().await.expect("a body");
        self.said.push(text + &body);
        serde_json::from_str(&body).unwrap_or_default()
    }

    async fn get(&mut self, path: &str) -> Value {
        self.ask(Method::GET, path, &Value::Null).await
    }

    async fn subscribe(&mut self, name: &str, properties: &Value) {
        let body = json!({"properties": {"destination":
            {"endpointType": "WebHook", "properties": properties}}});
        let path = format!("/topics/orders/eventSubscriptions/{name}");
        let shown = self.ask(Method::PUT, &path, &body).await;
        assert_eq!(shown["name"], name, "{shown}");
    }

    fn run(&mut self, line: &str) {
        let ran = everpost(self.folder.path()).args(line.split(' ')).output();
        let ran = ran.expect("it runs");
        for said in [ran.stdout, ran.stderr] {
            let said = String::from_utf8_lossy(&said);
            self.said.push(format!("everpost {line}: {said}"));
        }
    }

    /// Stops it and looks through everything.
    fn look_for_secrets(mut self) {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("it has ended");
        self.secrets.push(MARK.to_owned());
        let log = fs::read_to_string(self.folder.path().join("log")).expect("the log");
        assert!(
            log.contains("DEBUG"),
            "the log is as talkative as it should be: {log}"
        );
        self.said.push(log);
        for said in &self.said {
            let found = self.secrets.iter().find(|secret| said.contains(*secret));
            assert!(found.is_none(), "{found:?} is in: {said}");
        }
        for entry in fs::read_dir(self.folder.path().join("data")).expect("the data") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() || KEY_FILES.contains(&&*name) {
                continue;
            }
            let bytes = fs::read(&path).expect("a file");
            let text = String::from_utf8_lossy(&bytes); // searched in a fraction of the time that bytes take
            for secret in &self.secrets {
                assert!(!text.contains(secret), "{secret} stands in {name}");
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn everpost(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everpost"));
    command.env("EVERPOST_DATA_DIR", folder.join("data"));
    command.stdin(Stdio::null());
    command
}

async fn eventually<T>(question: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..6_000 {
        if let Some(answer) = question().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it has taken a minute");
}

async fn receiver(answers: &str) -> WebhookReceiver {
    let answers = answers.parse().expect("a script");
    WebhookReceiver::bind(ReceiverOptions::scripted(answers))
        .await
        .expect("a receiver")
}

/// An authorization server that gives a marked token, or shows what it was sent.
async fn authorization_server() -> SocketAddr {
    let token = async || Json(json!({"access_token": format!("{MARK}-access")}));
    let reject = async |body: String| (axum::http::StatusCode::BAD_REQUEST, body);
    let routes = Router::new()
        .route("/token", post(token))
        .route("/reject", post(reject));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

#[tokio::test]
async fn no_secret_comes_out_anywhere() {
    let mut watched = Watched::start().await;
    let topic = json!({"location": "local"});
    watched.ask(Method::PUT, "/topics/orders", &topic).await;
    // This one answer is meant to show keys.
    let keys = watched
        .ask(Method::POST, "/topics/orders/listKeys", &Value::Null)
        .await;
    watched.said.pop();
    for name in ["key1", "key2"] {
        watched
            .secrets
            .push(keys[name].as_str().expect("a key").to_owned());
    }

    let (good, bad) = (receiver("200").await, receiver("400").await);
    let server = authorization_server().await;
    let marked = |receiver: &WebhookReceiver| format!("{}/in?code={MARK}-query", receiver.url());
    let client = |path: &str, place: &str| {
        json!({"type": "ClientCredentials", "tokenUrl": format!("http://{server}/{path}"),
            "clientId": "c", "clientSecret": format!("{MARK}-client"), "sentIn": place})
    };
    let header = json!([{"name": "X-Key", "type": "Static",
        "properties": {"value": format!("{MARK}-header"), "isSecret": true}}]);
    // "CANARY" is base64 as well.
    let signing = format!("whsec_{MARK}{}", "A".repeat(26));
    let basic = json!({"type": "Basic", "username": "ada", "password": format!("{MARK}-password")});
    let bearer = json!({"type": "Bearer", "token": format!("{MARK}-bearer")});
    watched
        .subscribe(
            "good",
            &json!({"endpointUrl": marked(&good), "authentication": basic,
            "deliveryAttributeMappings": header, "signingSecrets": [{"secret": signing}]}),
        )
        .await;
    watched
        .subscribe(
            "bad",
            &json!({"endpointUrl": marked(&bad), "authentication": bearer}),
        )
        .await;
    watched
        .subscribe(
            "token",
            &json!({"endpointUrl": marked(&good), "authentication": client("token", "Body")}),
        )
        .await;
    let identity = rcgen::generate_simple_self_signed(["everpost.test".to_owned()]).expect("one");
    let key = identity.signing_key.serialize_pem();
    let key_line = key.lines().nth(1).expect("a line").to_owned();
    watched.secrets.push(key_line);
    watched
        .subscribe(
            "rejected",
            &json!({"endpointUrl": marked(&good), "skipValidation": true,
            "authentication": client("reject", "Body")}),
        )
        .await;
    watched
        .subscribe(
            "secure",
            &json!({"endpointUrl": marked(&good).replace("http:", "https:"),
            "skipValidation": true, "authentication": client("reject", "Header"),
            "clientCertificate": {"certificate": identity.cert.pem(), "key": key}}),
        )
        .await;
    watched
        .subscribe(
            "unknown",
            &json!({"endpointUrl": format!("http://nowhere.invalid/?code={MARK}"),
            "skipValidation": true, "authentication": bearer, "maxEventsPerBatch": 2}),
        )
        .await;
    let wrong = json!({"properties": {"destination": {"endpointType": "WebHook", "properties":
        {"endpointUrl": format!("{MARK}://x?code={MARK}"), "authentication": bearer,
         "signingSecrets": [{"secret": MARK}]}}}});
    let path = "/topics/orders/eventSubscriptions/wrong";
    assert!(watched.ask(Method::PUT, path, &wrong).await["error"].is_object());

    publish(&watched, &keys).await;
    // Every subscription has been tried by now, and the good webhook has what was meant for it.
    let events = eventually(async || {
        let events = watched
            .client
            .get(format!("{}/everpost/events/1", watched.url));
        let events = events.bearer_auth(&watched.token).send().await.ok()?;
        let event: Value = serde_json::from_str(&events.text().await.ok()?).ok()?;
        let deliveries = event["deliveries"].as_array()?.clone();
        let tried = |each: &&Value| each["deliveryAttempts"][0].is_object();
        (deliveries.iter().filter(tried).count() == 6).then_some(event)
    })
    .await;
    watched.said.push(events.to_string());
    let seen = format!("{:?}", good.requests_after(0).await);
    for secret in ["query", "header", "access"] {
        assert!(
            seen.contains(&format!("{MARK}-{secret}")),
            "{secret} is sent: {seen}"
        );
    }
    assert!(
        seen.contains("webhook-signature") && seen.contains("Basic "),
        "{seen}"
    );

    let chat = json!({"type": "WebHook", "format": "Slack", "endpointUrl": marked(&bad),
        "token": format!("{MARK}-chat")});
    let mail = json!({"type": "Email", "host": "127.0.0.1", "port": 9, "from": "a@b.test", "to": ["c@d.test"],
        "username": "u", "password": format!("{MARK}-mail")});
    for (name, channel) in [("chat", chat), ("mail", mail)] {
        let path = format!("/everpost/alerts/channels/{name}");
        let shown = watched.ask(Method::PUT, &path, &channel).await;
        assert_eq!(shown["name"], name, "{shown}");
        let path = format!("{path}/test");
        let tested = watched.ask(Method::POST, &path, &Value::Null).await;
        assert_eq!(tested["sent"], false, "{tested}");
    }

    let user = json!({"name": "ann", "role": "admin", "password": format!("{MARK}-of-ann")});
    watched.ask(Method::POST, "/everpost/users", &user).await;
    let token = json!({"name": "ci", "role": "viewer"});
    // This one answer is meant to show the token.
    let made = watched.ask(Method::POST, "/everpost/tokens", &token).await;
    watched.said.pop();
    let token = made["token"].as_str().expect("a token").to_owned();
    watched.secrets.push(token);

    for path in [
        "/everpost/users",
        "/everpost/tokens",
        "/everpost/alerts/channels",
        "/everpost/alerts/channels/mail",
        "/everpost/alerts/messages",
        "/everpost/audit",
        "/topics",
        "/topics/orders",
        "/topics/orders/eventSubscriptions",
        "/topics/orders/eventSubscriptions/good",
        "/everpost/events",
        "/everpost/deadLetters",
        "/everpost/deadLetters/2",
        "/metrics",
        "/readyz",
        "/nowhere",
    ] {
        watched.get(path).await;
    }
    let path = "/everpost/supportBundle";
    let bundle = watched.ask(Method::POST, path, &Value::Null).await;
    let count = |pointer: &str| {
        bundle
            .pointer(pointer)
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    };
    assert_eq!(count("/eventSubscriptions"), 6, "{bundle}");
    assert!(count("/log") > 10 && count("/settings") > 20, "{bundle}");
    let subscriptions = bundle["eventSubscriptions"].to_string();
    assert!(
        !subscriptions.contains("/in\""),
        "no path of a webhook: {subscriptions}"
    );
    for verb in [
        "getDeliveryAttributes",
        "listSigningSecrets",
        "validate",
        "pause",
        "resume",
    ] {
        let path = format!("/topics/orders/eventSubscriptions/good/{verb}");
        watched.ask(Method::POST, &path, &Value::Null).await;
    }
    for line in [
        "topics list",
        "topics show orders --json",
        "subscriptions list --json",
        "subscriptions list",
        "subscriptions show good --topic orders",
        "subscriptions show secure --topic orders --json",
        "subscriptions signing-secrets good --topic orders",
        "subscriptions update good --topic orders --label a",
        "events list",
        "events show 1",
        "events show 1 --json",
        "dead-letters list",
        "dead-letters list --json",
        "config show --origin",
        "admin list --json",
        "token list",
        "alerts channels list",
        "alerts channels show chat --json",
        "alerts channels test mail",
        "audit",
        "support-bundle --output -",
    ] {
        watched.run(line);
    }
    let path = "/topics/orders/eventSubscriptions/good";
    watched.ask(Method::DELETE, path, &Value::Null).await;
    watched.look_for_secrets();
    good.stop().await;
    bad.stop().await;
}

/// With the key in a header and in the query, and with wrong ones, which are no less secret.
async fn publish(watched: &Watched, keys: &Value) {
    let event = json!([{"id": "1", "subject": "/s", "eventType": "T", "dataVersion": "1",
        "eventTime": "2026-11-21T06:40:53Z", "data": {}}]);
    let endpoint = format!("{}/topics/orders/api/events", watched.url);
    let key1 = keys["key1"].as_str().expect("a key");
    let key2 = keys["key2"].as_str().expect("a key").replace('+', "%2B");
    for (url, key, expected) in [
        (endpoint.clone(), key1, 200),
        (format!("{endpoint}?aeg-sas-key={key2}"), "", 200),
        (endpoint.clone(), "CANARY-key", 401),
        (format!("{endpoint}?aeg-sas-key={MARK}"), "", 401),
    ] {
        let mut request = watched.client.post(url).body(event.to_string());
        if !key.is_empty() {
            request = request.header("aeg-sas-key", key);
        }
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), expected);
        let body = answer.text().await.expect("a body");
        assert!(!body.contains(MARK), "{body}");
    }
}
