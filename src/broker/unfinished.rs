//! Work that is left of requests that were answered: creating the deliveries of large publish requests, and
//! ending what deleted subscriptions have left.
//!
//! It is done in batches, changes of bounded size between those of others, and goes on after a crash, since the store
//! knows what is left. As long as deliveries of a topic are still to be created, those of further requests to it are
//! put behind, so that each subscription gets its events in their order.

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

/// The work that is left, as far as it must be known in memory.
pub(super) struct Unfinished {
    /// The topics of which the store has, or may have, events whose deliveries are still to be created.
    topics: Mutex<BTreeMap<TopicId, Deferring>>,
    /// Is true if deleted subscriptions may have left something.
    has_deleted: AtomicBool,
    wake: Notify,
}

/// Requests of a topic whose deliveries are created later.
#[derive(Default)]
struct Deferring {
    /// How many are being stored.
    arriving: usize,
    /// Is true if the store may have such a request.
    has_arrived: bool,
}

/// A request that is being stored, and whose deliveries are created later. Dropped when it is stored, or is not.
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
    /// Creates it at a start, with the topics that the store has deliveries to create for.
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

    /// Nothing is left for a topic, unless something has arrived, or is about to.
    fn forget(&self, topic: TopicId) {
        let mut topics = self.topics();
        let is_over = |each: &Deferring| each.arriving == 0 && !each.has_arrived;
        if topics.get(&topic).is_some_and(is_over) {
            topics.remove(&topic);
        }
    }

    /// Returns whether nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.topics().is_empty() && !self.has_deleted.load(Ordering::Relaxed)
    }

    fn topics(&self) -> MutexGuard<'_, BTreeMap<TopicId, Deferring>> {
        self.topics.lock().unwrap()
    }
}

impl Broker {
    /// Enters a request whose deliveries are created later, because they must be or because others of the topic come
    /// first. `None` if they are created with it.
    pub(super) fn defer(&self, topic: TopicId, must: bool) -> Option<Arriving> {
        let mut topics = self.shared.unfinished.topics();
        if !must && !topics.contains_key(&topic) {
            return None; // as nearly always
        }
        topics.entry(topic).or_default().arriving += 1;
        let broker = self.clone();
        Some(Arriving { broker, topic })
    }

    /// Starts to end what deleted subscriptions have left.
    pub(super) fn note_deleted(&self) {
        let unfinished = &self.shared.unfinished;
        unfinished.has_deleted.store(true, Ordering::Relaxed);
        unfinished.wake.notify_one();
    }

    /// Does what is left until the broker stops.
    pub async fn run_unfinished(self) {
        loop {
            let stopwatch = Stopwatch::begin();
            let done = self.finish_some().await;
            let again = async {
                match done {
                    // As long as it took, so that others have the writer for half of the time.
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

    /// Does all that is left: for tests.
    pub async fn finish(&self) -> Result<(), StoreError> {
        while !self.is_stopping() && self.finish_some().await? {}
        Ok(())
    }

    /// Does a batch of each in turn. Returns whether there may be more.
    async fn finish_some(&self) -> Result<bool, StoreError> {
        let topics: Vec<_> = {
            let topics = self.shared.unfinished.topics();
            let arrived = topics.iter().filter(|(_, each)| each.has_arrived);
            arrived.map(|(topic, _)| *topic).collect()
        };
        let mut done = self.end_some_of_deleted().await;
        for topic in &topics {
            // The trouble of one must not stop the others.
            done = self.fan_out_some(*topic).await.and(done);
        }
        Ok(done? || !topics.is_empty())
    }

    /// One batch of the deliveries of a topic.
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
            // Only now, so that what is published next is handed over behind it.
            self.shared.unfinished.forget(topic);
        } else {
            note(true);
        }
        Ok(())
    }

    /// One batch of what deleted subscriptions have left. Returns whether there may be more.
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
