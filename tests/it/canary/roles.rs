//! Every page and every answer of the API, looked at as every role: nobody sees a secret, and viewers see
//! nothing of what events carry, not even where a receiver sends it back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;

use super::*;

/// What is in every part of an event that is its data.
const DATUM: &str = "DATUM";

/// Pages and answers that each role is to have seen at least; a crawl that stops early sees nothing wrong.
const SEEN_MIN: usize = 60;

const PASSWORD: &str = "correct horse battery";

/// Sends back everything that it is sent, as a body and as a header, and dead-letters what says so.
async fn echo(request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await;
    let body = String::from_utf8_lossy(&body.unwrap_or_default()).into_owned();
    let code = body.split("\"validationCode\":\"").nth(1);
    if let Some(code) = code.and_then(|rest| rest.split('"').next()) {
        return Json(json!({ "validationResponse": code })).into_response();
    }
    let said = format!("{} {:?} {body}", parts.uri, parts.headers);
    let line: String = said.chars().filter(|c| !c.is_control()).collect();
    let mut headers = vec![("x-echo", line.clone())];
    if parts.uri.path() == "/reject" {
        headers.push(("everpost-dead-letter-reason", "BadOrder".to_owned()));
        headers.push(("everpost-dead-letter-description", line));
    }
    let headers = axum::response::AppendHeaders(headers);
    (axum::http::StatusCode::BAD_REQUEST, headers, said).into_response()
}

/// An authorization server that shows the client's secret as the code of an error.
async fn leak(body: String) -> Response {
    let secret = body.split("client_secret=").nth(1).unwrap_or_default();
    let code = json!({ "error": secret.split('&').next() });
    (axum::http::StatusCode::BAD_REQUEST, Json(code)).into_response()
}

async fn server() -> SocketAddr {
    let token = async || Json(json!({"access_token": format!("{MARK}-access")}));
    let routes = Router::new()
        .route("/token", post(token))
        .route("/leak", post(leak))
        .fallback(any(echo));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

/// Somebody with a browser that follows no redirects.
struct Browser {
    client: Client,
    url: String,
    cookies: BTreeMap<String, String>,
}

impl Browser {
    async fn signed_in(url: &str, name: &str) -> Self {
        let client = Client::builder().no_proxy().redirect(Policy::none());
        let mut browser = Self {
            client: client.build().expect("a client"),
            url: url.to_owned(),
            cookies: BTreeMap::new(),
        };
        let form = browser.open("/admin/login").await;
        let token = form.split("name=\"csrf\" value=\"").nth(1).expect("a form");
        let token = token.split('"').next().expect("a token");
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("csrf", token), ("name", name), ("password", PASSWORD)])
            .finish();
        let request = browser.client.post(format!("{url}/admin/login")).body(body);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        browser.send(request).await;
        browser
    }

    async fn open(&mut self, path: &str) -> String {
        let request = self.client.get(format!("{}{path}", self.url));
        self.send(request).await
    }

    /// Head and body of the answer.
    async fn send(&mut self, request: reqwest::RequestBuilder) -> String {
        let cookies = self.cookies.iter();
        let cookies: Vec<_> = cookies
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let answer = request.header(COOKIE, cookies.join("; ")).send().await;
        let answer = answer.expect("an answer");
        for cookie in answer.headers().get_all(SET_COOKIE) {
            let cookie = cookie.to_str().expect("a cookie");
            let (name, value) = cookie.split_once('=').expect("a name");
            let value = value.split(';').next().unwrap_or_default();
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        let location = answer.headers().get(LOCATION).map(|to| format!("{to:?}"));
        let head = format!("{} {}", answer.status(), location.unwrap_or_default());
        format!("{head}\n{}", answer.text().await.expect("a body"))
    }

    /// Every page that is linked, and the `others`; by their addresses.
    async fn crawl(&mut self, others: &BTreeSet<String>) -> BTreeMap<String, String> {
        let mut pages = BTreeMap::new();
        let mut to_open: VecDeque<String> = others.iter().cloned().collect();
        to_open.push_back("/admin".to_owned());
        while let Some(path) = to_open.pop_front() {
            // The stream of changes never ends, and tells numbers alone.
            if path.starts_with("/admin/live") || pages.contains_key(&path) {
                continue;
            }
            let page = self.open(&path).await;
            let links = page.split("href=\"").skip(1);
            let links = links.filter_map(|rest| rest.split(['"', '#']).next());
            let links = links.filter(|link| link.starts_with("/admin"));
            to_open.extend(links.map(|link| link.replace("&amp;", "&").replace("&#38;", "&")));
            pages.insert(path, page);
        }
        pages
    }
}

/// The paths of everything that can be read, with something that there is in the place of each parameter.
fn readable(document: &Value) -> Vec<String> {
    let paths = document["paths"].as_object().expect("paths").iter();
    let paths = paths.filter(|(_, verbs)| verbs["get"].is_object());
    let filled = paths.map(|(path, _)| {
        let names = [
            ("{topic}", "orders"),
            ("{name}", "rejects"),
            ("{namespace}", "space"),
        ];
        let path = names.iter().fold(path.clone(), |path, (name, value)| {
            path.replace(name, value)
        });
        let parts = path.split('/').map(|part| match part.starts_with('{') {
            true => "1",
            false => part,
        });
        parts.collect::<Vec<_>>().join("/")
    });
    filled.collect()
}

