//! Receiving: locks or peeks the deliveries of a queue.

use std::sync::Arc;
use std::time::Duration;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::messaging::arrivals::AwaitedArrival;
use crate::broker::messaging::{MessagingError, NotAllowed};
use crate::model::audit::Actor;
use crate::model::destination::DeliveryMode;
use crate::model::event::Event;
use crate::model::lease::{Disposition, LockChange, LockOf, LockSeed, QueueRef, SubQueue};
use crate::model::limits::LOCK_BYTES_MAX;
use crate::model::registry::TopicEntry;
use crate::model::retry::RetryPolicy;
use crate::model::session::{HeldSession, SessionError};
use crate::model::subscription::EventSubscription;
use crate::store::{
    LockBatch, LockRequest, LockSelection, Locked, PeekRequest, Peeked, StoreError,
};
use crate::wire::duration::DURATION_MAX;
use crate::wire::service_bus::message;

/// The maximum number of deliveries that one peek returns.
const PEEK_MAX: usize = 250;

/// The deliveries to receive, and how to lock them.
#[derive(Clone, Debug)]
pub struct ReceiveRequest {
    pub of: QueueRef,
    pub which: LockSelection,
    /// The most deliveries to lock.
    pub limit: usize,
    /// The lock duration. Unused in a session, where the locks of messages end with the lock of the session.
    pub lock: Duration,
    /// The session of the deliveries, in a queue with sessions.
    pub session: Option<HeldSession>,
}

impl Broker {
    /// Locks the deliveries that can be received from a queue now.
    pub async fn receive(&self, request: &ReceiveRequest) -> Result<Vec<Locked>, MessagingError> {
        let registry = self.registry();
        let found = registry.subscription(request.of.subscription.owner());
        let (topic, subscription) = found.ok_or(MessagingError::EntityDeleted)?;
        self.note_use(subscription);
        let mode = subscription.definition.destination.delivery_mode();
        match (request.of.queue, mode) {
            (SubQueue::DeadLetter, DeliveryMode::Push | DeliveryMode::Queue) => {
                Ok(self.lock(request).await?.locked)
            }
            // The leases of the dispatcher are in memory, so receivers cannot respect them.
            (SubQueue::Active, DeliveryMode::Push) => {
                Err(NotAllowed::ReceivePushed(subscription.name.clone()).into())
            }
            (SubQueue::Active, DeliveryMode::Queue) => {
                if !subscription.lets_receive() {
                    return Err(MessagingError::ReceiveDisabled(subscription.name.clone()));
                }
                if subscription.has_sessions() && request.session.is_none() {
                    return Err(NotAllowed::ReceiveWithoutSession.into());
                }
                self.lock_pending(topic, subscription, request).await
            }
        }
    }

    /// Locks pending deliveries. Locks none if the subscription may not deliver.
    async fn lock_pending(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        request: &ReceiveRequest,
    ) -> Result<Vec<Locked>, MessagingError> {
        while subscription.may_deliver() {
            let taken = self.lock(request).await?;
            if taken.session_is_lost {
                return Err(SessionError::LockLost.into());
            }
            let found_any = !taken.locked.is_empty() || !taken.unreadable.is_empty();
            self.quarantine(topic, subscription, &taken.unreadable)
                .await?;
            let handed_out = self.handed_out(topic, subscription, taken.locked).await?;
            if !handed_out.is_empty() || !found_any {
                return Ok(handed_out);
            }
            // All locked deliveries were unreadable or had exhausted their retry policy. More such deliveries may
            // follow.
            self.end_oldest_exhausted(topic, subscription).await?;
        }
        Ok(Vec::new())
    }

    async fn lock(&self, request: &ReceiveRequest) -> Result<LockBatch, MessagingError> {
        let now = self.clock().now();
        let seeds = std::iter::repeat_with(|| LockSeed::generate(self.entropy()));
        let request = LockRequest {
            of: request.of,
            which: request.which.clone(),
            now,
            until: now + request.lock,
            seeds: seeds.take(request.limit).collect(),
            bytes_max: LOCK_BYTES_MAX,
            session: request.session.clone(),
        };
        let taken = self.store().ledger.lock(request).await?;
        match taken.too_large {
            Some(bytes) => Err(MessagingError::NoMemoryFor(bytes)),
            None => Ok(taken),
        }
    }

