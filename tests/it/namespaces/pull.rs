//! Pulling (table 5): receive, acknowledge, release, reject, renew, and what becomes of what nobody settles.

mod settling;

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use everpost::base::Timestamp;
use everpost::model::access::Secret;
use everpost::wire::sas;

use super::dead_letters::record;
use super::{
    MINUTE, NAMESPACE, SECOND, SUBSCRIPTION, TOPIC, cloud_event, definition, get, grid, key, merge,
    publish, put, rejected,
};
use crate::grid::{Grid, SendResult};

const VERSION: &str = "api-version=2024-06-01";

fn pulled(queue: Value, properties: Value) -> Value {
    let mut all = json!({"deliveryConfiguration": {"deliveryMode": "Queue"}});
    all["deliveryConfiguration"]["queue"] = queue;
    merge(&mut all, properties);
    json!({ "properties": all })
}

/// An appliance with the pulled subscription `billing` of `shop/orders`.
async fn subscribed(queue: Value) -> Grid {
    let grid = grid().await;
    put(&grid, SUBSCRIPTION, pulled(queue, json!({}))).await;
    grid
}

/// A request with the key of the namespace.
async fn ask(grid: &Grid, operation: &str, body: Value) -> SendResult {
    let key = key(grid, NAMESPACE).await;
    ask_with(grid, &key, operation, body).await
}

async fn ask_with(grid: &Grid, key: &str, operation: &str, body: Value) -> SendResult {
    let text = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let sign = if operation.contains('?') { '&' } else { '?' };
    let request = Request::post(format!("{SUBSCRIPTION}:{operation}{sign}{VERSION}"))
        .header("authorization", format!("SharedAccessKey {key}"))
        .header("content-type", "application/json")
        .body(Body::from(text));
    grid.send(request.expect("a request")).await
}

/// An event that was received.
#[derive(Debug, PartialEq)]
struct Received {
    token: String,
    count: u64,
    event: Value,
}

async fn receive(grid: &Grid, parameters: &str) -> Vec<Received> {
    let operation = format!("receive?maxWaitTime=10{parameters}");
    received(&ask(grid, &operation, Value::Null).await)
}

fn received(heard: &SendResult) -> Vec<Received> {
    assert_eq!(heard.status, StatusCode::OK, "{}", heard.text);
    let items = heard.json()["value"].as_array().expect("events").clone();
    let item = |item: &Value| Received {
        token: item["brokerProperties"]["lockToken"]
            .as_str()
            .expect("a token")
            .to_owned(),
        count: item["brokerProperties"]["deliveryCount"]
            .as_u64()
            .expect("a count"),
        event: item["event"].clone(),
    };
    items.iter().map(item).collect()
}

/// The only event there is to receive.
async fn receive_one(grid: &Grid) -> Received {
    let mut received = receive(grid, "").await;
    assert_eq!(received.len(), 1, "{received:?}");
    received.remove(0)
}

/// Settles tokens; each one's code, `""` for success.
async fn settle(grid: &Grid, operation: &str, tokens: &[&str]) -> Vec<String> {
    let heard = ask(grid, operation, json!({ "lockTokens": tokens })).await;
    assert_eq!(heard.status, StatusCode::OK, "{}", heard.text);
    let body = heard.json();
    let succeeded = body["succeededLockTokens"]
        .as_array()
        .expect("always there");
    let failed = body["failedLockTokens"].as_array().expect("always there");
    assert_eq!(succeeded.len() + failed.len(), tokens.len(), "{body}");
    let outcome = |token: &&str| {
        if succeeded.contains(&json!(token)) {
            return String::new();
        }
        let failure = failed.iter().find(|each| each["lockToken"] == **token);
        let error = &failure.expect("one of the two")["error"];
        assert!(error["message"].is_string(), "{body}");
        error["code"].as_str().expect("a code").to_owned()
    };
    tokens.iter().map(outcome).collect()
}

