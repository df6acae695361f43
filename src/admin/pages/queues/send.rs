//! The form that sends a message to a queue or a Service Bus topic.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Query;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::QueueName;
use crate::admin::action::{Call, Names, Subject, name_of};
use crate::admin::error::{PageError, PageResult};
use crate::admin::form_error::all_of;
use crate::admin::forms::document::{duration_of, typed_line, typed_pairs};
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::FormError;
use crate::admin::forms::sheet::{Head, Sheet, SheetFields, draw_sheet};
use crate::admin::lists::filter::{Reading, given, moment};
use crate::admin::pages::events;
use crate::admin::pages::service_bus::BusTopic;
use crate::admin::widgets::body_view::carried_by;
use crate::admin::widgets::print::sentence;
use crate::admin::widgets::{Flash, print};
use crate::broker::NewMessage;
use crate::model::event::Event;
use crate::model::limits::{MESSAGE_ID_MAX, SESSION_ID_MAX};
use crate::model::registry::TopicEntry;
use crate::model::session::is_session_id;
use crate::wire::amqp::Value as AmqpValue;
use crate::wire::amqp::message::{Message as Encoded, MessageProperties};
use crate::wire::amqp::value::Map;
use crate::wire::service_bus::message::{self, of_event};

/// The longest time to live: messages have it in milliseconds, as a number of 32 bits.
const LIFE_MAX: Duration = Duration::from_secs(49 * 86_400);

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MessageForm {
    body: String,
    content_type: String,
    subject: String,
    message_id: String,
    session_id: String,
    time_to_live: String,
    scheduled_at: String,
    properties: String,
}

impl Sheet<BusTopic> for MessageForm {
    const HEAD: Head = (SheetFields::Message, "Send message to", "");

    fn begin(_: &Call<BusTopic>) -> PageResult<Self> {
        Ok(Self::blank())
    }

    fn remark(_: &Call<BusTopic>) -> String {
        "Subscriptions with sessions require one.".to_owned()
    }

    async fn save(&self, call: &Call<BusTopic>) -> PageResult {
        self.send(call, &call.of.0, false).await
    }
}

impl Sheet<QueueName> for MessageForm {
    const HEAD: Head = (SheetFields::Message, "Send message to", "");

    fn begin(_: &Call<QueueName>) -> PageResult<Self> {
        Ok(Self::blank())
    }

    fn remark(call: &Call<QueueName>) -> String {
        let says = if call.of.definition.pull.receiving.has_sessions {
            "Required. Messages with the same one are received in their order."
        } else {
            ""
        };
        says.to_owned()
    }

    async fn save(&self, call: &Call<QueueName>) -> PageResult {
        let has_sessions = call.of.definition.pull.receiving.has_sessions;
        self.send(call, &call.of.topic, has_sessions).await
    }
}

/// The form, with a copy of the message that the address names by the key of its event.
pub(crate) async fn compose<S: Subject>(Query(asked): Query<Names>, call: Call<S>) -> PageResult
where
    MessageForm: Sheet<S>,
{
    let form = match name_of(&asked, "like") {
        "" => MessageForm::begin(&call)?,
        key => MessageForm::like(&events::find(&call, key).await?.stored.event)?,
    };
    Ok(draw_sheet(&call, FilledForm::with(form)))
}

impl MessageForm {
    /// With all but the id of a message, and when it is to be sent.
    fn like(event: &Event) -> PageResult<Self> {
        let no_text = |_| PageError::rejected("the body is not text and cannot be typed");
        let body = String::from_utf8(carried_by(event)).map_err(no_text)?;
        let sent = of_event(event);
        let properties = sent
            .as_ref()
            .and_then(|sent| sent.properties().ok())
            .unwrap_or_default();
        let given = sent
            .and_then(|sent| sent.application_properties().ok())
            .unwrap_or_default();
        let line =
            |(name, value): &(AmqpValue, AmqpValue)| typed_line(&name.plain(), &value.into());
        Ok(Self {
            body,
            content_type: properties.content_type.unwrap_or_default(),
            subject: properties.subject.unwrap_or_default(),
            session_id: properties.group_id.unwrap_or_default(),
            properties: Vec::from_iter(given.iter().map(line)).join("\n"),
            ..Self::default()
        })
    }

