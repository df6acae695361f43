//! The messages in a queue, and the page that shows one message.

use std::sync::Arc;

use axum::extract::Query;
use serde_json::Value;

use super::QueueName;
use crate::admin::action::{Call, Names, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::lists::download::body_file;
use crate::admin::pages::answer;
use crate::admin::pages::service_bus::BusRule;
use crate::admin::paths;
use crate::admin::site::{existing, numbered};
use crate::admin::widgets::body_view::BodyView;
use crate::admin::widgets::{Badge, Icon, Tone, filters, print};
use crate::base::Timestamp;
use crate::broker::{TooManyTrials, try_out};
use crate::model::lease::QueueRef;
use crate::model::rule::Steps;
use crate::store::Peeked;
use crate::wire::amqp::Value as AmqpValue;
use crate::wire::amqp::message::{Message as Encoded, MessageProperties};
use crate::wire::service_bus::copy::SentMessage;
use crate::wire::service_bus::message::of_stored;

pub(crate) struct QueuedMessage {
    pub(crate) peeked: Peeked,
    pub(crate) sent: Encoded,
    pub(crate) properties: MessageProperties,
    pub(crate) expires_at: Option<Timestamp>,
}

impl QueuedMessage {
    pub(crate) fn of(call: &Call<QueueName>, peeked: Peeked) -> Self {
        let (topic, subscription) = (&call.of.topic, &call.of.subscription);
        let schema = subscription.definition.delivery_schema;
        let sent = of_stored(&peeked.event, schema, &topic.resource_id);
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

    /// Returns the size of the message in bytes, as counted in the size of the queue.
    pub(crate) fn size(&self) -> usize {
        self.peeked.event.event.data.len()
    }

    pub(crate) fn locked_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.peeked.locked_until.filter(|until| *until > now)
    }

    pub(crate) fn is_scheduled(&self, now: Timestamp) -> bool {
        self.peeked.is_scheduled(now)
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

    /// Returns the properties that the sender has set for the broker, except the message id.
    fn broker_properties(&self) -> Vec<(&'static str, String)> {
        let it = &self.properties;
        let correlation = it.correlation_id.as_ref().map(AmqpValue::plain);
        let all = [
            ("Subject", it.subject.clone()),
            ("Content type", it.content_type.clone()),
            ("Correlation ID", correlation),
            ("Session ID", it.group_id.clone()),
            ("To", it.to.clone()),
            ("Reply to", it.reply_to.clone()),
            ("Reply session", it.reply_to_group_id.clone()),
        ];
        let given = all
            .into_iter()
            .filter_map(|(label, value)| Some((label, value?)));
        given.collect()
    }

    /// Returns the properties that the application and receivers have set, each value as JSON.
    fn application_properties(&self) -> Vec<(String, Value)> {
        let set = self.peeked.properties.as_deref().unwrap_or_default();
        let all = self
            .sent
            .application_properties_with(set)
            .unwrap_or_default()
            .into_iter();
        all.map(|(name, value)| (name.plain(), Value::from(&value)))
            .collect()
    }
}

/// Returns the rules of the subscription, each with the reason that the message does not match the rule now; `None` if
/// the message matches.
async fn rules(
    call: &Call<QueueName>,
    message: &QueuedMessage,
) -> Result<Vec<(BusRule, Option<String>)>, TooManyTrials> {
    let rules = BusRule::all_of(call);
    let stored = Arc::clone(&message.peeked.event);
    let topic = Arc::clone(&call.of.topic);
    let entropy = call.broker.entropy().clone();
    let steps = stored.event.size() * rules.len();
    let compare = move || {
        let sent = SentMessage::of(&stored.event, &topic.resource_id, stored.received_at);
        let Ok(sent) = sent else {
            return Vec::new(); // as it cannot be read, it matches nothing
        };
        let mut left = Steps::of_message();
        let why = |each: BusRule| {
            let mismatch = each.rule.filter.mismatch(&sent, &entropy, &mut left);
            (each, mismatch)
        };
        rules.into_iter().map(why).collect()
    };
    try_out(steps, compare).await
}

/// Finds the message whose number is in the URL of the page, in the queue or among its dead letters.
async fn find(call: &Call<QueueName>) -> PageResult<QueuedMessage> {
    let (id, text) = (call.of.subscription.id, name_of(&call.names, "number"));
    let number: i64 = numbered("message", text)?;
    for queue in [QueueRef::pending(id), QueueRef::dead_letters(id)] {
        let found = call
            .broker
            .peek(queue, None, number, 1)
            .await?
            .into_iter()
            .find(|each| each.delivery.number == number);
        if let Some(found) = found {
            return Ok(QueuedMessage::of(call, found));
        }
    }
    existing(None, "message", format!("{number} in {}", call.of.name()))
}

pub(crate) async fn show_message(Query(asked): Query<Names>, call: Call<QueueName>) -> PageResult {
    let message = find(&call).await?;
    let rules = rules(&call, &message).await?;
    let (visitor, number) = (&call.visitor, message.peeked.delivery.number);
    let page = paths::message_page(call.of.page(), number);
    let body = message.sent.plain_body();
    let body = BodyView::new("Body", &page, &body, name_of(&asked, "as"));
    let sees_data = visitor.sees_data();
    answer!("pages/queue_message.html", visitor, format!("Message {number}"), {
        body: BodyView = body.seen_by(visitor.role),
        // The application properties; `None` if the visitor may not see data.
        properties: Option<Vec<(String, Value)>> = sees_data.then(|| message.application_properties()),
        rules: Vec<(BusRule, Option<String>)> = rules,
        queue: QueueName = call.of.clone(),
        message: QueuedMessage = message,
    })
}

pub(crate) async fn download(call: Call<QueueName>) -> PageResult {
    let message = find(&call).await?;
    let (number, body) = (message.peeked.delivery.number, message.sent.plain_body());
    Ok(body_file(&format!("message-{number}"), body))
}
