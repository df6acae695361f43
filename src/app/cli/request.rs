//! Requests to a server, and its error answers in words.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderName, HeaderValue};
use reqwest::{Certificate, Method, Response, StatusCode, redirect, retry};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use url::Url;

use crate::app::cli::output::{
    Output, Screen, View, items, json_for_stdout, note, print, print_exactly, printable, text,
};
use crate::app::cli::server::{ServerAccess, ServerArgs};
use crate::base::{Clock, Timestamp};

/// How long a connection may take to be made.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// How long an answer may take: a handshake with a slow receiver is waited for.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// Bytes of an answer: the largest event, with its deliveries and their answers.
const ANSWER_MAX: usize = 64 * 1_024 * 1_024;

/// A command that talks to a server.
#[derive(Args, Debug)]
pub(super) struct Remote<C: Args> {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    command: C,
}

/// One of the commands of a group.
#[derive(Args, Debug)]
pub(super) struct CommandGroup<C: Subcommand> {
    #[command(subcommand)]
    command: C,
}

/// The work of a [`Remote`] command.
pub(super) trait Run {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()>;
}

impl<C: Args + Run> Remote<C> {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let server = RemoteServer::new(self.server.find()?, self.output)?;
        self.command.run(&server).await
    }
}

impl<C: Subcommand + Run> Run for CommandGroup<C> {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        self.command.run(server).await
    }
}

/// Asks one server, and prints what it answers.
#[derive(Debug)]
pub(super) struct RemoteServer {
    pub(super) access: ServerAccess,
    pub(super) output: Output,
    http: reqwest::Client,
}

impl RemoteServer {
    pub(super) fn new(access: ServerAccess, output: Output) -> anyhow::Result<Self> {
        let builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .connect_timeout(CONNECT_DEADLINE)
            .timeout(ANSWER_DEADLINE);
        let builder = match (access.url.host_str(), access.over_tls.address) {
            (Some(host), Some(address)) => builder.resolve(host, address),
            _ => builder,
        };
        let authority = access
            .over_tls
            .authority
            .as_deref()
            .map(Certificate::from_pem)
            .transpose()
            .context("the development authority")?;
        // Looking for the system's certificates fails where there are none, as in an empty container.
        let builder = match access.url.scheme() {
            "https" => builder.tls_certs_merge(authority),
            _ => builder.tls_certs_only([]),
        };
        let http = builder.build().context("cannot prepare requests")?;
        Ok(Self {
            access,
            output,
            http,
        })
    }

    /// A request for what stands at the path of these segments.
    pub(super) fn get<S: AsRef<str>>(
        &self,
        path: impl IntoIterator<Item = S>,
    ) -> UnsentRequest<'_> {
        self.request(Method::GET, path)
    }

    pub(super) fn put<S: AsRef<str>>(
        &self,
        path: impl IntoIterator<Item = S>,
    ) -> UnsentRequest<'_> {
        self.request(Method::PUT, path)
    }

    pub(super) fn post<S: AsRef<str>>(
        &self,
        path: impl IntoIterator<Item = S>,
    ) -> UnsentRequest<'_> {
        self.request(Method::POST, path)
    }

    pub(super) fn patch<S: AsRef<str>>(
        &self,
        path: impl IntoIterator<Item = S>,
    ) -> UnsentRequest<'_> {
        self.request(Method::PATCH, path)
    }

    pub(super) fn delete<S: AsRef<str>>(
        &self,
        path: impl IntoIterator<Item = S>,
    ) -> UnsentRequest<'_> {
        self.request(Method::DELETE, path)
    }

    fn request<S: AsRef<str>>(
        &self,
        method: Method,
        path: impl IntoIterator<Item = S>,
    ) -> UnsentRequest<'_> {
        let mut url = self.access.url.clone();
        segments(&mut url).extend(path);
        UnsentRequest {
            server: self,
            method,
            url,
            key: None,
            body: None,
        }
    }

    /// Prints an answer, or what was made of several.
    pub(super) fn show(&self, answer: &Value, view: impl View) -> anyhow::Result<()> {
        Ok(self.output.show(answer, view)?)
    }

    /// Asks an open path how the server is, with a deadline of its own.
    pub(super) async fn probe(
        &self,
        path: &str,
        deadline: Duration,
    ) -> anyhow::Result<(StatusCode, Vec<u8>)> {
        let request = self.http.get(self.get([path]).url).timeout(deadline);
        self.exchange(request).await
    }

    /// Returns the time of the server's clock, rounded down to the second, or of ours if the answer has no `Date`.
    pub(super) async fn time(&self) -> anyhow::Result<Timestamp> {
        let answer = self
            .http
            .get(self.get(["healthz"]).url)
            .send()
            .await
            .map_err(|error| self.unreachable(&error))?;
        let date = answer
            .headers()
            .get(DATE)
            .and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
        Ok(date.map_or_else(|| Clock::system().now(), Timestamp::from_system))
    }

    async fn exchange(
        &self,
        request: reqwest::RequestBuilder,
    ) -> anyhow::Result<(StatusCode, Vec<u8>)> {
        let exchange = async {
            let response = request.send().await?;
            Ok((response.status(), bounded(response).await?))
        };
        exchange.await.map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &reqwest::Error) -> anyhow::Error {
        let ServerAccess {
            url, url_origin, ..
        } = &self.access;
        if error.is_connect() {
            return anyhow!(
                "no server answers at {url} (named by {url_origin}): start it with `everpost serve` \
                 or name another with --url ({})",
                innermost(error)
            );
        }
        if error.is_timeout() {
            return anyhow!("the server at {url} does not answer in time");
        }
        anyhow!(
            "the exchange with the server at {url} failed: {}",
            innermost(error)
        )
    }

    fn bearer(&self) -> anyhow::Result<String> {
        let token = self.access.token.as_ref().with_context(|| {
            format!(
                "no management token: {} is not there or not readable; set EVERPOST_MANAGEMENT_TOKEN \
                 or name its file with --management-token-file",
                self.access.token_origin
            )
        })?;
        Ok(format!("Bearer {}", token.reveal()))
    }
}

