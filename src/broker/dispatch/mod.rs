//! The dispatcher: a loop that takes a due subscription, leases deliveries, sends them, settles them and sleeps.
//!
//! The loop registers for the wake-up before it looks for work, so that it misses no work noted in between. The loop
//! also reads the due times from the store at intervals without being woken, so that no delivery is forgotten. Once a
//! subscription has all of its requests in flight, each request takes the next turn itself when it ends.

pub(super) mod agenda;
pub(super) mod batch;
pub(super) mod deliver;
mod enqueue;
pub(super) mod health;
pub(super) mod retry_now;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::dispatch::agenda::{DispatchSlot, OwnLimits, Turned};
use crate::broker::dispatch::batch::{Batch, Due, SendBudget, fill};
use crate::broker::dispatch::deliver::next_due;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{
    AttemptResult, Delivery, DeliveryAttempt, DeliveryId, Outcome, Settlement, admit,
    settle_skipped,
};
use crate::model::lease::QueueRef;
use crate::model::probation::Admission;
use crate::model::registry::{Registry, TopicEntry};
use crate::model::retry::RetryPolicy;
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::store::{
    FreeChange, FreeChanges, FreeSettled, LeaseRequest, Settled, SettlementRecord, StoreError,
};
use crate::wire::duration::DURATION_MAX;

/// The interval at which the agenda is refreshed from the store, even without a wake-up.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// The most turns that read the store at once, equal to the readers available to them. This limit bounds the memory
/// that the turns use.
const TURNS_ASKING_MAX: usize = 4;

/// The most deliveries leased in one turn: enough for the largest batch.
const LEASE_MAX: usize = 5_000;

/// The number of deliveries leased ahead of free slots: as many as a busy subscription completes during one read of the
/// store.
const LEASE_AHEAD: usize = 128;

/// The most bytes of events leased in one turn: the size of the largest batch. The last event may exceed it.
const LEASE_BYTES_MAX: usize = 1_024 * 1_024;

/// The most deliveries that are checked at once for having used up their retry policy while they are not sent.
const EXHAUSTED_BATCH_MAX: usize = 500;

/// The pause before a turn is repeated that failed because the store could not be read or written.
pub(super) const STORE_PAUSE: Duration = Duration::from_secs(1);

/// The result of a turn.
#[derive(Default)]
struct TurnResult {
    batches: Vec<Batch>,
    waiting: VecDeque<Due>,
    released: Vec<DeliveryId>,
    /// Deliveries that end without an attempt.
    exhausted: Vec<SettlementRecord>,
    /// The time from which on the store has more due deliveries.
    unread: Option<Timestamp>,
}

impl TurnResult {
    /// Creates the result of a turn that sends nothing. It releases the waiting deliveries, and the subscription gets
    /// its next turn at `unread`.
    fn put_off(waiting: &VecDeque<Due>, unread: Option<Timestamp>) -> Self {
        Self {
            released: ids(waiting),
            unread,
            ..Self::default()
        }
    }
}

impl Broker {
    /// Sends due deliveries until the broker stops. Requests run as tasks of `requests`, which also tracks their
    /// results until they are stored.
    pub async fn dispatch(self, requests: TaskTracker) {
        let asking = Arc::new(Semaphore::new(TURNS_ASKING_MAX));
        loop {
            let woken = self.wake().notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            self.start_due(&requests, &asking).await;
            tokio::select! {
                () = &mut woken => {}
                () = tokio::time::sleep(self.time_to_sleep()) => {}
                () = self.stopping() => return,
            }
            if self.poll_is_due() {
                self.refresh_agenda().await;
            }
        }
    }

    /// Starts the requests of every turn that can be taken now. Turns that read the store run as separate tasks, a few
    /// at once.
    async fn start_due(&self, requests: &TaskTracker, asking: &Arc<Semaphore>) {
        while !self.is_stopping()
            && let Some(turn) = self.take_turn()
        {
            if !self.asks_the_store(&turn) {
                self.send_turn(turn, requests).await;
                continue;
            }
            let permit = Arc::clone(asking).acquire_owned().await;
            let (broker, requests) = (self.clone(), requests.clone());
            requests.clone().spawn(async move {
                broker.send_turn(turn, &requests).await;
                drop(permit);
            });
        }
    }

