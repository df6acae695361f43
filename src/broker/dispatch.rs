//! The dispatcher: take a subscription whose turn it is, lease what is due, deliver, settle, sleep.
//!
//! The loop registers for the wake-up before it looks for work, so that nothing noted in between is
//! slept over; and it looks again now and then without being woken, so that nothing can be forgotten.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::agenda::Turn;
use crate::model::delivery::{
    Answer, Delivery, DeliveryAttempt, DeliveryId, Settlement, admit, settle,
};
use crate::model::destination::{AttributeValue, Destination, WebHook};
use crate::model::event::StoredEvent;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::outbound::Shipment;
use crate::store::{LeaseRequest, Leased, Settled, StoreError};
use crate::wire::attribute::dynamic_value;

/// The longest sleep without looking at the store.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Deliveries read in one turn: enough for a batch of the greatest size.
const LEASE_MAX: usize = 5_000;

/// Deliveries leased although there is no slot for them yet: as many as a busy subscription ends before
/// the store has answered once.
const LEASE_AHEAD: usize = 128;

/// Bytes of events leased in one turn: a batch of the greatest size, or one event of it.
const LEASE_BYTES_MAX: usize = 1_024 * 1_024;

/// Pause before a settlement that the store could not take is offered again.
const SETTLE_PAUSE: Duration = Duration::from_secs(1);

/// A delivery that is due, with its event.
pub(super) type Due = (Delivery, Arc<StoredEvent>);

/// What a turn comes to.
struct Filled {
    batches: Vec<Batch>,
    waiting: Vec<Due>,
    next_due: Option<Timestamp>,
}

/// One request to one subscription: its deliveries and their events, in the same order.
#[derive(Clone, Debug)]
struct Batch {
    topic: Arc<TopicEntry>,
    subscription: Arc<EventSubscription>,
    deliveries: Vec<Delivery>,
    events: Vec<Arc<StoredEvent>>,
}

impl Batch {
    fn ids(&self) -> Vec<DeliveryId> {
        self.deliveries.iter().map(|delivery| delivery.id).collect()
    }
}

impl Broker {
    /// Serves due deliveries until the broker stops. Requests run as tasks of `requests`.
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

    /// Starts the requests of every turn that can be taken now. What a turn has found is on its way before
    /// the next one is taken, so that nobody waits for a backlog that is given up bite by bite.
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
        // A millisecond is the clock's grain: sleeping to its end avoids waking just before.
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

    /// Notes what the store knows to be due, for every subscription that may deliver.
    pub async fn refresh_agenda(&self) {
        let registry = self.registry();
        let active = registry
            .subscriptions()
            .filter(|(_, each)| each.may_deliver())
            .map(|(_, each)| each.id)
            .collect();
        match self.store().deliveries.agenda(active).await {
            Ok(agenda) => {
                for (subscription, at) in agenda {
                    self.note_due(&[subscription], at);
                }
            }
            Err(error) => tracing::warn!(%error, "the agenda could not be refreshed"),
        }
    }

