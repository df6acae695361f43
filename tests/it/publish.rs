//! The publishers' door: who gets in, what is taken, and what a rejection says.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use everpost::base::Timestamp;
use everpost::model::access::Secret;
use everpost::model::limits::{EVENT_BYTES_MAX, PUBLISH_BYTES_MAX};
use everpost::wire::sas;

use crate::grid::{Grid, SendResult, TOKEN, event};

fn request(path: &str, headers: &[(&str, &str)], body: &impl ToString) -> Request<Body> {
    let mut request = Request::post(path).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request
        .body(Body::from(body.to_string()))
        .expect("a request")
}

fn events() -> Value {
    json!([event("e1")])
}

async fn stored(grid: &Grid) -> usize {
    let path = "/everpost/events?limit=200";
    let list = grid.manage(Method::GET, path, Value::Null).await.json();
    list["value"].as_array().expect("a list").len()
}

#[tokio::test]
async fn the_topic_is_told_by_path_host_or_key() {
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .topic("billing")
        .await;
    let key = grid.key("orders").await;
    let key = ("aeg-sas-key", key.as_str());
    for (path, headers) in [
        ("/topics/orders/api/events", vec![key]),
        ("/topics/ORDERS/api/events", vec![key]),
        ("/orders/api/events", vec![key]),
        ("/orders/api/events?api-version=2018-01-01", vec![key]),
        (
            "/api/events",
            vec![key, ("host", "orders.local-1.eventgrid.azure.net")],
        ),
        ("/api/events", vec![key, ("host", "Orders.localhost:8080")]),
        ("/eventGrid/api/events", vec![key, ("host", "orders.test")]),
        ("/api/events", vec![key, ("host", "elsewhere.test")]),
        ("/API/Events", vec![key, ("host", "orders.test")]),
        ("/EVENTGRID/api/events", vec![key, ("host", "orders.test")]),
        ("/Topics/Orders/API/events/", vec![key]),
        ("/orders/Api/Events", vec![key]),
    ] {
        let reply = grid.send(request(path, &headers, &events())).await;
        assert_eq!(
            (reply.status, reply.text.as_str()),
            (StatusCode::OK, ""),
            "{path} {headers:?}"
        );
    }
    assert_eq!(stored(&grid).await, 12);
    let bearer = ("authorization", &*format!("Bearer {TOKEN}"));
    let unknown = grid
        .send(request("/topics/nothing/api/events", &[bearer], &events()))
        .await;
    let hint = unknown.error(404, "NotFound");
    assert!(hint.contains("PUT /topics/{topic}"), "{hint}");
    let lost = grid.send(request("/", &[key], &events())).await;
    let hint = lost.error(404, "NotFound");
    assert!(hint.contains("/topics/{topic}/api/events"), "{hint}");
    let stranger = [("aeg-sas-key", "AAAA"), ("host", "elsewhere.test")];
    grid.send(request("/api/events", &stranger, &events()))
        .await
        .error(401, "Unauthorized");
}

/// Word for word, whatever is shown: which topics there are is for those to know who may use them.
#[tokio::test]
async fn without_a_right_key_nobody_learns_which_topics_there_are() {
    let grid = Grid::new().await.topic("orders").await.topic("other").await;
    let other = grid.key("other").await;
    let ahead: Timestamp = "2026-11-21T13:00:00Z".parse().expect("a moment");
    let resource = "http://everpost.test/topics/orders/api/events";
    let signed = sas::sign(resource, ahead, &Secret::new(other.as_str()));
    for shown in [
        ("x-nothing", ""),
        ("aeg-sas-key", "AAAA"),
        ("aeg-sas-key", other.as_str()),
        ("aeg-sas-token", "r=x"),
        ("aeg-sas-token", "r=x&e=x&s=AAAA"),
        ("aeg-sas-token", signed.as_str()),
        ("authorization", "Bearer nonsense"),
    ] {
        let paths = ["/topics/orders/api/events", "/topics/nothing/api/events"];
        let [there, nowhere] = paths.map(|path| request(path, &[shown], &events()));
        let there = grid.send(there).await;
        let nowhere = grid.send(nowhere).await;
        let status = if shown.1 == "r=x" { 400 } else { 401 };
        assert_eq!(there.status, status, "{shown:?}: {}", there.text);
        assert_eq!(nowhere.status, status, "{shown:?}: {}", nowhere.text);
        let words = |reply: &SendResult| {
            let words: Vec<_> = reply
                .text
                .split('\'')
                .step_by(2)
                .map(str::to_owned)
                .collect();
            words.join("the request's id")
        };
        assert_eq!(words(&there), words(&nowhere), "{shown:?}");
    }
}

