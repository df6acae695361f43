use std::time::Duration;

use super::*;
use crate::model::batch::BatchPolicy;
use crate::model::event::{Event, EventData, EventKey};
use crate::outbound::egress::EgressDenied;
use crate::outbound::test_support::{NOW, Receiver, TOPIC, dynamic, fixed, subscription};

fn event(number: i64, data: &str) -> StoredEvent {
    StoredEvent {
        key: EventKey(number),
        received_at: NOW,
        event: Event {
            id: format!("id-{number}"),
            source: None,
            event_type: "Order.Paid".to_owned(),
            subject: Some(format!("/orders/{number}")),
            time: Some("2026-11-21T06:40:00Z".to_owned()),
            data_version: Some(format!("{number}.0")),
            attributes: Vec::new(),
            data: EventData::Json(data.to_owned()),
        },
    }
}

async fn send(subscription: &EventSubscription, events: &[StoredEvent]) -> String {
    let receiver = Receiver::answering(200, "", "");
    let events: Vec<&StoredEvent> = events.iter().collect();
    let delivery_request = DeliveryRequest {
        subscription,
        topic_resource_id: TOPIC,
        events: &events,
        delivery_count: 3,
        deadline: Duration::from_secs(30),
    };
    let sent = receiver.outbound().deliver(delivery_request, None).await;
    let outcome = sent.map(|sent| sent.result.outcome);
    assert_eq!(outcome, Some(Outcome::Delivered));
    receiver.only_request()
}

const BATCHES: BatchPolicy = BatchPolicy {
    max_events: Some(10),
    preferred_kilobytes: None,
    split_on_error: false,
};

/// The head must be `expected`, the body what `wire` writes.
async fn check_head(schema: DeliverySchema, batch: BatchPolicy, numbers: &[i64], expected: &str) {
    let subscription = subscription(schema, batch, Vec::new());
    let events: Vec<_> = numbers.iter().map(|number| event(*number, "{}")).collect();
    let request = send(&subscription, &events).await;
    let (head, body) = request.split_once("\n\n").expect("a head");
    assert_eq!(head, expected);
    let events: Vec<_> = events.iter().collect();
    let written = wire::encode(schema, TOPIC, &events, batch.is_on());
    assert_eq!(body.as_bytes(), written.body);
}

#[tokio::test]
async fn requests_carry_the_headers_of_event_grid() {
    let one = BatchPolicy::default();
    check_head(
        DeliverySchema::EventGridSchema,
        one,
        &[7],
        "POST https://shop.example/inbox?code=s%20ecret&x=1\n\
         aeg-data-version: 7.0\n\
         aeg-delivery-count: 3\n\
         aeg-event-type: Notification\n\
         aeg-metadata-version: 1\n\
         aeg-output-event-id: 01a1fcd6-1d92-8000-8000-000000000007\n\
         aeg-subscription-name: BILLING-2\n\
         content-type: application/json; charset=utf-8",
    )
    .await;
    check_head(
        DeliverySchema::CloudEventSchemaV1_0,
        one,
        &[7],
        "POST https://shop.example/inbox?code=s%20ecret&x=1\n\
         aeg-delivery-count: 3\n\
         aeg-event-type: Notification\n\
         aeg-metadata-version: 1.0\n\
         aeg-output-event-id: 01a1fcd6-1d92-8000-8000-000000000007\n\
         aeg-subscription-name: BILLING-2\n\
         content-type: application/cloudevents+json; charset=utf-8\n\
         origin: eventgrid.azure.net\n\
         webhook-request-origin: eventgrid.azure.net",
    )
    .await;
    check_head(
        DeliverySchema::CustomInputSchema,
        one,
        &[7],
        "POST https://shop.example/inbox?code=s%20ecret&x=1\n\
         aeg-data-version: 7.0\n\
         aeg-delivery-count: 3\n\
         aeg-event-type: Notification\n\
         aeg-metadata-version: 1\n\
         aeg-output-event-id: 01a1fcd6-1d92-8000-8000-000000000007\n\
         aeg-subscription-name: BILLING-2\n\
         content-type: application/json; charset=utf-8",
    )
    .await;
}

