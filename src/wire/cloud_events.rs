//! CloudEvents 1.0: one event in JSON, a batch in JSON, or one event in headers and body (rule 1.3, 2.3, 2.5).

mod binary;
mod context;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use serde_json::{Value, json};

use crate::base::Timestamp;
use crate::model::event::{Event, EventData, StoredEvent};
use crate::model::limits::{
    NAMESPACE_EXTENSION_NAME_MAX, NAMESPACE_PUBLISH_EVENTS_MAX, PUBLISH_EVENTS_MAX,
};
use crate::wire::bad_input::{BadInput, BadInputKind, quoted};
use crate::wire::content::{self, ContentType};
use crate::wire::json::{JsonKind, JsonMembers, ObjectWriter};
use crate::wire::{envelope, field, uri_reference};

use context::EventContext;

const SPEC_VERSION: &str = "1.0";

/// Reads the events of a request in the mode that its headers announce: structured, batched or binary.
pub(super) fn decode(headers: &HeaderMap, body: &[u8]) -> Result<Vec<Event>, BadInput> {
    let content_type = ContentType::of(headers)?;
    let essence = content_type.as_ref().map_or("", |each| &each.essence);
    match essence {
        "application/cloudevents-batch+json" => {
            batch(content::json_text_of(content_type.as_ref(), body)?)
        }
        "application/cloudevents+json" => {
            structured(content::json_text_of(content_type.as_ref(), body)?)
        }
        other if other.starts_with("application/cloudevents") => Err(unsupported(other)),
        _ if binary::is_meant(headers) => Ok(vec![binary::decode(headers, content_type, body)?]),
        "" | "application/json" => single(content::json_text_of(content_type.as_ref(), body)?),
        other => Err(unsupported(other)),
    }
}

