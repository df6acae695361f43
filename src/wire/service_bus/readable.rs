//! Messages as webhooks and filters see them (rule S2.1): CloudEvents whose data is the body.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::json;

use super::message::{DATA_CONTENT_TYPE, of_event, trace, with_text};
use crate::model::event::{Attribute, Event, EventData, StoredEvent};
use crate::model::trace::TRACEPARENT;
use crate::wire::amqp::Value;
use crate::wire::amqp::message::{Message, MessageProperties};
use crate::wire::media_type::is_media_type;

/// Names reserved for the context attributes of CloudEvents and for the body.
const TAKEN: [&str; 10] = [
    "id",
    "source",
    "specversion",
    "type",
    "subject",
    "time",
    "data",
    "datacontenttype",
    "dataschema",
    TRACEPARENT,
];

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const BYTES: &str = "application/octet-stream";

/// Returns a published event unchanged. For a message, returns an event whose data is the message body and whose
/// attributes are the other values that the sender set.
pub fn readable(event: &Event) -> Cow<'_, Event> {
    match of_event(event) {
        None => Cow::Borrowed(event),
        Some(message) => Cow::Owned(of_message(event, &message)),
    }
}

/// Returns a stored event, made readable as in [`readable`].
pub fn readable_stored(stored: &StoredEvent) -> Cow<'_, StoredEvent> {
    match readable(&stored.event) {
        Cow::Borrowed(_) => Cow::Borrowed(stored),
        Cow::Owned(event) => Cow::Owned(StoredEvent {
            event,
            key: stored.key,
            received_at: stored.received_at,
        }),
    }
}

fn of_message(event: &Event, message: &Message) -> Event {
    let properties = message.properties().unwrap_or_default();
    // Service Bus accepts any text as a content type. CloudEvents accepts only a media type.
    let written = properties.content_type.as_deref();
    let given = written.filter(|text| is_media_type(text));
    let (data, content_type) = body(message.plain_body(), given);
    Event {
        id: event.id.clone(),
        source: event.source.clone(),
        event_type: event.event_type.clone(),
        subject: event.subject.clone(),
        time: event.time.clone(),
        data_version: event.data_version.clone(),
        attributes: attributes(message, &properties, content_type),
        data,
    }
}

/// Returns the data and its content type. JSON is kept as received, text becomes a JSON string, other data stays bytes.
pub(super) fn body(body: Vec<u8>, given: Option<&str>) -> (EventData, Option<String>) {
    if body.is_empty() {
        return (EventData::Absent, given.map(str::to_owned));
    }
    let is_json_type = given.is_none_or(is_json);
    let text = match String::from_utf8(body) {
        Ok(text) if !text.contains(is_no_text) => text,
        Ok(text) => return bytes(text.as_bytes(), given),
        Err(error) => return bytes(error.as_bytes(), given),
    };
    if is_json_type && serde_json::from_str::<IgnoredAny>(&text).is_ok() {
        let content_type = given.unwrap_or(JSON).to_owned();
        return (EventData::Json(text), Some(content_type));
    }
    // A text with a JSON content type would be read as a JSON value.
    let content_type = given.filter(|given| !is_json(given)).unwrap_or(TEXT);
    (
        EventData::Json(json!(text).to_string()),
        Some(content_type.to_owned()),
    )
}

fn bytes(body: &[u8], given: Option<&str>) -> (EventData, Option<String>) {
    let content_type = given.unwrap_or(BYTES).to_owned();
    (
        EventData::Binary(Bytes::copy_from_slice(body)),
        Some(content_type),
    )
}

/// Returns the event with its message body replaced by `json`, in the form that [`readable`] returns; `None` if the
/// event was published as an event.
pub fn with_data(event: &Event, json: &str) -> Option<Event> {
    let given = of_event(event)?.properties().ok()?.content_type;
    match serde_json::from_str::<String>(json) {
        Ok(text) if !given.as_deref().is_some_and(is_json) => with_text(event, &text),
        Ok(_) | Err(_) => with_text(event, json),
    }
}

