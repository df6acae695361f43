//! Properties of messages as rules see them (rule S7).

use crate::base::Timestamp;
use crate::model::rule::{IntegerType, MessageView, PropertyValue, SystemProperty};
use crate::wire::amqp::decode::DecodeError;
use crate::wire::amqp::message::{Message, Properties, annotation};
use crate::wire::amqp::value::{Map, Value, get};

/// A message as rules see it, with what only the broker knows of it.
#[derive(Clone, Debug)]
pub struct RuleView {
    properties: Properties,
    annotations: Map,
    application: Map,
    ttl_ms: Option<i64>,
    known: Vec<(SystemProperty, PropertyValue)>,
}

impl RuleView {
    /// Looks at `message`; `known` are the properties that the broker sets.
    pub fn of(
        message: &Message,
        known: Vec<(SystemProperty, PropertyValue)>,
    ) -> Result<Self, DecodeError> {
        let ttl = message.header()?.ttl;
        Ok(Self {
            properties: message.properties()?,
            annotations: message.annotations()?,
            application: message.application_properties()?,
            ttl_ms: ttl.and_then(|ttl| i64::try_from(ttl.as_millis()).ok()),
            known,
        })
    }

    fn annotation(&self, name: &str) -> Option<PropertyValue> {
        get(&self.annotations, name).map(from_wire)
    }
}

impl MessageView for RuleView {
    fn system(&self, property: SystemProperty) -> Option<PropertyValue> {
        let text = |text: &Option<String>| text.clone().map(PropertyValue::Text);
        let properties = &self.properties;
        match property {
            SystemProperty::MessageId => properties.message_id.as_ref().map(from_wire),
            SystemProperty::CorrelationId => properties.correlation_id.as_ref().map(from_wire),
            SystemProperty::To => text(&properties.to),
            SystemProperty::ReplyTo => text(&properties.reply_to),
            SystemProperty::Label => text(&properties.subject),
            SystemProperty::SessionId => text(&properties.group_id),
            SystemProperty::ReplyToSessionId => text(&properties.reply_to_group_id),
            SystemProperty::ContentType => text(&properties.content_type),
            SystemProperty::TimeToLive => self.ttl_ms.map(PropertyValue::long),
            SystemProperty::PartitionKey => self.annotation(annotation::PARTITION_KEY),
            SystemProperty::ViaPartitionKey => self.annotation(annotation::VIA_PARTITION_KEY),
            SystemProperty::ScheduledEnqueueTimeUtc => {
                self.annotation(annotation::SCHEDULED_ENQUEUE_TIME)
            }
            SystemProperty::EnqueuedTimeUtc
            | SystemProperty::ExpiresAtUtc
            | SystemProperty::SequenceNumber
            | SystemProperty::EnqueuedSequenceNumber
            | SystemProperty::DeliveryCount
            | SystemProperty::Size
            | SystemProperty::State => {
                let mut known = self.known.iter();
                let known = known.find(|(each, _)| *each == property);
                known.map(|(_, value)| value.clone())
            }
        }
    }

    fn user(&self, name: &str) -> Option<PropertyValue> {
        let name = name.to_lowercase();
        let is_named = |key: &Value| key.as_text().is_some_and(|key| key.to_lowercase() == name);
        let mut found = self.application.iter();
        let found = found.find(|(key, _)| is_named(key));
        found.map(|(_, value)| from_wire(value))
    }

    fn user_properties(&self) -> Vec<(String, PropertyValue)> {
        let named = self.application.iter().filter_map(|(key, value)| {
            let name = key.as_text()?.to_owned();
            Some((name, from_wire(value)))
        });
        named.collect()
    }
}

/// The value as rules know it.
pub fn from_wire(value: &Value) -> PropertyValue {
    let integer = |width| {
        let number = value.as_integer().unwrap_or_default();
        PropertyValue::Integer(width, number)
    };
    match value {
        Value::Null => PropertyValue::Null,
        Value::Bool(value) => PropertyValue::Bool(*value),
        Value::Ubyte(_) => integer(IntegerType::Ubyte),
        Value::Ushort(_) => integer(IntegerType::Ushort),
        Value::Uint(_) => integer(IntegerType::Uint),
        Value::Ulong(_) => integer(IntegerType::Ulong),
        Value::Byte(_) => integer(IntegerType::Byte),
        Value::Short(_) => integer(IntegerType::Short),
        Value::Int(_) => integer(IntegerType::Int),
        Value::Long(_) => integer(IntegerType::Long),
        Value::Float(number) => PropertyValue::Float(*number),
        Value::Double(number) => PropertyValue::Double(*number),
        Value::Timestamp(ms) => PropertyValue::Timestamp(Timestamp::from_ms(*ms)),
        Value::Uuid(uuid) => PropertyValue::Uuid(*uuid),
        Value::Binary(bytes) => PropertyValue::Binary(bytes.to_vec()),
        Value::String(text) | Value::Symbol(text) => PropertyValue::Text(text.clone()),
        Value::Decimal(_)
        | Value::Char(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Array(_)
        | Value::Described(_) => PropertyValue::Other,
    }
}

/// The value as it is sent.
pub fn to_wire(value: &PropertyValue) -> Value {
    match value {
        PropertyValue::Null | PropertyValue::Other => Value::Null,
        PropertyValue::Bool(value) => Value::Bool(*value),
        PropertyValue::Integer(width, number) => integer(*width, *number),
        PropertyValue::Float(number) => Value::Float(*number),
        PropertyValue::Double(number) => Value::Double(*number),
        PropertyValue::Timestamp(at) => Value::Timestamp(at.as_ms()),
        PropertyValue::Uuid(uuid) => Value::Uuid(*uuid),
        PropertyValue::Binary(bytes) => Value::Binary(bytes.clone().into()),
        PropertyValue::Text(text) => Value::String(text.clone()),
    }
}

/// A number outside of its width, which none of ours is, is sent as null.
fn integer(width: IntegerType, number: i128) -> Value {
    let value = match width {
        IntegerType::Ubyte => number.try_into().map(Value::Ubyte),
        IntegerType::Ushort => number.try_into().map(Value::Ushort),
        IntegerType::Uint => number.try_into().map(Value::Uint),
        IntegerType::Ulong => number.try_into().map(Value::Ulong),
        IntegerType::Byte => number.try_into().map(Value::Byte),
        IntegerType::Short => number.try_into().map(Value::Short),
        IntegerType::Int => number.try_into().map(Value::Int),
        IntegerType::Long => number.try_into().map(Value::Long),
    };
    value.unwrap_or(Value::Null)
}
