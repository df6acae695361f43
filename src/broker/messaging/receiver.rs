//! Receiving from a queue, a subscription, or the dead letters of either.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::base::Timestamp;
use crate::broker::messaging::arrivals::AwaitedArrival;
use crate::broker::messaging::{MessagingError, NotAllowed};
use crate::broker::{Broker, Queue, ReceiveRequest};
use crate::model::audit::{Actor, AuditAction, AuditEntry, AuditTarget, Caller};
use crate::model::destination::DeliveryMode;
use crate::model::lease::{
    Disposition, LockChange, LockError, LockOf, LockToken, QueueRef, SubQueue,
};
use crate::model::limits::{CHANGE_DELIVERIES_MAX, LOCK_BYTES_MAX, LOCK_DURATION};
use crate::model::registry::{SubscriptionKind, TopicEntry};
use crate::model::session::HeldSession;
use crate::model::subscription::EventSubscription;
use crate::store::{DeferredQuery, LockSelection, Locked, Peeked, SessionWait, StoreError};

/// The maximum number of messages that one request deletes, as in Azure's premium tier.
const DELETED_MAX: usize = 4_000;

/// Receives messages from a queue, a subscription, or the dead letters of either, and settles them.
#[derive(Clone)]
pub struct MessageReceiver {
    broker: Broker,
    /// The topic as it was when the receiver began.
    pub topic: Arc<TopicEntry>,
    /// The subscription as it was when the receiver began.
    pub subscription: Arc<EventSubscription>,
    pub sub_queue: SubQueue,
    /// Is true if the messages are received from the transfer queue.
    is_transfer: bool,
}

impl MessageReceiver {
    /// Returns a receiver for a queue or subscription.
    pub fn of(broker: &Broker, (topic, subscription): Queue, sub_queue: SubQueue) -> Self {
        Self {
            broker: broker.clone(),
            topic,
            subscription,
            sub_queue,
            is_transfer: false,
        }
    }

    /// Returns a receiver for the transfer queue of the same entity.
    pub(super) fn of_transfers(self) -> Self {
        Self {
            is_transfer: true,
            ..self
        }
    }

    /// Returns the broker of this receiver.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Returns the reference of the received queue in the store.
    pub fn queue(&self) -> QueueRef {
        let own = self.subscription.id;
        QueueRef {
            subscription: if self.is_transfer {
                own.transfers()
            } else {
                own
            },
            queue: self.sub_queue,
        }
    }

    /// Returns the address by which clients name the queue or subscription.
    pub(super) fn address(&self) -> String {
        self.topic.queue_address(&self.subscription)
    }

    /// Returns the lock duration of messages. Dead letters of push subscriptions have the default lock duration.
    pub fn lock_duration(&self) -> Duration {
        let own = self.broker.lock_duration(&self.subscription);
        own.unwrap_or(LOCK_DURATION)
    }

    /// Returns whether messages are received in sessions. Dead letters never are.
    pub fn has_sessions(&self) -> bool {
        self.sub_queue == SubQueue::Active && self.subscription.has_sessions()
    }

    /// Returns whether messages of this queue are forwarded to another entity.
    fn forwards(&self) -> bool {
        let pulled = self.subscription.definition.destination.pull_queue();
        let goes_on =
            pulled.is_some_and(|pulled| pulled.receiving.forward_target(self.sub_queue).is_some());
        goes_on && !self.is_transfer
    }

    /// Checks that the queue permits receiving.
    pub fn check_receivable(&self) -> Result<(), MessagingError> {
        let own = &self.subscription;
        let mode = own.definition.destination.delivery_mode();
        let is_active = self.sub_queue == SubQueue::Active;
        if is_active && mode == DeliveryMode::Push {
            return Err(NotAllowed::ReceivePushed(own.name.clone()).into());
        }
        if is_active && !own.lets_receive() {
            return Err(MessagingError::ReceiveDisabled(own.name.clone()));
        }
        if self.forwards() {
            return Err(NotAllowed::ReceiveForwarded.into());
        }
        Ok(())
    }

