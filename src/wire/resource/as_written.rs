//! Responses that show a resource as its author wrote it: without properties that were not set, and with the original
//! spelling of strings.
//!
//! A definition keeps its author's document beside the parsed values. Where both mean the same, the response has the
//! author's text. Where the definition has changed since, for example by a pause, the response has the current value.
//! A property that the author left out is omitted while it has its default, unless Azure always returns the property
//! (the keyword `x-answered`).

use std::sync::Arc;

use serde_json::{Map, Value};

use super::reader::property_of;
use super::rules::{read_expiration, read_ip_mask};
use crate::model::as_written::AsWritten;
use crate::model::destination::EntityId;
use crate::model::name::TopicName;
use crate::wire::duration;

/// The properties that an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerScope {
    /// The properties that were set, that differ from their defaults, or that Azure always answers.
    Set,
    /// All properties, as Service Bus answers them.
    All,
}

/// Serializes an author's document for storage in a definition.
pub(super) fn to_text(own: &Value) -> AsWritten {
    AsWritten((!own.is_null()).then(|| Arc::from(own.to_string())))
}

/// Parses a document that [`to_text`] has serialized.
pub(super) fn from_text(own: &AsWritten) -> Value {
    let text = own.0.as_deref();
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// Returns the part of a document that responses may show. `shown` is the same document in a response. A value that is
/// missing in `shown` is a secret, unless its schema has the keyword `x-inert`.
pub(super) fn without_secrets(read: Value, shown: &Value, schema: &Value) -> Option<Value> {
    match (read, shown) {
        (Value::Object(read), Value::Object(shown)) => {
            let own = read.into_iter().filter_map(|(name, value)| {
                let property = property_of(schema, shown, &name).unwrap_or(&Value::Null);
                let value = if is_inert(property) {
                    value
                } else {
                    without_secrets(value, shown.get(&name)?, property)?
                };
                Some((name, value))
            });
            Some(Value::Object(own.collect()))
        }
        (Value::Array(read), Value::Array(shown)) if read.len() == shown.len() => {
            let both = read.into_iter().zip(shown);
            let items = &schema["items"];
            let own =
                both.map(|(read, shown)| without_secrets(read, shown, items).unwrap_or_default());
            Some(own.collect())
        }
        (_, Value::Null | Value::Array(_) | Value::Object(_)) => None,
        (read, Value::Bool(_) | Value::Number(_) | Value::String(_)) => Some(read),
    }
}

/// Converts the complete document `whole` to the document that responses show.
pub(super) fn answer(whole: Value, own: &Value, schema: &Value, which: AnswerScope) -> Value {
    match whole {
        Value::Object(members) => Value::Object(merged_members(members, own, schema, which)),
        Value::Array(elements) => {
            let written = own.as_array().filter(|own| own.len() == elements.len());
            let merged = elements.into_iter().enumerate().map(|(at, each)| {
                let own = written.map_or(&Value::Null, |written| &written[at]);
                answer(each, own, &schema["items"], AnswerScope::All)
            });
            merged.collect()
        }
        Value::String(text) if own.as_str().is_some_and(|own| is_same(own, &text, schema)) => {
            own.clone()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => whole,
    }
}

/// Makes the response that shows a resource whose `properties` were written by an author.
pub(super) fn resource(
    mut whole: Value,
    own: &AsWritten,
    schema: &Value,
    which: AnswerScope,
) -> Value {
    let properties = whole["properties"].take();
    whole["properties"] = answer(properties, &from_text(own), schema, which);
    whole
}

fn merged_members(
    members: Map<String, Value>,
    own: &Value,
    schema: &Value,
    which: AnswerScope,
) -> Map<String, Value> {
    let kind = members.clone();
    let merged = members.into_iter().filter_map(|(name, value)| {
        // A property that is not in the schema occurs only in responses, or has a name that the author chose.
        let Some(property) = property_of(schema, &kind, &name) else {
            return Some((name, value));
        };
        let written = own.get(&name).unwrap_or(&Value::Null);
        let which = if property["x-answered"] == true {
            AnswerScope::All
        } else {
            which
        };
        let value = answer(value, written, property, which);
        // An optional object that is left out is read as an empty object.
        let is_set = !written.is_null() && value != Value::Object(Map::new());
        let is_shown = which == AnswerScope::All || is_set || !says_nothing(&value, property);
        is_shown.then_some((name, value))
    });
    let mut merged: Map<String, Value> = merged.collect();
    for (name, value) in own.as_object().into_iter().flatten() {
        if property_of(schema, &kind, name).is_some_and(is_inert) {
            merged.insert(name.clone(), value.clone());
        }
    }
    merged
}

/// Reports whether a property has no effect and is kept only in the author's document (`x-inert`).
fn is_inert(schema: &Value) -> bool {
    schema["x-inert"] == true
}

/// Reports whether a value means the same as its absence. The `null` of a secret does not: it shows that there is a
/// secret.
fn says_nothing(value: &Value, schema: &Value) -> bool {
    match value {
        Value::Null => schema.get("x-kept").is_none(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            schema.get("default") == Some(value)
        }
    }
}

/// Returns the name of the entity whose ID is `text`.
fn entity_named(text: &str) -> Option<TopicName> {
    Some(EntityId::parse(text).ok()?.name().clone())
}

/// Reports whether two strings mean the same as values of a property.
fn is_same(own: &str, whole: &str, schema: &Value) -> bool {
    match (schema["x-check"].as_str(), schema["format"].as_str()) {
        (Some("expiration"), _) => read_expiration(own) == read_expiration(whole),
        (Some("ipMask"), _) => read_ip_mask(own) == read_ip_mask(whole),
        (Some("entityId"), _) => entity_named(own) == entity_named(whole),
        (_, Some("duration")) => duration::parse(own) == duration::parse(whole),
        _ => own == whole,
    }
}
