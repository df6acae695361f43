//! One request: its result, the settlement of its deliveries, and late responses.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::dispatch::batch::Batch;
use crate::model::delivery::{
    AttemptResult, Delivery, DeliveryAttempt, DeliveryId, LateResponse, Outcome, Settlement, settle,
};
use crate::model::event::StoredEvent;
use crate::model::probation::Observation;
use crate::model::subscription::SubscriptionId;
use crate::outbound::{DeliveryRequest, LateResponseWait, SendResult};
use crate::store::{SettlementRecord, StoreError};

/// Pause before a settlement that failed is stored again. It doubles each time, so that a settlement that
/// itself undoes its commits does not hold up all others.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// The longest such pause.
const STORE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// When the deliveries of a request that hit a bug are tried again.
const DEFECT_PAUSE: Duration = Duration::from_secs(10);

/// A request's slot, and the leases of its deliveries. Dropping it releases both, however the request ends.
struct Slot<'a> {
    broker: &'a Broker,
    subscription: SubscriptionId,
    deliveries: Vec<DeliveryId>,
    is_probe: bool,
    /// When its deliveries fall due again, if they do; `Err` until the request has ended properly.
    next_due: Result<Option<Timestamp>, ()>,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let next_due = self.next_due.unwrap_or_else(|()| self.cut_off());
        self.broker
            .agenda()
            .end_request(self.subscription, &self.deliveries, next_due);
        // A subscription may wait for this slot.
        self.broker.wake().notify_one();
    }
}

impl Slot<'_> {
    /// The request was dropped, because of a stop or a panic. Its deliveries are still due.
    fn cut_off(&self) -> Option<Timestamp> {
        if std::thread::panicking() {
            tracing::error!(deliveries = ?self.deliveries, "a settlement panicked");
            self.broker.meters().panicked();
        }
        if self.is_probe {
            self.broker.health().end_probe(self.subscription);
        }
        Some(self.broker.clock().now() + DEFECT_PAUSE)
    }
}

impl Broker {
    /// Makes one request and settles its deliveries by the result.
    pub(super) async fn deliver(&self, batch: Batch) {
        let mut slot = Slot {
            broker: self,
            subscription: batch.subscription.id,
            deliveries: batch.ids(),
            is_probe: batch.is_probe,
            next_due: Err(()),
        };
        let started_at = self.clock().now();
        let SendResult { result, late } = match unless_it_panics(self.send(&batch)).await {
            Ok(heard) => heard,
            Err(reason) => self.defect(&batch, &reason),
        };
        let ended_at = self.clock().now();
        let (topic, subscription) = (&batch.topic, &batch.subscription);
        let took = ended_at.since(started_at);
        self.meters().attempted(topic, subscription, &result, took);
        let look_again_at = self.observe(&batch, &result, started_at, ended_at);
        if result.is_gone() == Some(true) {
            self.disable_gone(subscription, ended_at).await;
        }
        let settled = self.settlements(&batch, result, started_at, ended_at);
        let next_due = next_due(&settled);
        // The deliveries stay leased until this is stored, so they are not delivered twice.
        let settle = || self.settle(topic, subscription, settled.clone(), ended_at);
        until_stored(settled.len(), settle).await;
        slot.next_due = Ok(next_due.into_iter().chain(look_again_at).min());
        drop(slot);
        if let Some(listening) = late {
            self.listen(batch, listening, started_at);
        }
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

    async fn send(&self, batch: &Batch) -> SendResult {
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
        self.outbound().deliver(delivery_request).await
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
        let duration = now.since(started_at);
        // One result for the whole batch.
        let jitter = self.entropy().fraction();
        let settle_one = |delivery: &Delivery, result: AttemptResult| {
            let attempt = DeliveryAttempt {
                attempt: delivery.attempts + 1,
                started_at,
                duration,
                result,
                late: None,
            };
            let (policy, scale) = (&definition.retry_policy, self.time_scale());
            let settlement = settle(delivery, &attempt, policy, scale, jitter);
            let settlement = settlement.for_destination(&definition.dead_letter);
            SettlementRecord {
                attempt: Some(Arc::new(attempt)),
                ..SettlementRecord::of(delivery, settlement)
            }
        };
        let (last, others) = batch
            .deliveries
            .split_last()
            .expect("a batch is never empty");
        let mut settled: Vec<_> = others
            .iter()
            .map(|each| settle_one(each, result.clone()))
            .collect();
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
        // The events are not needed any more.
        let batch = Batch {
            events: Vec::new(),
            ..batch
        };
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
        let look_again_at = match is_success {
            true => self.observe_late(batch, result, started_at, now),
            false => None,
        };
        let late = LateResponse {
            outcome: result.outcome,
            status: result.status(),
            after: now.since(started_at),
        };
        let (topic, subscription) = (&batch.topic, &batch.subscription);
        let settle = || {
            // Some may be attempted again before this is stored.
            let on_the_wire = self.agenda().held(id);
            let records = batch.deliveries.iter().map(|delivery| {
                let completes = is_success && !on_the_wire.contains(&delivery.id);
                SettlementRecord {
                    delivery: delivery.id,
                    attempts: delivery.attempts + 1,
                    attempt: None,
                    late: Some(late),
                    settlement: completes.then_some(Settlement::Complete),
                }
            });
            self.settle(topic, subscription, records.collect(), now)
        };
        if let Some(completed) = until_stored(batch.deliveries.len(), settle).await {
            self.agenda()
                .recall(id, |(delivery, _)| !completed.contains(&delivery.id));
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
        tracing::error!(%error, deliveries, "a settlement could not be stored");
        if error.is_final() {
            return None;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(STORE_PAUSE_MAX);
    }
}

/// The result of `work`, or the message of its panic.
async fn unless_it_panics<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = pin!(work);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Poll::Ready(Err(text.unwrap_or("a panic without words").to_owned()))
            }
        }
    })
    .await
}

/// When the first of the settled deliveries falls due again.
pub(super) fn next_due(settled: &[SettlementRecord]) -> Option<Timestamp> {
    let moments = settled.iter().filter_map(|each| match each.settlement? {
        Settlement::Retry { at } => Some(at),
        Settlement::Complete | Settlement::DeadLetter(_) | Settlement::Drop(_) => None,
    });
    moments.min()
}
