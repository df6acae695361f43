//! Delivery requests: sending one, settling its deliveries by the result, and recording a late response.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::dispatch::agenda::DispatchSlot;
use crate::broker::dispatch::batch::{Batch, Due};
use crate::broker::dispatch::enqueue::Enqueued;
use crate::model::delivery::{
    AttemptResult, Delivery, DeliveryAttempt, DeliveryId, LateResponse, Outcome, Settlement, settle,
};
use crate::model::event::StoredEvent;
use crate::model::probation::Observation;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::model::trace::TraceContext;
use crate::outbound::{DeliveryRequest, LateResponseWait, SendResult};
use crate::store::{Settled, SettlementRecord, StoreError};

/// The pause before a failed settlement is stored again. The pause doubles each time, so that a settlement that makes
/// every commit fail does not delay other settlements.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause before a failed settlement is stored again.
const STORE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// The most row writes of a settlement: the delivery, its attempt, and for a dead letter the event properties that it
/// is searched by and the reason that the receiver gave.
const ROWS_PER_SETTLEMENT: usize = 4;

/// The pause before deliveries are tried again whose request was cut off, or whose results could not be stored.
const DEFECT_PAUSE: Duration = Duration::from_secs(10);

/// The slot of a request and the leases of its deliveries, until the request is answered. Dropping the slot before
/// that releases both.
struct HeldSlot<'a> {
    broker: &'a Broker,
    subscription: SubscriptionId,
    deliveries: Vec<DeliveryId>,
    bytes: usize,
    is_probe: bool,
    is_answered: bool,
}

impl Drop for HeldSlot<'_> {
    /// Releases the slot and the leases if the request was not answered, because of a stop or a panic, or because it
    /// was not sent. The deliveries fall due again after a pause.
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        if std::thread::panicking() {
            tracing::error!(deliveries = ?self.deliveries, "a settlement panicked");
            self.broker.meters().panicked();
        }
        if self.is_probe {
            self.broker.health().end_probe(self.subscription);
        }
        let id = self.subscription;
        let next_due = self.broker.clock().now() + DEFECT_PAUSE;
        let mut agenda = self.broker.agenda();
        agenda.end_request(id, self.bytes, DEFECT_PAUSE); // as bad as a slow answer
        agenda.stored(id, self.deliveries.iter().copied(), 0, Some(next_due));
        agenda.unpark(id);
        self.broker.wake().notify_one();
    }
}

/// A late response that may still arrive: the batch of the request, the wait for the response, and the start of the
/// attempt.
type Late = (Batch, LateResponseWait, Timestamp);

/// Settlements that are not yet sent to the store.
struct UnstoredSettlements {
    records: Vec<SettlementRecord>,
    /// The messages that they are, where the destination is in this appliance.
    enqueued: Option<Box<Enqueued>>,
    settled_at: Timestamp,
    /// The late response that may still arrive.
    late: Option<Late>,
}

/// Deliveries that were answered, or that end without an attempt, until their settlements are stored. The deliveries
/// stay leased, so that they are not sent twice. Dropping this value releases the leases.
struct Unstored {
    broker: Broker,
    topic: Arc<TopicEntry>,
    subscription: Arc<EventSubscription>,
    records: Arc<[SettlementRecord]>,
    /// The messages that they are, where the destination is in this appliance.
    enqueued: Option<Box<Enqueued>>,
    settled_at: Timestamp,
    /// The late response that may still arrive, shared by all changes of one request. The change that is stored last
    /// waits for the response.
    late: Option<Arc<Mutex<Late>>>,
    /// The time at which the first delivery falls due again, if any does; `Err` until the settlements are stored.
    next_due: Result<Option<Timestamp>, ()>,
    /// Makes a shutdown wait until the settlements are stored.
    _stored: TaskTrackerToken,
}