#[tokio::test]
async fn whoever_tries_one_key_after_the_other_waits() {
    let grid = Grid::new().await.topic("orders").await;
    let right = grid.key("orders").await;
    let showing = |name: &str, text: &str| {
        let path = "/topics/orders/api/events";
        let mut request = request(path, &[(name, text)], &events());
        let address: std::net::SocketAddr = ([192, 0, 2, 1], 1).into();
        let address = axum::extract::ConnectInfo(address);
        request.extensions_mut().insert(address);
        request
    };
    let from = |key: &str| showing("aeg-sas-key", key);
    assert_eq!(grid.send(from(&right)).await.status, 200);
    for tried in 0..10 {
        grid.send(from(&format!("guess {tried}")))
            .await
            .error(401, "Unauthorized");
    }
    grid.send(from("another"))
        .await
        .error(429, "TooManyRequests");
    // Nor is anybody told that a key is right by what it has signed for too short a time.
    let past: Timestamp = "2026-11-21T11:00:00Z".parse().expect("a moment");
    let expired = sas::sign("http://everpost.test/", past, &Secret::new(right.as_str()));
    grid.send(showing("aeg-sas-token", &expired))
        .await
        .error(429, "TooManyRequests");
    // Whoever was right before is let in meanwhile.
    assert_eq!(grid.send(from(&right)).await.status, 200);
}

#[tokio::test]
async fn an_operator_publishes_again_what_was_captured_elsewhere() {
    let grid = Grid::new().await.topic("orders").await;
    let topic = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/a";
    let mut captured = event("e1");
    captured["topic"] = json!(topic);
    let path = "/topics/orders/api/events";
    let key = grid.key("orders").await;
    let by_key = [("aeg-sas-key", key.as_str())];
    let reply = grid.send(request(path, &by_key, &json!([captured]))).await;
    let message = reply.error(400, "BadRequest");
    assert!(message.contains("is not this topic"), "{message}");
    let bearer = format!("Bearer {TOKEN}");
    let by_operator = [("authorization", bearer.as_str())];
    let reply = grid
        .send(request(path, &by_operator, &json!([captured])))
        .await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let stored = grid
        .manage(Method::GET, "/everpost/events/1", Value::Null)
        .await
        .json();
    assert!(stored.to_string().contains(topic), "{stored}");
}

#[tokio::test]
async fn the_methods_of_every_path_are_told_without_a_key() {
    let grid = Grid::new().await;
    for (path, status) in [
        ("/api/events", 200),
        ("/Api/Events", 200),
        ("/eventgrid/API/EVENTS", 200),
        ("/Topics/orders/Api/events", 200),
        ("/orders/api/events/", 200),
        ("/orders/api/event", 404),
    ] {
        let question = Request::options(path).body(Body::empty());
        let reply = grid.send(question.expect("a request")).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text);
        let allow = reply.headers.get("allow").map(|it| it.as_bytes());
        assert_eq!(
            allow,
            (status == 200).then_some(&b"POST, OPTIONS"[..]),
            "{path}"
        );
    }
}

#[tokio::test]
async fn keys_tokens_and_the_bearer_open_the_door() {
    let grid = Grid::new().await.topic("orders").await;
    let key = grid.key("orders").await;
    let ahead: Timestamp = "2026-11-21T13:00:00Z".parse().expect("a moment");
    let past: Timestamp = "2026-11-21T11:00:00Z".parse().expect("a moment");
    let resource = "http://everpost.test/topics/orders/api/events?apiVersion=2018-01-01";
    let token = sas::sign(resource, ahead, &Secret::new(key.as_str()));
    let expired = sas::sign(resource, past, &Secret::new(key.as_str()));
    let forged = sas::sign(resource, ahead, &Secret::new("AAAA"));
    let other = "http://everpost.test/topics/other/api/events";
    let misplaced = sas::sign(other, ahead, &Secret::new(key.as_str()));
    let path = "/topics/orders/api/events";
    let in_query = format!(
        "{path}?aeg-sas-key={}",
        key.replace('+', "%2B").replace('/', "%2F")
    );
    let shared = format!("SharedAccessSignature {token}");
    let bearer = format!("Bearer {TOKEN}");
    for (path, name, value, status) in [
        (path, "aeg-sas-key", key.as_str(), 200),
        (path, "aeg-sas-token", &token, 200),
        (path, "authorization", &shared, 200),
        (path, "authorization", &bearer, 200),
        (&in_query, "x-nothing", "", 200),
        (path, "aeg-sas-key", "AAAA", 401),
        (path, "aeg-sas-token", &expired, 401),
        (path, "aeg-sas-token", &forged, 401),
        (path, "aeg-sas-token", &misplaced, 401),
        (path, "aeg-sas-token", "nonsense", 400),
        (path, "authorization", "Bearer guess", 401),
        (path, "x-nothing", "", 401),
    ] {
        let reply = grid.send(request(path, &[(name, value)], &events())).await;
        assert_eq!(
            reply.status.as_u16(),
            status,
            "{name}: {value}: {}",
            reply.text
        );
        if status != 200 {
            reply.error(
                status,
                if status == 400 {
                    "BadRequest"
                } else {
                    "Unauthorized"
                },
            );
            assert!(!reply.text.contains(&key), "a rejection never shows a key");
        }
    }
    assert_eq!(stored(&grid).await, 5);
}

