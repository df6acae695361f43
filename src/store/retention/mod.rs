//! Pruning of the ledger.
//!
//! There is no index by the age of ended deliveries: it would cost every settlement. A reader looks at events
//! in the order of their ids, which is that of their publication. A change then deletes what was found, after
//! checking again that each event may go.

pub(super) mod rollups;

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::delivery::DeliveryState;
use crate::model::event::EventKey;
use crate::model::retention::Cutoff;
use crate::store::engine::upkeep::Upkeep;
use crate::store::error::StoreError;
use crate::store::row;

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

/// The events of a range that may be pruned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prunable {
    /// Events that may be pruned.
    pub events: Vec<EventKey>,
    /// Their deliveries.
    pub deliveries: u64,
    /// Bytes of their data.
    pub bytes: u64,
    /// The last event that was looked at, and when it was published; `None` if there is none.
    pub last_seen: Option<(EventKey, Timestamp)>,
}

/// Rows that were deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub events: u64,
    pub deliveries: u64,
    pub attempts: u64,
}

impl Upkeep {
    /// Finds events after `after` that may be pruned, in the order of their publication.
    pub async fn find_prunable(
        &self,
        after: EventKey,
        cutoff: Cutoff,
        batch: PruneBatch,
    ) -> Result<Prunable, StoreError> {
        self.db
            .read(move |tx| find_prunable(tx, after, cutoff, batch))
            .await
    }

    /// Deletes those of the events that may still be pruned, with their deliveries and attempts.
    pub async fn prune(&self, events: Vec<EventKey>, cutoff: Cutoff) -> Result<Pruned, StoreError> {
        self.db
            .write(move |tx| {
                let mut pruned = Pruned::default();
                for event in events {
                    if status(tx, event, cutoff)?.is_prunable {
                        delete(tx, event, &mut pruned)?;
                    }
                }
                Ok(pruned)
            })
            .await
    }

    /// Deletes up to `limit` marks of publish requests from before `since`. Returns how many.
    pub async fn delete_request_marks(
        &self,
        since: Timestamp,
        limit: usize,
    ) -> Result<usize, StoreError> {
        self.db
            .write(move |tx| {
                let forget = "DELETE FROM publish_request WHERE fingerprint IN \
                     (SELECT fingerprint FROM publish_request WHERE received_at < ?1 LIMIT ?2)";
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                Ok(tx
                    .prepare_cached(forget)?
                    .execute(params![since.as_ms(), limit])?)
            })
            .await
    }

    /// The oldest event, and when it was published.
    pub async fn oldest(&self) -> Result<Option<(EventKey, Timestamp)>, StoreError> {
        let any = Cutoff {
            delivered: Timestamp::from_ms(i64::MIN),
            dead_letters: None,
        };
        let first = PruneBatch {
            events: 1,
            rows: 0,
            bytes: 0,
        };
        let found = self.find_prunable(EventKey(0), any, first).await?;
        Ok(found.last_seen)
    }
}

const SCAN: &str = "SELECT id, received_at, coalesce(octet_length(data), 0) FROM event \
     WHERE id > ?1 ORDER BY id LIMIT ?2";

fn find_prunable(
    tx: &Connection,
    after: EventKey,
    cutoff: Cutoff,
    batch: PruneBatch,
) -> Result<Prunable, StoreError> {
    let limit = i64::try_from(batch.events).unwrap_or(i64::MAX);
    let mut look = tx.prepare_cached(SCAN)?;
    let mut rows = look.query(params![after, limit])?;
    let (mut found, mut count) = (Prunable::default(), 0);
    while let Some(row) = rows.next()? {
        let (event, received_at) = (EventKey(row.get(0)?), row::timestamp(row, 1)?);
        if received_at <= cutoff.delivered {
            let status = status(tx, event, cutoff)?;
            if status.is_prunable {
                found.events.push(event);
                found.deliveries += status.deliveries;
                found.bytes += row.get::<_, i64>(2)?.unsigned_abs();
                count += 1 + status.deliveries + status.attempts;
            }
        }
        found.last_seen = Some((event, received_at));
        if count >= batch.rows || found.bytes >= batch.bytes {
            break;
        }
    }
    Ok(found)
}

/// The rows of an event, and whether it may be pruned.
struct EventStatus {
    deliveries: u64,
    attempts: u64,
    is_prunable: bool,
}

const STATUS: &str = "SELECT count(*), coalesce(sum(attempts), 0), coalesce(max(ended_at IS NULL \
     OR ended_at > CASE state WHEN ?2 THEN ?3 ELSE ?4 END), 0) FROM delivery WHERE event_id = ?1";

fn status(tx: &Connection, event: EventKey, cutoff: Cutoff) -> rusqlite::Result<EventStatus> {
    let dead_letters = cutoff.dead_letters.map_or(i64::MIN, Timestamp::as_ms);
    let values = params![
        event,
        DeliveryState::DeadLettered,
        dead_letters,
        cutoff.delivered.as_ms()
    ];
    tx.prepare_cached(STATUS)?.query_row(values, |row| {
        Ok(EventStatus {
            deliveries: row.get::<_, i64>(0)?.unsigned_abs(),
            attempts: row.get::<_, i64>(1)?.unsigned_abs(),
            is_prunable: !row.get::<_, bool>(2)?,
        })
    })
}

const DELETE_ATTEMPTS: &str = "DELETE FROM delivery_attempt WHERE delivery_id IN \
     (SELECT id FROM delivery WHERE event_id = ?1)";
const DELETE_DELIVERIES: &str = "DELETE FROM delivery WHERE event_id = ?1";
const DELETE_EVENT: &str = "DELETE FROM event WHERE id = ?1";

fn delete(tx: &Connection, event: EventKey, pruned: &mut Pruned) -> rusqlite::Result<()> {
    pruned.attempts += tx.prepare_cached(DELETE_ATTEMPTS)?.execute([event])? as u64;
    pruned.deliveries += tx.prepare_cached(DELETE_DELIVERIES)?.execute([event])? as u64;
    pruned.events += tx.prepare_cached(DELETE_EVENT)?.execute([event])? as u64;
    Ok(())
}
