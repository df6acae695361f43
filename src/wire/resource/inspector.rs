//! Inspectors as the management API writes them: extensions.

use std::collections::BTreeMap;
use std::time::Duration;

use http::HeaderName;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::envelope::close_but_for;
use super::mirror::documents;
use super::rules::{Judged, RuleContext, header_value};
use super::values::milliseconds;
use super::{InvalidResource, document};
use crate::base::Timestamp;
use crate::model::inspector::{InspectedRequest, Inspector, InspectorDefinition};
use crate::model::limits::{
    INSPECTOR_BODY_BYTES_MAX, INSPECTOR_DELAY_MAX, INSPECTOR_HEADER_BYTES_MAX,
    INSPECTOR_HEADERS_MAX, RETRY_AFTER_MAX,
};
use crate::model::response_script::ResponseScript;
use crate::wire::content::BodyBeginning;

documents! {
    InspectorDefinition => InspectorDocument;
}

/// How an inspector answers.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "InspectorDefinition", rename_all = "camelCase")]
#[schemars(rename = "InspectorDefinition")]
#[schemars(extend("x-rule" = "inspector"), transform = close_but_for::<Shown>)]
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
    document::read(body, &RuleContext::NONE)
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

/// An inspector as answers show it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Inspector")]
pub struct ShownInspector {
    #[serde(flatten)]
    definition: InspectorDefinition,
    #[serde(flatten)]
    shown: Shown,
}

/// The properties that an inspector has in answers, besides its definition.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Shown {
    name: String,
    /// The URL that event subscriptions deliver to.
    #[schemars(extend("format" = "uri"))]
    url: String,
    /// The number of deliveries since the answers were written.
    deliveries_answered: u32,
    /// The number of all requests ever received.
    requests_received: u64,
    requests_kept: u64,
    created_at: Timestamp,
    last_modified_at: Timestamp,
}

impl From<&Inspector> for ShownInspector {
    fn from(inspector: &Inspector) -> Self {
        Self {
            definition: inspector.definition.clone(),
            shown: Shown {
                name: inspector.name.as_str().to_owned(),
                url: inspector.name.url(),
                deliveries_answered: inspector.turn,
                requests_received: inspector.received,
                requests_kept: inspector.kept,
                created_at: inspector.created_at,
                last_modified_at: inspector.updated_at,
            },
        }
    }
}

/// A request that an inspector received, in a list.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InspectedRow {
    number: u64,
    received_at: Timestamp,
    method: String,
    path: String,
    /// `delivery`, or the handshake: `validation` or `abuseProtection`.
    kind: String,
    events: u64,
    event_id: Option<String>,
    event_type: Option<String>,
    size: u64,
    /// The verdict on the signature.
    signature: Option<String>,
    answer: String,
}

impl From<&InspectedRequest> for InspectedRow {
    fn from(request: &InspectedRequest) -> Self {
        Self {
            number: request.number,
            received_at: request.received_at,
            method: request.method.clone(),
            path: request.path.clone(),
            kind: request
                .handshake
                .clone()
                .unwrap_or_else(|| "delivery".to_owned()),
            events: request.events,
            event_id: request.event_id.clone(),
            event_type: request.event_type.clone(),
            size: request.bytes,
            signature: request.signature.clone(),
            answer: request.response.clone(),
        }
    }
}

/// A request with its headers and its body.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "InspectedRequest")]
pub struct ShownRequest {
    #[serde(flatten)]
    row: InspectedRow,
    headers: BTreeMap<String, String>,
    #[serde(flatten)]
    body: BodyBeginning,
}

impl From<&InspectedRequest> for ShownRequest {
    fn from(request: &InspectedRequest) -> Self {
        Self {
            row: request.into(),
            headers: request.headers.iter().cloned().collect(),
            body: BodyBeginning::new(&request.body_start, request.bytes),
        }
    }
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

    fn reject(body: &Value, target: &str, problem: &str) {
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
        reject(
            &json!({ "answers": "200 maybe" }),
            "answers",
            "\"maybe\" is no answer",
        );
        reject(&json!({ "answer": "200" }), "answer", "\"answers\"");
        reject(
            &json!({ "delayInMilliseconds": 180_001 }),
            "delayInMilliseconds",
            "from 0 to 180000",
        );
        reject(
            &json!({ "retryAfterInSeconds": 86_401 }),
            "retryAfterInSeconds",
            "from 0 to 86400",
        );
        let long = "ä".repeat(INSPECTOR_BODY_BYTES_MAX / 2 + 1);
        reject(
            &json!({ "responseBody": long }),
            "responseBody",
            "1024 bytes",
        );
        reject(&json!({ "perEvent": "yes" }), "perEvent", "true or false");
        for (name, value, problem) in [
            ("a b", "c", "no name"),
            ("Content-Length", "3", "cannot be scripted"),
            ("x-a", "b\r\nc", "control characters"),
        ] {
            let target = format!("responseHeaders.{name}");
            reject(
                &json!({ "responseHeaders": { name: value } }),
                &target,
                problem,
            );
        }
        let many: BTreeMap<String, &str> = (0..=INSPECTOR_HEADERS_MAX)
            .map(|number| (format!("x-{number}"), "v"))
            .collect();
        reject(
            &json!({ "responseHeaders": many }),
            "responseHeaders",
            "at most 20",
        );
        let long = "x".repeat(INSPECTOR_HEADER_BYTES_MAX + 1);
        reject(
            &json!({ "responseHeaders": { "x-a": long } }),
            "responseHeaders.x-a",
            "4096 bytes",
        );
    }
}
