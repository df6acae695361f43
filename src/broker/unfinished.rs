//! What is left to be done of requests that were answered: the deliveries of large publish requests.
//!
//! It is done in bites, changes of bounded size between those of others, and goes on after a crash, since the store
//! knows what is left. As long as something is left for a topic, the deliveries of further requests to it are put
//! behind, so that each subscription gets its events in their order.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::broker::Broker;
use crate::broker::dispatch::STORE_PAUSE;
use crate::broker::publish::Arrival;
use crate::model::topic::TopicId;
use crate::store::StoreError;

/// What is left, as far as it must be known in memory.
#[derive(Default)]
pub(super) struct Unfinished {
    /// The topics of which the store has, or may have, events whose deliveries are still to be created.
    topics: Mutex<BTreeMap<TopicId, Deferring>>,
    wake: Notify,
}

/// Requests of a topic whose deliveries are created later.
#[derive(Default)]
struct Deferring {
    /// How many are being stored.
    arriving: usize,
    /// Whether one was stored, or was not, since the last bite began.
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
    /// As the store was left.
    pub(super) fn of(topics: Vec<TopicId>) -> Self {
        let unfinished = Self::default();
        let known = topics
            .into_iter()
            .map(|topic| (topic, Deferring::default()));
        unfinished.topics().extend(known);
        unfinished
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

    /// Does what is left until the broker stops.
    pub async fn run_unfinished(self) {
        loop {
            let again = match self.finish().await {
                Ok(()) => None,
                Err(error) => {
                    tracing::warn!(%error, "what is left of earlier requests could not be done and will be retried");
                    Some(tokio::time::sleep(STORE_PAUSE))
                }
            };
            let woken = async {
                match again {
                    None => self.shared.unfinished.wake.notified().await,
                    Some(pause) => pause.await,
                }
            };
            tokio::select! {
                () = woken => {}
                () = self.stopping() => return,
            }
        }
    }

    /// Does all that is left, in turn for each topic. Tests call it themselves.
    pub async fn finish(&self) -> Result<(), StoreError> {
        let mut trouble = Ok(());
        while !self.is_stopping() && trouble.is_ok() {
            let topics: Vec<_> = self.shared.unfinished.topics().keys().copied().collect();
            if topics.is_empty() {
                break;
            }
            for topic in topics {
                // The trouble of one must not stop the others.
                trouble = self.fan_out_some(topic).await.and(trouble);
            }
        }
        trouble
    }

    /// One bite of the deliveries of a topic.
    async fn fan_out_some(&self, topic: TopicId) -> Result<(), StoreError> {
        if let Some(deferring) = self.shared.unfinished.topics().get_mut(&topic) {
            deferring.has_arrived = false;
        }
        let limit = self.options().change_deliveries_max;
        let done = self.store().ledger.fan_out(topic, limit).await?;
        if let Some(entry) = self.registry().topic_by_id(topic) {
            self.arrived(entry, Arrival::later(topic, done.targets));
        }
        // Only now, so that what is published next is handed over behind it.
        if done.is_end {
            let mut topics = self.shared.unfinished.topics();
            let is_over = |each: &Deferring| each.arriving == 0 && !each.has_arrived;
            if topics.get(&topic).is_some_and(is_over) {
                topics.remove(&topic);
            }
        }
        Ok(())
    }
}