    async fn send_turn(&self, turn: DispatchSlot<Due>, requests: &TaskTracker) {
        for batch in self.serve(turn, requests).await {
            let (broker, unstored) = (self.clone(), requests.clone());
            requests.spawn(async move { broker.deliver(batch, &unstored).await });
        }
    }

    /// Returns whether a turn may need deliveries from the store besides those in memory.
    fn asks_the_store(&self, turn: &DispatchSlot<Due>) -> bool {
        let now = self.clock().now();
        let is_behind = turn.unread.is_some_and(|at| at <= now);
        is_behind || self.health().admission(turn.subscription, now) != Admission::Free
    }

    fn time_to_sleep(&self) -> Duration {
        let now = self.clock().now();
        let earliest = self.agenda().earliest();
        // The clock has a resolution of a millisecond: sleeping to its end avoids waking up just before.
        let until = earliest.map(|at| at.since(now) + Duration::from_millis(1));
        until.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL)
    }

    fn poll_is_due(&self) -> bool {
        let now = self.clock().now();
        let mut last = self.last_poll().lock().unwrap();
        let due = now.since(*last) >= POLL_INTERVAL;
        if due {
            *last = now;
        }
        due
    }

    /// Reads the due times of all subscriptions that may deliver from the store, and notes them in the agenda.
    pub async fn refresh_agenda(&self) {
        let registry = self.registry();
        let active = registry
            .subscriptions()
            .filter(|(_, each)| each.may_send())
            .map(|(_, each)| QueueRef::pending(each.id))
            .collect();
        self.agenda()
            .forget_deleted(|id| registry.subscription(id).is_some());
        match self.store().ledger.agenda(active).await {
            Ok(agenda) => {
                for due in agenda {
                    self.note_due(&[due.queue.subscription], due.at);
                }
            }
            Err(error) => tracing::warn!(%error, "the agenda could not be refreshed"),
        }
    }

    /// Sends all deliveries that are due now, one request after the other, on the caller's task. For simulations.
    pub async fn run_due(&self) {
        while let Some(turn) = self.take_turn() {
            let unstored = TaskTracker::new();
            for batch in self.serve(turn, &unstored).await {
                self.deliver(batch, &unstored).await;
            }
            unstored.close();
            unstored.wait().await;
        }
    }

    /// Returns the time of the next delivery that the agenda knows of.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.agenda().earliest()
    }

    fn take_turn(&self) -> Option<DispatchSlot<Due>> {
        let mut agenda = self.agenda();
        // The registry is read while the agenda is locked, so that a limit that was just lifted does not delay a turn.
        let registry = self.registry();
        agenda.take(self.clock().now(), |id| own_limits(&registry, id))
    }

    /// Ends a request whose deliveries are answered. After a success, returns the next turn of the subscription if it
    /// may have one at once.
    fn end_request(
        &self,
        batch: &Batch,
        took: Duration,
        is_success: bool,
    ) -> Option<DispatchSlot<Due>> {
        let id = batch.subscription.id;
        let mut agenda = self.agenda();
        let registry = self.registry();
        agenda.end_request(id, batch.weight(), took);
        let deliveries = batch.deliveries.len();
        agenda.answered(id, deliveries, self.changes_for(deliveries));
        let next = if is_success && !self.is_stopping() {
            agenda.take_next(id, |id| own_limits(&registry, id))
        } else {
            None
        };
        if next.is_none() && agenda.unpark(id) {
            self.wake().notify_one();
        }
        next
    }

    /// Fills the requests of a turn and ends the turn. Returns the requests to send.
    async fn serve(&self, turn: DispatchSlot<Due>, unstored: &TaskTracker) -> Vec<Batch> {
        let registry = self.registry();
        let id = turn.subscription;
        let found = registry.subscription(id);
        let Some((topic, subscription)) = found.filter(|(_, each)| each.may_send()) else {
            // The subscription is deleted, paused, or waiting for its handshake. It is noted again once it may deliver.
            self.end_turn(id, TurnResult::put_off(&turn.waiting, None));
            return Vec::new();
        };
        let mut waiting = turn.waiting;
        let (slots, unread) = (turn.slots, turn.unread);
        let filled = self.fill_admitted(topic, subscription, &mut waiting, slots, unread);
        match filled.await {
            Ok(mut filled) => {
                if let Some(probe) = filled.batches.iter().find(|batch| batch.is_probe) {
                    self.health().begin_probe(id, probe.deliveries[0].id);
                }
                let exhausted = std::mem::take(&mut filled.exhausted);
                let batches = self.end_turn(id, filled);
                self.end_unsent(topic, subscription, exhausted, unstored)
                    .await;
                batches
            }
            Err(error) => {
                tracing::error!(%error, subscription.name = %subscription.name,
                    "due deliveries could not be read");
                let again = self.clock().now() + STORE_PAUSE;
                self.end_turn(id, TurnResult::put_off(&waiting, Some(again)));
                Vec::new()
            }
        }
    }

    /// Ends a turn. Returns the requests to send.
    fn end_turn(&self, id: SubscriptionId, filled: TurnResult) -> Vec<Batch> {
        let turned = Turned {
            started: filled.batches.len(),
            bytes: filled.batches.iter().map(Batch::weight).sum(),
            waiting: filled.waiting,
            released: filled.released,
            unread: filled.unread,
        };
        if self.agenda().end_turn(id, turned, self.clock().now()) {
            self.wake().notify_one();
        }
        filled.batches
    }

    /// Fills a turn with as many requests as the health of the receiver allows.
    async fn fill_admitted(
        &self,
        topic: &Arc<TopicEntry>,
        subscription: &Arc<EventSubscription>,
        waiting: &mut VecDeque<Due>,
        slots: usize,
        mut unread: Option<Timestamp>,
    ) -> Result<TurnResult, StoreError> {
        let now = self.clock().now();
        let is_behind = unread.is_some_and(|at| at <= now);
        let admission = self.health().admission(subscription.id, now);
        let send_budget = match admission {
            Admission::Free => SendBudget {
                requests: slots,
                batch: subscription.definition.destination.batch(),
                is_probe: false,
            },
            Admission::Probe => SendBudget::PROBE,
            Admission::Hold { until } => return Ok(TurnResult::put_off(waiting, until)),
            Admission::Skip { cause } => {
                let skipped = self.skip_due(topic, subscription, waiting, cause, unread);
                return skipped.await;
            }
        };
        let wanted = send_budget.deliveries_max().min(LEASE_MAX);
        let probed_before = if send_budget.is_probe {
            self.health().last_probe(subscription.id)
        } else {
            None
        };
        if is_behind && (waiting.len() < wanted || probed_before.is_some()) {
            let limit = if send_budget.is_probe || !self.agenda().may_lease_ahead() {
                wanted
            } else {
                wanted.max(LEASE_AHEAD)
            };
            let leased = self.lease(topic, subscription, waiting, limit, probed_before);
            unread = leased.await?;
        }
        if let Some(probe) = probed_before {
            let others_last = |due: &Due| due.0.id != probe;
            waiting.make_contiguous().sort_by_key(others_last);
        }
        Ok(TurnResult {
            unread,
            ..self.fill_turn(topic, subscription, std::mem::take(waiting), send_budget)
        })
    }

    /// Fills requests with waiting deliveries, and separates the deliveries that may not be attempted any more.
    fn fill_turn(
        &self,
        topic: &Arc<TopicEntry>,
        subscription: &Arc<EventSubscription>,
        mut waiting: VecDeque<Due>,
        send_budget: SendBudget,
    ) -> TurnResult {
        let looked_at = send_budget.looked_at_max().min(waiting.len());
        let due = waiting.drain(..looked_at).collect();
        let (due, exhausted) = self.admitted(topic, subscription, due);
        let (batches, rest) = fill(topic, subscription, due, send_budget);
        for each in rest.into_iter().rev() {
            waiting.push_front(each);
        }
        TurnResult {
            batches,
            waiting,
            exhausted,
            ..TurnResult::default()
        }
    }

    /// Settles due deliveries with skipped attempts, which count but are not sent, because the subscription is on
    /// probation.
    async fn skip_due(
        &self,
        topic: &Arc<TopicEntry>,
        subscription: &Arc<EventSubscription>,
        waiting: &mut VecDeque<Due>,
        cause: Outcome,
        mut unread: Option<Timestamp>,
    ) -> Result<TurnResult, StoreError> {
        let now = self.clock().now();
        if waiting.len() < LEASE_AHEAD && unread.is_some_and(|at| at <= now) {
            let leased = self.lease(topic, subscription, waiting, LEASE_AHEAD, None);
            unread = leased.await?;
        }
        let all = TurnResult::put_off(waiting, unread);
        let (due, mut ended) = self.admitted(topic, subscription, std::mem::take(waiting).into());
        let attempts = due.len();
        let policy = topic.retry_policy(subscription);
        let skip = |(delivery, _): &Due| self.skipped(subscription, &policy, delivery, cause, now);
        ended.extend(due.iter().map(skip));
        let retried = next_due(&ended, now);
        if let Err(error) = self.settle(topic, subscription, ended, now).await {
            let again = now + STORE_PAUSE;
            tracing::error!(%error, subscription.name = %subscription.name,
                "attempts that were not made could not be stored");
            return Ok(TurnResult {
                unread: Some(again),
                ..all
            });
        }
        self.meters().skipped(topic, subscription, attempts);
        Ok(TurnResult {
            unread: unread.into_iter().chain(retried).min(),
            ..all
        })
    }

    fn skipped(
        &self,
        subscription: &EventSubscription,
        policy: &RetryPolicy,
        delivery: &Delivery,
        cause: Outcome,
        now: Timestamp,
    ) -> SettlementRecord {
        let definition = &subscription.definition;
        let (scale, jitter) = (self.time_scale(), self.entropy().jitter());
        let attempt = DeliveryAttempt {
            attempt: delivery.attempts + 1,
            started_at: now,
            duration: Duration::ZERO,
            result: AttemptResult::skipped(cause),
            late: None,
        };
        let settlement = settle_skipped(delivery, &attempt, cause, policy, scale, jitter)
            .for_destination(&definition.dead_letter);
        SettlementRecord {
            attempt: Some(Arc::new(attempt)),
            ..SettlementRecord::of(delivery, settlement)
        }
    }

    /// Leases due deliveries from the store and adds them to `waiting`. Returns the time at which the next delivery
    /// falls due that is still only in the store.
    async fn lease(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        waiting: &mut VecDeque<Due>,
        limit: usize,
        first: Option<DeliveryId>,
    ) -> Result<Option<Timestamp>, StoreError> {
        let id = subscription.id;
        let request = LeaseRequest {
            subscription: id,
            now: self.clock().now(),
            limit: limit
                .saturating_sub(waiting.len())
                .max(usize::from(first.is_some())),
            first,
            bytes_max: LEASE_BYTES_MAX,
            held: self.agenda().held(id),
            bodies: true,
        };
        let leased = self.store().ledger.lease(request).await?;
        self.quarantine(topic, subscription, &leased.unreadable)
            .await?;
        let read = leased.deliveries.into_iter().zip(leased.events).collect();
        waiting.extend(self.agenda().hold(id, read));
        Ok(leased.next_due)
    }

    /// Ends deliveries whose events cannot be read, so that they do not block other deliveries.
    pub(super) async fn quarantine(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        unreadable: &[(Delivery, String)],
    ) -> Result<(), StoreError> {
        for (delivery, reason) in unreadable {
            tracing::error!(delivery.id = %delivery.id, event.key = %delivery.event,
                subscription.name = %subscription.name, reason, "an event cannot be delivered");
        }
        let ended = unreadable.iter().map(|(delivery, _)| {
            let unreadable = Settlement::DeadLetter(DeadLetterReason::EventUnreadable);
            let settlement = unreadable.for_destination(&subscription.definition.dead_letter);
            SettlementRecord::of(delivery, settlement)
        });
        let now = self.clock().now();
        self.settle(topic, subscription, ended.collect(), now)
            .await?;
        Ok(())
    }

    /// Stores settlements in changes of bounded size, and reports them with `on_settled`. Returns the deliveries that
    /// were settled, without those that had ended or been attempted again in the meantime. After an error, some
    /// settlements may be stored.
    async fn settle(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        records: Vec<SettlementRecord>,
        now: Timestamp,
    ) -> Result<Vec<DeliveryId>, StoreError> {
        let mut ended = Vec::new();
        for some in records.chunks(self.settled_at_once()) {
            let settled = self.store().ledger.settle(some, now).await?;
            let (ids, settlements): (Vec<_>, Vec<_>) = some
                .iter()
                .zip(settled)
                .filter(|(_, settled)| *settled == Settled::Done)
                .filter_map(|(record, _)| Some((record.delivery, record.settlement?)))
                .unzip();
            self.on_settled(topic, subscription, &settlements);
            ended.extend(ids);
        }
        Ok(ended)
    }

    /// Returns the deliveries that may be attempted, and the settlements of those that have used up their retry policy.
    fn admitted(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        due: Vec<Due>,
    ) -> (Vec<Due>, Vec<SettlementRecord>) {
        let policy = topic.retry_policy(subscription);
        let mut exhausted = Vec::new();
        let is_allowed = |(delivery, _): &Due| {
            let ended = self.end_by(&policy, subscription, delivery);
            let is_allowed = ended.is_none();
            exhausted.extend(ended.map(|ended| SettlementRecord::of(delivery, ended)));
            is_allowed
        };
        let admitted = due.into_iter().filter(is_allowed).collect();
        (admitted, exhausted)
    }

    /// Returns the settlement of a due delivery that may not be attempted any more; `None` if it may be attempted.
    pub(super) fn exhausted(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        delivery: &Delivery,
    ) -> Option<Settlement> {
        self.end_by(&topic.retry_policy(subscription), subscription, delivery)
    }

    /// Returns the settlement of a due delivery that `policy` does not allow to be attempted any more; `None` if it may
    /// be attempted.
    pub(super) fn end_by(
        &self,
        policy: &RetryPolicy,
        subscription: &EventSubscription,
        delivery: &Delivery,
    ) -> Option<Settlement> {
        let (now, scale) = (self.clock().now(), self.time_scale());
        let reason = admit(delivery, policy, now, scale).err()?;
        Some(Settlement::for_exhausted(reason, &subscription.definition))
    }

    /// Ends deliveries that have used up their retry policy and are not sent, because their subscription may not
    /// deliver or is pulled by receivers.
    pub(super) async fn end_exhausted(&self) -> Result<(), StoreError> {
        let registry = self.registry();
        for (topic, subscription) in registry.subscriptions() {
            while !self.sends_now(subscription.id)
                && self.end_oldest_exhausted(topic, subscription).await?
            {}
        }
        Ok(())
    }

    /// Ends messages whose time to live is over, even if no receiver asks for messages. The time to live is that of the
    /// message or that of its queue. Locked and deferred messages stay.
    pub async fn end_expired(&self) -> Result<(), StoreError> {
        while self.end_outlived().await? {}
        let (registry, now) = (self.registry(), self.clock().now());
        let mut queues = HashMap::new();
        for topic in registry.topics() {
            for queue in &*topic.measured {
                let found = registry.subscription(*queue).map(|(_, queue)| queue);
                let life = found.map(|queue| topic.retry_policy(queue).time_to_live);
                if let Some(life) = life.filter(|life| *life < DURATION_MAX) {
                    queues.insert(*queue, self.time_scale().shrink(life));
                }
            }
        }
        // The due time of the oldest message shows whether any message of the queue may have expired, unless the expiry
        // of a lock has moved that due time.
        let asked = queues
            .keys()
            .map(|queue| QueueRef::pending(*queue))
            .collect();
        for due in self.store().ledger.agenda(asked).await? {
            let of = due.queue.subscription;
            let is_over = queues.get(&of).is_some_and(|life| due.at + *life <= now);
            if let Some((topic, queue)) = registry.subscription(of).filter(|_| is_over) {
                while self.end_oldest_exhausted(topic, queue).await? {}
            }
        }
        Ok(())
    }

    /// Ends one batch of messages that have outlived their own time to live. Returns whether there may be more.
    async fn end_outlived(&self) -> Result<bool, StoreError> {
        let (registry, now) = (self.registry(), self.clock().now());
        let found = self
            .store()
            .ledger
            .outlived(now, EXHAUSTED_BATCH_MAX)
            .await?;
        let may_be_more = found.len() == EXHAUSTED_BATCH_MAX;
        let mut of_queues: BTreeMap<SubscriptionId, Vec<DeliveryId>> = BTreeMap::new();
        for (id, of) in found {
            of_queues.entry(of).or_default().push(id);
        }
        let mut ended = 0;
        for (of, ids) in of_queues {
            if let Some((topic, queue)) = registry.subscription(of) {
                let reason = DeadLetterReason::TimeToLiveExceeded;
                let end = Settlement::for_exhausted(reason, &queue.definition);
                let ends = ids.into_iter().map(|id| (id, end)).collect();
                ended += self.end_free(topic, queue, ends, now).await?;
            }
        }
        Ok(may_be_more && ended > 0)
    }

    /// Ends deliveries that no receiver has locked. Returns the number of deliveries that were still there to end.
    async fn end_free(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        ends: Vec<(DeliveryId, Settlement)>,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let settlements: Vec<_> = ends.iter().map(|(_, end)| *end).collect();
        let changes = ends.into_iter().map(|(id, end)| (id, FreeChange::End(end)));
        let request = FreeChanges {
            of: Some(subscription.id),
            changes: changes.collect(),
            all_or_none: false,
            audit: None,
            now,
        };
        let settled = self.store().ledger.settle_free(request).await?;
        // A receiver may have locked some deliveries in the meantime.
        let ended: Vec<_> = settlements
            .iter()
            .zip(settled)
            .filter(|(_, settled)| matches!(settled, FreeSettled::Done(_)))
            .map(|(settlement, _)| *settlement)
            .collect();
        self.on_settled(topic, subscription, &ended);
        Ok(ended.len())
    }

    /// Checks one batch of the oldest due deliveries, and ends those that have used up their retry policy. Returns
    /// whether there may be more. Deliveries that wait for their next attempt or are locked are not due, and are
    /// checked later.
    pub(super) async fn end_oldest_exhausted(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
    ) -> Result<bool, StoreError> {
        let now = self.clock().now();
        let ledger = &self.store().ledger;
        let oldest = LeaseRequest {
            subscription: subscription.id,
            now,
            limit: EXHAUSTED_BATCH_MAX,
            first: None,
            bytes_max: usize::MAX,
            held: self.agenda().held(subscription.id), // on the wire
            bodies: false,
        };
        let due = ledger.lease(oldest).await?.deliveries;
        let exhausted = due.iter().filter_map(|delivery| {
            let settlement = self.exhausted(topic, subscription, delivery)?;
            Some((delivery.id, settlement))
        });
        let exhausted: Vec<_> = exhausted.collect();
        let found = exhausted.len();
        if found > 0 {
            self.end_free(topic, subscription, exhausted, now).await?;
        }
        Ok(found == EXHAUSTED_BATCH_MAX)
    }

    /// Returns whether the dispatcher sends the deliveries of a subscription. True for a deleted subscription too.
    fn sends_now(&self, id: SubscriptionId) -> bool {
        let registry = self.registry();
        let found = registry.subscription(id);
        found.is_none_or(|(_, subscription)| subscription.may_send())
    }
}

fn ids(all: &VecDeque<Due>) -> Vec<DeliveryId> {
    all.iter().map(|(delivery, _)| delivery.id).collect()
}

fn own_limits(registry: &Registry, id: SubscriptionId) -> OwnLimits {
    let Some((_, subscription)) = registry.subscription(id) else {
        return OwnLimits::default();
    };
    let pace = subscription.definition.destination.pace();
    OwnLimits {
        in_flight_max: pace.in_flight_max.map(|most| most as usize),
        rate: subscription.rate(),
    }
}
