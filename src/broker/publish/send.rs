//! Delivery of a stored event to an event subscription that did not match it when it was published, but matches it
//! now. For example, the filter was corrected, or the subscription is newer than the event.

use std::sync::Arc;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::explain::{TooManyTrials, explain_to_one};
use crate::broker::publish::messages::session_at;
use crate::model::audit::{AuditAction, AuditTarget, Caller};
use crate::model::delivery::DeliveryId;
use crate::model::event::{Event, EventKey};
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::store::{MessageFacts, SentOutcome, StoreError};
use crate::wire::explanation::why_not;

/// The reason why a stored event is not delivered. Nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("there is no event {0}")]
    NoEvent(EventKey),
    #[error("the topic of event {0} has no event subscription {1}")]
    NoSubscription(EventKey, String),
    #[error("{0} has a delivery of event {1} already: {2}")]
    Already(String, EventKey, DeliveryId),
    #[error("the deliveries of event {0} are still being created; try again in a while")]
    TooEarly(EventKey),
    /// The last field is the reason, a sentence.
    #[error("event {1} would not go to {0} now either: {2}")]
    Unmatched(String, EventKey, String),
    #[error("the appliance is stopping")]
    Stopping,
    #[error("the disk is almost full")]
    DiskLow,
    #[error(transparent)]
    TooManyTrials(#[from] TooManyTrials),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A match of a stored event with an event subscription that would get it now.
pub struct Sendable {
    topic: Arc<TopicEntry>,
    subscription: Arc<EventSubscription>,
    /// The facts about the message that a queue would keep with the delivery.
    facts: MessageFacts,
}

impl Broker {
    /// Matches a stored event again with one event subscription of its topic, and creates a delivery. Other
    /// subscriptions are not affected. The attempts and the time to live of the delivery start now.
    pub async fn send_stored(
        &self,
        by: &Caller,
        key: EventKey,
        name: &str,
    ) -> Result<DeliveryId, SendError> {
        if self.is_stopping() {
            return Err(SendError::Stopping);
        }
        if self.disk_is_low() {
            return Err(SendError::DiskLow);
        }
        let now = self.clock().now();
        let Sendable {
            topic,
            subscription,
            facts,
        } = self.match_again(key, name, now).await?;
        let id = subscription.id;
        let target = AuditTarget::subscription(&topic.topic.name, &subscription.name);
        let audit = by.did(AuditAction::SendEvent { event: key.0 }, target);
        let sent = self.store().ledger.send(key, id, facts, audit, now);
        match sent.await? {
            SentOutcome::Already(delivery) => {
                Err(SendError::Already(name.to_owned(), key, delivery))
            }
            SentOutcome::TooEarly => Err(SendError::TooEarly(key)),
            SentOutcome::Missing => Err(SendError::NoSubscription(key, name.to_owned())),
            SentOutcome::As(delivery) => {
                self.meters().matched(&topic, &[id], 0);
                self.announce_arrivals(&[id]);
                self.note_due(&[id], now);
                Ok(delivery)
            }
        }
    }

    /// Matches a stored event again with one event subscription of its topic. Fails if the subscription would not get
    /// the event at `now`.
    pub async fn match_again(
        &self,
        key: EventKey,
        name: &str,
        now: Timestamp,
    ) -> Result<Sendable, SendError> {
        let found = self.store().views.event(key).await?;
        let event = found.ok_or(SendError::NoEvent(key))?;
        let missing = || SendError::NoSubscription(key, name.to_owned());
        let registry = self.registry();
        let topic = registry.topic_by_id(event.topic_id).ok_or_else(missing)?;
        let is_named =
            |each: &&Arc<EventSubscription>| each.name.as_str().eq_ignore_ascii_case(name);
        let named = topic.subscriptions.values().find(is_named);
        let subscription = named.ok_or_else(missing)?;
        let unmatched = |reason| SendError::Unmatched(name.to_owned(), key, reason);
        let explained = explain_to_one(topic, subscription, &event.stored.event, now).await?;
        if let Some(reason) = why_not(&explained) {
            return Err(unmatched(reason));
        }
        match session_at(subscription, &event.stored.event) {
            Some(None) => {
                let reason = "it has no session id, and the queue asks for one";
                Err(unmatched(reason.to_owned()))
            }
            session => {
                let is_measured = topic.measured.binary_search(&subscription.id).is_ok();
                let event = Some(&event.stored.event).filter(|_| is_measured);
                Ok(Sendable {
                    topic: Arc::clone(topic),
                    subscription: Arc::clone(subscription),
                    facts: MessageFacts {
                        session: session.flatten(),
                        bytes: event.map(Event::data_bytes),
                        own_life: event.and_then(|event| self.own_life(event)),
                    },
                })
            }
        }
    }
}
