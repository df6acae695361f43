//! AMQP messages as a list of sections, whose bytes are kept as they were received (rule S2, 10.6).
//!
//! Messages are stored as they were sent. When the broker delivers a message, it encodes only the sections that it
//! changes: the header, the annotations, the properties if they state the expiry, and the application properties if a
//! settlement or a rule changed them.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use crate::base::Timestamp;
use crate::model::limits::HEAD_BYTES_MAX;
use crate::wire::amqp::decode::{DecodeError, Decoder, text_in, unexpected};
use crate::wire::amqp::encode::{encode, encode_map};
use crate::wire::amqp::fields::UnreadFields;
use crate::wire::amqp::sent;
use crate::wire::amqp::value::{Map, Value, get};

const HEADER: u64 = 0x70;
const DELIVERY_ANNOTATIONS: u64 = 0x71;
pub(super) const MESSAGE_ANNOTATIONS: u64 = 0x72;
pub(super) const PROPERTIES: u64 = 0x73;
pub(super) const APPLICATION_PROPERTIES: u64 = 0x74;
pub(super) const DATA: u64 = 0x75;
pub(super) const SEQUENCE: u64 = 0x76;
pub(super) const VALUE: u64 = 0x77;
const FOOTER: u64 = 0x78;

/// Annotations that Service Bus knows.
pub mod annotation {
    pub const DEAD_LETTER_SOURCE: &str = "x-opt-deadletter-source";
    /// The moment at which a message is to be delivered, as JMS clients state it.
    pub const DELIVERY_TIME: &str = "x-opt-delivery-time";
    pub const ENQUEUED_SEQUENCE_NUMBER: &str = "x-opt-enqueue-sequence-number";
    pub const ENQUEUED_TIME: &str = "x-opt-enqueued-time";
    /// The lock token, a delivery annotation.
    pub const LOCK_TOKEN: &str = "x-opt-lock-token";
    pub const LOCKED_UNTIL: &str = "x-opt-locked-until";
    pub const MESSAGE_STATE: &str = "x-opt-message-state";
    /// The size of the body, a delivery annotation of a message that is peeked without its body.
    pub const OMITTED_BODY_SIZE: &str = "omitted-message-body-size";
    pub const PARTITION_KEY: &str = "x-opt-partition-key";
    pub const SCHEDULED_ENQUEUE_TIME: &str = "x-opt-scheduled-enqueue-time";
    pub const SEQUENCE_NUMBER: &str = "x-opt-sequence-number";
    pub const VIA_PARTITION_KEY: &str = "x-opt-via-partition-key";

    /// The annotations that only the broker sets. A sender may still send them, in a message that it has received
    /// before.
    pub(super) const OF_BROKER: [&str; 6] = [
        DEAD_LETTER_SOURCE,
        ENQUEUED_SEQUENCE_NUMBER,
        ENQUEUED_TIME,
        LOCKED_UNTIL,
        MESSAGE_STATE,
        SEQUENCE_NUMBER,
    ];
}

/// An encoded message, split into its sections. The bytes of a section include its descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    header: Bytes,
    delivery_annotations: Bytes,
    message_annotations: Bytes,
    properties: Bytes,
    application_properties: Bytes,
    body: Bytes,
    footer: Bytes,
}

/// The header section of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub durable: Option<bool>,
    pub priority: Option<u8>,
    pub ttl: Option<Duration>,
    pub first_acquirer: Option<bool>,
    /// The number of deliveries before this one.
    pub delivery_count: u32,
}

/// The properties section of a message. Identifiers keep their types.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageProperties {
    pub message_id: Option<Value>,
    pub user_id: Option<Bytes>,
    pub to: Option<String>,
    pub subject: Option<String>,
    pub reply_to: Option<String>,
    pub correlation_id: Option<Value>,
    pub content_type: Option<String>,
    pub content_encoding: Option<String>,
    pub absolute_expiry_ms: Option<i64>,
    pub creation_ms: Option<i64>,
    /// The session of the message.
    pub group_id: Option<String>,
    pub group_sequence: Option<u32>,
    /// The session of replies to the message.
    pub reply_to_group_id: Option<String>,
}

