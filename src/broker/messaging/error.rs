//! Protocol-independent errors of messaging entities. Each protocol has one table that maps them to its own errors.

use crate::broker::{ErrorKind, ManageError, PublishError};
use crate::model::dead_letter::InvalidDetails;
use crate::model::lease::LockError;
use crate::model::limits::{
    BATCH_MESSAGES_MAX, RECEIVERS_WAITING_MAX, RULE_COPIES_BYTES_MAX, RULE_COPIES_MAX,
    SESSION_ID_MAX, SETTLED_BYTES_MAX,
};
use crate::model::name::SubscriptionName;
use crate::model::session::SessionError;
use crate::store::{StoreError, TransactionError};
use crate::wire::amqp::DecodeError;

/// Reason why nothing was sent, received or changed. The error texts have no final period.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessagingError {
    /// Unknown entity. The text is that of Azure, because clients check for it.
    #[error("The messaging entity '{url}' could not be found. Reason: {reason}")]
    EntityNotFound { url: String, reason: String },
    /// Entity that was deleted after its receiver was opened.
    #[error("the event subscription has been deleted")]
    EntityDeleted,
    /// Attempt to receive from a topic. A topic exists but stores no messages.
    #[error(
        "The messages of a topic are received from its subscriptions, each at the address topic/Subscriptions/name"
    )]
    IsTopic,
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    #[error("the status of {0} does not allow receiving from it")]
    ReceiveDisabled(SubscriptionName),
    #[error(
        "no more receivers can wait here: of {RECEIVERS_WAITING_MAX} over all queues, a key may have more only while \
         it has fewer than are left"
    )]
    TooManyWaiting,
    #[error("there is no memory left for this request; try again in a moment")]
    NoMemory,
    /// Lack of memory for a message to be received. The field is the size of the message in bytes. The message was not
    /// locked.
    #[error("there is no memory left for a message of {0} bytes; try again in a moment")]
    NoMemoryFor(usize),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Lost lock of a message in a session. Such a lock ends when the lock of its session ends.
    #[error("{}", LockError::LockLost)]
    LockLostInSession,
    #[error("at least one of the sequence numbers is not that of a deferred message")]
    DeferredNotFound,
    #[error("at least one of the sequence numbers is not that of a scheduled message")]
    ScheduledNotFound,
    #[error(transparent)]
    InvalidDetails(#[from] InvalidDetails),
    #[error("the message cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
    #[error("A queue or topic takes up to {BATCH_MESSAGES_MAX} messages at once")]
    BatchTooLarge,
    /// Error of publishing, except store errors, which are `Store`.
    #[error(transparent)]
    Publish(PublishError),
    #[error("The messaging entity '{entity}/Rules/{rule}' already exists")]
    RuleExists { entity: String, rule: String },
    #[error("The messaging entity '{entity}/Rules/{rule}' could not be found")]
    RuleNotFound { entity: String, rule: String },
    #[error("The rules of '{entity}' are as they were: {error}")]
    RulesUnchanged {
        entity: String,
        error: Box<ManageError>,
    },
    /// Transaction that would block the writer for too long.
    #[error(
        "the messages are more than {RULE_COPIES_MAX}, with their copies for subscriptions, more than {} MiB, or have more \
         than {SETTLED_BYTES_MAX} bytes that receivers have set, which are changed all at once or not at all; name or send \
         fewer of them", RULE_COPIES_BYTES_MAX / (1_024 * 1_024)
    )]
    TransactionTooLarge,
    #[error("The appliance cannot answer right now; try again in a moment")]
    Store(#[from] StoreError),
}