    /// Calls `receive` until it returns a delivery. Waits at most `wait`, and stops earlier if `give_up` completes.
    pub(super) async fn receive_within<F>(
        &self,
        by: &Actor,
        of: QueueRef,
        wait: Duration,
        give_up: impl Future<Output = ()>,
        receive: impl Fn() -> F,
    ) -> Result<Vec<Locked>, MessagingError>
    where
        F: Future<Output = Result<Vec<Locked>, MessagingError>>,
    {
        let found = Box::pin(receive()).await?; // whoever waits has no room for it
        if !found.is_empty() || wait.is_zero() {
            return Ok(found);
        }
        let waiter = self.wait_at(AwaitedArrival::Queue(of), by)?;
        let deadline = tokio::time::sleep(wait);
        tokio::pin!(deadline, give_up);
        let mut in_vain = false;
        loop {
            tokio::select! {
                due = self.due(&waiter, in_vain) => due?,
                () = &mut deadline => return Ok(Vec::new()),
                () = &mut give_up => return Ok(Vec::new()),
                () = self.stopping() => return Ok(Vec::new()),
            }
            let found = Box::pin(receive()).await?;
            if !found.is_empty() {
                return Ok(found);
            }
            in_vain = true;
        }
    }

    /// Peeks deliveries of a queue, or of one session, from sequence number `from` on, locked or not.
    pub async fn peek(
        &self,
        of: QueueRef,
        session: Option<String>,
        from: i64,
        limit: usize,
    ) -> Result<Vec<Peeked>, StoreError> {
        self.note_use_of(of.subscription);
        let request = PeekRequest {
            of,
            from,
            limit: limit.min(PEEK_MAX),
            bytes_max: LOCK_BYTES_MAX,
            session,
        };
        self.store().ledger.peek(request).await
    }

    /// Returns the expiration time of a message, counted from its enqueued time or its scheduled enqueue time.
    /// Returns `None` if the message never expires.
    pub fn expires_at(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        message: &Peeked,
    ) -> Option<Timestamp> {
        let policy = policy_of(topic, subscription, &message.event.event);
        let life = Some(policy.time_to_live).filter(|life| *life < DURATION_MAX)?;
        Some(message.delivery.published_at + self.time_scale().shrink(life))
    }

    /// Returns the lock duration of the subscription, shortened by the time scale.
    pub fn lock_duration(
        &self,
        subscription: &EventSubscription,
    ) -> Result<Duration, MessagingError> {
        let pulled = subscription.definition.destination.pull_queue();
        let pushed = || NotAllowed::ReceivePushed(subscription.name.clone());
        let lock_duration = pulled.ok_or_else(pushed)?.lock_duration;
        Ok(self.time_scale().shrink(lock_duration))
    }

    /// Returns the locked deliveries that may be handed out, and ends those that have exhausted their retry policy.
    /// Deferred deliveries are always handed out, because the receiver asks for them by number.
    async fn handed_out(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        locked: Vec<Locked>,
    ) -> Result<Vec<Locked>, StoreError> {
        let of = QueueRef::pending(subscription.id);
        let mut exhausted = Vec::new();
        let is_allowed = |each: &Locked| {
            let policy = policy_of(topic, subscription, &each.event.event);
            let end = self.end_by(&policy, subscription, &each.delivery);
            let ended = end.filter(|_| !each.deferred);
            let is_allowed = ended.is_none();
            exhausted.extend(ended.map(|settlement| LockChange {
                token: each.token,
                of: LockOf::any_of(of),
                disposition: Disposition::GiveUp(settlement),
                properties: Arc::default(),
            }));
            is_allowed
        };
        let handed_out = locked.into_iter().filter(is_allowed).collect();
        self.settle_locks(exhausted, None).await?;
        Ok(handed_out)
    }
}

/// Returns the retry policy for an event. Its time to live is limited by the time to live of the event itself.
fn policy_of(topic: &TopicEntry, subscription: &EventSubscription, event: &Event) -> RetryPolicy {
    let policy = topic.retry_policy(subscription);
    let own = message::time_to_live(event);
    let time_to_live = own.map_or(policy.time_to_live, |own| own.min(policy.time_to_live));
    RetryPolicy {
        time_to_live,
        ..policy
    }
}
