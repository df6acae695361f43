//! Transactions: messages that are sent, and locks that are settled, all of them or none (rule S6).

use std::sync::Arc;

use crate::broker::Broker;
use crate::broker::publish::PublishError;
use crate::broker::publish::messages::NewMessage;
use crate::model::audit::AuditEntry;
use crate::model::lease::{LockChange, LockError};
use crate::model::limits::CHANGE_DELIVERIES_MAX;
use crate::model::registry::TopicEntry;
use crate::store::{LockChanges, StoreError, TransactionError};

/// Why nothing of a transaction was done.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error(transparent)]
    Lock(LockError),
    /// It would block the writer for too long.
    #[error("its messages have more than {CHANGE_DELIVERIES_MAX} copies for subscriptions")]
    TooManyCopies,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<TransactionError> for CommitError {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Lock(error) => Self::Lock(error),
            TransactionError::Store(error) => Self::Store(error),
        }
    }
}

impl Broker {
    /// Sends messages and settles locks. When this returns, all of it is on disk. `audit` is recorded if dead letters
    /// leave their queue for good, with their number.
    pub async fn commit(
        &self,
        sends: Vec<(Arc<TopicEntry>, Vec<NewMessage>)>,
        changes: Vec<LockChange>,
        audit: Option<AuditEntry>,
    ) -> Result<(), CommitError> {
        let (mut appends, mut copies) = (Vec::with_capacity(sends.len()), 0);
        for (topic, messages) in sends {
            let accepted = self.accepted(&topic, messages).await?;
            copies += accepted
                .events
                .iter()
                .map(|(_, to)| to.len())
                .sum::<usize>();
            appends.push(self.ready(&topic, accepted));
        }
        if copies > CHANGE_DELIVERIES_MAX {
            return Err(CommitError::TooManyCopies);
        }
        let changes = LockChanges {
            dropping: self.dropping(&changes),
            changes,
            audit,
            now: self.clock().now(),
        };
        let settled = self.store().ledger.commit(appends, changes).await?;
        self.on_locks_settled(&settled).await?;
        Ok(())
    }
}