    /// Checks that the received entity still exists and permits receiving now.
    pub fn check_again(&self) -> Result<(), MessagingError> {
        let registry = self.broker.registry();
        let found = registry.subscription(self.subscription.id);
        let deleted = || self.with_address(MessagingError::EntityDeleted);
        let (topic, subscription) = found.ok_or_else(deleted)?;
        let now = Self {
            topic: Arc::clone(topic),
            subscription: Arc::clone(subscription),
            ..self.clone()
        };
        now.check_receivable()
    }

    /// Replaces the error for a deleted Service Bus entity by Azure's error text with the address of the entity.
    /// Returns all other errors unchanged.
    pub(super) fn with_address(&self, error: MessagingError) -> MessagingError {
        let kind = self.topic.subscription_kind(&self.subscription);
        if error != MessagingError::EntityDeleted || kind == SubscriptionKind::Event {
            return error;
        }
        let reason = "it has been deleted".to_owned();
        self.broker.no_entity(self.address(), reason)
    }

    /// Locks up to `limit` messages that can be received now.
    pub async fn receive(
        &self,
        limit: usize,
        session: Option<&HeldSession>,
    ) -> Result<Vec<Locked>, MessagingError> {
        self.lock(LockSelection::Due, limit, session).await
    }

    /// Locks the next message that can be received if it has at most `bytes_max` bytes. Otherwise the error contains
    /// its size.
    pub async fn receive_first(&self, bytes_max: usize) -> Result<Vec<Locked>, MessagingError> {
        let first = LockSelection::FirstDue { bytes_max };
        self.lock(first, 1, None).await
    }

    /// Calls `receive`, which locks messages, until it returns a message. Waits at most `wait`, and stops earlier if
    /// `give_up` completes.
    pub async fn receive_within<F>(
        &self,
        by: &Actor,
        wait: Duration,
        give_up: impl Future<Output = ()>,
        receive: impl Fn() -> F,
    ) -> Result<Vec<Locked>, MessagingError>
    where
        F: Future<Output = Result<Vec<Locked>, MessagingError>>,
    {
        self.check_receivable()?;
        let of = self.queue();
        let receiving = self.broker.receive_within(by, of, wait, give_up, receive);
        receiving.await.map_err(|error| self.with_address(error))
    }

    /// Returns the maximum number of bytes that a request for up to `limit` messages locks.
    pub fn locked_bytes_max(&self, limit: usize) -> usize {
        if limit > 1 {
            return LOCK_BYTES_MAX;
        }
        let one = self.broker.message_bytes_max(&self.topic);
        usize::try_from(one).unwrap_or(usize::MAX)
    }

    /// Locks deferred messages by their sequence numbers, ignoring repeated numbers. If one of them is missing, none
    /// is locked.
    pub async fn receive_deferred(
        &self,
        by: &Caller,
        mut numbers: Vec<i64>,
        session: Option<&HeldSession>,
    ) -> Result<Vec<Locked>, MessagingError> {
        let mut named = HashSet::new();
        numbers.retain(|number| named.insert(*number));
        let query = DeferredQuery {
            of: self.queue(),
            numbers: numbers.clone(),
            session: session.map(|held| held.name.clone()),
            now: self.broker.clock().now(),
        };
        if !self.broker.store().ledger.are_deferred(query).await? {
            self.receive(0, session).await?; // what else stands in the way is told first
            return Err(MessagingError::DeferredNotFound);
        }
        let mut locked = Vec::with_capacity(numbers.len());
        if let Err(error) = self.lock_numbers(&numbers, session, &mut locked).await {
            self.give_back(by, &locked).await;
            return Err(error);
        }
        Ok(locked)
    }

