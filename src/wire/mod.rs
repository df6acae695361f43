//! Conversion between bytes and the model, without I/O: publish requests, deliveries to webhooks, and credentials.
//!
//! The `data` of an event is checked to be JSON and then copied byte for byte; no code here interprets it.

pub mod alert;
pub mod amqp;
pub mod attribute;
pub mod audit;
mod bad_input;
pub mod blob_created;
pub mod changes;
pub mod client_credentials;
mod cloud_events;
mod content;
mod custom;
pub mod dead_letter;
pub mod dead_letter_blob;
pub mod dead_letter_import;
pub mod duration;
mod envelope;
pub mod error_body;
mod event_grid;
pub mod explanation;
mod field;
pub mod filter_trial;
pub mod id_token;
pub mod json;
pub mod json_fault;
pub mod json_layout;
mod media_type;
mod moment;
pub mod notice;
pub mod otlp;
pub mod pasted;
pub(crate) mod pem;
pub mod pull;
pub mod query;
pub mod received;
pub mod resource;
pub mod sas;
pub mod service_bus;
pub mod signature;
pub mod stored_event;
mod uri_reference;
pub mod validation;

use std::borrow::Cow;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use crate::base::{Entropy, Timestamp};
use crate::model::event::{Event, EventData, StoredEvent};
use crate::model::registry::TopicEntry;
use crate::model::topic::{DeliverySchema, InputSchema};

pub use bad_input::{BadInput, BadInputKind};
pub use content::{BodyBeginning, text_beginning};
pub use envelope::check_sizes;
pub use event_grid::check_topics;

/// Reads the body of a request to publish to `topic`, by the rules for the kind of the topic; see [`decode`].
pub fn decode_for(
    topic: &TopicEntry,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
    entropy: &Entropy,
) -> Result<Vec<Event>, BadInput> {
    if topic.namespace.is_some() {
        content::reject_content_encoding(headers)?;
        return cloud_events::decode_for_namespace(headers, body);
    }
    let schema = topic.topic.kind.input_schema();
    decode(schema, &topic.resource_id, headers, body, now, entropy)
}

/// Reads the body of a publish request. Returns all events, or the reason why all are rejected (rule 1.3).
///
/// `now` and `entropy` supply the properties that a custom event leaves out. The caller limits the length of the body,
/// since it can stop reading at the limit.
pub fn decode(
    schema: &InputSchema,
    topic_resource_id: &str,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
    entropy: &Entropy,
) -> Result<Vec<Event>, BadInput> {
    content::reject_content_encoding(headers)?;
    match schema {
        InputSchema::EventGridSchema => {
            event_grid::decode(topic_resource_id, content::json_text(headers, body)?)
        }
        InputSchema::CloudEventSchemaV1_0 => cloud_events::decode(headers, body),
        InputSchema::CustomEventSchema(mapping) => {
            let text = content::json_text(headers, body)?;
            custom::decode(mapping, text, now, entropy)
        }
    }
}

/// The content type by which publishers of this schema send an array of events, or an event alone.
pub fn content_type(schema: &InputSchema, is_array: bool) -> &'static str {
    match (schema, is_array) {
        (InputSchema::CloudEventSchemaV1_0, true) => "application/cloudevents-batch+json",
        (InputSchema::CloudEventSchemaV1_0, false) => "application/cloudevents+json",
        (InputSchema::EventGridSchema | InputSchema::CustomEventSchema(_), _) => "application/json",
    }
}

/// One event as a publisher of this schema would send it.
pub fn example(schema: &InputSchema, entropy: &Entropy, now: Timestamp) -> Value {
    let id = entropy.uuid().to_string();
    match schema {
        InputSchema::EventGridSchema => event_grid::example(&id, now),
        InputSchema::CloudEventSchemaV1_0 => cloud_events::example(&id, now),
        InputSchema::CustomEventSchema(mapping) => custom::example(mapping, &id, now),
    }
}

/// Reads one event that a user has pasted: a JSON object, or an array that holds only this object.
pub fn decode_one(
    schema: &InputSchema,
    topic_resource_id: &str,
    json: &str,
    now: Timestamp,
    entropy: &Entropy,
) -> Result<Event, BadInput> {
    let mut headers = HeaderMap::new();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(content_type(schema, true)),
    );
    let array = if json.trim_ascii_start().starts_with('[') {
        Cow::Borrowed(json)
    } else {
        Cow::Owned(format!("[{json}]"))
    };
    let body = array.as_bytes();
    let mut events = decode(schema, topic_resource_id, &headers, body, now, entropy)?;
    match (events.pop(), events.len()) {
        (Some(event), 0) => Ok(event),
        (None, _) => Err(BadInput::malformed(
            "it must be an event, not an empty list",
        )),
        (Some(_), more) => Err(BadInput::malformed(format!(
            "it must be one event, not {}",
            more + 1
        ))),
    }
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

