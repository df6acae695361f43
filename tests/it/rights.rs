//! What keys of Service Bus open over HTTP: what their rule is for, and nothing else.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request, StatusCode};
use everpost::base::Timestamp;
use everpost::model::access::Secret;
use everpost::wire::service_bus::sas;
use serde_json::{Value, json};

use crate::grid::{Grid, SendResult, TOKEN};

const HOST: &str = "bus.test:8080";
const ROOT: &str = "RootManageSharedAccessKey";

/// A key, and the rule that it belongs to.
struct Key {
    rule: &'static str,
    secret: String,
}

/// Two queues, with rules of each and one for all of them.
struct Bus {
    grid: Grid,
    /// Clients that have asked: each from an address of its own, so that none has guessed too often.
    clients: AtomicU32,
}

impl Bus {
    async fn new() -> Self {
        let grid = Grid::new().await;
        for queue in ["evil", "victim"] {
            let path = format!("/queues/{queue}");
            let made = grid
                .manage(Method::PUT, &path, json!({"properties": {}}))
                .await;
            assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
        }
        for (rule, rights) in [("evil%2Fown", "Manage"), ("all", "Listen")] {
            let path = format!("/everpost/accessRules/{rule}");
            let body = json!({ "rights": [rights] });
            let made = grid.manage(Method::PUT, &path, body).await;
            assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
        }
        Self {
            grid,
            clients: AtomicU32::new(0),
        }
    }

    async fn key(&self, rule: &'static str, path: &str) -> Key {
        let path = format!("{path}/listKeys");
        let keys = self.grid.manage(Method::POST, &path, Value::Null).await;
        let secret = keys.json()["key1"].as_str().expect("a key").to_owned();
        Key { rule, secret }
    }

    fn token(&self, key: &Key, resource: &str) -> String {
        let until: Timestamp = "2026-11-21T13:00:00Z".parse().expect("a moment");
        sas::sign(resource, key.rule, until, &Secret::new(&*key.secret))
    }

    async fn ask(&self, ask: (Method, &str), host: &str, token: &str) -> SendResult {
        let client = self.clients.fetch_add(1, Ordering::Relaxed);
        self.ask_from(client, ask, host, token).await
    }

    async fn ask_from(
        &self,
        client: u32,
        ask: (Method, &str),
        host: &str,
        token: &str,
    ) -> SendResult {
        let address = Ipv4Addr::from_bits(0x0a00_0001 + client);
        let request = Request::builder()
            .method(ask.0)
            .uri(ask.1)
            .header("host", host)
            .header("authorization", token)
            .extension(ConnectInfo(SocketAddr::from((address, 1))))
            .body(Body::from("x"))
            .expect("a request");
        self.grid.send(request).await
    }

    async fn status(&self, ask: (Method, &str), key: &Key, resource: &str) -> u16 {
        let token = self.token(key, resource);
        self.ask(ask, HOST, &token).await.status.as_u16()
    }
}

#[tokio::test]
async fn the_key_of_an_entity_opens_that_entity_alone() {
    let bus = Bus::new().await;
    let own = bus.key("own", "/everpost/accessRules/evil%2Fown").await;
    let named_with_its_entity = Key {
        rule: "evil/own",
        secret: own.secret.clone(),
    };
    let ordinary = bus.key("key1", "/topics/evil").await;
    let send = |queue: &str| (Method::POST, format!("/{queue}/messages"));
    for key in [&own, &ordinary] {
        for resource in [
            "https://bus.test/evil",
            "sb://BUS.test:1/EVIL/",
            "bus.test/evil",
            "bus.test:8080//evil",
            "/evil",
            "evil",
        ] {
            let (method, path) = send("evil");
            let status = bus.status((method, &path), key, resource).await;
            assert_eq!(status, 201, "{} {resource}", key.rule);
        }
    }
    for key in [&own, &ordinary, &named_with_its_entity] {
        for resource in [
            "https://bus.test/",
            "https://bus.test",
            "",
            "/",
            "evil",
            "https://bus.test/victim",
            "evil/victim",
            "evil//victim",
            "bus.test:8080?x://y/evil",
            "https://bus.test/?/evil",
            "https://bus.test/#/evil",
            "evil://bus.test/",
            "https://evil@bus.test/evil",
            "https://bus.test/victim/../evil",
            "evil/Subscriptions/victim",
        ] {
            let described = (Method::GET, "/victim?api-version=2021-05".to_owned());
            for (method, path) in [send("victim"), described] {
                for host in [HOST, "evil", "evil:8080"] {
                    let token = bus.token(key, resource);
                    let answer = bus.ask((method.clone(), &path), host, &token).await;
                    let status = answer.status.as_u16();
                    assert_eq!(status, 401, "{} {resource} {host} {path}", key.rule);
                }
            }
        }
    }
    // What belongs to no entity is nothing for it either, and neither is another entity's description.
    for path in [
        "/$Resources/queues?api-version=2021-05",
        "/$namespaceinfo?api-version=2021-05",
        "/victim?api-version=2021-05",
    ] {
        for resource in ["https://bus.test/", "https://bus.test/evil"] {
            let status = bus.status((Method::GET, path), &own, resource).await;
            assert_eq!(status, 401, "{path} {resource}");
        }
    }
    let description = (Method::GET, "/evil?api-version=2021-05");
    let status = bus.status(description, &own, "https://bus.test/evil").await;
    assert_eq!(status, 200);
    bus.grid.leave();
}