    /// Serves everything that is due now, one request after the other, on the caller's task: for
    /// simulations, which bring their own time.
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
        let turn = self.agenda().take(self.clock().now())?;
        Some(self.serve(turn).await)
    }

    async fn serve(&self, turn: Turn<Due>) -> Vec<Batch> {
        let registry = self.registry();
        let found = registry.subscription(turn.subscription);
        let Some((topic, subscription)) = found.filter(|(_, each)| each.may_deliver()) else {
            // Deleted, or waiting for its handshake: whoever lets it deliver again notes it.
            self.agenda()
                .end_turn(turn.subscription, &[], Vec::new(), None);
            return Vec::new();
        };
        let id = turn.subscription;
        match self.fill_turn(topic, subscription, turn).await {
            Ok(Filled {
                batches,
                waiting,
                next_due,
            }) => {
                let started: Vec<_> = batches.iter().map(Batch::ids).collect();
                self.agenda().end_turn(id, &started, waiting, next_due);
                batches
            }
            Err(error) => {
                tracing::error!(%error, subscription.name = %subscription.name,
                    "due deliveries could not be read");
                let again = self.clock().now() + SETTLE_PAUSE;
                self.agenda().end_turn(id, &[], Vec::new(), Some(again));
                Vec::new()
            }
        }
    }

    /// Leases what the turn can use, and a little ahead, so that the next turns need not ask the store.
    async fn fill_turn(
        &self,
        topic: &Arc<TopicEntry>,
        subscription: &Arc<EventSubscription>,
        turn: Turn<Due>,
    ) -> Result<Filled, StoreError> {
        let Destination::WebHook(webhook) = &subscription.definition.destination;
        let now = self.clock().now();
        let wanted = (webhook.batch.events_max() * turn.slots).min(LEASE_MAX);
        let (mut due, mut next_due) = (turn.waiting, Some(now));
        if due.len() < wanted {
            let leased = self
                .lease(subscription.id, &due, wanted.max(LEASE_AHEAD))
                .await?;
            due.extend(leased.deliveries);
            next_due = leased.next_due;
        }
        let (due, given_up) = self.admitted(due, subscription, now);
        if !given_up.is_empty() {
            self.meters().settled(topic, subscription, &given_up);
            self.store().deliveries.settle(given_up, now).await?;
        }
        let (batches, waiting) = group(topic, subscription, webhook, due, turn.slots);
        if !waiting.is_empty() {
            next_due = Some(now);
        }
        Ok(Filled {
            batches,
            waiting,
            next_due,
        })
    }

    async fn lease(
        &self,
        subscription: SubscriptionId,
        waiting: &[Due],
        limit: usize,
    ) -> Result<Leased, StoreError> {
        let mut held = self.agenda().held(subscription);
        held.extend(waiting.iter().map(|(delivery, _)| delivery.id));
        let request = LeaseRequest {
            subscription,
            now: self.clock().now(),
            limit: limit.saturating_sub(waiting.len()),
            bytes_max: LEASE_BYTES_MAX,
            held,
        };
        self.store().deliveries.lease(request).await
    }

    /// Parts what may be attempted from what has outlived its policy.
    fn admitted(
        &self,
        due: Vec<Due>,
        subscription: &EventSubscription,
        now: Timestamp,
    ) -> (Vec<Due>, Vec<Settled>) {
        let policy = &subscription.definition.retry_policy;
        let mut given_up = Vec::new();
        let admitted = due
            .into_iter()
            .filter(
                |(delivery, _)| match admit(delivery, policy, now, self.time_scale()) {
                    Ok(()) => true,
                    Err(reason) => {
                        let settlement = Settlement::DeadLetter(reason)
                            .kept_by(&subscription.definition.dead_letter);
                        let delivery = delivery.id;
                        given_up.push(Settled {
                            delivery,
                            attempt: None,
                            settlement,
                        });
                        false
                    }
                },
            )
            .collect();
        (admitted, given_up)
    }

    /// Makes one request and settles its deliveries by the answer.
    async fn deliver(&self, batch: Batch) {
        let started_at = self.clock().now();
        let events: Vec<&StoredEvent> = batch.events.iter().map(AsRef::as_ref).collect();
        let heard = self
            .outbound()
            .deliver(Shipment {
                subscription: &batch.subscription,
                topic_resource_id: &batch.topic.resource_id,
                events: &events,
                delivery_count: batch
                    .deliveries
                    .iter()
                    .map(|each| each.attempts)
                    .max()
                    .unwrap_or(0),
                deadline: self.options().response_deadline,
            })
            .await;
        let answer = heard.answer;
        let ended_at = self.clock().now();
        self.meters().attempted(
            &batch.topic,
            &batch.subscription,
            &answer,
            ended_at.since(started_at),
        );
        let settled = self.settlements(&batch, answer, started_at, ended_at);
        let next_due = next_due(&settled);
        self.meters()
            .settled(&batch.topic, &batch.subscription, &settled);
        self.settle_for_sure(settled, ended_at).await;
        self.end_request(batch.subscription.id, &batch.ids(), next_due);
    }

    fn settlements(
        &self,
        batch: &Batch,
        answer: Answer,
        started_at: Timestamp,
        now: Timestamp,
    ) -> Vec<Settled> {
        let definition = &batch.subscription.definition;
        let duration = now.since(started_at);
        // One answer serves the whole batch.
        let jitter = self.entropy().fraction();
        let settle_one = |delivery: &Delivery, answer: Answer| {
            let attempt = delivery.attempts + 1;
            let policy = &definition.retry_policy;
            let scale = self.time_scale();
            let settlement = settle(delivery, &answer, policy, now, scale, jitter)
                .kept_by(&definition.dead_letter);
            let attempt = Arc::new(DeliveryAttempt {
                attempt,
                started_at,
                duration,
                answer,
                late: None,
            });
            Settled {
                delivery: delivery.id,
                attempt: Some(attempt),
                settlement,
            }
        };
        let (last, others) = batch
            .deliveries
            .split_last()
            .expect("a batch is never empty");
        let mut settled: Vec<_> = others
            .iter()
            .map(|each| settle_one(each, answer.clone()))
            .collect();
        settled.push(settle_one(last, answer));
        settled
    }

    /// Stores settlements, however long a full disk takes to get room. The deliveries stay leased in the
    /// meantime, so nobody delivers them twice; a stop or a crash leaves them due.
    async fn settle_for_sure(&self, settled: Vec<Settled>, now: Timestamp) {
        while let Err(error) = self.store().deliveries.settle(settled.clone(), now).await {
            tracing::error!(%error, deliveries = settled.len(), "a settlement could not be stored");
            if error != StoreError::Full || self.is_stopping() {
                return;
            }
            tokio::time::sleep(SETTLE_PAUSE).await;
        }
    }

    fn end_request(
        &self,
        subscription: SubscriptionId,
        deliveries: &[DeliveryId],
        next_due: Option<Timestamp>,
    ) {
        self.agenda()
            .end_request(subscription, deliveries, next_due);
        // The freed slot may be what somebody waits for.
        self.wake().notify_one();
    }
}

