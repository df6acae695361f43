//! An event, independent of its input schema.
//!
//! The bytes of `data` are stored as received. They are validated as JSON on acceptance and only copied afterwards.

use bytes::Bytes;

use crate::base::Timestamp;
use crate::base::named::ids;
use crate::model::trace::{TRACEPARENT, TraceContext};

ids! {
    /// The id of a stored event: ascending in the order of acceptance, never reused.
    EventKey,
}

/// An event, independent of its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The publisher's id. It may not be unique, because Event Grid does not check for duplicates.
    pub id: String,
    /// `topic` of the Event Grid schema, `source` of CloudEvents. `None` stands for the resource id of
    /// the topic that the event was published to.
    pub source: Option<String>,
    /// `eventType` of the Event Grid schema, `type` of CloudEvents.
    pub event_type: String,
    /// Absent only in CloudEvents.
    pub subject: Option<String>,
    /// The time as the publisher wrote it; absent only in CloudEvents.
    pub time: Option<String>,
    /// `dataVersion`; `None` for CloudEvents, empty when an Event Grid publisher left it out.
    pub data_version: Option<String>,
    /// Further context attributes of a CloudEvent, `dataschema` and `datacontenttype` among them.
    pub attributes: Vec<Attribute>,
    pub data: EventData,
}

/// A further context attribute of a CloudEvent: an extension, `dataschema` or `datacontenttype`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub name: String,
    /// The value as JSON text: a string, a number or a boolean, as it came.
    pub value: String,
}

/// The data of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventData {
    Absent,
    /// JSON text, byte for byte as published. For custom input, the whole original object.
    Json(String),
    /// The bytes of `data_base64`, or an encoded message.
    Binary(Bytes),
}

impl EventData {
    /// Returns the length of the stored data in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Json(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
        }
    }

    /// Returns the length in bytes of the data in a JSON envelope, where binary data is encoded in base64.
    pub fn text_len(&self) -> usize {
        match self {
            Self::Absent | Self::Json(_) => self.len(),
            Self::Binary(bytes) => base64::encoded_len(bytes.len(), true).unwrap_or(usize::MAX),
        }
    }

    /// Reports whether the data is absent or has a length of zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Event {
    /// Returns the trace context that the publisher set in the event.
    pub fn trace_context(&self) -> Option<TraceContext> {
        let mut attributes = self.attributes.iter();
        let attribute = attributes.find(|each| each.name == TRACEPARENT)?;
        TraceContext::parse(attribute.value.trim_matches('"'))
    }

    /// Adds a trace context to the event, unless the publisher has set one.
    pub fn join_trace(&mut self, context: TraceContext) {
        if self.attributes.iter().all(|each| each.name != TRACEPARENT) {
            self.attributes.push(Attribute {
                name: TRACEPARENT.to_owned(),
                value: format!("\"{context}\""),
            });
        }
    }

    /// Returns the size of the event's data in bytes. The data of a message is the whole message as sent.
    pub fn data_bytes(&self) -> u32 {
        u32::try_from(self.data.len()).unwrap_or(u32::MAX)
    }

    /// The approximate size of the event, for limits and batches.
    pub fn size(&self) -> usize {
        let data = self.data.text_len();
        let attributes: usize = self
            .attributes
            .iter()
            .map(|attribute| attribute.name.len() + attribute.value.len())
            .sum();
        let texts = [&self.source, &self.subject, &self.time, &self.data_version];
        let texts: usize = texts
            .iter()
            .map(|text| text.as_ref().map_or(0, String::len))
            .sum();
        self.id.len() + self.event_type.len() + texts + attributes + data
    }
}

/// A stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    pub key: EventKey,
    pub received_at: Timestamp,
    pub event: Event,
}

impl StoredEvent {
    /// Returns the id sent as `aeg-output-event-id`. It is a UUID of version 8 with the time of acceptance followed by
    /// the key, so it is equal for all deliveries of the event and sortable by time.
    pub fn output_id(&self) -> String {
        let key = self.key.0.to_be_bytes();
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&self.received_at.as_ms().to_be_bytes()[2..]);
        bytes[8..].copy_from_slice(&key);
        uuid::Builder::from_custom_bytes(bytes)
            .into_uuid()
            .to_string()
    }
}
