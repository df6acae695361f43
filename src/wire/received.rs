//! Requests as webhooks see them: the kind of a request, the events that it carries, and the answer that agrees to a
//! handshake.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::wire::signature::NotSigned;
use crate::wire::validation::VALIDATION_EVENT_TYPE;

/// The verdict on a valid signature.
pub const SIGNATURE_GOOD: &str = "good";

/// The purpose of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Event Grid asks whether the receiver wants events; `code` is to be sent back (rule 5.1).
    Validation { code: String },
    /// A sender of CloudEvents asks whether the receiver wants events (rule 5.2).
    AbuseProtection { origin: String },
    /// Anything else; a delivery, as a rule.
    Delivery,
}

impl RequestKind {
    /// Returns the name of the kind in responses.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Validation { .. } => "validation",
            Self::AbuseProtection { .. } => "abuseProtection",
            Self::Delivery => "delivery",
        }
    }
}

/// The properties of an event that the receiver can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedProperties {
    /// `None` for events of a custom schema that have no `id`.
    pub id: Option<String>,
    pub event_type: Option<String>,
    pub subject: Option<String>,
}

/// Returns the purpose of a request, and the events in it.
pub fn understand(
    method: &Method,
    headers: &HeaderMap,
    body: &[u8],
) -> (RequestKind, Vec<ReceivedProperties>) {
    if let Some(origin) = abuse_protection(method, headers) {
        return (RequestKind::AbuseProtection { origin }, Vec::new());
    }
    let bodies = json_objects(body);
    let events = match binary_event(headers) {
        Some(event) => vec![event],
        None => bodies.iter().map(event).collect(),
    };
    match bodies.first().and_then(validation_code) {
        Some(code) => (RequestKind::Validation { code }, events),
        None => (RequestKind::Delivery, events),
    }
}

fn abuse_protection(method: &Method, headers: &HeaderMap) -> Option<String> {
    let origin = header(headers, "webhook-request-origin")?;
    (method == Method::OPTIONS).then_some(origin)
}

/// Returns the JSON objects in the body: the elements of an array, or a single object. Returns none if the body is not
/// JSON.
fn json_objects(body: &[u8]) -> Vec<Value> {
    match serde_json::from_slice(body) {
        Ok(Value::Array(values)) => values.into_iter().filter(Value::is_object).collect(),
        Ok(value) if value.is_object() => vec![value],
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// Reads the properties of a CloudEvent in binary mode, whose attributes are headers.
fn binary_event(headers: &HeaderMap) -> Option<ReceivedProperties> {
    headers
        .contains_key("ce-specversion")
        .then(|| ReceivedProperties {
            id: header(headers, "ce-id"),
            event_type: header(headers, "ce-type"),
            subject: header(headers, "ce-subject"),
        })
}

fn event(object: &Value) -> ReceivedProperties {
    let text = |name: &str| object[name].as_str().map(str::to_owned);
    ReceivedProperties {
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

/// Returns the headers and the body that agree to a handshake, with status 200; `None` for a delivery. `asked` are the
/// headers of the request.
pub fn agreement(kind: &RequestKind, asked: &HeaderMap) -> Option<(HeaderMap, Vec<u8>)> {
    match kind {
        RequestKind::Validation { code } => Some(validation_reply(code)),
        RequestKind::AbuseProtection { origin } => Some((consent(origin, asked), Vec::new())),
        RequestKind::Delivery => None,
    }
}

/// Makes the response to Event Grid's validation handshake, which returns the code (rule 5.1).
fn validation_reply(code: &str) -> (HeaderMap, Vec<u8>) {
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    let body = json!({ "validationResponse": code }).to_string();
    (HeaderMap::from_iter([(CONTENT_TYPE, json)]), body.into())
}

/// Makes the headers that give consent in the CloudEvents handshake (rule 5.2).
fn consent(origin: &str, asked: &HeaderMap) -> HeaderMap {
    let any = HeaderValue::from_static("*");
    let origin = HeaderValue::from_str(origin).unwrap_or_else(|_| any.clone());
    let rate = asked.get("webhook-request-rate").unwrap_or(&any).clone();
    let mut headers = HeaderMap::new();
    headers.insert("webhook-allowed-origin", origin);
    headers.insert("webhook-allowed-rate", rate);
    headers
}

/// Returns headers as strings, in the order in which they were received. The names are in lower case.
pub fn header_texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let pairs = headers
        .iter()
        .map(|(name, value)| (name.to_string(), text(value)));
    pairs.collect()
}

/// Returns headers as strings for display, without credentials and without the values of the headers in `hidden`.
pub fn shown_headers(headers: &HeaderMap, hidden: &[&str]) -> Vec<(String, String)> {
    let texts = header_texts(headers).into_iter();
    let shown = texts.map(|(name, value)| {
        let is_hidden = hidden.iter().any(|each| each.eq_ignore_ascii_case(&name));
        let value = if is_hidden {
            "***".to_owned()
        } else {
            without_credentials(&name, &value)
        };
        (name, value)
    });
    shown.collect()
}

/// Returns the value of the header `name` for display. Only the scheme is shown of credentials.
pub fn without_credentials(name: &str, value: &str) -> String {
    match (name, value.split_once(' ')) {
        ("authorization", Some((scheme, _))) => format!("{scheme} ***"),
        ("authorization" | "cookie", _) => "***".to_owned(),
        _ => value.to_owned(),
    }
}

/// Describes the result of a signature check: `good`, or the reason why the signature is invalid.
pub fn verdict(signature: &Result<(), NotSigned>) -> String {
    match signature {
        Ok(()) => SIGNATURE_GOOD.to_owned(),
        Err(why) => why.to_string(),
    }
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
        let (found, found_events) = understand(&head.method, &head.headers, body.as_bytes());
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
