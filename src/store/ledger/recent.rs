//! Newly published events, kept in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::model::event::{EventKey, StoredEvent};

/// Bytes of events to keep: a few seconds of a busy appliance.
const RECENT_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// Memory for an event besides its texts.
const RECENT_OVERHEAD: usize = 512;

/// Newly published events; the oldest are dropped first.
#[derive(Default)]
pub(super) struct RecentEvents {
    events: HashMap<EventKey, Arc<StoredEvent>>,
    order: VecDeque<EventKey>,
    bytes: usize,
}

impl RecentEvents {
    pub(super) fn remember(&mut self, stored: Vec<Arc<StoredEvent>>) {
        for event in stored {
            self.bytes += event.event.size() + RECENT_OVERHEAD;
            self.order.push_back(event.key);
            self.events.insert(event.key, event);
        }
        while self.bytes > RECENT_BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
            && let Some(event) = self.events.remove(&oldest)
        {
            self.bytes -= event.event.size() + RECENT_OVERHEAD;
        }
    }

    pub(super) fn get(&self, key: EventKey) -> Option<Arc<StoredEvent>> {
        self.events.get(&key).cloned()
    }
}
