//! Pruning of the ledger.
//!
//! There is no index by the age of ended deliveries: it would cost every settlement. A reader looks at events
//! in the order of their ids, which is that of their publication. A change then deletes what was found, after
//! checking again that each event may go.

pub(super) mod deleted;
pub(super) mod rollups;

use rusqlite::{Connection, Row, params};

use crate::base::Timestamp;
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

/// What was pruned, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub events: u64,
    pub deliveries: u64,
    pub attempts: u64,
    /// Bytes of the events' data.
    pub bytes: u64,
    /// The last event that was looked at, and when it was published; `None` if there is none.
    pub last_seen: Option<(EventKey, Timestamp)>,
}

impl Pruned {
    fn add(&mut self, status: &EventStatus) {
        self.events += u64::from(status.bytes.is_some());
        self.deliveries += status.deliveries;
        self.attempts += status.attempts;
        self.bytes += status.bytes.unwrap_or_default();
    }

    fn rows(&self) -> u64 {
        self.events + self.deliveries + self.attempts
    }
}

/// What may be pruned of an event.
struct EventStatus {
    deliveries: u64,
    attempts: u64,
    /// Bytes of its data, if all of it may go.
    bytes: Option<u64>,
}

impl EventStatus {
    fn is_prunable(&self) -> bool {
        self.deliveries > 0 || self.bytes.is_some()
    }
}

/// Finds events that may be pruned, or ended deliveries of them: an event that waits for one subscription keeps nothing of others.
pub(super) fn find(
    tx: &Connection,
    request: &PruneRequest,
) -> Result<(Vec<EventKey>, Pruned), StoreError> {
    let PruneRequest { cutoff, batch, .. } = *request;
    let look = "SELECT id, received_at FROM event WHERE id > ?1 ORDER BY id LIMIT ?2";
    let mut look = tx.prepare_cached(look)?;
    let mut rows = look.query(params![request.after, batch.events])?;
    let (mut events, mut found) = (Vec::new(), Pruned::default());
    let fanned_out = fan_out::oldest(tx)?;
    while let Some(row) = rows.next()? {
        let (event, received_at) = (row.get(0)?, row.get(1)?);
        if received_at <= cutoff.delivered {
            let status = status(tx, event, cutoff)?;
            if status.is_prunable() && fanned_out.is_none_or(|open| event < open) {
                events.push(event);
                found.add(&status);
            }
        }
        found.last_seen = Some((event, received_at));
        if found.rows() >= batch.rows || found.bytes >= batch.bytes {
            break;
        }
    }
    Ok((events, found))
}

/// Deletes those of the events that may still be pruned, with their deliveries and attempts.
pub(super) fn prune(
    tx: &WriteTx,
    events: Vec<EventKey>,
    cutoff: Cutoff,
) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned::default();
    tx.ids().store(tx)?;
    for event in events {
        let status = status(tx, event, cutoff)?;
        let mut attempts = 0;
        let until = dead_letters_until(cutoff);
        let ended = params![event, until, cutoff.delivered, status.bytes.is_some()];
        for id in tx.all(ENDED, ended, |row| Ok(row.get(0)?))? {
            let delete = "DELETE FROM delivery_attempt WHERE delivery_id = ?1";
            attempts += tx.run(delete, [id])? as u64;
            let delete = || tx.run("DELETE FROM delivery WHERE id = ?1", [id]);
            counted(tx, id, || Ok::<_, StoreError>(delete()?))?;
        }
        if status.bytes.is_some() {
            tx.run("DELETE FROM event WHERE id = ?1", [event])?;
        }
        pruned.add(&EventStatus { attempts, ..status });
    }
    Ok(pruned)
}

/// Counts what may go of an event: all of it, or only what has ended of the subscriptions of a Service Bus topic. Their sizes count
/// what waits there alone.
const STATUS: &str = "WITH own AS (SELECT attempts, bytes IS NOT NULL AS is_message, \
         coalesce(ended_at <= CASE state WHEN 'DeadLettered' THEN ?2 ELSE ?3 END, 0) AS has_ended \
         FROM delivery WHERE event_id = ?1), \
     event_itself AS (SELECT coalesce(min(has_ended), 1) AS is_whole FROM own) \
     SELECT count(has_ended), coalesce(sum(attempts), 0), CASE WHEN is_whole THEN \
         coalesce((SELECT octet_length(data) FROM event WHERE id = ?1), 0) END \
     FROM event_itself LEFT JOIN own ON has_ended AND (is_whole OR is_message)";

/// The deliveries that `STATUS` counts. `?4` says whether all of the event may go.
const ENDED: &str = "SELECT id FROM delivery WHERE event_id = ?1 \
     AND ended_at <= CASE state WHEN 'DeadLettered' THEN ?2 ELSE ?3 END AND (?4 OR bytes IS NOT NULL)";

fn status(tx: &Connection, event: EventKey, cutoff: Cutoff) -> Result<EventStatus, StoreError> {
    let read = |row: &Row<'_>| {
        Ok(EventStatus {
            deliveries: row.get(0)?,
            attempts: row.get(1)?,
            bytes: row.get(2)?,
        })
    };
    let values = params![event, dead_letters_until(cutoff), cutoff.delivered];
    let status = tx.first(STATUS, values, read)?;
    Ok(status.expect("a query that counts has one row"))
}

fn dead_letters_until(cutoff: Cutoff) -> i64 {
    cutoff.dead_letters.map_or(i64::MIN, Timestamp::as_ms)
}
