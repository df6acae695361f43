//! Conversion between events and Service Bus messages (rule S2, 8).
//!
//! A message that was sent to a queue is stored as an event whose data is the encoded message. A client of Service Bus
//! receives any other event as the body of a message, with the message properties in HTTP headers.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value as Json, json};
use uuid::Uuid;

use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::event::{Attribute, Event, EventData, StoredEvent};
use crate::model::lease::LockToken;
use crate::model::session::is_session_id;
use crate::model::topic::DeliverySchema;
use crate::model::trace::{TRACEPARENT, TraceContext};
use crate::wire;
use crate::wire::amqp::message::{
    Handout, Message as Encoded, MessageLife, MessageProperties, annotation,
};
use crate::wire::amqp::value::{Map, get};
use crate::wire::amqp::{DecodeError, Value};

pub(super) const BROKER_PROPERTIES: HeaderName = HeaderName::from_static("brokerproperties");
pub(super) const REASON: &str = "DeadLetterReason";
/// The application property in which older Azure clients put the trace context. Newer clients also write `traceparent`.
const DIAGNOSTIC_ID: &str = "Diagnostic-Id";
pub(super) const DESCRIPTION: &str = "DeadLetterErrorDescription";

/// Headers with a meaning in HTTP or in this appliance, which never carry application properties.
pub(super) const NOT_PROPERTIES: [&str; 12] = [
    "brokerproperties",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "keep-alive",
    "location",
    "set-cookie",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The state of a message, with the numbers that Service Bus uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    Active = 0,
    /// A deferred message is received only by its sequence number.
    Deferred = 1,
    Scheduled = 2,
}

/// The event type of an event that is a Service Bus message.
pub const EVENT_TYPE: &str = "Microsoft.ServiceBus.Message";

/// The content type, as JSON text, of data that is an encoded message.
const CONTENT_TYPE: &str = "\"application/vnd.microsoft.servicebus.amqp-message\"";

pub(super) const DATA_CONTENT_TYPE: &str = "datacontenttype";

/// A message as it is stored, with those of its properties that its queue needs.
pub struct ReadMessage {
    pub event: Event,
    /// The time at which the sender wants the message to be enqueued.
    pub scheduled_at: Option<Timestamp>,
    pub time_to_live: Option<Duration>,
    /// The session id; `None` if the message has none or one that is too long (rule S6). The id may be empty.
    pub session: Option<String>,
}

/// Reads a message that was sent. `new_id` supplies the id of a message without one.
pub fn read(message: Encoded, new_id: impl FnOnce() -> String) -> Result<ReadMessage, DecodeError> {
    let scheduled_at = message.scheduled_enqueue_ms()?.map(Timestamp::from_ms);
    let time_to_live = message.header()?.ttl;
    let (message, mut properties) = message.with_id(new_id)?;
    let session = properties.group_id.take().filter(|id| is_session_id(id));
    Ok(ReadMessage {
        event: event_of(&message, properties),
        scheduled_at,
        time_to_live,
        session,
    })
}

/// Returns the event for a message. `new_id` supplies the id of a message without one.
pub fn to_event(message: Encoded, new_id: impl FnOnce() -> String) -> Result<Event, DecodeError> {
    let (message, properties) = message.with_id(new_id)?;
    Ok(event_of(&message, properties))
}

fn event_of(message: &Encoded, properties: MessageProperties) -> Event {
    Event {
        id: properties
            .message_id
            .as_ref()
            .map(id_text)
            .unwrap_or_default(),
        source: None,
        event_type: EVENT_TYPE.to_owned(),
        subject: properties.subject,
        time: None,
        data_version: None,
        attributes: vec![Attribute {
            name: DATA_CONTENT_TYPE.to_owned(),
            value: CONTENT_TYPE.to_owned(),
        }],
        data: EventData::Binary(message.to_bytes().into()),
    }
}

/// Reports whether an event is a Service Bus message rather than a published event. A published event never has both
/// binary data and no source: a CloudEvent needs a source, and the other schemas have no binary data.
pub fn is_message(event: &Event) -> bool {
    let is_type = |each: &Attribute| each.name == DATA_CONTENT_TYPE && each.value == CONTENT_TYPE;
    event.source.is_none()
        && event.event_type == EVENT_TYPE
        && matches!(event.data, EventData::Binary(_))
        && event.attributes.iter().any(is_type)
}