impl Unstored {
    /// Sends the settlements to the store.
    async fn store(mut self) {
        let ledger = self.broker.store().ledger.clone();
        let (records, at) = (Arc::clone(&self.records), self.settled_at);
        if let Some(enqueued) = self.enqueued.take() {
            let then = |result: Result<Vec<Settled>, StoreError>| match result {
                Ok(settled) => self.stored(&settled),
                // The store has changed nothing. The deliveries are released and attempted again.
                Err(error) => not_stored(&error, self.records.len()),
            };
            let Enqueued {
                messages,
                then: arrived,
            } = *enqueued;
            let stored = ledger.settle_with(records, messages, arrived, at, then);
            return drop(stored.await);
        }
        let then = |result: Result<Vec<Settled>, StoreError>| match result {
            Ok(settled) => self.stored(&settled),
            Err(error) => self.failed(&error),
        };
        // The call fails if the store has ended. The deliveries then stay as they were.
        let _ = ledger.settle_then(records, at, then).await;
    }

    fn stored(mut self, settled: &[Settled]) {
        self.next_due = Ok(next_due(&self.records, self.settled_at));
        let (topic, subscription) = (&self.topic, &self.subscription);
        let settled = self.records.iter().zip(settled);
        let done = settled.filter(|(_, settled)| **settled == Settled::Done);
        let settlements: Vec<_> = done.filter_map(|(each, _)| each.settlement).collect();
        self.broker.on_settled(topic, subscription, &settlements);
        let late = self.late.take().and_then(Arc::into_inner);
        if let Some((batch, late, started_at)) = late.map(|late| late.into_inner().unwrap()) {
            let broker = self.broker.clone();
            drop(self); // its deliveries are not on the wire any more
            broker.listen(batch, late, started_at);
        }
    }

    /// Stores the settlements again until that succeeds, unless the error is final. Without a runtime the process is
    /// ending, and nothing is done.
    fn failed(self, error: &StoreError) {
        not_stored(error, self.records.len());
        if !error.is_final()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(self.store_again());
        }
    }

    async fn store_again(self) {
        tokio::time::sleep(STORE_PAUSE).await;
        let ledger = self.broker.store().ledger.clone();
        let settle = || ledger.settle(Arc::clone(&self.records), self.settled_at);
        if let Some(settled) = until_stored(self.records.len(), settle).await {
            self.stored(&settled);
        }
    }
}

impl Drop for Unstored {
    fn drop(&mut self) {
        let again = || Some(self.broker.clock().now() + DEFECT_PAUSE);
        let next_due = self.next_due.unwrap_or_else(|()| again());
        let ids = self.records.iter().map(|each| each.delivery);
        let (id, count) = (self.subscription.id, self.records.len());
        let must_wake = self.broker.agenda().stored(id, ids, count, next_due);
        if must_wake {
            self.broker.wake().notify_one();
        }
    }
}

impl Broker {
    /// Sends a request, and then further requests of its subscription one after the other, as long as the subscription
    /// waits for a slot. `unstored` tracks the results until they are stored.
    pub(super) async fn deliver(&self, first: Batch, unstored: &TaskTracker) {
        let mut next = Some(first);
        while let Some(batch) = next {
            let turn = self.attempt(batch, unstored).await;
            next = match turn {
                Some(turn) => self.serve(turn, unstored).await.pop(),
                None => None,
            };
        }
    }

    /// Sends one request and settles its deliveries by the result. Returns the next turn of the subscription, if it may
    /// have one at once: the slot is free as soon as the answer arrives, before the result is stored. A request that
    /// could not be sent for lack of a place is not counted as an attempt.
    async fn attempt(&self, batch: Batch, unstored: &TaskTracker) -> Option<DispatchSlot<Due>> {
        let id = batch.subscription.id;
        let mut slot = HeldSlot {
            broker: self,
            subscription: id,
            deliveries: batch.ids(),
            bytes: batch.weight(),
            is_probe: batch.is_probe,
            is_answered: false,
        };
        let started_at = self.clock().now();
        let span = self.delivery_span(&batch, started_at);
        let trace = span.as_ref().map(|span| &span.context);
        let sent = unless_it_panics(self.send(&batch, trace)).await;
        let ended = sent.unwrap_or_else(|reason| Some((self.defect(&batch, &reason), None)));
        let (SendResult { result, late }, enqueued) = ended?;
        let ended_at = self.clock().now();
        let (topic, subscription) = (&batch.topic, &batch.subscription);
        let took = ended_at.since(started_at);
        self.meters().attempted(topic, subscription, &result, took);
        if let Some(span) = span {
            self.end_delivery_span(*span, &result, ended_at);
        }
        let look_again_at = self.observe(&batch, &result, started_at, ended_at);
        let is_success = result.outcome == Outcome::Delivered;
        if result.is_gone() == Some(true) {
            self.disable_gone(subscription, ended_at).await;
        }
        let records = self.settlements(&batch, result, started_at, ended_at);
        slot.is_answered = true;
        let next = self.end_request(&batch, took, is_success);
        let (topic, subscription) = (Arc::clone(topic), Arc::clone(subscription));
        let awaited = late.map(|late| {
            // A late response does not need the events.
            let batch = Batch {
                events: Vec::new(),
                ..batch
            };
            (batch, late, started_at)
        });
        if let Some(at) = look_again_at {
            self.note_due(&[id], at);
        }
        let unsettled = UnstoredSettlements {
            records,
            enqueued,
            settled_at: ended_at,
            late: awaited,
        };
        self.store_all(&topic, &subscription, unsettled, unstored)
            .await;
        next
    }