async fn depth(grid: &Grid) -> String {
    let told = grid.timeline("billing").await;
    told.lines()
        .map(|line| line.split(' ').next_back().unwrap_or_default())
        .collect::<Vec<_>>()
        .join(" ")
}

#[tokio::test(start_paused = true)]
async fn table_5_receive_hands_out_structured_events_under_locks() {
    let grid = subscribed(json!({})).await;
    let mut binary = cloud_event("e2");
    binary["data_base64"] = json!("AAE=");
    binary.as_object_mut().expect("an object").remove("data");
    publish(&grid, json!([cloud_event("e1"), binary, cloud_event("e3")])).await;
    grid.run_for(MINUTE * 10).await;
    assert!(grid.heard("billing").is_empty());

    let first = receive(&grid, "").await;
    assert_eq!(first.len(), 1);
    assert_eq!((first[0].count, &first[0].event), (1, &cloud_event("e1")));
    let others = receive(&grid, "&maxEvents=100").await;
    let events: Vec<&Value> = others.iter().map(|each| &each.event).collect();
    assert_eq!(events, [&binary, &cloud_event("e3")]);
    let tokens = [&first[0].token, &others[0].token, &others[1].token];
    assert!(tokens[0] != tokens[1] && tokens[1] != tokens[2]);
    assert_eq!(receive(&grid, "").await, []);
    let tokens = tokens.map(String::as_str);
    assert_eq!(settle(&grid, "acknowledge", &tokens).await, ["", "", ""]);
    assert_eq!(depth(&grid).await, "Delivered Delivered Delivered");
}

