//! Settlement of deliveries: leased ones, ones without a lease or lock, and ones of deleted subscriptions.

use std::sync::{Arc, LazyLock};

use rusqlite::{Connection, Row, params};

use crate::base::Timestamp;
use crate::model::audit::AuditEntry;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{
    AttemptResult, Delivery, DeliveryAttempt, DeliveryId, DeliveryState, LateResponse, Outcome,
    Settlement,
};
use crate::model::lease::{NEVER, is_held};
use crate::model::limits::{CHANGE_DELIVERIES_MAX, RESPONSE_CUT_MAX};
use crate::model::subscription::SubscriptionId;
use crate::store::engine::db::WriteTx;
use crate::store::engine::queue::Whose;
use crate::store::error::StoreError;
use crate::store::ledger::append::change_sealed;
use crate::store::ledger::counters::{DeliveryChange, DeliveryVersion, HAS_LEFT, counted};
use crate::store::row;
use crate::store::sql::Sql;

/// See [`SettlementRecord::counted_for`].
pub(crate) type CountedFor = (SubscriptionId, Timestamp, Option<u32>);

/// A settlement of a leased delivery, with the attempt to record.
#[derive(Clone, Debug)]
pub struct SettlementRecord {
    pub delivery: DeliveryId,
    /// The values that the counters need. `None` to read them from the database.
    pub counted_for: Option<CountedFor>,
    /// The number of attempts that the caller knows of. If the stored number differs, the delivery is not settled.
    pub attempts: u32,
    /// The attempt to record. `None` if the delivery is settled without another attempt.
    pub attempt: Option<Arc<DeliveryAttempt>>,
    /// A response to the newest attempt of the delivery that came after the deadline (rule 7.2).
    pub late: Option<LateResponse>,
    /// `None` if only the late response is recorded.
    pub settlement: Option<Settlement>,
}

impl SettlementRecord {
    /// Creates a settlement of a delivery as it was leased, without another attempt.
    pub fn of(delivery: &Delivery, settlement: Settlement) -> Self {
        Self {
            delivery: delivery.id,
            counted_for: None,
            attempts: delivery.attempts,
            attempt: None,
            late: None,
            settlement: Some(settlement),
        }
    }
}

/// The outcome of a [`SettlementRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Done,
    /// The delivery has ended or was attempted again, so it stays as it is.
    Stale,
}

/// A change of a delivery that no receiver has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeChange {
    /// Ends a pending delivery without another attempt, if it is due.
    End(Settlement),
    /// Makes a pending delivery due now. A delivery that is being sent is due already, and the result of the attempt
    /// sets the time of the next one.
    RetryNow,
    /// Takes a dead letter out of its queue.
    Remove,
    /// Drops a pending delivery of this subscription that is scheduled and not enqueued yet.
    Cancel(SubscriptionId),
}

/// Changes of deliveries to make in one transaction.
#[derive(Clone, Debug)]
pub struct FreeChanges {
    pub changes: Vec<(DeliveryId, FreeChange)>,
    /// The subscription of the deliveries. `None` if the appliance, or a user who manages it, makes the changes.
    pub of: Option<SubscriptionId>,
    /// Is true if either all changes are to be made or none.
    pub all_or_none: bool,
    /// The audit entry of the user who makes the changes. It is recorded with the number of changes made, if any was
    /// made.
    pub audit: Option<AuditEntry>,
    pub now: Timestamp,
}

impl FreeChanges {
    /// Returns the changes that cancel scheduled messages, at most `CHANGE_DELIVERIES_MAX` in each item. Each item is
    /// applied in full or not at all.
    pub fn cancels(scheduled: &[(DeliveryId, SubscriptionId)], now: Timestamp) -> Vec<Self> {
        let cancel = |(id, of): &(DeliveryId, SubscriptionId)| (*id, FreeChange::Cancel(*of));
        let pieces = scheduled.chunks(CHANGE_DELIVERIES_MAX);
        let changes = pieces.map(|some| Self {
            changes: some.iter().map(cancel).collect(),
            of: some.first().map(|(_, of)| *of),
            all_or_none: true,
            audit: None,
            now,
        });
        changes.collect()
    }