    /// Sends settlements to the store, in changes of bounded size. A change that fails is repeated alone.
    async fn store_all(
        &self,
        topic: &Arc<TopicEntry>,
        subscription: &Arc<EventSubscription>,
        unsettled: UnstoredSettlements,
        unstored: &TaskTracker,
    ) {
        let UnstoredSettlements {
            mut records,
            mut enqueued,
            settled_at,
            late,
        } = unsettled;
        let mut shared_late = late.map(|late| Arc::new(Mutex::new(late)));
        while !records.is_empty() {
            let rest = records.split_off(records.len().min(self.settled_at_once()));
            let late = if rest.is_empty() {
                shared_late.take()
            } else {
                shared_late.clone()
            };
            let some = Unstored {
                broker: self.clone(),
                topic: Arc::clone(topic),
                subscription: Arc::clone(subscription),
                records: std::mem::replace(&mut records, rest).into(),
                enqueued: enqueued.take(),
                settled_at,
                late,
                next_due: Err(()),
                _stored: unstored.token(),
            };
            some.store().await;
        }
    }

    /// Returns the most settlements that one change stores. Two such changes fit into one group of changes, so that
    /// the group has room for others.
    pub(super) fn settled_at_once(&self) -> usize {
        (self.shared.change_deliveries_max / ROWS_PER_SETTLEMENT).max(1)
    }

    /// Returns the number of changes that store `settlements` settlements.
    pub(super) fn changes_for(&self, settlements: usize) -> usize {
        settlements.div_ceil(self.settled_at_once())
    }

    /// Ends deliveries of a turn without an attempt, and stores that.
    pub(super) async fn end_unsent(
        &self,
        topic: &Arc<TopicEntry>,
        subscription: &Arc<EventSubscription>,
        records: Vec<SettlementRecord>,
        unstored: &TaskTracker,
    ) {
        if records.is_empty() {
            return; // as nearly always
        }
        let changes = self.changes_for(records.len());
        (self.agenda()).answered(subscription.id, records.len(), changes);
        let now = self.clock().now();
        let unsettled = UnstoredSettlements {
            records,
            enqueued: None,
            settled_at: now,
            late: None,
        };
        self.store_all(topic, subscription, unsettled, unstored)
            .await;
    }

    /// Returns the result of a request that panicked: a failed attempt like any other. The retry policy therefore
    /// spaces and limits further attempts.
    fn defect(&self, batch: &Batch, reason: &str) -> SendResult {
        tracing::error!(reason, deliveries = ?batch.ids(), "a delivery panicked");
        self.meters().panicked();
        SendResult {
            result: AttemptResult {
                error: Some(format!("not sent because of a bug in Everpost: {reason}")),
                ..AttemptResult::of(Outcome::GenericError)
            },
            late: None,
        }
    }