#[tokio::test(start_paused = true)]
async fn table_5_data_comes_back_byte_for_byte() {
    let grid = subscribed(json!({})).await;
    let data = r#"{"b": 1.0,  "a":123456789012345678901234567890}"#;
    let event =
        format!(r#"[{{"id":"e1","source":"/s","type":"T","specversion":"1.0","data":{data}}}]"#);
    super::post(&grid, &[super::BATCH], event).await;
    let heard = ask(&grid, "receive", Value::Null).await;
    assert!(heard.text.contains(data), "{}", heard.text);
    grid.leave();
}

#[tokio::test(start_paused = true)]
async fn table_5_parameters_out_of_bounds_are_rejected() {
    let grid = subscribed(json!({})).await;
    for (operation, named) in [
        ("receive?maxEvents=0", "maxEvents"),
        ("receive?maxEvents=101", "maxEvents"),
        ("receive?maxEvents=x", "maxEvents"),
        ("receive?maxWaitTime=9", "maxWaitTime"),
        ("receive?maxWaitTime=121", "maxWaitTime"),
        ("release?releaseDelayInSeconds=11", "releaseDelayInSeconds"),
        ("acknowledge?api-version=2000-01-01", "api-version"),
    ] {
        let heard = ask(&grid, operation, json!({"lockTokens": ["x"]})).await;
        let message = heard.error(400, "BadRequest");
        assert!(message.contains(named), "{message}");
        assert_eq!(heard.headers["x-ms-error-code"], "BadRequest");
    }
    for body in [
        Value::Null,
        json!([]),
        json!({}),
        json!({"lockTokens": []}),
        json!({"lockTokens": [1]}),
    ] {
        let message = ask(&grid, "reject", body).await.error(400, "BadRequest");
        assert!(message.contains("lockTokens"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn table_5_receivers_wait_for_the_first_event() {
    let grid = subscribed(json!({})).await;
    let began = tokio::time::Instant::now();
    assert_eq!(receive(&grid, "").await, []);
    assert!(began.elapsed() >= SECOND * 10);
    let heard = ask(&grid, "receive", Value::Null).await;
    assert_eq!(
        (heard.status, heard.text.as_str()),
        (StatusCode::OK, r#"{"value":[]}"#)
    );
    assert!(
        began.elapsed() >= SECOND * 70,
        "a minute unless it is said otherwise"
    );

    let began = tokio::time::Instant::now();
    let later = async {
        tokio::time::sleep(SECOND * 3).await;
        publish(&grid, json!([cloud_event("e1")])).await;
    };
    let (waited, ()) = tokio::join!(receive(&grid, "&maxEvents=9"), later);
    assert_eq!(waited.len(), 1);
    assert!(
        began.elapsed() < SECOND * 4,
        "at once, and not when its wait is over"
    );

    // What is released wakes whoever waits.
    let token = waited[0].token.as_str();
    let later = async {
        tokio::time::sleep(SECOND).await;
        assert_eq!(settle(&grid, "release", &[token]).await, [""]);
    };
    let (waited, ()) = tokio::join!(receive(&grid, ""), later);
    assert_eq!((waited.len(), waited[0].count), (1, 2));
    grid.leave();
}

#[tokio::test(start_paused = true)]
async fn table_5_the_last_release_makes_a_dead_letter_at_once() {
    let grid = subscribed(json!({"maxDeliveryCount": 2})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    let dead_letters = "/everpost/deadLetters?topic=shop/orders";
    for count in 0..2 {
        let nothing = get(&grid, dead_letters).await["value"].clone();
        assert_eq!(nothing, json!([]), "after {count} releases");
        let token = receive_one(&grid).await.token;
        assert_eq!(settle(&grid, "release", &[&token]).await, [""]);
    }
    let dead_letter = get(&grid, dead_letters).await["value"][0].clone();
    assert_eq!(
        dead_letter["deadLetterReason"],
        "MaxDeliveryAttemptsExceeded"
    );
}

#[tokio::test(start_paused = true)]
async fn table_5_one_publishing_wakes_as_many_as_it_has_events() {
    let grid = subscribed(json!({})).await;
    let later = async {
        tokio::time::sleep(SECOND).await;
        publish(&grid, json!([cloud_event("e1"), cloud_event("e2")])).await;
    };
    let began = tokio::time::Instant::now();
    let (one, other, ()) = tokio::join!(receive(&grid, ""), receive(&grid, ""), later);
    assert_eq!((one.len(), other.len()), (1, 1));
    assert_ne!(one[0].event, other[0].event);
    assert!(began.elapsed() < SECOND * 2);
    grid.leave();
}

#[tokio::test(start_paused = true)]
async fn table_2_receivers_prove_who_they_are_as_publishers_do() {
    let grid = subscribed(json!({})).await;
    put(&grid, "/namespaces/shop/topics/other", json!({})).await;
    let path = format!("{SUBSCRIPTION}:receive?maxWaitTime=10&{VERSION}");
    let ask = async |path: &str, header: Option<(&str, &str)>| {
        let mut request = Request::post(path);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        grid.send(request.body(Body::empty()).expect("a request"))
            .await
    };
    let expires_at: Timestamp = "2026-11-22T00:00:00Z".parse().expect("a moment");
    for of in [NAMESPACE, TOPIC] {
        let key = key(&grid, of).await;
        let escaped: String = url::form_urlencoded::byte_serialize(key.as_bytes()).collect();
        let authorization = format!("SharedAccessKey {key}");
        let resource = format!("http://everpost.test{SUBSCRIPTION}");
        let token = sas::sign(&resource, expires_at, &Secret::new(key.as_str()));
        let signature = format!("SharedAccessSignature {token}");
        for header in [
            ("authorization", authorization.as_str()),
            ("authorization", &signature),
            ("aeg-sas-token", &token),
            ("aeg-sas-key", &key),
        ] {
            let heard = ask(&path, Some(header)).await;
            assert_eq!(
                heard.status,
                StatusCode::OK,
                "{of} {header:?}: {}",
                heard.text
            );
        }
        let heard = ask(&format!("{path}&aeg-sas-key={escaped}"), None).await;
        assert_eq!(heard.status, StatusCode::OK, "{of}: {}", heard.text);
    }
    let foreign = key(&grid, "/namespaces/shop/topics/other").await;
    for header in [
        None,
        Some(("aeg-sas-key", "x")),
        Some(("aeg-sas-key", foreign.as_str())),
    ] {
        ask(&path, header).await.error(401, "Unauthorized");
    }
}

#[tokio::test(start_paused = true)]
async fn table_5_paths_are_known_in_any_letter_case_and_without_the_namespace() {
    let grid = subscribed(json!({})).await;
    let key = key(&grid, NAMESPACE).await;
    let ask = async |method: Method, path: &str| {
        let request = Request::builder()
            .method(method)
            .uri(format!("{path}?maxWaitTime=10"))
            .header("aeg-sas-key", &key);
        grid.send(request.body(Body::empty()).expect("a request"))
            .await
    };
    for path in [
        "/topics/orders/eventsubscriptions/billing:receive",
        "/Topics/ORDERS/EventSubscriptions/Billing:RECEIVE",
        "/namespaces/shop/topics/orders/eventsubscriptions/billing:receive",
    ] {
        let heard = ask(Method::POST, path).await;
        assert_eq!(heard.status, StatusCode::OK, "{path}: {}", heard.text);
        assert_eq!(
            heard.headers["content-type"],
            "application/json; charset=utf-8"
        );
    }
    for (path, code) in [
        (
            "/topics/orders/eventsubscriptions/nothing:receive",
            "ResourceNotFound",
        ),
        (
            "/topics/nothing/eventsubscriptions/billing:receive",
            "NotFound",
        ),
    ] {
        ask(Method::POST, path).await.error(404, code);
    }
    let path = "/namespaces/none/topics/orders/eventsubscriptions/billing:receive";
    ask(Method::POST, path).await.error(401, "Unauthorized");
}

#[tokio::test(start_paused = true)]
async fn what_is_pushed_is_not_pulled() {
    let grid = grid().await;
    put(&grid, SUBSCRIPTION, definition(json!({}), json!({}))).await;
    for operation in ["receive", "acknowledge"] {
        let heard = ask(&grid, operation, json!({"lockTokens": ["x"]})).await;
        let message = heard.error(400, "BadRequest");
        assert!(message.contains("are sent to its webhook"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn paused_and_disabled_subscriptions_hand_out_nothing_and_expired_ones_what_they_have() {
    for change in [json!({"paused": true}), json!({"disabled": true})] {
        let grid = subscribed(json!({})).await;
        publish(&grid, json!([cloud_event("e1"), cloud_event("e2")])).await;
        let held = receive_one(&grid).await;
        let patch = json!({ "properties": change });
        let reply = grid.manage(Method::PATCH, SUBSCRIPTION, patch).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
        assert_eq!(receive(&grid, "").await, []);
        assert_eq!(settle(&grid, "acknowledge", &[&held.token]).await, [""]);
        // Whoever waits gets it as soon as it may be handed out again.
        let later = async {
            tokio::time::sleep(SECOND).await;
            let path = format!("{SUBSCRIPTION}/resume");
            grid.manage(Method::POST, &path, Value::Null).await;
        };
        let began = tokio::time::Instant::now();
        let (waited, ()) = tokio::join!(receive(&grid, ""), later);
        assert_eq!(waited.len(), 1);
        assert!(began.elapsed() < SECOND * 2);
        grid.leave();
    }
    let grid = subscribed(json!({})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    let patch = json!({"properties": {"expirationTimeUtc": "2026-11-21T12:01:00Z"}});
    grid.manage(Method::PATCH, SUBSCRIPTION, patch).await;
    grid.pass(MINUTE);
    publish(&grid, json!([cloud_event("e2")])).await;
    let all = receive(&grid, "&maxEvents=9").await;
    assert_eq!(all.len(), 1);
    grid.leave();
}

#[tokio::test(start_paused = true)]
async fn locks_survive_a_restart() {
    let grid = subscribed(json!({})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    let held = receive_one(&grid).await;
    let grid = grid.restarted().await;
    grid.run_for(Duration::from_secs(30)).await;
    assert_eq!(receive(&grid, "").await, []);
    assert_eq!(settle(&grid, "acknowledge", &[&held.token]).await, [""]);
    assert!(grid.heard("billing").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_resubmitted_dead_letter_is_received_again() {
    let grid = subscribed(json!({})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    let held = receive_one(&grid).await;
    settle(&grid, "reject", &[&held.token]).await;
    let page = get(&grid, "/everpost/deadLetters?topic=shop/orders").await;
    let path = format!(
        "/everpost/deadLetters/{}/resubmit",
        page["value"][0]["deliveryId"]
    );
    let later = async {
        tokio::time::sleep(SECOND).await;
        grid.manage(Method::POST, &path, Value::Null).await;
    };
    let (again, ()) = tokio::join!(receive(&grid, ""), later);
    assert_eq!((again.len(), again[0].count), (1, 1));
    grid.leave();
}

#[tokio::test]
async fn table_1_1_queues_have_defaults_and_bounds() {
    let grid = grid().await;
    let shown = put(&grid, SUBSCRIPTION, pulled(json!({}), json!({}))).await;
    assert_eq!(shown["properties"]["provisioningState"], "Succeeded");
    let expected = json!({"deliveryMode": "Queue", "queue": {
        "receiveLockDurationInSeconds": 60, "maxDeliveryCount": 10, "eventTimeToLive": "P1D"}});
    assert_eq!(shown["properties"]["deliveryConfiguration"], expected);

    let queue = json!({"receiveLockDurationInSeconds": 300, "maxDeliveryCount": 1,
        "eventTimeToLive": "PT1H", "deadLetterDestinationWithResourceIdentity": {"deadLetterDestination": {"endpointType": "Drop"}}});
    put_again(&grid, pulled(queue, json!({}))).await;
    let patch =
        json!({"properties": {"deliveryConfiguration": {"queue": {"maxDeliveryCount": 3}}}});
    let reply = grid.manage(Method::PATCH, SUBSCRIPTION, patch).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let expected = json!({"receiveLockDurationInSeconds": 300, "maxDeliveryCount": 3,
        "eventTimeToLive": "PT1H", "deadLetterDestinationWithResourceIdentity": {"deadLetterDestination": {"endpointType": "Drop"}}});
    let grid = grid.restarted().await;
    let shown = get(&grid, SUBSCRIPTION).await;
    assert_eq!(
        shown["properties"]["deliveryConfiguration"]["queue"],
        expected
    );

    for (queue, named) in [
        (
            json!({"receiveLockDurationInSeconds": 59}),
            "receiveLockDurationInSeconds",
        ),
        (
            json!({"receiveLockDurationInSeconds": 301}),
            "receiveLockDurationInSeconds",
        ),
        (json!({"maxDeliveryCount": 0}), "maxDeliveryCount"),
        (json!({"maxDeliveryCount": 11}), "maxDeliveryCount"),
        (json!({"eventTimeToLive": "PT30S"}), "eventTimeToLive"),
        (json!({"eventTimeToLive": "P8D"}), "eventTimeToLive"),
    ] {
        let (target, message) = rejected(&grid, pulled(queue, json!({}))).await;
        assert!(target.ends_with(named), "{target}: {message}");
    }
    let both = json!({"deliveryConfiguration": {"push": {"maxDeliveryCount": 1}}});
    let (target, _) = rejected(&grid, pulled(json!({}), both)).await;
    assert!(target.ends_with("push"), "{target}");
}

async fn put_again(grid: &Grid, body: Value) {
    let reply = grid.manage(Method::PUT, SUBSCRIPTION, body).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
}

#[tokio::test]
async fn the_delivery_mode_stays_what_it_is() {
    let grid = subscribed(json!({})).await;
    let (_, message) = rejected(&grid, definition(json!({}), json!({}))).await;
    assert!(
        message.contains("deliveryMode") && message.contains("is Queue"),
        "{message}"
    );
    let push = json!({"destination": {"endpointType": "WebHook",
        "properties": {"endpointUrl": "http://billing.test/"}}});
    let patch = json!({"properties": {"deliveryConfiguration": {"push": push}}});
    let reply = grid.manage(Method::PATCH, SUBSCRIPTION, patch).await;
    reply.error(400, "InvalidRequest");
    assert!(grid.heard("billing").is_empty());

    let other = super::subscribed("200", json!({}), json!({})).await;
    let (_, message) = rejected(&other, pulled(json!({}), json!({}))).await;
    assert!(message.contains("is Push"), "{message}");
    // Nothing is sent by a pulled subscription, so there is nothing to ask of a webhook.
    for verb in ["getFullUrl", "rotateSigningSecret"] {
        let path = format!("{SUBSCRIPTION}/{verb}");
        let reply = grid.manage(Method::POST, &path, json!({})).await;
        let message = reply.error(400, "InvalidRequest");
        assert!(message.contains("has no webhook"), "{message}");
    }
    let path = format!("{SUBSCRIPTION}/validate");
    let reply = grid.manage(Method::POST, &path, Value::Null).await;
    assert!(reply.status.is_success(), "{}", reply.text);
}

#[tokio::test]
async fn a_damaged_event_becomes_a_dead_letter_and_keeps_no_other() {
    let (grid, dir) = Grid::on_disk(0).await;
    put(&grid, NAMESPACE, json!({"location": "local"})).await;
    put(&grid, TOPIC, json!({})).await;
    put(&grid, SUBSCRIPTION, pulled(json!({}), json!({}))).await;
    publish(
        &grid,
        json!([cloud_event("e0"), cloud_event("e1"), cloud_event("e2")]),
    )
    .await;
    grid.leave();
    let saboteur = rusqlite::Connection::open(dir.path().join("everpost.db"));
    let damage = "UPDATE event SET data = '{' WHERE event_id = 'e1'";
    let damaged = saboteur.expect("the database").execute(damage, []);
    assert_eq!(damaged.expect("a damaged row"), 1);

    let grid = Grid::reopened(dir.path()).await;
    let received = receive(&grid, "&maxEvents=10").await;
    let ids: Vec<_> = received.iter().map(|each| &each.event["id"]).collect();
    assert_eq!(ids, ["e0", "e2"]);
    let dead = get(&grid, "/everpost/deadLetters").await;
    assert_eq!(dead["value"].as_array().map(Vec::len), Some(1), "{dead}");
    let dead = &dead["value"][0];
    assert_eq!(
        (
            &dead["eventId"],
            &dead["deadLetterReason"],
            &dead["attempts"]
        ),
        (&json!("e1"), &json!("EventUnreadable"), &json!(0))
    );
    grid.leave();
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_rejected_once_the_key_is_another_one() {
    let grid = subscribed(json!({})).await;
    let key = key(&grid, NAMESPACE).await;
    let begun = tokio::time::Instant::now();
    let waiting = ask_with(&grid, &key, "receive?maxWaitTime=60", Value::Null);
    let renew = format!("{NAMESPACE}/regenerateKey");
    let renewed = grid.manage(Method::POST, &renew, json!({"keyName": "key1"}));
    let (answer, renewed) = tokio::join!(waiting, renewed);
    assert!(renewed.status.is_success(), "{}", renewed.text);
    answer.error(401, "Unauthorized");
    let waited = begun.elapsed();
    assert!(
        waited > Duration::ZERO && waited < Duration::from_secs(5),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_that_the_subscription_is_gone() {
    let grid = subscribed(json!({})).await;
    let key = key(&grid, NAMESPACE).await;
    let begun = tokio::time::Instant::now();
    let waiting = ask_with(&grid, &key, "receive?maxWaitTime=60", Value::Null);
    let deletion = grid.manage(Method::DELETE, SUBSCRIPTION, Value::Null);
    let (answer, deleted) = tokio::join!(waiting, deletion);
    assert!(deleted.status.is_success(), "{}", deleted.text);
    let message = answer.error(404, "NotFound");
    assert!(message.contains("has been deleted"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}
