//! Messages as HTTP requests and answers (rule S8): the body, its type, `BrokerProperties` in JSON, and a header for
//! each property of the application.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::{Map, Value as Json};

use super::message::{BROKER_PROPERTIES, HeaderProperties, NOT_PROPERTIES, ascii};
use crate::base::Timestamp;
use crate::model::limits::BATCH_MESSAGES_MAX;
use crate::wire::amqp::message::{Message as Encoded, MessageParts, MessageProperties, annotation};
use crate::wire::amqp::value::{Map as Pairs, get};
use crate::wire::amqp::{DecodeError, Value};
use crate::wire::json::at_most;
use crate::wire::moment;

/// The type of a body with several messages.
const BATCH: &str = "application/vnd.microsoft.servicebus.json";

/// Steps per byte of a body with several messages. The number is high, since three bytes can be a whole message.
const STEPS_OF_A_BATCH_BYTE: usize = 300;

/// Bytes per step when a body with one message is copied.
const BYTES_OF_A_STEP: usize = 16;

/// Prefixes of the names of headers that describe the request and not the message.
const OF_REQUESTS: [&str; 11] = [
    "accept",
    "authorization",
    "cookie",
    "expect",
    "host",
    "if-",
    "proxy-",
    "sec-",
    "user-agent",
    "x-forwarded-",
    "x-ms-",
];

/// The reason why a request is not a valid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    #[error("BrokerProperties: {0} must be {1}")]
    Property(&'static str, &'static str),
    #[error("BrokerProperties must be an object in JSON")]
    Properties,
    #[error(
        "the body must be an array of objects with Body, BrokerProperties and UserProperties: {0}"
    )]
    Batch(String),
    #[error("the body has more than {BATCH_MESSAGES_MAX} messages")]
    TooMany,
    #[error("the message cannot be sent: {0}")]
    Unreadable(#[from] DecodeError),
}

/// Estimates the steps, of about five nanoseconds each, to read a body of `bytes` bytes.
pub fn steps(headers: &HeaderMap, bytes: usize) -> usize {
    if text(headers, &header::CONTENT_TYPE).is_some_and(is_batch) {
        return bytes.saturating_mul(STEPS_OF_A_BATCH_BYTE);
    }
    bytes / BYTES_OF_A_STEP
}

/// Returns the maximum number of messages in a body of `bytes` bytes. Each message takes at least three bytes: two
/// braces, and a bracket or comma before them.
pub fn messages_max(headers: &HeaderMap, bytes: usize) -> usize {
    if text(headers, &header::CONTENT_TYPE).is_some_and(is_batch) {
        return (bytes / 3).clamp(1, BATCH_MESSAGES_MAX);
    }
    1
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn is_batch(content_type: &str) -> bool {
    content_type.starts_with(BATCH)
}

/// Reads the messages to send from a request.
pub fn read(headers: &HeaderMap, body: &[u8]) -> Result<Vec<Encoded>, BadMessage> {
    let content_type = text(headers, &header::CONTENT_TYPE);
    if content_type.is_some_and(is_batch) {
        return batch(body);
    }
    let broker = match text(headers, &BROKER_PROPERTIES) {
        None => Map::new(),
        Some(text) => serde_json::from_str(text).map_err(|_| BadMessage::Properties)?,
    };
    let own = headers.iter().filter_map(|(name, value)| {
        let header_name = name.as_str();
        let is_own = !NOT_PROPERTIES.contains(&header_name)
            && !OF_REQUESTS
                .iter()
                .any(|other| header_name.starts_with(other));
        let value = property(value.to_str().ok()?)?;
        is_own.then(|| (header_name.into(), value))
    });
    let parts = parts(&broker, own.collect(), content_type)?;
    Ok(vec![of(&parts, body.to_vec())?])
}

fn batch(body: &[u8]) -> Result<Vec<Encoded>, BadMessage> {
    let bad = |problem: String| BadMessage::Batch(problem);
    let read = at_most(
        serde_json::Deserializer::from_slice(body),
        BATCH_MESSAGES_MAX,
    );
    let some = read.map_err(|error| bad(error.to_string()))?;
    let all: Vec<Map<String, Json>> = some.ok_or(BadMessage::TooMany)?;
    if all.is_empty() {
        return Err(bad("it is empty".to_owned()));
    }
    let message = |mut each: Map<String, Json>| {
        let mut object = |name: &str| match each.remove(name) {
            None | Some(Json::Null) => Ok(Map::new()),
            Some(Json::Object(object)) => Ok(object),
            Some(_) => Err(bad(format!("{name} is no object"))),
        };
        let (broker, user) = (object("BrokerProperties")?, object("UserProperties")?);
        let own = user
            .iter()
            .map(|(name, value)| (name.as_str().into(), of_json(value)));
        let parts = parts(&broker, own.collect(), None)?;
        let body = match each.remove("Body") {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::String(text)) => text.into_bytes(),
            Some(other) => other.to_string().into_bytes(),
        };
        Ok(of(&parts, body)?)
    };
    all.into_iter().map(message).collect()
}