    /// Returns the party in whose turn the changes are made.
    pub(super) fn whose(&self) -> Whose {
        self.of.map_or(Whose::Appliance, Whose::Queue)
    }
}

/// The outcome of a [`FreeChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeSettled {
    /// It is done, for this subscription.
    Done(SubscriptionId),
    /// The delivery stays as it is: a receiver has locked or deferred it, it is not due, or it is not a scheduled one
    /// of the subscription.
    Held,
    /// The delivery is in this state, for which the change is not meant.
    In(DeliveryState),
    Missing,
}

/// Selects deliveries to end in bulk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardRequest {
    /// Deliveries of deleted subscriptions. Pending ones are dropped or dead-lettered, as chosen when the subscription
    /// was deleted. Dead letters that are messages are removed. Session states are deleted.
    OfDeleted,
    /// Dead letters of a subscription from before this time that no receiver has locked. They are dropped.
    DeadLetters {
        of: SubscriptionId,
        before: Timestamp,
    },
}

/// The numbers of deliveries that were ended, by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    pub dropped: usize,
    pub dead_lettered: usize,
    /// Dead letters that were removed from their dead-letter queues.
    pub removed: usize,
    /// Sessions that were deleted with their states.
    pub sessions: usize,
}

impl Discarded {
    /// Returns the total number of deliveries and sessions.
    pub fn count(self) -> usize {
        self.dropped + self.dead_lettered + self.removed + self.sessions
    }
}

// Makes a dead letter available in the dead-letter queue at once. Removes the lock.
const SETTLE: &str = "UPDATE delivery SET state = ?3, \
         ended_at = CASE ?3 WHEN 'Pending' THEN NULL ELSE ?4 END, next_attempt_at = ?4, \
         deferred = (?4 = ?5), dead_letter_reason = ?6, attempts = coalesce(?7, attempts), \
         last_attempt_at = coalesce(?8, last_attempt_at), last_outcome = coalesce(?9, last_outcome), \
         last_status = CASE WHEN ?9 IS NULL THEN last_status ELSE ?10 END, \
         lock_token = NULL, locked_at = NULL, locked_until = NULL \
     WHERE id = ?1 AND state = 'Pending' AND attempts = ?2";

/// See [`SettlementRecord::counted_for`].
const COUNTED_FOR: &str = "SELECT subscription_id, published_at, bytes FROM delivery WHERE id = ?1";

/// Copies the columns by which dead letters are searched and grouped from the event to the delivery. Reading each event
/// in a search would cost a page of the file.
fn describe(tx: &Connection, id: DeliveryId) -> rusqlite::Result<()> {
    let describe = "UPDATE delivery SET (event_type, event_source, event_subject) = \
             (SELECT event.event_type, coalesce(event.source, topic.name), event.subject \
             FROM event LEFT JOIN topic ON topic.id = event.topic_id WHERE event.id = delivery.event_id) \
         WHERE id = ?1";
    tx.run(describe, [id])?;
    Ok(())
}