/// The decoded sections before the body of a message, to be changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageParts {
    pub header: Header,
    pub annotations: Map,
    pub properties: MessageProperties,
    pub application_properties: Map,
}

/// The values that the broker sets in a message when it delivers the message.
#[derive(Clone, Debug, Default)]
pub struct Handout {
    /// The number of deliveries before this one.
    pub delivery_count: u32,
    pub lock_token: Option<Uuid>,
    /// The broker's annotations, which replace all of `annotation::OF_BROKER` in the message.
    pub annotations: Vec<(&'static str, Value)>,
    /// Changes of application properties: a new value, or `None` to remove the property. If there are several changes
    /// of one property, the first counts.
    pub properties: Vec<(String, Option<Value>)>,
    /// An encoded map of application properties that receivers have set, or no bytes. Changes in `properties` take
    /// precedence.
    pub set: Bytes,
    pub life: Option<MessageLife>,
}

/// The lifetime of a message.
#[derive(Clone, Copy, Debug)]
pub struct MessageLife {
    pub from: Timestamp,
    /// The longest time to live that the queue of the message allows.
    pub longest: Option<Duration>,
}

impl MessageLife {
    /// Returns the shorter of the times to live of the queue and of the message, if at least one of them is set.
    fn effective(self, own: Option<Duration>) -> Option<Duration> {
        match (own, self.longest) {
            (Some(own), Some(longest)) => Some(own.min(longest)),
            (own, longest) => own.or(longest),
        }
    }
}

impl Message {
    /// Reads a message, and checks that all sections except the body and the footer can be decoded.
    pub fn parse(encoded: &Bytes) -> Result<Self, DecodeError> {
        let message = Self::split(encoded)?;
        message.header()?;
        map_of(&message.delivery_annotations)?;
        message.annotations()?;
        message.properties()?;
        message.application_properties()?;
        Ok(message)
    }

    /// Reads a message from a sender, see [`Message::as_sent`].
    pub fn sent(encoded: &Bytes) -> Result<Self, DecodeError> {
        Self::split(encoded)?.as_sent()
    }

    /// Returns the message in the form that all clients can read. Rejects a message that has no such form.
    pub fn as_sent(self) -> Result<Self, DecodeError> {
        let body = sent::body(self.body)?;
        Self { body, ..self }.with_sent_head()
    }

    /// Returns the message with all sections except the body in the form that all clients can read. Rejects a message
    /// with a section that has no such form.
    pub fn with_sent_head(self) -> Result<Self, DecodeError> {
        self.header()?;
        let message = Self {
            delivery_annotations: sent::annotations(
                "delivery-annotations",
                DELIVERY_ANNOTATIONS,
                self.delivery_annotations,
            )?,
            message_annotations: sent::annotations(
                "message-annotations",
                MESSAGE_ANNOTATIONS,
                self.message_annotations,
            )?,
            properties: sent::properties(self.properties)?,
            application_properties: sent::application_properties(self.application_properties)?,
            footer: sent::annotations("footer", FOOTER, self.footer)?,
            ..self
        };
        message.check_head()?;
        Ok(message)
    }

    /// Rejects a message whose header, annotations and properties together are larger than `HEAD_BYTES_MAX`.
    pub fn check_head(&self) -> Result<(), DecodeError> {
        match self.head_bytes() {
            bytes if bytes > HEAD_BYTES_MAX => Err(DecodeError::HeadTooLarge(bytes)),
            _ => Ok(()),
        }
    }

    /// Returns the number of bytes of the sections before the body, without the delivery annotations.
    pub fn head_bytes(&self) -> usize {
        let sections = [
            &self.header,
            &self.message_annotations,
            &self.properties,
            &self.application_properties,
        ];
        sections.iter().map(|each| each.len()).sum()
    }