/// Returns the message encoded in an event; `None` if the event was published as an event.
pub fn of_event(event: &Event) -> Option<Encoded> {
    let EventData::Binary(data) = &event.data else {
        return None;
    };
    if !is_message(event) {
        return None;
    }
    Encoded::split(data).ok()
}

/// Returns the message for a stored event. An event that was published as an event becomes the body of a message.
pub fn of_stored(stored: &StoredEvent, schema: DeliverySchema, resource_id: &str) -> Encoded {
    let event = &stored.event;
    of_event(event).unwrap_or_else(|| {
        let payload = wire::encode_message(schema, resource_id, stored);
        let properties = MessageProperties {
            message_id: Some(event.id.as_str().into()),
            subject: event.subject.clone(),
            content_type: Some(payload.content_type.to_owned()),
            ..MessageProperties::default()
        };
        let trace = trace_properties(event.trace_context());
        Encoded::of_data(&properties, trace, payload.body)
    })
}

/// Returns the trace context in the application properties of a message.
pub(super) fn trace(message: &Encoded) -> Option<TraceContext> {
    let properties = message.application_properties().ok()?;
    let mut names = [TRACEPARENT, DIAGNOSTIC_ID].into_iter();
    names.find_map(|name| TraceContext::parse(get(&properties, name)?.as_text()?))
}

/// Returns the application properties that carry a trace context.
pub(super) fn trace_properties(trace: Option<TraceContext>) -> Map {
    let Some(trace) = trace.map(|trace| trace.to_string()) else {
        return Map::new();
    };
    let names = [DIAGNOSTIC_ID, TRACEPARENT].into_iter();
    names
        .map(|name| (name.into(), trace.as_str().into()))
        .collect()
}

/// Returns the event with its message body replaced by `text`; `None` if the event was published as an event.
pub fn with_text(event: &Event, text: &str) -> Option<Event> {
    let message = of_event(event)?.with_text(text);
    Some(Event {
        data: EventData::Binary(message.to_bytes().into()),
        ..event.clone()
    })
}

/// Returns the time to live of the message encoded in an event.
pub fn time_to_live(event: &Event) -> Option<Duration> {
    of_event(event)?.header().ok()?.ttl
}

/// Returns the session id of the message encoded in an event; `None` if the id is too long (rule S6). The id may be
/// empty.
pub fn session(event: &Event) -> Option<String> {
    session_id(&of_event(event)?)
}

/// Returns the session id of a message; `None` if the id is too long (rule S6). The id may be empty.
fn session_id(message: &Encoded) -> Option<String> {
    let id = message.properties().ok()?.group_id?;
    is_session_id(&id).then_some(id)
}

/// Returns a message id as text. The encoded message keeps the AMQP type of the id.
fn id_text(id: &Value) -> String {
    if let Value::Uuid(id) = id {
        return id.to_string();
    }
    if let Value::Binary(bytes) = id {
        return STANDARD.encode(bytes);
    }
    let number = id.as_integer().map(|number| number.to_string());
    let text = id.as_text().map(str::to_owned);
    text.or(number).unwrap_or_default()
}

/// Returns the dead-letter reason and the error description that Service Bus uses for `reason` (rule S4.1).
pub fn system_reason(reason: DeadLetterReason, attempts: u32) -> (&'static str, String) {
    if reason == DeadLetterReason::MaxDeliveryAttemptsExceeded {
        let problem = format!("Message could not be consumed after {attempts} delivery attempts.");
        return ("MaxDeliveryCountExceeded", problem);
    }
    if reason == DeadLetterReason::TimeToLiveExceeded {
        let problem = "The message expired and was dead lettered.";
        return ("TTLExpiredException", problem.to_owned());
    }
    if reason == DeadLetterReason::FilterEvaluationFailed {
        return ("FilterException", reason.description().to_owned());
    }
    if reason == DeadLetterReason::SessionIdMissing {
        return ("Session ID is null.", reason.description().to_owned());
    }
    (reason.name(), reason.description().to_owned())
}

