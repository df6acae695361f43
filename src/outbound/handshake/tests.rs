use super::*;
use crate::model::batch::BatchPolicy;
use crate::model::destination::DeliveryAttributeMapping;
use crate::outbound::test_support::{NOW, Receiver, TOPIC, dynamic, fixed, subscription};
use crate::outbound::transport::TransportError;

const CODE: &str = "C0DE";
const URL: &str = "https://everpost.example/validate?code=C0DE";

fn asking(schema: DeliverySchema) -> EventSubscription {
    let mappings: Vec<DeliveryAttributeMapping> = vec![
        fixed("Authorization", "Bearer t0ken"),
        dynamic("X-Subject", "subject"),
    ];
    subscription(schema, BatchPolicy::default(), mappings)
}

fn request(subscription: &EventSubscription) -> HandshakeRequest<'_> {
    HandshakeRequest {
        subscription,
        topic_resource_id: TOPIC,
        code: CODE,
        validation_url: URL,
        event_id: Uuid::from_u128(5),
        now: NOW,
        deadline: Duration::from_secs(30),
    }
}

/// `agreed`, `agreed 100`, `awaiting …`, `rejected …` or `denied …`.
fn told(result: &HandshakeResult) -> String {
    match result {
        HandshakeResult::Agreed { allowed_rate: None } => "agreed".to_owned(),
        HandshakeResult::Agreed {
            allowed_rate: Some(rate),
        } => format!("agreed {rate}"),
        HandshakeResult::AwaitingManualAction { reason } => format!("awaiting: {reason}"),
        HandshakeResult::Rejected { reason } => format!("rejected: {reason}"),
        HandshakeResult::Denied { reason } => format!("denied: {reason}"),
    }
}

async fn check(schema: DeliverySchema, status: u16, headers: &str, body: &str, expected: &str) {
    let receiver = Receiver::answering(status, headers, body);
    let subscription = asking(schema);
    let result = receiver.outbound().shake(request(&subscription)).await;
    let told = told(&result);
    assert!(
        told.starts_with(expected),
        "{status} {headers} {body}: {told}"
    );
    receiver.only_request();
}

