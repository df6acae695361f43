//! Requests to a server, and its refusals in words.

use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode, redirect, retry};
use serde_json::Value;
use url::Url;

use crate::app::cli::output;
use crate::app::cli::server::Server;
use crate::app::cli::table::printable;
use crate::base::{Clock, Timestamp};

/// How long a connection may take to be made.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// How long an answer may take: a handshake with a slow receiver is waited for.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// Bytes of an answer: the largest event, with its deliveries and their answers.
const ANSWER_MAX: usize = 64 * 1_024 * 1_024;

/// Talks to one server.
#[derive(Debug)]
pub(super) struct Client {
    server: Server,
    http: reqwest::Client,
}

impl Client {
    pub(super) fn new(server: Server) -> anyhow::Result<Self> {
        let builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .connect_timeout(CONNECT_DEADLINE)
            .timeout(ANSWER_DEADLINE);
        // Looking for the system's certificates fails where there are none, as in an empty container.
        let builder = match server.url.scheme() {
            "https" => builder,
            _ => builder.tls_certs_only([]),
        };
        let http = builder.build().context("cannot prepare requests")?;
        Ok(Self { server, http })
    }

    /// GETs the resource at the path of these segments.
    pub(super) async fn get(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> anyhow::Result<Value> {
        let mut url = self.url(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.manage(self.http.get(url)).await
    }

    /// GETs a resource as the text that it is: parsing would round long numbers.
    pub(super) async fn get_text(&self, path: &[&str]) -> anyhow::Result<String> {
        let answer = self.manage_text(self.http.get(self.url(path))).await?;
        String::from_utf8(answer).with_context(|| self.no_json())
    }

    /// Changes or acts upon a resource. An empty answer is `null`.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        match body {
            Some(body) => self.send_text(method, path, body.to_string()).await,
            None => self.manage(self.http.request(method, self.url(path))).await,
        }
    }

    /// The same with JSON that is not parsed before, which would round long numbers.
    pub(super) async fn send_text(
        &self,
        method: Method,
        path: &[&str],
        json: String,
    ) -> anyhow::Result<Value> {
        let request = self.http.request(method, self.url(path));
        let request = request.header(CONTENT_TYPE, "application/json").body(json);
        self.manage(request).await
    }

