//! Recording of rejected publish requests without delaying publishers.
//!
//! A rejection is queued while the publisher gets its response. The janitor stores the queue once a second. The queue
//! is short, so that a faulty publisher cannot cause many writes.

use std::sync::Mutex;

use crate::broker::Broker;
use crate::model::limits::{
    REJECTIONS_MAX, REJECTIONS_PER_SECOND_MAX, REJECTIONS_PER_SECOND_OF_TOPIC_MAX,
};
use crate::model::rejection::Rejection;

/// Rejections that are not stored yet.
#[derive(Default)]
pub(in crate::broker) struct UnstoredRejections(Mutex<Vec<Rejection>>);

impl UnstoredRejections {
    /// Queues `rejection` unless the queue is full, in total or for its topic. Returns whether it was queued.
    fn take(&self, rejection: Rejection) -> bool {
        let mut waiting = self.0.lock().unwrap();
        let same_topic = waiting.iter().filter(|each| each.topic == rejection.topic);
        let has_room = waiting.len() < REJECTIONS_PER_SECOND_MAX
            && same_topic.count() < REJECTIONS_PER_SECOND_OF_TOPIC_MAX;
        if has_room {
            waiting.push(rejection);
        }
        has_room
    }

    fn drain(&self) -> Vec<Rejection> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Broker {
    /// Queues a rejected publish request for recording, unless there were too many in this second. Never waits.
    pub fn note_rejection(&self, rejection: Rejection) {
        if !self.shared.rejections.take(rejection) {
            self.meters().rejections_lost("TooMany", 1);
        }
    }

    /// Stores the queued rejections; the janitor does so every second.
    pub async fn store_rejections(&self) {
        let rejections = self.shared.rejections.drain();
        let count = rejections.len();
        if count == 0 {
            return;
        }
        // The remaining disk space is reserved for events.
        if self.disk_is_low() {
            self.meters().rejections_lost("DiskLow", count);
            return;
        }
        let kept = self.store().rejections.keep(rejections, REJECTIONS_MAX);
        match kept.await {
            Ok(()) => self.meters().rejections_kept(count),
            Err(error) => {
                tracing::warn!(%error, count, "rejected publish requests could not be stored");
                self.meters().rejections_lost("StoreError", count);
            }
        }
    }
}
