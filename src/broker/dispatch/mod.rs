//! The dispatcher: take a subscription that is due, lease deliveries, send them, settle them, sleep.
//!
//! The loop registers for the wake-up before it looks for work, so that it misses nothing that is noted in
//! between. It also reads the store now and then without being woken, so that nothing is forgotten.

pub(super) mod agenda;
pub(super) mod batch;
pub(super) mod deliver;
pub(super) mod health;
pub(super) mod retry_now;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::dispatch::agenda::{DispatchSlot, OwnLimits};
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
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::store::{
    FreeChange, FreeChanges, FreeSettled, LeaseRequest, Leased, Settled, SettlementRecord,
    StoreError,
};

/// The longest time between two reads of the agenda from the store.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Deliveries leased in one turn: enough for the largest batch.
const LEASE_MAX: usize = 5_000;

/// Deliveries leased ahead of free slots: as many as a busy subscription ends during one read of the store.
const LEASE_AHEAD: usize = 128;

/// Bytes of events leased in one turn: the largest batch, or one event more.
const LEASE_BYTES_MAX: usize = 1_024 * 1_024;

/// Deliveries that are checked at once for having used up their retry policy while nobody sends them.
const EXHAUSTED_BATCH_MAX: usize = 500;

/// Pause before a turn is taken again that the store could not serve.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// The result of a turn.
#[derive(Default)]
struct Filled {
    batches: Vec<Batch>,
    waiting: Vec<Due>,
    next_due: Option<Timestamp>,
}

