//! Messages that lie in a queue, and the page of one of them.

use super::*;
use crate::admin::widgets::json_text::JsonCode;
use crate::model::lease::QueueRef;
use crate::store::Peeked;
use crate::wire;
use crate::wire::amqp::Value as AmqpValue;
use crate::wire::amqp::message::{Message as Encoded, Properties, map};
use crate::wire::amqp::value::{Map, get};
use crate::wire::service_bus::message::of_event;

/// Bytes of a body that are laid out as JSON, or shown as they are: beyond, nobody reads.
const TEXT_MAX: usize = 65_536;

/// Bytes of a body that are shown in hex, which takes four times as much.
const HEX_MAX: usize = 16_384;

/// Bytes in a line of hex, of which two stand beside each other where there is room.
const HEX_LINE: usize = 8;

pub(crate) struct QueuedMessage {
    pub(crate) peeked: Peeked,
    pub(crate) sent: Encoded,
    pub(crate) properties: Properties,
    pub(crate) expires_at: Option<Timestamp>,
}

impl QueuedMessage {
    pub(crate) fn of(call: &Call<Queue>, peeked: Peeked) -> Self {
        let Queue {
            topic,
            subscription,
            ..
        } = &call.of;
        let event = &peeked.event.event;
        let sent = of_event(event).unwrap_or_else(|| {
            // It was published as an event.
            let schema = subscription.definition.delivery_schema;
            let payload = wire::encode_message(schema, &topic.resource_id, &peeked.event);
            let properties = Properties {
                message_id: Some(event.id.as_str().into()),
                subject: event.subject.clone(),
                content_type: Some(payload.content_type.to_owned()),
                ..Properties::default()
            };
            Encoded::of_data(&properties, Map::new(), payload.body)
        });
        Self {
            expires_at: call.broker.expires_at(topic, subscription, &peeked),
            properties: sent.properties().unwrap_or_default(),
            sent,
            peeked,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.peeked.event.event.id
    }

    /// As it counts for the size of the queue.
    pub(crate) fn size(&self) -> usize {
        self.peeked.event.event.data.len()
    }

    pub(crate) fn locked_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.peeked.locked_until.filter(|until| *until > now)
    }

    pub(crate) fn is_scheduled(&self, now: Timestamp) -> bool {
        self.peeked.delivery.published_at > now
    }

    pub(crate) fn badge(&self, now: Timestamp) -> Badge {
        if self.peeked.dead_letter.is_some() {
            Badge::new(Tone::Bad, "Dead letter").with("dead")
        } else if self.peeked.deferred {
            Badge::new(Tone::Rest, "Deferred").with("pause")
        } else if self.locked_until(now).is_some() {
            Badge::new(Tone::Warn, "Locked")
        } else if self.is_scheduled(now) {
            Badge::new(Tone::Rest, "Scheduled").with("wait")
        } else {
            Badge::new(Tone::Rest, "Active").with("queues")
        }
    }

    /// What its sender has told the broker, besides the message id.
    fn broker_properties(&self) -> Vec<(&'static str, String)> {
        let Properties {
            subject,
            content_type,
            correlation_id,
            group_id,
            to,
            reply_to,
            reply_to_group_id,
            ..
        } = &self.properties;
        let all = [
            ("Subject", subject.clone()),
            ("Content type", content_type.clone()),
            (
                "Correlation ID",
                correlation_id.as_ref().map(AmqpValue::plain),
            ),
            ("Session ID", group_id.clone()),
            ("To", to.clone()),
            ("Reply to", reply_to.clone()),
            ("Reply session", reply_to_group_id.clone()),
        ];
        let given = all
            .into_iter()
            .filter_map(|(label, value)| Some((label, value?)));
        given.collect()
    }

    /// What the application and receivers have set, each value as JSON.
    fn application_properties(&self) -> Vec<(String, Value)> {
        let set = self.peeked.properties.as_deref();
        let set = set.and_then(|set| map(set).ok()).unwrap_or_default();
        let mut all = self.sent.application_properties().unwrap_or_default();
        all.retain(|(name, _)| name.as_text().is_none_or(|name| get(&set, name).is_none()));
        let all = all.iter().chain(&set);
        all.map(|(name, value)| (name.plain(), Value::from(value)))
            .collect()
    }
}

