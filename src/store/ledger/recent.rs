//! Newly published events, kept in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use crate::model::event::{EventKey, StoredEvent};
use crate::store::error::StoreError;
use crate::store::ledger::lease::load_event;

/// Bytes of events to keep: a few seconds of a busy appliance.
const RECENT_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// Memory for an event besides its texts.
const RECENT_OVERHEAD: usize = 512;

/// Newly published events; the oldest are dropped first. Clones share them.
#[derive(Clone, Default)]
pub(in crate::store) struct RecentEvents(Arc<Mutex<Memory>>);

#[derive(Default)]
struct Memory {
    events: HashMap<EventKey, Arc<StoredEvent>>,
    order: VecDeque<EventKey>,
    bytes: usize,
}

impl RecentEvents {
    pub(super) fn remember(&self, stored: Vec<Arc<StoredEvent>>) {
        let mut memory = self.0.lock().unwrap();
        for event in stored {
            memory.bytes += event.event.size() + RECENT_OVERHEAD;
            memory.order.push_back(event.key);
            memory.events.insert(event.key, event);
        }
        while memory.bytes > RECENT_BYTES_MAX
            && let Some(oldest) = memory.order.pop_front()
            && let Some(event) = memory.events.remove(&oldest)
        {
            memory.bytes -= event.event.size() + RECENT_OVERHEAD;
        }
    }

    /// The event, from memory if it is there; the inner error says why it cannot be read.
    pub(super) fn get_or_load(
        &self,
        tx: &Connection,
        key: EventKey,
    ) -> Result<Result<Arc<StoredEvent>, String>, StoreError> {
        let known = self.0.lock().unwrap().events.get(&key).cloned();
        match known {
            Some(event) => Ok(Ok(event)),
            None => Ok(load_event(tx, key)?.map(Arc::new)),
        }
    }
}