/// A batch has the versions of its first event and no event's id, unless it holds just one.
#[tokio::test]
async fn batches_go_by_their_first_event() {
    check_head(
        DeliverySchema::EventGridSchema,
        BATCHES,
        &[7, 8],
        "POST https://shop.example/inbox?code=s%20ecret&x=1\n\
         aeg-data-version: 7.0\n\
         aeg-delivery-count: 3\n\
         aeg-event-type: Notification\n\
         aeg-metadata-version: 1\n\
         aeg-subscription-name: BILLING-2\n\
         content-type: application/json; charset=utf-8",
    )
    .await;
    check_head(
        DeliverySchema::CloudEventSchemaV1_0,
        BATCHES,
        &[7],
        "POST https://shop.example/inbox?code=s%20ecret&x=1\n\
         aeg-delivery-count: 3\n\
         aeg-event-type: Notification\n\
         aeg-metadata-version: 1.0\n\
         aeg-output-event-id: 01a1fcd6-1d92-8000-8000-000000000007\n\
         aeg-subscription-name: BILLING-2\n\
         content-type: application/cloudevents-batch+json; charset=utf-8\n\
         origin: eventgrid.azure.net\n\
         webhook-request-origin: eventgrid.azure.net",
    )
    .await;
}

#[tokio::test]
async fn the_operators_own_headers_are_added() {
    let long = "x".repeat(4_096);
    let too_long = "x".repeat(4_097);
    let data = format!(
        r#"{{"tenant":"nörd","paid":true,"lines":[1],"fold":"a\r\nx-evil: 1","long":"{too_long}"}}"#
    );
    let mappings = vec![
        fixed("Authorization", "Bearer t0ken"),
        fixed("X-Long", &long),
        fixed("X-Too-Long", &too_long),
        fixed("not a name", "x"),
        fixed("X-Folded", "a\r\nx-evil: 1"),
        fixed("aeg-event-type", "Forged"),
        fixed("Content-Type", "text/plain"),
        fixed("X-Empty", ""),
        dynamic("X-Subject", "subject"),
        dynamic("X-Topic", "topic"),
        dynamic("X-Tenant", "data.tenant"),
        dynamic("X-Paid", "data.paid"),
        dynamic("X-Lines", "data.lines"),
        dynamic("X-Nothing", "data.nothing"),
        dynamic("X-Fold", "data.fold"),
        dynamic("X-Data-Long", "data.long"),
    ];
    let subscription = subscription(DeliverySchema::EventGridSchema, BATCHES, mappings);
    // Values come from the first event of a batch.
    let request = send(&subscription, &[event(7, &data), event(8, "{}")]).await;
    let head = request.split_once("\n\n").expect("a head").0;
    let own: Vec<_> = head
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with("aeg-"))
        .collect();
    assert_eq!(
        own,
        [
            "authorization: Bearer t0ken",
            "content-type: application/json; charset=utf-8",
            "x-empty: ",
            &format!("x-long: {long}"),
            "x-paid: true",
            "x-subject: /orders/7",
            "x-tenant: nörd",
            &format!("x-topic: {TOPIC}"),
        ]
    );
    assert!(head.contains("aeg-event-type: Notification"));
}

async fn answer_to(status: u16, headers: &str, body: &str) -> AttemptResult {
    deliver_to(&Receiver::answering(status, headers, body)).await
}

async fn deliver_to(receiver: &std::sync::Arc<Receiver>) -> AttemptResult {
    let subscription = subscription(
        DeliverySchema::EventGridSchema,
        BatchPolicy::default(),
        Vec::new(),
    );
    let event = event(7, "{}");
    let delivery_request = DeliveryRequest {
        subscription: &subscription,
        topic_resource_id: TOPIC,
        events: &[&event],
        delivery_count: 0,
        deadline: Duration::from_secs(30),
    };
    receiver
        .outbound()
        .deliver(delivery_request, None)
        .await
        .expect("an attempt")
        .result
}