#[tokio::test]
async fn a_topic_can_reject_keys_and_addresses() {
    let grid = Grid::new()
        .await
        .topic_with("orders", json!({"disableLocalAuth": true}))
        .await;
    grid.post("orders", events())
        .await
        .error(401, "Unauthorized");
    let bearer = [("authorization", format!("Bearer {TOKEN}"))];
    let bearer: Vec<_> = bearer
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let reply = grid
        .send(request("/topics/orders/api/events", &bearer, &events()))
        .await;
    assert_eq!(reply.status, StatusCode::OK);

    let rules = json!({"inboundIpRules": [{"ipMask": "10.0.0.0/8", "action": "Allow"}]});
    let grid = Grid::new().await.topic_with("orders", rules).await;
    let key = grid.key("orders").await;
    for (address, status) in [
        ("10.1.2.3:4", 200),
        ("192.168.0.1:4", 403),
        ("[::ffff:10.1.2.3]:4", 200),
    ] {
        let mut request = request(
            "/topics/orders/api/events",
            &[("aeg-sas-key", &key)],
            &events(),
        );
        let address: std::net::SocketAddr = address.parse().expect("an address");
        request
            .extensions_mut()
            .insert(axum::extract::ConnectInfo(address));
        assert_eq!(
            grid.send(request).await.status.as_u16(),
            status,
            "{address}"
        );
    }
}

#[tokio::test]
async fn a_bad_event_rejects_the_whole_request() {
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .push("orders", "billing", "200")
        .await;
    let mut bad = event("e2");
    bad["eventTime"] = json!("yesterday");
    let reply = grid.post("orders", json!([event("e1"), bad])).await;
    let message = reply.error(400, "BadRequest");
    assert!(
        message.contains("[1]") && message.contains("eventTime"),
        "{message}"
    );
    assert!(message.contains("Report '"), "{message}");
    assert_eq!(
        reply.json()["error"]["details"][0]["code"],
        "InputJsonInvalid"
    );
    grid.post("orders", event("lone"))
        .await
        .error(400, "BadRequest");
    grid.post("orders", "[{").await.error(400, "BadRequest");
    assert_eq!(stored(&grid).await, 0);
    assert_eq!(grid.post("orders", json!([])).await.status, StatusCode::OK);
    assert_eq!(stored(&grid).await, 0);
    let version = "/topics/orders/api/events?api-version=2017-01-01";
    let key = grid.key("orders").await;
    grid.send(request(version, &[("aeg-sas-key", &key)], &events()))
        .await
        .error(400, "BadRequest");
}

#[tokio::test]
async fn a_channel_of_a_partner_is_rejected_by_name() {
    let grid = Grid::new().await.topic("orders").await;
    let key = grid.key("orders").await;
    let headers = [("aeg-sas-key", key.as_str()), ("aeg-channel-name", "sales")];
    let path = "/topics/orders/api/events";
    let reply = grid.send(request(path, &headers, &events())).await;
    let told = reply.error(400, "BadRequest");
    assert!(told.contains("aeg-channel-name"), "{told}");
    assert_eq!(stored(&grid).await, 0);
}

#[tokio::test]
async fn requests_and_events_have_sizes_of_their_own_and_one_byte_more_does_not_pass() {
    let grid = Grid::new().await.topic("orders").await;
    let of_size = |bytes: usize| {
        let mut event = event("big");
        event["data"] = json!("");
        let empty = event.to_string().len();
        event["data"] = json!("x".repeat(bytes - empty));
        event.to_string()
    };
    let request = |events: &[usize]| {
        let events: Vec<_> = events.iter().map(|bytes| of_size(*bytes)).collect();
        format!("[{}]", events.join(","))
    };
    let rest = PUBLISH_BYTES_MAX - EVENT_BYTES_MAX - "[,]".len();
    for (events, exceeded) in [
        (&[EVENT_BYTES_MAX][..], None),
        (
            &[EVENT_BYTES_MAX + 1],
            Some("event [0]: The maximum size (1049600) has been exceeded."),
        ),
        (
            &[300, EVENT_BYTES_MAX + 1],
            Some("event [1]: The maximum size (1049600) has been exceeded."),
        ),
        (&[rest, EVENT_BYTES_MAX], None),
        (
            &[rest + 1, EVENT_BYTES_MAX],
            Some("The maximum size (1536000) has been exceeded."),
        ),
    ] {
        let reply = grid.post("orders", request(events)).await;
        match exceeded {
            None => assert_eq!(reply.status, StatusCode::OK, "{events:?}: {}", reply.text),
            Some(words) => {
                let message = reply.error(413, "RequestEntityTooLarge");
                assert!(message.contains(words), "{events:?}: {message}");
            }
        }
    }
    assert_eq!(stored(&grid).await, 3);
}

