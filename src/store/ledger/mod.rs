//! The ledger: events come in, deliveries fall due, are attempted and are settled.
//!
//! Leases of our own dispatcher live in its memory alone: the row stays due, so nothing has to be repaired
//! after a crash. What has just been published is kept in memory as well (bounded), so that the usual
//! delivery is sent without reading its event back.

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