/// Settles a pending delivery and records its attempt.
pub(super) fn settle(
    tx: &WriteTx,
    record: &SettlementRecord,
    now: Timestamp,
) -> Result<Settled, StoreError> {
    let SettlementRecord {
        delivery, attempts, ..
    } = *record;
    if let Some(late) = record.late {
        record_late(tx, delivery, attempts, late)?;
    }
    let (state, at, reason) = match record.settlement {
        None => return Ok(Settled::Done),
        Some(Settlement::Split { events_max }) => {
            return Ok(split(tx, delivery, attempts, events_max)?);
        }
        Some(Settlement::Retry { at }) => (DeliveryState::Pending, at, None),
        Some(Settlement::Complete) => (DeliveryState::Delivered, now, None),
        Some(Settlement::DeadLetter(reason)) => (DeliveryState::DeadLettered, now, Some(reason)),
        Some(Settlement::Drop(reason)) => (DeliveryState::Dropped, now, Some(reason)),
    };
    let attempt = record.attempt.as_deref();
    let result = attempt.map(|attempt| &attempt.result);
    let (outcome, status) = match (result, record.late) {
        (Some(result), _) => (Some(result.outcome), result.status()),
        (None, Some(late)) => (Some(late.outcome), late.status),
        (None, None) => (None, None),
    };
    let changed = tx.run(
        SETTLE,
        params![
            delivery,
            attempts,
            state,
            at,
            NEVER,
            reason,
            attempt.map(|attempt| attempt.attempt),
            attempt.map(|attempt| attempt.started_at),
            outcome,
            status,
        ],
    )?;
    if changed == 0 {
        return Ok(Settled::Stale);
    }
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let counted_for = match record.counted_for {
        Some(known) => known,
        None => tx.one(COUNTED_FOR, [delivery], read)?,
    };
    let (subscription, published_at, bytes) = counted_for;
    let is_pending = state == DeliveryState::Pending;
    tx.counts().delivery(&DeliveryChange {
        id: delivery,
        subscription,
        published_at,
        last_attempt_at: attempt.map(|attempt| attempt.started_at),
        bytes,
        old: Some(DeliveryVersion::pending(attempts)),
        new: Some(DeliveryVersion {
            state,
            attempts: attempt.map_or(attempts, |attempt| attempt.attempt),
            ended_at: (!is_pending).then_some(at),
            reason: reason.filter(|_| state == DeliveryState::DeadLettered),
        }),
    });
    if state == DeliveryState::DeadLettered {
        describe(tx, delivery)?;
    }
    if let Some(attempt) = attempt {
        record_attempt(tx, delivery, attempt)?;
        if !is_pending {
            explain(tx, delivery, &attempt.result)?;
        }
    }
    Ok(Settled::Done)
}

const SPLIT: &str = "UPDATE delivery SET batch_max = ?3 \
     WHERE id = ?1 AND state = 'Pending' AND attempts = ?2";

/// Limits the next request with a pending delivery to `events_max` events. The delivery keeps its place in the order.
fn split(
    tx: &Connection,
    id: DeliveryId,
    attempts: u32,
    events_max: u32,
) -> rusqlite::Result<Settled> {
    let changed = tx.run(SPLIT, params![id, attempts, events_max])?;
    Ok(if changed == 0 {
        Settled::Stale
    } else {
        Settled::Done
    })
}

/// Stores the reason, description and properties of a receiver that dead-lettered the event itself.
fn explain(tx: &Connection, id: DeliveryId, result: &AttemptResult) -> Result<(), StoreError> {
    if let Some(details) = &result.dead_letter {
        let explain = "UPDATE delivery SET receiver_reason = ?2, receiver_description = ?3, \
             receiver_properties = ?4 WHERE id = ?1";
        let properties = row::pairs_column(&details.properties);
        let values = params![id, details.reason, details.description, properties];
        change_sealed(tx, id, explain, values)?;
    }
    Ok(())
}

// Avoids OR REPLACE, which makes SQLite keep a journal of whole pages.
/// The statement has few spaces because the statement cache copies the text at each run.
const RECORD: &str = "INSERT INTO delivery_attempt (delivery_id, attempt, started_at, \
     duration_ms, outcome, status, error, remote_address, response_headers, response_body, warning) \
     VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11) \
     ON CONFLICT DO UPDATE SET started_at = ?3, duration_ms = ?4, outcome = ?5, status = ?6, error = ?7, \
     remote_address = ?8, response_headers = ?9, response_body = ?10, \
     warning = ?11";

/// Cuts the stored responses of earlier attempts, as [`crate::model::delivery::HttpResponse::cut`] does, and marks them
/// with [`row::CUT`].
const CUT_EARLIER: &str = "UPDATE delivery_attempt SET response_headers = ?4, \
         response_body = substr(response_body, 1, ?3) \
     WHERE delivery_id = ?1 AND attempt < ?2 AND response_headers IS NOT ?4 \
         AND coalesce(length(response_headers), 0) + coalesce(length(response_body), 0) > ?3";