    /// Returns the number of bytes of all sections.
    pub fn bytes(&self) -> usize {
        let others = [&self.delivery_annotations, &self.body, &self.footer];
        self.head_bytes() + others.iter().map(|each| each.len()).sum::<usize>()
    }

    /// Splits an encoded message into its sections without decoding them. Is meant for messages that were checked
    /// before. The cost does not depend on the content of the sections.
    pub fn split(encoded: &Bytes) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        let mut rest = Decoder::new(encoded.clone());
        let mut from = 0;
        let mut before = 0;
        while !rest.is_empty() {
            let section = rest.raw()?;
            let code = Decoder::new(section.clone()).descriptor()?;
            let to = from + section.len();
            // Sections may be in any order: Python's client writes the delivery annotations last, and JavaScript's
            // client writes the footer before the body.
            let place = match code {
                HEADER => &mut message.header,
                DELIVERY_ANNOTATIONS => &mut message.delivery_annotations,
                MESSAGE_ANNOTATIONS => &mut message.message_annotations,
                PROPERTIES => &mut message.properties,
                APPLICATION_PROPERTIES => &mut message.application_properties,
                DATA | SEQUENCE | VALUE => &mut message.body,
                FOOTER => &mut message.footer,
                unknown => return Err(unexpected("a section of a message", unknown)),
            };
            let goes_on = code == before && matches!(code, DATA | SEQUENCE);
            if !place.is_empty() && !goes_on {
                return Err(unexpected("each section once, and one body", code));
            }
            *place = encoded.slice(to - place.len() - section.len()..to);
            (from, before) = (to, code);
        }
        Ok(message)
    }

    /// Returns a message whose body is a value. The broker's own messages have this form.
    pub fn of(properties: &MessageProperties, application_properties: Map, body: Value) -> Self {
        Self::with_body(properties, application_properties, section(VALUE, body))
    }

    /// Returns a message whose body is bytes.
    pub fn of_data(
        properties: &MessageProperties,
        application_properties: Map,
        body: Vec<u8>,
    ) -> Self {
        let body = section(DATA, Value::Binary(body.into()));
        Self::with_body(properties, application_properties, body)
    }

    fn with_body(properties: &MessageProperties, application_properties: Map, body: Bytes) -> Self {
        let application_properties = Value::Map(application_properties);
        Self {
            properties: section(PROPERTIES, properties.to_value()),
            application_properties: section(APPLICATION_PROPERTIES, application_properties),
            body,
            ..Self::default()
        }
    }

    /// Returns the header, or the default header if the message has none.
    pub fn header(&self) -> Result<Header, DecodeError> {
        let Some(value) = content(&self.header)? else {
            return Ok(Header::default());
        };
        let mut fields = UnreadFields::of("header", value)?;
        let durable = fields.optional("durable")?;
        let priority = fields.optional("priority")?;
        let ttl: Option<u32> = fields.optional("ttl")?;
        Ok(Header {
            durable,
            priority,
            ttl: ttl.map(|ms| Duration::from_millis(u64::from(ms))),
            first_acquirer: fields.optional("first-acquirer")?,
            delivery_count: fields.or("delivery-count", 0)?,
        })
    }

    /// Returns the message annotations.
    pub fn annotations(&self) -> Result<Map, DecodeError> {
        map_of(&self.message_annotations)
    }

    /// Returns the moment at which the message is to be enqueued, in milliseconds since the epoch.
    pub fn scheduled_enqueue_ms(&self) -> Result<Option<i64>, DecodeError> {
        let annotations = self.annotations()?;
        Ok(
            match get(&annotations, annotation::SCHEDULED_ENQUEUE_TIME) {
                Some(Value::Timestamp(ms)) => Some(*ms),
                Some(_) | None => None,
            },
        )
    }