#[tokio::test]
async fn a_repeated_request_is_taken_once() {
    let grid = Grid::new().await.topic("orders").await;
    let key = grid.key("orders").await;
    let send = async |id: &str, body: Value| -> SendResult {
        let headers = [
            ("aeg-sas-key", key.as_str()),
            ("x-ms-client-request-id", id),
        ];
        grid.send(request("/topics/orders/api/events", &headers, &body))
            .await
    };
    for (id, body, count) in [
        ("a", events(), 1),
        ("a", events(), 1),
        ("b", events(), 2),
        ("a", json!([event("other")]), 3),
        // An empty id names no request.
        ("", events(), 4),
        ("", events(), 5),
    ] {
        assert_eq!(send(id, body).await.status, StatusCode::OK);
        assert_eq!(stored(&grid).await, count, "{id}");
    }
    let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
    let counted = "everpost_unmatched_events_total{topic=\"orders\"} 5";
    assert!(metrics.contains(counted), "{metrics}");
    grid.clock.advance(std::time::Duration::from_secs(601));
    assert_eq!(send("b", events()).await.status, StatusCode::OK);
    assert_eq!(
        stored(&grid).await,
        6,
        "after ten minutes it is another request"
    );
}

#[tokio::test]
async fn a_stopping_appliance_says_when_to_come_back() {
    let grid = Grid::new().await.topic("orders").await;
    grid.broker.stop();
    let reply = grid.post("orders", events()).await;
    reply.error(503, "ServiceUnavailable");
    assert!(
        reply.headers.contains_key("retry-after"),
        "{:?}",
        reply.headers
    );
    let ready = grid.manage(Method::GET, "/readyz", Value::Null).await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ready.json()["reasons"][0], "the appliance is stopping");
}

#[tokio::test]
async fn what_nobody_wants_is_kept_and_marked() {
    let grid = Grid::new().await.topic("orders").await;
    let filter =
        json!({"filter": {"includedEventTypes": ["Order.Paid"], "subjectBeginsWith": "/ORDERS/"}});
    let grid = grid.push_with("orders", "billing", "200", filter).await;
    let mut other = event("unwanted");
    other["eventType"] = json!("Order.Shipped");
    grid.publish("orders", other).await;
    let mut elsewhere = event("elsewhere");
    elsewhere["subject"] = json!("/invoices/1");
    grid.publish("orders", elsewhere).await;
    grid.publish("orders", event("wanted")).await;
    grid.run_for(std::time::Duration::from_secs(1)).await;
    let path = "/everpost/events?unmatched=true";
    let list = grid.manage(Method::GET, path, Value::Null).await.json();
    let ids: Vec<_> = list["value"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|e| &e["id"])
        .collect();
    assert_eq!(ids, ["elsewhere", "unwanted"]);
    assert_eq!(grid.timeline("billing").await, "wanted +0s=200 Delivered");
}

#[tokio::test]
async fn data_leaves_byte_for_byte() {
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .push("orders", "billing", "200")
        .await;
    let data = r#"{"b" : 1.10, "a":[ 1e3,"\u00e9"],"b":12345678901234567890.5}"#;
    let body = format!(
        r#"[{{"id":"1","subject":"s","eventType":"t","eventTime":"2026-11-21T06:40:53Z","data":{data},"dataVersion":"1"}}]"#
    );
    assert_eq!(grid.post("orders", body).await.status, StatusCode::OK);
    grid.run_for(std::time::Duration::from_secs(1)).await;
    let heard = grid.heard("billing");
    let sent = String::from_utf8(heard[0].body.to_vec()).expect("text");
    assert!(sent.contains(data), "{sent}");
    assert_eq!(
        heard[0].url.query(),
        Some("code=secret"),
        "the query goes with every request"
    );
}

#[tokio::test]
async fn a_disk_that_is_almost_full_takes_nothing_more() {
    let (grid, _dir) = Grid::on_disk(u64::MAX).await;
    let grid = grid.topic("orders").await;
    let reply = grid.post("orders", events()).await;
    let why = reply.error(503, "ServiceUnavailable");
    assert!(why.contains("almost full"), "{why}");
    assert!(reply.headers.contains_key("retry-after"));
    let ready = grid.manage(Method::GET, "/readyz", Value::Null).await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(ready.text.contains("storage.min_free_mb"), "{}", ready.text);
    grid.leave();
}
