//! CloudEvents in binary mode: the attributes in headers, the data in the body (rule 2.5).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use serde_json::value::RawValue;

use super::context::EventContext;
use crate::model::event::{Event, EventData};
use crate::wire::bad_input::BadInput;
use crate::wire::content::{self, ContentType};
use crate::wire::{envelope, json};

const PREFIX: &str = "ce-";

/// Attributes that have no header of this form: the body and its `Content-Type` carry them.
const NO_HEADERS: [&str; 3] = ["datacontenttype", "data", "data_base64"];

/// Reports whether there is an attribute among the headers, as in binary mode.
pub(super) fn is_meant(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with(PREFIX))
}

/// Reads the one event of a request.
pub(super) fn decode(
    headers: &HeaderMap,
    content_type: Option<ContentType>,
    body: &[u8],
) -> Result<Event, BadInput> {
    let version = HeaderName::from_static("ce-specversion");
    let version = headers
        .contains_key(&version)
        .then(|| value_of(headers, &version))
        .transpose()?;
    let mut context = EventContext::of_version(version.as_deref())?;
    for name in headers.keys() {
        if let Some(attribute) = name.as_str().strip_prefix(PREFIX) {
            context.set(attribute, &value_of(headers, name)?)?;
        }
    }
    let data = data(content_type.as_ref(), body)?;
    if let Some(content_type) = content_type {
        context.set("datacontenttype", &json::to_string(&content_type.text))?;
    }
    context.finish(data)
}

/// The value of an attribute as JSON: unquoted, then percent-decoded, once each.
fn value_of(headers: &HeaderMap, name: &HeaderName) -> Result<String, BadInput> {
    if NO_HEADERS.contains(&&name.as_str()[PREFIX.len()..]) {
        let problem = "there is no such header; the body and its Content-Type carry the data";
        return Err(BadInput::in_field(name.as_str(), problem));
    }
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => match text_of(value) {
            Some(text) => Ok(json::to_string(&text)),
            None => Err(BadInput::in_field(name.as_str(), "its value is not UTF-8")),
        },
        _ => Err(BadInput::in_field(
            name.as_str(),
            "it is there more than once",
        )),
    }
}

fn text_of(value: &HeaderValue) -> Option<String> {
    let text = std::str::from_utf8(value.as_bytes()).ok()?;
    let text = unquoted(text.trim());
    let decoded = percent_decode_str(&text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

fn unquoted(text: &str) -> String {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let Some(inner) = inner else {
        return text.to_owned();
    };
    let mut plain = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(c) = characters.next() {
        plain.push(if c == '\\' {
            characters.next().unwrap_or(c)
        } else {
            c
        });
    }
    plain
}

/// The body as the data that the JSON format has for its type. What is no text stays bytes.
fn data(content_type: Option<&ContentType>, body: &[u8]) -> Result<EventData, BadInput> {
    if body.is_empty() {
        return Ok(EventData::Absent);
    }
    let is_json = content_type.map_or_else(|| content::is_json(body), ContentType::is_json);
    if is_json {
        return json_data(content_type, body);
    }
    let is_text = content_type.is_some_and(|each| each.is_text() && each.is_utf8());
    match std::str::from_utf8(body) {
        Ok(text) if is_text => Ok(EventData::Json(json::to_string(text))),
        Ok(_) | Err(_) => Ok(EventData::Binary(Bytes::copy_from_slice(body))),
    }
}

fn json_data(content_type: Option<&ContentType>, body: &[u8]) -> Result<EventData, BadInput> {
    let text = content::json_text_of(content_type, body)?;
    let json: &RawValue = serde_json::from_str(text).map_err(|error| envelope::not_json(&error))?;
    Ok(EventData::Json(json.get().to_owned()))
}
