//! Locks of receivers: what they lock, renew and settle by token.
//!
//! A lock moves `next_attempt_at` to its own end, so it lapses by itself and nothing has to be repaired after
//! a crash.

use std::sync::{Arc, Mutex};

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::base::Timestamp;
use crate::model::audit::AuditEntry;
use crate::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use crate::model::delivery::{
    AttemptResult, Delivery, DeliveryId, DeliveryState, Outcome, Settlement,
};
use crate::model::event::StoredEvent;
use crate::model::lease::{
    Lock, LockError, LockSettlement, LockToken, NEVER, SubQueue, attempt, is_held,
};
use crate::model::subscription::SubscriptionId;
use crate::store::error::StoreError;
use crate::store::ledger::Deliveries;
use crate::store::ledger::lease::{DELIVERY_COLUMNS, delivery, load_event};
use crate::store::ledger::recent::RecentEvents;
use crate::store::ledger::settle::{SettlementRecord, record, settle};
use crate::store::row;

/// What to lock.
#[derive(Clone, Debug)]
pub struct LockRequest {
    pub subscription: SubscriptionId,
    pub queue: SubQueue,
    pub which: LockSelection,
    pub now: Timestamp,
    /// When the locks end.
    pub until: Timestamp,
    /// One token for each lock that is wanted at most.
    pub tokens: Vec<LockToken>,
    /// Bytes of events after which no more is locked; the first delivery always is.
    pub bytes_max: usize,
}

/// Which deliveries of a queue to lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockSelection {
    /// The due ones, oldest first.
    Due,
    /// Deferred ones, by id.
    Deferred(Vec<DeliveryId>),
}

/// A locked delivery.
#[derive(Clone, Debug)]
pub struct Locked {
    pub token: LockToken,
    pub until: Timestamp,
    /// As it was before the lock. The lock of a pending delivery counts as an attempt from now on.
    pub delivery: Delivery,
    pub event: Arc<StoredEvent>,
    pub deferred: bool,
    /// Of a dead letter.
    pub dead_letter: Option<DeadLetter>,
}

/// The result of a [`LockRequest`].
#[derive(Clone, Debug, Default)]
pub struct LockBatch {
    pub locked: Vec<Locked>,
    /// Pending deliveries whose events cannot be read, with the error. They are not locked.
    pub unreadable: Vec<(Delivery, String)>,
}

/// Why and when a delivery was dead-lettered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub reason: DeadLetterReason,
    pub details: DeadLetterDetails,
    pub at: Timestamp,
}

/// How to end a lock.
#[derive(Clone, Debug)]
pub struct SettledLock {
    pub token: LockToken,
    pub settlement: LockSettlement,
    /// The attempt to record; `None` if the lock does not count as one because nobody got the event. Locks of
    /// dead letters are never recorded.
    pub result: Option<AttemptResult>,
}

impl Deliveries {
    /// Locks deliveries of a queue, at most one for each token.
    pub async fn lock(&self, request: LockRequest) -> Result<LockBatch, StoreError> {
        let recent = Arc::clone(&self.recent);
        self.db.write(move |tx| lock(tx, &request, &recent)).await
    }

    /// The locks of these tokens at `now`, in their order; `None` for one that was lost.
    pub async fn locks(
        &self,
        tokens: Vec<LockToken>,
        now: Timestamp,
    ) -> Result<Vec<Option<Lock>>, StoreError> {
        self.db
            .read(move |tx| {
                let held = |token| Ok(held(tx, token, now)?.map(|held| held.lock));
                tokens.into_iter().map(held).collect()
            })
            .await
    }