/// A body in one of the ways to show it.
#[derive(Debug)]
struct BodyView {
    /// The address, the word, and whether it is the one that is chosen.
    ways: Vec<(String, &'static str, bool)>,
    code: Option<JsonCode>,
    text: String,
    is_hex: bool,
    bytes: usize,
    is_cut: bool,
}

impl BodyView {
    /// As `wanted` says, or else in the way that tells the most.
    fn new(page: &str, body: &[u8], wanted: &str) -> Self {
        let shown = &body[..body.len().min(TEXT_MAX)];
        let text = wire::text_beginning(shown).filter(|text| !text.contains(is_no_text));
        let is_whole = shown.len() == body.len();
        let is_json = |text: &&str| is_whole && serde_json::from_str::<IgnoredAny>(text).is_ok();
        let json = text.filter(is_json);
        let known = [
            ("json", "JSON", json.is_some()),
            ("text", "Text", text.is_some()),
            ("hex", "Hex", true),
        ];
        let possible = || known.iter().filter(|(_, _, is_possible)| *is_possible);
        let way = possible().find(|(way, _, _)| *way == wanted);
        let way = way
            .or_else(|| possible().next())
            .map_or("hex", |(way, _, _)| way);
        let link = |(name, title, _): &(&str, &'static str, bool)| {
            (format!("{page}?as={name}"), *title, *name == way)
        };
        let (code, text, shown) = match (way, json, text) {
            ("json", Some(json), _) => (Some(JsonCode::new(json)), String::new(), shown.len()),
            ("text", _, Some(text)) => (None, print::visible(text), text.len()),
            _ => {
                let shown = &body[..body.len().min(HEX_MAX)];
                (None, hex(shown), shown.len())
            }
        };
        Self {
            ways: possible().map(link).collect(),
            code,
            text,
            is_hex: way == "hex",
            bytes: body.len(),
            is_cut: shown < body.len(),
        }
    }
}

fn is_no_text(c: char) -> bool {
    c.is_control() && !c.is_whitespace()
}

/// Lines with the place, the bytes, and what is a character of ASCII.
fn hex(bytes: &[u8]) -> String {
    let line = |(at, bytes): (usize, &[u8])| {
        let codes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let visible = |byte: &u8| {
            if matches!(byte, b' '..=b'~') {
                char::from(*byte)
            } else {
                '.'
            }
        };
        let text: String = bytes.iter().map(visible).collect();
        format!("{:04x}  {:23}  {text}\n", at * HEX_LINE, codes.join(" "))
    };
    bytes.chunks(HEX_LINE).enumerate().map(line).collect()
}

/// The message that the address names, also one that is a dead letter.
async fn find(call: &Call<Queue>) -> PageResult<QueuedMessage> {
    let (id, text) = (call.of.subscription.id, name_of(&call.names, "number"));
    let number = numbered("message", text).map(DeliveryId)?;
    for queue in [QueueRef::pending(id), QueueRef::dead_letters(id)] {
        let found = call.broker.peek(queue, None, number, 1).await?;
        let found = found.into_iter().find(|each| each.delivery.id == number);
        if let Some(found) = found {
            return Ok(QueuedMessage::of(call, found));
        }
    }
    existing(None, "message", format!("{number} in {}", call.of.name()))
}

pub(crate) async fn show_message(Query(asked): Query<Names>, call: Call<Queue>) -> PageResult {
    let message = find(&call).await?;
    let (visitor, number) = (&call.visitor, message.peeked.delivery.id);
    let page = paths::message_page(call.of.page(), number);
    let body = visitor.sees_data().then(|| {
        let view = BodyView::new(&page, &message.sent.plain_body(), name_of(&asked, "as"));
        (message.application_properties(), view)
    });
    answer!("pages/queue_message.html", visitor, format!("Message {number}"), {
        // The properties of the application, and the body; `None` for whoever does not see data.
        data: Option<(Vec<(String, Value)>, BodyView)> = body,
        page: String = page,
        queue: Queue = call.of.clone(),
        message: QueuedMessage = message,
    })
}

pub(crate) async fn download(call: Call<Queue>) -> PageResult {
    let message = find(&call).await?;
    let (number, body) = (message.peeked.delivery.id, message.sent.plain_body());
    let (ending, kind) = match std::str::from_utf8(&body) {
        Ok(text) if serde_json::from_str::<IgnoredAny>(text).is_ok() => {
            ("json", "application/json")
        }
        Ok(_) => ("txt", "text/plain; charset=utf-8"),
        Err(_) => ("bin", "application/octet-stream"),
    };
    Ok(file(&format!("message-{number}.{ending}"), kind, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_shown_in_the_way_that_tells_the_most() {
        let check = |body: &[u8], wanted: &str, way: &str, ways: usize| {
            let view = BodyView::new("/m", body, wanted);
            let chosen = view.ways.iter().find(|(_, _, chosen)| *chosen);
            assert_eq!(chosen.map(|(_, word, _)| *word), Some(way), "{view:?}");
            assert_eq!(view.ways.len(), ways, "{view:?}");
        };
        check(b"{\"a\":1}", "", "JSON", 3);
        check(b"{\"a\":1}", "hex", "Hex", 3);
        check(b"{\"a\":1}", "nonsense", "JSON", 3);
        check("größe".as_bytes(), "json", "Text", 2);
        for bytes in [&b"\x00\xff"[..], b"\x00a"] {
            check(bytes, "text", "Hex", 1);
        }
        let long = "x".repeat(TEXT_MAX + 1);
        let view = BodyView::new("/m", long.as_bytes(), "");
        assert!(view.is_cut && view.text.len() == TEXT_MAX);
        assert!(BodyView::new("/m", &[0; HEX_MAX + 1], "").is_cut);
    }

    #[test]
    fn hex_has_places_bytes_and_characters() {
        let lines = hex(b"01234567\x00z");
        let expected = "0000  30 31 32 33 34 35 36 37  01234567\n\
             0008  00 7a                    .z\n";
        assert_eq!(lines, expected);
    }
}