/// A request that has not been sent.
#[derive(Clone)]
pub(super) struct UnsentRequest<'a> {
    server: &'a RemoteServer,
    method: Method,
    url: Url,
    /// The key of a topic, in place of the management token.
    key: Option<String>,
    body: Option<(&'static str, Vec<u8>)>,
}

impl UnsentRequest<'_> {
    /// Appends a segment to the path.
    pub(super) fn at(mut self, segment: impl Display) -> Self {
        segments(&mut self.url).push(&segment.to_string());
        self
    }

    /// Adds query parameters: the members of an object that are not `null`.
    pub(super) fn query(mut self, parameters: impl Serialize) -> Self {
        for (name, value) in given(&parameters) {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            self.url.query_pairs_mut().append_pair(&name, &text);
        }
        self
    }

    pub(super) fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    /// Sets a body that is sent as it is: parsing it first would round long numbers.
    pub(super) fn body(mut self, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some((content_type, body.into()));
        self
    }

    /// Uses a key of the topic in place of the management token.
    pub(super) fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Sends it, and prints the answer.
    pub(super) async fn show(self, view: impl View) -> anyhow::Result<()> {
        let server = self.server;
        server.show(&self.send().await?, view)
    }

    /// Sends it, and prints the answer as it came, or what `view` makes of it. `T` may keep long numbers as they
    /// are, which [`Value`] would round.
    pub(super) async fn show_as<T: DeserializeOwned>(
        self,
        view: impl Fn(&T, Screen) -> String,
    ) -> anyhow::Result<()> {
        let server = self.server;
        let answer = self.text().await?;
        if server.output.is_json() {
            return Ok(print_exactly(&json_for_stdout(format!("{answer}\n")))?);
        }
        let answer = serde_json::from_str(&answer).with_context(|| no_json(server))?;
        Ok(print(&view(&answer, Screen::of_stdout()))?)
    }

    /// Sends it, which deletes the thing of this kind and name.
    pub(super) async fn remove(self, kind: &str, name: &str) -> anyhow::Result<()> {
        let server = self.server;
        self.at(name).send().await?;
        let deleted = json!({ "deleted": name });
        server.show(&deleted, |_: &_, _| format!("deleted {kind} {name}\n"))
    }

    /// Sends it, prints the answer, and says whether something of this `name` existed before.
    pub(super) async fn save(self, name: &str, view: impl View) -> anyhow::Result<Value> {
        let server = self.server;
        let before = UnsentRequest {
            method: Method::GET,
            body: None,
            ..self.clone()
        };
        let existed = before.exists().await?;
        let saved = self.send().await?;
        server.show(&saved, view)?;
        if existed {
            note(&format!(
                "note: {name} existed before: it was updated, not created"
            ));
        }
        Ok(saved)
    }

    async fn exists(self) -> anyhow::Result<bool> {
        match self.send().await {
            Ok(_) => Ok(true),
            Err(error) => match error.downcast_ref() {
                Some(Rejected { status, .. }) if *status == StatusCode::NOT_FOUND => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Sends it for every page of a long list, or of long work, until there is no more.
    pub(super) async fn pages(
        self,
        mut each: impl AsyncFnMut(&Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut before: Option<i64> = None;
        loop {
            let page = self
                .clone()
                .query(json!({ "before": before }))
                .send()
                .await?;
            each(&page).await?;
            let next = page["nextBefore"].as_i64();
            // Each page lies below the last: a server that breaks this is not followed in circles.
            match next.filter(|next| before.is_none_or(|before| *next < before)) {
                Some(next) => before = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Sends it. An empty answer is `null`.
    pub(super) async fn send(self) -> anyhow::Result<Value> {
        let server = self.server;
        match self.text().await?.as_str() {
            "" => Ok(Value::Null),
            answer => serde_json::from_str(answer).with_context(|| no_json(server)),
        }
    }

    /// Sends it. The answer is not parsed, which would round long numbers.
    pub(super) async fn text(self) -> anyhow::Result<String> {
        let server = self.server;
        let (name, value) = match &self.key {
            Some(key) => (HeaderName::from_static("aeg-sas-key"), key.clone()),
            None => (AUTHORIZATION, server.bearer()?),
        };
        let unfit = "the key or the management token does not fit into a header";
        let mut value = HeaderValue::from_str(&value).context(unfit)?;
        value.set_sensitive(true);
        let mut request = server
            .http
            .request(self.method, self.url)
            .header(name, value);
        if let Some((content_type, body)) = self.body {
            request = request.header(CONTENT_TYPE, content_type).body(body);
        }
        let (status, answer) = server.exchange(request).await?;
        match (status, self.key) {
            (StatusCode::UNAUTHORIZED, None) => bail!(
                "the server at {} rejects the management token from {}",
                server.access.url,
                server.access.token_origin
            ),
            (StatusCode::UNAUTHORIZED, Some(_)) => {
                bail!(
                    "the server rejects the key: {}",
                    error_text(status, &answer)
                )
            }
            (status, _) if !status.is_success() => bail!(Rejected {
                status,
                text: error_text(status, &answer),
            }),
            _ => String::from_utf8(answer).with_context(|| no_json(server)),
        }
    }
}

/// An error answer.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Rejected {
    status: StatusCode,
    text: String,
}

fn segments(url: &mut Url) -> url::PathSegmentsMut<'_> {
    let mut segments = url.path_segments_mut().expect("http URLs have paths");
    segments.pop_if_empty();
    segments
}

/// The members of an object that are there.
pub(super) fn given(object: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(object) {
        Ok(Value::Object(members)) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .collect(),
        _ => Map::new(),
    }
}

fn no_json(server: &RemoteServer) -> String {
    format!(
        "the answer of {} is not JSON; is it an Everpost server?",
        server.access.url
    )
}

async fn bounded(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut answer = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = ANSWER_MAX - answer.len();
        answer.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if answer.len() == ANSWER_MAX {
            break;
        }
    }
    Ok(answer)
}

fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    printable(&cause.to_string())
}

/// Azure's error body in one line: the message and, where they say more, the details. Messages end in a
/// number to report, as Azure's do, which is left out: whoever sits at a terminal would report to himself.
fn error_text(status: StatusCode, answer: &[u8]) -> String {
    let body: Value = serde_json::from_slice(answer).unwrap_or_default();
    let details = items(&body, "/error/details")
        .iter()
        .map(|detail| text(detail, "/message"));
    let mut parts: Vec<String> = Vec::new();
    for message in std::iter::once(text(&body, "/error/message")).chain(details) {
        let part = message
            .split(" Report '")
            .next()
            .unwrap_or_default()
            .to_owned();
        if !part.is_empty() && !parts.contains(&part) {
            parts.push(part);
        }
    }
    // Service Bus' REST API answers in XML.
    let answer = String::from_utf8_lossy(answer);
    let detail = answer
        .split_once("<Detail>")
        .and_then(|(_, rest)| rest.split_once("</Detail>"));
    parts.extend(detail.map(|(detail, _)| printable(detail)));
    if parts.is_empty() {
        format!("the server answers {status}")
    } else {
        format!("{} ({})", parts.join("; "), status.as_u16())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use axum::Router;
    use axum::routing::get;

    use super::*;
    use crate::app::receive::{ReceiverOptions, WebhookReceiver};
    use crate::model::access::Secret;

    fn server(url: &str) -> RemoteServer {
        let access = ServerAccess {
            url: Url::parse(url).expect("a URL"),
            url_origin: "--url".to_owned(),
            over_tls: Default::default(),
            token: None,
            token_origin: "somewhere".to_owned(),
        };
        RemoteServer::new(access, Output::default()).expect("a client")
    }

    /// A server with these routes.
    pub(in crate::app::cli) async fn serving(router: Router) -> RemoteServer {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async { axum::serve(listener, router).await });
        let mut server = server(&url);
        server.access.token = Some(Secret::new("sesame"));
        server
    }

    #[test]
    fn names_in_paths_and_parameters_are_escaped() {
        let server = server("http://h:1/");
        let request = server.post(["topics", "a/b?c"]).at("listKeys");
        assert_eq!(request.url.as_str(), "http://h:1/topics/a%2Fb%3Fc/listKeys");
        let parameters = json!({ "none": null, "text": "a&b", "limit": 5, "unmatched": true });
        let request = server.get(["x"]).query(parameters);
        let query = "http://h:1/x?limit=5&text=a%26b&unmatched=true";
        assert_eq!(request.url.as_str(), query);
    }

    #[test]
    fn errors_are_shown_in_the_servers_words() {
        let check = |status: u16, body: &str, expected: &str| {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(error_text(status, body.as_bytes()), expected);
        };
        let same = r#"{"error":{"code":"NotFound","message":"no topic","details":[{"code":"NotFound","message":"no topic"}]}}"#;
        check(404, same, "no topic (404)");
        let more = r#"{"error":{"code":"Bad","message":"one","details":[{"message":"two"}]}}"#;
        check(400, more, "one; two (400)");
        let reported = r#"{"error":{"message":"no topic. Report '1:0:now' to the operator."}}"#;
        check(404, reported, "no topic. (404)");
        let in_xml = "<Error><Code>403</Code><Detail>jobs is full.</Detail></Error>";
        check(403, in_xml, "jobs is full. (403)");
        check(502, "<html>", "the server answers 502 Bad Gateway");
        check(
            400,
            r#"{"error":{"message":"\u001b[31m"}}"#,
            "\\u{1b}[31m (400)",
        );
    }

    #[tokio::test]
    async fn answers_and_errors_are_kept_apart() {
        let check = async |answer, expected: &str| {
            let (status, body): (u16, &'static str) = answer;
            let status = StatusCode::from_u16(status).expect("a status");
            let handler = move || async move { (status, body) };
            let server = serving(Router::new().route("/topics", get(handler))).await;
            let found = match server.get(["topics"]).send().await {
                Ok(value) => value.to_string(),
                Err(error) => error.to_string().replace(server.access.url.as_str(), "URL"),
            };
            assert_eq!(found, expected);
        };
        check((200, "{\"value\":[]}"), "{\"value\":[]}").await;
        check((202, ""), "null").await;
        check(
            (200, "<html>"),
            "the answer of URL is not JSON; is it an Everpost server?",
        )
        .await;
        let rejected = "the server at URL rejects the management token from somewhere";
        check((401, "{}"), rejected).await;
        check((404, "{\"error\":{\"message\":\"no\"}}"), "no (404)").await;
        check((302, ""), "the server answers 302 Found").await;
    }

    #[tokio::test]
    async fn keys_are_rejected_in_other_words_than_tokens() {
        let receiver = WebhookReceiver::bind(ReceiverOptions::scripted(
            "200 401 413".parse().expect("valid"),
        ))
        .await
        .expect("a port");
        let server = server(&receiver.url());
        let mut found = Vec::new();
        for _ in 0..3 {
            let request = server
                .post(["topics", "orders", "api", "events"])
                .key("k=1");
            let sent = request.json(&json!([])).send().await;
            found.push(sent.map_err(|error| error.to_string()));
        }
        let rejected = "the server rejects the key: the server answers 401 Unauthorized".to_owned();
        let too_large = "the server answers 413 Payload Too Large".to_owned();
        assert_eq!(found, [Ok(Value::Null), Err(rejected), Err(too_large)]);
        let request = &receiver.requests()[0];
        assert_eq!(request.path, "/topics/orders/api/events");
        assert_eq!(request.header("aeg-sas-key"), Some("k=1"));
    }

    #[tokio::test]
    async fn a_silent_port_and_a_missing_token_are_explained() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        drop(listener);
        let server = server(&url);
        let error = server
            .probe("readyz", CONNECT_DEADLINE)
            .await
            .expect_err("nobody there")
            .to_string();
        let expected = format!("no server answers at {url}/ (named by --url): start it");
        assert!(error.starts_with(&expected), "{error}");
        let error = server.get(["topics"]).send().await.expect_err("no token");
        let expected = "no management token: somewhere is not there";
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
