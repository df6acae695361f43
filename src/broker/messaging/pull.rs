//! Pull delivery: what receivers of namespace topics do with events that they have received (rule N5).

use std::sync::Arc;

use crate::broker::messaging::{MessageReceiver, MessagingError};
use crate::model::lease::{Disposition, LockError, LockToken, ReceiverAction};
use crate::model::limits::RENEWAL_WINDOW;

impl MessageReceiver {
    /// Applies `action` to the locks of these tokens. Returns the result for each token.
    pub async fn apply_action(
        &self,
        tokens: Vec<LockToken>,
        action: ReceiverAction,
    ) -> Result<Vec<Result<(), LockError>>, MessagingError> {
        let broker = self.broker();
        let (lock_for, scale) = (
            broker.lock_duration(&self.subscription)?,
            broker.time_scale(),
        );
        let policy = self.topic.retry_policy(&self.subscription);
        let disposition = match action {
            ReceiverAction::Acknowledge => Disposition::Complete,
            ReceiverAction::Reject => Disposition::DeadLetter(Arc::default()),
            ReceiverAction::Release { delay } => Disposition::Release {
                after: scale.shrink(delay),
                lifetime: scale.shrink(policy.time_to_live),
                attempts_max: policy.attempts_max,
            },
            ReceiverAction::RenewLock => Disposition::Renew {
                lock_for,
                within: Some(scale.shrink(RENEWAL_WINDOW)),
            },
        };
        let each = tokens.into_iter();
        let changes = each.map(|token| self.change(token, disposition.clone()));
        let settled = broker.settle_locks(changes.collect(), None).await?;
        Ok(settled.into_iter().map(|each| each.map(drop)).collect())
    }
}