    /// Extends these locks to `until`. A lock that was lost stays lost.
    pub async fn renew(
        &self,
        tokens: Vec<LockToken>,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<Result<(), LockError>>, StoreError> {
        self.db
            .write(move |tx| {
                let renew = |token| renew(tx, token, until, now);
                tokens.into_iter().map(renew).collect()
            })
            .await
    }

    /// Ends locks. A lock that was lost changes nothing.
    pub async fn settle_locks(
        &self,
        settled: Vec<SettledLock>,
        now: Timestamp,
    ) -> Result<Vec<Result<DeliveryId, LockError>>, StoreError> {
        self.db
            .write_in_group(move |tx| {
                let settle = |each| settle_lock(tx, each, now);
                settled.into_iter().map(settle).collect()
            })
            .await
    }

    /// Settles those of these deliveries that are due and not locked. Returns which ones.
    pub async fn settle_unlocked(
        &self,
        settled: Vec<SettlementRecord>,
        now: Timestamp,
    ) -> Result<Vec<SettlementRecord>, StoreError> {
        self.db
            .write(move |tx| {
                let mut ended = Vec::new();
                for each in settled {
                    if settle_unlocked(tx, &each, now)? {
                        ended.push(each);
                    }
                }
                Ok(ended)
            })
            .await
    }

    /// Removes dead letters from their queues, unless they are locked. Returns how many. `audit` counts them
    /// and the `rest` that follows in other transactions.
    pub async fn remove(
        &self,
        dead_letters: Vec<DeliveryId>,
        audit: Option<AuditEntry>,
        rest: usize,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        self.db
            .write_audited(move |tx| {
                let mut remove = tx.prepare_cached(REMOVE_UNLOCKED)?;
                let mut removed = 0;
                for id in dead_letters {
                    removed += remove.execute(params![id, now.as_ms()])?;
                }
                let audit = audit.filter(|_| removed > 0);
                Ok((
                    removed,
                    audit.and_then(|audit| audit.of_dead_letters(removed + rest)),
                ))
            })
            .await
    }

    /// When the first delivery of a queue can be locked, or could have been.
    pub async fn first_due(
        &self,
        subscription: SubscriptionId,
        queue: SubQueue,
    ) -> Result<Option<Timestamp>, StoreError> {
        let first = match queue {
            SubQueue::Pending => {
                "SELECT min(next_attempt_at) FROM delivery WHERE subscription_id = ?1 AND state = 'Pending'"
            }
            SubQueue::DeadLetters => {
                "SELECT min(next_attempt_at) FROM delivery WHERE subscription_id = ?1 AND state = 'DeadLettered'"
            }
        };
        self.db
            .read(move |tx| {
                let at: Option<i64> = tx
                    .prepare_cached(first)?
                    .query_row([subscription], |row| row.get(0))?;
                Ok(at.map(Timestamp::from_ms))
            })
            .await
    }
}

/// The columns that [`Lockable::of`] reads after those of the delivery.
const LOCKABLE: &str = "deferred, locked_at, locked_until, dead_letter_reason, \
     receiver_reason, receiver_description, receiver_properties, ended_at";
const DUE_PENDING: &str = "WHERE subscription_id = ?1 AND state = 'Pending' AND next_attempt_at <= ?2 \
     ORDER BY next_attempt_at, id LIMIT ?3";
const DUE_DEAD: &str = "WHERE subscription_id = ?1 AND state = 'DeadLettered' AND next_attempt_at <= ?2 \
     ORDER BY next_attempt_at, id LIMIT ?3";
const DEFERRED: &str = "WHERE id = ?1 AND subscription_id = ?2 AND state = ?3 AND deferred = 1 \
     AND (locked_until IS NULL OR locked_until <= ?4)";
// While a delivery is locked, `next_attempt_at` is the end of its lock.
const UNLOCKED: &str = "WHERE id = ?1 AND state = 'Pending' AND next_attempt_at <= ?2";
const LOCK: &str = "UPDATE delivery SET lock_token = ?2, locked_at = ?3, locked_until = ?4, \
     attempts = attempts + ?5, \
     last_attempt_at = CASE WHEN ?5 THEN ?3 ELSE last_attempt_at END, \
     next_attempt_at = CASE WHEN deferred THEN next_attempt_at ELSE ?4 END WHERE id = ?1";
const LAPSED: &str = "UPDATE delivery SET last_attempt_at = ?2, last_outcome = ?3, \
     last_status = NULL WHERE id = ?1";

/// A row that may be locked.
struct Lockable {
    delivery: Delivery,
    deferred: bool,
    /// Beginning and end of a lock that has lapsed.
    lapsed: Option<(Timestamp, Timestamp)>,
    dead_letter: Option<DeadLetter>,
}

impl Lockable {
    fn of(row: &Row<'_>) -> Result<Self, StoreError> {
        let (from, until) = (
            row::timestamp_or_null(row, 6)?,
            row::timestamp_or_null(row, 7)?,
        );
        let dead_letter = match (row::reason(row, 8)?, row::timestamp_or_null(row, 12)?) {
            (Some(reason), Some(at)) => Some(DeadLetter {
                reason,
                details: row::details(row, 9)?,
                at,
            }),
            _ => None,
        };
        Ok(Self {
            delivery: delivery(row)?,
            deferred: row.get(5)?,
            lapsed: from.zip(until),
            dead_letter,
        })
    }
}

fn lock(
    tx: &Connection,
    request: &LockRequest,
    recent: &Mutex<RecentEvents>,
) -> Result<LockBatch, StoreError> {
    let mut taken = LockBatch::default();
    let mut bytes = 0;
    for (found, token) in find(tx, request)?.into_iter().zip(&request.tokens) {
        if bytes > request.bytes_max {
            break;
        }
        let id = found.delivery.id;
        let counts = request.queue == SubQueue::Pending;
        let key = found.delivery.event;
        let known = recent.lock().unwrap().get(key);
        let event = match known.map_or_else(|| load_event(tx, key).map(Arc::new), Ok) {
            Err(StoreError::Unreadable(reason)) => Err(reason),
            event => Ok(event?),
        };
        if let (Err(reason), true) = (&event, counts) {
            taken.unreadable.push((found.delivery, reason.clone()));
            continue;
        }
        if let Some((from, until)) = found.lapsed.filter(|_| counts) {
            record_lapse(tx, &found.delivery, from, until)?;
        }
        tx.prepare_cached(LOCK)?.execute(params![
            id,
            token,
            request.now.as_ms(),
            request.until.as_ms(),
            counts
        ])?;
        let Ok(event) = event else {
            continue; // a dead letter already: locked for nobody, and out of the way of those behind it
        };
        bytes += event.event.size();
        taken.locked.push(Locked {
            token: *token,
            until: request.until,
            delivery: found.delivery,
            event,
            deferred: found.deferred,
            dead_letter: found.dead_letter,
        });
    }
    Ok(taken)
}

fn find(tx: &Connection, request: &LockRequest) -> Result<Vec<Lockable>, StoreError> {
    let now = request.now.as_ms();
    match &request.which {
        LockSelection::Due => {
            let due = match request.queue {
                SubQueue::Pending => DUE_PENDING,
                SubQueue::DeadLetters => DUE_DEAD,
            };
            let limit = i64::try_from(request.tokens.len()).unwrap_or(i64::MAX);
            rows(tx, due, params![request.subscription, now, limit])
        }
        LockSelection::Deferred(ids) => {
            let state = match request.queue {
                SubQueue::Pending => DeliveryState::Pending,
                SubQueue::DeadLetters => DeliveryState::DeadLettered,
            };
            let mut found = Vec::new();
            for id in ids {
                let values = params![id, request.subscription, state, now];
                found.extend(rows(tx, DEFERRED, values)?);
            }
            Ok(found)
        }
    }
}

fn rows(
    tx: &Connection,
    condition: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<Lockable>, StoreError> {
    let mut select = tx.prepare_cached(&format!(
        "SELECT {DELIVERY_COLUMNS}, {LOCKABLE} FROM delivery {condition}"
    ))?;
    let mut rows = select.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Lockable::of(row)?);
    }
    Ok(found)
}

