//! Inspectors as the management API writes them: extensions.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderName;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::mirror::documents;
use super::rules::{Context, Judged, header_value};
use super::values::milliseconds;
use super::{InvalidResource, document};
use crate::model::inspector::{InspectedRequest, Inspector, InspectorDefinition};
use crate::model::limits::{
    INSPECTOR_BODY_BYTES_MAX, INSPECTOR_DELAY_MAX, INSPECTOR_HEADER_BYTES_MAX,
    INSPECTOR_HEADERS_MAX, RETRY_AFTER_MAX,
};
use crate::model::response_script::ResponseScript;
use crate::wire::content::text_beginning;

documents! {
    InspectorDefinition => InspectorDocument;
}

/// How an inspector answers.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "InspectorDefinition", rename_all = "camelCase")]
#[schemars(rename = "InspectorDefinition")]
#[schemars(extend("x-rule" = "inspector"))]
struct InspectorDocument {
    /// Statuses, `timeout` and `close`, in their order; the last one repeats: `503x2 200`.
    #[serde(rename = "answers", default = "default_responses")]
    responses: ResponseScript,
    /// Passes before each answer.
    #[serde(rename = "delayInMilliseconds", with = "milliseconds", default)]
    #[schemars(with = "u32", range(max = INSPECTOR_DELAY_MAX.as_secs() * 1_000))]
    delay: Duration,
    /// Sent as `Retry-After` with every 429 and 503.
    #[serde(rename = "retryAfterInSeconds")]
    #[schemars(range(max = RETRY_AFTER_MAX.as_secs()))]
    retry_after_s: Option<u32>,
    /// Sent with every answer.
    #[serde(rename = "responseHeaders", default)]
    headers: BTreeMap<String, String>,
    /// Sent with every answer whose status allows for one.
    #[serde(rename = "responseBody", default)]
    #[schemars(extend("x-maxBytes" = INSPECTOR_BODY_BYTES_MAX))]
    body: String,
    /// Every event goes through the answers by itself.
    #[serde(default)]
    per_event: bool,
}

fn default_responses() -> ResponseScript {
    InspectorDefinition::default().responses
}

/// Headers that say how an answer is carried, which is not the inspector's to decide.
const RESERVED: [HeaderName; 3] = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];

pub(super) fn judge(it: &mut Judged<'_>) {
    const HEADERS: &str = "responseHeaders";
    let Some(Value::Object(headers)) = it.object.get(HEADERS).cloned() else {
        return;
    };
    if headers.len() > INSPECTOR_HEADERS_MAX {
        let count = headers.len();
        let problem =
            format!("at most {INSPECTOR_HEADERS_MAX} headers are allowed, but there are {count}");
        it.fault(HEADERS, problem);
    }
    for (name, value) in &headers {
        if let Some(problem) = header_problem(name, value.as_str().unwrap_or_default()) {
            it.fault(format!("{HEADERS}.{name}"), problem);
        }
    }
}

/// Reads the body of a PUT, all of which is optional.
pub fn parse_inspector(body: &Value) -> Result<InspectorDefinition, InvalidResource> {
    document::read(body, &Context::NONE)
}

/// The form in which the store keeps a definition.
pub fn inspector_to_text(definition: &InspectorDefinition) -> String {
    document::to_text(definition)
}

/// Reads what [`inspector_to_text`] wrote.
pub fn inspector_from_text(text: &str) -> Result<InspectorDefinition, InvalidResource> {
    document::from_text(text)
}

/// An inspector without the figures of what has come.
pub fn render_inspector_definition(inspector: &Inspector) -> Value {
    let mut document = json!(inspector.definition);
    document["name"] = json!(inspector.name.as_str());
    document
}

/// The answer that shows an inspector.
pub fn render_inspector(inspector: &Inspector) -> Value {
    let mut document = render_inspector_definition(inspector);
    document["url"] = json!(inspector.name.url());
    document["deliveriesAnswered"] = json!(inspector.turn);
    document["requestsReceived"] = json!(inspector.received);
    document["requestsKept"] = json!(inspector.kept);
    document["createdAt"] = json!(inspector.created_at.to_string());
    document["lastModifiedAt"] = json!(inspector.updated_at.to_string());
    document
}

