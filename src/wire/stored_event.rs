//! A stored event as written to responses and files. The envelope has the same names for every input schema, and the
//! data is copied byte for byte.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::base::Timestamp;
use crate::model::event::{EventData, StoredEvent};

/// The event, ready to be written.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StoredEvent")]
pub struct StoredEventBody {
    /// The appliance's own number.
    key: i64,
    topic: String,
    /// The publisher's id.
    id: String,
    source: Option<String>,
    event_type: String,
    subject: Option<String>,
    event_time: Option<String>,
    data_version: Option<String>,
    received_at: Timestamp,
    /// Bytes of the data.
    size: usize,
    /// The number of event subscriptions that it matched.
    matched: u64,
    /// The data as it was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    data: Option<Box<RawValue>>,
    /// Binary data, in the place of `data`.
    #[serde(rename = "data_base64", skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
}

impl StoredEventBody {
    /// Creates the body for an event of `topic` that matched `matched` event subscriptions.
    pub fn new(stored: &StoredEvent, topic: &str, matched: u64) -> Self {
        let event = &stored.event;
        let (data, data_base64) = match &event.data {
            EventData::Absent => (None, None),
            EventData::Json(text) => (RawValue::from_string(text.clone()).ok(), None),
            EventData::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        Self {
            key: stored.key.0,
            topic: topic.to_owned(),
            id: event.id.clone(),
            source: event.source.clone(),
            event_type: event.event_type.clone(),
            subject: event.subject.clone(),
            event_time: event.time.clone(),
            data_version: event.data_version.clone(),
            received_at: stored.received_at,
            size: event.data.len(),
            matched,
            data,
            data_base64,
        }
    }
}
