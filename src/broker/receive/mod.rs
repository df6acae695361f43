//! Receivers: they lock deliveries of a queue and settle them.

pub(super) mod pull;
pub(super) mod sessions;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::manage::{subscription_target, target};
use crate::model::audit::{AuditAction, AuditEntry, Caller, Target, TargetKind};
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::{DeliveryId, Settlement};
use crate::model::destination::DeliveryMode;
use crate::model::event::Event;
use crate::model::lease::{
    Disposition, LockChange, LockEnd, LockError, LockOf, LockToken, NEVER, QueueRef, SubQueue,
};
use crate::model::limits::{LOCK_BYTES_MAX, RECEIVERS_WAITING_MAX};
use crate::model::name::SubscriptionName;
use crate::model::namespace::NamespaceId;
use crate::model::registry::TopicEntry;
use crate::model::retry::RetryPolicy;
use crate::model::session::{HeldSession, SessionError};
use crate::model::subscription::{DeadLetterDestination, EventSubscription, SubscriptionId};
use crate::model::topic::TopicId;
use crate::store::views::DeadLetterQuery;
use crate::store::{
    FreeChange, FreeChanges, FreeSettled, LockBatch, LockChanges, LockRequest, LockSelection,
    LockSettled, Locked, PeekRequest, Peeked, SessionWait, StoreError,
};
use crate::wire::duration::DURATION_MAX;
use crate::wire::service_bus::message;

/// How long a receiver waits before the store is read again: a lock may lapse.
const LOOK_INTERVAL: Duration = Duration::from_secs(15);

/// How long a receiver waits at least when what seemed due could not be received.
const VAIN_PAUSE: Duration = Duration::from_secs(1);

/// Deliveries that are shown at once.
const PEEK_MAX: usize = 250;

/// Dead letters that one change removes: more would block the writer for too long.
const REMOVE_BATCH_MAX: usize = 250;

/// What to receive.
#[derive(Clone, Debug)]
pub struct ReceiveRequest {
    pub of: QueueRef,
    pub which: LockSelection,
    /// The most deliveries to lock.
    pub limit: usize,
    /// How long to lock them, unless in a session, with whose lock theirs end.
    pub lock: Duration,
    /// The session of the deliveries, in a queue with sessions.
    pub session: Option<HeldSession>,
}

/// What a purge came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    pub removed: usize,
    /// Receivers hold these, so they stay.
    pub held: usize,
    /// Where the next search goes on; `None` when it has come to the end.
    pub next_before: Option<DeliveryId>,
}