fn of(parts: &MessageParts, body: Vec<u8>) -> Result<Encoded, DecodeError> {
    let message = Encoded::of_data(&MessageProperties::default(), Pairs::new(), body);
    message.with_parts(parts).as_sent()
}

fn parts(
    broker: &Map<String, Json>,
    own: Pairs,
    content_type: Option<&str>,
) -> Result<MessageParts, BadMessage> {
    let text = |name: &'static str| match broker.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(Json::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(BadMessage::Property(name, "a text")),
    };
    let mut parts = MessageParts {
        properties: MessageProperties {
            message_id: text("MessageId")?.map(Value::String),
            correlation_id: text("CorrelationId")?.map(Value::String),
            subject: text("Label")?,
            to: text("To")?,
            reply_to: text("ReplyTo")?,
            group_id: text("SessionId")?,
            reply_to_group_id: text("ReplyToSessionId")?,
            content_type: text("ContentType")?.or(content_type.map(str::to_owned)),
            ..MessageProperties::default()
        },
        application_properties: own,
        ..MessageParts::default()
    };
    if let Some(given) = text("TimeToLive")? {
        let life = time_to_live(&given).filter(|life| !life.is_zero());
        let expected = "a number of seconds, or a time such as 00:05:00";
        parts.header.ttl = Some(life.ok_or(BadMessage::Property("TimeToLive", expected))?);
    }
    if let Some(given) = text("ScheduledEnqueueTimeUtc")? {
        let expected = "a date such as Sun, 06 Nov 1994 08:49:37 GMT or 1994-11-06T08:49:37Z";
        let at = date(&given).ok_or(BadMessage::Property("ScheduledEnqueueTimeUtc", expected))?;
        annotate(
            &mut parts,
            annotation::SCHEDULED_ENQUEUE_TIME,
            Value::Timestamp(at.as_ms()),
        );
    }
    for (name, annotation) in PARTITION_KEYS {
        if let Some(key) = text(name)? {
            annotate(&mut parts, annotation, Value::String(key));
        }
    }
    Ok(parts)
}

const PARTITION_KEYS: [(&str, &str); 2] = [
    ("PartitionKey", annotation::PARTITION_KEY),
    ("ViaPartitionKey", annotation::VIA_PARTITION_KEY),
];

fn annotate(parts: &mut MessageParts, name: &str, value: Value) {
    parts.annotations.push((Value::symbol(name), value));
}