fn settle_unlocked(
    tx: &Connection,
    settled: &SettlementRecord,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let values = params![settled.delivery, now.as_ms()];
    let Some(found) = rows(tx, UNLOCKED, values)?.pop() else {
        return Ok(false);
    };
    if let Some((from, until)) = found.lapsed {
        record_lapse(tx, &found.delivery, from, until)?;
    }
    settle(tx, settled, now)?;
    Ok(true)
}

/// Records a lapsed lock. This happens when the delivery is locked or ended next, since nothing happens at
/// the moment of the lapse.
fn record_lapse(
    tx: &Connection,
    delivery: &Delivery,
    from: Timestamp,
    until: Timestamp,
) -> Result<(), StoreError> {
    let lapsed = attempt(
        delivery.attempts,
        from,
        until,
        AttemptResult::of(Outcome::LockLost),
    );
    tx.prepare_cached(LAPSED)?.execute(params![
        delivery.id,
        from.as_ms(),
        Outcome::LockLost.name()
    ])?;
    record(tx, delivery.id, &lapsed)
}

/// A held lock, with what its settlement needs of the delivery.
struct Held {
    lock: Lock,
    attempts: u32,
    deferred: bool,
}

fn held(tx: &Connection, token: LockToken, now: Timestamp) -> Result<Option<Held>, StoreError> {
    let find = "SELECT delivery.id, subscription_id, locked_until, locked_at, attempts, \
         published_at, ended_at, deferred, event.event_id \
         FROM delivery JOIN event ON event.id = delivery.event_id WHERE lock_token = ?1";
    let held = tx
        .prepare_cached(find)?
        .query_row([token], |row| {
            let ended_at = row::timestamp_or_null(row, 6)?;
            let published_at = row::timestamp(row, 5)?;
            Ok(Held {
                lock: Lock {
                    token,
                    delivery: DeliveryId(row.get(0)?),
                    subscription: SubscriptionId(row.get(1)?),
                    // An ended delivery that is locked is a dead letter.
                    queue: ended_at.map_or(SubQueue::Pending, |_| SubQueue::DeadLetters),
                    until: row::timestamp(row, 2)?,
                    locked_at: row::timestamp(row, 3)?,
                    queued_at: ended_at.unwrap_or(published_at),
                    event_id: row.get(8)?,
                },
                attempts: row.get(4)?,
                deferred: row.get(7)?,
            })
        })
        .optional()?;
    Ok(held.filter(|held| is_held(held.lock.until, now)))
}

