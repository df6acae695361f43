//! Pull delivery: receivers of namespace topics receive and settle events (rule N5).

use std::sync::Arc;
use std::time::Duration;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::receive::{ReceiveError, ReceiveRequest};
use crate::model::lease::{Disposition, Lock, LockError, LockToken, ReceiverAction, SubQueue};
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::store::{LockSelection, Locked, StoreError};

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
            subscription: subscription.id,
            queue: SubQueue::Pending,
            which: LockSelection::Due,
            limit,
            lock: self.lock_duration(subscription)?,
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
        let lock_duration = self.lock_duration(subscription)?;
        let is_here =
            |lock: &Lock| lock.subscription == subscription.id && lock.queue == SubQueue::Pending;
        let found = self.locks(tokens).await?.into_iter();
        let found: Vec<Option<Lock>> = found.map(|lock| lock.filter(is_here)).collect();
        let locks: Vec<Lock> = found.iter().flatten().cloned().collect();
        let (now, scale) = (self.clock().now(), self.time_scale());
        let time_to_live = topic.retry_policy(subscription).time_to_live;
        let done = match action {
            ReceiverAction::Acknowledge => {
                self.settle_pulled(&locks, |_| Disposition::Complete)
                    .await?
            }
            ReceiverAction::Reject => {
                let reject = |_: &Lock| Disposition::DeadLetter(Arc::default());
                self.settle_pulled(&locks, reject).await?
            }
            ReceiverAction::Release { delay } => {
                let release = |lock: &Lock| Disposition::Release {
                    at: lock.released_at(delay, time_to_live, now, scale),
                };
                self.settle_pulled(&locks, release).await?
            }
            ReceiverAction::RenewLock => self.renew_pulled(&locks, lock_duration, now).await?,
        };
        let mut done = done.into_iter();
        let of_each = found.iter().map(|lock| {
            let done = lock.as_ref().and_then(|_| done.next());
            done.unwrap_or(Err(LockError::LockLost))
        });
        Ok(of_each.collect())
    }

    async fn settle_pulled(
        &self,
        locks: &[Lock],
        how: impl Fn(&Lock) -> Disposition,
    ) -> Result<Vec<Result<(), LockError>>, StoreError> {
        let settled = self.settle_each(locks, how).await?;
        Ok(settled.into_iter().map(|each| each.map(|_| ())).collect())
    }

    async fn renew_pulled(
        &self,
        locks: &[Lock],
        lock_duration: Duration,
        now: Timestamp,
    ) -> Result<Vec<Result<(), LockError>>, StoreError> {
        let scale = self.time_scale();
        let may_be_renewed = |lock: &&Lock| lock.may_be_renewed(now, scale);
        let renewable: Vec<Lock> = locks.iter().filter(may_be_renewed).cloned().collect();
        let mut renewed = self
            .renew_locks(&renewable, lock_duration)
            .await?
            .into_iter();
        let of_each = locks.iter().map(|lock| match may_be_renewed(&lock) {
            true => renewed
                .next()
                .map_or(Err(LockError::LockLost), |each| each.map(|_| ())),
            false => Err(LockError::HeldLongEnough),
        });
        Ok(of_each.collect())
    }

    /// The lock duration, by the time scale.
    fn lock_duration(&self, subscription: &EventSubscription) -> Result<Duration, ReceiveError> {
        let queue = subscription.definition.destination.queue();
        let queue = queue.ok_or_else(|| ReceiveError::Pushed(subscription.name.clone()))?;
        Ok(self.time_scale().shrink(queue.lock_duration))
    }
}