/// Records an attempt with its whole response. Responses of earlier attempts are cut to their beginnings.
pub(super) fn record_attempt(
    tx: &Connection,
    id: DeliveryId,
    attempt: &DeliveryAttempt,
) -> rusqlite::Result<()> {
    let result = &attempt.result;
    let response = result.response.as_ref();
    let values = params![
        id,
        attempt.attempt,
        attempt.started_at,
        row::millis(attempt.duration),
        result.outcome,
        result.status(),
        result.error,
        result.remote_address,
        response.and_then(row::headers_column),
        response
            .map(|response| &response.body)
            .filter(|body| !body.is_empty()),
        result.warning,
    ];
    tx.run(RECORD, values)?;
    if attempt.attempt > 1 && response.is_some_and(|response| !response.is_bare()) {
        let values = params![id, attempt.attempt, RESPONSE_CUT_MAX, row::CUT];
        tx.run(CUT_EARLIER, values)?;
    }
    Ok(())
}

fn record_late(
    tx: &Connection,
    id: DeliveryId,
    attempt: u32,
    late: LateResponse,
) -> rusqlite::Result<()> {
    let record = "UPDATE delivery_attempt SET late_outcome = ?3, late_status = ?4, late_ms = ?5 \
         WHERE delivery_id = ?1 AND attempt = ?2";
    let values = params![
        id,
        attempt,
        late.outcome,
        late.status,
        row::millis(late.after)
    ];
    tx.run(record, values)?;
    Ok(())
}

/// The columns of a delivery that decide whether a [`FreeChange`] can be made.
struct Free {
    subscription: SubscriptionId,
    state: DeliveryState,
    due_at: Timestamp,
    scheduled_at: Option<Timestamp>,
    deferred: bool,
    attempts: u32,
    /// The beginning and end of the newest lock.
    lock: Option<(Timestamp, Timestamp)>,
}

/// Makes the changes and returns their outcomes, with the audit entry if there is one and any change was made. If
/// `all_or_none` is set and a change cannot be made, makes none and returns only the outcome of that change.
pub(super) fn settle_all_free(
    tx: &WriteTx,
    request: FreeChanges,
) -> Result<(Vec<FreeSettled>, Option<AuditEntry>), StoreError> {
    let FreeChanges { changes, now, .. } = request;
    if request.all_or_none {
        for (id, change) in &changes {
            if let Err(obstacle) = look_free(tx, *id, *change, now)? {
                return Ok((vec![obstacle], None));
            }
        }
    }
    let settled: Vec<_> = changes
        .into_iter()
        .map(|(id, change)| settle_free(tx, id, change, now))
        .collect::<Result<_, _>>()?;
    let is_done = |settled: &&FreeSettled| matches!(settled, FreeSettled::Done(_));
    let done = settled.iter().filter(is_done).count();
    let audit = request.audit.and_then(|audit| audit.of_dead_letters(done));
    Ok((settled, audit))
}

/// Returns the delivery if the change can be made, or the reason why it cannot.
fn look_free(
    tx: &Connection,
    id: DeliveryId,
    change: FreeChange,
    now: Timestamp,
) -> Result<Result<Free, FreeSettled>, StoreError> {
    let find = "SELECT subscription_id, state, deferred, attempts, locked_at, locked_until, \
         next_attempt_at, scheduled_at FROM delivery WHERE id = ?1";
    let found = tx.first(find, [id], |row| {
        let (from, until): (Option<_>, Option<_>) = (row.get(4)?, row.get(5)?);
        Ok(Free {
            subscription: row.get(0)?,
            state: row.get(1)?,
            due_at: row.get(6)?,
            scheduled_at: row.get(7)?,
            deferred: row.get(2)?,
            attempts: row.get(3)?,
            lock: from.zip(until),
        })
    })?;
    let Some(free) = found else {
        return Ok(Err(FreeSettled::Missing));
    };
    let (wanted, is_put_off) = match change {
        FreeChange::End(_) => (DeliveryState::Pending, free.due_at > now),
        FreeChange::RetryNow => (DeliveryState::Pending, free.deferred),
        FreeChange::Remove => (DeliveryState::DeadLettered, false),
        FreeChange::Cancel(of) => {
            let is_scheduled = free.scheduled_at.is_some_and(|at| at > now);
            let is_waiting = free.subscription == of && is_scheduled;
            (DeliveryState::Pending, !is_waiting)
        }
    };
    if free.state != wanted {
        return Ok(Err(FreeSettled::In(free.state)));
    }
    if is_put_off || free.lock.is_some_and(|(_, until)| is_held(until, now)) {
        return Ok(Err(FreeSettled::Held));
    }
    Ok(Ok(free))
}

