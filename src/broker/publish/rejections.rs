//! Keeping what was refused, off the publishers' path.
//!
//! A refusal is put on a short list and the publisher has its answer; the janitor stores the list once
//! a second. The list is short because that bounds how much a broken publisher can write.

use std::sync::Mutex;

use crate::broker::Broker;
use crate::model::limits::{
    REJECTIONS_MAX, REJECTIONS_PER_SECOND_MAX, REJECTIONS_PER_SECOND_OF_TOPIC_MAX,
};
use crate::model::rejection::Rejection;

/// Refusals that wait to be stored.
#[derive(Default)]
pub(in crate::broker) struct Waiting(Mutex<Vec<Rejection>>);

impl Waiting {
    /// Takes `rejection` unless there are enough already.
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
    /// Remembers a refused publish request, unless this second has seen too many of them. Never waits.
    pub fn note_rejection(&self, rejection: Rejection) {
        if !self.shared.rejections.take(rejection) {
            self.meters().rejections_lost("TooMany", 1);
        }
    }

    /// Stores the refusals that wait; the janitor does so every second.
    pub async fn store_rejections(&self) {
        let rejections = self.shared.rejections.drain();
        let count = rejections.len();
        if count == 0 {
            return;
        }
        // What little room is left on the disk is for events.
        if self.disk_is_low() {
            self.meters().rejections_lost("DiskLow", count);
            return;
        }
        let kept = self.store().rejections.keep(rejections, REJECTIONS_MAX);
        match kept.await {
            Ok(()) => self.meters().rejections_kept(count),
            Err(error) => {
                tracing::warn!(%error, count, "refused publish requests are not kept");
                self.meters().rejections_lost("StoreError", count);
            }
        }
    }
}