/// Reads the events of a request to a namespace topic (rule N3). Either JSON content
/// type takes an event as well as an array, since the SDKs send arrays under both.
pub(super) fn decode_for_namespace(
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Vec<Event>, BadInput> {
    let content_type = ContentType::of(headers)?;
    let essence = content_type.as_ref().map_or("", |each| &each.essence);
    let events = match essence {
        "application/cloudevents-batch+json" | "application/cloudevents+json" => {
            one_or_many(content::json_text_of(content_type.as_ref(), body)?)?
        }
        other if other.starts_with("application/cloudevents") => return Err(unsupported(other)),
        _ if binary::is_meant(headers) => vec![binary::decode(headers, content_type, body)?],
        "" | "application/json" => {
            one_or_many(content::json_text_of(content_type.as_ref(), body)?)?
        }
        other => return Err(unsupported(other)),
    };
    for (index, event) in events.iter().enumerate() {
        reject_long_names(event).map_err(|bad| bad.at(index))?;
    }
    Ok(events)
}

fn one_or_many(text: &str) -> Result<Vec<Event>, BadInput> {
    if JsonKind::of(text) != JsonKind::Array {
        return structured(text);
    }
    envelope::array(text, NAMESPACE_PUBLISH_EVENTS_MAX, |_, members| {
        read(members)
    })
}

fn reject_long_names(event: &Event) -> Result<(), BadInput> {
    let mut attributes = event.attributes.iter();
    match attributes.find(|each| each.name.len() > NAMESPACE_EXTENSION_NAME_MAX) {
        None => Ok(()),
        Some(attribute) => Err(BadInput::in_field(
            &attribute.name,
            format!(
                "the name of an extension attribute has at most {NAMESPACE_EXTENSION_NAME_MAX} \
                 characters"
            ),
        )),
    }
}

fn unsupported(content_type: &str) -> BadInput {
    BadInput {
        field: Some("Content-Type".to_owned()),
        ..BadInput::new(
            BadInputKind::UnsupportedEncoding,
            format!(
                "{} is not taken by a topic of CloudEvents; send application/cloudevents+json, \
                 application/cloudevents-batch+json, or headers that start with ce-",
                quoted(content_type)
            ),
        )
    }
}

fn batch(text: &str) -> Result<Vec<Event>, BadInput> {
    envelope::array(text, PUBLISH_EVENTS_MAX, |_, members| read(members))
}

fn structured(text: &str) -> Result<Vec<Event>, BadInput> {
    Ok(vec![read(&envelope::object(text)?)?])
}

/// Reads the single event of a request with the content type `application/json`. An array is rejected with Event Grid's
/// own error.
fn single(text: &str) -> Result<Vec<Event>, BadInput> {
    if JsonKind::of(text) == JsonKind::Array {
        return Err(BadInput::malformed(
            "this topic is configured for the 'CloudEventV10' schema. Token Expected: StartObject, \
             Actual Token Received: StartArray. Send an array with the Content-Type \
             application/cloudevents-batch+json",
        ));
    }
    structured(text)
}

fn read(members: &JsonMembers<'_>) -> Result<Event, BadInput> {
    let mut context = EventContext::of_version(members.get("specversion"))?;
    let (mut data, mut data_base64) = (None, None);
    for (name, value) in members.iter() {
        match name {
            "data" => data = Some(value),
            "data_base64" => data_base64 = field::optional_text(name, value)?,
            _ => context.set(name, value)?,
        }
    }
    let data = match (data, data_base64) {
        (None | Some("null"), Some(text)) => base64_data(&text)?,
        (Some(_), Some(_)) => {
            let problem = "it excludes the field \"data\"; send one of them";
            return Err(BadInput::in_field("data_base64", problem));
        }
        // Data of a type other than JSON is a string by the standard, but the example of Azure's own library is an
        // object.
        (Some(json), None) => EventData::Json(json.to_owned()),
        (None, None) => EventData::Absent,
    };
    context.finish(data)
}

fn base64_data(text: &str) -> Result<EventData, BadInput> {
    match STANDARD.decode(text) {
        Ok(bytes) => Ok(EventData::Binary(bytes.into())),
        Err(error) => {
            let problem = format!("it is not valid base64: {error}");
            Err(BadInput::in_field("data_base64", problem))
        }
    }
}

/// Returns an example of an event as a publisher would send it.
pub(super) fn example(id: &str, now: Timestamp) -> Value {
    json!({
        "specversion": SPEC_VERSION,
        "id": id,
        "type": "Example.Created",
        "source": "/examples",
        "subject": "1",
        "time": now.to_string(),
        "data": { "number": 1 },
    })
}

/// Writes an event.
pub(super) fn write(out: &mut Vec<u8>, topic_resource_id: &str, stored: &StoredEvent) {
    let mut object = ObjectWriter::open(out);
    write_members(&mut object, topic_resource_id, stored, &[]);
    object.close();
}

/// Writes the properties of an event without the attributes in `renewed`, which the caller writes with new values.
pub(super) fn write_members(
    object: &mut ObjectWriter<'_>,
    topic_resource_id: &str,
    stored: &StoredEvent,
    renewed: &[&str],
) {
    let event = &stored.event;
    object.text("id", &event.id);
    // The topic of a custom event may be any text.
    let source = event.source.as_deref().unwrap_or(topic_resource_id);
    object.text("source", &uri_reference::escaped(source));
    object.text("specversion", SPEC_VERSION);
    object.text("type", &event.event_type);
    if let Some(subject) = event.subject.as_deref().filter(|text| !text.is_empty()) {
        object.text("subject", subject);
    }
    if let Some(time) = &event.time {
        object.text("time", time);
    }
    let attributes = event.attributes.iter();
    for attribute in attributes.filter(|each| !renewed.contains(&&*each.name)) {
        object.raw(&attribute.name, &attribute.value);
    }
    if let Some(version) = &event.data_version {
        write_converted(object, version, &event.data);
    }
    match &event.data {
        EventData::Absent => {}
        EventData::Json(json) => object.raw("data", json),
        EventData::Binary(bytes) => object.text("data_base64", &STANDARD.encode(bytes)),
    }
}

/// Adds the attributes that an event of another schema gets when it is converted to a CloudEvent (rule 2.3).
fn write_converted(object: &mut ObjectWriter<'_>, data_version: &str, data: &EventData) {
    if !data_version.is_empty() {
        let schema = format!("#{data_version}");
        object.text("dataschema", &uri_reference::escaped(&schema));
    }
    if matches!(data, EventData::Json(_)) {
        object.text("datacontenttype", "application/json");
    }
}

#[cfg(test)]
mod tests;
