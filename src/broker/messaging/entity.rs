//! Messaging entities and their lookup by address.

use std::sync::Arc;

use crate::broker::Broker;
use crate::broker::messaging::{MessageReceiver, MessageSender, MessagingError, NotAllowed};
use crate::model::lease::SubQueue;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::registry::{SubscriptionKind, TopicEntry};
use crate::model::subscription::EventSubscription;
use crate::wire::service_bus::entity::EntityAddress;

/// A queue, topic or subscription, or one of their dead-letter or transfer dead-letter queues.
pub struct MessagingEntity {
    broker: Broker,
    pub topic: Arc<TopicEntry>,
    /// Subscription that stores the messages of the entity; `None` for a topic.
    pub subscription: Option<Arc<EventSubscription>>,
    sub_queue: SubQueue,
    is_transfer: bool,
}

impl Broker {
    /// Finds the messaging entity with this address.
    pub fn resolve(&self, address: &EntityAddress) -> Result<MessagingEntity, MessagingError> {
        let found = self.entity_at(address);
        found.map_err(|reason| self.no_entity(address, reason))
    }

    fn entity_at(&self, address: &EntityAddress) -> Result<MessagingEntity, String> {
        let name = TopicName::parse(&address.topic_or_queue).map_err(|error| error.to_string())?;
        let (topic, subscription) = match &address.subscription {
            Some(own) => {
                let own = SubscriptionName::parse(own).map_err(|error| error.to_string())?;
                let found = self.subscription(&name, &own);
                let (topic, own) = found.map_err(|error| error.to_string())?;
                (topic, Some(own))
            }
            None => {
                let found = self.registry().topic(&name).cloned();
                let topic = found.ok_or_else(|| format!("there is no queue or topic {name}"))?;
                let own = topic.own.clone();
                (topic, own)
            }
        };
        if subscription.is_none() && address.sub_queue == SubQueue::DeadLetter {
            return Err("the dead letters of a topic are those of its subscriptions".to_owned());
        }
        Ok(MessagingEntity {
            broker: self.clone(),
            topic,
            subscription,
            sub_queue: address.sub_queue,
            is_transfer: address.is_transfer,
        })
    }

    /// Creates the error for an address or name that belongs to no entity.
    pub(super) fn no_entity(
        &self,
        address: impl std::fmt::Display,
        reason: String,
    ) -> MessagingError {
        let url = format!("sb://{}/{address}", self.options().public_host());
        MessagingError::EntityNotFound { url, reason }
    }
}

impl MessagingEntity {
    /// Returns the id of the entity. A later entity with the same name has a different id.
    pub fn id(&self) -> i64 {
        match &self.subscription {
            Some(own) if self.topic.subscription_kind(own) != SubscriptionKind::OfQueue => own.id.0,
            Some(_) | None => self.topic.topic.id.0,
        }
    }

    /// Creates a sender to this entity, or returns an error if the entity takes no messages.
    pub fn sender(&self) -> Result<MessageSender, MessagingError> {
        if self.sub_queue == SubQueue::DeadLetter {
            return Err(NotAllowed::SendToDeadLetters.into());
        }
        if let Some(own) = &self.subscription
            && self.topic.subscription_kind(own) != SubscriptionKind::OfQueue
        {
            return Err(NotAllowed::SendToSubscription.into());
        }
        MessageSender::of(&self.broker, Arc::clone(&self.topic))
    }

    /// Creates a sender that sends to `onward` via this entity. A message sent via a queue is first stored in its
    /// transfer queue and then forwarded. A topic has no transfer queue, so a message sent via a topic goes directly to
    /// `onward`.
    pub fn sender_to(&self, onward: &Self) -> Result<MessageSender, MessagingError> {
        let (sender, onward) = (self.sender()?, onward.sender()?);
        Ok(match &self.subscription {
            Some(_) => sender.on_to(onward),
            None => onward,
        })
    }

    /// Creates a receiver from this entity. Permission to receive is checked with each request for a message.
    pub fn receiver(self) -> Result<MessageReceiver, MessagingError> {
        let subscription = self.subscription.ok_or(MessagingError::IsTopic)?;
        let queue = (self.topic, subscription);
        let receiver = MessageReceiver::of(&self.broker, queue, self.sub_queue);
        Ok(if self.is_transfer {
            receiver.of_transfers()
        } else {
            receiver
        })
    }
}