/// Returns the application properties with the dead-letter reason and the error description, if known.
pub fn reason_properties(reason: Option<&str>, description: Option<&str>) -> Map {
    let both = [(REASON, reason), (DESCRIPTION, description)];
    let known = both
        .into_iter()
        .filter_map(|(name, text)| Some((name.into(), text?.into())));
    known.collect()
}

/// The properties of a message that its receiver gets in addition to the body.
#[derive(Clone, Debug)]
pub struct HeaderProperties<'a> {
    /// The number of the delivery.
    pub sequence_number: i64,
    /// The sequence number in the queue or topic that the message was first sent to, if the message was forwarded.
    pub first_number: Option<i64>,
    /// The queue that dead-lettered the message, if that queue then forwarded the message.
    pub dead_letter_source: Option<&'a str>,
    /// The publisher's id of the event.
    pub message_id: &'a str,
    pub enqueued_at: Timestamp,
    pub delivery_count: u32,
    /// The lock token and the end of the lock; `None` if the message is removed with the response.
    pub lock: Option<(LockToken, Timestamp)>,
    /// The end of a receiver's lock on a message that is only peeked.
    pub locked_until: Option<Timestamp>,
    /// The default time to live of the queue or subscription. The sender may have set a shorter one in the message.
    pub time_to_live: Option<Duration>,
    /// The trace context of an event that was published as an event.
    pub trace: Option<TraceContext>,
    pub reason: Option<&'a str>,
    pub description: Option<&'a str>,
    pub properties: &'a [(String, String)],
    /// Application properties that receivers have set, encoded. No header carries them.
    pub set: &'a [u8],
}

impl HeaderProperties<'_> {
    /// Returns the HTTP headers except for `Content-Type`.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(BROKER_PROPERTIES, ascii(&self.broker_properties()));
        let own = [(REASON, self.reason), (DESCRIPTION, self.description)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let given = self.properties.iter();
        let properties = given.map(|(name, value)| (name.as_str(), value.as_str()));
        let trace = trace_properties(self.trace);
        let trace_texts = trace
            .iter()
            .filter_map(|(name, value)| Some((name.as_text()?, value.as_text()?)));
        for (name, value) in own.chain(properties).chain(trace_texts) {
            let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
                continue;
            };
            if !headers.contains_key(&name) && !NOT_PROPERTIES.contains(&name.as_str()) {
                headers.insert(name, ascii(&Json::from(value)));
            }
        }
        headers
    }

    /// Encodes an event as an AMQP message with `body` of the type `content_type`.
    pub fn encode(&self, content_type: &str, body: Vec<u8>, state: MessageState) -> Vec<u8> {
        let properties = MessageProperties {
            message_id: Some(self.message_id.into()),
            content_type: Some(content_type.to_owned()),
            ..MessageProperties::default()
        };
        let message = Encoded::of_data(&properties, trace_properties(self.trace), body);
        self.hand_out(&message, state).expect("it was just written")
    }

    /// Returns a sent message in the form that a receiver gets.
    pub fn hand_out(&self, sent: &Encoded, state: MessageState) -> Result<Vec<u8>, DecodeError> {
        let moment = |at: Timestamp| Value::Timestamp(at.as_ms());
        let mut annotations = vec![
            (
                annotation::SEQUENCE_NUMBER,
                Value::Long(self.sequence_number),
            ),
            (annotation::ENQUEUED_TIME, moment(self.enqueued_at)),
        ];
        // Like Azure, omits annotations that would have the default value.
        if let Some(first) = self.first_number {
            annotations.push((annotation::ENQUEUED_SEQUENCE_NUMBER, Value::Long(first)));
        }
        if state != MessageState::Active {
            annotations.push((annotation::MESSAGE_STATE, Value::Int(state as i32)));
        }
        let until = self.lock.map(|(_, until)| until).or(self.locked_until);
        if let Some(until) = until {
            annotations.push((annotation::LOCKED_UNTIL, moment(until)));
        }
        if let Some(source) = self.dead_letter_source {
            annotations.push((annotation::DEAD_LETTER_SOURCE, source.into()));
        }
        let own = [(REASON, self.reason), (DESCRIPTION, self.description)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let given = self
            .properties
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let changed = |(name, value): (&str, &str)| (name.to_owned(), Some(Value::from(value)));
        sent.hand_out(&Handout {
            delivery_count: self.delivery_count,
            lock_token: self
                .lock
                .map(|(token, _)| Uuid::from_bytes(*token.as_bytes())),
            annotations,
            properties: own.chain(given).map(changed).collect(),
            set: Bytes::copy_from_slice(self.set),
            life: Some(MessageLife {
                from: self.enqueued_at,
                longest: self.time_to_live,
            }),
        })
    }

    pub(super) fn broker_properties(&self) -> Json {
        let mut properties = json!({
            "DeliveryCount": self.delivery_count,
            "EnqueuedSequenceNumber": self.first_number.unwrap_or(self.sequence_number),
            "EnqueuedTimeUtc": rfc_1123(self.enqueued_at),
            "MessageId": self.message_id,
            "SequenceNumber": self.sequence_number,
            "State": "Active",
        });
        if let Some((token, until)) = self.lock {
            properties["LockToken"] = token.to_string().into();
            properties["LockedUntilUtc"] = rfc_1123(until).into();
        }
        properties
    }
}

