//! Pruning of the ledger.
//!
//! There is no index by the age of ended deliveries: it would cost every settlement. A reader looks at events
//! in the order of their ids, which is that of their publication. A change then deletes what was found, after
//! checking again that each event may go.

pub(super) mod deleted;
pub(super) mod rollups;

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::delivery::DeliveryId;
use crate::model::event::EventKey;
use crate::model::retention::Cutoff;
use crate::store::engine::db::WriteTx;
use crate::store::error::StoreError;
use crate::store::ledger::counters::counted;
use crate::store::ledger::fan_out;
use crate::store::sql::Sql;

/// Which events to prune, in the order of their publication.
#[derive(Clone, Copy, Debug)]
pub struct PruneRequest {
    pub after: EventKey,
    pub cutoff: Cutoff,
    pub batch: PruneBatch,
    /// Only counts what would be pruned.
    pub dry_run: bool,
}

/// Bounds of one step.
#[derive(Clone, Copy, Debug)]
pub struct PruneBatch {
    /// Events to look at.
    pub events: usize,
    /// Rows (events, deliveries, attempts) after which no more is added.
    pub rows: u64,
    /// Bytes of event data after which no more is added.
    pub bytes: u64,
}

/// The number of rows that were pruned, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrunedRows {
    pub events: u64,
    pub deliveries: u64,
    pub attempts: u64,
    /// Bytes of the events' data.
    pub bytes: u64,
    /// The last event that was looked at, and when it was published; `None` if there is none.
    pub last_seen: Option<(EventKey, Timestamp)>,
}

impl PrunedRows {
    fn add(&mut self, prunable: &Prunable) {
        self.events += u64::from(prunable.bytes.is_some());
        self.deliveries += prunable.deliveries.len() as u64;
        self.attempts += prunable.attempts;
        self.bytes += prunable.bytes.unwrap_or_default();
    }

    fn rows(&self) -> u64 {
        self.events + self.deliveries + self.attempts
    }
}

/// The parts of an event that may be pruned.
struct Prunable {
    deliveries: Vec<DeliveryId>,
    attempts: u64,
    /// Bytes of its data, if the event itself may go.
    bytes: Option<u64>,
}

impl Prunable {
    fn is_empty(&self) -> bool {
        self.deliveries.is_empty() && self.bytes.is_none()
    }
}

/// Finds the events of which something may be pruned.
pub(super) fn find(
    tx: &Connection,
    request: &PruneRequest,
) -> Result<(Vec<EventKey>, PrunedRows), StoreError> {
    let PruneRequest { cutoff, batch, .. } = *request;
    let look = "SELECT id, received_at FROM event WHERE id > ?1 ORDER BY id LIMIT ?2";
    let mut look = tx.prepare_cached(look)?;
    let mut rows = look.query(params![request.after, batch.events])?;
    let (mut events, mut found) = (Vec::new(), PrunedRows::default());
    let fanned_out = fan_out::oldest(tx)?;
    while let Some(row) = rows.next()? {
        let (event, received_at) = (row.get(0)?, row.get(1)?);
        if received_at <= cutoff.delivered {
            let prunable = find_prunable(tx, event, cutoff)?;
            if !prunable.is_empty() && fanned_out.is_none_or(|open| event < open) {
                events.push(event);
                found.add(&prunable);
            }
        }
        found.last_seen = Some((event, received_at));
        if found.rows() >= batch.rows || found.bytes >= batch.bytes {
            break;
        }
    }
    Ok((events, found))
}

/// Deletes what may still be pruned of the events.
pub(super) fn prune(
    tx: &WriteTx,
    events: Vec<EventKey>,
    cutoff: Cutoff,
) -> Result<PrunedRows, StoreError> {
    let mut pruned = PrunedRows::default();
    tx.ids().store(tx)?;
    for event in events {
        let prunable = find_prunable(tx, event, cutoff)?;
        let mut attempts = 0;
        for &id in &prunable.deliveries {
            let delete = "DELETE FROM delivery_attempt WHERE delivery_id = ?1";
            attempts += tx.run(delete, [id])? as u64;
            let delete = || tx.run("DELETE FROM delivery WHERE id = ?1", [id]);
            counted(tx, id, || Ok::<_, StoreError>(delete()?))?;
        }
        if prunable.bytes.is_some() {
            tx.run("DELETE FROM event WHERE id = ?1", [event])?;
        }
        pruned.add(&Prunable {
            attempts,
            ..prunable
        });
    }
    Ok(pruned)
}

/// A delivery of an event.
struct DeliveryStatus {
    id: DeliveryId,
    attempts: u64,
    is_message: bool,
    /// It ended long enough ago.
    has_ended: bool,
}

/// Finds all deliveries of an event.
const DELIVERIES: &str = "SELECT id, attempts, bytes IS NOT NULL, \
     coalesce(ended_at <= CASE state WHEN 'DeadLettered' THEN ?2 ELSE ?3 END, 0) \
     FROM delivery WHERE event_id = ?1";

/// Finds what may go of an event: all of it once all of its deliveries have ended long enough ago. Of a message, deliveries that
/// have ended go before that: they count for the size of no subscription, so nothing else bounds them.
fn find_prunable(tx: &Connection, event: EventKey, cutoff: Cutoff) -> Result<Prunable, StoreError> {
    let dead_letters = cutoff.dead_letters.map_or(i64::MIN, Timestamp::as_ms);
    let values = params![event, dead_letters, cutoff.delivered];
    let mut deliveries = tx.all(DELIVERIES, values, |row| {
        Ok(DeliveryStatus {
            id: row.get(0)?,
            attempts: row.get(1)?,
            is_message: row.get(2)?,
            has_ended: row.get(3)?,
        })
    })?;
    let is_whole = deliveries.iter().all(|each| each.has_ended);
    deliveries.retain(|each| each.has_ended && (is_whole || each.is_message));
    let bytes = "SELECT coalesce(octet_length(data), 0) FROM event WHERE id = ?1";
    Ok(Prunable {
        deliveries: deliveries.iter().map(|each| each.id).collect(),
        attempts: deliveries.iter().map(|each| each.attempts).sum(),
        bytes: if is_whole {
            tx.find(bytes, [event])?
        } else {
            None
        },
    })
}
