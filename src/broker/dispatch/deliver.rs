//! One request: its result, the settlement of its deliveries, and late responses.

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

/// Pause before a settlement that failed is stored again. It doubles each time, so that a settlement that
/// itself undoes its commits does not hold up all others.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// The longest such pause.
const STORE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Rows that a settlement writes at most: the delivery, its attempt, and what a dead letter is searched by and says.
const ROWS_PER_SETTLEMENT: usize = 4;

/// When the deliveries of a request that hit a bug are tried again.
const DEFECT_PAUSE: Duration = Duration::from_secs(10);

/// A request's slot, and the leases of its deliveries, until it is answered. Dropping it releases both.
struct Slot<'a> {
    broker: &'a Broker,
    subscription: SubscriptionId,
    deliveries: Vec<DeliveryId>,
    bytes: usize,
    is_probe: bool,
    is_answered: bool,
}

impl Drop for Slot<'_> {
    /// The request was dropped, because of a stop or a panic, or not made. Its deliveries are still due.
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

/// A response that may still come to the request of a batch, and the beginning of its attempt.
type Late = (Batch, LateResponseWait, Timestamp);

/// Settlements that are to be stored.
struct Unsettled {
    records: Vec<SettlementRecord>,
    /// The messages that they are, where the destination is in this appliance.
    enqueued: Option<Box<Enqueued>>,
    settled_at: Timestamp,
    /// The response that may still come.
    late: Option<Late>,
}

/// Deliveries that are answered, or end without an attempt, until that is stored. They stay leased, so that they
/// are not sent twice. Dropping it releases them.
struct Unstored {
    broker: Broker,
    topic: Arc<TopicEntry>,
    subscription: Arc<EventSubscription>,
    records: Arc<[SettlementRecord]>,
    /// The messages that they are, where the destination is in this appliance.
    enqueued: Option<Box<Enqueued>>,
    settled_at: Timestamp,
    /// The response that may still come. Whoever is the last of a request to be stored waits for it.
    late: Option<Arc<Mutex<Late>>>,
    /// When they fall due again, if they do; `Err` until they are stored.
    next_due: Result<Option<Timestamp>, ()>,
    /// Keeps a stop waiting.
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
                // Nothing has happened: they are released, and attempted again.
                Err(error) => not_stored(&error, self.records.len()),
            };
            let Enqueued {
                messages,
                then: arrived,
            } = *enqueued;
            let stored = ledger.settle_with(records, (messages, arrived), at, then);
            return drop(stored.await);
        }
        let then = |result: Result<Vec<Settled>, StoreError>| match result {
            Ok(settled) => self.stored(&settled),
            Err(error) => self.failed(&error),
        };
        // It fails when the store has ended, which leaves the deliveries as they were.
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

    /// Stores the settlements again, until there is room for them. Without a runtime the process is ending.
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
    /// Makes one request, and then one after the other as long as its subscription waits for a slot. `unstored`
    /// has ended only when their results are stored.
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

    /// Makes one request and has its deliveries settled by the result. Returns the next turn of the subscription, if
    /// it may have one straight away: the slot ends with the answer, not with its being stored. A request that there was
    /// no place for counts as none.
    async fn attempt(&self, batch: Batch, unstored: &TaskTracker) -> Option<DispatchSlot<Due>> {
        let id = batch.subscription.id;
        let mut slot = Slot {
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
            // The events are not needed any more.
            let batch = Batch {
                events: Vec::new(),
                ..batch
            };
            (batch, late, started_at)
        });
        if let Some(at) = look_again_at {
            self.note_due(&[id], at);
        }
        let unsettled = Unsettled {
            records,
            enqueued,
            settled_at: ended_at,
            late: awaited,
        };
        self.store_all(&topic, &subscription, unsettled, unstored)
            .await;
        next
    }

    /// Sends settlements to the store, in changes of bounded size. Each is repeated alone if it fails.
    async fn store_all(
        &self,
        topic: &Arc<TopicEntry>,
        subscription: &Arc<EventSubscription>,
        unsettled: Unsettled,
        unstored: &TaskTracker,
    ) {
        let Unsettled {
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

    /// How many settlements one change stores. Two of these fit into a group, so that it has room for others.
    pub(super) fn settled_at_once(&self) -> usize {
        (self.shared.change_deliveries_max / ROWS_PER_SETTLEMENT).max(1)
    }

    /// How many changes store so many settlements.
    pub(super) fn changes_for(&self, settlements: usize) -> usize {
        settlements.div_ceil(self.settled_at_once())
    }

    /// Ends deliveries of a turn without an attempt.
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
        let unsettled = Unsettled {
            records,
            enqueued: None,
            settled_at: now,
            late: None,
        };
        self.store_all(topic, subscription, unsettled, unstored)
            .await;
    }

    /// The result of a request that could not be made because of a bug: a failed attempt like any other, so
    /// that it is retried with pauses and not for ever.
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
            // Apart, so that requests do not take its room.
            Some(entity) => Some(Box::pin(self.enqueue(entity.to, &delivery_request)).await),
        }
    }

    /// Updates the health of the receiver. Returns when the subscription should have its next turn because of
    /// it: when its probation ends, or its next probe is due.
    fn observe(
        &self,
        batch: &Batch,
        result: &AttemptResult,
        started_at: Timestamp,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let id = batch.subscription.id;
        // The health of a deleted subscription is not needed.
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
        // One result for the whole batch. What succeeded is not tried again: policy and randomness cost.
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
            // Thousands of deliveries may have the same large response.
            let cut = result.clone().cut();
            settled.extend(others.iter().map(|each| settle_one(each, cut.clone())));
        }
        settled.push(settle_one(last, result));
        settled
    }

    /// Waits for the late response of a receiver. Beyond [`crate::model::limits::LATE_RESPONSES_MAX`] the
    /// connection is closed instead.
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

    /// Records a late response. A success completes deliveries that wait for their next attempt; an attempt
    /// that is on the wire is not recalled (rule 7.2).
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
            // Some may be attempted again before this is stored.
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

    /// A late success counts like one in time, but not as the result of a probe, which has been decided
    /// already.
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

/// Repeats a change until it is stored: a full disk may get room, and another change may have undone the
/// commit. Gives up (`None`) only when the store has ended, which leaves the deliveries as they were.
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

/// The result of `work`, or the message of its panic.
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

/// When the first of the deliveries that were settled at `now` falls due again.
pub(super) fn next_due(settled: &[SettlementRecord], now: Timestamp) -> Option<Timestamp> {
    let moments = settled.iter().filter_map(|each| match each.settlement? {
        Settlement::Retry { at } => Some(at),
        Settlement::Split { .. } => Some(now),
        Settlement::Complete | Settlement::DeadLetter(_) | Settlement::Drop(_) => None,
    });
    moments.min()
}