    /// Acts upon what these parameters say.
    pub(super) async fn post(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> anyhow::Result<Value> {
        let mut url = self.url(path);
        url.query_pairs_mut().extend_pairs(query);
        self.manage(self.http.post(url)).await
    }

    /// The same with a body of JSON as it is.
    pub(super) async fn post_bytes(
        &self,
        path: &[&str],
        query: &[(&str, String)],
        body: Vec<u8>,
    ) -> anyhow::Result<Value> {
        let mut url = self.url(path);
        url.query_pairs_mut().extend_pairs(query);
        let request = self.http.post(url).header(CONTENT_TYPE, "application/json");
        self.manage(request.body(body)).await
    }

    /// Deletes the resource at the path of these segments.
    pub(super) async fn delete(&self, path: &[&str], query: &[(&str, &str)]) -> anyhow::Result<()> {
        let mut url = self.url(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.manage(self.http.delete(url)).await.map(drop)
    }

    /// Publishes a body of events to the path of a topic, with one of its keys.
    pub(super) async fn publish(
        &self,
        path: &[impl AsRef<str>],
        key: &str,
        content_type: &str,
        body: String,
    ) -> anyhow::Result<()> {
        let request = self.http.post(self.url(path));
        let request = request.header(CONTENT_TYPE, content_type).body(body);
        self.exchange_by_key(request, key).await.map(drop)
    }

    /// Receives events from the path of a pulled subscription, or settles them, with a key of the topic.
    /// Returns the answer as the text that it is.
    pub(super) async fn pull(
        &self,
        path: &[impl AsRef<str>],
        query: &[(&str, String)],
        key: &str,
        body: String,
    ) -> anyhow::Result<String> {
        let mut url = self.url(path);
        url.query_pairs_mut().extend_pairs(query);
        let request = self.http.post(url).body(body);
        let request = request.header(CONTENT_TYPE, "application/json");
        let answer = self.exchange_by_key(request, key).await?;
        String::from_utf8(answer).with_context(|| self.no_json())
    }

    async fn exchange_by_key(&self, request: RequestBuilder, key: &str) -> anyhow::Result<Vec<u8>> {
        let mut key = HeaderValue::from_str(key).context("the key does not fit into a header")?;
        key.set_sensitive(true);
        let (status, answer) = self.transport(request.header("aeg-sas-key", key)).await?;
        match status {
            StatusCode::OK => Ok(answer),
            StatusCode::UNAUTHORIZED => {
                bail!("the server refuses the key: {}", refusal(status, &answer))
            }
            _ => bail!(refusal(status, &answer)),
        }
    }

    /// Asks an open path how things stand, with a deadline of its own.
    pub(super) async fn probe(
        &self,
        path: &str,
        deadline: Duration,
    ) -> anyhow::Result<(StatusCode, Vec<u8>)> {
        self.transport(self.http.get(self.url(&[path])).timeout(deadline))
            .await
    }

    /// What the server's clock says, to the second below; ours where it does not tell.
    pub(super) async fn server_time(&self) -> anyhow::Result<Timestamp> {
        let answer = self.http.get(self.url(&["healthz"])).send().await;
        let answer = answer.map_err(|error| self.unreachable(&error))?;
        let date = answer
            .headers()
            .get(DATE)
            .and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
        Ok(date.map_or_else(|| Clock::system().now(), Timestamp::from_system))
    }

    async fn manage(&self, request: RequestBuilder) -> anyhow::Result<Value> {
        let answer = self.manage_text(request).await?;
        match answer.is_empty() {
            true => Ok(Value::Null),
            false => serde_json::from_slice(&answer).with_context(|| self.no_json()),
        }
    }

    async fn manage_text(&self, request: RequestBuilder) -> anyhow::Result<Vec<u8>> {
        let request = request.header(AUTHORIZATION, self.bearer()?);
        let (status, answer) = self.transport(request).await?;
        if status == StatusCode::UNAUTHORIZED {
            bail!(
                "the server at {} refuses the management token from {}",
                self.server.url,
                self.server.token_origin
            );
        }
        if !status.is_success() {
            bail!(refusal(status, &answer));
        }
        Ok(answer)
    }

    fn no_json(&self) -> String {
        format!(
            "the answer of {} is no JSON; is it an Everpost server?",
            self.server.url
        )
    }

    fn bearer(&self) -> anyhow::Result<HeaderValue> {
        let Some(token) = &self.server.token else {
            bail!(
                "no management token: {} is not there or not readable; set EVERPOST_MANAGEMENT_TOKEN \
                 or name its file with --management-token-file",
                self.server.token_origin
            );
        };
        let bearer = format!("Bearer {}", token.reveal());
        let mut bearer = HeaderValue::from_str(&bearer).with_context(|| {
            format!(
                "the management token from {} is unfit",
                self.server.token_origin
            )
        })?;
        bearer.set_sensitive(true);
        Ok(bearer)
    }

    async fn transport(&self, request: RequestBuilder) -> anyhow::Result<(StatusCode, Vec<u8>)> {
        let response = request
            .send()
            .await
            .map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let answer = bounded(response).await;
        Ok((status, answer.map_err(|error| self.unreachable(&error))?))
    }

    fn unreachable(&self, error: &reqwest::Error) -> anyhow::Error {
        let Server {
            url, url_origin, ..
        } = &self.server;
        if error.is_connect() {
            return anyhow::anyhow!(
                "no server answers at {url} (named by {url_origin}): start it with `everpost serve` \
                 or name another with --url ({})",
                innermost(error)
            );
        }
        if error.is_timeout() {
            return anyhow::anyhow!("the server at {url} does not answer in time");
        }
        anyhow::anyhow!(
            "the exchange with the server at {url} failed: {}",
            innermost(error)
        )
    }

    fn url(&self, path: &[impl AsRef<str>]) -> Url {
        let mut url = self.server.url.clone();
        url.path_segments_mut()
            .expect("http URLs have paths")
            .pop_if_empty()
            .extend(path.iter().map(AsRef::as_ref));
        url
    }
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

/// Azure's error body in one line: the message and, where they say more, the details.
fn refusal(status: StatusCode, answer: &[u8]) -> String {
    let body: Value = serde_json::from_slice(answer).unwrap_or_default();
    let message = output::text(&body, "/error/message");
    let details = output::items(&body, "/error/details").iter();
    let details = details.map(|detail| output::text(detail, "/message"));
    let mut said: Vec<String> = Vec::new();
    for text in std::iter::once(message).chain(details) {
        let text = without_report(&text).to_owned();
        if !text.is_empty() && !said.contains(&text) {
            said.push(text);
        }
    }
    match said.is_empty() {
        true => format!("the server answers {status}"),
        false => format!("{} ({})", said.join("; "), status.as_u16()),
    }
}

/// Messages end in a number to report, as Azure's do; whoever sits at a terminal is the one to report to.
fn without_report(message: &str) -> &str {
    message
        .split_once(" Report '")
        .map_or(message, |(message, _)| message)
}

#[cfg(test)]
pub(super) mod tests {
    use axum::Router;
    use axum::routing::get;

    use super::*;
    use crate::app::receive::{Receiver, ReceiverOptions};
    use crate::model::access::Secret;

    fn client(url: &str) -> Client {
        let server = Server {
            url: Url::parse(url).expect("a URL"),
            url_origin: "--url".to_owned(),
            token: None,
            token_origin: "somewhere".to_owned(),
        };
        Client::new(server).expect("a client")
    }

    /// A client of a server with these routes.
    pub(in crate::app::cli) async fn serving(router: Router) -> Client {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async { axum::serve(listener, router).await });
        let mut client = client(&url);
        client.server.token = Some(Secret::new("sesame"));
        client
    }

    #[test]
    fn names_in_paths_are_escaped() {
        let path = ["topics", "a/b?c", "listKeys"];
        let url = client("http://h:1").url(&path);
        assert_eq!(url.as_str(), "http://h:1/topics/a%2Fb%3Fc/listKeys");
        assert_eq!(
            client("http://h:1/").url(&["topics"]).as_str(),
            "http://h:1/topics"
        );
    }

    #[test]
    fn refusals_are_told_in_the_servers_words() {
        let check = |status: u16, body: &str, expected: &str| {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(refusal(status, body.as_bytes()), expected);
        };
        let same = r#"{"error":{"code":"NotFound","message":"no topic","details":[{"code":"NotFound","message":"no topic"}]}}"#;
        check(404, same, "no topic (404)");
        let more = r#"{"error":{"code":"Bad","message":"one","details":[{"message":"two"}]}}"#;
        check(400, more, "one; two (400)");
        let reported = r#"{"error":{"message":"no topic. Report '1:0:now' to the operator."}}"#;
        check(404, reported, "no topic. (404)");
        check(502, "<html>", "the server answers 502 Bad Gateway");
        check(
            400,
            r#"{"error":{"message":"\u001b[31m"}}"#,
            "\\u{1b}[31m (400)",
        );
    }

    #[tokio::test]
    async fn answers_are_told_apart() {
        let check = async |answer, expected: &str| {
            let (status, body): (u16, &'static str) = answer;
            let status = StatusCode::from_u16(status).expect("a status");
            let handler = move || async move { (status, body) };
            let client = serving(Router::new().route("/topics", get(handler))).await;
            let told = match client.get(&["topics"], &[]).await {
                Ok(value) => value.to_string(),
                Err(error) => error.to_string().replace(client.server.url.as_str(), "URL"),
            };
            assert_eq!(told, expected);
        };
        check((200, "{\"value\":[]}"), "{\"value\":[]}").await;
        check((202, ""), "null").await;
        check(
            (200, "<html>"),
            "the answer of URL is no JSON; is it an Everpost server?",
        )
        .await;
        let refused = "the server at URL refuses the management token from somewhere";
        check((401, "{}"), refused).await;
        check((404, "{\"error\":{\"message\":\"no\"}}"), "no (404)").await;
        check((302, ""), "the server answers 302 Found").await;
    }

    #[tokio::test]
    async fn keys_are_refused_in_other_words_than_tokens() {
        let receiver = Receiver::bind(ReceiverOptions::scripted(
            "200 401 413".parse().expect("valid"),
        ));
        let receiver = receiver.await.expect("a port");
        let client = client(&receiver.url());
        let mut told = Vec::new();
        for _ in 0..3 {
            let sent = client
                .publish(
                    &["topics", "orders", "api", "events"],
                    "k=1",
                    "application/json",
                    "[]".to_owned(),
                )
                .await;
            told.push(sent.map_err(|error| error.to_string()));
        }
        let refused = "the server refuses the key: the server answers 401 Unauthorized".to_owned();
        let too_large = "the server answers 413 Payload Too Large".to_owned();
        assert_eq!(told, [Ok(()), Err(refused), Err(too_large)]);
        let request = &receiver.requests()[0];
        assert_eq!(request.path, "/topics/orders/api/events");
        assert_eq!(request.header("aeg-sas-key"), Some("k=1"));
    }

    #[tokio::test]
    async fn a_silent_port_and_a_missing_token_are_explained() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        drop(listener);
        let error = client(&url)
            .probe("readyz", CONNECT_DEADLINE)
            .await
            .expect_err("nobody there");
        let text = format!("{error:#}");
        assert!(
            text.starts_with(&format!(
                "no server answers at {url}/ (named by --url): start it"
            )),
            "{text}"
        );
        let error = client(&url)
            .get(&["topics"], &[])
            .await
            .expect_err("no token");
        assert!(
            error
                .to_string()
                .starts_with("no management token: somewhere is not there")
        );
    }
}
