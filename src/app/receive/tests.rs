//! The receiver over loopback.

use reqwest::Method;
use tokio::net::TcpStream;

use super::*;
use crate::model::response_script::ScriptedResponse;

const EVENT: &str = r#"[{"id":"a","eventType":"T","subject":"s","data":{}}]"#;

async fn receiver(answers: &str, change: impl FnOnce(&mut ReceiverOptions)) -> WebhookReceiver {
    let mut options = ReceiverOptions::scripted(answers.parse().expect(answers));
    change(&mut options);
    WebhookReceiver::bind(options).await.expect("a free port")
}

/// Posts bodies one after the other and writes down what came back.
async fn answers(receiver: &WebhookReceiver, bodies: &[&str]) -> String {
    let mut seen = Vec::new();
    for body in bodies {
        let request = client().post(receiver.url()).body((*body).to_owned());
        seen.push(match request.send().await {
            Ok(response) => response.status().as_u16().to_string(),
            Err(_) => "broken".to_owned(),
        });
    }
    seen.join(" ")
}

fn client() -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]);
    client
        .retry(reqwest::retry::never())
        .build()
        .expect("a client")
}

#[tokio::test]
async fn answers_follow_the_script() {
    let receiver = receiver("503x2 close 200", |_| {}).await;
    let given = answers(&receiver, &[EVENT; 5]).await;
    assert_eq!(given, "503 503 broken 200 200");
    receiver.stop().await;
}

#[tokio::test]
async fn every_event_has_its_own_turn() {
    let receiver = receiver("500 200", |options| options.per_event = true).await;
    let [a, b] = [EVENT, r#"{"id":"b","type":"T"}"#];
    assert_eq!(answers(&receiver, &[a, b, a, b]).await, "500 500 200 200");
}

#[tokio::test]
async fn requests_are_remembered_with_their_answers() {
    let receiver = receiver("202 404", |_| {}).await;
    let request = client()
        .post(format!("{}/inbox?code=1", receiver.url()))
        .header("aeg-event-type", "Notification")
        .body(EVENT);
    request.send().await.expect("an answer");
    let mut seen = receiver.requests_after(0).await;
    let first = seen.pop().expect("the request");
    assert_eq!((first.number, first.method.as_str()), (1, "POST"));
    assert_eq!(first.path, "/inbox?code=1");
    assert_eq!(first.header("aeg-event-type"), Some("Notification"));
    assert_eq!(first.body, EVENT.as_bytes());
    assert_eq!(first.events[0].id.as_deref(), Some("a"));
    assert_eq!(first.answer, ScriptedResponse::Status(202));

    answers(&receiver, &["", ""]).await;
    let later: Vec<u64> = receiver
        .requests_after(1)
        .await
        .iter()
        .map(|r| r.number)
        .collect();
    assert_eq!(later, [2, 3]);
    assert_eq!(receiver.requests().len(), 3);
}

#[tokio::test]
async fn handshakes_are_agreed_to_and_take_no_turn() {
    let receiver = receiver("503", |_| {}).await;
    let validation = r#"[{"id":"1","eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{"validationCode":"c-1"}}]"#;
    let response = client().post(receiver.url()).body(validation).send().await;
    let response = response.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(
        response.text().await.expect("a body"),
        r#"{"validationResponse":"c-1"}"#
    );

    let options = client()
        .request(Method::OPTIONS, receiver.url())
        .header("WebHook-Request-Origin", "eventgrid.azure.net")
        .header("WebHook-Request-Rate", "120");
    let response = options.send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(
        response.headers()["webhook-allowed-origin"],
        "eventgrid.azure.net"
    );
    assert_eq!(response.headers()["webhook-allowed-rate"], "120");
    assert_eq!(answers(&receiver, &[EVENT]).await, "503");
}

#[tokio::test]
async fn retry_after_goes_with_429_and_503_alone() {
    let receiver = receiver("429 503 500 200", |options| options.retry_after_s = Some(7)).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let response = client()
            .post(receiver.url())
            .send()
            .await
            .expect("an answer");
        seen.push(
            response
                .headers()
                .get("retry-after")
                .map(|value| value.as_bytes().to_vec()),
        );
    }
    assert_eq!(seen, [Some(b"7".to_vec()), Some(b"7".to_vec()), None, None]);
}

#[tokio::test]
async fn stopping_ends_requests_that_wait() {
    let receiver = receiver("timeout", |_| {}).await;
    let waiting = tokio::spawn(client().post(receiver.url()).body(EVENT).send());
    let seen = receiver.requests_after(0).await;
    assert_eq!(seen[0].answer, ScriptedResponse::Timeout);
    let address = receiver.address();
    receiver.stop().await;
    assert!(
        waiting.await.expect("no panic").is_err(),
        "the connection was closed"
    );
    assert!(
        TcpStream::connect(address).await.is_err(),
        "nobody listens any more"
    );
}

#[tokio::test]
async fn a_body_past_the_bound_is_rejected() {
    let receiver = receiver("200", |_| {}).await;
    let response = client()
        .post(receiver.url())
        .body(vec![b' '; BODY_MAX + 1])
        .send()
        .await;
    // The connection may break before the client has read the answer: it is still sending.
    assert!(response.is_err() || response.is_ok_and(|response| response.status() == 413));
    assert!(receiver.requests().is_empty());
}