    /// Locks deferred messages in batches. Fails if one is missing or if their total size is too large.
    async fn lock_numbers(
        &self,
        numbers: &[i64],
        session: Option<&HeldSession>,
        locked: &mut Vec<Locked>,
    ) -> Result<(), MessagingError> {
        let mut bytes = 0;
        for some in numbers.chunks(CHANGE_DELIVERIES_MAX) {
            if bytes > LOCK_BYTES_MAX {
                return Err(MessagingError::DeferredNotFound);
            }
            let deferred = LockSelection::Deferred(some.to_vec());
            let found = self.lock(deferred, some.len(), session).await?;
            let is_whole = found.len() == some.len();
            bytes += found.iter().map(Locked::bytes).sum::<usize>();
            locked.extend(found);
            if !is_whole {
                return Err(MessagingError::DeferredNotFound);
            }
        }
        Ok(())
    }

    /// Deletes up to `count` of the oldest unlocked messages that were enqueued before `enqueued_before`. Returns the
    /// number of deleted messages.
    pub async fn delete_batch(
        &self,
        by: &Caller,
        count: usize,
        enqueued_before: Timestamp,
        session: Option<&HeldSession>,
    ) -> Result<usize, MessagingError> {
        self.check_receivable()?;
        let (most, mut deleted) = (count.min(DELETED_MAX), 0);
        while deleted < most {
            let older = LockSelection::EnqueuedBefore(enqueued_before);
            let locked = self.lock(older, most - deleted, session).await?;
            if locked.is_empty() {
                break;
            }
            deleted += self.complete(by, locked).await.len();
        }
        Ok(deleted)
    }

    /// Peeks messages from sequence number `from` on, of one session or of all, locked or not.
    pub async fn peek(
        &self,
        from: i64,
        count: usize,
        session: Option<String>,
    ) -> Result<Vec<Peeked>, StoreError> {
        self.broker.peek(self.queue(), session, from, count).await
    }

    /// Returns whether a message can be received now.
    pub async fn is_due(&self) -> Result<bool, MessagingError> {
        let awaited = AwaitedArrival::Queue(self.queue());
        Ok(self.broker.time_until_due(&awaited).await?.is_zero())
    }

    /// Waits until a message can be received. `in_vain` is true if the last attempt to receive found none. The future
    /// can be dropped safely while it waits.
    pub async fn await_due(
        &self,
        by: &Actor,
        session: Option<&HeldSession>,
        in_vain: bool,
    ) -> Result<(), MessagingError> {
        let awaited = match session {
            None => AwaitedArrival::Queue(self.queue()),
            Some(held) => AwaitedArrival::Session(SessionWait::In(held.of, held.name.clone())),
        };
        let waiter = self
            .broker
            .wait_at(awaited, by)
            .map_err(|error| self.with_address(error))?;
        Ok(self.broker.due(&waiter, in_vain).await?)
    }

    async fn lock(
        &self,
        which: LockSelection,
        limit: usize,
        session: Option<&HeldSession>,
    ) -> Result<Vec<Locked>, MessagingError> {
        let request = self.request(which, limit, session);
        let locked = self.broker.receive(&request).await;
        locked.map_err(|error| self.with_address(error))
    }

    fn request(
        &self,
        which: LockSelection,
        limit: usize,
        session: Option<&HeldSession>,
    ) -> ReceiveRequest {
        ReceiveRequest {
            of: self.queue(),
            which,
            limit,
            lock: self.lock_duration(),
            session: session.cloned(),
        }
    }

    /// Completes messages. Returns those whose locks were still held.
    pub async fn complete(&self, by: &Caller, mut locked: Vec<Locked>) -> Vec<Locked> {
        let settled = self.settle_all(by, &locked, &Disposition::Complete).await;
        let mut completed = settled.into_iter();
        locked.retain(|_| completed.next().is_some_and(|each| each.is_ok()));
        locked
    }

    /// Unlocks messages as if they had not been received.
    async fn give_back(&self, by: &Caller, locked: &[Locked]) {
        self.settle_all(by, locked, &Disposition::Uncount).await;
    }