    /// Returns the properties, or empty ones if the message has none.
    pub fn properties(&self) -> Result<MessageProperties, DecodeError> {
        let Some(value) = content(&self.properties)? else {
            return Ok(MessageProperties::default());
        };
        let mut fields = UnreadFields::of("properties", value)?;
        Ok(MessageProperties {
            message_id: fields.optional("message-id")?,
            user_id: fields.optional("user-id")?,
            to: fields.optional("to")?,
            subject: fields.optional("subject")?,
            reply_to: fields.optional("reply-to")?,
            correlation_id: fields.optional("correlation-id")?,
            content_type: fields.optional("content-type")?,
            content_encoding: fields.optional("content-encoding")?,
            absolute_expiry_ms: moment(&mut fields, "absolute-expiry-time")?,
            creation_ms: moment(&mut fields, "creation-time")?,
            group_id: fields.optional("group-id")?,
            group_sequence: fields.optional("group-sequence")?,
            reply_to_group_id: fields.optional("reply-to-group-id")?,
        })
    }

    /// Decodes the header, the annotations, the properties and the application properties.
    pub fn parts(&self) -> Result<MessageParts, DecodeError> {
        Ok(MessageParts {
            header: self.header()?,
            annotations: self.annotations()?,
            properties: self.properties()?,
            application_properties: self.application_properties()?,
        })
    }

    /// Returns a message with the same body and `parts` around it.
    pub fn with_parts(&self, parts: &MessageParts) -> Self {
        let annotations = Value::Map(parts.annotations.clone());
        let readable = |(key, value): &(Value, Value)| {
            let name = key.as_text().unwrap_or_default();
            Some((key.clone(), sent::under_name(name, value.clone())?))
        };
        let own = parts.application_properties.iter().filter_map(readable);
        let own = Value::Map(own.collect());
        Self {
            header: section(HEADER, parts.header.to_value()),
            delivery_annotations: self.delivery_annotations.clone(),
            message_annotations: section(MESSAGE_ANNOTATIONS, annotations),
            properties: section(PROPERTIES, parts.properties.to_value()),
            application_properties: section(APPLICATION_PROPERTIES, own),
            body: self.body.clone(),
            footer: self.footer.clone(),
        }
    }

    /// Sets `id` as the message-id if the message has none: JavaScript's client relies on a message-id. Also returns
    /// the properties, so that they are decoded only once.
    pub fn with_id(
        self,
        id: impl FnOnce() -> String,
    ) -> Result<(Self, MessageProperties), DecodeError> {
        let mut properties = self.properties()?;
        if properties.message_id.is_some() {
            return Ok((self, properties));
        }
        properties.message_id = Some(Value::String(id()));
        let message = Self {
            properties: section(PROPERTIES, properties.to_value()),
            ..self
        };
        Ok((message, properties))
    }

    /// Replaces the header with one that has only the time to live `ttl`.
    pub fn with_ttl(self, ttl: Duration) -> Self {
        let header = Header {
            ttl: Some(ttl),
            ..Header::default()
        };
        let header = section(HEADER, header.to_value());
        Self { header, ..self }
    }

    /// Replaces the message annotations with the annotation that schedules the message. `enqueue_ms` is in milliseconds
    /// since the epoch.
    pub fn scheduled(self, enqueue_ms: i64) -> Self {
        let name = Value::symbol(annotation::SCHEDULED_ENQUEUE_TIME);
        let annotations = Value::Map(vec![(name, Value::Timestamp(enqueue_ms))]);
        let message_annotations = section(MESSAGE_ANNOTATIONS, annotations);
        Self {
            message_annotations,
            ..self
        }
    }

    /// Returns the application properties.
    pub fn application_properties(&self) -> Result<Map, DecodeError> {
        map_of(&self.application_properties)
    }

    /// Returns the application properties with the changes that receivers made: `set` is an encoded map, or empty.
    pub fn application_properties_with(&self, set: &[u8]) -> Result<Map, DecodeError> {
        let own = self.application_properties()?;
        match set {
            [] => Ok(own),
            set => map(&merged(&encoded(own), set)?),
        }
    }

    /// Returns the bytes of all body sections as they were received.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns the body if it is a single value (`amqp-value`).
    pub fn body_value(&self) -> Result<Option<Value>, DecodeError> {
        let mut decoder = Decoder::new(self.body.clone());
        if self.body.is_empty() || decoder.descriptor()? != VALUE {
            return Ok(None);
        }
        decoder.value().map(Some)
    }

