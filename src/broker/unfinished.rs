//! Background work for requests that were already answered: creating the deliveries of large publish requests, and
//! ending the deliveries of deleted subscriptions.
//!
//! The work runs in batches of bounded size, between the changes of other callers. It resumes after a crash, since the
//! store records the remaining work. While deliveries of a topic are still to be created, deliveries of further
//! requests to the topic are created later too, so that each subscription gets its events in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::base::Stopwatch;
use crate::broker::Broker;
use crate::broker::dispatch::STORE_PAUSE;
use crate::broker::publish::Arrival;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::{DiscardRequest, StoreError};

/// In-memory state of the background work.
pub(super) struct Unfinished {
    /// Topics for which the store has, or may have, events whose deliveries are still to be created.
    topics: Mutex<BTreeMap<TopicId, Deferring>>,
    /// Is true if deliveries of deleted subscriptions may still have to be ended.
    has_deleted: AtomicBool,
    wake: Notify,
}

/// Requests of a topic whose deliveries are created later.
#[derive(Default)]
struct Deferring {
    /// Number of requests that are being stored.
    arriving: usize,
    /// Is true if the store may have a request whose deliveries are still to be created.
    has_arrived: bool,
}

/// A request that is being stored and whose deliveries are created later. Dropped when storing succeeds or fails.
pub(super) struct Arriving {
    broker: Broker,
    topic: TopicId,
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let unfinished = &self.broker.shared.unfinished;
        if let Some(deferring) = unfinished.topics().get_mut(&self.topic) {
            deferring.arriving -= 1;
            deferring.has_arrived = true;
        }
        unfinished.wake.notify_one();
    }
}

impl Unfinished {
    /// Creates the state at startup from the topics whose deliveries are still to be created.
    pub(super) fn of(topics: Vec<TopicId>) -> Self {
        let arrived = || Deferring {
            arriving: 0,
            has_arrived: true,
        };
        Self {
            topics: Mutex::new(topics.into_iter().map(|topic| (topic, arrived())).collect()),
            has_deleted: AtomicBool::new(true),
            wake: Notify::new(),
        }
    }

    /// Forgets a topic, unless a further request of the topic is being stored or was stored.
    fn forget(&self, topic: TopicId) {
        let mut topics = self.topics();
        let is_over = |each: &Deferring| each.arriving == 0 && !each.has_arrived;
        if topics.get(&topic).is_some_and(is_over) {
            topics.remove(&topic);
        }
    }

    /// Returns whether no work remains.
    pub(super) fn is_done(&self) -> bool {
        self.topics().is_empty() && !self.has_deleted.load(Ordering::Relaxed)
    }

    fn topics(&self) -> MutexGuard<'_, BTreeMap<TopicId, Deferring>> {
        self.topics.lock().unwrap()
    }
}

impl Broker {
    /// Registers a request whose deliveries are created later: either `must` is true, or deliveries of earlier requests
    /// to the topic come first. Returns `None` if the deliveries are created together with the events.
    pub(super) fn defer(&self, topic: TopicId, must: bool) -> Option<Arriving> {
        let mut topics = self.shared.unfinished.topics();
        if !must && !topics.contains_key(&topic) {
            return None; // as nearly always
        }
        topics.entry(topic).or_default().arriving += 1;
        let broker = self.clone();
        Some(Arriving { broker, topic })
    }

    /// Starts to end the deliveries of deleted subscriptions.
    pub(super) fn note_deleted(&self) {
        let unfinished = &self.shared.unfinished;
        unfinished.has_deleted.store(true, Ordering::Relaxed);
        unfinished.wake.notify_one();
    }

    /// Runs the background work until the broker stops.
    pub async fn run_unfinished(self) {
        loop {
            let stopwatch = Stopwatch::begin();
            let done = self.finish_some().await;
            let again = async {
                match done {
                    // Sleeps for the time that the batch took, so that other changes have the writer half of the time.
                    Ok(true) => tokio::time::sleep(stopwatch.took()).await,
                    Ok(false) => self.shared.unfinished.wake.notified().await,
                    Err(error) => {
                        tracing::warn!(%error, "what earlier requests have left to be done will be retried");
                        tokio::time::sleep(STORE_PAUSE).await;
                    }
                }
            };
            tokio::select! {
                () = again => {}
                () = self.stopping() => return,
            }
        }
    }

    /// Runs all remaining work; for tests.
    pub async fn finish(&self) -> Result<(), StoreError> {
        while !self.is_stopping() && self.finish_some().await? {}
        Ok(())
    }

    /// Runs one batch for deleted subscriptions and one for each topic. Returns whether more work may remain.
    async fn finish_some(&self) -> Result<bool, StoreError> {
        let topics: Vec<_> = {
            let topics = self.shared.unfinished.topics();
            let arrived = topics.iter().filter(|(_, each)| each.has_arrived);
            arrived.map(|(topic, _)| *topic).collect()
        };
        let mut done = self.end_some_of_deleted().await;
        for topic in &topics {
            // An error of one topic must not stop the other topics.
            done = self.fan_out_some(*topic).await.and(done);
        }
        Ok(done? || !topics.is_empty())
    }

    /// Creates one batch of the deliveries of a topic.
    async fn fan_out_some(&self, topic: TopicId) -> Result<(), StoreError> {
        let note = |has_arrived| {
            if let Some(deferring) = self.shared.unfinished.topics().get_mut(&topic) {
                deferring.has_arrived = has_arrived;
            }
        };
        note(false);
        let limit = self.shared.change_deliveries_max;
        let fanned_out = self.store().ledger.fan_out(topic, limit).await;
        let done = fanned_out.inspect_err(|_| note(true))?;
        let registry = self.registry();
        let exists = |id: &SubscriptionId| registry.subscription(*id).is_some();
        if !done.targets.iter().all(exists) {
            self.note_deleted();
        }
        if let Some(entry) = registry.topic_by_id(topic) {
            self.arrived(entry, Arrival::later(topic, done.targets));
        }
        if done.is_end {
            // Forgets the topic only after the handover, so that deliveries of later requests follow.
            self.shared.unfinished.forget(topic);
        } else {
            note(true);
        }
        Ok(())
    }

    /// Ends one batch of the deliveries of deleted subscriptions. Returns whether more may remain.
    async fn end_some_of_deleted(&self) -> Result<bool, StoreError> {
        if !self
            .shared
            .unfinished
            .has_deleted
            .swap(false, Ordering::Relaxed)
        {
            return Ok(false);
        }
        let (limit, now) = (self.shared.change_deliveries_max, self.clock().now());
        let ledger = &self.store().ledger;
        let discarded = ledger.discard(DiscardRequest::OfDeleted, limit, now).await;
        let ended = discarded.inspect_err(|_| self.note_deleted())?;
        self.meters().ended_with_subscription(ended);
        let has_more = ended.count() > 0;
        if has_more {
            self.shared
                .unfinished
                .has_deleted
                .store(true, Ordering::Relaxed);
        }
        Ok(has_more)
    }
}