    async fn settle_all(
        &self,
        by: &Caller,
        locked: &[Locked],
        disposition: &Disposition,
    ) -> Vec<Result<(), MessagingError>> {
        let tokens = locked.iter().map(|each| each.token);
        let changes = tokens.map(|token| self.change(token, disposition.clone()));
        self.settle(by, changes.collect()).await
    }

    /// Renews locks. Returns the end of each lock. The stored locks end a little later.
    pub async fn renew_locks(
        &self,
        by: &Caller,
        tokens: Vec<LockToken>,
    ) -> Result<Vec<Timestamp>, MessagingError> {
        if self.has_sessions() {
            return Err(NotAllowed::RenewInSession.into());
        }
        let until = self.broker.clock().now() + self.lock_duration();
        let renew = self.renewal();
        let each = tokens.into_iter();
        let changes = each.map(|token| self.change(token, renew.clone()));
        let renewed = self.settle(by, changes.collect()).await.into_iter();
        renewed.map(|each| each.map(|()| until)).collect()
    }

    /// Returns the disposition that renews a lock for another lock duration.
    pub fn renewal(&self) -> Disposition {
        Disposition::Renew {
            lock_for: self.lock_duration(),
            within: None,
        }
    }

    /// Returns a lock change for a message of this queue.
    pub fn change(&self, token: LockToken, disposition: Disposition) -> LockChange {
        LockChange {
            token,
            of: LockOf::any_of(self.queue()),
            disposition,
            properties: Arc::default(),
        }
    }

    /// Returns for each lock token whether the lock is still held.
    pub async fn check_locks(
        &self,
        tokens: Vec<LockToken>,
    ) -> Result<Vec<Result<(), MessagingError>>, StoreError> {
        let of = LockOf::any_of(self.queue());
        let locks = tokens.into_iter().map(|token| (token, of.clone()));
        let (ledger, now) = (&self.broker.store().ledger, self.broker.clock().now());
        let checked = ledger.check_locks(locks.collect(), now).await?;
        let each = checked.into_iter();
        Ok(each
            .map(|each| each.map_err(|error| self.unsettled(error)))
            .collect())
    }

    /// Settles and renews locks. Returns one result for each change, in the same order.
    pub async fn settle(
        &self,
        by: &Caller,
        changes: Vec<LockChange>,
    ) -> Vec<Result<(), MessagingError>> {
        let count = changes.len();
        let audit = self.audit(by, &changes);
        match self.broker.settle_locks(changes, audit).await {
            Ok(settled) => {
                let each = settled.into_iter();
                each.map(|each| each.map(drop).map_err(|error| self.unsettled(error)))
                    .collect()
            }
            Err(error) => vec![Err(error.into()); count],
        }
    }

    /// Returns the audit entry for the changes if one of them completes a dead letter. The entry has the current
    /// time.
    pub(super) fn audit<'a>(
        &self,
        by: &Caller,
        changes: impl IntoIterator<Item = &'a LockChange>,
    ) -> Option<AuditEntry> {
        let completes = |change: &LockChange| change.disposition == Disposition::Complete;
        let is_dead = self.sub_queue == SubQueue::DeadLetter;
        (is_dead && changes.into_iter().any(completes)).then(|| {
            let completed = AuditAction::CompleteDeadLetters { dead_letters: 0 };
            let target = AuditTarget::subscription(&self.topic.topic.name, &self.subscription.name);
            let now = Caller {
                at: self.broker.clock().now(),
                ..by.clone()
            };
            now.did(completed, target)
        })
    }

    fn unsettled(&self, error: LockError) -> MessagingError {
        match error {
            LockError::LockLost if self.has_sessions() => MessagingError::LockLostInSession,
            LockError::LockLost
            | LockError::IsDeadLetter
            | LockError::TooManyProperties
            | LockError::QuotaExceeded
            | LockError::HeldLongEnough => error.into(),
        }
    }
}