    async fn send(
        &self,
        batch: &Batch,
        trace: Option<&TraceContext>,
    ) -> Option<(SendResult, Option<Box<Enqueued>>)> {
        let events: Vec<&StoredEvent> = batch.events.iter().map(AsRef::as_ref).collect();
        let counts = batch.deliveries.iter().map(|each| each.attempts);
        let destination = &batch.subscription.definition.destination;
        let own_deadline = destination.pace().response_deadline;
        let delivery_request = DeliveryRequest {
            subscription: &batch.subscription,
            topic_resource_id: &batch.topic.resource_id,
            events: &events,
            delivery_count: counts.max().unwrap_or(0),
            deadline: own_deadline.unwrap_or(self.options().response_deadline),
        };
        match destination.entity() {
            None => {
                let sent = self.outbound().deliver(delivery_request, trace).await?;
                Some((sent, None))
            }
            // Boxed, so that the futures of other requests do not reserve space for it.
            Some(entity) => Some(Box::pin(self.enqueue(entity.to, &delivery_request)).await),
        }
    }

    /// Updates the health of the receiver by the result of a request. Returns the time of the next turn that the change
    /// of health requires: the end of the probation, or the time of the next probe.
    fn observe(
        &self,
        batch: &Batch,
        result: &AttemptResult,
        started_at: Timestamp,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let id = batch.subscription.id;
        // No health is kept for a deleted subscription.
        self.registry().subscription(id)?;
        let seen = Observation {
            outcome: result.outcome,
            is_gone: result.is_gone(),
            status: result.status(),
            is_probe: batch.is_probe,
        };
        let change = self.health().observe(id, seen, started_at, now);
        self.note_probation(id, change);
        let name = &batch.subscription.name;
        match (change.before.probation, change.after.probation) {
            (None, Some(begun)) => {
                let cause = begun.cause.name();
                tracing::warn!(subscription.name = %name, cause, until = %begun.until,
                    "an event subscription is on probation");
                Some(begun.until)
            }
            (Some(_), Some(goes_on)) => batch.is_probe.then_some(goes_on.until),
            (Some(_), None) => {
                tracing::info!(subscription.name = %name, "a probation has ended");
                Some(now)
            }
            (None, None) => None,
        }
    }

    fn settlements(
        &self,
        batch: &Batch,
        result: AttemptResult,
        started_at: Timestamp,
        now: Timestamp,
    ) -> Vec<SettlementRecord> {
        let definition = &batch.subscription.definition;
        let events = batch.deliveries.len();
        if let Some(events_max) = definition.destination.batch().split(events, result.outcome) {
            let name = &batch.subscription.name;
            tracing::debug!(subscription.name = %name, events, events_max, "a batch is split");
            let split = Settlement::Split { events_max };
            let records = batch.deliveries.iter();
            return records
                .map(|each| SettlementRecord::of(each, split))
                .collect();
        }
        let duration = now.since(started_at);
        // The result applies to the whole batch. A success needs neither the effective retry policy nor random jitter,
        // which take time to determine.
        let (policy, jitter) = if result.outcome == Outcome::Delivered {
            (Cow::Borrowed(&definition.retry_policy), 0.0)
        } else {
            let policy = batch.topic.retry_policy(&batch.subscription);
            (Cow::Owned(policy), self.entropy().jitter())
        };
        let settle_one = |delivery: &Delivery, result: AttemptResult| {
            let attempt = DeliveryAttempt {
                attempt: delivery.attempts + 1,
                started_at,
                duration,
                result,
                late: None,
            };
            let settlement = settle(delivery, &attempt, &policy, self.time_scale(), jitter)
                .for_destination(&definition.dead_letter);
            SettlementRecord {
                counted_for: Some((batch.subscription.id, delivery.published_at, None)),
                attempt: Some(Arc::new(attempt)),
                ..SettlementRecord::of(delivery, settlement)
            }
        };
        let (last, others) = batch
            .deliveries
            .split_last()
            .expect("a batch is never empty");
        let mut settled = Vec::with_capacity(batch.deliveries.len());
        if !others.is_empty() {
            // Thousands of deliveries may share one large response, so all but the last store it cut.
            let cut = result.clone().cut();
            settled.extend(others.iter().map(|each| settle_one(each, cut.clone())));
        }
        settled.push(settle_one(last, result));
        settled
    }

