//! Conversion of errors of messaging entities to AMQP errors.

use crate::api::failures::note_unserved;
use crate::broker::{ErrorKind, ManageError, MessagingError, PublishError};
use crate::model::lease::LockError;
use crate::model::session::SessionError;
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::condition::{
    ARGUMENT_ERROR, ENTITY_ALREADY_EXISTS, ENTITY_DISABLED, MESSAGE_LOCK_LOST, MESSAGE_NOT_FOUND,
    NOT_ALLOWED, NOT_FOUND, RESOURCE_LIMIT_EXCEEDED, SERVER_BUSY, SESSION_CANNOT_BE_LOCKED,
    SESSION_LOCK_LOST, TIMEOUT, TRANSACTION_ROLLBACK,
};

impl From<MessagingError> for AmqpError {
    fn from(error: MessagingError) -> Self {
        note_unserved(&error);
        Self::new(condition_of(&error), format!("{error}."))
    }
}

/// Returns the AMQP error for a rolled-back transaction, with the cause in its description.
pub(super) fn rolled_back(error: &MessagingError) -> AmqpError {
    note_unserved(error);
    let problem = format!("the transaction was rolled back: {error}");
    AmqpError::new(TRANSACTION_ROLLBACK, problem)
}

fn condition_of(error: &MessagingError) -> &'static str {
    match error {
        MessagingError::EntityNotFound { .. }
        | MessagingError::EntityDeleted
        | MessagingError::RuleNotFound { .. } => NOT_FOUND,
        MessagingError::IsTopic
        | MessagingError::NotAllowed(_)
        | MessagingError::Publish(PublishError::BuiltIn(_))
        | MessagingError::Lock(LockError::IsDeadLetter | LockError::HeldLongEnough) => NOT_ALLOWED,
        MessagingError::ReceiveDisabled(_)
        | MessagingError::Publish(PublishError::SendDisabled(_)) => ENTITY_DISABLED,
        MessagingError::Session(SessionError::Held) => SESSION_CANNOT_BE_LOCKED,
        MessagingError::Session(SessionError::NoneFree) => TIMEOUT,
        MessagingError::Session(SessionError::LockLost) | MessagingError::LockLostInSession => {
            SESSION_LOCK_LOST
        }
        MessagingError::Lock(LockError::LockLost) => MESSAGE_LOCK_LOST,
        MessagingError::DeferredNotFound | MessagingError::ScheduledNotFound => MESSAGE_NOT_FOUND,
        MessagingError::InvalidDetails(_) => ARGUMENT_ERROR,
        MessagingError::Unreadable(error)
        | MessagingError::Publish(PublishError::Unreadable(error)) => error.condition(),
        MessagingError::Session(SessionError::StateTooLarge | SessionError::QuotaExceeded)
        | MessagingError::Lock(LockError::TooManyProperties | LockError::QuotaExceeded)
        | MessagingError::BatchTooLarge
        | MessagingError::TransactionTooLarge
        | MessagingError::Publish(
            PublishError::QuotaExceeded(..) | PublishError::TooManyCopies,
        ) => RESOURCE_LIMIT_EXCEEDED,
        MessagingError::RuleExists { .. } => ENTITY_ALREADY_EXISTS,
        MessagingError::RulesUnchanged { error, .. } => condition_of_rules(error),
        MessagingError::TooManyWaiting
        | MessagingError::NoMemory
        | MessagingError::NoMemoryFor(_)
        // Clients retry after the condition SERVER_BUSY.
        | MessagingError::Publish(
            PublishError::DiskLow | PublishError::Stopping | PublishError::Store(_),
        )
        | MessagingError::Store(_) => SERVER_BUSY,
    }
}

fn condition_of_rules(error: &ManageError) -> &'static str {
    match (error.kind(), error) {
        (_, ManageError::RuleTooLarge(_)) | (ErrorKind::Limit, _) => RESOURCE_LIMIT_EXCEEDED,
        (ErrorKind::NotFound, _) => NOT_FOUND,
        (ErrorKind::Unavailable, _) => SERVER_BUSY,
        (
            ErrorKind::Exists | ErrorKind::Conflict | ErrorKind::Invalid | ErrorKind::Forbidden,
            _,
        ) => NOT_ALLOWED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::samples::one_of_each;
    use crate::wire::amqp::condition::DECODE_ERROR;

    #[test]
    fn every_error_has_its_condition() {
        let conditions = one_of_each().into_iter().map(|error| {
            let error = AmqpError::from(error);
            assert!(error.description.ends_with('.'), "{error:?}");
            error.condition.into_owned()
        });
        let expected = [
            NOT_FOUND,
            NOT_FOUND,
            NOT_ALLOWED,
            NOT_ALLOWED,
            ENTITY_DISABLED,
            SERVER_BUSY,
            SERVER_BUSY,
            SERVER_BUSY,
            SESSION_CANNOT_BE_LOCKED,
            TIMEOUT,
            SESSION_LOCK_LOST,
            RESOURCE_LIMIT_EXCEEDED,
            RESOURCE_LIMIT_EXCEEDED,
            MESSAGE_LOCK_LOST,
            NOT_ALLOWED,
            RESOURCE_LIMIT_EXCEEDED,
            RESOURCE_LIMIT_EXCEEDED,
            NOT_ALLOWED,
            SESSION_LOCK_LOST,
            MESSAGE_NOT_FOUND,
            MESSAGE_NOT_FOUND,
            ARGUMENT_ERROR,
            DECODE_ERROR,
            RESOURCE_LIMIT_EXCEEDED,
            SERVER_BUSY,
            SERVER_BUSY,
            NOT_ALLOWED,
            ENTITY_DISABLED,
            RESOURCE_LIMIT_EXCEEDED,
            RESOURCE_LIMIT_EXCEEDED,
            DECODE_ERROR,
            ENTITY_ALREADY_EXISTS,
            NOT_FOUND,
            RESOURCE_LIMIT_EXCEEDED,
            RESOURCE_LIMIT_EXCEEDED,
            RESOURCE_LIMIT_EXCEEDED,
            SERVER_BUSY,
        ];
        assert_eq!(Vec::from_iter(conditions), expected);
    }
}
