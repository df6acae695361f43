//! Messages as the management API shows them (an extension).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

use super::message::{DESCRIPTION, REASON};
use super::readable::body;
use crate::base::Timestamp;
use crate::model::event::EventData;
use crate::wire::amqp::message::{Message, annotation};
use crate::wire::amqp::value::get;
use crate::wire::amqp::{DecodeError, Value};

/// A message of a queue, or a dead letter.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "QueueMessage")]
pub struct ShownMessage {
    sequence_number: Option<i64>,
    message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to_session_id: Option<String>,
    state: ShownState,
    /// Deliveries before this one.
    delivery_count: u32,
    #[schemars(with = "Option<Timestamp>")]
    enqueued_time: Option<String>,
    /// The reason of a dead letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter_reason: Option<String>,
    /// The description of a dead letter's error.
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter_error_description: Option<String>,
    application_properties: Map<String, Json>,
    /// JSON as it was sent, or a text as a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Json>")]
    body: Option<Box<RawValue>>,
    /// A body that is neither, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

/// Locked messages are active ones.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[schemars(inline)]
enum ShownState {
    Active,
    Deferred,
    Scheduled,
}

impl ShownMessage {
    /// Converts a message in the form that its receivers get.
    pub fn of(message: &Message) -> Result<Self, DecodeError> {
        let properties = message.properties()?;
        let annotations = message.annotations()?;
        let number = |name| get(&annotations, name).and_then(Value::as_integer);
        let state = match number(annotation::MESSAGE_STATE) {
            Some(1) => ShownState::Deferred,
            Some(2) => ShownState::Scheduled,
            _ => ShownState::Active,
        };
        let enqueued = match get(&annotations, annotation::ENQUEUED_TIME) {
            Some(Value::Timestamp(ms)) => Some(Timestamp::from_ms(*ms).to_string()),
            _ => None,
        };
        let mut own: Map<String, Json> = message
            .application_properties()?
            .iter()
            .map(|(name, value)| (name.plain(), value.into()))
            .collect();
        let mut text = |name| Some(own.remove(name)?.as_str()?.to_owned());
        let (reason, description) = (text(REASON), text(DESCRIPTION));
        let given = properties.content_type.as_deref();
        let (data, _) = body(message.plain_body(), given.filter(|each| !each.is_empty()));
        let (body, body_base64) = match data {
            EventData::Absent => (None, None),
            EventData::Json(text) => (RawValue::from_string(text).ok(), None),
            EventData::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        let sequence = number(annotation::SEQUENCE_NUMBER);
        Ok(Self {
            sequence_number: sequence.and_then(|number| i64::try_from(number).ok()),
            message_id: properties.message_id.as_ref().map(Value::plain),
            subject: properties.subject,
            content_type: properties.content_type,
            correlation_id: properties.correlation_id.as_ref().map(Value::plain),
            session_id: properties.group_id,
            to: properties.to,
            reply_to: properties.reply_to,
            reply_to_session_id: properties.reply_to_group_id,
            state,
            delivery_count: message.header()?.delivery_count,
            enqueued_time: enqueued,
            dead_letter_reason: reason,
            dead_letter_error_description: description,
            application_properties: own,
            body,
            body_base64,
        })
    }
}
