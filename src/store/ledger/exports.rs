//! Export of dead letters to storage: those that are in no blob yet, the pending blob of each subscription,
//! and outages of storage.
//!
//! The contents and the name of a blob are stored before it is uploaded, so that an upload that is repeated
//! after a crash writes the same blob. Dead letters leave their queue in the transaction that marks their
//! blob as stored.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{DeliveryId, DeliveryState};
use crate::model::event::StoredEvent;
use crate::model::export::Outage;
use crate::model::limits::{BLOB_BYTES_MAX, BLOB_RECORDS_MAX};
use crate::model::subscription::SubscriptionId;
use crate::store::engine::db::Db;
use crate::store::error::StoreError;
use crate::store::ledger::locks::REMOVE_UNLOCKED;
use crate::store::row;
use crate::wire::dead_letter::DeadLetterFacts;

/// Exports of dead letters.
#[derive(Clone)]
pub struct Exports {
    pub(in crate::store) db: Db,
}

/// The id of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobId(i64);

/// A blob that is not uploaded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingBlob {
    pub id: BlobId,
    /// Its name in the container.
    pub name: String,
}

/// The state of a subscription's exports.
#[derive(Clone, Debug)]
pub struct ExportStatus {
    pub subscription: SubscriptionId,
    pub pending: Option<PendingBlob>,
    /// When the oldest dead letter that is in no blob was dead-lettered.
    pub oldest: Option<Timestamp>,
    pub outage: Option<Outage>,
}

/// The history of a subscription's exports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportHistory {
    /// The newest stored blob, and when it was stored.
    pub last: Option<(String, Timestamp)>,
    pub outage: Option<Outage>,
}

/// What the next blob can hold.
#[derive(Clone, Debug)]
pub struct Exportable {
    /// At least one, oldest first.
    pub dead_letters: Vec<DeliveryId>,
    /// When the event of the first one was published.
    pub first_published_at: Timestamp,
}

/// A dead letter of a blob.
#[derive(Clone, Debug)]
pub struct Exported {
    pub delivery: DeliveryId,
    pub event: StoredEvent,
    pub facts: DeadLetterFacts,
}

/// The contents of a blob.
#[derive(Clone, Debug, Default)]
pub struct BlobContents {
    /// In the order of the deliveries.
    pub readable: Vec<Exported>,
    /// Dead letters whose events are damaged. They stay in their queue.
    pub unreadable: usize,
}

impl Exports {
    /// The state of the exports of these subscriptions, without those that have nothing to export.
    pub async fn statuses(
        &self,
        subscriptions: Vec<SubscriptionId>,
    ) -> Result<Vec<ExportStatus>, StoreError> {
        self.db
            .read(move |tx| {
                let mut statuses = Vec::new();
                for subscription in subscriptions {
                    let status = status(tx, subscription)?;
                    if status.pending.is_some() || status.oldest.is_some() {
                        statuses.push(status);
                    }
                }
                Ok(statuses)
            })
            .await
    }

    /// What the next blob of the subscription would hold: the oldest dead letters that are in no blob and not
    /// locked.
    pub async fn find_exportable(
        &self,
        subscription: SubscriptionId,
        now: Timestamp,
    ) -> Result<Option<Exportable>, StoreError> {
        self.db
            .read(move |tx| find_exportable(tx, subscription, now))
            .await
    }

    /// Creates a blob of these dead letters, except those that have left their queue meanwhile.
    pub async fn begin_blob(
        &self,
        subscription: SubscriptionId,
        name: String,
        dead_letters: Vec<DeliveryId>,
        now: Timestamp,
    ) -> Result<PendingBlob, StoreError> {
        self.db
            .write(move |tx| {
                let insert = "INSERT INTO dead_letter_blob (subscription_id, name, created_at) \
                     VALUES (?1, ?2, ?3)";
                tx.prepare_cached(insert)?
                    .execute(params![subscription, name, now.as_ms()])?;
                let id = BlobId(tx.last_insert_rowid());
                let join = "UPDATE delivery SET blob_id = ?2 \
                     WHERE id = ?1 AND state = 'DeadLettered' AND blob_id IS NULL";
                let mut join = tx.prepare_cached(join)?;
                for delivery in dead_letters {
                    join.execute(params![delivery, id.0])?;
                }
                Ok(PendingBlob { id, name })
            })
            .await
    }

    /// The contents of a blob.
    pub async fn contents(&self, blob: BlobId) -> Result<BlobContents, StoreError> {
        self.db.read(move |tx| contents(tx, blob)).await
    }