/// Parses a time to live in seconds or in .NET's format `[days.]hours:minutes:seconds`.
fn time_to_live(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let (days, clock) = match text.split_once('.').filter(|(days, _)| !days.contains(':')) {
        Some((days, clock)) => (days.parse::<u64>().ok()?, clock),
        None => (0, text),
    };
    let mut parts = clock.split(':');
    let (hours, minutes): (u64, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let seconds: f64 = parts.next()?.parse().ok()?;
    let hours = days.checked_mul(24)?.checked_add(hours)?;
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    let whole = Duration::from_secs(minutes.checked_mul(60)?);
    let is_whole = parts.next().is_none();
    whole
        .checked_add(Duration::try_from_secs_f64(seconds).ok()?)
        .filter(|_| is_whole)
}

fn date(text: &str) -> Option<Timestamp> {
    if let Ok(at) = httpdate::parse_http_date(text) {
        let since = at.duration_since(UNIX_EPOCH).ok()?;
        return i64::try_from(since.as_millis())
            .ok()
            .map(Timestamp::from_ms);
    }
    moment::respelled(text)?.parse().ok()
}

/// Parses the value of a header: a quoted string, a number, `true` or `false`. Returns `None` for anything else.
fn property(text: &str) -> Option<Value> {
    let trimmed = text.trim();
    if let Some(inner) = trimmed.strip_prefix('"') {
        let read = serde_json::from_str(trimmed).ok();
        let bare = || {
            inner
                .strip_suffix('"')
                .map(|inner| inner.replace("\\\"", "\""))
        };
        return read.or_else(bare).map(Value::String);
    }
    let number: Json = serde_json::from_str(trimmed).ok()?;
    (number.is_number() || number.is_boolean()).then(|| of_json(&number))
}

fn of_json(value: &Json) -> Value {
    let whole = |number: i64| i32::try_from(number).map_or(Value::Long(number), Value::Int);
    match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::String(text) => Value::String(text.clone()),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => whole(number),
            (None, Some(number)) => Value::Ulong(number),
            (None, None) => Value::Double(number.as_f64().unwrap_or_default()),
        },
        Json::Array(_) | Json::Object(_) => Value::String(value.to_string()),
    }
}