/// Reports whether a content type is `application/json` or ends in `+json`.
fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(JSON) || essence.to_ascii_lowercase().ends_with("+json")
}

fn is_no_text(c: char) -> bool {
    c.is_control() && !c.is_whitespace()
}

/// Returns the attributes: the content type, then the Service Bus properties, then the application properties.
fn attributes(
    message: &Message,
    properties: &MessageProperties,
    content_type: Option<String>,
) -> Vec<Attribute> {
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    let known = [
        ("correlationid", properties.correlation_id.clone()),
        ("sessionid", text(&properties.group_id)),
        ("to", text(&properties.to)),
        ("replyto", text(&properties.reply_to)),
        ("replytosessionid", text(&properties.reply_to_group_id)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let own = message
        .application_properties()
        .unwrap_or_default()
        .into_iter()
        .map(|(name, value)| (name.plain(), value));
    let mut taken: BTreeSet<String> = TAKEN.map(str::to_owned).into();
    let mut attributes: Vec<Attribute> = content_type
        .into_iter()
        .map(|content_type| Attribute {
            name: DATA_CONTENT_TYPE.to_owned(),
            value: json!(content_type).to_string(),
        })
        .collect();
    attributes.extend(trace(message).map(|trace| Attribute {
        name: TRACEPARENT.to_owned(),
        value: json!(trace.to_string()).to_string(),
    }));
    for (name, value) in known.chain(own) {
        let name = attribute_name(&name);
        let is_new = !name.is_empty() && taken.insert(name.clone());
        if let Some(value) = attribute_value(&value).filter(|_| is_new) {
            attributes.push(Attribute { name, value });
        }
    }
    attributes
}

/// Returns the ASCII letters of a name in lower case, and its digits. CloudEvents allows no other characters.
fn attribute_name(name: &str) -> String {
    let known = name.chars().filter(char::is_ascii_alphanumeric);
    known.map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns the value of an attribute as JSON text; `None` for null. 32-bit integers and booleans keep their type,
/// because CloudEvents has these types. Any other value becomes a string.
fn attribute_value(value: &Value) -> Option<String> {
    if *value == Value::Null {
        return None;
    }
    if let Value::Bool(value) = value {
        return Some(value.to_string());
    }
    let number = value
        .as_integer()
        .and_then(|number| i32::try_from(number).ok());
    let text = || json!(value.plain()).to_string();
    Some(number.map_or_else(text, |number| number.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::service_bus::message::to_event;

    fn sent(content_type: Option<&str>, own: Vec<(Value, Value)>, body: &[u8]) -> Event {
        let properties = MessageProperties {
            message_id: Some("m1".into()),
            subject: Some("paid".to_owned()),
            content_type: content_type.map(str::to_owned),
            group_id: Some("s1".to_owned()),
            ..MessageProperties::default()
        };
        let message = Message::of_data(&properties, own, body.to_vec());
        to_event(message, || panic!("it has an id")).expect("an event")
    }

    #[test]
    fn the_body_is_the_data() {
        let json = |text: &str| EventData::Json(text.to_owned());
        let binary = |bytes: &[u8]| EventData::Binary(Bytes::copy_from_slice(bytes));
        for (given, body, data, content_type) in [
            (None, &b"{\"n\":  1.0}"[..], json("{\"n\":  1.0}"), JSON),
            (
                Some("text/json; charset=utf-8"),
                b"7",
                json("\"7\""),
                "text/json; charset=utf-8",
            ),
            (
                Some("application/vnd.a+json"),
                b"[1]",
                json("[1]"),
                "application/vnd.a+json",
            ),
            (Some(JSON), b"{no", json("\"{no\""), TEXT),
            (None, "gr\u{fc}n".as_bytes(), json("\"gr\u{fc}n\""), TEXT),
            (Some("text/plain"), b"7", json("\"7\""), TEXT),
            (None, b"\x00\x01", binary(b"\0\x01"), BYTES),
            (
                Some("image/png"),
                b"\xff\xfe",
                binary(b"\xff\xfe"),
                "image/png",
            ),
        ] {
            let event = sent(given, Vec::new(), body);
            let shown = readable(&event);
            assert_eq!(shown.data, data, "{given:?}");
            let found = shown
                .attributes
                .iter()
                .find(|each| each.name == DATA_CONTENT_TYPE);
            let expected = json!(content_type).to_string();
            assert_eq!(found.map(|each| each.value.clone()), Some(expected));
            assert_eq!(
                (shown.id.as_str(), shown.subject.as_deref()),
                ("m1", Some("paid"))
            );
        }
        assert_eq!(
            readable(&sent(None, Vec::new(), b"")).data,
            EventData::Absent
        );
    }

    #[test]
    fn another_body_leaves_the_rest_of_the_message() {
        for (given, json, expected) in [
            (None, "{\"n\": 2}", "{\"n\": 2}"),
            (None, "\"gr\u{fc}n\"", "gr\u{fc}n"),
            (Some("text/plain"), "\"7\"", "7"),
            (Some(JSON), "\"7\"", "\"7\""),
        ] {
            let own = vec![("tenant".into(), "a".into())];
            let edited = with_data(&sent(given, own, b"old"), json).expect("a message");
            let message = of_event(&edited).expect("a message");
            assert_eq!(message.plain_body(), expected.as_bytes(), "{given:?}");
            let properties = message.properties().expect("properties");
            assert_eq!(properties.content_type.as_deref(), given);
            assert_eq!(properties.subject.as_deref(), Some("paid"));
            let own = message.application_properties().expect("properties");
            assert_eq!(own, vec![("tenant".into(), "a".into())]);
        }
        let properties = MessageProperties::default();
        let text = Message::of(&properties, Vec::new(), "old".into());
        let text = to_event(text, || "m2".to_owned()).expect("an event");
        let edited = with_text(&text, "new").expect("a message");
        let message = of_event(&edited).expect("a message");
        assert_eq!(message.body_value(), Ok(Some("new".into())));
    }

    #[test]
    fn properties_are_attributes() {
        let own = vec![
            ("Order-No".into(), Value::Int(7)),
            ("total".into(), Value::Double(0.5)),
            ("large".into(), Value::Long(1 << 40)),
            ("yes".into(), Value::Bool(true)),
            ("nothing".into(), Value::Null),
            ("orderno".into(), "again".into()),
            ("Subject".into(), "another".into()),
            ("\u{fc}".into(), "no letters".into()),
            ("at".into(), Value::Timestamp(0)),
            ("id2".into(), Value::Uuid(uuid::Uuid::nil())),
            ("tenth".into(), Value::Float(0.1)),
            (
                "Diagnostic-Id".into(),
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            ),
        ];
        let event = sent(None, own, b"x");
        let shown = readable(&event).into_owned();
        let shown: Vec<_> = shown
            .attributes
            .iter()
            .map(|each| (each.name.as_str(), each.value.as_str()))
            .collect();
        let expected = [
            ("datacontenttype", "\"text/plain\""),
            (
                "traceparent",
                "\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"",
            ),
            ("sessionid", "\"s1\""),
            ("orderno", "7"),
            ("total", "\"0.5\""),
            ("large", "\"1099511627776\""),
            ("yes", "true"),
            ("at", "\"1970-01-01T00:00:00.000Z\""),
            ("id2", "\"00000000-0000-0000-0000-000000000000\""),
            ("tenth", "\"0.1\""),
            (
                "diagnosticid",
                "\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"",
            ),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn other_events_stay_as_they_are() {
        let event = Event {
            attributes: Vec::new(),
            ..sent(None, Vec::new(), b"x")
        };
        assert!(matches!(readable(&event), Cow::Borrowed(_)));
    }
}
