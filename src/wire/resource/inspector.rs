//! Inspectors as the management API writes them: extensions.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::fields::{Fields, Origin};
use super::{InvalidResource, read_stored};
use crate::model::inspector::{InspectedRequest, Inspector, InspectorDefinition};
use crate::model::limits::{
    INSPECTOR_BODY_BYTES_MAX, INSPECTOR_DELAY_MAX, INSPECTOR_HEADER_BYTES_MAX,
    INSPECTOR_HEADERS_MAX, RETRY_AFTER_MAX,
};
use crate::model::response_script::ResponseScript;
use crate::wire::content::text_beginning;

const ANSWERS: &str = "answers";
const DELAY: &str = "delayInMilliseconds";
const RETRY_AFTER: &str = "retryAfterInSeconds";
const HEADERS: &str = "responseHeaders";
const BODY: &str = "responseBody";
const PER_EVENT: &str = "perEvent";

/// What a client may set; the rest of an answer is passed over when it is sent back.
const NAMES: [&str; 6] = [ANSWERS, DELAY, RETRY_AFTER, HEADERS, BODY, PER_EVENT];

/// Headers that say how an answer is carried, which is not the inspector's to decide.
const RESERVED: [HeaderName; 3] = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];

/// Reads the body of a PUT, all of which is optional.
pub fn parse_inspector(body: &Value) -> Result<InspectorDefinition, InvalidResource> {
    read(&Fields::root(body, Origin::Request)?)
}

/// The form in which the store keeps a definition.
pub fn inspector_to_text(definition: &InspectorDefinition) -> String {
    render_definition(definition).to_string()
}

/// Reads what [`inspector_to_text`] wrote.
pub fn inspector_from_text(text: &str) -> Result<InspectorDefinition, InvalidResource> {
    let body = read_stored(text)?;
    read(&Fields::root(&body, Origin::Store)?)
}

/// An inspector without the figures of what has come.
pub fn render_inspector_definition(inspector: &Inspector) -> Value {
    let mut document = render_definition(&inspector.definition);
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

fn read(body: &Fields) -> Result<InspectorDefinition, InvalidResource> {
    body.expect_names(&NAMES)?;
    let default = InspectorDefinition::default();
    let delay_max = u32::try_from(INSPECTOR_DELAY_MAX.as_millis()).unwrap_or(u32::MAX);
    let retry_after_max = u32::try_from(RETRY_AFTER_MAX.as_secs()).unwrap_or(u32::MAX);
    Ok(InspectorDefinition {
        responses: read_answers(body)?.unwrap_or(default.responses),
        delay: body
            .number(DELAY, 0..=delay_max)?
            .map_or(default.delay, |ms| Duration::from_millis(ms.into())),
        retry_after_s: body.number(RETRY_AFTER, 0..=retry_after_max)?,
        headers: read_headers(body)?,
        body: read_body(body)?,
        per_event: body.flag(PER_EVENT)?.unwrap_or(default.per_event),
    })
}

fn read_answers(body: &Fields) -> Result<Option<ResponseScript>, InvalidResource> {
    let script = body
        .text(ANSWERS)?
        .map(str::parse::<ResponseScript>)
        .transpose();
    script.map_err(|problem| body.invalid(ANSWERS, problem.to_string()))
}

fn read_headers(body: &Fields) -> Result<BTreeMap<String, String>, InvalidResource> {
    let headers = body.text_map(HEADERS)?;
    if headers.len() > INSPECTOR_HEADERS_MAX {
        let problem = format!("there are more than {INSPECTOR_HEADERS_MAX}");
        return Err(body.invalid(HEADERS, problem));
    }
    for (name, value) in &headers {
        if let Some(problem) = header_problem(name, value) {
            return Err(body.invalid(&format!("{HEADERS}.{name}"), problem));
        }
    }
    Ok(headers)
}

fn read_body(body: &Fields) -> Result<String, InvalidResource> {
    let text = body.text(BODY)?.unwrap_or_default();
    match text.len() > INSPECTOR_BODY_BYTES_MAX {
        true => Err(body.invalid(
            BODY,
            format!("it has more than {INSPECTOR_BODY_BYTES_MAX} bytes; shorten it"),
        )),
        false => Ok(text.to_owned()),
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
    let is_bad = HeaderValue::from_bytes(value.as_bytes()).is_err();
    is_bad.then(|| "its value has line ends or other control characters".to_owned())
}

fn render_definition(definition: &InspectorDefinition) -> Value {
    json!({
        ANSWERS: definition.responses.to_string(),
        DELAY: u64::try_from(definition.delay.as_millis()).unwrap_or(u64::MAX),
        RETRY_AFTER: definition.retry_after_s,
        HEADERS: definition.headers,
        BODY: definition.body,
        PER_EVENT: definition.per_event,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(body: &Value, target: &str, problem: &str) {
        let error = parse_inspector(body).expect_err("it is wrong");
        assert_eq!(error.target, target, "{body}");
        assert!(error.problem.contains(problem), "{body}: {error}");
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
            DELAY,
            "from 0 to 180000",
        );
        refuse(
            &json!({ "retryAfterInSeconds": 86_401 }),
            RETRY_AFTER,
            "from 0 to 86400",
        );
        let long = "ä".repeat(INSPECTOR_BODY_BYTES_MAX / 2 + 1);
        refuse(&json!({ "responseBody": long }), BODY, "1024 bytes");
        refuse(&json!({ "perEvent": "yes" }), PER_EVENT, "true or false");
        for (name, value, problem) in [
            ("a b", "c", "no name"),
            ("Content-Length", "3", "cannot be scripted"),
            ("x-a", "b\r\nc", "line ends"),
        ] {
            let target = format!("{HEADERS}.{name}");
            refuse(&json!({ HEADERS: { name: value } }), &target, problem);
        }
        let many: BTreeMap<String, &str> = (0..=INSPECTOR_HEADERS_MAX)
            .map(|number| (format!("x-{number}"), "v"))
            .collect();
        refuse(&json!({ HEADERS: many }), HEADERS, "more than 20");
        let long = "x".repeat(INSPECTOR_HEADER_BYTES_MAX + 1);
        refuse(
            &json!({ HEADERS: { "x-a": long } }),
            "responseHeaders.x-a",
            "4096 bytes",
        );
    }
}
