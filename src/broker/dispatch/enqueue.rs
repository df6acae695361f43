//! Deliveries to queues and topics of Service Bus (rule 6.6): the message is stored in the change that settles its
//! delivery, so that after a crash there are both of them or neither.

use std::sync::Arc;

use crate::broker::Broker;
use crate::broker::manage::ManageError;
use crate::broker::publish::PublishError;
use crate::broker::publish::messages::session_at;
use crate::model::delivery::{AttemptResult, Outcome};
use crate::model::destination::ServiceBusEntity;
use crate::model::name::TopicName;
use crate::outbound::{DeliveryRequest, SendResult, message};
use crate::store::{AppendRequest, HandedOver};
use crate::wire::amqp::DecodeError;

/// Messages that are stored with the settlement of their delivery, and what is done with them then.
pub(super) struct Enqueued {
    pub(super) messages: AppendRequest,
    pub(super) then: Box<dyn FnOnce(Vec<HandedOver>) + Send>,
}

/// Why an event does not become a message this time.
#[derive(Debug, thiserror::Error)]
enum NotEnqueued {
    #[error(transparent)]
    Missing(#[from] ManageError),
    #[error(transparent)]
    Rejected(#[from] PublishError),
    #[error(
        "the queue {0} requires sessions, and the event has no session id: give the delivery property SessionId a value \
         of up to 128 characters"
    )]
    WithoutSession(TopicName),
    #[error("no message can be made of the event: {0}")]
    Unwritable(#[from] DecodeError),
}

impl NotEnqueued {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Missing(_) => Outcome::NotFound,
            Self::Rejected(PublishError::SendDisabled(_)) => Outcome::Disabled,
            Self::Rejected(PublishError::DiskLow | PublishError::QuotaExceeded(..)) => {
                Outcome::Full
            }
            Self::Rejected(
                PublishError::Stopping
                | PublishError::BuiltIn(_)
                | PublishError::TooManyCopies
                | PublishError::Unreadable(_)
                | PublishError::Store(_),
            )
            | Self::Unwritable(_) => Outcome::GenericError,
            Self::WithoutSession(_) => Outcome::SessionQueueNotSupported,
        }
    }
}

impl Broker {
    /// Makes one attempt to turn events into messages of a queue or topic. Returns its result, and the messages to
    /// store if it succeeds.
    pub(super) async fn enqueue(
        &self,
        to: &ServiceBusEntity,
        delivery_request: &DeliveryRequest<'_>,
    ) -> (SendResult, Option<Box<Enqueued>>) {
        let (result, enqueued) = match self.enqueued(to, delivery_request).await {
            Ok(enqueued) => (AttemptResult::of(Outcome::Delivered), Some(enqueued)),
            Err(error) => {
                let failed = AttemptResult {
                    error: Some(error.to_string()),
                    ..AttemptResult::of(error.outcome())
                };
                (failed, None)
            }
        };
        let sent = SendResult { result, late: None };
        (sent, enqueued.map(Box::new))
    }

    async fn enqueued(
        &self,
        to: &ServiceBusEntity,
        delivery_request: &DeliveryRequest<'_>,
    ) -> Result<Enqueued, NotEnqueued> {
        let destination = &delivery_request.subscription.definition.destination;
        let Some(entity) = self.service_bus_entity(destination)? else {
            unreachable!("it has {to:?}");
        };
        let events = delivery_request.events.iter();
        let messages = events
            .map(|event| message(to, delivery_request, event))
            .collect::<Result<Vec<_>, _>>()?;
        self.lets_send(&entity, &messages)?;
        let lacks_session = |queue: &Arc<_>| {
            let mut sessions = messages.iter().map(|message| session_at(queue, message));
            sessions.any(|session| session == Some(None))
        };
        if entity.own.as_ref().is_some_and(lacks_session) {
            return Err(NotEnqueued::WithoutSession(entity.topic.name.clone()));
        }
        let matched = self.matched(&entity, messages, None).await?;
        let (messages, then) = self.ready(&entity, matched);
        let then = Box::new(then);
        Ok(Enqueued { messages, then })
    }
}
