//! Settling deliveries.

use std::sync::Arc;

use rusqlite::{Connection, Savepoint, params};

use crate::base::Timestamp;
use crate::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use crate::model::delivery::{
    DeliveryAttempt, DeliveryId, DeliveryState, LateResponse, Outcome, Settlement,
};
use crate::store::error::StoreError;
use crate::store::ledger::Deliveries;
use crate::store::row;

/// How to end a lease.
#[derive(Clone, Debug)]
pub struct SettlementRecord {
    pub delivery: DeliveryId,
    /// `None` if the delivery ends without another attempt.
    pub attempt: Option<Arc<DeliveryAttempt>>,
    pub settlement: Settlement,
}

/// A late response to an attempt (rule 7.2).
#[derive(Clone, Copy, Debug)]
pub struct Late {
    pub delivery: DeliveryId,
    /// The attempt that it responds to.
    pub attempt: u32,
    pub response: LateResponse,
    /// Whether it completes the delivery, if that has not been attempted again.
    pub completes: bool,
}

/// How many pending deliveries of deleted subscriptions ended, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedPending {
    pub dropped: usize,
    pub dead_lettered: usize,
}

impl EndedPending {
    /// All of them.
    pub fn count(self) -> usize {
        self.dropped + self.dead_lettered
    }
}

impl Deliveries {
    /// Ends leases: records the attempts and updates the deliveries. A delivery that has ended meanwhile,
    /// because its subscription was deleted, stays as it is.
    pub async fn settle(
        &self,
        settled: Vec<SettlementRecord>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.db
            .write_in_group(move |tx| settled.iter().try_for_each(|each| settle(tx, each, now)))
            .await
    }

    /// Records late responses with their attempts, and completes the deliveries that they complete, unless
    /// those have ended or were attempted again. Returns the completed ones.
    pub async fn settle_late(
        &self,
        late: Vec<Late>,
        now: Timestamp,
    ) -> Result<Vec<DeliveryId>, StoreError> {
        self.db
            .write_in_group(move |tx| {
                let mut completed = Vec::new();
                for each in late {
                    if settle_late(tx, &each, now)? {
                        completed.push(each.delivery);
                    }
                }
                Ok(completed)
            })
            .await
    }

    /// Ends up to `limit` pending deliveries of deleted subscriptions, in the way that was chosen when those
    /// were deleted.
    pub async fn end_pending_of_deleted(
        &self,
        limit: usize,
        now: Timestamp,
    ) -> Result<EndedPending, StoreError> {
        self.db
            .write(move |tx| end_pending_of_deleted(tx, limit, now))
            .await
    }
}

const RETRY: &str = "UPDATE delivery SET next_attempt_at = ?2, attempts = ?3, last_attempt_at = ?4, \
     last_outcome = ?5, last_status = ?6, lock_token = NULL, locked_at = NULL, locked_until = NULL \
     WHERE id = ?1 AND state = 'Pending'";
const RETRY_UNATTEMPTED: &str = "UPDATE delivery SET next_attempt_at = ?2, lock_token = NULL, \
     locked_at = NULL, locked_until = NULL WHERE id = ?1 AND state = 'Pending'";
// A dead letter is due at once in its own queue. A lock is lost.
const END: &str = "UPDATE delivery SET state = ?2, ended_at = ?3, next_attempt_at = ?3, \
     dead_letter_reason = ?4, attempts = ?5, last_attempt_at = ?6, last_outcome = ?7, \
     last_status = ?8, lock_token = NULL, locked_at = NULL, locked_until = NULL, \
     deferred = 0 WHERE id = ?1 AND state = 'Pending'";
const END_UNATTEMPTED: &str = "UPDATE delivery SET state = ?2, ended_at = ?3, \
     next_attempt_at = ?3, dead_letter_reason = ?4, lock_token = NULL, locked_at = NULL, \
     locked_until = NULL, deferred = 0 WHERE id = ?1 AND state = 'Pending'";
