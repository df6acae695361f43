//! The ledger: events are appended with their deliveries, which fall due, are leased and settled.
//!
//! Leases of our own dispatcher are in its memory only. The row stays due, so nothing has to be repaired
//! after a crash. Newly published events are kept in memory too (bounded), so that most deliveries need not
//! read their event.

pub(super) mod append;
pub(super) mod counters;
pub(super) mod exports;
pub(super) mod lease;
pub(super) mod locks;
pub(super) mod notices;
mod recent;
pub(super) mod resubmit;
pub(super) mod retry_now;
pub(super) mod send;
pub(super) mod settle;

use std::sync::{Arc, Mutex};

use crate::store::engine::db::Db;
use recent::RecentEvents;

/// Events and deliveries.
#[derive(Clone)]
pub struct Deliveries {
    db: Db,
    recent: Arc<Mutex<RecentEvents>>,
}

impl Deliveries {
    pub(super) fn new(db: Db) -> Self {
        Self {
            db,
            recent: Arc::default(),
        }
    }
}
