//! Receiving from a queue, a subscription, or the dead letters of either.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::base::Timestamp;
use crate::broker::messaging::arrivals::Awaited;
use crate::broker::messaging::{MessagingError, NotAllowed};
use crate::broker::{Broker, Queue, ReceiveRequest};
use crate::model::audit::{Actor, AuditAction, AuditEntry, Caller, Target};
use crate::model::destination::DeliveryMode;
use crate::model::lease::{
    Disposition, LockChange, LockError, LockOf, LockToken, QueueRef, SubQueue,
};
use crate::model::limits::{CHANGE_DELIVERIES_MAX, LOCK_BYTES_MAX, LOCK_DURATION};
use crate::model::registry::{SubscriptionKind, TopicEntry};
use crate::model::session::HeldSession;
use crate::model::subscription::EventSubscription;
use crate::store::{DeferredQuery, LockSelection, Locked, Peeked, SessionWait, StoreError};

/// Messages that one request deletes, as in Azure's premium tier.
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
    /// The messages are those of the transfer queue.
    is_transfer: bool,
}

impl MessageReceiver {
    /// Returns what receives from an entity that was found.
    pub fn of(broker: &Broker, (topic, subscription): Queue, sub_queue: SubQueue) -> Self {
        Self {
            broker: broker.clone(),
            topic,
            subscription,
            sub_queue,
            is_transfer: false,
        }
    }

    /// Returns what receives from the transfer queue of the same entity.
    pub(super) fn of_transfers(self) -> Self {
        Self {
            is_transfer: true,
            ..self
        }
    }

    /// Returns the broker that serves it.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Returns where its messages lie in the store.
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

    /// Returns what clients call the queue or the subscription.
    pub(super) fn address(&self) -> String {
        self.topic.queue_address(&self.subscription)
    }

    /// Returns how long messages are locked. Dead letters of what is pushed have the usual time.
    pub fn lock_duration(&self) -> Duration {
        let own = self.broker.lock_duration(&self.subscription);
        own.unwrap_or(LOCK_DURATION)
    }

    /// Says whether messages are received in sessions. Dead letters are not.
    pub fn has_sessions(&self) -> bool {
        self.sub_queue == SubQueue::Active && self.subscription.has_sessions()
    }

    /// Says whether what lies here goes on to another entity.
    fn forwards(&self) -> bool {
        let pulled = self.subscription.definition.destination.pull_queue();
        let goes_on =
            pulled.is_some_and(|pulled| pulled.receiving.forward_target(self.sub_queue).is_some());
        goes_on && !self.is_transfer
    }

    /// Checks that anybody may receive.
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

    /// Checks that what it receives from is still there, and that anybody may receive there now.
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

    /// Returns the error. That an entity of Service Bus was deleted is said in Azure's words, with its address.
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

    /// Locks the message that can be received first, if it has up to so many bytes. Otherwise the error says how many it has.
    pub async fn receive_first(&self, bytes_max: usize) -> Result<Vec<Locked>, MessagingError> {
        let first = LockSelection::FirstDue { bytes_max };
        self.lock(first, 1, None).await
    }

    /// Does `receive`, which locks messages, and waits up to `wait` for the first one, unless `give_up` is ready before.
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

    /// Returns the bytes of what a request for up to `limit` messages locks.
    pub fn locked_bytes_max(&self, limit: usize) -> usize {
        if limit > 1 {
            return LOCK_BYTES_MAX;
        }
        let one = self.broker.message_bytes_max(&self.topic);
        usize::try_from(one).unwrap_or(usize::MAX)
    }

    /// Locks deferred messages by their numbers, each once: all of them or none. None is locked where one is not there.
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

    /// Locks deferred messages, some at a time, as long as all of them are there and have not too many bytes together.
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

    /// Deletes up to `count` of the oldest messages that nobody holds, and locks nothing that is newer. Returns how many it were.
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

    /// Returns messages from a number on, of one session or all, whoever holds them.
    pub async fn peek(
        &self,
        from: i64,
        count: usize,
        session: Option<String>,
    ) -> Result<Vec<Peeked>, StoreError> {
        self.broker.peek(self.queue(), session, from, count).await
    }

    /// Returns whether something may be received now.
    pub async fn is_due(&self) -> Result<bool, MessagingError> {
        let awaited = Awaited::Queue(self.queue());
        Ok(self.broker.time_until_due(&awaited).await?.is_zero())
    }

    /// Waits until something can be received. `in_vain` says that just now nothing could be. May be dropped while it
    /// waits.
    pub async fn await_due(
        &self,
        by: &Actor,
        session: Option<&HeldSession>,
        in_vain: bool,
    ) -> Result<(), MessagingError> {
        let awaited = match session {
            None => Awaited::Queue(self.queue()),
            Some(held) => Awaited::Session(SessionWait::In(held.of, held.name.clone())),
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

    /// Ends messages. Returns those that were still locked.
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

    /// Renews locks. Returns the moment until which each of them lasts; they last a little longer.
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

    /// Returns what renews a lock for another lock duration.
    pub fn renewal(&self) -> Disposition {
        Disposition::Renew {
            lock_for: self.lock_duration(),
            within: None,
        }
    }

    /// Returns the change of a lock on one of its messages.
    pub fn change(&self, token: LockToken, disposition: Disposition) -> LockChange {
        LockChange {
            token,
            of: LockOf::any_of(self.queue()),
            disposition,
            properties: Arc::default(),
        }
    }

    /// Says of each lock on its messages whether it is held.
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

    /// Settles and renews locks. Returns what became of each, in the same order.
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

    /// Returns what is recorded of changes: that dead letters leave their queue, now.
    pub(super) fn audit<'a>(
        &self,
        by: &Caller,
        changes: impl IntoIterator<Item = &'a LockChange>,
    ) -> Option<AuditEntry> {
        let completes = |change: &LockChange| change.disposition == Disposition::Complete;
        let is_dead = self.sub_queue == SubQueue::DeadLetter;
        (is_dead && changes.into_iter().any(completes)).then(|| {
            let completed = AuditAction::CompleteDeadLetters { dead_letters: 0 };
            let target = Target::subscription(&self.topic.topic.name, &self.subscription.name);
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