const EXPLAIN: &str = "UPDATE delivery SET receiver_reason = ?2, \
     receiver_description = ?3, receiver_properties = ?4 WHERE id = ?1";

pub(in crate::store) fn settle(
    tx: &Connection,
    settled: &SettlementRecord,
    now: Timestamp,
) -> Result<(), StoreError> {
    let changed = match (settled.settlement, settled.attempt.as_deref()) {
        (Settlement::Retry { at }, Some(attempt)) => {
            let last = LastAttempt::of(attempt);
            tx.prepare_cached(RETRY)?.execute(params![
                settled.delivery,
                at.as_ms(),
                last.attempt,
                last.at,
                last.outcome,
                last.status
            ])?
        }
        (Settlement::Retry { at }, None) => tx
            .prepare_cached(RETRY_UNATTEMPTED)?
            .execute(params![settled.delivery, at.as_ms()])?,
        (Settlement::Complete, attempt) => end(
            tx,
            settled.delivery,
            DeliveryState::Delivered,
            None,
            attempt,
            now,
        )?,
        (Settlement::DeadLetter(reason), attempt) => end(
            tx,
            settled.delivery,
            DeliveryState::DeadLettered,
            Some(reason),
            attempt,
            now,
        )?,
        (Settlement::Drop(reason), attempt) => end(
            tx,
            settled.delivery,
            DeliveryState::Dropped,
            Some(reason),
            attempt,
            now,
        )?,
    };
    match settled.attempt.as_deref() {
        Some(attempt) if changed > 0 => record(tx, settled.delivery, attempt),
        _ => Ok(()),
    }
}

fn end(
    tx: &Connection,
    id: DeliveryId,
    state: DeliveryState,
    reason: Option<DeadLetterReason>,
    attempt: Option<&DeliveryAttempt>,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let reason = reason.map(DeadLetterReason::name);
    let Some(attempt) = attempt else {
        let values = params![id, state, now.as_ms(), reason];
        return tx.prepare_cached(END_UNATTEMPTED)?.execute(values);
    };
    let last = LastAttempt::of(attempt);
    let changed = tx.prepare_cached(END)?.execute(params![
        id,
        state,
        now.as_ms(),
        reason,
        last.attempt,
        last.at,
        last.outcome,
        last.status
    ])?;
    match attempt.result.dead_letter.as_deref() {
        Some(details) if changed > 0 => explain(tx, id, details)?,
        _ => {}
    }
    Ok(changed)
}

/// Stores what the receiver said when it dead-lettered the event.
fn explain(tx: &Connection, id: DeliveryId, details: &DeadLetterDetails) -> rusqlite::Result<()> {
    let properties = &details.properties;
    let properties = (!properties.is_empty()).then(|| row::pairs_column(properties));
    let values = params![id, details.reason, details.description, properties];
    tx.prepare_cached(EXPLAIN)?.execute(values)?;
    Ok(())
}

/// What the row of a delivery holds of its newest attempt.
struct LastAttempt {
    attempt: u32,
    at: i64,
    outcome: &'static str,
    status: Option<u16>,
}

impl LastAttempt {
    fn of(attempt: &DeliveryAttempt) -> Self {
        Self {
            attempt: attempt.attempt,
            at: attempt.started_at.as_ms(),
            outcome: Outcome::name(attempt.result.outcome),
            status: attempt.result.status,
        }
    }
}

const RECORD: &str = "INSERT OR REPLACE INTO delivery_attempt (delivery_id, attempt, started_at, \
     duration_ms, outcome, status, error, remote_address, response_headers, response_body) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const RECORD_LATE: &str = "UPDATE delivery_attempt SET late_status = ?3, late_ms = ?4 \
     WHERE delivery_id = ?1 AND attempt = ?2";
const COMPLETE_LATE: &str = "UPDATE delivery SET state = ?3, ended_at = ?4, last_outcome = ?5, \
     lock_token = NULL, locked_at = NULL, locked_until = NULL, last_status = ?6 WHERE id = ?1 AND state = 'Pending' AND attempts = ?2";