const RENEW: &str = "UPDATE delivery SET locked_until = ?2, \
     next_attempt_at = CASE WHEN deferred THEN next_attempt_at ELSE ?2 END WHERE lock_token = ?1";
const UNCOUNT: &str = "UPDATE delivery SET attempts = attempts - 1, last_attempt_at = \
     (SELECT max(started_at) FROM delivery_attempt WHERE delivery_id = ?1) WHERE id = ?1";
const DEFER: &str = "UPDATE delivery SET deferred = 1 WHERE id = ?1";
const UNLOCK: &str = "UPDATE delivery SET lock_token = NULL, locked_at = NULL, locked_until = NULL, \
     next_attempt_at = ?2 WHERE id = ?1";
const REMOVE: &str = "UPDATE delivery SET state = 'Removed', removed_at = ?2, lock_token = NULL, \
     locked_at = NULL, locked_until = NULL WHERE id = ?1";

pub(super) const REMOVE_UNLOCKED: &str = "UPDATE delivery SET state = 'Removed', removed_at = ?2, lock_token = NULL, \
     locked_at = NULL, locked_until = NULL WHERE id = ?1 AND state = 'DeadLettered' \
     AND (locked_until IS NULL OR locked_until <= ?2)";

fn renew(
    tx: &Connection,
    token: LockToken,
    until: Timestamp,
    now: Timestamp,
) -> Result<Result<(), LockError>, StoreError> {
    if held(tx, token, now)?.is_none() {
        return Ok(Err(LockError::LockLost));
    }
    tx.prepare_cached(RENEW)?
        .execute(params![token, until.as_ms()])?;
    Ok(Ok(()))
}

fn settle_lock(
    tx: &Connection,
    settled: SettledLock,
    now: Timestamp,
) -> Result<Result<DeliveryId, LockError>, StoreError> {
    let Some(held) = held(tx, settled.token, now)? else {
        return Ok(Err(LockError::LockLost));
    };
    let id = held.lock.delivery;
    let ended = match held.lock.queue {
        SubQueue::Pending => settle_pending(tx, &held, settled, now),
        SubQueue::DeadLetters => settle_dead_letter(tx, &held, &settled.settlement, now),
    };
    Ok(ended?.map(|()| id))
}

fn settle_pending(
    tx: &Connection,
    held: &Held,
    settled: SettledLock,
    now: Timestamp,
) -> Result<Result<(), LockError>, StoreError> {
    let id = held.lock.delivery;
    let back = |at| match held.deferred {
        true => Settlement::Retry { at: NEVER },
        false => Settlement::Retry { at },
    };
    let settlement = match settled.settlement {
        LockSettlement::Settle(Settlement::Retry { at }) => back(at),
        LockSettlement::Settle(settlement) => settlement,
        LockSettlement::Abandon => back(held.lock.queued_at),
        LockSettlement::Defer => {
            tx.prepare_cached(DEFER)?.execute([id])?;
            Settlement::Retry { at: NEVER }
        }
    };
    if settled.result.is_none() {
        tx.prepare_cached(UNCOUNT)?.execute([id])?;
    }
    let attempt = settled
        .result
        .map(|result| Arc::new(attempt(held.attempts, held.lock.locked_at, now, result)));
    let settled = SettlementRecord {
        delivery: id,
        attempt,
        settlement,
    };
    settle(tx, &settled, now)?;
    Ok(Ok(()))
}

fn settle_dead_letter(
    tx: &Connection,
    held: &Held,
    settlement: &LockSettlement,
    now: Timestamp,
) -> Result<Result<(), LockError>, StoreError> {
    let id = held.lock.delivery;
    let unlock = |at: Timestamp| -> rusqlite::Result<usize> {
        let at = if held.deferred { NEVER } else { at };
        tx.prepare_cached(UNLOCK)?.execute(params![id, at.as_ms()])
    };
    match settlement {
        LockSettlement::Settle(Settlement::Complete) => {
            tx.prepare_cached(REMOVE)?
                .execute(params![id, now.as_ms()])?;
        }
        LockSettlement::Settle(Settlement::Retry { at }) => {
            unlock(*at)?;
        }
        LockSettlement::Abandon => {
            unlock(held.lock.queued_at)?;
        }
        LockSettlement::Defer => {
            tx.prepare_cached(DEFER)?.execute([id])?;
            unlock(NEVER)?;
        }
        LockSettlement::Settle(Settlement::DeadLetter(_) | Settlement::Drop(_)) => {
            return Ok(Err(LockError::IsDeadLetter));
        }
    }
    Ok(Ok(()))
}