/// Reports whether all of the scheduled messages can be cancelled.
pub(super) fn can_cancel(
    tx: &Connection,
    scheduled: &[(DeliveryId, SubscriptionId)],
    now: Timestamp,
) -> Result<bool, StoreError> {
    for (id, of) in scheduled {
        if look_free(tx, *id, FreeChange::Cancel(*of), now)?.is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn settle_free(
    tx: &WriteTx,
    id: DeliveryId,
    change: FreeChange,
    now: Timestamp,
) -> Result<FreeSettled, StoreError> {
    let free = match look_free(tx, id, change, now)? {
        Ok(free) => free,
        Err(obstacle) => return Ok(obstacle),
    };
    match change {
        FreeChange::End(settlement) => end_free(tx, id, &free, settlement, now)?,
        FreeChange::Cancel(_) => {
            let settlement = Settlement::Drop(DeadLetterReason::Cancelled);
            end_free(tx, id, &free, settlement, now)?;
        }
        FreeChange::RetryNow => {
            let retry = "UPDATE delivery SET next_attempt_at = min(next_attempt_at, ?2), \
                     published_at = min(published_at, ?2), scheduled_at = NULL WHERE id = ?1";
            change_sealed(tx, id, retry, params![id, now])?;
        }
        FreeChange::Remove => remove(tx, id, now)?,
    }
    Ok(FreeSettled::Done(free.subscription))
}

fn end_free(
    tx: &WriteTx,
    id: DeliveryId,
    free: &Free,
    settlement: Settlement,
    now: Timestamp,
) -> Result<(), StoreError> {
    if let Some((from, until)) = free.lock {
        record_lapse(tx, id, free.attempts, from, until)?;
    }
    let record = SettlementRecord {
        delivery: id,
        counted_for: None,
        attempts: free.attempts,
        attempt: None,
        late: None,
        settlement: Some(settlement),
    };
    settle(tx, &record, now)?;
    Ok(())
}

/// Takes a dead letter out of its queue.
pub(super) fn remove(tx: &WriteTx, id: DeliveryId, now: Timestamp) -> Result<(), StoreError> {
    let remove = "UPDATE delivery SET state = 'Removed', removed_at = ?2, lock_token = NULL, \
         locked_at = NULL, locked_until = NULL WHERE id = ?1";
    counted(tx, id, || Ok(tx.run(remove, params![id, now])?)).map(|_| ())
}

/// Subtracts the newest lock of a pending delivery from its attempts.
pub(super) fn uncount(tx: &WriteTx, id: DeliveryId) -> Result<(), StoreError> {
    let uncount = "UPDATE delivery SET attempts = attempts - 1, last_attempt_at = \
         (SELECT max(started_at) FROM delivery_attempt WHERE delivery_id = ?1) WHERE id = ?1";
    counted(tx, id, || Ok(tx.run(uncount, [id])?)).map(|_| ())
}

/// Removes the lock of a delivery. It is due at `at`, or deferred if `at` is `NEVER`.
pub(super) fn unlock(tx: &Connection, id: DeliveryId, at: Timestamp) -> Result<(), StoreError> {
    let unlock = "UPDATE delivery SET lock_token = NULL, locked_at = NULL, locked_until = NULL, \
         next_attempt_at = ?2, deferred = (?2 = ?3) WHERE id = ?1";
    tx.run(unlock, params![id, at, NEVER])?;
    Ok(())
}

/// Records an expired lock as an attempt. It is called when the delivery is locked or ended next, because nothing runs
/// when the lock expires.
pub(super) fn record_lapse(
    tx: &Connection,
    id: DeliveryId,
    attempts: u32,
    from: Timestamp,
    until: Timestamp,
) -> Result<(), StoreError> {
    let lapsed = DeliveryAttempt {
        attempt: attempts,
        started_at: from,
        duration: until.since(from),
        result: AttemptResult::of(Outcome::LockLost),
        late: None,
    };
    let update = "UPDATE delivery SET last_attempt_at = ?2, last_outcome = ?3, last_status = NULL \
         WHERE id = ?1";
    tx.run(update, params![id, from, Outcome::LockLost])?;
    Ok(record_attempt(tx, id, &lapsed)?)
}

pub(super) fn discard_dead_letters(
    tx: &WriteTx,
    of: SubscriptionId,
    before: Timestamp,
    limit: usize,
    now: Timestamp,
) -> Result<Discarded, StoreError> {
    let find = "SELECT id FROM delivery WHERE subscription_id = ?1 \
         AND state = 'DeadLettered' AND next_attempt_at < ?2 \
         AND (locked_until IS NULL OR locked_until <= ?4) LIMIT ?3";
    let found = tx.all(find, params![of, before, limit, now], |row| Ok(row.get(0)?))?;
    let drop = "UPDATE delivery SET state = 'Dropped', blob_id = NULL, lock_token = NULL, \
         locked_at = NULL, locked_until = NULL WHERE id = ?1";
    for id in &found {
        counted(tx, *id, || Ok::<_, StoreError>(tx.run(drop, [id])?))?;
    }
    Ok(Discarded {
        dropped: found.len(),
        ..Discarded::default()
    })
}

/// The kind of a delivery that ends when its subscription is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leftover {
    /// A pending delivery. It is kept as a dead letter if `is_kept` is true, else dropped.
    Pending { is_kept: bool },
    /// A message in the dead-letter queue. It is removed with the queue.
    DeadLetter,
}

// Selects dead letters of messages only, which are numbered. Dead letters of events stay.
static OF_DELETED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT delivery.id, event_subscription.dead_letters_pending FROM subscription_total AS total \
             CROSS JOIN event_subscription ON event_subscription.id = abs(total.subscription_id) \
             CROSS JOIN delivery ON delivery.subscription_id = total.subscription_id \
                 AND delivery.state = 'Pending' \
             WHERE {HAS_LEFT} \
         UNION ALL SELECT delivery.id, NULL FROM subscription_total AS total \
             CROSS JOIN delivery ON delivery.subscription_id = total.subscription_id \
                 AND delivery.state = 'DeadLettered' \
             WHERE {HAS_LEFT} AND total.numbered > 0 LIMIT ?1"
    )
});

