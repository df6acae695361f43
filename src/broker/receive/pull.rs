//! Pull delivery: receivers of namespace topics receive and settle events (rule N5).

use std::sync::Arc;
use std::time::Duration;

use crate::broker::Broker;
use crate::broker::receive::{ReceiveError, ReceiveRequest};
use crate::model::destination::Destination;
use crate::model::lease::{
    Disposition, LockChange, LockError, LockOf, LockToken, QueueRef, ReceiverAction,
};
use crate::model::limits::RENEWAL_WINDOW;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::store::{LockSelection, Locked};

impl Broker {
    /// Receives up to `limit` events of a pull subscription, each with a lock of its own. Waits up to `wait`
    /// for the first one.
    pub async fn pull(
        &self,
        subscription: &EventSubscription,
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<Locked>, ReceiveError> {
        let request = ReceiveRequest {
            of: QueueRef::pending(subscription.id),
            which: LockSelection::Due,
            limit,
            lock: self.lock_duration(subscription)?,
            session: None,
        };
        self.receive_within(&request, wait).await
    }

    /// Applies `action` to the locks of these tokens at a pull subscription. Returns the result for each
    /// token.
    pub async fn apply_action(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        tokens: Vec<LockToken>,
        action: ReceiverAction,
    ) -> Result<Vec<Result<(), LockError>>, ReceiveError> {
        let (lock_for, scale) = (self.lock_duration(subscription)?, self.time_scale());
        let policy = topic.retry_policy(subscription);
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
        let changes = tokens.into_iter().map(|token| LockChange {
            token,
            of: LockOf::any_of(QueueRef::pending(subscription.id)),
            disposition: disposition.clone(),
            properties: Vec::new(),
        });
        let settled = self.settle_locks(changes.collect(), None).await?;
        Ok(settled.into_iter().map(|each| each.map(|_| ())).collect())
    }

    /// The lock duration, by the time scale.
    pub fn lock_duration(
        &self,
        subscription: &EventSubscription,
    ) -> Result<Duration, ReceiveError> {
        match &subscription.definition.destination {
            Destination::WebHook(_)
            | Destination::ServiceBusQueue(_)
            | Destination::ServiceBusTopic(_) => {
                Err(ReceiveError::Pushed(subscription.name.clone()))
            }
            Destination::Queue(queue) => Ok(self.time_scale().shrink(queue.lock_duration)),
        }
    }
}
