//! What webhooks are shown besides events: signatures, credentials, tokens.

use std::time::Duration;

use axum::http::{HeaderMap, Method, StatusCode};
use everpost::base::Timestamp;
use everpost::model::signing::SigningSecret;
use everpost::outbound::transport::TransportRequest;
use everpost::wire::signature;
use serde_json::{Value, json};

use crate::grid::{Grid, event};

const HOUR: Duration = Duration::from_secs(3_600);
const ROTATE: &str = "/topics/orders/eventSubscriptions/billing/rotateSigningSecret";

fn destination(properties: &Value) -> Value {
    json!({ "destination": { "properties": properties } })
}

async fn grid(script: &str, properties: &Value) -> Grid {
    let grid = Grid::new().await.topic("orders").await;
    grid.push_with("orders", "billing", script, destination(properties))
        .await
}

fn text(headers: &HeaderMap, name: &str) -> String {
    let value = headers.get(name).map(|value| value.to_str().expect("text"));
    value.unwrap_or("none").to_owned()
}

async fn rotate(grid: &Grid, body: Value) -> (SigningSecret, Value) {
    let rotated = grid.manage(Method::POST, ROTATE, body).await;
    assert_eq!(rotated.status, StatusCode::OK, "{}", rotated.text);
    let answer = rotated.json();
    let secret = answer["secret"].as_str().expect("a secret");
    (SigningSecret::parse(secret).expect("a secret"), answer)
}

/// Which of the secrets a request is signed by.
fn signed_by(request: &TransportRequest, secrets: &[&SigningSecret], now: Timestamp) -> Vec<bool> {
    let signed = |secret: &&SigningSecret| {
        let header = |name: &'static str| request.headers.get(name)?.to_str().ok();
        signature::verify(&[(*secret).clone()], header, &request.body, now).is_ok()
    };
    secrets.iter().map(signed).collect()
}

#[tokio::test]
async fn every_attempt_is_signed_anew_under_the_same_id() {
    let grid = grid("500 200", &json!({})).await;
    let (secret, _) = rotate(&grid, Value::Null).await;
    grid.publish("orders", event("a.b")).await;
    grid.run_for(Duration::ZERO).await;
    let first_at = grid.clock.now();
    grid.run_for(HOUR).await;
    let requests = grid.heard("billing");
    let [first, second] = requests.as_slice() else {
        panic!("{}", requests.len());
    };
    assert_eq!(signed_by(first, &[&secret], first_at), [true]);
    let sent = text(&second.headers, "webhook-timestamp");
    let sent: i64 = sent.parse().expect("seconds");
    let second_at = Timestamp::from_ms(sent * 1_000);
    assert!(second_at.since(first_at) >= Duration::from_secs(10));
    assert_eq!(signed_by(second, &[&secret], second_at), [true]);
    let id = text(&first.headers, "webhook-id");
    assert_eq!(id, text(&second.headers, "webhook-id"));
    assert_eq!(id, text(&first.headers, "aeg-output-event-id"));
    assert!(!id.contains('.'), "{id}");
}

#[tokio::test]
async fn a_batch_has_an_id_of_its_own_that_lasts() {
    let grid = grid("500 200", &json!({"maxEventsPerBatch": 10})).await;
    rotate(&grid, Value::Null).await;
    let both = json!([event("a"), event("b")]);
    assert_eq!(grid.post("orders", both).await.status, StatusCode::OK);
    grid.run_for(HOUR).await;
    let requests = grid.heard("billing");
    let ids: Vec<_> = requests
        .iter()
        .map(|each| text(&each.headers, "webhook-id"))
        .collect();
    assert_eq!(ids.len(), 2);
    assert!(ids[0].starts_with("batch_") && ids[0] == ids[1], "{ids:?}");
}