/// Makes the response that delivers a message: the properties in `told`, and those that its sender and receivers have
/// set.
pub fn answer(
    told: &HeaderProperties<'_>,
    message: &Encoded,
) -> Result<(HeaderMap, Vec<u8>), DecodeError> {
    let MessageParts {
        header,
        annotations,
        properties,
        application_properties,
    } = message.parts()?;
    let mut broker = told.broker_properties();
    let mut tell = |name: &str, value: Option<Json>| {
        if let Some(value) = value {
            broker[name] = value;
        }
    };
    let text = |text: Option<String>| text.map(Json::from);
    tell("MessageId", properties.message_id.as_ref().map(Json::from));
    tell(
        "CorrelationId",
        properties.correlation_id.as_ref().map(Json::from),
    );
    tell("Label", text(properties.subject));
    tell("To", text(properties.to));
    tell("ReplyTo", text(properties.reply_to));
    tell("SessionId", text(properties.group_id));
    tell("ReplyToSessionId", text(properties.reply_to_group_id));
    tell("TimeToLive", header.ttl.map(|ttl| ttl.as_secs_f64().into()));
    for (name, annotation) in PARTITION_KEYS {
        tell(name, get(&annotations, annotation).map(Json::from));
    }
    let mut headers = HeaderMap::new();
    headers.insert(BROKER_PROPERTIES, ascii(&broker));
    for (name, value) in &application_properties {
        let name = HeaderName::from_bytes(name.as_text().unwrap_or_default().as_bytes());
        let Ok(name) = name else {
            continue;
        };
        if !NOT_PROPERTIES.contains(&name.as_str()) {
            headers.insert(name, ascii(&Json::from(value)));
        }
    }
    let content_type = properties
        .content_type
        .and_then(|text| HeaderValue::try_from(text).ok());
    if let Some(content_type) = content_type {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    Ok((headers, message.plain_body()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_str(value).expect("a value"),
            )
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_request_is_a_message() {
        let sent = headers(&[
            (
                "brokerproperties",
                "{\"Label\":\"paid\",\"MessageId\":7,\"TimeToLive\":\"0.5\",\"SessionId\":\"s\",\
                 \"ScheduledEnqueueTimeUtc\":\"Sun, 06 Nov 1994 08:49:37 GMT\",\"Odd\":1}",
            ),
            ("content-type", "text/plain"),
            ("total", "700"),
            ("half", "0.5"),
            ("yes", "true"),
            ("color", "\"r\\\"e\\u00fcd\""),
            ("bare", "red"),
            ("user-agent", "\"x\""),
            ("x-forwarded-port", "443"),
        ]);
        let [message] = &read(&sent, &Bytes::from_static(b"hello")).expect("a message")[..] else {
            panic!("one message");
        };
        let parts = message.parts().expect("parts");
        assert_eq!(parts.properties.subject.as_deref(), Some("paid"));
        assert_eq!(parts.properties.message_id, Some("7".into()));
        assert_eq!(parts.properties.content_type.as_deref(), Some("text/plain"));
        assert_eq!(parts.properties.group_id.as_deref(), Some("s"));
        assert_eq!(parts.header.ttl, Some(Duration::from_millis(500)));
        assert_eq!(message.scheduled_enqueue_ms(), Ok(Some(784_111_777_000)));
        let mut own = parts.application_properties;
        own.sort_by_key(|(name, _)| name.as_text().map(str::to_owned));
        let expected = [
            ("color", Value::String("r\"eüd".to_owned())),
            ("half", Value::Double(0.5)),
            ("total", Value::Int(700)),
            ("yes", Value::Bool(true)),
        ];
        assert_eq!(own, expected.map(|(name, value)| (name.into(), value)));
        assert_eq!(message.plain_body(), b"hello");
    }

    #[test]
    fn a_batch_has_several() {
        let kind = headers(&[(
            "content-type",
            "application/vnd.microsoft.servicebus.json; charset=utf-8",
        )]);
        let body = "[{\"Body\":\"a\",\"BrokerProperties\":{\"Label\":\"x\"},\"UserProperties\":{\"N\":7}},\
                    {\"Body\":{\"b\":1}}]";
        let all = read(&kind, &Bytes::from_static(body.as_bytes())).expect("messages");
        let bodies: Vec<Vec<u8>> = all.iter().map(Encoded::plain_body).collect();
        assert_eq!(bodies, [b"a".to_vec(), b"{\"b\":1}".to_vec()]);
        let own = all[0].application_properties();
        assert_eq!(own, Ok(vec![("N".into(), Value::Int(7))]));
        for body in ["", "{}", "[]", "[7]", "[{\"BrokerProperties\":7}]"] {
            let rejected = read(&kind, &Bytes::copy_from_slice(body.as_bytes()));
            assert!(
                matches!(rejected, Err(BadMessage::Batch(_))),
                "{body}: {rejected:?}"
            );
        }
    }

    #[test]
    fn a_batch_is_read_as_far_as_it_may_be_long() {
        let kind = headers(&[("content-type", BATCH)]);
        let count = |body: &str| read(&kind, body.as_bytes()).map(|all| all.len());
        let most = format!("[{}{{}}]", "{},".repeat(BATCH_MESSAGES_MAX - 1));
        assert_eq!(count(&most), Ok(BATCH_MESSAGES_MAX));
        // What stands behind them is not read.
        let more = format!("[{}no JSON", "{},".repeat(BATCH_MESSAGES_MAX + 1));
        assert_eq!(count(&more), Err(BadMessage::TooMany));
    }

    #[test]
    fn a_batch_takes_more_steps_than_a_message() {
        let kind = headers(&[("content-type", BATCH)]);
        let alone = headers(&[("content-type", "text/plain")]);
        assert_eq!((steps(&kind, 3), steps(&alone, 3)), (900, 0));
        assert_eq!(steps(&kind, 85_000 * 3), 76_500_000);
        assert_eq!(steps(&HeaderMap::new(), 262_144), 16_384);
    }

    #[test]
    fn what_a_property_must_be_is_told() {
        for (text, expected) in [
            ("[]", "an object in JSON"),
            ("{\"Label\":[]}", "Label must be a text"),
            (
                "{\"TimeToLive\":\"soon\"}",
                "TimeToLive must be a number of seconds",
            ),
            ("{\"TimeToLive\":0}", "TimeToLive must be"),
            (
                "{\"ScheduledEnqueueTimeUtc\":\"tomorrow\"}",
                "must be a date",
            ),
        ] {
            let rejected = read(&headers(&[("brokerproperties", text)]), &Bytes::new());
            let told = rejected.expect_err(text).to_string();
            assert!(told.contains(expected), "{text}: {told}");
        }
        assert_eq!(
            time_to_live("1.02:03:04.5"),
            Some(Duration::from_millis(93_784_500))
        );
        assert_eq!(time_to_live("00:05:00"), Some(Duration::from_secs(300)));
        assert_eq!(time_to_live("1:2:3:4"), None);
        for too_long in [
            "00:307445734561825861:00",
            "18446744073709551615.00:00:00",
            "18446744073709551615:00:00",
        ] {
            assert_eq!(time_to_live(too_long), None, "{too_long}");
        }
    }
}