/// Returns deliveries that end because their subscription is deleted, including those in its transfer queue.
pub(super) fn of_deleted(
    tx: &Connection,
    limit: usize,
) -> Result<Vec<(DeliveryId, Leftover)>, StoreError> {
    tx.all(&OF_DELETED, [limit], |row| {
        let is_kept: Option<bool> = row.get(1)?;
        let pending = |is_kept| Leftover::Pending { is_kept };
        Ok((row.get(0)?, is_kept.map_or(Leftover::DeadLetter, pending)))
    })
}

// Records the lock, which is lost when the subscription is deleted.
/// The statement has few spaces because the statement cache copies the text at each run.
const RECORD_LOST: &str = "INSERT OR REPLACE INTO delivery_attempt (delivery_id, attempt, \
         started_at, duration_ms, outcome) \
     SELECT id, attempts, locked_at, max(0, min(locked_until, ?2) - locked_at), ?3 \
     FROM delivery WHERE id = ?1 AND lock_token IS NOT NULL AND state = 'Pending'";
const END_PENDING: &str = "UPDATE delivery SET state = ?2, ended_at = ?3, next_attempt_at = ?3, \
         dead_letter_reason = ?4, lock_token = NULL, locked_at = NULL, locked_until = NULL, \
         deferred = 0, \
         last_outcome = CASE WHEN lock_token IS NULL THEN last_outcome ELSE ?5 END, \
         last_status = CASE WHEN lock_token IS NULL THEN last_status END \
     WHERE id = ?1 AND state = 'Pending'";

const IS_DEAD_LETTER: &str = "SELECT id FROM delivery WHERE id = ?1 AND state = 'DeadLettered'";