    /// Decodes the values in the sections of the body: binaries, or values of other types.
    pub fn body_values(&self) -> Result<Vec<Value>, DecodeError> {
        let mut decoder = Decoder::new(self.body.clone());
        let mut values = Vec::new();
        while !decoder.is_empty() {
            decoder.descriptor()?;
            values.push(decoder.value()?);
        }
        Ok(values)
    }

    /// Returns the content of the body: binaries unchanged, any other content as text or JSON.
    pub fn plain_body(&self) -> Vec<u8> {
        let values = self.body_values().unwrap_or_default();
        let bytes = |value: &Value| {
            let Value::Binary(bytes) = value else {
                return None;
            };
            Some(bytes.clone())
        };
        let parts: Option<Vec<Bytes>> = values.iter().map(bytes).collect();
        match (parts, values.as_slice()) {
            (Some(parts), _) => parts.concat(),
            (None, [value]) => value.plain().into_bytes(),
            (None, values) => values
                .iter()
                .map(serde_json::Value::from)
                .collect::<serde_json::Value>()
                .to_string()
                .into_bytes(),
        }
    }

    /// Returns the message with a text as its body: a string if the body was a string, or else bytes. The footer is
    /// removed, since it may contain a checksum or signature of the old body.
    pub fn with_text(&self, text: &str) -> Self {
        let body = match self.body_value() {
            Ok(Some(Value::String(_))) => section(VALUE, Value::String(text.into())),
            _ => section(DATA, Value::Binary(text.to_owned().into())),
        };
        Self {
            body,
            footer: Bytes::new(),
            ..self.clone()
        }
    }

    /// Removes the body, and states the number of its bytes in a delivery annotation.
    pub fn without_body(self) -> Result<Self, DecodeError> {
        let name = Value::symbol(annotation::OMITTED_BODY_SIZE);
        let size = u64::try_from(self.body.len()).unwrap_or(u64::MAX);
        let mut of_delivery = map_of(&self.delivery_annotations)?;
        of_delivery.push((name, Value::Ulong(size)));
        Ok(Self {
            delivery_annotations: section(DELIVERY_ANNOTATIONS, Value::Map(of_delivery)),
            body: Bytes::new(),
            footer: Bytes::new(),
            ..self
        })
    }