/// Writes the body of a delivery (rule 6.2). Without `batching` there must be exactly one event.
pub fn encode(
    schema: DeliverySchema,
    topic_resource_id: &str,
    events: &[&StoredEvent],
    batching: bool,
) -> Payload {
    assert!(
        batching || events.len() == 1,
        "only a batch has another number of events than one"
    );
    match schema {
        DeliverySchema::EventGridSchema => Payload {
            content_type: content::JSON,
            body: array(events, |out, event| {
                event_grid::write(out, topic_resource_id, event);
            }),
        },
        DeliverySchema::CloudEventSchemaV1_0 if batching => Payload {
            content_type: content::CLOUD_EVENTS_BATCH,
            body: array(events, |out, event| {
                cloud_events::write(out, topic_resource_id, event);
            }),
        },
        DeliverySchema::CloudEventSchemaV1_0 => {
            encode_message(schema, topic_resource_id, events[0])
        }
        DeliverySchema::CustomInputSchema => Payload {
            content_type: content::JSON,
            body: array(events, |out, event| {
                custom::write(out, topic_resource_id, event);
            }),
        },
    }
}

/// Writes an event as the body of a message. The event is never in an array, even in a schema in which webhooks get
/// arrays.
pub fn encode_message(
    schema: DeliverySchema,
    topic_resource_id: &str,
    event: &StoredEvent,
) -> Payload {
    let mut body = Vec::with_capacity(written_size(event));
    let content_type = match schema {
        DeliverySchema::EventGridSchema => {
            event_grid::write(&mut body, topic_resource_id, event);
            content::JSON
        }
        DeliverySchema::CloudEventSchemaV1_0 => {
            cloud_events::write(&mut body, topic_resource_id, event);
            content::CLOUD_EVENT
        }
        DeliverySchema::CustomInputSchema => {
            custom::write(&mut body, topic_resource_id, event);
            content::JSON
        }
    };
    Payload { content_type, body }
}

/// Estimates the bytes that an event takes in the body of a delivery, for the size of batches. Escapes in strings are
/// not counted.
pub fn encoded_size(
    schema: DeliverySchema,
    topic_resource_id: &str,
    stored: &StoredEvent,
) -> usize {
    let event = &stored.event;
    let topic = match event.source {
        Some(_) => 0, // counted with the event
        None => topic_resource_id.len(),
    };
    let as_event_grid = event.size() + topic + EVENT_GRID_NAMES;
    match (schema, &event.data) {
        (DeliverySchema::EventGridSchema, _) => as_event_grid,
        (DeliverySchema::CustomInputSchema, EventData::Json(original)) => original.len(),
        (DeliverySchema::CustomInputSchema, EventData::Absent | EventData::Binary(_)) => {
            as_event_grid
        }
        (DeliverySchema::CloudEventSchemaV1_0, _) => {
            let attributes = event.attributes.len() * ATTRIBUTE_PUNCTUATION;
            let converted = event.data_version.as_ref().map_or(0, |_| CONVERTED_NAMES);
            event.size() + topic + CLOUD_EVENT_NAMES + attributes + converted
        }
    }
}

/// Bytes of the names and the punctuation of an event in the Event Grid schema.
const EVENT_GRID_NAMES: usize = r#"{"id":"","topic":"","subject":"","eventType":"","eventTime":"","data":,"dataVersion":"","metadataVersion":"1"}"#.len();

/// Bytes of the names and the punctuation of a CloudEvent.
const CLOUD_EVENT_NAMES: usize =
    r#"{"id":"","source":"","specversion":"1.0","type":"","subject":"","time":"","data":}"#.len();

/// Bytes of the additional attributes of a CloudEvent that was converted from another schema.
const CONVERTED_NAMES: usize = r##""dataschema":"#","datacontenttype":"application/json","##.len();

/// Bytes of the punctuation around the name of a CloudEvents attribute and behind its value.
const ATTRIBUTE_PUNCTUATION: usize = r#""":,"#.len();

fn array(events: &[&StoredEvent], write: impl Fn(&mut Vec<u8>, &StoredEvent)) -> Vec<u8> {
    let size: usize = events.iter().map(|event| written_size(event)).sum();
    let mut out = Vec::with_capacity(size + 2);
    out.push(b'[');
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(&mut out, event);
    }
    out.push(b']');
    out
}

/// Estimates the buffer capacity for an event: its size, and an allowance for names, punctuation and topic.
fn written_size(event: &StoredEvent) -> usize {
    event.event.size() + 384
}

#[cfg(test)]
mod tests;
