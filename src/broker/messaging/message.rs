//! Encoding of messages for their receivers.

use crate::base::Timestamp;
use crate::broker::messaging::MessageReceiver;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::Delivery;
use crate::model::event::StoredEvent;
use crate::model::lease::{LockToken, NEVER};
use crate::model::topic::EntityKind;
use crate::store::{DeadLetterCause, ForwardOrigin, Locked, Peeked};
use crate::wire;
use crate::wire::amqp::message::Message;
use crate::wire::duration::DURATION_MAX;
use crate::wire::service_bus::message::{self, MessageState};

/// A message that was received or peeked.
#[derive(Clone, Copy)]
pub struct MessageView<'a> {
    delivery: &'a Delivery,
    event: &'a StoredEvent,
    dead_letter: Option<&'a DeadLetterCause>,
    properties: Option<&'a [u8]>,
    origin: &'a ForwardOrigin,
}

impl<'a> From<&'a Locked> for MessageView<'a> {
    fn from(locked: &'a Locked) -> Self {
        Self {
            delivery: &locked.delivery,
            event: &locked.event,
            dead_letter: locked.dead_letter.as_ref(),
            properties: locked.properties.as_deref(),
            origin: &locked.origin,
        }
    }
}

impl<'a> From<&'a Peeked> for MessageView<'a> {
    fn from(peeked: &'a Peeked) -> Self {
        Self {
            delivery: &peeked.delivery,
            event: &peeked.event,
            dead_letter: peeked.dead_letter.as_ref(),
            properties: peeked.properties.as_deref(),
            origin: &peeked.origin,
        }
    }
}

impl<'a> MessageView<'a> {
    /// Returns the header and properties of the message. `lock` is the lock that its receiver holds, and its end.
    pub fn described(self, lock: Option<(LockToken, Timestamp)>) -> message::HeaderProperties<'a> {
        let details = self.dead_letter.map(|dead| &dead.details);
        let own_reason = details.and_then(|details| details.reason.as_deref());
        let own_description = details.and_then(|details| details.description.as_deref());
        // A message that a receiver dead-lettered without a reason has no reason. All other dead letters have the
        // reason of this server.
        let reason = self.system_dead_letter().map(|dead| dead.reason);
        message::HeaderProperties {
            sequence_number: self.delivery.number,
            first_number: self.origin.first_number,
            dead_letter_source: self.origin.dead_letter_source.as_deref(),
            message_id: &self.event.event.id,
            enqueued_at: self.delivery.published_at,
            delivery_count: self.delivery.attempts.max(1),
            lock,
            locked_until: None,
            time_to_live: None,
            trace: self.event.event.trace_context(),
            reason: own_reason.or(reason.map(DeadLetterReason::name)),
            description: own_description.or(reason.map(DeadLetterReason::description)),
            properties: details.map_or(&[], |details| &details.properties),
            set: self.properties.unwrap_or_default(),
        }
    }

    /// Returns the cause of the dead-lettering, unless a receiver dead-lettered the message.
    fn system_dead_letter(self) -> Option<&'a DeadLetterCause> {
        self.dead_letter
            .filter(|dead| dead.reason != DeadLetterReason::Application)
    }

    /// Returns the number of deliveries. The delivery that a receiver ended by dead-lettering the message is not
    /// counted.
    fn deliveries_before(self) -> u32 {
        let is_by_receiver = self.dead_letter.is_some() && self.system_dead_letter().is_none();
        let attempts = self.delivery.attempts;
        attempts.saturating_sub(u32::from(is_by_receiver))
    }
}

impl MessageReceiver {
    /// Encodes a received message in AMQP, with its lock token if `is_held`.
    pub fn encode(&self, received: &Locked, is_held: bool) -> Vec<u8> {
        // The lock of a message in a session has no expiration of its own.
        let until = if self.has_sessions() {
            NEVER
        } else {
            received.until
        };
        let state = if received.deferred {
            MessageState::Deferred
        } else {
            MessageState::Active
        };
        let lock = is_held.then_some((received.token, until));
        let view = MessageView::from(received);
        self.encode_in(view, &view.described(lock), state)
    }

    /// Encodes a peeked message.
    pub fn encode_peeked(&self, peeked: &Peeked) -> Vec<u8> {
        let is_scheduled = peeked.is_scheduled(self.broker().clock().now());
        let state = match (peeked.deferred, is_scheduled) {
            (true, _) => MessageState::Deferred,
            (false, true) => MessageState::Scheduled,
            (false, false) => MessageState::Active,
        };
        let view = MessageView::from(peeked);
        let now = self.broker().clock().now();
        let described = message::HeaderProperties {
            locked_until: peeked.locked_until.filter(|until| *until > now),
            ..view.described(None)
        };
        self.encode_in(view, &described, state)
    }

    /// Encodes a message as it was sent, or an event in the delivery schema of the subscription. Dead letters are
    /// encoded with the dead-letter reason and description.
    fn encode_in(
        &self,
        view: MessageView<'_>,
        described: &message::HeaderProperties<'_>,
        state: MessageState,
    ) -> Vec<u8> {
        let dead = view.system_dead_letter();
        let system = dead.map(|dead| message::system_reason(dead.reason, view.delivery.attempts));
        // A message of a topic has a sequence number in the topic. All subscriptions report it.
        let is_of_topic = self.topic.topic.kind.entity() == EntityKind::ServiceBusTopic;
        let number_in_topic = is_of_topic.then_some(view.event.key.0);
        let life = self.topic.retry_policy(&self.subscription).time_to_live;
        let described = message::HeaderProperties {
            first_number: described.first_number.or(number_in_topic),
            time_to_live: (life < DURATION_MAX).then_some(life),
            reason: system
                .as_ref()
                .map_or(described.reason, |(name, _)| Some(name)),
            ..described.clone()
        };
        if let Some(sent) = message::of_event(&view.event.event) {
            let own = dead.and_then(|dead| dead.details.description.as_deref());
            let sentence = system.as_ref().map(|(_, sentence)| sentence.as_str());
            let as_sent = message::HeaderProperties {
                delivery_count: view.deliveries_before(),
                description: own.or(sentence).or(described.description),
                ..described.clone()
            };
            let is_received = state == MessageState::Active && described.lock.is_some();
            let state = if is_received && was_scheduled(&sent, view.delivery) {
                MessageState::Scheduled
            } else {
                state
            };
            if let Ok(encoded) = as_sent.hand_out(&sent, state) {
                return encoded;
            }
        }
        let schema = self.subscription.definition.delivery_schema;
        let payload = wire::encode_message(schema, &self.topic.resource_id, view.event);
        described.encode(payload.content_type, payload.body, state)
    }
}

/// Returns whether the message had to wait for its scheduled enqueue time. Receivers see this in the message state.
fn was_scheduled(sent: &Message, delivery: &Delivery) -> bool {
    let at = sent.scheduled_enqueue_ms().ok().flatten();
    at.is_some_and(|at| at >= delivery.published_at.as_ms())
}