fn rfc_1123(at: Timestamp) -> String {
    let ms = u64::try_from(at.as_ms()).unwrap_or(0);
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(ms))
}

/// Returns JSON as a header value with all non-ASCII characters escaped, because clients decode headers differently. A
/// string is quoted, as in the headers of custom properties.
pub(super) fn ascii(value: &Json) -> HeaderValue {
    let mut text = String::new();
    let mut units = [0; 2];
    for c in value.to_string().chars() {
        match c {
            ' '..='~' => text.push(c),
            c => {
                for unit in c.encode_utf16(&mut units) {
                    text.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    HeaderValue::from_str(&text).expect("visible ASCII is a header's value")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Entropy;
    use crate::model::limits::SESSION_ID_MAX;
    use crate::model::topic::InputSchema;
    use crate::wire::amqp::message::encoded;
    use crate::wire::amqp::value::get;

    /// A message of which nothing special is to be said.
    const PLAIN: HeaderProperties<'static> = HeaderProperties {
        sequence_number: 1,
        first_number: None,
        dead_letter_source: None,
        message_id: "m",
        enqueued_at: Timestamp::from_ms(0),
        delivery_count: 0,
        lock: None,
        locked_until: None,
        time_to_live: None,
        trace: None,
        reason: None,
        description: None,
        properties: &[],
        set: &[],
    };

    #[test]
    fn what_was_published_as_an_event_is_no_message() {
        let message = Encoded::of(&MessageProperties::default(), Map::new(), "a".into());
        let message = to_event(message, || "id".to_owned()).expect("an event");
        assert!(is_message(&message) && of_event(&message).is_some());
        let forged = r#"{"specversion":"1.0","id":"i","source":"/s","type":"Microsoft.ServiceBus.Message","datacontenttype":"application/vnd.microsoft.servicebus.amqp-message","data_base64":"AFN3cwAAAGE="}"#;
        let schema = InputSchema::CloudEventSchemaV1_0;
        let now = Timestamp::from_ms(0);
        let forged = wire::decode_one(&schema, "/t", forged, now, &Entropy::seeded(1));
        let forged = forged.expect("an event");
        assert_eq!(forged.attributes, message.attributes);
        assert!(!is_message(&forged) && of_event(&forged).is_none());
    }

    #[test]
    fn a_message_has_its_headers() {
        let token = LockToken::from_bytes([7; 16]);
        let properties = [
            ("Order-No".to_owned(), "7 \"a\"\n".to_owned()),
            ("Location".to_owned(), "/elsewhere".to_owned()),
            ("deadletterreason".to_owned(), "another".to_owned()),
        ];
        let message = HeaderProperties {
            sequence_number: 42,
            first_number: None,
            dead_letter_source: None,
            message_id: "größe 😀",
            enqueued_at: Timestamp::from_ms(784_111_777_500),
            delivery_count: 3,
            lock: Some((token, Timestamp::from_ms(784_111_837_000))),
            locked_until: None,
            time_to_live: None,
            trace: None,
            reason: Some("Ungültig"),
            description: None,
            properties: &properties,
            set: &[],
        };
        let headers = message.headers();
        let text = |name: &str| {
            headers
                .get(name)
                .map(|value| value.to_str().expect("ASCII"))
        };
        let broker = text("BrokerProperties").expect("properties");
        assert!(broker.is_ascii(), "{broker}");
        let broker: Json = serde_json::from_str(broker).expect("JSON");
        let expected = json!({
            "DeliveryCount": 3, "EnqueuedSequenceNumber": 42, "SequenceNumber": 42,
            "EnqueuedTimeUtc": "Sun, 06 Nov 1994 08:49:37 GMT", "MessageId": "größe 😀",
            "State": "Active", "LockToken": "07070707-0707-0707-0707-070707070707",
            "LockedUntilUtc": "Sun, 06 Nov 1994 08:50:37 GMT",
        });
        assert_eq!(broker, expected);
        assert_eq!(text("DeadLetterReason"), Some("\"Ung\\u00fcltig\""));
        assert_eq!(text("DeadLetterErrorDescription"), None);
        assert_eq!(text("Order-No"), Some("\"7 \\\"a\\\"\\n\""));
        assert_eq!(text("Location"), None);
        let without_lock = HeaderProperties {
            lock: None,
            ..message
        };
        let headers = without_lock.headers();
        let broker = headers["BrokerProperties"].to_str().expect("ASCII");
        assert!(!broker.contains("Lock"), "{broker}");
    }

    #[test]
    fn a_message_has_its_encoding() {
        let token = LockToken::from_bytes([7; 16]);
        let properties = [("Order-No".to_owned(), "7".to_owned())];
        let message = HeaderProperties {
            sequence_number: 42,
            first_number: None,
            dead_letter_source: None,
            message_id: "größe",
            enqueued_at: Timestamp::from_ms(1_000),
            delivery_count: 3,
            lock: Some((token, Timestamp::from_ms(61_000))),
            locked_until: None,
            time_to_live: None,
            trace: None,
            reason: Some("Odd"),
            description: None,
            properties: &properties,
            set: &[],
        };
        let state = MessageState::Deferred;
        let encoded = message.encode("application/json", b"{}".to_vec(), state);
        let encoded = Encoded::parse(&encoded.into()).expect("a message");
        assert_eq!(encoded.header().expect("a header").delivery_count, 3);
        let found = encoded.properties().expect("properties");
        assert_eq!(found.message_id, Some("größe".into()));
        assert_eq!(found.content_type.as_deref(), Some("application/json"));
        let expected = vec![
            ("DeadLetterReason".into(), "Odd".into()),
            ("Order-No".into(), "7".into()),
        ];
        assert_eq!(encoded.application_properties(), Ok(expected));
        let annotations = encoded.annotations().expect("annotations");
        let annotation = |name| get(&annotations, name).cloned();
        for (name, expected) in [
            (annotation::SEQUENCE_NUMBER, Value::Long(42)),
            (annotation::ENQUEUED_TIME, Value::Timestamp(1_000)),
            (annotation::LOCKED_UNTIL, Value::Timestamp(61_000)),
            (annotation::MESSAGE_STATE, Value::Int(1)),
        ] {
            assert_eq!(annotation(name), Some(expected), "{name}");
        }
        assert_eq!(encoded.body().as_ref(), b"\x00\x53\x75\xa0\x02{}");
    }

    #[test]
    fn a_message_is_an_event_and_a_message_again() {
        let properties = MessageProperties {
            message_id: Some(Value::Uuid(uuid::Uuid::from_u128(7))),
            subject: Some("paid".to_owned()),
            ..MessageProperties::default()
        };
        let sent = Encoded::of(&properties, Vec::new(), "body".into());
        let event = to_event(sent.clone(), || panic!("it has an id")).expect("an event");
        assert_eq!(event.id, "00000000-0000-0000-0000-000000000007");
        assert_eq!(event.subject.as_deref(), Some("paid"));
        let again = of_event(&event).expect("a message");
        assert_eq!(again.to_bytes(), sent.to_bytes());
        assert_eq!(time_to_live(&event), None);
        assert_eq!(session(&event), None);
        let length = [
            (0, true),
            (SESSION_ID_MAX, true),
            (SESSION_ID_MAX + 1, false),
        ];
        for (length, is_one) in length {
            let id = "ü".repeat(length);
            let properties = MessageProperties {
                group_id: Some(id.clone()),
                ..properties.clone()
            };
            let sent = Encoded::of(&properties, Vec::new(), "body".into());
            let event = to_event(sent, || panic!("it has an id")).expect("an event");
            assert_eq!(session(&event), is_one.then_some(id));
        }
        let published = Event {
            attributes: Vec::new(),
            ..event
        };
        assert!(of_event(&published).is_none(), "an event of somebody else");
        let message = HeaderProperties {
            set: &encoded(vec![("tried".into(), Value::Int(2))]),
            ..PLAIN
        };
        let handed = message
            .hand_out(&again, MessageState::Active)
            .expect("a message");
        let handed = Encoded::parse(&handed.into()).expect("a message");
        let expected = vec![("tried".into(), Value::Int(2))];
        assert_eq!(handed.application_properties(), Ok(expected));
        assert_eq!(handed.body(), sent.body());
        // Azure says no more of a message that waits where it was sent to.
        let annotations = handed.annotations().expect("annotations");
        let names: Vec<_> = annotations.iter().map(|(name, _)| name.as_text()).collect();
        let told = [annotation::SEQUENCE_NUMBER, annotation::ENQUEUED_TIME];
        assert_eq!(names, told.map(Some));
        let forwarded = HeaderProperties {
            first_number: Some(7),
            ..message
        };
        let handed = forwarded.hand_out(&again, MessageState::Active);
        let handed = Encoded::parse(&handed.expect("a message").into()).expect("a message");
        let annotations = handed.annotations().expect("annotations");
        let first = get(&annotations, annotation::ENQUEUED_SEQUENCE_NUMBER);
        assert_eq!(first, Some(&Value::Long(7)));
    }

    #[test]
    fn what_is_asked_of_a_message_costs_the_same_for_any_properties() {
        let costs = |count: i32| {
            let own = (0..count).map(|n| (n.to_string().as_str().into(), Value::Int(n)));
            let properties = MessageProperties {
                group_id: Some("s".to_owned()),
                ..MessageProperties::default()
            };
            let sent = Encoded::of(&properties, own.collect(), Value::Null);
            let event = to_event(sent, || "m".to_owned()).expect("an event");
            let measured = allocation_counter::measure(|| {
                assert_eq!(time_to_live(&event), None);
                assert_eq!(session(&event).as_deref(), Some("s"));
                let sent = of_event(&event).expect("a message");
                assert!(PLAIN.hand_out(&sent, MessageState::Active).is_ok());
            });
            measured.count_total
        };
        assert_eq!(costs(1_000), costs(1));
    }

    #[test]
    fn a_property_that_is_set_costs_the_same_beside_any_others() {
        let set = encoded(vec![("tried".into(), Value::Int(2))]);
        let tried = HeaderProperties { set: &set, ..PLAIN };
        let costs = |count: i32| {
            let own = (0..count).map(|n| (n.to_string().as_str().into(), Value::Int(n)));
            let sent = Encoded::of(&MessageProperties::default(), own.collect(), Value::Null);
            let measured = allocation_counter::measure(|| {
                assert!(tried.hand_out(&sent, MessageState::Active).is_ok());
            });
            measured.count_total
        };
        let (few, many) = (costs(1), costs(1_000));
        assert!(many <= few + 10, "{many} beside many, {few} beside few");
    }

    #[test]
    fn service_bus_has_words_of_its_own() {
        for (reason, word) in [
            (
                DeadLetterReason::MaxDeliveryAttemptsExceeded,
                "MaxDeliveryCountExceeded",
            ),
            (DeadLetterReason::TimeToLiveExceeded, "TTLExpiredException"),
            (DeadLetterReason::SubscriptionDeleted, "SubscriptionDeleted"),
            (DeadLetterReason::SessionIdMissing, "Session ID is null."),
            (DeadLetterReason::FilterEvaluationFailed, "FilterException"),
            (DeadLetterReason::HeaderSizeExceeded, "HeaderSizeExceeded"),
            (DeadLetterReason::MessageSizeExceeded, "MessageSizeExceeded"),
        ] {
            assert_eq!(system_reason(reason, 3).0, word);
        }
    }
}