async fn furnish(watched: &mut Watched, server: SocketAddr) {
    let topic = json!({"location": "local"});
    watched.ask(Method::PUT, "/topics/orders", &topic).await;
    let client = |path: &str| {
        json!({"type": "ClientCredentials", "tokenUrl": format!("http://{server}/{path}?k={MARK}-token-url"),
            "clientId": "c", "clientSecret": format!("{MARK}-client"), "sentIn": "Body"})
    };
    let basic = json!({"type": "Basic", "username": "ada", "password": format!("{MARK}-password")});
    // printf 'ada:CANARY-password' | base64
    watched
        .secrets
        .push("YWRhOkNBTkFSWS1wYXNzd29yZA==".to_owned());
    let bearer = json!({"type": "Bearer", "token": format!("{MARK}-bearer")});
    let headers = json!([
        {"name": "X-Key", "type": "Static",
            "properties": {"value": format!("{MARK}-header"), "isSecret": true}},
        {"name": "X-Datum", "type": "Dynamic", "properties": {"sourceField": "data.secret"}}]);
    let filters =
        json!([{"operatorType": "StringContains", "key": "data.secret", "values": ["D"]}]);
    let strict = json!([{"operatorType": "StringIn", "key": "data.secret", "values": ["other"]}]);
    for (name, path, authentication, filters) in [
        ("echoes", "/in", basic, &filters),
        ("rejects", "/reject", bearer, &filters),
        ("fetches", "/in", client("token"), &filters),
        ("leaks", "/in", client("leak"), &filters),
        ("misses", "/in", Value::Null, &strict),
    ] {
        let mut webhook = json!({"endpointUrl": format!("http://{server}{path}?code={MARK}-query&x=1"),
            "deliveryAttributeMappings": headers, "skipValidation": true});
        if !authentication.is_null() {
            webhook["authentication"] = authentication;
        }
        let body = json!({"properties": {"filter": {"advancedFilters": filters},
            "destination": {"endpointType": "WebHook", "properties": webhook}}});
        let path = format!("/topics/orders/eventSubscriptions/{name}");
        let shown = watched.ask(Method::PUT, &path, &body).await;
        assert_eq!(shown["name"], name, "{shown}");
    }
    let namespace = json!({"location": "local"});
    watched
        .ask(Method::PUT, "/namespaces/space", &namespace)
        .await;
}

/// Publishes an event that every subscription but one gets, and one that is rejected.
async fn publish_data(watched: &mut Watched) {
    let event = |subject: Value| {
        json!([{"id": "1", "subject": subject, "eventType": "T", "dataVersion": "1",
            "eventTime": "2026-11-21T06:40:53Z", "data": {"secret": format!("{DATUM}-1")}}])
    };
    for subject in [json!("/s"), json!({"a": 1})] {
        let path = "/topics/orders/api/events";
        watched.ask(Method::POST, path, &event(subject)).await;
    }
    eventually(async || {
        let url = format!("{}/everpost/events/1", watched.url);
        let event = watched.client.get(url).bearer_auth(&watched.token);
        let event: Value =
            serde_json::from_str(&event.send().await.ok()?.text().await.ok()?).ok()?;
        let deliveries = event["deliveries"].as_array()?;
        let tried = |each: &&Value| each["deliveryAttempts"][0].is_object();
        (deliveries.iter().filter(tried).count() == 4).then_some(())
    })
    .await;
}

#[tokio::test]
async fn no_role_sees_more_than_it_may() {
    let mut watched = Watched::start().await;
    furnish(&mut watched, server().await).await;
    publish_data(&mut watched).await;
    let document = watched.get("/openapi.json").await;
    let mut addresses = BTreeSet::new();
    let mut seen: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    // The strongest first: the others are to ask for whatever it was offered.
    for role in ["admin", "operator", "viewer"] {
        let user = json!({"name": role, "role": role, "password": PASSWORD});
        watched.ask(Method::POST, "/everpost/users", &user).await;
        let made = json!({"name": role, "role": role});
        let made = watched.ask(Method::POST, "/everpost/tokens", &made).await;
        watched.said.pop();
        let token = made["token"].as_str().expect("a token").to_owned();
        watched.secrets.push(token.clone());
        let mut browser = Browser::signed_in(&watched.url, role).await;
        let mut all = browser.crawl(&addresses).await;
        addresses.extend(all.keys().cloned());
        for path in readable(&document) {
            let request = watched
                .client
                .get(format!("{}{path}", watched.url))
                .bearer_auth(&token);
            let answer = request.send().await.expect("an answer").text().await;
            all.insert(path, answer.expect("a body"));
        }
        for list in ["events", "deadLetters"] {
            let path = format!("/everpost/{list}?text={DATUM}");
            let request = watched
                .client
                .get(format!("{}{path}", watched.url))
                .bearer_auth(&token);
            let found = request
                .send()
                .await
                .expect("an answer")
                .text()
                .await
                .expect("a body");
            let is_found = found.contains("\"eventType\"");
            assert_eq!(
                is_found,
                role != "viewer",
                "{role} searches {list}: {found}"
            );
        }
        assert!(all.len() >= SEEN_MIN, "{role} has seen only {}", all.len());
        watched.said.extend(
            all.iter()
                .map(|(path, page)| format!("{role} {path}: {page}")),
        );
        seen.insert(role, all);
    }
    let with_data = |role: &str| {
        let pages = seen[role].iter().filter(|(_, page)| page.contains(DATUM));
        pages.map(|(path, _)| path.clone()).collect::<Vec<_>>()
    };
    let open = with_data("operator");
    for page in [
        "/admin/events/1",
        "/everpost/events/1",
        "/everpost/events/1/explanations",
    ] {
        assert!(
            open.iter().any(|path| path == page),
            "{page} shows data to operators: {open:?}"
        );
    }
    assert_eq!(with_data("viewer"), [""; 0], "viewers see data");
    watched.look_for_secrets();
}