#[tokio::test]
async fn answers_are_kept_with_their_meaning() {
    let response = answer_to(
        503,
        "retry-after: 9\nx-why: \u{fc}ber\nset-cookie: sid=1",
        "busy",
    )
    .await;
    assert_eq!(
        response,
        AttemptResult {
            outcome: Outcome::Busy,
            response: Some(HttpResponse {
                status: 503,
                headers: vec![
                    ("retry-after".to_owned(), "9".to_owned()),
                    ("x-why".to_owned(), "\u{fc}ber".to_owned()),
                ],
                body: b"busy".to_vec(),
                is_cut: false,
            }),
            error: None,
            warning: None,
            retry_after: Some(Duration::from_secs(9)),
            remote_address: Some("192.0.2.7:443".to_owned()),
            dead_letter: None,
        }
    );
}

#[tokio::test]
async fn only_a_busy_receiver_may_ask_to_wait() {
    for (status, outcome) in [
        (200, Outcome::Delivered),
        (301, Outcome::GenericError),
        (400, Outcome::BadRequest),
        (410, Outcome::GenericError),
        (429, Outcome::Busy),
        (500, Outcome::GenericError),
        (503, Outcome::Busy),
    ] {
        // The date counts from the clock's time, 138 ms past a full second.
        for (retry_after, wait_ms) in [("120", 120_000), ("Sat, 21 Nov 2026 06:42:54 GMT", 120_862)]
        {
            let response = answer_to(status, &format!("retry-after: {retry_after}"), "").await;
            let expected = (outcome == Outcome::Busy).then(|| Duration::from_millis(wait_ms));
            assert_eq!(
                (response.outcome, response.retry_after),
                (outcome, expected),
                "{status}"
            );
        }
    }
}

#[tokio::test]
async fn what_is_kept_of_an_answer_is_bounded() {
    let many: String = (0..150).map(|number| format!("x-{number}: y\n")).collect();
    let result = answer_to(200, &many, &"b".repeat(RESPONSE_KEPT_MAX + 1)).await;
    let response = result.response.expect("a response");
    assert_eq!(response.headers.len(), RESPONSE_HEADERS_KEPT_MAX);
    assert_eq!(response.body.len(), RESPONSE_KEPT_MAX);

    let big: String = (0..9)
        .map(|number| format!("x-{number}: {}\n", "y".repeat(4_000)))
        .collect();
    let result = answer_to(200, &big, "").await;
    assert_eq!(result.response.expect("a response").headers.len(), 4);
}

#[tokio::test]
async fn errors_have_their_outcomes() {
    let loopback = EgressDenied::NotPublic {
        address: [127, 0, 0, 1].into(),
        what: "a loopback address",
        net: "127.0.0.0/8".parse().expect("a network"),
    };
    for (error, outcome, text) in [
        (
            TransportError::TimedOut,
            Outcome::TimedOut,
            "no answer within the deadline",
        ),
        (
            TransportError::Resolution("x".to_owned()),
            Outcome::ResolutionError,
            "x",
        ),
        (
            TransportError::Socket("y".to_owned()),
            Outcome::SocketError,
            "y",
        ),
        (
            TransportError::Tls("z".to_owned()),
            Outcome::SocketError,
            "TLS failed: z",
        ),
        (
            TransportError::Denied(loopback),
            Outcome::Aborted,
            "not called: 127.0.0.1 is a loopback address; allow it with --egress-allow 127.0.0.1/32, or its whole network with --egress-allow 127.0.0.0/8",
        ),
    ] {
        let response = deliver_to(&Receiver::giving(Err(error))).await;
        assert_eq!(
            (response.outcome, response.error.as_deref()),
            (outcome, Some(text))
        );
        assert_eq!((response.status(), response.remote_address), (None, None));
    }
}