    /// Returns the encoded message with unchanged sections, in the order of the standard.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.with(
            &self.header,
            &self.delivery_annotations,
            &self.message_annotations,
            &self.properties,
            &self.application_properties,
        )
    }

    /// Returns the encoded message as it is delivered to a receiver.
    pub fn hand_out(&self, handout: &Handout) -> Result<Vec<u8>, DecodeError> {
        let header = self.header()?;
        let ttl = handout
            .life
            .map_or(header.ttl, |life| life.effective(header.ttl));
        let header = Header {
            delivery_count: handout.delivery_count,
            ttl,
            ..header
        };
        let properties = match (handout.life, ttl) {
            (Some(life), Some(ttl)) => self.expiring(life.from, ttl)?,
            (None, _) | (_, None) => self.properties.clone(),
        };
        let header = section(HEADER, header.to_value());
        let of_delivery = self.locked(handout)?.section(DELIVERY_ANNOTATIONS);
        let annotations = self.annotated(handout)?.section(MESSAGE_ANNOTATIONS);
        let own = if handout.properties.is_empty() && handout.set.is_empty() {
            self.application_properties.clone()
        } else {
            self.changed(handout)?.section(APPLICATION_PROPERTIES)
        };
        Ok(self.with(&header, &of_delivery, &annotations, &properties, &own))
    }

    /// Returns the properties with the creation time and the expiry time of the message. Clients compute the expiry
    /// from these times if they are set.
    fn expiring(&self, from: Timestamp, ttl: Duration) -> Result<Bytes, DecodeError> {
        let properties = MessageProperties {
            creation_ms: Some(from.as_ms()),
            absolute_expiry_ms: Some((from + ttl).as_ms()),
            ..self.properties()?
        };
        Ok(section(PROPERTIES, properties.to_value()))
    }

    fn locked(&self, handout: &Handout) -> Result<MapEntries, DecodeError> {
        let is_token = |name: &[u8]| name == annotation::LOCK_TOKEN.as_bytes();
        let mut annotations = MapEntries::kept(&self.delivery_annotations, |key| !is_token(key))?;
        if let Some(token) = handout.lock_token {
            annotations.add(&Value::symbol(annotation::LOCK_TOKEN), &Value::Uuid(token));
        }
        Ok(annotations)
    }

    fn annotated(&self, handout: &Handout) -> Result<MapEntries, DecodeError> {
        let ours = annotation::OF_BROKER.map(str::as_bytes);
        let mut annotations =
            MapEntries::kept(&self.message_annotations, |key| !ours.contains(&key))?;
        for (name, value) in &handout.annotations {
            annotations.add(&Value::symbol(name), value);
        }
        Ok(annotations)
    }

    fn changed(&self, handout: &Handout) -> Result<MapEntries, DecodeError> {
        // Names are looked up in a set, so that the cost for thousands of properties stays proportional to their bytes.
        let mut names: HashSet<Vec<u8>> = HashSet::new();
        let mut set = MapEntries::default();
        for (name, value) in &handout.properties {
            let is_first = names.insert(name.as_bytes().to_vec());
            if let Some(value) = value.as_ref().filter(|_| is_first) {
                set.add(&name.as_str().into(), value);
            }
        }
        if !handout.set.is_empty() {
            let is_first = |key: Option<&[u8]>| key.is_some_and(|key| names.insert(key.to_vec()));
            set.take(Decoder::new(handout.set.clone()), is_first)?;
        }
        let mut all = MapEntries::kept(&self.application_properties, |key| !names.contains(key))?;
        all.append(&set);
        Ok(all)
    }

    fn with(
        &self,
        header: &Bytes,
        of_delivery: &Bytes,
        annotations: &Bytes,
        properties: &Bytes,
        own: &Bytes,
    ) -> Vec<u8> {
        let sections = [
            header,
            of_delivery,
            annotations,
            properties,
            own,
            &self.body,
            &self.footer,
        ];
        let length = sections.iter().map(|each| each.len()).sum();
        let mut out = Vec::with_capacity(length);
        sections.iter().for_each(|each| out.extend_from_slice(each));
        out
    }
}

impl Header {
    /// Returns the header as a list. The list always includes the delivery count, since .NET's client requires it.
    fn to_value(&self) -> Value {
        let ttl = self
            .ttl
            .map(|ttl| u32::try_from(ttl.as_millis()).unwrap_or(u32::MAX));
        Value::List(vec![
            self.durable.into(),
            self.priority.into(),
            ttl.into(),
            self.first_acquirer.into(),
            self.delivery_count.into(),
        ])
    }
}

impl MessageProperties {
    fn to_value(&self) -> Value {
        let symbol = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::symbol);
        let moment = |ms: Option<i64>| ms.map_or(Value::Null, Value::Timestamp);
        let text = |text: &Option<String>| Value::from(text.as_deref());
        let mut fields = vec![
            self.message_id.clone().into(),
            self.user_id.clone().into(),
            text(&self.to),
            text(&self.subject),
            text(&self.reply_to),
            self.correlation_id.clone().into(),
            symbol(&self.content_type),
            symbol(&self.content_encoding),
            moment(self.absolute_expiry_ms),
            moment(self.creation_ms),
            text(&self.group_id),
            self.group_sequence.into(),
            text(&self.reply_to_group_id),
        ];
        while fields.last() == Some(&Value::Null) {
            fields.pop();
        }
        Value::List(fields)
    }
}

/// The largest number of bytes before the entries of a section's map: its descriptor, its size and its count.
const MAP_HEAD_BYTES: usize = 16;