    /// Waits for the late response of a receiver. If [`crate::model::limits::LATE_RESPONSES_MAX`] others are already
    /// waited for, the connection is closed instead.
    fn listen(&self, batch: Batch, listening: LateResponseWait, started_at: Timestamp) {
        let Ok(permit) = Arc::clone(&self.shared.late_responses).try_acquire_owned() else {
            return;
        };
        let broker = self.clone();
        tokio::spawn(async move {
            let _permit = permit;
            tokio::select! {
                result = listening.result() => {
                    if let Some(result) = result {
                        broker.settle_late(&batch, &result, started_at).await;
                    }
                }
                () = broker.stopping() => {}
            }
        });
    }

    /// Records a late response. A success completes the deliveries that wait for their next attempt. An attempt already
    /// in flight is not recalled (rule 7.2).
    async fn settle_late(&self, batch: &Batch, result: &AttemptResult, started_at: Timestamp) {
        let (id, now) = (batch.subscription.id, self.clock().now());
        let is_success = result.outcome == Outcome::Delivered;
        let look_again_at = if is_success {
            self.observe_late(batch, result, started_at, now)
        } else {
            None
        };
        let late = LateResponse {
            outcome: result.outcome,
            status: result.status(),
            after: now.since(started_at),
        };
        let (topic, subscription) = (&batch.topic, &batch.subscription);
        let settle = |some: &[Delivery]| {
            // Some deliveries may be attempted again before the late response is stored.
            let on_the_wire = self.agenda().sent(id);
            let records = some.iter().map(|delivery| {
                let completes = is_success && !on_the_wire.contains(&delivery.id);
                SettlementRecord {
                    delivery: delivery.id,
                    counted_for: Some((id, delivery.published_at, None)),
                    attempts: delivery.attempts + 1,
                    attempt: None,
                    late: Some(late),
                    settlement: completes.then_some(Settlement::Complete),
                }
            });
            self.settle(topic, subscription, records.collect(), now)
        };
        for some in batch.deliveries.chunks(self.settled_at_once()) {
            if let Some(completed) = until_stored(some.len(), || settle(some)).await {
                self.agenda().recall(id, &completed);
            }
        }
        if let Some(at) = look_again_at {
            self.note_due(&[id], at);
        }
    }

    /// Updates the health of the receiver by a late success. It counts like a success in time, but not as the result of
    /// a probe, since that result is already decided.
    fn observe_late(
        &self,
        batch: &Batch,
        result: &AttemptResult,
        started_at: Timestamp,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let batch = Batch {
            is_probe: false,
            ..batch.clone()
        };
        self.observe(&batch, result, started_at, now)
    }
}

/// Repeats a change until it is stored: a full disk may get free space, and the failed commit may have been the fault
/// of another change. Returns `None` only if the store has ended, which leaves the deliveries as they were.
async fn until_stored<T, F>(deliveries: usize, change: impl Fn() -> F) -> Option<T>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut pause = STORE_PAUSE;
    loop {
        let error = match change().await {
            Ok(stored) => return Some(stored),
            Err(error) => error,
        };
        not_stored(&error, deliveries);
        if error.is_final() {
            return None;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(STORE_PAUSE_MAX);
    }
}

fn not_stored(error: &StoreError, deliveries: usize) {
    tracing::error!(%error, deliveries, "a settlement could not be stored");
}

/// Returns the result of `work`, or the message of its panic.
pub(in crate::broker) async fn unless_it_panics<T>(
    work: impl Future<Output = T>,
) -> Result<T, String> {
    let mut work = pin!(work);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(panic) => {
                let owned = panic.downcast_ref::<String>().map(String::as_str);
                let text = owned.or_else(|| panic.downcast_ref::<&str>().copied());
                Poll::Ready(Err(text.unwrap_or("a panic without words").to_owned()))
            }
        }
    })
    .await
}

/// Returns the time at which the first of the deliveries settled at `now` falls due again; `None` if none does.
pub(super) fn next_due(settled: &[SettlementRecord], now: Timestamp) -> Option<Timestamp> {
    let moments = settled.iter().filter_map(|each| match each.settlement? {
        Settlement::Retry { at } => Some(at),
        Settlement::Split { .. } => Some(now),
        Settlement::Complete | Settlement::DeadLetter(_) | Settlement::Drop(_) => None,
    });
    moments.min()
}
