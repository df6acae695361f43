//! Sending to a queue or a topic.

use std::sync::Arc;

use crate::broker::background::{MatchingFor, by_steps};
use crate::broker::messaging::{MessagingError, NotAllowed};
use crate::broker::publish::messages::{AcceptedMessages, TransferRoute};
use crate::broker::{Broker, NewMessage};
use crate::model::delivery::DeliveryId;
use crate::model::limits::BATCH_MESSAGES_MAX;
use crate::model::registry::TopicEntry;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::{InputSchema, TopicId, TopicKind};
use crate::store::PromisedNumber;
use crate::wire::amqp::DecodeError;
use crate::wire::amqp::message::Message;
use crate::wire::service_bus::message;

/// The number of messages that a task converts before it yields to other tasks on its thread. Converting this number of
/// messages takes about half a millisecond.
const MESSAGES_IN_A_ROW_MAX: usize = 100;

/// Sends messages to a queue or a topic.
pub struct MessageSender {
    broker: Broker,
    /// The queue or topic as it was when the sender was created. Each send looks up the present definition, and matches
    /// the messages with that definition.
    topic: Arc<TopicEntry>,
    /// The entity, as it was when the sender was created, to which messages are transferred from the queue `topic`;
    /// `None` if messages stay in `topic`.
    onward: Option<Arc<TopicEntry>>,
}

impl MessageSender {
    /// Creates a sender to `topic`. Fails if `topic` is built in or has an input schema other than CloudEvents 1.0.
    pub fn of(broker: &Broker, topic: Arc<TopicEntry>) -> Result<Self, MessagingError> {
        let kind = &topic.topic.kind;
        if kind.is_built_in() || *kind.input_schema() != InputSchema::CloudEventSchemaV1_0 {
            return Err(NotAllowed::SendToEventTopic.into());
        }
        Ok(Self {
            broker: broker.clone(),
            topic,
            onward: None,
        })
    }

    /// Returns a sender to the entity of `other` that transfers messages through the queue of `self`.
    pub(super) fn on_to(self, other: Self) -> Self {
        Self {
            onward: Some(other.topic),
            ..self
        }
    }

    /// Returns the id of the queue or topic that receives the messages before any transfer.
    pub fn topic_id(&self) -> TopicId {
        self.topic.topic.id
    }

    /// Returns the largest size in bytes of a message or a batch that both the queue or topic and the transfer
    /// destination, if any, accept.
    pub fn bytes_max(&self) -> u64 {
        let own = self.broker.message_bytes_max(&self.topic);
        let onward = self.onward.as_ref();
        onward.map_or(own, |to| own.min(self.broker.message_bytes_max(to)))
    }

