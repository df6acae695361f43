//! Export of dead letters to storage: dead letters that are in no blob yet, the pending blob of each subscription,
//! and outages of storage.
//!
//! The contents and the name of a blob are stored before it is uploaded, so that an upload that is repeated
//! after a crash writes the same blob. Dead letters leave their queue in the transaction that marks their
//! blob as stored.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, Row, params};

use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::DeliveryId;
use crate::model::event::StoredEvent;
use crate::model::export::Outage;
use crate::model::limits::{BLOB_BYTES_MAX, BLOB_RECORDS_MAX};
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::subscription::SubscriptionId;
use crate::store::engine::checksum;
use crate::store::engine::db::WriteTx;
use crate::store::error::StoreError;
use crate::store::ledger::settle::{FreeChange, settle_free};
use crate::store::row;
use crate::store::sql::Sql;
use crate::wire::dead_letter::DeadLetterFacts;
use crate::wire::dead_letter_blob::BlobTitle;

/// The id of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobId(i64);

/// A request to begin the next blob of a subscription. The name of the blob contains the names of the topic and the
/// subscription.
#[derive(Clone, Debug)]
pub struct BlobRequest {
    pub subscription: SubscriptionId,
    pub name: SubscriptionName,
    pub topic: TopicName,
    pub topic_resource_id: Arc<str>,
    pub now: Timestamp,
}