/// Ends the deliveries whose state has not changed since they were found.
pub(super) fn end_leftovers(
    tx: &WriteTx,
    leftovers: Vec<(DeliveryId, Leftover)>,
    now: Timestamp,
) -> Result<Discarded, StoreError> {
    let mut ended = Discarded::default();
    for (id, leftover) in leftovers {
        match leftover {
            Leftover::Pending { is_kept: true } => {
                ended.dead_lettered += end_pending(tx, id, DeliveryState::DeadLettered, now)?;
            }
            Leftover::Pending { is_kept: false } => {
                ended.dropped += end_pending(tx, id, DeliveryState::Dropped, now)?;
            }
            Leftover::DeadLetter => {
                if tx.find::<DeliveryId>(IS_DEAD_LETTER, [id])?.is_some() {
                    remove(tx, id, now)?;
                    ended.removed += 1;
                }
            }
        }
    }
    Ok(ended)
}

/// Sets a delivery to the end state `state` if it is still pending. Returns the number of deliveries changed, 0 or 1.
fn end_pending(
    tx: &WriteTx,
    id: DeliveryId,
    state: DeliveryState,
    now: Timestamp,
) -> Result<usize, StoreError> {
    let (reason, lost) = (DeadLetterReason::SubscriptionDeleted, Outcome::LockLost);
    counted(tx, id, || {
        tx.run(RECORD_LOST, params![id, now, lost])?;
        let changed = tx.run(END_PENDING, params![id, state, now, reason, lost])?;
        if state == DeliveryState::DeadLettered && changed > 0 {
            describe(tx, id)?;
        }
        Ok(changed)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::store::engine::{db, migrate};
    use crate::store::ledger::counters::mark_deleted;

    /// The steps that SQLite makes to find what the last of so many deleted subscriptions has left. Each of the others has
    /// a delivery that has ended.
    fn steps_among(deleted: usize) -> u64 {
        let mut tx = db::open_in_memory().expect("a database");
        migrate::migrate(&mut tx).expect("the schema");
        let mark = mark_deleted("TRUE");
        let fill = format!(
            "INSERT INTO topic (id, name, kind, definition, key1, key2, created_at, updated_at)
                 VALUES (1, 'orders', 'Custom', '', '', '', 0, 0);
             INSERT INTO event (id, topic_id, received_at, event_id, event_type, matched, checksum)
                 VALUES (1, 1, 0, 'e', '', 1, 0);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {deleted})
                 INSERT INTO event_subscription (id, topic_id, name, definition, validation_state, validated_once,
                     created_at, updated_at, deleted_at)
                 SELECT i, 1, 's' || i, '', 'Succeeded', 1, 0, 0, 5 FROM n;
             INSERT INTO delivery (id, event_id, subscription_id, state, ended_at, published_at, next_attempt_at, checksum)
                 SELECT id, 1, id, 'Delivered', 1, 0, 0, 0 FROM event_subscription;
             UPDATE delivery SET state = 'Pending', ended_at = NULL WHERE id = {deleted};
             {mark};
             UPDATE subscription_total SET kept = 1, pending = (subscription_id = {deleted}), matched = 1
                 WHERE subscription_id > 0;"
        );
        tx.execute_batch(&fill).expect("rows");
        let steps = Arc::new(AtomicU64::new(0));
        let each = Arc::clone(&steps);
        let count = move || {
            each.fetch_add(1, Ordering::Relaxed);
            false
        };
        tx.progress_handler(1, Some(count)).expect("a handler");
        let left = of_deleted(&tx, 10).expect("an answer");
        let last = DeliveryId(i64::try_from(deleted).expect("a number"));
        assert_eq!(left, [(last, Leftover::Pending { is_kept: false })]);
        steps.load(Ordering::Relaxed)
    }

    #[test]
    fn what_a_deleted_subscription_has_left_is_found_without_a_look_at_the_others() {
        assert_eq!(steps_among(1), steps_among(1_000));
    }

    #[test]
    fn many_messages_are_cancelled_in_changes_of_a_bounded_number() {
        let cancelled = |count| {
            let scheduled = vec![(DeliveryId(1), SubscriptionId(1)); count];
            let changes = FreeChanges::cancels(&scheduled, Timestamp::from_ms(1));
            let counts = changes.iter().map(|each| each.changes.len());
            counts.collect::<Vec<_>>()
        };
        let most = CHANGE_DELIVERIES_MAX;
        assert_eq!(cancelled(2 * most + 1), [most, most, 1]);
        assert_eq!(cancelled(3), [3]);
    }
}