/// Why nothing can be received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    #[error("the event subscription has been deleted")]
    SubscriptionDeleted,
    #[error(
        "the events of the subscription {0} are sent to its webhook; only its dead letters can be \
         received"
    )]
    Pushed(SubscriptionName),
    #[error("the status of {0} does not allow receiving from it")]
    ReceiveDisabled(SubscriptionName),
    #[error(
        "no more receivers can wait here: of {RECEIVERS_WAITING_MAX} over all queues, an event subscription, \
         and a namespace or custom topic, may have more only while it has fewer than are left"
    )]
    TooManyWaiting,
    #[error(
        "the messages of the queue {0} are received in sessions, one of which has to be held first"
    )]
    NeedsSession(SubscriptionName),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Broker {
    /// Locks what can be received from a queue now.
    pub async fn receive(&self, request: &ReceiveRequest) -> Result<Vec<Locked>, ReceiveError> {
        let registry = self.registry();
        let found = registry.subscription(request.of.subscription);
        let (topic, subscription) = found.ok_or(ReceiveError::SubscriptionDeleted)?;
        self.note_use(subscription);
        let mode = subscription.definition.destination.delivery_mode();
        match (request.of.queue, mode) {
            (SubQueue::DeadLetters, DeliveryMode::Push | DeliveryMode::Queue) => {
                Ok(self.lock(request).await?.locked)
            }
            // The dispatcher's leases are in memory, where no receiver sees them.
            (SubQueue::Pending, DeliveryMode::Push) => {
                Err(ReceiveError::Pushed(subscription.name.clone()))
            }
            (SubQueue::Pending, DeliveryMode::Queue) => {
                if !subscription.lets_receive() {
                    return Err(ReceiveError::ReceiveDisabled(subscription.name.clone()));
                }
                if subscription.has_sessions() && request.session.is_none() {
                    return Err(ReceiveError::NeedsSession(subscription.name.clone()));
                }
                self.lock_pending(topic, subscription, request).await
            }
        }
    }

    /// Locks pending deliveries; none of a subscription that may not deliver.
    async fn lock_pending(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        request: &ReceiveRequest,
    ) -> Result<Vec<Locked>, ReceiveError> {
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
            // All of them were unreadable or had used up their retry policy, and so may many more.
            self.end_oldest_exhausted(topic, subscription).await?;
        }
        Ok(Vec::new())
    }

    async fn lock(&self, request: &ReceiveRequest) -> Result<LockBatch, StoreError> {
        let now = self.clock().now();
        let tokens = std::iter::repeat_with(|| LockToken::generate(self.entropy()));
        let request = LockRequest {
            of: request.of,
            which: request.which.clone(),
            now,
            until: now + request.lock,
            tokens: tokens.take(request.limit).collect(),
            bytes_max: LOCK_BYTES_MAX,
            session: request.session.clone(),
        };
        self.store().ledger.lock(request).await
    }

    /// Like [`Broker::receive`], but waits up to `wait` for the first delivery.
    pub async fn receive_within(
        &self,
        request: &ReceiveRequest,
        wait: Duration,
    ) -> Result<Vec<Locked>, ReceiveError> {
        let found = self.receive(request).await?;
        if !found.is_empty() || wait.is_zero() {
            return Ok(found);
        }
        let waiter = self.wait_at(Awaited::Queue(request.of))?;
        let deadline = tokio::time::sleep(wait);
        tokio::pin!(deadline);
        let mut in_vain = false;
        loop {
            tokio::select! {
                due = self.due(&waiter, in_vain) => due?,
                () = &mut deadline => return Ok(Vec::new()),
                () = self.stopping() => return Ok(Vec::new()),
            }
            let found = self.receive(request).await?;
            if !found.is_empty() {
                return Ok(found);
            }
            in_vain = true;
        }
    }

    /// Waits until something falls due in a queue, or in the session of it that is held. `in_vain` says that the
    /// caller has just found nothing to receive. May be dropped while it waits.
    pub async fn await_due(
        &self,
        of: QueueRef,
        session: Option<&HeldSession>,
        in_vain: bool,
    ) -> Result<(), ReceiveError> {
        let waiter = self.wait_at(match session {
            None => Awaited::Queue(of),
            Some(held) => Awaited::Session(SessionWait::In(held.of, held.name.clone())),
        })?;
        Ok(self.due(&waiter, in_vain).await?)
    }

    async fn due(&self, waiter: &Waiter<'_>, mut in_vain: bool) -> Result<(), StoreError> {
        loop {
            // Registered before the store is read, so that nothing in between is missed.
            let arrival = waiter.notify.notified();
            tokio::pin!(arrival);
            arrival.as_mut().enable();
            let mut pause = self.time_until_due(&waiter.awaited).await?;
            if std::mem::take(&mut in_vain) {
                pause = pause.max(VAIN_PAUSE);
            }
            if pause.is_zero() {
                return Ok(());
            }
            tokio::select! {
                () = &mut arrival => {}
                () = tokio::time::sleep(pause.min(LOOK_INTERVAL)) => {}
            }
        }
    }

    fn wait_at(&self, awaited: Awaited) -> Result<Waiter<'_>, ReceiveError> {
        let registry = self.registry();
        let (topic, _) = registry
            .subscription(awaited.subscription())
            .ok_or(ReceiveError::SubscriptionDeleted)?;
        let namespace = topic.namespace.as_ref();
        let owner = namespace.map_or(Owner::Topic(topic.topic.id), |entry| {
            Owner::Namespace(entry.namespace.id)
        });
        self.shared.arrivals.wait_at(awaited, owner)
    }

    async fn time_until_due(&self, awaited: &Awaited) -> Result<Duration, StoreError> {
        let ledger = &self.store().ledger;
        let due_at = match awaited {
            Awaited::Queue(of) => {
                let due = ledger.agenda(vec![*of]).await?;
                due.first().map(|due| due.at)
            }
            Awaited::Session(awaited) => ledger.session_due(awaited.clone()).await?,
        };
        let now = self.clock().now();
        Ok(due_at.map_or(LOOK_INTERVAL, |at| at.since(now)))
    }

    /// Deliveries of a queue, or of a session of it, from a number on, whoever holds them.
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

    /// When a message of a queue expires, counted from its enqueuing or the moment that it is scheduled for; `None`
    /// for one that never does.
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

    /// Keeps the locked deliveries that may be handed out, and ends those that have used up their retry
    /// policy. Whoever receives a deferred one asks for that, and gets it.
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
            let ended = self.end_by(&policy, subscription, &each.delivery);
            let ended = ended.filter(|_| !each.deferred);
            let is_allowed = ended.is_none();
            exhausted.extend(ended.map(|settlement| LockChange {
                token: each.token,
                of: LockOf::any_of(of),
                disposition: Disposition::GiveUp(settlement),
                properties: Vec::new(),
            }));
            is_allowed
        };
        let handed_out = locked.into_iter().filter(is_allowed).collect();
        self.settle_locks(exhausted, None).await?;
        Ok(handed_out)
    }

    /// Settles and renews locks. Returns what became of each. `audit` is recorded if dead letters leave their
    /// queue for good, with their number.
    pub async fn settle_locks(
        &self,
        changes: Vec<LockChange>,
        audit: Option<AuditEntry>,
    ) -> Result<Vec<Result<DeliveryId, LockError>>, StoreError> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let request = LockChanges {
            dropping: self.dropping(&changes),
            changes,
            audit,
            now: self.clock().now(),
        };
        let settled = self.store().ledger.settle_locks(request).await?;
        self.on_locks_settled(settled.iter().flatten()).await?;
        let each = settled.into_iter();
        Ok(each.map(|settled| Ok(settled?.lock.delivery)).collect())
    }

    /// Counts settled locks, wakes who waits for what became available, and ends what came back from its last attempt.
    pub(super) async fn on_locks_settled(
        &self,
        settled: impl IntoIterator<Item = &LockSettled> + Clone,
    ) -> Result<(), StoreError> {
        for LockSettled { lock, end } in settled.clone() {
            self.on_lock_settled(lock.of, *end);
        }
        self.end_returned(settled.into_iter()).await
    }

    /// Ends what came back from its last attempt.
    async fn end_returned(
        &self,
        settled: impl Iterator<Item = &LockSettled>,
    ) -> Result<(), StoreError> {
        let registry = self.registry();
        let is_last = |each: &&LockSettled| {
            let found = registry.subscription(each.lock.of.subscription);
            let policy = found.map(|(_, subscription)| &subscription.definition.retry_policy);
            each.is_returned()
                && policy.is_some_and(|policy| each.lock.attempts >= policy.attempts_max)
        };
        let ended: BTreeSet<_> = settled
            .filter(is_last)
            .map(|each| each.lock.of.subscription)
            .collect();
        for (topic, subscription) in ended.iter().filter_map(|id| registry.subscription(*id)) {
            self.end_oldest_exhausted(topic, subscription).await?;
        }
        Ok(())
    }

    /// The subscriptions that keep no dead letters, if one of the changes may make one.
    pub(super) fn dropping(&self, changes: &[LockChange]) -> HashSet<SubscriptionId> {
        let dead_letters = |each: &LockChange| {
            matches!(
                each.disposition,
                Disposition::DeadLetter(_) | Disposition::Release { .. }
            )
        };
        if !changes.iter().any(dead_letters) {
            return HashSet::new();
        }
        let registry = self.registry();
        let subscriptions = registry.subscriptions().map(|(_, each)| each);
        let drops = subscriptions
            .filter(|each| each.definition.dead_letter == DeadLetterDestination::Drop)
            .map(|each| each.id);
        drops.collect()
    }

    /// Counts a settled lock, and wakes those who wait for what became available.
    fn on_lock_settled(&self, of: QueueRef, end: LockEnd) {
        self.note_use_of(of.subscription);
        match (end, of.queue) {
            (LockEnd::Settled(Settlement::Retry { at }), _) if at != NEVER => {
                self.shared.arrivals.announce_all(of);
            }
            (LockEnd::Settled(settlement), SubQueue::Pending) => {
                if let Some((topic, subscription)) = self.registry().subscription(of.subscription) {
                    self.on_settled(topic, subscription, &[settlement]);
                }
            }
            (LockEnd::Settled(_), SubQueue::DeadLetters) | (LockEnd::Renewed { .. }, _) => {}
        }
    }

    /// Removes dead letters from their queues for good, unless they are locked. Returns how many. Each batch
    /// is a transaction with an audit entry of its own, which counts what that batch removed; one that removes
    /// nothing has no entry.
    pub async fn purge_dead_letters(
        &self,
        by: &Caller,
        query: DeadLetterQuery,
    ) -> Result<Purged, StoreError> {
        let target = self.target_of(&query.filter);
        let entry = by.did(AuditAction::PurgeDeadLetters { dead_letters: 0 }, target);
        let found = self.store().views.dead_letter_numbers(query).await?;
        let mut removed = 0;
        for batch in found.rows.chunks(REMOVE_BATCH_MAX) {
            removed += self.remove_dead_letters(batch, entry.clone()).await?;
        }
        Ok(Purged {
            removed,
            held: found.rows.len() - removed,
            next_before: found.next_before,
        })
    }

    /// Removes one dead letter from its queue for good. `false` if it is none any more, or locked.
    pub async fn delete_dead_letter(
        &self,
        by: &Caller,
        id: DeliveryId,
    ) -> Result<bool, StoreError> {
        let purged = AuditAction::PurgeDeadLetters { dead_letters: 0 };
        let entry = by.did(purged, TargetKind::DeadLetter.named(id));
        Ok(self.remove_dead_letters(&[id], entry).await? > 0)
    }

    async fn remove_dead_letters(
        &self,
        ids: &[DeliveryId],
        entry: AuditEntry,
    ) -> Result<usize, StoreError> {
        let request = FreeChanges {
            changes: ids.iter().map(|id| (*id, FreeChange::Remove)).collect(),
            audit: Some(entry),
            now: self.clock().now(),
        };
        let settled = self.store().ledger.settle_free(request).await?;
        let is_done = |settled: &&FreeSettled| matches!(settled, FreeSettled::Done(_));
        Ok(settled.iter().filter(is_done).count())
    }

    /// What a filter of dead letters is about.
    fn target_of(&self, filter: &DeadLetterFilter) -> Target {
        let registry = self.registry();
        let topic = filter.topic.and_then(|id| registry.topic_by_id(id));
        match filter.subscription.and_then(|id| registry.subscription(id)) {
            Some((topic, each)) => subscription_target(topic, each),
            None => topic.map_or_else(Target::appliance, |topic| target(topic)),
        }
    }

    /// Whether receivers wait for messages of a queue, or dead letters.
    pub(super) fn has_receivers(&self, queue: SubscriptionId) -> bool {
        self.shared.arrivals.has_receivers(queue)
    }

    /// Wakes receivers of pull subscriptions. A subscription is listed once for each event that it gets.
    pub(super) fn announce_arrivals(&self, subscriptions: &[SubscriptionId]) {
        self.shared.arrivals.announce_each(subscriptions);
    }

    /// Counts settled deliveries of a subscription, and wakes receivers of its dead letters.
    pub(super) fn on_settled(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        settlements: &[Settlement],
    ) {
        self.meters().settled(topic, subscription, settlements);
        let is_dead = |each: &&Settlement| matches!(each, Settlement::DeadLetter(_));
        let dead = settlements.iter().filter(is_dead).count();
        if dead > 0 {
            let awaited = Awaited::Queue(QueueRef::dead_letters(subscription.id));
            self.shared.arrivals.announce(&awaited, dead);
            self.note_forwarding(subscription);
        }
    }
}

