//! Pruning of the ledger.
//!
//! The ledger has no index by the age of ended deliveries, because such an index would make each settlement more
//! expensive. A reader examines events in the order of their IDs, which is the order of publication. A write
//! transaction then checks each found event a second time and deletes the parts that can still be pruned.

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

/// A request to prune events, in the order of publication.
#[derive(Clone, Copy, Debug)]
pub struct PruneRequest {
    pub after: EventKey,
    pub cutoff: Cutoff,
    pub batch: PruneBatch,
    /// Is true to only count the rows that would be pruned.
    pub dry_run: bool,
}

/// The limits of one pruning step.
#[derive(Clone, Copy, Debug)]
pub struct PruneBatch {
    /// The maximum number of events to examine.
    pub events: usize,
    /// The number of rows (events, deliveries, attempts) after which the step stops.
    pub rows: u64,
    /// The bytes of event data after which the step stops.
    pub bytes: u64,
}

/// The numbers of rows that were pruned, or would be pruned in a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrunedRows {
    pub events: u64,
    pub deliveries: u64,
    pub attempts: u64,
    /// The number of bytes of event data.
    pub bytes: u64,
    /// The last event that was looked at, with its time of publication. `None` if no event was looked at.
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
    /// The bytes of the event's data. `None` if the event itself must stay.
    bytes: Option<u64>,
}

impl Prunable {
    fn is_empty(&self) -> bool {
        self.deliveries.is_empty() && self.bytes.is_none()
    }
}

/// Finds events that can be pruned as a whole, and events with deliveries that can be pruned. Also returns the numbers
/// of these rows.
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

/// Checks the found events a second time, and deletes the parts that can still be pruned.
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
    /// Is true if the delivery ended at or before the cutoff.
    has_ended: bool,
}

/// Finds all deliveries of an event.
const DELIVERIES: &str = "SELECT id, attempts, bytes IS NOT NULL, \
     coalesce(ended_at <= CASE state WHEN 'DeadLettered' THEN ?2 ELSE ?3 END, 0) \
     FROM delivery WHERE event_id = ?1";

/// Finds the parts of an event that can be pruned. The whole event can be pruned if all of its deliveries ended at or
/// before the cutoff. For a message, each delivery that ended at or before the cutoff can be pruned, even if other
/// deliveries have not ended. Ended deliveries of messages do not count toward the size of a subscription, so only
/// pruning limits their number.
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