/// Returns whether the delivery is completed by it.
fn settle_late(tx: &Connection, late: &Late, now: Timestamp) -> Result<bool, StoreError> {
    let after_ms = i64::try_from(late.response.after.as_millis()).unwrap_or(i64::MAX);
    tx.prepare_cached(RECORD_LATE)?.execute(params![
        late.delivery,
        late.attempt,
        late.response.status,
        after_ms
    ])?;
    if !late.completes {
        return Ok(false);
    }
    let completed = tx.prepare_cached(COMPLETE_LATE)?.execute(params![
        late.delivery,
        late.attempt,
        DeliveryState::Delivered,
        now.as_ms(),
        Outcome::Delivered.name(),
        late.response.status
    ])?;
    Ok(completed > 0)
}

pub(in crate::store) fn record(
    tx: &Connection,
    id: DeliveryId,
    attempt: &DeliveryAttempt,
) -> Result<(), StoreError> {
    let result = &attempt.result;
    let headers = (!result.headers.is_empty()).then(|| row::pairs_column(&result.headers));
    tx.prepare_cached(RECORD)?.execute(params![
        id,
        attempt.attempt,
        attempt.started_at.as_ms(),
        i64::try_from(attempt.duration.as_millis()).unwrap_or(i64::MAX),
        result.outcome.name(),
        result.status,
        result.error,
        result.remote_address,
        headers,
        (!result.body.is_empty()).then_some(&result.body),
    ])?;
    Ok(())
}

/// Up to ?2 pending deliveries of deleted subscriptions that dead-letter them (?1 = 1) or drop them (0).
const ORPHANS: &str = "SELECT delivery.id FROM event_subscription \
     CROSS JOIN delivery ON delivery.subscription_id = event_subscription.id \
         AND delivery.state = 'Pending' \
     WHERE event_subscription.deleted_at IS NOT NULL \
         AND event_subscription.dead_letters_pending = ?1 LIMIT ?2";

fn end_pending_of_deleted(
    tx: &Savepoint<'_>,
    limit: usize,
    now: Timestamp,
) -> Result<EndedPending, StoreError> {
    let dropped = end_orphans_as(tx, DeliveryState::Dropped, limit, now)?;
    let rest = limit - dropped;
    Ok(EndedPending {
        dropped,
        dead_lettered: end_orphans_as(tx, DeliveryState::DeadLettered, rest, now)?,
    })
}

fn end_orphans_as(
    tx: &Savepoint<'_>,
    state: DeliveryState,
    limit: usize,
    now: Timestamp,
) -> Result<usize, StoreError> {
    let is_kept = state == DeliveryState::DeadLettered;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    // A lock ends with its subscription, so it is recorded here.
    let record = format!(
        "INSERT OR REPLACE INTO delivery_attempt (delivery_id, attempt, started_at, duration_ms, \
             outcome) \
         SELECT id, attempts, locked_at, max(0, min(locked_until, ?3) - locked_at), ?4 \
         FROM delivery WHERE lock_token IS NOT NULL AND id IN ({ORPHANS})"
    );
    let lost = Outcome::LockLost.name();
    let values = params![is_kept, limit, now.as_ms(), lost];
    tx.prepare_cached(&record)?.execute(values)?;
    let end = format!(
        "UPDATE delivery SET state = ?3, ended_at = ?4, next_attempt_at = ?4, \
             dead_letter_reason = ?5, lock_token = NULL, locked_at = NULL, locked_until = NULL, \
             deferred = 0, \
             last_outcome = CASE WHEN lock_token IS NULL THEN last_outcome ELSE ?6 END, \
             last_status = CASE WHEN lock_token IS NULL THEN last_status END \
         WHERE id IN ({ORPHANS})"
    );
    Ok(tx.prepare_cached(&end)?.execute(params![
        is_kept,
        limit,
        state,
        now.as_ms(),
        DeadLetterReason::SubscriptionDeleted.name(),
        lost,
    ])?)
}
