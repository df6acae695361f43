//! What clients send to: a queue, or a topic of CloudEvents.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::FutureExt;

use crate::api::ApiState;
use crate::api::amqp::entities::{no_queue, not_found};
use crate::api::amqp::nodes::{Sender, Storing};
use crate::base::Timestamp;
use crate::broker::{NewMessage, PublishError};
use crate::model::limits::{CHECKED_BATCH_MAX, MESSAGE_BYTES_MAX, SESSION_ID_MAX};
use crate::model::registry::TopicEntry;
use crate::model::topic::{EntityKind, InputSchema, TopicKind};
use crate::store::StoreError;
use crate::wire::amqp::condition::{
    DECODE_ERROR, ENTITY_DISABLED, MESSAGE_NOT_FOUND, NOT_ALLOWED, RESOURCE_LIMIT_EXCEEDED,
    SERVER_BUSY,
};
use crate::wire::amqp::management::{Operation, Reply};
use crate::wire::amqp::message::Message;
use crate::wire::amqp::{AmqpError, DecodeError};
use crate::wire::service_bus::message;

/// A client that sends.
pub(in crate::api) struct ToTopic {
    state: ApiState,
    /// As it was when the client began. What is sent is matched with what it is then.
    topic: Arc<TopicEntry>,
}

impl ToTopic {
    /// A client that sends to it, if it takes messages.
    pub(in crate::api) fn of(state: &ApiState, topic: Arc<TopicEntry>) -> Result<Self, AmqpError> {
        let schema = topic.topic.kind.input_schema();
        if topic.topic.kind.is_built_in() || *schema != InputSchema::CloudEventSchemaV1_0 {
            let problem = "Messages are sent to queues, and to topics whose input schema is that of CloudEvents.";
            return Err(AmqpError::new(NOT_ALLOWED, problem));
        }
        let state = state.clone();
        Ok(Self { state, topic })
    }

    /// Stores messages, all or none. Returns their numbers if they are scheduled.
    pub(in crate::api) async fn store(
        &self,
        messages: Vec<Message>,
    ) -> Result<Vec<i64>, AmqpError> {
        let (topic, new) = self.checked(messages)?;
        let sent = self.state.broker.send_messages(&topic, new).await;
        sent.map_err(|error| unsent(&error))
    }

    /// What can be asked of a topic: to schedule messages, and to cancel them.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all others are about what is received"
    )]
    pub(super) async fn manage(&self, asked: Operation) -> Result<Reply, AmqpError> {
        let has_rules = self.topic.topic.kind.entity() == EntityKind::ServiceBusTopic;
        match asked {
            Operation::Schedule(messages) if has_rules => self.schedule(messages).await,
            Operation::CancelScheduled(numbers) if has_rules => {
                let broker = &self.state.broker;
                let cancelled = broker.cancel_copies(&self.topic, numbers).await;
                of_cancelled(cancelled)
            }
            _ => Err(no_queue()),
        }
    }

    /// Stores messages that are scheduled.
    pub(super) async fn schedule(&self, messages: Vec<Message>) -> Result<Reply, AmqpError> {
        let numbers = self.store(messages).await?;
        Ok(Reply::Scheduled(numbers))
    }

    /// The messages, if the topic as it is now takes them.
    pub(super) fn checked(
        &self,
        messages: Vec<Message>,
    ) -> Result<(Arc<TopicEntry>, Vec<NewMessage>), AmqpError> {
        let topic = self.state.broker.topic(&self.topic.topic.name);
        let name = &self.topic.topic.name;
        let topic = topic.map_err(|error| not_found(&self.state, name, error))?;
        check(&topic, &messages)?;
        let new = messages.into_iter().map(|message| {
            let scheduled_at = message.scheduled_enqueue_ms()?.map(Timestamp::from_ms);
            let new_id = || self.state.broker.entropy().uuid().simple().to_string();
            let event = message::to_event(message, new_id)?;
            Ok(NewMessage {
                event,
                scheduled_at,
            })
        });
        let new = new.collect::<Result<_, DecodeError>>().map_err(|error| {
            let problem = format!("the message cannot be read: {error}");
            AmqpError::new(DECODE_ERROR, problem)
        })?;
        Ok((topic, new))
    }
}

fn unsent(error: &PublishError) -> AmqpError {
    let condition = match error {
        PublishError::Store(error) => return busy(error),
        PublishError::DiskLow | PublishError::QuotaExceeded(..) | PublishError::TooManyCopies => {
            RESOURCE_LIMIT_EXCEEDED
        }
        PublishError::SendDisabled(_) => ENTITY_DISABLED,
        PublishError::Unreadable(_) => DECODE_ERROR,
        PublishError::Stopping | PublishError::BuiltIn(_) => SERVER_BUSY,
    };
    AmqpError::new(condition, format!("{error}."))
}

#[async_trait]
impl Sender for ToTopic {
    fn message_bytes_max(&self) -> u64 {
        MESSAGE_BYTES_MAX
    }

    async fn send(&self, messages: Vec<Message>) -> Result<Storing, AmqpError> {
        let (topic, new) = self.checked(messages)?;
        let begun = self.state.broker.begin_to_send(&topic, new).await;
        let storing = begun.map_err(|error| unsent(&error))?;
        Ok(async { storing.await.map(drop).map_err(|error| unsent(&error)) }.boxed())
    }
}

/// Whether the queue takes the messages.
fn check(topic: &TopicEntry, messages: &[Message]) -> Result<(), AmqpError> {
    let TopicKind::Queue(sending) = &topic.topic.kind else {
        return Ok(());
    };
    let has_sessions = topic.own.as_ref().is_some_and(|own| own.has_sessions());
    if !has_sessions && !sending.detects_duplicates {
        return Ok(());
    }
    if messages.len() > CHECKED_BATCH_MAX {
        let problem = format!("The queue takes up to {CHECKED_BATCH_MAX} messages at once.");
        return Err(AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem));
    }
    let lacks_session = |each: &Message| message::session_id(each).is_none();
    if has_sessions && messages.iter().any(lacks_session) {
        let problem = format!(
            "The SessionId was not set on a message, and it cannot be sent to the entity. It requires sessions, and an id of up to {SESSION_ID_MAX} characters with each message."
        );
        return Err(AmqpError::new(NOT_ALLOWED, problem));
    }
    Ok(())
}

/// The answer to a request that cancels messages, with whether all of them were.
pub(super) fn of_cancelled(cancelled: Result<bool, StoreError>) -> Result<Reply, AmqpError> {
    match cancelled.map_err(|error| busy(&error))? {
        true => Ok(Reply::Done),
        false => {
            let problem = "at least one of the sequence numbers is not that of a scheduled message";
            Err(AmqpError::new(MESSAGE_NOT_FOUND, problem))
        }
    }
}

pub(super) fn busy(error: &StoreError) -> AmqpError {
    tracing::warn!(%error, "a queue could not be served");
    let problem = "The appliance cannot answer right now; try again in a moment.";
    AmqpError::new(SERVER_BUSY, problem)
}