/// The entries of a map, encoded.
#[derive(Default)]
struct MapEntries {
    bytes: Vec<u8>,
    /// The number of keys and values.
    count: usize,
}

impl MapEntries {
    /// Returns the entries of a section's map whose keys satisfy `is_kept`, and all entries whose keys are not texts.
    /// The bytes of the entries are unchanged.
    fn kept(section: &Bytes, is_kept: impl Fn(&[u8]) -> bool) -> Result<Self, DecodeError> {
        let mut entries = Self::default();
        if section.is_empty() {
            return Ok(entries);
        }
        entries.bytes.reserve(section.len());
        let mut map = Decoder::new(section.clone());
        map.descriptor()?;
        entries.take(map, |key| key.is_none_or(&is_kept))?;
        Ok(entries)
    }

    /// Adds the entries of the next map in the decoder whose keys satisfy `is_taken`, with their bytes unchanged.
    /// `is_taken` gets the text of a key, or `None` for a key that is not a text.
    fn take(
        &mut self,
        mut map: Decoder,
        mut is_taken: impl FnMut(Option<&[u8]>) -> bool,
    ) -> Result<(), DecodeError> {
        let mut inside = map.inside_map()?;
        while !inside.is_empty() {
            let (key, value) = (inside.raw()?, inside.raw()?);
            if is_taken(text_in(&key)) {
                self.bytes.extend_from_slice(&key);
                self.bytes.extend_from_slice(&value);
                self.count += 2;
            }
        }
        Ok(())
    }

    fn add(&mut self, key: &Value, value: &Value) {
        encode(key, &mut self.bytes);
        encode(value, &mut self.bytes);
        self.count += 2;
    }

    fn append(&mut self, others: &Self) {
        self.bytes.extend_from_slice(&others.bytes);
        self.count += others.count;
    }

    fn section(&self, code: u64) -> Bytes {
        let mut out = Vec::with_capacity(MAP_HEAD_BYTES + self.bytes.len());
        out.push(0x00);
        encode(&Value::Ulong(code), &mut out);
        encode_map(&self.bytes, self.count, &mut out);
        out.into()
    }
}

/// Reads an encoded map that is not part of a section.
pub fn map(encoded: &[u8]) -> Result<Map, DecodeError> {
    let value = Decoder::new(Bytes::copy_from_slice(encoded)).value()?;
    if let Value::Map(map) = value {
        return Ok(map);
    }
    Err(unexpected("a map", value))
}

/// Returns the map `before` with the entries of `set`, which replace entries with the same name.
pub fn merged(before: &[u8], set: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let (mut all, set) = (map(before)?, map(set)?);
    let names: HashSet<Option<&str>> = set.iter().map(|(name, _)| name.as_text()).collect();
    all.retain(|(name, _)| !names.contains(&name.as_text()));
    all.extend(set);
    Ok(encoded(all))
}

/// Returns the encoding of a map, which [`map`] reads.
pub fn encoded(map: Map) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&Value::Map(map), &mut out);
    out
}

pub(super) fn section(code: u64, content: Value) -> Bytes {
    let mut out = Vec::new();
    encode(&Value::described(code, content), &mut out);
    out.into()
}

/// Decodes the value of a section. Returns `None` if the message does not have the section.
pub(super) fn content(section: &Bytes) -> Result<Option<Value>, DecodeError> {
    if section.is_empty() {
        return Ok(None);
    }
    let mut decoder = Decoder::new(section.clone());
    decoder.descriptor()?;
    decoder.value().map(Some)
}

fn map_of(section: &Bytes) -> Result<Map, DecodeError> {
    match content(section)? {
        None => Ok(Map::new()),
        Some(Value::Map(map)) => Ok(map),
        Some(other) => Err(unexpected("a map", other)),
    }
}

fn moment(fields: &mut UnreadFields, name: &'static str) -> Result<Option<i64>, DecodeError> {
    match fields.optional(name)? {
        None => Ok(None),
        Some(Value::Timestamp(ms)) => Ok(Some(ms)),
        Some(other) => Err(unexpected("a timestamp", other)),
    }
}
