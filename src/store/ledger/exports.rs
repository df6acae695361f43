//! Dead letters on their way to storage: which are in no blob yet, the one blob of each subscription that
//! waits to be put, and storage that is away.
//!
//! What goes into a blob, and its name, are on disk before it is put, so that a blob that is put again after
//! a crash is the same one. A dead letter leaves its queue in the change that marks its blob as stored.

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

/// The book of exports.
#[derive(Clone)]
pub struct Exports {
    pub(in crate::store) db: Db,
}

/// The store's number of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobId(i64);

/// A blob that waits to be put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingBlob {
    pub id: BlobId,
    /// In its container.
    pub name: String,
}

/// Where the exports of a subscription stand.
#[derive(Clone, Debug)]
pub struct ExportStatus {
    pub subscription: SubscriptionId,
    pub pending: Option<PendingBlob>,
    /// When the oldest dead letter that is in no blob was given up.
    pub oldest: Option<Timestamp>,
    pub outage: Option<Outage>,
}

/// How the exports of a subscription have fared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportHistory {
    /// The newest blob that its storage has, and since when.
    pub last: Option<(String, Timestamp)>,
    pub outage: Option<Outage>,
}

/// What a new blob can hold.
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

/// What a blob holds.
#[derive(Clone, Debug, Default)]
pub struct BlobContents {
    /// In the order of the deliveries.
    pub readable: Vec<Exported>,
    /// Those whose events are damaged: they stay in their queue.
    pub unreadable: usize,
}

impl Exports {
    /// Where the exports of these subscriptions stand; those without anything to export are left out.
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

    /// What a new blob of the subscription would hold: the oldest dead letters in its queue that are in no
    /// blob yet and that nobody holds.
    pub async fn find_exportable(
        &self,
        subscription: SubscriptionId,
        now: Timestamp,
    ) -> Result<Option<Exportable>, StoreError> {
        self.db
            .read(move |tx| find_exportable(tx, subscription, now))
            .await
    }

    /// Begins a blob of these dead letters; those that have left their queue meanwhile are not among them.
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

    /// What the blob holds.
    pub async fn contents(&self, blob: BlobId) -> Result<BlobContents, StoreError> {
        self.db.read(move |tx| contents(tx, blob)).await
    }

    /// The storage has the blob, with these dead letters in it: they leave their queue, unless somebody
    /// holds them. The storage is not away.
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

    /// The storage of the subscription is away.
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

    /// Drops up to `limit` dead letters of the subscription that were given up before `before` and that
    /// nobody holds. Returns how many there were.
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

    /// Takes back a blob that is not stored: what it was to hold is in no blob again.
    pub async fn release(&self, blob: BlobId) -> Result<(), StoreError> {
        self.db.write(move |tx| release(tx, blob)).await
    }

    /// Takes back what waits for the storage of other subscriptions than these, which export no more.
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

    /// Forgets the names of up to `limit` blobs from before `since`.
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

/// Newest blobs, of all subscriptions, among which the last one of a subscription is looked for.
const LOOK_BACK: usize = 10_000;

/// For those who only look.
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
            // One that cannot be read must not keep the others.
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
