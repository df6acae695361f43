//! Bytes to model and back, pure: what publishers send, what webhooks receive, what proves a right.
//!
//! An event's `data` is never taken apart: it is checked to be JSON and then only copied.

pub mod attribute;
mod bad_input;
mod cloud_events;
mod content;
mod custom;
pub mod dead_letter;
pub mod duration;
mod envelope;
pub mod error_body;
mod event_grid;
mod field;
pub mod filter;
pub mod json;
mod moment;
pub mod resource;
pub mod sas;
pub mod validation;

use http::HeaderMap;

use crate::base::{Entropy, Timestamp};
use crate::model::event::{Event, StoredEvent};
use crate::model::topic::{DeliverySchema, InputSchema};

pub use bad_input::{BadInput, BadInputKind};

/// Reads the body of a publish request: all of its events, or why none of them is taken (spec 1.3).
///
/// `now` and `entropy` supply what a custom event leaves out. How long a body may be is the door's
/// concern, since it stops reading there.
pub fn decode(
    schema: &InputSchema,
    topic_resource_id: &str,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
    entropy: &Entropy,
) -> Result<Vec<Event>, BadInput> {
    content::refuse_content_encoding(headers)?;
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

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

/// Writes the body of a delivery (spec 6.2). Without `batching` there must be exactly one event.
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
            let mut body = Vec::with_capacity(written_size(events[0]));
            cloud_events::write(&mut body, topic_resource_id, events[0]);
            Payload {
                content_type: content::CLOUD_EVENT,
                body,
            }
        }
        DeliverySchema::CustomInputSchema => Payload {
            content_type: content::JSON,
            body: array(events, |out, event| {
                custom::write(out, topic_resource_id, event);
            }),
        },
    }
}

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

/// Bytes to set aside for an event: its own and, by estimate, those of names, punctuation and topic.
fn written_size(event: &StoredEvent) -> usize {
    event.event.size() + 384
}

#[cfg(test)]
mod tests;