#[tokio::test]
async fn the_code_is_asked_back() {
    for schema in [
        DeliverySchema::EventGridSchema,
        DeliverySchema::CustomInputSchema,
    ] {
        for (status, body, expected) in [
            (200, r#"{"validationResponse":"C0DE"}"#, "agreed"),
            (200, r#"{"ValidationResponse":"C0DE"}"#, "agreed"),
            (200, r#"{"VALIDATIONRESPONSE":"C0DE","more":1}"#, "agreed"),
            (
                200,
                r#"{"validationResponse":"c0de"}"#,
                "awaiting: the receiver answered 200, but with another validation code",
            ),
            (
                200,
                "",
                "awaiting: the receiver answered 200, but without the validation code",
            ),
            (
                200,
                "OK",
                "awaiting: the receiver answered 200, but without",
            ),
            (
                200,
                r#""C0DE""#,
                "awaiting: the receiver answered 200, but without",
            ),
            (
                202,
                r#"{"validationResponse":"C0DE"}"#,
                "rejected: the receiver answered 202 to the validation event; only 200 counts",
            ),
            (204, "", "rejected: the receiver answered 204"),
            (302, "", "denied: the receiver answered 302"),
            (401, "", "denied: the receiver answered 401"),
            (404, "", "denied: the receiver answered 404"),
            (429, "", "rejected: the receiver answered 429"),
            (
                500,
                r#"{"validationResponse":"C0DE"}"#,
                "rejected: the receiver answered 500",
            ),
        ] {
            check(schema, status, "content-type: text/html", body, expected).await;
        }
    }
}

#[tokio::test]
async fn cloud_events_receivers_agree_by_headers() {
    let origin = "webhook-allowed-origin: eventgrid.azure.net";
    for (status, headers, expected) in [
        (200, origin.to_owned(), "agreed"),
        (200, "webhook-allowed-origin: *".to_owned(), "agreed"),
        (
            200,
            "webhook-allowed-origin:  EventGrid.Azure.NET ".to_owned(),
            "agreed",
        ),
        (200, format!("{origin}\nwebhook-allowed-rate: *"), "agreed"),
        (
            200,
            format!("{origin}\nwebhook-allowed-rate: 120"),
            "agreed 120",
        ),
        (
            200,
            format!("{origin}\nwebhook-allowed-rate: 99999999999"),
            "agreed 4294967295",
        ),
        (
            200,
            format!("webhook-allowed-origin: a.example\n{origin}"),
            "agreed",
        ),
        // The status proves nothing, neither way.
        (204, origin.to_owned(), "agreed"),
        (405, origin.to_owned(), "agreed"),
        (
            200,
            String::new(),
            "awaiting: the receiver answered 200, but without WebHook-Allowed",
        ),
        (202, "allow: OPTIONS".to_owned(), "awaiting: "),
        (
            301,
            String::new(),
            "denied: the receiver answered 301 to OPTIONS",
        ),
        (
            405,
            String::new(),
            "denied: the receiver answered 405 to OPTIONS",
        ),
        (
            500,
            String::new(),
            "rejected: the receiver answered 500 to OPTIONS",
        ),
        (
            200,
            "webhook-allowed-origin: other.example".to_owned(),
            "rejected: the receiver's WebHook-Allowed-Origin is neither \"eventgrid.azure.net\"",
        ),
        (
            200,
            "webhook-allowed-origin: eventgrid.azure.net.evil".to_owned(),
            "rejected: ",
        ),
        (
            200,
            "webhook-allowed-origin: https://eventgrid.azure.net".to_owned(),
            "rejected: ",
        ),
        (200, "webhook-allowed-origin: ".to_owned(), "rejected: "),
        (
            200,
            format!("{origin}\nwebhook-allowed-rate: 0"),
            "rejected: the receiver's WebHook-All",
        ),
        (
            200,
            format!("{origin}\nwebhook-allowed-rate: -1"),
            "rejected: ",
        ),
        (
            200,
            format!("{origin}\nwebhook-allowed-rate: +1"),
            "rejected: ",
        ),
        (
            200,
            format!("{origin}\nwebhook-allowed-rate: lots"),
            "rejected: ",
        ),
        (
            200,
            format!("{origin}\nwebhook-allowed-rate: "),
            "rejected: ",
        ),
    ] {
        let schema = DeliverySchema::CloudEventSchemaV1_0;
        // A code in the body does not count.
        let body = r#"{"validationResponse":"C0DE"}"#;
        check(schema, status, &headers, body, expected).await;
    }
}

#[tokio::test]
async fn a_receiver_that_cannot_be_asked_rejects() {
    for schema in DeliverySchema::ALL {
        let receiver = Receiver::giving(Err(TransportError::TimedOut));
        let subscription = asking(schema);
        let result = receiver.outbound().shake(request(&subscription)).await;
        assert_eq!(
            told(&result),
            "rejected: the handshake failed: no answer within the deadline"
        );
    }
}

/// The validation event of these two schemas is the same.
#[tokio::test]
async fn the_validation_event_is_posted() {
    for schema in [
        DeliverySchema::EventGridSchema,
        DeliverySchema::CustomInputSchema,
    ] {
        let receiver = Receiver::answering(200, "", "");
        let subscription = asking(schema);
        receiver.outbound().shake(request(&subscription)).await;
        let request = receiver.only_request();
        let (head, body) = request.split_once("\n\n").expect("a head");
        assert_eq!(
            head,
            "POST https://shop.example/inbox?code=s%20ecret&x=1\n\
             aeg-data-version: 1\n\
             aeg-delivery-count: 0\n\
             aeg-event-type: SubscriptionValidation\n\
             aeg-metadata-version: 1\n\
             aeg-subscription-name: BILLING-2\n\
             authorization: Bearer t0ken\n\
             content-type: application/json; charset=utf-8"
        );
        let expected = validation_event(TOPIC, CODE, URL, Uuid::from_u128(5), NOW);
        assert_eq!(body.as_bytes(), expected);
    }
}

#[tokio::test]
async fn cloud_events_receivers_are_asked_by_options() {
    let receiver = Receiver::answering(200, "", "");
    let subscription = asking(DeliverySchema::CloudEventSchemaV1_0);
    receiver.outbound().shake(request(&subscription)).await;
    assert_eq!(
        receiver.only_request(),
        "OPTIONS https://shop.example/inbox?code=s%20ecret&x=1\n\
         authorization: Bearer t0ken\n\
         webhook-request-callback: https://everpost.example/validate?code=C0DE\n\
         webhook-request-origin: eventgrid.azure.net\n\
         webhook-request-rate: 600000\n\n"
    );
}

#[tokio::test]
async fn a_farewell_is_said_once_whatever_comes_of_it() {
    for schema in DeliverySchema::ALL {
        let receiver = Receiver::giving(Err(TransportError::TimedOut));
        let subscription = asking(schema);
        receiver
            .outbound()
            .notify_deletion(request(&subscription))
            .await;
        let request = receiver.only_request();
        let (head, body) = request.split_once("\n\n").expect("a head");
        assert!(
            head.contains("aeg-event-type: SubscriptionDeletion\n"),
            "{head}"
        );
        let id = format!("{TOPIC}/eventSubscriptions/Billing-2");
        let expected = deletion_event(TOPIC, &id, Uuid::from_u128(5), NOW);
        assert_eq!(body.as_bytes(), expected);
    }
}