impl Broker {
    /// Sends due deliveries until the broker stops. Requests run as tasks of `requests`.
    pub async fn dispatch(self, requests: TaskTracker) {
        loop {
            let woken = self.wake().notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            self.start_due(&requests).await;
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

    /// Starts the requests of every turn that can be taken now, turn by turn, so that none waits for another
    /// subscription's backlog.
    async fn start_due(&self, requests: &TaskTracker) {
        while !self.is_stopping()
            && let Some(batches) = self.serve_next().await
        {
            for batch in batches {
                let broker = self.clone();
                requests.spawn(async move { broker.deliver(batch).await });
            }
        }
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

    /// Notes what is due according to the store, for every subscription that may deliver.
    pub async fn refresh_agenda(&self) {
        let registry = self.registry();
        let active = registry
            .subscriptions()
            .filter(|(_, each)| each.may_send())
            .map(|(_, each)| QueueRef::pending(each.id))
            .collect();
        match self.store().ledger.agenda(active).await {
            Ok(agenda) => {
                for due in agenda {
                    self.note_due(&[due.queue.subscription], due.at);
                }
            }
            Err(error) => tracing::warn!(%error, "the agenda could not be refreshed"),
        }
    }

    /// Sends everything that is due now, one request after the other, on the caller's task: for simulations.
    pub async fn run_due(&self) {
        while let Some(batches) = self.serve_next().await {
            for batch in batches {
                self.deliver(batch).await;
            }
        }
    }

    /// When the next delivery falls due, as far as the agenda knows.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.agenda().earliest()
    }

    /// The requests of the next turn; `None` when there is no turn to take.
    async fn serve_next(&self) -> Option<Vec<Batch>> {
        let turn = self.take_turn()?;
        Some(self.serve(turn).await)
    }

    fn take_turn(&self) -> Option<DispatchSlot<Due>> {
        let mut agenda = self.agenda();
        // Read while the agenda is locked, so that a turn is not put off for a limit that was just lifted.
        let registry = self.registry();
        agenda.take(self.clock().now(), |id| own_limits(&registry, id))
    }

    async fn serve(&self, turn: DispatchSlot<Due>) -> Vec<Batch> {
        let registry = self.registry();
        let id = turn.subscription;
        let found = registry.subscription(id);
        let Some((topic, subscription)) = found.filter(|(_, each)| each.may_send()) else {
            // Deleted, paused, or waiting for its handshake. It is noted again when it may deliver.
            self.agenda().end_turn(id, &[], Vec::new(), None);
            return Vec::new();
        };
        match self.fill_admitted(topic, subscription, turn).await {
            Ok(Filled {
                batches,
                waiting,
                next_due,
            }) => {
                let started: Vec<_> = batches.iter().map(Batch::ids).collect();
                if batches.iter().any(|batch| batch.is_probe) {
                    self.health().begin_probe(id);
                }
                self.agenda().end_turn(id, &started, waiting, next_due);
                batches
            }
            Err(error) => {
                tracing::error!(%error, subscription.name = %subscription.name,
                    "due deliveries could not be read");
                let again = self.clock().now() + STORE_PAUSE;
                self.agenda().end_turn(id, &[], Vec::new(), Some(again));
                Vec::new()
            }
        }
    }

    /// Fills the turn as far as the health of the receiver allows.
    async fn fill_admitted(
        &self,
        topic: &Arc<TopicEntry>,
        subscription: &Arc<EventSubscription>,
        turn: DispatchSlot<Due>,
    ) -> Result<Filled, StoreError> {
        let now = self.clock().now();
        let admission = self.health().admission(subscription.id, now);
        let send_budget = match admission {
            Admission::Free => SendBudget {
                requests: turn.slots,
                batch: subscription.definition.destination.batch(),
                is_probe: false,
            },
            Admission::Probe => SendBudget::PROBE,
            Admission::Hold { until } => {
                return Ok(Filled {
                    next_due: until,
                    ..Filled::default()
                });
            }
            Admission::Skip { cause } => return self.skip_due(topic, subscription, cause).await,
        };
        self.fill_turn(topic, subscription, turn.waiting, send_budget)
            .await
    }

    /// Leases what the turn can send and a little more, so that the next turns need not read the store.
    async fn fill_turn(
        &self,
        topic: &Arc<TopicEntry>,
        subscription: &Arc<EventSubscription>,
        waiting: Vec<Due>,
        send_budget: SendBudget,
    ) -> Result<Filled, StoreError> {
        let now = self.clock().now();
        let wanted = send_budget.deliveries_max().min(LEASE_MAX);
        let (mut due, mut next_due) = (waiting, Some(now));
        if due.len() < wanted {
            let limit = match send_budget.is_probe || !self.agenda().may_lease_ahead() {
                true => wanted,
                false => wanted.max(LEASE_AHEAD),
            };
            let leased = self.lease(topic, subscription, &due, limit).await?;
            next_due = leased.next_due;
            due.extend(with_events(leased));
        }
        let due = self.admitted(topic, subscription, due).await?;
        let (batches, waiting) = fill(topic, subscription, due, send_budget);
        if !waiting.is_empty() {
            next_due = Some(now);
        }
        Ok(Filled {
            batches,
            waiting,
            next_due,
        })
    }

    /// Counts attempts that are not made, because the subscription is on probation.
    async fn skip_due(
        &self,
        topic: &Arc<TopicEntry>,
        subscription: &Arc<EventSubscription>,
        cause: Outcome,
    ) -> Result<Filled, StoreError> {
        let leased = self.lease(topic, subscription, &[], LEASE_AHEAD).await?;
        let following = leased.next_due;
        let due = self
            .admitted(topic, subscription, with_events(leased))
            .await?;
        let now = self.clock().now();
        let skipped: Vec<SettlementRecord> = due
            .iter()
            .map(|(delivery, _)| self.skipped(subscription, delivery, cause, now))
            .collect();
        let (attempts, retried) = (skipped.len(), next_due(&skipped));
        self.settle(topic, subscription, skipped, now).await?;
        self.meters().skipped(topic, subscription, attempts);
        Ok(Filled {
            next_due: following.into_iter().chain(retried).min(),
            ..Filled::default()
        })
    }

    fn skipped(
        &self,
        subscription: &EventSubscription,
        delivery: &Delivery,
        cause: Outcome,
        now: Timestamp,
    ) -> SettlementRecord {
        let definition = &subscription.definition;
        let (policy, scale) = (&definition.retry_policy, self.time_scale());
        let jitter = self.entropy().fraction();
        let attempt = DeliveryAttempt {
            attempt: delivery.attempts + 1,
            started_at: now,
            duration: Duration::ZERO,
            result: AttemptResult::skipped(cause),
            late: None,
        };
        let settlement = settle_skipped(delivery, &attempt, cause, policy, scale, jitter);
        let settlement = settlement.for_destination(&definition.dead_letter);
        SettlementRecord {
            attempt: Some(Arc::new(attempt)),
            ..SettlementRecord::of(delivery, settlement)
        }
    }

    async fn lease(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        waiting: &[Due],
        limit: usize,
    ) -> Result<Leased, StoreError> {
        let mut held = self.agenda().held(subscription.id);
        held.extend(waiting.iter().map(|(delivery, _)| delivery.id));
        let request = LeaseRequest {
            subscription: subscription.id,
            now: self.clock().now(),
            limit: limit.saturating_sub(waiting.len()),
            bytes_max: LEASE_BYTES_MAX,
            held,
            bodies: true,
        };
        let mut leased = self.store().ledger.lease(request).await?;
        let unreadable = std::mem::take(&mut leased.unreadable);
        self.quarantine(topic, subscription, &unreadable).await?;
        Ok(leased)
    }

    /// Ends deliveries whose events cannot be read, so that they do not stop others.
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

    /// Stores settlements, and does what follows from them. Returns the deliveries that were settled: some
    /// may have ended meanwhile, or been attempted again.
    async fn settle(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        records: Vec<SettlementRecord>,
        now: Timestamp,
    ) -> Result<Vec<DeliveryId>, StoreError> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let settlements: Vec<_> = records
            .iter()
            .map(|record| (record.delivery, record.settlement))
            .collect();
        let settled = self.store().ledger.settle(records, now).await?;
        let settled = settlements
            .into_iter()
            .zip(settled)
            .filter(|(_, settled)| *settled == Settled::Done)
            .filter_map(|((id, settlement), _)| Some((id, settlement?)));
        let (settled, settlements): (_, Vec<_>) = settled.unzip();
        self.on_settled(topic, subscription, &settlements);
        Ok(settled)
    }

    /// Keeps the deliveries that may be attempted, and ends those that have used up their retry policy.
    async fn admitted(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        due: Vec<Due>,
    ) -> Result<Vec<Due>, StoreError> {
        let mut exhausted = Vec::new();
        let is_allowed = |(delivery, _): &Due| {
            let ended = self.exhausted(topic, subscription, delivery);
            let ended = ended.map(|settlement| SettlementRecord::of(delivery, settlement));
            let is_allowed = ended.is_none();
            exhausted.extend(ended);
            is_allowed
        };
        let admitted = due.into_iter().filter(is_allowed).collect();
        let now = self.clock().now();
        self.settle(topic, subscription, exhausted, now).await?;
        Ok(admitted)
    }

    /// How a due delivery ends that may not be attempted any more.
    pub(super) fn exhausted(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        delivery: &Delivery,
    ) -> Option<Settlement> {
        let (now, scale) = (self.clock().now(), self.time_scale());
        let policy = topic.retry_policy(subscription);
        let reason = admit(delivery, &policy, now, scale).err()?;
        let dead_letter = Settlement::DeadLetter(reason);
        Some(dead_letter.for_destination(&subscription.definition.dead_letter))
    }

    /// Ends deliveries that have used up their retry policy while nobody sends them, because their
    /// subscription may not deliver or is pulled.
    pub(super) async fn end_exhausted(&self) -> Result<(), StoreError> {
        let registry = self.registry();
        for (topic, subscription) in registry.subscriptions() {
            while !self.sends_now(subscription.id)
                && self.end_oldest_exhausted(topic, subscription).await?
            {}
        }
        Ok(())
    }

    /// Ends those of the oldest due deliveries that have used up their retry policy, one batch; returns
    /// whether there may be more. Deliveries that wait for their next attempt or are locked are not due, so
    /// they are checked later.
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
            bytes_max: usize::MAX,
            held: self.agenda().held(subscription.id), // on the wire
            bodies: false,
        };
        let due = ledger.lease(oldest).await?.deliveries;
        let exhausted = due.iter().filter_map(|delivery| {
            let settlement = self.exhausted(topic, subscription, delivery)?;
            Some((delivery.id, settlement))
        });
        let (ids, settlements): (Vec<_>, Vec<_>) = exhausted.unzip();
        if ids.is_empty() {
            return Ok(false);
        }
        let ends = settlements.iter().copied().map(FreeChange::End);
        let request = FreeChanges {
            changes: ids.into_iter().zip(ends).collect(),
            audit: None,
            now,
        };
        let ended = settlements.iter().zip(ledger.settle_free(request).await?);
        // Some may have been locked by a receiver meanwhile.
        let ended = ended.filter(|(_, ended)| matches!(ended, FreeSettled::Done(_)));
        let ended: Vec<_> = ended.map(|(settlement, _)| *settlement).collect();
        self.on_settled(topic, subscription, &ended);
        Ok(settlements.len() == EXHAUSTED_BATCH_MAX)
    }

    /// Whether the dispatcher sends its deliveries, or it is deleted.
    fn sends_now(&self, id: SubscriptionId) -> bool {
        let registry = self.registry();
        let found = registry.subscription(id);
        found.is_none_or(|(_, subscription)| subscription.may_send())
    }
}

/// What was leased, each delivery with its event.
fn with_events(leased: Leased) -> Vec<Due> {
    leased.deliveries.into_iter().zip(leased.events).collect()
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