#[tokio::test]
async fn a_rotated_secret_signs_beside_the_new_one_for_a_day() {
    let grid = grid("200", &json!({})).await;
    grid.publish("orders", event("before")).await;
    grid.run_for(Duration::ZERO).await;
    let unsigned = &grid.heard("billing")[0].headers;
    assert_eq!(text(unsigned, "webhook-signature"), "none");

    let (old, _) = rotate(&grid, json!({})).await;
    let (new, answer) = rotate(&grid, json!({})).await;
    let listed = answer["signingSecrets"].as_array().expect("a list");
    assert_eq!(listed[0]["fingerprint"], new.fingerprint());
    assert_eq!(listed[0]["expiresAt"], Value::Null);
    assert_eq!(listed[1]["fingerprint"], old.fingerprint());
    assert_eq!(listed[1]["expiresAt"], "2026-11-22T12:00:00.000Z");
    for (wait, expected) in [(23 * HOUR, [true, true]), (HOUR, [true, false])] {
        grid.run_for(wait).await;
        grid.publish("orders", event("after")).await;
        grid.run_for(Duration::ZERO).await;
        let newest = grid.heard("billing").pop().expect("a request");
        assert_eq!(
            signed_by(&newest, &[&new, &old], grid.clock.now()),
            expected
        );
    }
    // Nothing but the answer to the rotation shows a secret.
    let list = ROTATE.replace("rotateSigningSecret", "listSigningSecrets");
    let list = grid.manage(Method::POST, &list, Value::Null).await;
    assert_eq!(list.json()["value"][0]["fingerprint"], new.fingerprint());
    let shown = grid.show("orders", "billing").await;
    assert!(!format!("{}{shown}", list.text).contains("whsec_"));
}

#[tokio::test]
async fn secrets_of_ones_own_are_taken_and_too_many_rejected() {
    let grid = grid("200", &json!({})).await;
    let own = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
    let (secret, _) = rotate(&grid, json!({"secret": own, "gracePeriod": "PT1H"})).await;
    assert_eq!(secret.reveal(), own);
    for _ in 0..4 {
        rotate(&grid, Value::Null).await;
    }
    let rejected = grid.manage(Method::POST, ROTATE, Value::Null).await;
    assert!(
        rejected
            .error(409, "Conflict")
            .contains("5 signing secrets")
    );
    let (_, answer) = rotate(&grid, json!({"gracePeriod": "PT0S"})).await;
    assert_eq!(answer["signingSecrets"].as_array().map(Vec::len), Some(1));
    let wrong = grid
        .manage(Method::POST, ROTATE, json!({"secret": "hush"}))
        .await;
    let said = wrong.error(400, "InvalidRequest");
    assert!(said.contains("whsec_") && !said.contains("hush"), "{said}");
    grid.restarted().await.leave();
}

#[tokio::test]
async fn basic_and_bearer_go_with_deliveries_and_handshakes() {
    for (authentication, expected) in [
        (
            json!({"type": "Basic", "username": "ada", "password": "pässword"}),
            // printf 'ada:pässword' | base64
            "Basic YWRhOnDDpHNzd29yZA==",
        ),
        (
            json!({"type": "Bearer", "token": "sesame"}),
            "Bearer sesame",
        ),
    ] {
        let properties = json!({"authentication": authentication, "skipValidation": false});
        let grid = grid("200", &properties).await;
        let asked = grid.heard("billing");
        assert_eq!(
            text(&asked[0].headers, "aeg-event-type"),
            "SubscriptionValidation"
        );
        assert_eq!(text(&asked[0].headers, "authorization"), expected);
        let path = "/topics/orders/eventSubscriptions/billing";
        let skip = json!({"destination": {"endpointType": "WebHook",
            "properties": {"authentication": authentication, "skipValidation": true}}});
        let patched = grid.manage(Method::PATCH, path, skip).await;
        assert_eq!(patched.status, StatusCode::CREATED, "{}", patched.text);
        grid.publish("orders", event("a")).await;
        grid.run_for(Duration::ZERO).await;
        let delivered = grid.heard("billing").pop().expect("a delivery");
        assert_eq!(text(&delivered.headers, "aeg-event-type"), "Notification");
        assert_eq!(text(&delivered.headers, "authorization"), expected);
    }
}

fn client() -> Value {
    json!({"authentication": {"type": "ClientCredentials", "tokenUrl": "http://login.test/token",
        "clientId": "everpost", "clientSecret": "s3cret", "scope": "events"}})
}

fn grant(grid: &Grid, token: &str, expires_in: u32) {
    let body = json!({"access_token": token, "token_type": "Bearer", "expires_in": expires_in});
    grid.answer("login", 200, Vec::new(), body.to_string());
}