/// Operation that the type or settings of an entity do not allow for any client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    #[error("Messages are sent to queues, and to topics whose input schema is that of CloudEvents")]
    SendToEventTopic,
    #[error("Cannot create a message sender for a subscription; send to its topic")]
    SendToSubscription,
    #[error(
        "Nobody sends to a dead-letter queue: messages and events come into it when they cannot be delivered. Send \
         to the queue, or publish to the topic, instead"
    )]
    SendToDeadLetters,
    #[error(
        "The SessionId was not set on a message, and it cannot be sent to the entity. It requires sessions, and an id \
         of up to {SESSION_ID_MAX} characters with each message"
    )]
    SendWithoutSession,
    #[error(
        "the events of the subscription {0} are sent to its webhook; only its dead letters can be received"
    )]
    ReceivePushed(SubscriptionName),
    #[error("Cannot create a message receiver on an entity with auto-forwarding enabled")]
    ReceiveForwarded,
    #[error(
        "It is not possible for an entity that requires sessions to create a non-sessionful message receiver"
    )]
    ReceiveWithoutSession,
    #[error(
        "A sessionful message receiver cannot be created on an entity that does not require sessions"
    )]
    ReceiveInSession,
    #[error("A session ID has up to {SESSION_ID_MAX} characters, as those of messages have")]
    SessionIdTooLong,
    #[error("The locks of messages in sessions end with that of their session; renew that")]
    RenewInSession,
    #[error("Only the subscriptions of Service Bus topics have rules")]
    HasNoRules,
}

impl MessagingError {
    /// Returns the category of the error, for the HTTP APIs.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::EntityNotFound { .. }
            | Self::EntityDeleted
            | Self::IsTopic
            | Self::Lock(LockError::LockLost)
            | Self::LockLostInSession
            | Self::DeferredNotFound
            | Self::ScheduledNotFound
            | Self::RuleNotFound { .. } => ErrorKind::NotFound,
            Self::NotAllowed(_)
            | Self::Lock(
                LockError::IsDeadLetter | LockError::TooManyProperties | LockError::HeldLongEnough,
            )
            | Self::InvalidDetails(_)
            | Self::Unreadable(_)
            | Self::Publish(PublishError::Unreadable(_)) => ErrorKind::Invalid,
            Self::ReceiveDisabled(_)
            | Self::Publish(PublishError::SendDisabled(_) | PublishError::BuiltIn(_)) => {
                ErrorKind::Forbidden
            }
            Self::BatchTooLarge
            | Self::TransactionTooLarge
            | Self::Lock(LockError::QuotaExceeded)
            | Self::Publish(PublishError::QuotaExceeded(..) | PublishError::TooManyCopies) => {
                ErrorKind::Limit
            }
            Self::Session(_) => ErrorKind::Conflict,
            Self::RuleExists { .. } => ErrorKind::Exists,
            Self::RulesUnchanged { error, .. } => error.kind(),
            Self::TooManyWaiting
            | Self::NoMemory
            | Self::NoMemoryFor(_)
            | Self::Publish(
                PublishError::DiskLow | PublishError::Stopping | PublishError::Store(_),
            )
            | Self::Store(_) => ErrorKind::Unavailable,
        }
    }
}

impl From<PublishError> for MessagingError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Store(error) => Self::Store(error),
            PublishError::Stopping
            | PublishError::DiskLow
            | PublishError::BuiltIn(_)
            | PublishError::SendDisabled(_)
            | PublishError::QuotaExceeded(..)
            | PublishError::TooManyCopies
            | PublishError::Unreadable(_) => Self::Publish(error),
        }
    }
}