/// A request in a list.
pub fn render_inspected_row(request: &InspectedRequest) -> Value {
    json!({
        "number": request.number,
        "receivedAt": request.received_at.to_string(),
        "method": request.method,
        "path": request.path,
        "kind": request.handshake.as_deref().unwrap_or("delivery"),
        "events": request.events,
        "eventId": request.event_id,
        "eventType": request.event_type,
        "size": request.bytes,
        "signature": request.signature,
        "answer": request.response,
    })
}

/// A request with its headers and its body.
pub fn render_inspected(request: &InspectedRequest) -> Value {
    let mut document = render_inspected_row(request);
    let headers = request.headers.iter();
    let headers = headers.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    document["headers"] = Value::Object(headers.collect::<Map<_, _>>());
    let kept = u64::try_from(request.body_start.len()).unwrap_or(u64::MAX);
    document["truncated"] = json!(kept < request.bytes);
    match text_beginning(&request.body_start) {
        Some(text) => document["body"] = json!(text),
        None => document["bodyBase64"] = json!(STANDARD.encode(&request.body_start)),
    }
    document
}

fn header_problem(name: &str, value: &str) -> Option<String> {
    let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
        return Some("it is no name of a header".to_owned());
    };
    if RESERVED.contains(&parsed) {
        return Some("how an answer is carried cannot be scripted; leave it out".to_owned());
    }
    if value.len() > INSPECTOR_HEADER_BYTES_MAX {
        return Some(format!(
            "its value has more than {INSPECTOR_HEADER_BYTES_MAX} bytes"
        ));
    }
    header_value(value).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(body: &Value, target: &str, problem: &str) {
        let error = parse_inspector(body).expect_err("it is wrong");
        assert_eq!(error.first().path, target, "{body}");
        assert!(error.first().problem.contains(problem), "{body}: {error}");
    }

    #[test]
    fn definitions_are_read_back_as_they_were_written() {
        let body = json!({
            "answers": "503,503 200", "delayInMilliseconds": 180_000, "retryAfterInSeconds": 30,
            "responseHeaders": { "x-a": "b" }, "responseBody": "Not\nnow", "perEvent": true,
        });
        let definition = parse_inspector(&body).expect("a definition");
        assert_eq!(definition.responses.to_string(), "503 503 200");
        assert_eq!(definition.delay, Duration::from_secs(180));
        let text = inspector_to_text(&definition);
        assert_eq!(inspector_from_text(&text), Ok(definition));
        let nothing = parse_inspector(&json!({})).expect("defaults");
        assert_eq!(nothing, InspectorDefinition::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        refuse(
            &json!({ "answers": "200 maybe" }),
            "answers",
            "\"maybe\" is no answer",
        );
        refuse(&json!({ "answer": "200" }), "answer", "\"answers\"");
        refuse(
            &json!({ "delayInMilliseconds": 180_001 }),
            "delayInMilliseconds",
            "from 0 to 180000",
        );
        refuse(
            &json!({ "retryAfterInSeconds": 86_401 }),
            "retryAfterInSeconds",
            "from 0 to 86400",
        );
        let long = "ä".repeat(INSPECTOR_BODY_BYTES_MAX / 2 + 1);
        refuse(
            &json!({ "responseBody": long }),
            "responseBody",
            "1024 bytes",
        );
        refuse(&json!({ "perEvent": "yes" }), "perEvent", "true or false");
        for (name, value, problem) in [
            ("a b", "c", "no name"),
            ("Content-Length", "3", "cannot be scripted"),
            ("x-a", "b\r\nc", "control characters"),
        ] {
            let target = format!("responseHeaders.{name}");
            refuse(
                &json!({ "responseHeaders": { name: value } }),
                &target,
                problem,
            );
        }
        let many: BTreeMap<String, &str> = (0..=INSPECTOR_HEADERS_MAX)
            .map(|number| (format!("x-{number}"), "v"))
            .collect();
        refuse(
            &json!({ "responseHeaders": many }),
            "responseHeaders",
            "at most 20",
        );
        let long = "x".repeat(INSPECTOR_HEADER_BYTES_MAX + 1);
        refuse(
            &json!({ "responseHeaders": { "x-a": long } }),
            "responseHeaders.x-a",
            "4096 bytes",
        );
    }
}