/// The retry policy of a delivery, within the time that its event has of its own.
fn policy_of(topic: &TopicEntry, subscription: &EventSubscription, event: &Event) -> RetryPolicy {
    let policy = topic.retry_policy(subscription);
    let own = message::time_to_live(event);
    let time_to_live = own.map_or(policy.time_to_live, |own| own.min(policy.time_to_live));
    RetryPolicy {
        time_to_live,
        ..policy
    }
}

/// What a receiver waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Awaited {
    /// A delivery of a queue.
    Queue(QueueRef),
    /// A session, or a delivery of one.
    Session(SessionWait),
}

impl Awaited {
    fn subscription(&self) -> SubscriptionId {
        match self {
            Self::Queue(of) => of.subscription,
            Self::Session(SessionWait::Next(of) | SessionWait::In(of, _)) => *of,
        }
    }
}

/// Waiting receivers, by what they wait for.
#[derive(Default)]
pub(super) struct Arrivals {
    waiting: Mutex<HashMap<Awaited, Waiting>>,
}

struct Waiting {
    owner: Owner,
    receivers: usize,
    notify: Arc<Notify>,
}

/// Whose keys let receivers wait at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Namespace(NamespaceId),
    /// A custom topic.
    Topic(TopicId),
}

/// A registered waiting receiver, until it is dropped.
struct Waiter<'a> {
    arrivals: &'a Arrivals,
    awaited: Awaited,
    notify: Arc<Notify>,
}

