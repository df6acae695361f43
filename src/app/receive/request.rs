//! A request as the receiver saw it: what it is, and which events it carries.

use std::net::SocketAddr;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::Value;

use crate::app::receive::script::ScriptedAnswer;
use crate::base::Timestamp;
use crate::wire::signature::NotSigned;

/// The type of the event that opens Event Grid's handshake (spec 5.1).
const VALIDATION_EVENT_TYPE: &str = "Microsoft.EventGrid.SubscriptionValidationEvent";

/// A request and what was answered.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// From 1, in the order of arrival.
    pub number: u64,
    pub received_at: Timestamp,
    pub remote_address: SocketAddr,
    pub method: String,
    /// With the query.
    pub path: String,
    /// Names in lower case, in the order in which they came.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    pub kind: RequestKind,
    /// Whether its signature is good; `None` where none is expected.
    pub signature: Option<Result<(), NotSigned>>,
    pub events: Vec<ReceivedEvent>,
    pub answer: ScriptedAnswer,
}

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Event Grid asks whether the receiver wants events; `code` is to be sent back (spec 5.1).
    Validation { code: String },
    /// CloudEvents asks the same (spec 5.2).
    AbuseProtection { origin: String },
    /// Anything else; a delivery, as a rule.
    Delivery,
}

/// What the receiver could tell of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedEvent {
    /// `None` for events of a custom schema that have no `id`.
    pub id: Option<String>,
    pub event_type: Option<String>,
    pub subject: Option<String>,
}

impl ReceivedRequest {
    /// The value of the header `name` (in lower case), if it was sent.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(each, _)| each == name)?;
        Some(&found.1)
    }
}

/// What a request is for, and the events in it.
pub(super) fn understand(head: &Parts, body: &[u8]) -> (RequestKind, Vec<ReceivedEvent>) {
    if let Some(origin) = abuse_protection(head) {
        return (RequestKind::AbuseProtection { origin }, Vec::new());
    }
    let bodies = json_objects(body);
    let events = match binary_event(&head.headers) {
        Some(event) => vec![event],
        None => bodies.iter().map(event).collect(),
    };
    match bodies.first().and_then(validation_code) {
        Some(code) => (RequestKind::Validation { code }, events),
        None => (RequestKind::Delivery, events),
    }
}

fn abuse_protection(head: &Parts) -> Option<String> {
    let origin = header(&head.headers, "webhook-request-origin")?;
    (head.method == Method::OPTIONS).then_some(origin)
}

/// The body's objects: an array's, or the one that it is. A body that is no JSON has none.
fn json_objects(body: &[u8]) -> Vec<Value> {
    match serde_json::from_slice(body) {
        Ok(Value::Array(values)) => values.into_iter().filter(Value::is_object).collect(),
        Ok(value) if value.is_object() => vec![value],
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// A CloudEvent in binary mode: its attributes are headers.
fn binary_event(headers: &HeaderMap) -> Option<ReceivedEvent> {
    headers
        .contains_key("ce-specversion")
        .then(|| ReceivedEvent {
            id: header(headers, "ce-id"),
            event_type: header(headers, "ce-type"),
            subject: header(headers, "ce-subject"),
        })
}

fn event(object: &Value) -> ReceivedEvent {
    let text = |name: &str| object[name].as_str().map(str::to_owned);
    ReceivedEvent {
        id: text("id"),
        event_type: text("eventType").or_else(|| text("type")),
        subject: text("subject"),
    }
}

fn validation_code(object: &Value) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ValidationEvent {
        event_type: String,
        data: ValidationData,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ValidationData {
        validation_code: String,
    }
    let event = ValidationEvent::deserialize(object).ok()?;
    (event.event_type == VALIDATION_EVENT_TYPE).then_some(event.data.validation_code)
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: http::request::Builder, body: &str, kind: &RequestKind, events: &str) {
        let (head, ()) = head.body(()).expect("a request").into_parts();
        let (found, found_events) = understand(&head, body.as_bytes());
        let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let found_events: Vec<String> = found_events
            .iter()
            .map(|e| {
                format!(
                    "{}/{}/{}",
                    dash(&e.id),
                    dash(&e.event_type),
                    dash(&e.subject)
                )
            })
            .collect();
        assert_eq!(
            (&found, found_events.join(" ").as_str()),
            (kind, events),
            "{body}"
        );
    }

    #[test]
    fn requests_of_every_schema_are_understood() {
        let post = || http::Request::post("/");
        let delivery = &RequestKind::Delivery;
        check(post(), "", delivery, "");
        check(post(), "no json", delivery, "");
        check(post(), "[1, \"x\"]", delivery, "");
        check(
            post(),
            r#"[{"id":"1","eventType":"A","subject":"s"},{"id":"2"}]"#,
            delivery,
            "1/A/s 2/-/-",
        );
        check(
            post(),
            r#"{"id":"1","type":"A","specversion":"1.0"}"#,
            delivery,
            "1/A/-",
        );
        check(post(), r#"[{"orderId":7}]"#, delivery, "-/-/-");
        let binary = post()
            .header("ce-specversion", "1.0")
            .header("ce-id", "9")
            .header("ce-type", "T");
        check(binary, "{\"id\":\"inner\"}", delivery, "9/T/-");
    }

    #[test]
    fn both_handshakes_are_recognised() {
        let validation = r#"[{"id":"1","eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{"validationCode":"c-1"}}]"#;
        let kind = RequestKind::Validation {
            code: "c-1".to_owned(),
        };
        let events = format!("1/{VALIDATION_EVENT_TYPE}/-");
        check(http::Request::post("/"), validation, &kind, &events);

        let options = http::Request::options("/").header("WebHook-Request-Origin", "grid.example");
        let kind = RequestKind::AbuseProtection {
            origin: "grid.example".to_owned(),
        };
        check(options, "", &kind, "");
        // A later delivery carries the header too, and is none.
        let delivery = http::Request::post("/").header("WebHook-Request-Origin", "grid.example");
        check(delivery, r#"{"id":"1"}"#, &RequestKind::Delivery, "1/-/-");
        check(http::Request::options("/"), "", &RequestKind::Delivery, "");
    }
}