impl From<TransactionError> for MessagingError {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Lock(error) => Self::Lock(error),
            TransactionError::Session(error) => Self::Session(error),
            TransactionError::NotScheduled => Self::ScheduledNotFound,
            TransactionError::TooLarge => Self::TransactionTooLarge,
            TransactionError::Store(error) => Self::Store(error),
        }
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use crate::model::name::TopicName;

    /// Returns one error of each variant, and of each that the doors tell apart within it.
    pub(crate) fn one_of_each() -> Vec<MessagingError> {
        let text = || "jobs".to_owned();
        let topic = || TopicName::parse("jobs").expect("a name");
        let subscription = || SubscriptionName::parse("jobs").expect("a name");
        let rules_unchanged = |error| MessagingError::RulesUnchanged {
            entity: text(),
            error: Box::new(error),
        };
        vec![
            MessagingError::EntityNotFound {
                url: text(),
                reason: text(),
            },
            MessagingError::EntityDeleted,
            MessagingError::IsTopic,
            MessagingError::NotAllowed(NotAllowed::HasNoRules),
            MessagingError::ReceiveDisabled(subscription()),
            MessagingError::TooManyWaiting,
            MessagingError::NoMemory,
            MessagingError::NoMemoryFor(1),
            MessagingError::Session(SessionError::Held),
            MessagingError::Session(SessionError::NoneFree),
            MessagingError::Session(SessionError::LockLost),
            MessagingError::Session(SessionError::StateTooLarge),
            MessagingError::Session(SessionError::QuotaExceeded),
            MessagingError::Lock(LockError::LockLost),
            MessagingError::Lock(LockError::IsDeadLetter),
            MessagingError::Lock(LockError::TooManyProperties),
            MessagingError::Lock(LockError::QuotaExceeded),
            MessagingError::Lock(LockError::HeldLongEnough),
            MessagingError::LockLostInSession,
            MessagingError::DeferredNotFound,
            MessagingError::ScheduledNotFound,
            MessagingError::InvalidDetails(InvalidDetails::TooMany(99)),
            MessagingError::Unreadable(DecodeError::Truncated),
            MessagingError::BatchTooLarge,
            MessagingError::Publish(PublishError::Stopping),
            MessagingError::Publish(PublishError::DiskLow),
            MessagingError::Publish(PublishError::BuiltIn(topic())),
            MessagingError::Publish(PublishError::SendDisabled(topic())),
            MessagingError::Publish(PublishError::QuotaExceeded(topic(), 1)),
            MessagingError::Publish(PublishError::TooManyCopies),
            MessagingError::Publish(PublishError::Unreadable(DecodeError::Truncated)),
            MessagingError::RuleExists {
                entity: text(),
                rule: text(),
            },
            MessagingError::RuleNotFound {
                entity: text(),
                rule: text(),
            },
            rules_unchanged(ManageError::RuleTooLarge(1)),
            rules_unchanged(ManageError::TooManyRules(topic())),
            MessagingError::TransactionTooLarge,
            MessagingError::Store(StoreError::Full),
        ]
    }

    /// Returns the place of a variant, so that a new one is given a sample.
    fn place(error: &MessagingError) -> usize {
        match error {
            MessagingError::EntityNotFound { .. } => 0,
            MessagingError::EntityDeleted => 1,
            MessagingError::IsTopic => 2,
            MessagingError::NotAllowed(_) => 3,
            MessagingError::ReceiveDisabled(_) => 4,
            MessagingError::TooManyWaiting => 5,
            MessagingError::NoMemory => 6,
            MessagingError::NoMemoryFor(_) => 7,
            MessagingError::Session(_) => 8,
            MessagingError::Lock(_) => 9,
            MessagingError::LockLostInSession => 10,
            MessagingError::DeferredNotFound => 11,
            MessagingError::ScheduledNotFound => 12,
            MessagingError::InvalidDetails(_) => 13,
            MessagingError::Unreadable(_) => 14,
            MessagingError::BatchTooLarge => 15,
            MessagingError::Publish(_) => 16,
            MessagingError::RuleExists { .. } => 17,
            MessagingError::RuleNotFound { .. } => 18,
            MessagingError::RulesUnchanged { .. } => 19,
            MessagingError::TransactionTooLarge => 20,
            MessagingError::Store(_) => 21,
        }
    }

    #[test]
    fn every_variant_has_a_sample() {
        let mut places: Vec<usize> = one_of_each().iter().map(place).collect();
        places.dedup();
        assert_eq!(places, Vec::from_iter(0..=21));
    }
}