impl Arrivals {
    /// Nobody takes all places: an event subscription and an owner may have more of them only while they have
    /// fewer than are left.
    fn wait_at(&self, awaited: Awaited, owner: Owner) -> Result<Waiter<'_>, ReceiveError> {
        let mut waiting = self.waiting.lock().unwrap();
        let count = |is_counted: &dyn Fn(&Awaited, &Waiting) -> bool| -> usize {
            let counted = waiting
                .iter()
                .filter(|(awaited, each)| is_counted(awaited, each));
            counted.map(|(_, each)| each.receivers).sum()
        };
        let left = RECEIVERS_WAITING_MAX - count(&|_, _| true);
        let here = count(&|each, _| each.subscription() == awaited.subscription());
        if here >= left || count(&|_, each| each.owner == owner) >= left {
            return Err(ReceiveError::TooManyWaiting);
        }
        let here = waiting.entry(awaited.clone()).or_insert_with(|| Waiting {
            owner,
            receivers: 0,
            notify: Arc::default(),
        });
        here.receivers += 1;
        Ok(Waiter {
            arrivals: self,
            awaited,
            notify: Arc::clone(&here.notify),
        })
    }

    fn has_receivers(&self, queue: SubscriptionId) -> bool {
        let waiting = self.waiting.lock().unwrap();
        waiting.keys().any(|each| each.subscription() == queue)
    }

    /// Wakes one receiver for each of `count` deliveries.
    fn announce(&self, awaited: &Awaited, count: usize) {
        if let Some(here) = self.waiting.lock().unwrap().get(awaited) {
            for _ in 0..count.min(here.receivers) {
                here.notify.notify_one();
            }
        }
    }

    /// Wakes one receiver of pending deliveries, and one of those that wait for a session, for each entry of
    /// `subscriptions`.
    fn announce_each(&self, subscriptions: &[SubscriptionId]) {
        let waiting = self.waiting.lock().unwrap();
        if waiting.is_empty() {
            return; // as with nearly every publishing
        }
        for subscription in subscriptions {
            let places = [
                Awaited::Queue(QueueRef::pending(*subscription)),
                Awaited::Session(SessionWait::Next(*subscription)),
            ];
            for here in places.iter().filter_map(|awaited| waiting.get(awaited)) {
                here.notify.notify_one();
            }
        }
    }

    /// Wakes all receivers: something is available earlier than they expect.
    pub(super) fn announce_all(&self, of: QueueRef) {
        let waiting = self.waiting.lock().unwrap();
        let places = [
            Awaited::Queue(of),
            Awaited::Session(SessionWait::Next(of.subscription)),
        ];
        for here in places.iter().filter_map(|awaited| waiting.get(awaited)) {
            here.notify.notify_waiters();
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.arrivals.waiting.lock().unwrap();
        if let Some(here) = waiting.get_mut(&self.awaited) {
            here.receivers -= 1;
            if here.receivers == 0 {
                waiting.remove(&self.awaited);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(subscription: i64) -> Awaited {
        Awaited::Queue(QueueRef::dead_letters(SubscriptionId(subscription)))
    }

    #[test]
    fn nobody_takes_all_places_and_places_are_given_back() {
        let arrivals = Arrivals::default();
        let all = |subscriptions: std::ops::Range<i64>, namespace: i64| {
            let owner = Owner::Namespace(NamespaceId(namespace));
            let each = subscriptions.cycle();
            let taken = each.map_while(|each| arrivals.wait_at(queue(each), owner).ok());
            taken.collect::<Vec<_>>()
        };
        let half = RECEIVERS_WAITING_MAX / 2;
        let by_one_key = all(0..9, 1);
        assert_eq!(by_one_key.len(), half, "of one namespace, beside nobody");
        assert_eq!(all(9..10, 2).len(), half / 2, "half of what is left");
        let of_topics: Vec<_> = (10..20)
            .map(|topic| arrivals.wait_at(queue(topic), Owner::Topic(TopicId(topic))))
            .collect();
        assert!(of_topics.iter().all(Result::is_ok));
        let refused = arrivals.wait_at(queue(0), Owner::Namespace(NamespaceId(1)));
        assert_eq!(refused.err(), Some(ReceiveError::TooManyWaiting));
        drop((by_one_key, of_topics));
        assert!(arrivals.waiting.lock().unwrap().is_empty());
        assert_eq!(all(0..1, 1).len(), half, "of one event subscription");
    }
}