/// The state of a subscription's exports.
#[derive(Clone, Debug)]
pub struct ExportStatus {
    pub subscription: SubscriptionId,
    /// Is true while the subscription has a blob that is not uploaded yet.
    pub is_pending: bool,
    /// The time at which the oldest dead letter that is in no blob was dead-lettered.
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

/// A blob that is not uploaded yet.
#[derive(Clone, Debug)]
pub struct PendingBlob {
    pub id: BlobId,
    /// The name of the blob in the container.
    pub name: String,
    /// The readable dead letters of the blob, in the order of their delivery ids.
    pub dead_letters: Vec<Exported>,
    /// The number of dead letters that cannot be read. These dead letters stay in their queue.
    pub unreadable: usize,
}

/// A dead letter of a blob.
#[derive(Clone, Debug)]
pub struct Exported {
    pub delivery: DeliveryId,
    pub event: StoredEvent,
    pub facts: DeadLetterFacts,
}

/// The outcome of a pending blob.
#[derive(Clone, Debug)]
pub enum BlobEnd {
    /// The blob is uploaded. These dead letters leave their queue unless they are locked, and an outage ends.
    Stored(Vec<DeliveryId>),
    /// The blob could not be uploaded, and is still pending.
    Failed(Outage),
    /// The pending blob holds nothing any more, and is deleted.
    Released,
}

/// Returns the state of the exports of each of these subscriptions that has something to export.
pub(super) fn statuses(
    tx: &Connection,
    subscriptions: &[SubscriptionId],
) -> Result<Vec<ExportStatus>, StoreError> {
    let pending = "SELECT 1 FROM dead_letter_blob WHERE subscription_id = ?1 AND stored_at IS NULL";
    let oldest = "SELECT min(next_attempt_at) FROM delivery \
         WHERE subscription_id = ?1 AND state = 'DeadLettered' AND blob_id IS NULL";
    let mut statuses = Vec::new();
    for &subscription in subscriptions {
        let is_pending = tx.is_any(pending, [subscription])?;
        let oldest: Option<Timestamp> = tx.value(oldest, [subscription])?;
        if is_pending || oldest.is_some() {
            statuses.push(ExportStatus {
                subscription,
                is_pending,
                oldest,
                outage: outage(tx, subscription)?,
            });
        }
    }
    Ok(statuses)
}

fn outage(tx: &Connection, subscription: SubscriptionId) -> Result<Option<Outage>, StoreError> {
    let outage = "SELECT since, failures, last_attempt_at, next_attempt_at, error FROM storage_outage \
         WHERE subscription_id = ?1";
    tx.first(outage, [subscription], |row| {
        Ok(Outage {
            since: row.get(0)?,
            failures: row.get(1)?,
            tried_at: row.get(2)?,
            next_try_at: row.get(3)?,
            error: row.get(4)?,
        })
    })
}

/// The number of newest blobs, of all subscriptions, that are searched for the last blob of one subscription.
const LOOK_BACK: usize = 10_000;

/// The history of a subscription's exports.
pub(in crate::store) fn history(
    tx: &Connection,
    subscription: SubscriptionId,
) -> Result<ExportHistory, StoreError> {
    let last = "SELECT name, stored_at FROM \
         (SELECT id, subscription_id, name, stored_at FROM dead_letter_blob ORDER BY id DESC LIMIT ?2) \
         WHERE subscription_id = ?1 AND stored_at IS NOT NULL ORDER BY id DESC LIMIT 1";
    let last = tx.first(last, params![subscription, LOOK_BACK], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    let outage = outage(tx, subscription)?;
    Ok(ExportHistory { last, outage })
}

/// The planned next blob of a subscription.
pub(super) struct NextBlob {
    of: BlobRequest,
    name: String,
    /// Dead letters that are in no blob and not locked, oldest first.
    dead_letters: Vec<DeliveryId>,
}

/// Plans the next blob of the subscription, and stores nothing. Returns `None` if there is nothing to export.
pub(super) fn next(tx: &Connection, request: BlobRequest) -> Result<Option<NextBlob>, StoreError> {
    let next = "SELECT delivery.id, delivery.published_at, octet_length(event.data) FROM delivery \
         CROSS JOIN event ON event.id = delivery.event_id WHERE delivery.subscription_id = ?1 \
         AND delivery.state = 'DeadLettered' AND delivery.blob_id IS NULL AND delivery.next_attempt_at <= ?2 \
         ORDER BY delivery.next_attempt_at, delivery.id LIMIT ?3";
    let mut next = tx.prepare_cached(next)?;
    let mut rows = next.query(params![request.subscription, request.now, BLOB_RECORDS_MAX])?;
    let (mut dead_letters, mut bytes, mut first_published_at) = (Vec::new(), 0, None);
    while bytes < BLOB_BYTES_MAX
        && let Some(row) = rows.next()?
    {
        dead_letters.push(row.get(0)?);
        bytes += row.get::<_, Option<usize>>(2)?.unwrap_or(0);
        first_published_at.get_or_insert(row.get(1)?);
    }
    Ok(first_published_at.map(|first_published_at| {
        let title = BlobTitle {
            topic_resource_id: &request.topic_resource_id,
            topic: &request.topic,
            subscription: &request.name,
            first: dead_letters[0],
            first_published_at,
            at: request.now,
        };
        NextBlob {
            name: title.name(),
            of: request,
            dead_letters,
        }
    }))
}

/// Creates the blob that [`next`] has planned, without the dead letters that have left their queue meanwhile.
pub(super) fn begin(tx: &Connection, next: &NextBlob) -> Result<(), StoreError> {
    let insert = "INSERT INTO dead_letter_blob (subscription_id, name, created_at) \
         VALUES (?1, ?2, ?3)";
    tx.run(
        insert,
        params![next.of.subscription, next.name, next.of.now],
    )?;
    let id = tx.last_insert_rowid();
    let join = "UPDATE delivery SET blob_id = ?2 \
         WHERE id = ?1 AND state = 'DeadLettered' AND blob_id IS NULL";
    for delivery in &next.dead_letters {
        tx.run(join, params![delivery, id])?;
    }
    Ok(())
}

/// The pending blob of a subscription.
pub(super) fn pending(
    tx: &Connection,
    subscription: SubscriptionId,
) -> Result<Option<PendingBlob>, StoreError> {
    let pending =
        "SELECT id, name FROM dead_letter_blob WHERE subscription_id = ?1 AND stored_at IS NULL";
    let found = tx.first(pending, [subscription], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    let Some((id, name)) = found else {
        return Ok(None);
    };
    let mut blob = PendingBlob {
        id: BlobId(id),
        name,
        dead_letters: Vec::new(),
        unreadable: 0,
    };
    let select = format!(
        "SELECT {}, delivery.id, delivery.dead_letter_reason, delivery.attempts, \
             delivery.last_outcome, delivery.last_status, delivery.published_at, \
             delivery.last_attempt_at, delivery.receiver_reason, \
             delivery.receiver_description, delivery.receiver_properties, \
             (SELECT {} FROM delivery AS own WHERE own.id = delivery.id) \
         FROM delivery JOIN event ON event.id = delivery.event_id \
         WHERE delivery.blob_id = ?1 ORDER BY delivery.id",
        row::EVENT_COLUMNS,
        checksum::DELIVERY.is_sound()
    );
    let exported = tx.all(&select, [id], |row| match exported(row) {
        Ok(each) => Ok(Some(each)),
        // An unreadable event must not stop the others.
        Err(error) if error.is_unreadable() => Ok(None),
        Err(error) => Err(error),
    })?;
    let found = exported.len();
    blob.dead_letters = exported.into_iter().flatten().collect();
    blob.unreadable = found - blob.dead_letters.len();
    Ok(Some(blob))
}

fn exported(row: &Row<'_>) -> Result<Exported, StoreError> {
    const FIRST: usize = row::EVENT_WIDTH;
    if !row.get::<_, bool>(FIRST + 10)? {
        return Err(row::damaged_delivery());
    }
    let reason: Option<DeadLetterReason> = row.get(FIRST + 1)?;
    Ok(Exported {
        event: row::event(row)?,
        delivery: row.get(FIRST)?,
        facts: DeadLetterFacts {
            reason: reason.unwrap_or(DeadLetterReason::Manual),
            details: row::details(row, FIRST + 7)?,
            attempts: row.get(FIRST + 2)?,
            last_outcome: row.get(FIRST + 3)?,
            last_status: row.get(FIRST + 4)?,
            publish_time: row.get(FIRST + 5)?,
            last_attempt_at: row.get(FIRST + 6)?,
        },
    })
}

pub(super) fn end(
    tx: &WriteTx,
    BlobId(id): BlobId,
    end: BlobEnd,
    now: Timestamp,
) -> Result<(), StoreError> {
    match end {
        BlobEnd::Stored(dead_letters) => {
            let mark = "UPDATE dead_letter_blob SET stored_at = ?2 WHERE id = ?1";
            tx.run(mark, params![id, now])?;
            for delivery in dead_letters {
                settle_free(tx, delivery, FreeChange::Remove, now)?;
            }
            let back = "DELETE FROM storage_outage WHERE subscription_id = \
                 (SELECT subscription_id FROM dead_letter_blob WHERE id = ?1)";
            tx.run(back, [id])?;
        }
        BlobEnd::Failed(outage) => {
            let keep = "INSERT OR REPLACE INTO storage_outage \
                 (subscription_id, since, failures, last_attempt_at, next_attempt_at, error) \
                 SELECT subscription_id, ?2, ?3, ?4, ?5, ?6 FROM dead_letter_blob WHERE id = ?1";
            tx.run(
                keep,
                params![
                    id,
                    outage.since,
                    outage.failures,
                    outage.tried_at,
                    outage.next_try_at,
                    outage.error
                ],
            )?;
        }
        BlobEnd::Released => release(tx, id)?,
    }
    Ok(())
}

/// Returns the pending blobs of all subscriptions except `exporting`.
pub(super) fn pending_of_others(
    tx: &Connection,
    exporting: &HashSet<SubscriptionId>,
) -> Result<Vec<(i64, SubscriptionId)>, StoreError> {
    let all = "SELECT id, subscription_id FROM dead_letter_blob WHERE stored_at IS NULL";
    let mut pending = tx.all(all, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    pending.retain(|(_, of)| !exporting.contains(of));
    Ok(pending)
}

/// Deletes pending blobs, and the outages of their subscriptions.
pub(super) fn release_all(
    tx: &Connection,
    pending: Vec<(i64, SubscriptionId)>,
) -> Result<(), StoreError> {
    for (blob, subscription) in pending {
        release(tx, blob)?;
        let delete = "DELETE FROM storage_outage WHERE subscription_id = ?1";
        tx.run(delete, [subscription])?;
    }
    Ok(())
}

fn release(tx: &Connection, blob: i64) -> rusqlite::Result<()> {
    let leave = "UPDATE delivery SET blob_id = NULL WHERE blob_id = ?1";
    tx.run(leave, [blob])?;
    let delete = "DELETE FROM dead_letter_blob WHERE id = ?1 AND stored_at IS NULL";
    tx.run(delete, [blob])?;
    Ok(())
}

/// Deletes the rows of up to `limit` blobs that were stored before `since`.
pub(super) fn tidy(tx: &Connection, since: Timestamp, limit: usize) -> rusqlite::Result<usize> {
    let delete = "DELETE FROM dead_letter_blob WHERE stored_at < ?1 AND id IN \
         (SELECT id FROM dead_letter_blob ORDER BY id LIMIT ?2)";
    tx.run(delete, params![since, limit])
}