    /// Calls `read` to decode messages, at an estimated cost of `steps`. A call that would keep this thread busy runs
    /// on a background thread.
    pub async fn read<T: Send + 'static>(
        &self,
        steps: usize,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        by_steps(MatchingFor::Topic(self.topic_id()), steps, read).await
    }

    /// Stores messages, all or none. Returns their sequence numbers if at least one of them is scheduled.
    pub async fn send(&self, messages: Vec<Message>) -> Result<Vec<i64>, MessagingError> {
        self.begin_to_send(messages).await?.await
    }

    /// Accepts messages in the order of the calls. The returned future starts to store the messages, all or none, at
    /// its first poll.
    pub async fn begin_to_send(
        &self,
        messages: Vec<Message>,
    ) -> Result<impl Future<Output = Result<Vec<i64>, MessagingError>> + Send + use<>, MessagingError>
    {
        let accepted = self.accept(messages).await?;
        let storing = self.broker.begin_to_send(accepted).await?;
        Ok(async { Ok(storing.await?) })
    }

    /// Stores scheduled messages. Returns their sequence numbers.
    pub async fn schedule(&self, messages: Vec<Message>) -> Result<Vec<i64>, MessagingError> {
        self.check_schedules()?;
        self.send(messages).await
    }

    /// Reserves sequence numbers for messages that a transaction schedules.
    pub async fn promise_numbers(
        &self,
        count: usize,
    ) -> Result<Vec<PromisedNumber>, MessagingError> {
        self.check_schedules()?;
        let queue = self.topic.own.as_ref().map(|own| own.id);
        let ledger = &self.broker.store().ledger;
        Ok(ledger
            .promise_numbers(self.topic_id(), queue, count)
            .await?)
    }

    /// Finds the scheduled messages with these sequence numbers; fails if one of them is not found.
    pub(super) async fn find_scheduled(
        &self,
        numbers: Vec<i64>,
    ) -> Result<(Arc<TopicEntry>, Vec<(DeliveryId, SubscriptionId)>), MessagingError> {
        self.check_schedules()?;
        let found = self.broker.numbered(&self.topic, numbers).await?;
        let scheduled = found.ok_or(MessagingError::ScheduledNotFound)?;
        Ok((Arc::clone(&self.topic), scheduled))
    }

    /// Checks that there is a scheduled message for each of these sequence numbers.
    pub async fn check_scheduled(&self, numbers: Vec<i64>) -> Result<(), MessagingError> {
        self.find_scheduled(numbers).await.map(drop)
    }

    /// Cancels the scheduled messages with these sequence numbers, see [`Broker::cancel_scheduled`].
    pub async fn cancel_scheduled(&self, numbers: Vec<i64>) -> Result<(), MessagingError> {
        self.check_schedules()?;
        let (broker, topic) = (&self.broker, &self.topic);
        if broker.cancel_scheduled(topic, numbers).await? {
            return Ok(());
        }
        Err(MessagingError::ScheduledNotFound)
    }

    /// Checks that messages can be scheduled in the queue or topic. Fails for an event topic, which has no scheduled
    /// messages.
    fn check_schedules(&self) -> Result<(), MessagingError> {
        if self.topic.topic.kind.takes_messages() {
            return Ok(());
        }
        Err(MessagingError::IsTopic)
    }

    /// Converts messages for the present definition of the queue or topic, and checks that the definition accepts the
    /// messages. Fails if the queue or topic was deleted, even if a new one has the same name.
    pub(super) async fn accept(
        &self,
        messages: Vec<Message>,
    ) -> Result<AcceptedMessages, MessagingError> {
        let broker = &self.broker;
        let topic = broker.found_again(&self.topic)?;
        let onward = match &self.onward {
            Some(to) => Some(broker.found_again(to)?),
            None => None,
        };
        let is_queue = matches!(topic.topic.kind, TopicKind::Queue(_));
        if is_queue && messages.len() > BATCH_MESSAGES_MAX {
            return Err(MessagingError::BatchTooLarge);
        }
        let read = in_turns(messages, |sent| {
            let new_id = || broker.entropy().uuid().simple().to_string();
            message::read(sent, new_id).map(NewMessage::from)
        });
        let messages = read.await?;
        // A queue that only transfers its messages needs no sessions of them.
        let has_sessions = topic.own.as_ref().is_some_and(|own| own.has_sessions());
        if has_sessions && onward.is_none() && messages.iter().any(|each| each.session.is_none()) {
            return Err(NotAllowed::SendWithoutSession.into());
        }
        let way = topic.own.as_ref().zip(onward);
        let route = way.map(|(queue, to)| TransferRoute {
            by: queue.id.transfers(),
            to: to.topic.id,
        });
        Ok(AcceptedMessages {
            at: topic,
            messages,
            route,
        })
    }
}

impl Broker {
    /// Looks up the present definition of a queue or topic. Fails if the queue or topic was deleted, even if a new one
    /// has the same name.
    fn found_again(&self, topic: &TopicEntry) -> Result<Arc<TopicEntry>, MessagingError> {
        let name = &topic.topic.name;
        let found = self.topic(name);
        let now = found.map_err(|error| self.no_entity(name, error.to_string()))?;
        if now.topic.id != topic.topic.id {
            let reason = "it was deleted, and a new one has its name";
            return Err(self.no_entity(name, reason.to_owned()));
        }
        Ok(now)
    }
}

/// Converts each message with `make`, and yields to other tasks after every [`MESSAGES_IN_A_ROW_MAX`] messages.
async fn in_turns<M, T>(
    messages: Vec<M>,
    make: impl Fn(M) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut made = Vec::with_capacity(messages.len());
    for message in messages {
        made.push(make(message)?);
        if made.len().is_multiple_of(MESSAGES_IN_A_ROW_MAX) {
            tokio::task::yield_now().await;
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::{MESSAGES_IN_A_ROW_MAX, in_turns};

    #[tokio::test]
    async fn others_get_their_turn_between_many_messages() {
        let messages: Vec<usize> = (0..3 * MESSAGES_IN_A_ROW_MAX).collect();
        let mut making = pin!(in_turns(messages.clone(), Ok));
        let mut turns = 0;
        let made = poll_fn(|context| {
            turns += 1;
            making.as_mut().poll(context)
        });
        assert_eq!(made.await, Ok(messages));
        assert_eq!(turns, 4);
    }
}