#[tokio::test]
async fn a_rule_for_all_opens_what_its_token_is_for() {
    let bus = Bus::new().await;
    let all = bus.key("all", "/everpost/accessRules/all").await;
    let root = Key {
        rule: ROOT,
        secret: TOKEN.to_owned(),
    };
    let receive = |queue: &str| (Method::DELETE, format!("/{queue}/messages/head?timeout=0"));
    for (key, resource, queue, expected) in [
        (&all, "https://bus.test", "victim", 204),
        (&all, "https://bus.test/victim", "victim", 204),
        (&all, "https://bus.test/evil", "victim", 401),
        (&root, "https://bus.test/", "victim", 204),
        (&root, "https://other.test/", "victim", 401),
        (&root, "https://bus.test/vic", "victim", 401),
    ] {
        let (method, path) = receive(queue);
        let status = bus.status((method, &path), key, resource).await;
        assert_eq!(status, expected, "{} {resource} {queue}", key.rule);
    }
    let path = "/victim/$Transfer/$DeadLetterQueue/messages/head?timeout=0";
    let none = (Method::DELETE, path);
    assert_eq!(bus.status(none, &all, "https://bus.test/").await, 204);
    // It may listen, and not send.
    let send = (Method::POST, "/victim/messages");
    assert_eq!(bus.status(send, &all, "https://bus.test/").await, 401);
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_rejected_once_the_rule_is_gone() {
    let bus = Bus::new().await;
    let all = bus.key("all", "/everpost/accessRules/all").await;
    let token = bus.token(&all, "https://bus.test/");
    let begun = tokio::time::Instant::now();
    let waiting = async |method: Method| {
        let path = "/victim/messages/head?timeout=60";
        bus.ask((method, path), HOST, &token).await
    };
    let delete = bus
        .grid
        .manage(Method::DELETE, "/everpost/accessRules/all", Value::Null);
    let (locking, removing, deleted) =
        tokio::join!(waiting(Method::POST), waiting(Method::DELETE), delete);
    assert!(deleted.status.is_success(), "{}", deleted.text);
    for answer in [locking, removing] {
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{}", answer.text);
    }
    let waited = begun.elapsed();
    assert!(
        waited > Duration::ZERO && waited < Duration::from_secs(5),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_what_becomes_of_the_queue() {
    let disabled = json!({"properties": {"status": "Disabled"}});
    let forwarding = json!({"properties": {"forwardTo": "evil"}});
    for (change, body, status, expected) in [
        (
            Method::DELETE,
            Value::Null,
            404,
            "victim' could not be found",
        ),
        (Method::PUT, disabled, 403, "does not allow receiving"),
        (Method::PUT, forwarding, 400, "forward"),
    ] {
        let bus = Bus::new().await;
        let all = bus.key("all", "/everpost/accessRules/all").await;
        let token = bus.token(&all, "https://bus.test/");
        let begun = tokio::time::Instant::now();
        let waiting = async |method: Method| {
            let path = "/victim/messages/head?timeout=60";
            bus.ask((method, path), HOST, &token).await
        };
        let changed = bus.grid.manage(change, "/queues/victim", body);
        let (locking, removing, changed) =
            tokio::join!(waiting(Method::POST), waiting(Method::DELETE), changed);
        assert!(changed.status.is_success(), "{}", changed.text);
        for answer in [locking, removing] {
            assert_eq!(answer.status.as_u16(), status, "{}", answer.text);
            assert!(answer.text.contains(expected), "{}", answer.text);
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{expected}");
    }
}

#[tokio::test]
async fn who_guesses_keys_waits() {
    let bus = Bus::new().await;
    let guess = async |number: usize| {
        let key = Key {
            rule: ROOT,
            secret: format!("guess {number}"),
        };
        let token = bus.token(&key, "https://bus.test/");
        let receive = (Method::DELETE, "/evil/messages/head?timeout=0");
        let answer = bus.ask_from(0, receive, HOST, &token).await;
        answer.status.as_u16()
    };
    for number in 0..10 {
        assert_eq!(guess(number).await, 401, "{number}");
    }
    for number in 10..12 {
        assert_eq!(guess(number).await, 429, "{number}");
    }
    // What would say that a key is right waits, too.
    let past: Timestamp = "2026-11-21T11:00:00Z".parse().expect("a moment");
    let root = Key {
        rule: ROOT,
        secret: TOKEN.to_owned(),
    };
    let expired = sas::sign("https://bus.test/", ROOT, past, &Secret::new(TOKEN));
    for token in [expired, bus.token(&root, "https://other.test/")] {
        for (client, expected) in [(0, 429), (1, 401)] {
            let receive = (Method::DELETE, "/evil/messages/head?timeout=0");
            let answer = bus.ask_from(client, receive, HOST, &token).await;
            assert_eq!(answer.status.as_u16(), expected, "{}", answer.text);
        }
    }
    bus.grid.pass(Duration::from_secs(1));
    assert_eq!(guess(12).await, 401, "one more a second");
}

/// Paths of the management API below an entity that has the name of what Service Bus calls its messages.
#[tokio::test]
async fn a_topic_may_be_called_messages() {
    let grid = Grid::new().await.topic("messages").await;
    grid.publish("messages", crate::grid::event("1")).await;
    let path = "/topics/messages/eventSubscriptions/billing";
    let missing = grid.manage(Method::GET, path, Value::Null).await;
    missing.error(404, "ResourceNotFound");
    let deleted = grid.manage(Method::DELETE, path, Value::Null).await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT, "{}", deleted.text);
}