    /// Marks a blob as stored. These dead letters leave their queue unless they are locked, and an outage
    /// ends.
    pub async fn mark_stored(
        &self,
        blob: BlobId,
        dead_letters: Vec<DeliveryId>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                let mark = "UPDATE dead_letter_blob SET stored_at = ?2 WHERE id = ?1";
                tx.prepare_cached(mark)?
                    .execute(params![blob.0, now.as_ms()])?;
                let mut remove = tx.prepare_cached(REMOVE_UNLOCKED)?;
                for delivery in dead_letters {
                    remove.execute(params![delivery, now.as_ms()])?;
                }
                let back = "DELETE FROM storage_outage WHERE subscription_id = \
                     (SELECT subscription_id FROM dead_letter_blob WHERE id = ?1)";
                tx.prepare_cached(back)?.execute([blob.0])?;
                Ok(())
            })
            .await
    }

    /// Stores an outage.
    pub async fn mark_outage(
        &self,
        subscription: SubscriptionId,
        outage: Outage,
    ) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                let keep = "INSERT OR REPLACE INTO storage_outage \
                     (subscription_id, since, failures, last_attempt_at, next_attempt_at, error) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                tx.prepare_cached(keep)?.execute(params![
                    subscription,
                    outage.since.as_ms(),
                    outage.failures,
                    outage.tried_at.as_ms(),
                    outage.next_try_at.as_ms(),
                    outage.error
                ])?;
                Ok(())
            })
            .await
    }

    /// Drops up to `limit` dead letters of the subscription that were dead-lettered before `before` and are
    /// not locked. Returns how many.
    pub async fn drop_old(
        &self,
        subscription: SubscriptionId,
        before: Timestamp,
        limit: usize,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        self.db
            .write(move |tx| {
                let drop = "UPDATE delivery SET state = ?4, blob_id = NULL, lock_token = NULL, \
                         locked_at = NULL, locked_until = NULL \
                     WHERE id IN (SELECT id FROM delivery WHERE subscription_id = ?1 AND state = 'DeadLettered' \
                         AND next_attempt_at < ?2 \
                         AND (locked_until IS NULL OR locked_until <= ?5) LIMIT ?3)";
                Ok(tx.prepare_cached(drop)?.execute(params![
                    subscription,
                    before.as_ms(),
                    i64::try_from(limit).unwrap_or(i64::MAX),
                    DeliveryState::Dropped,
                    now.as_ms(),
                ])?)
            })
            .await
    }

    /// Deletes a pending blob, so that its dead letters are in no blob again.
    pub async fn release(&self, blob: BlobId) -> Result<(), StoreError> {
        self.db.write(move |tx| release(tx, blob)).await
    }

    /// Deletes the pending blobs and outages of all subscriptions except `kept`: they do not export any more.
    pub async fn release_others(&self, kept: HashSet<SubscriptionId>) -> Result<(), StoreError> {
        let pending = self.db.read(|tx| {
            let all = "SELECT id, subscription_id FROM dead_letter_blob WHERE stored_at IS NULL";
            let mut all = tx.prepare_cached(all)?;
            let rows = all.query_map([], |row| Ok((row.get(0)?, SubscriptionId(row.get(1)?))))?;
            Ok(rows.collect::<rusqlite::Result<Vec<(i64, _)>>>()?)
        });
        let others = pending.await?.into_iter();
        let others: Vec<_> = others.filter(|(_, of)| !kept.contains(of)).collect();
        if others.is_empty() {
            return Ok(());
        }
        self.db
            .write(move |tx| {
                for (blob, subscription) in others {
                    release(tx, BlobId(blob))?;
                    let delete_names = "DELETE FROM storage_outage WHERE subscription_id = ?1";
                    tx.prepare_cached(delete_names)?.execute([subscription])?;
                }
                Ok(())
            })
            .await
    }

    /// Deletes the rows of up to `limit` blobs that were stored before `since`.
    pub async fn delete_names(&self, since: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.db
            .write(move |tx| {
                let delete_names = "DELETE FROM dead_letter_blob WHERE stored_at < ?1 AND id IN \
                     (SELECT id FROM dead_letter_blob ORDER BY id LIMIT ?2)";
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                Ok(tx
                    .prepare_cached(delete_names)?
                    .execute(params![since.as_ms(), limit])?)
            })
            .await
    }
}

fn status(tx: &Connection, subscription: SubscriptionId) -> Result<ExportStatus, StoreError> {
    let pending = "SELECT id, name FROM dead_letter_blob \
         WHERE subscription_id = ?1 AND stored_at IS NULL";
    let pending = tx
        .prepare_cached(pending)?
        .query_row([subscription], |row| {
            Ok(PendingBlob {
                id: BlobId(row.get(0)?),
                name: row.get(1)?,
            })
        });
    let oldest = "SELECT min(next_attempt_at) FROM delivery \
         WHERE subscription_id = ?1 AND state = 'DeadLettered' AND blob_id IS NULL";
    let oldest = tx
        .prepare_cached(oldest)?
        .query_row([subscription], |row| row::timestamp_or_null(row, 0));
    Ok(ExportStatus {
        subscription,
        pending: pending.optional()?,
        oldest: oldest?,
        outage: outage(tx, subscription)?,
    })
}

fn outage(tx: &Connection, subscription: SubscriptionId) -> Result<Option<Outage>, StoreError> {
    let outage = "SELECT since, failures, last_attempt_at, next_attempt_at, error FROM storage_outage \
         WHERE subscription_id = ?1";
    let mut outage = tx.prepare_cached(outage)?;
    Ok(outage.query_row([subscription], outage_of).optional()?)
}