    fn blank() -> Self {
        let content_type = "application/json".to_owned();
        Self {
            content_type,
            ..Self::default()
        }
    }

    async fn send<S: Subject>(
        &self,
        call: &Call<S>,
        topic: &Arc<TopicEntry>,
        has_sessions: bool,
    ) -> PageResult {
        let (message, broker) = (self.read(call, topic, has_sessions)?, &call.broker);
        let said = print::visible(&message.event().id);
        let said = Flash::done(format!("Message {said} has been accepted."));
        broker.send_by_hand(call.by(), topic, message).await?;
        call.visitor.leave(said, &call.of.page()).await
    }

    /// Whole numbers as those of Service Bus' clients.
    fn application_properties(&self) -> Result<Map, String> {
        let pairs = typed_pairs(&self.properties)?.into_iter();
        let pair = |(name, value): (String, Value)| {
            let value = match (&value, value.as_i64()) {
                (_, Some(number)) => AmqpValue::Long(number),
                (Value::Number(number), None) => AmqpValue::Double(number.as_f64().unwrap_or(0.0)),
                (Value::Bool(value), _) => AmqpValue::Bool(*value),
                (Value::String(text), _) => AmqpValue::String(text.clone()),
                _ => return Err(format!("{name:?} must be a text, a number, true or false.")),
            };
            Ok((AmqpValue::String(name), value))
        };
        pairs.map(pair).collect()
    }

    /// The message, or all that is wrong with it.
    fn read<S>(
        &self,
        call: &Call<S>,
        topic: &TopicEntry,
        has_sessions: bool,
    ) -> Result<NewMessage, Vec<FormError>> {
        let (mut reading, now) = (Reading::default(), call.visitor.now);
        let mut text = |name: &str, text: &str, noun: &str, fits: fn(&str) -> bool| {
            reading.field(name, text, noun, |text| fits(text).then(|| text.to_owned()))
        };
        let kind = "a media type such as application/json";
        let content_type = text("contentType", &self.content_type, kind, |text| {
            text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        });
        let noun = format!("a message ID of up to {MESSAGE_ID_MAX} characters");
        let message_id = text("messageId", &self.message_id, &noun, |text| {
            text.chars().count() <= MESSAGE_ID_MAX
        });
        let noun = format!("a session ID of up to {SESSION_ID_MAX} characters");
        let group_id = text("sessionId", &self.session_id, &noun, is_session_id);
        if has_sessions && given(&self.session_id).is_none() {
            let missing = "Enter one: the queue requires it of each message.";
            reading.reject("sessionId", missing);
        }
        let noun = "a duration of 1 s to 49 d, such as 10 min";
        let life = reading.field("timeToLive", &self.time_to_live, noun, |text| {
            duration_of(text).filter(|life| (Duration::from_secs(1)..=LIFE_MAX).contains(life))
        });
        let noun = "a moment to come such as 2027-01-01T06:40";
        let scheduled_at = reading.field("scheduledAt", &self.scheduled_at, noun, |text| {
            moment(text).filter(|at| *at > now)
        });
        let properties = MessageProperties {
            message_id: message_id.map(Into::into),
            subject: given(&self.subject),
            content_type,
            group_id,
            ..MessageProperties::default()
        };
        // Browsers end lines as HTTP does.
        let body = self.body.replace("\r\n", "\n").into_bytes();
        let application = self.application_properties().unwrap_or_else(|problem| {
            reading.reject("properties", problem);
            Map::new()
        });
        let mut message = Encoded::of_data(&properties, application, body);
        if let Some(life) = life {
            message = message.with_ttl(life);
        }
        if let Some(at) = scheduled_at {
            message = message.scheduled(at.as_ms());
        }
        let (bytes, most) = (message.bytes() as u64, call.broker.message_bytes_max(topic));
        if bytes > most {
            let (bytes, most) = (print::bytes(bytes), print::bytes(most));
            let problem = format!("The message has {bytes}; it may have up to {most}.");
            reading.reject("body", problem);
        }
        let entropy = call.broker.entropy();
        let sent = message.as_sent();
        let read = sent
            .and_then(|sent| message::read(sent, || entropy.uuid().simple().to_string()))
            .map_err(|error| vec![FormError::whole(sentence(&error.to_string()))]);
        let read = all_of(reading.end(()).err().unwrap_or_default(), read)?;
        Ok(NewMessage::from(read))
    }
}
