//! A dead letter as a message: the event is the body, and everything else stands in headers
//! (rule S2, 8).

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value as Json, json};

use crate::base::Timestamp;
use crate::model::lease::LockToken;
use crate::wire::amqp::Value;
use crate::wire::amqp::message::{Handout, Message as Encoded, Properties, annotation};

const BROKER_PROPERTIES: HeaderName = HeaderName::from_static("brokerproperties");
const REASON: &str = "DeadLetterReason";
const DESCRIPTION: &str = "DeadLetterErrorDescription";

/// Headers that mean something to HTTP itself, or to us, and can be no property.
const NOT_PROPERTIES: [&str; 12] = [
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

/// What the headers of a message tell.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// The number of the delivery.
    pub sequence_number: i64,
    /// The publisher's id of the event.
    pub message_id: &'a str,
    pub enqueued_at: Timestamp,
    pub delivery_count: u32,
    /// Unless it is removed with the answer.
    pub lock: Option<(LockToken, Timestamp)>,
    pub reason: Option<&'a str>,
    pub description: Option<&'a str>,
    pub properties: &'a [(String, String)],
}

impl Message<'_> {
    /// The headers, without that of the body's type.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(BROKER_PROPERTIES, ascii(&self.broker_properties()));
        let own = [(REASON, self.reason), (DESCRIPTION, self.description)];
        let own = own
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let properties = self.properties.iter();
        let properties = properties.map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain(properties) {
            let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
                continue;
            };
            if !headers.contains_key(&name) && !NOT_PROPERTIES.contains(&name.as_str()) {
                headers.insert(name, ascii(&Json::from(value)));
            }
        }
        headers
    }

    /// The encoded message of AMQP, with `body` of the type `content_type`. `deferred` says that it comes by its
    /// number alone.
    pub fn encode(&self, content_type: &str, body: Vec<u8>, deferred: bool) -> Vec<u8> {
        let properties = Properties {
            message_id: Some(self.message_id.into()),
            content_type: Some(content_type.to_owned()),
            ..Properties::default()
        };
        let own = [(REASON, self.reason), (DESCRIPTION, self.description)];
        let own = own
            .into_iter()
            .filter_map(|(name, value)| Some((name.into(), value?.into())));
        let given = self.properties.iter();
        let given = given.map(|(name, value)| (name.as_str().into(), value.as_str().into()));
        let application = own.chain(given).collect();
        let moment = |at: Timestamp| Value::Timestamp(at.as_ms());
        let number = Value::Long(self.sequence_number);
        let mut annotations = vec![
            (annotation::SEQUENCE_NUMBER, number.clone()),
            (annotation::ENQUEUED_SEQUENCE_NUMBER, number),
            (annotation::ENQUEUED_TIME, moment(self.enqueued_at)),
            (annotation::MESSAGE_STATE, Value::Int(i32::from(deferred))),
        ];
        if let Some((_, until)) = self.lock {
            annotations.push((annotation::LOCKED_UNTIL, moment(until)));
        }
        let handout = Handout {
            delivery_count: self.delivery_count,
            annotations,
            properties: Vec::new(),
        };
        let message = Encoded::of_data(&properties, application, body);
        message.hand_out(&handout).expect("it was just written")
    }

    fn broker_properties(&self) -> Json {
        let mut properties = json!({
            "DeliveryCount": self.delivery_count,
            "EnqueuedSequenceNumber": self.sequence_number,
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

/// JSON with everything beyond ASCII escaped, because clients read headers in different ways. A text is
/// quoted, as custom properties are.
fn ascii(value: &Json) -> HeaderValue {
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
    use crate::wire::amqp::value::get;

    #[test]
    fn a_message_has_its_headers() {
        let token = LockToken::from_bytes([7; 16]);
        let properties = [
            ("Order-No".to_owned(), "7 \"a\"\n".to_owned()),
            ("Location".to_owned(), "/elsewhere".to_owned()),
            ("deadletterreason".to_owned(), "another".to_owned()),
        ];
        let message = Message {
            sequence_number: 42,
            message_id: "größe 😀",
            enqueued_at: Timestamp::from_ms(784_111_777_500),
            delivery_count: 3,
            lock: Some((token, Timestamp::from_ms(784_111_837_000))),
            reason: Some("Ungültig"),
            description: None,
            properties: &properties,
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
        let without_lock = Message {
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
        let message = Message {
            sequence_number: 42,
            message_id: "größe",
            enqueued_at: Timestamp::from_ms(1_000),
            delivery_count: 3,
            lock: Some((token, Timestamp::from_ms(61_000))),
            reason: Some("Odd"),
            description: None,
            properties: &properties,
        };
        let encoded = message.encode("application/json", b"{}".to_vec(), true);
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
}