/// Newest blobs, of all subscriptions, that are searched for the last one of a subscription.
const LOOK_BACK: usize = 10_000;

/// The history of a subscription's exports.
pub(in crate::store) fn history(
    tx: &Connection,
    subscription: SubscriptionId,
) -> Result<ExportHistory, StoreError> {
    let last = "SELECT name, stored_at FROM \
         (SELECT id, subscription_id, name, stored_at FROM dead_letter_blob ORDER BY id DESC LIMIT ?2) \
         WHERE subscription_id = ?1 AND stored_at IS NOT NULL ORDER BY id DESC LIMIT 1";
    let look_back = i64::try_from(LOOK_BACK).unwrap_or(i64::MAX);
    let last = tx
        .prepare_cached(last)?
        .query_row(params![subscription, look_back], |row| {
            Ok((row.get(0)?, row::timestamp(row, 1)?))
        });
    Ok(ExportHistory {
        last: last.optional()?,
        outage: outage(tx, subscription)?,
    })
}

fn outage_of(row: &Row<'_>) -> rusqlite::Result<Outage> {
    Ok(Outage {
        since: row::timestamp(row, 0)?,
        failures: row.get(1)?,
        tried_at: row::timestamp(row, 2)?,
        next_try_at: row::timestamp(row, 3)?,
        error: row.get(4)?,
    })
}

fn find_exportable(
    tx: &Connection,
    subscription: SubscriptionId,
    now: Timestamp,
) -> Result<Option<Exportable>, StoreError> {
    let find_exportable = "SELECT delivery.id, delivery.published_at, octet_length(event.data) FROM delivery \
         CROSS JOIN event ON event.id = delivery.event_id WHERE delivery.subscription_id = ?1 \
         AND delivery.state = 'DeadLettered' AND delivery.blob_id IS NULL AND delivery.next_attempt_at <= ?2 \
         ORDER BY delivery.next_attempt_at, delivery.id LIMIT ?3";
    let limit = i64::try_from(BLOB_RECORDS_MAX).unwrap_or(i64::MAX);
    let mut find_exportable = tx.prepare_cached(find_exportable)?;
    let mut rows = find_exportable.query(params![subscription, now.as_ms(), limit])?;
    let (mut dead_letters, mut bytes, mut first_published_at) = (Vec::new(), 0, None);
    while bytes < BLOB_BYTES_MAX as u64
        && let Some(row) = rows.next()?
    {
        dead_letters.push(DeliveryId(row.get(0)?));
        bytes += row.get::<_, Option<i64>>(2)?.map_or(0, i64::unsigned_abs);
        first_published_at.get_or_insert(row::timestamp(row, 1)?);
    }
    Ok(first_published_at.map(|first_published_at| Exportable {
        dead_letters,
        first_published_at,
    }))
}

fn contents(tx: &Connection, blob: BlobId) -> Result<BlobContents, StoreError> {
    let select = format!(
        "SELECT {}, delivery.id, delivery.dead_letter_reason, delivery.attempts, \
             delivery.last_outcome, delivery.last_status, delivery.published_at, \
             delivery.last_attempt_at, delivery.receiver_reason, \
             delivery.receiver_description, delivery.receiver_properties \
         FROM delivery JOIN event ON event.id = delivery.event_id \
         WHERE delivery.blob_id = ?1 ORDER BY delivery.id",
        row::EVENT_COLUMNS
    );
    let mut select = tx.prepare_cached(&select)?;
    let mut rows = select.query([blob.0])?;
    let mut contents = BlobContents::default();
    while let Some(row) = rows.next()? {
        match exported(row) {
            Ok(each) => contents.readable.push(each),
            // An unreadable event must not stop the others.
            Err(StoreError::Unreadable(_)) => contents.unreadable += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(contents)
}

fn exported(row: &Row<'_>) -> Result<Exported, StoreError> {
    let reason = row::reason(row, 12)?;
    Ok(Exported {
        event: row::event(row)?,
        delivery: DeliveryId(row.get(11)?),
        facts: DeadLetterFacts {
            reason: reason.unwrap_or(DeadLetterReason::Manual),
            details: row::details(row, 18)?,
            attempts: row.get(13)?,
            last_outcome: row::outcome(row, 14)?,
            last_status: row.get(15)?,
            publish_time: row::timestamp(row, 16)?,
            last_attempt_at: row::timestamp_or_null(row, 17)?,
        },
    })
}

fn release(tx: &Connection, blob: BlobId) -> Result<(), StoreError> {
    let leave = "UPDATE delivery SET blob_id = NULL WHERE blob_id = ?1";
    tx.prepare_cached(leave)?.execute([blob.0])?;
    let delete = "DELETE FROM dead_letter_blob WHERE id = ?1 AND stored_at IS NULL";
    tx.prepare_cached(delete)?.execute([blob.0])?;
    Ok(())
}