async fn deliver(grid: &Grid, id: &str) {
    grid.publish("orders", event(id)).await;
    grid.run_for(Duration::ZERO).await;
}

fn authorizations(grid: &Grid) -> String {
    let requests = grid.heard("billing").into_iter();
    let all = requests.map(|each| text(&each.headers, "authorization"));
    all.collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn a_token_is_fetched_once_and_used_until_shortly_before_its_end() {
    let grid = grid("200", &client()).await;
    grant(&grid, "one", 3_600);
    deliver(&grid, "a").await;
    deliver(&grid, "b").await;
    grid.run_for(Duration::from_secs(3_539)).await;
    deliver(&grid, "c").await;
    let asked = grid.heard("login");
    assert_eq!(asked.len(), 1);
    let form = String::from_utf8_lossy(&asked[0].body).into_owned();
    assert_eq!(form, "grant_type=client_credentials&scope=events");
    // printf everpost:s3cret | base64
    let expected = "Basic ZXZlcnBvc3Q6czNjcmV0";
    assert_eq!(text(&asked[0].headers, "authorization"), expected);

    grant(&grid, "two", 3_600);
    grid.run_for(Duration::from_secs(1)).await;
    deliver(&grid, "d").await;
    let expected = "Bearer one, Bearer one, Bearer one, Bearer two";
    assert_eq!(authorizations(&grid), expected);
}

#[tokio::test]
async fn a_rejected_token_is_fetched_anew_within_the_attempt() {
    let grid = grid("200 401 200 401", &client()).await;
    grant(&grid, "one", 3_600);
    deliver(&grid, "a").await;
    grant(&grid, "two", 3_600);
    deliver(&grid, "b").await;
    assert_eq!(authorizations(&grid), "Bearer one, Bearer one, Bearer two");
    assert!(
        grid.timeline("billing")
            .await
            .ends_with("b +0s=200 Delivered")
    );
    // The second one is rejected as well: then the webhook means it.
    deliver(&grid, "c").await;
    assert_eq!(grid.heard("billing").len(), 5);
    assert_eq!(grid.heard("login").len(), 3);
    let told = grid.timeline("billing").await;
    let reason = "c +0s=401 DeadLettered +0s UndeliverableDueToHttpUnauthorized";
    assert!(told.ends_with(reason), "{told}");
}

#[tokio::test]
async fn without_a_token_the_webhook_is_not_called_and_the_delivery_waits() {
    let grid = grid("200", &client()).await;
    grid.answer(
        "login",
        401,
        Vec::new(),
        r#"{"error": "invalid_client"}"#.to_owned(),
    );
    deliver(&grid, "a").await;
    deliver(&grid, "b").await;
    assert_eq!(
        (grid.heard("billing").len(), grid.heard("login").len()),
        (0, 1)
    );
    let told = grid.timeline("billing").await;
    assert!(told.starts_with("a +0s=TokenError next +1"), "{told}");
    let shown = grid
        .manage(Method::GET, "/everpost/events/1", Value::Null)
        .await;
    let attempt = &shown.json()["deliveries"][0]["deliveryAttempts"][0];
    let said = "no access token: the authorization server answered 401 (invalid_client)";
    assert_eq!(attempt["error"], said, "{attempt}");
    grant(&grid, "one", 60);
    grid.run_for(HOUR).await;
    assert_eq!(authorizations(&grid), "Bearer one, Bearer one");
}

#[tokio::test]
async fn changed_credentials_fetch_their_own_token() {
    let grid = grid("200", &client()).await;
    grant(&grid, "one", 3_600);
    deliver(&grid, "a").await;
    let mut properties = client();
    properties["authentication"]["scope"] = json!("other");
    let patch = json!({"destination": {"endpointType": "WebHook", "properties": properties}});
    let path = "/topics/orders/eventSubscriptions/billing";
    let patched = grid.manage(Method::PATCH, path, patch).await;
    assert_eq!(patched.status, StatusCode::CREATED, "{}", patched.text);
    grant(&grid, "two", 3_600);
    grid.answer("billing", 200, Vec::new(), String::new());
    deliver(&grid, "b").await;
    assert!(authorizations(&grid).ends_with("Bearer two"));
}