fn next_due(settled: &[Settled]) -> Option<Timestamp> {
    let moments = settled.iter().filter_map(|each| match each.settlement {
        Settlement::Retry { at } => Some(at),
        Settlement::Complete | Settlement::DeadLetter(_) | Settlement::Drop(_) => None,
    });
    moments.min()
}

/// What all deliveries of one request share (spec A).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kinship {
    /// So that `aeg-delivery-count` is exact.
    attempts: u32,
    /// The values of the subscription's dynamic headers.
    headers: Vec<Option<String>>,
}

/// Fills up to `slots` requests, each beginning with what has waited longest and joined by what is akin to
/// it; the rest waits, in the same order.
fn group(
    topic: &Arc<TopicEntry>,
    subscription: &Arc<EventSubscription>,
    webhook: &WebHook,
    due: Vec<Due>,
    slots: usize,
) -> (Vec<Batch>, Vec<Due>) {
    let mut due: Vec<(Kinship, Due)> = due
        .into_iter()
        .map(|each| (kinship(topic, webhook, &each), each))
        .collect();
    let mut batches = Vec::new();
    while batches.len() < slots
        && let Some(first) = due.first().map(|(kinship, _)| kinship.clone())
    {
        let akin = due.iter().filter(|(kinship, _)| *kinship == first);
        let sizes = akin.map(|(_, (_, event))| event.event.size());
        let mut room = webhook.batch.fill(sizes);
        let (taken, rest): (Vec<_>, Vec<_>) = due.into_iter().partition(|(kinship, _)| {
            let fits = room > 0 && *kinship == first;
            room -= usize::from(fits);
            fits
        });
        due = rest;
        let (deliveries, events) = taken.into_iter().map(|(_, each)| each).unzip();
        batches.push(Batch {
            topic: Arc::clone(topic),
            subscription: Arc::clone(subscription),
            deliveries,
            events,
        });
    }
    let waiting = due.into_iter().map(|(_, each)| each).collect();
    (batches, waiting)
}

fn kinship(topic: &TopicEntry, webhook: &WebHook, (delivery, event): &Due) -> Kinship {
    if !webhook.batch.is_on() {
        return Kinship::default(); // each goes alone
    }
    let headers = webhook.attribute_mappings.iter();
    let headers = headers.filter_map(|mapping| match &mapping.value {
        AttributeValue::Static { .. } => None,
        AttributeValue::Dynamic { source_field } => Some(dynamic_value(
            &event.event,
            &topic.resource_id,
            source_field,
        )),
    });
    Kinship {
        attempts: delivery.attempts,
        headers: headers.collect(),
    }
}
