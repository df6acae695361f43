//! Locks of receivers: receivers lock deliveries, and renew and settle them by lock token.
//!
//! A lock moves `next_attempt_at` of the delivery to the end of the lock, so it expires by itself and nothing has to be
//! repaired after a crash. The next receive request returns each delivery whose lock has expired to its old place.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, LazyLock};

use rusqlite::{Connection, Row, ToSql, params};

use crate::base::Timestamp;
use crate::model::audit::AuditEntry;
use crate::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use crate::model::delivery::{AttemptResult, Delivery, DeliveryId, Settlement};
use crate::model::event::StoredEvent;
use crate::model::lease::{
    Disposition, Lock, LockChange, LockEnd, LockError, LockOf, LockSeed, LockToken, NEVER,
    QueueRef, SubQueue, is_held,
};
use crate::model::limits::{
    CHANGE_DELIVERIES_MAX, DEAD_LETTER_BYTES_LET_IN, LOCK_BYTES_MAX, RECEIVER_PROPERTY_BYTES_MAX,
    RULE_COPIES_MAX, SESSION_MESSAGES_HELD_MAX, SETTLED_BYTES_MAX,
};
use crate::model::session::HeldSession;
use crate::model::subscription::SubscriptionId;
use crate::store::engine::db::WriteTx;
use crate::store::engine::queue::{Lane, Whose};
use crate::store::error::StoreError;
use crate::store::ledger::append::{as_number, change_sealed};
use crate::store::ledger::counters::QueueRoom;
use crate::store::ledger::lease::{DELIVERY_COLUMNS, delivery, load_event};
use crate::store::ledger::sessions;
use crate::store::ledger::settle::{
    CountedFor, SettlementRecord, record_lapse, remove, settle, uncount, unlock,
};
use crate::store::row;
use crate::store::sql::Sql;
use crate::wire::amqp::message::merged;

/// A request to lock deliveries of a queue.
#[derive(Clone, Debug)]
pub struct LockRequest {
    pub of: QueueRef,
    pub which: LockSelection,
    pub now: Timestamp,
    /// The time at which the locks end.
    pub until: Timestamp,
    /// Seeds of lock tokens, one for each delivery to lock at most. One change locks no more than
    /// [`CHANGE_DELIVERIES_MAX`].
    pub seeds: Vec<LockSeed>,
    /// The number of bytes, of events and of properties that receivers have set, after which no more deliveries are
    /// locked. The first delivery is always locked.
    pub bytes_max: usize,
    /// The session of the deliveries. If it is set, the locks end with the lock of the session.
    pub session: Option<HeldSession>,
}

/// Selects the deliveries of a queue to lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockSelection {
    /// Due deliveries, oldest first.
    Due,
    /// The delivery that has been due the longest, if its event and the properties that receivers have set take at most
    /// `bytes_max` bytes.
    FirstDue { bytes_max: usize },
    /// Due deliveries that were enqueued before this time. Only the deliveries that have been due the longest are
    /// looked at.
    EnqueuedBefore(Timestamp),
    /// Deferred deliveries with these sequence numbers. A number that is repeated counts once.
    Deferred(Vec<i64>),
}

/// The number of due deliveries that one change looks at for [`LockSelection::EnqueuedBefore`]. Without a limit, a
/// queue with only newer deliveries would be read to its end while other changes wait.
const OLDEST_LOOKED_AT: usize = 1_000;

/// A query for deferred messages of a queue, or of one session of the queue, by their sequence numbers.
#[derive(Clone, Debug)]
pub struct DeferredQuery {
    pub of: QueueRef,
    pub numbers: Vec<i64>,
    pub session: Option<String>,
    pub now: Timestamp,
}

/// A locked delivery.
#[derive(Clone, Debug)]
pub struct Locked {
    pub token: LockToken,
    pub until: Timestamp,
    /// The delivery as it was before the lock. The lock of a pending delivery counts as an attempt.
    pub delivery: Delivery,
    pub event: Arc<StoredEvent>,
    pub deferred: bool,
    /// Why and when the delivery was dead-lettered; `None` if it is not a dead letter.
    pub dead_letter: Option<DeadLetterCause>,
    /// See [`LockChange::properties`].
    pub properties: Option<Vec<u8>>,
    pub origin: ForwardOrigin,
}

impl Locked {
    /// Returns the number of bytes of the event and of the properties that receivers have set.
    pub fn bytes(&self) -> usize {
        let dead_letter = self.dead_letter.as_ref();
        self.event.event.size()
            + self.properties.as_ref().map_or(0, Vec::len)
            + dead_letter.map_or(0, |dead_letter| dead_letter.details.bytes())
    }
}

/// The result of a [`LockRequest`].
#[derive(Clone, Debug, Default)]
pub struct LockBatch {
    pub locked: Vec<Locked>,
    /// Pending deliveries whose events cannot be read, with the error. These deliveries are not locked.
    pub unreadable: Vec<(Delivery, String)>,
    /// The size in bytes of the first delivery, if it is larger than [`LockSelection::FirstDue`] allows. Nothing is
    /// locked then.
    pub too_large: Option<usize>,
    /// Is true if nothing is locked because the session is not held any more.
    pub session_is_lost: bool,
}

/// A request to peek deliveries of a queue.
#[derive(Clone, Debug)]
pub struct PeekRequest {
    pub of: QueueRef,
    /// The lowest sequence number to return.
    pub from: i64,
    pub limit: usize,
    /// The number of bytes, of events and of properties that receivers have set, after which no more deliveries are
    /// added. The first delivery is always added.
    pub bytes_max: usize,
    /// The session whose deliveries are returned; `None` for all deliveries of the queue.
    pub session: Option<String>,
}

/// A peeked delivery. It may be locked.
#[derive(Clone, Debug)]
pub struct Peeked {
    pub delivery: Delivery,
    pub event: Arc<StoredEvent>,
    pub deferred: bool,
    /// The end of the newest lock of the delivery, which may have passed.
    pub locked_until: Option<Timestamp>,
    /// Why and when the delivery was dead-lettered; `None` if it is not a dead letter.
    pub dead_letter: Option<DeadLetterCause>,
    /// See [`LockChange::properties`].
    pub properties: Option<Vec<u8>>,
    pub origin: ForwardOrigin,
    /// The scheduled enqueue time, if the sender has set one. It may have passed.
    pub scheduled_at: Option<Timestamp>,
}

impl Peeked {
    /// Reports whether the message is scheduled and not enqueued yet.
    pub fn is_scheduled(&self, now: Timestamp) -> bool {
        self.scheduled_at.is_some_and(|at| at > now)
    }
}

/// The origin of a message that queues have forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardOrigin {
    /// The sequence number of the message's delivery to the first of these queues.
    pub first_number: Option<i64>,
    /// The queue in which the message was a dead letter.
    pub dead_letter_source: Option<String>,
}

/// Why and when a delivery was dead-lettered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterCause {
    pub reason: DeadLetterReason,
    pub details: DeadLetterDetails,
    pub at: Timestamp,
}

/// Locks to settle or renew.
#[derive(Clone, Debug)]
pub struct LockChanges {
    pub changes: Vec<LockChange>,
    /// Subscriptions that keep no dead letters.
    pub dropping: HashSet<SubscriptionId>,
    /// The number of bytes that the changes may add to each queue.
    pub room: QueueRoom,
    /// The audit entry to record if the changes remove dead letters from their queue. The number of removed dead
    /// letters is added to it.
    pub audit: Option<AuditEntry>,
    pub now: Timestamp,
}

impl LockChanges {
    /// Returns the queues that the changes name for their locks.
    pub(super) fn queues(&self) -> impl Iterator<Item = SubscriptionId> {
        let queues = self.changes.iter().filter_map(|each| each.of.queue);
        queues.map(|queue| queue.subscription)
    }

    /// Returns the lane of the changes. They wait for the turn of their queue, and for a flush unless all of them are
    /// renewals.
    pub(super) fn lane(&self) -> Lane {
        let whose = self.queues().next().map_or(Whose::AnyQueue, Whose::Queue);
        let renews = |change: &LockChange| {
            matches!(change.disposition, Disposition::Renew { .. }) && !change.adds()
        };
        if self.audit.is_none() && self.changes.iter().all(renews) {
            Lane::Lock(whose)
        } else {
            Lane::of(whose)
        }
    }
}

/// The outcome of settling or renewing a lock that was held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSettled {
    pub lock: Lock,
    pub end: LockEnd,
}

/// The result of one change that settles the first locks of a request.
#[derive(Clone, Debug)]
pub struct LocksSettled {
    /// The outcomes of the settled locks, in the order of the request.
    pub settled: Vec<Result<LockSettled, LockError>>,
    /// The locks that are not settled yet, which are unchanged, with the room that is left.
    pub rest: LockChanges,
}

/// The columns that [`Lockable::of`] reads after those of the delivery.
const LOCKABLE: &str = "deferred, locked_at, locked_until, dead_letter_reason, \
     receiver_reason, receiver_description, receiver_properties, ended_at, message_properties, \
     first_number, dead_letter_source, scheduled_at";
const LOCK: &str = "UPDATE delivery SET lock_token = ?2, locked_at = ?3, locked_until = ?4, \
     attempts = attempts + ?5, \
     last_attempt_at = CASE WHEN ?5 THEN ?3 ELSE last_attempt_at END, \
     next_attempt_at = CASE WHEN deferred THEN next_attempt_at ELSE ?4 END WHERE id = ?1";

/// A row that may be locked.
struct Lockable {
    delivery: Delivery,
    deferred: bool,
    /// The beginning and the end of the newest lock of the delivery. If the delivery is locked again, this lock has
    /// expired.
    lock: Option<(Timestamp, Timestamp)>,
    dead_letter: Option<DeadLetterCause>,
    properties: Option<Vec<u8>>,
    origin: ForwardOrigin,
    scheduled_at: Option<Timestamp>,
}

impl Lockable {
    fn of(row: &Row<'_>) -> Result<Self, StoreError> {
        let (from, until): (Option<_>, Option<_>) = (row.get(7)?, row.get(8)?);
        let dead_letter = match (row.get(9)?, row.get(13)?) {
            (Some(reason), Some(at)) => Some(DeadLetterCause {
                reason,
                details: row::details(row, 10)?,
                at,
            }),
            _ => None,
        };
        Ok(Self {
            delivery: delivery(row)?,
            deferred: row.get(6)?,
            lock: from.zip(until),
            dead_letter,
            properties: row.get(14)?,
            origin: ForwardOrigin {
                first_number: row.get(15)?,
                dead_letter_source: row.get(16)?,
            },
            scheduled_at: row.get(17)?,
        })
    }

    /// Returns the number of bytes that receivers have set.
    fn bytes_set(&self) -> usize {
        let dead_letter = self.dead_letter.as_ref();
        self.properties.as_ref().map_or(0, Vec::len)
            + dead_letter.map_or(0, |dead_letter| dead_letter.details.bytes())
    }
}

/// The SQL expression for the number of bytes of a row that receivers have set. Every change of the row writes these
/// bytes again.
const BYTES_SET: &str = "coalesce(octet_length(message_properties), 0) \
     + coalesce(octet_length(receiver_reason), 0) + coalesce(octet_length(receiver_description), 0) \
     + coalesce(octet_length(receiver_properties), 0)";

pub(super) fn lock(tx: &WriteTx, request: &LockRequest) -> Result<LockBatch, StoreError> {
    let now = request.now;
    let mut taken = LockBatch::default();
    let Some((until, limit)) = bounds(tx, request)? else {
        taken.session_is_lost = true;
        return Ok(taken);
    };
    if request.session.is_none() {
        give_back_lapsed(tx, request.of, now)?;
    }
    let mut bytes = 0;
    for (found, seed) in find(tx, request, limit)?.into_iter().zip(&request.seeds) {
        if bytes > request.bytes_max {
            break;
        }
        let Delivery { id, attempts, .. } = found.delivery;
        let counts = request.of.queue == SubQueue::Active;
        let event = match load_event(tx, found.delivery.event, found.delivery.id)? {
            Err(reason) if counts => {
                taken.unreadable.push((found.delivery, reason));
                continue;
            }
            event => event,
        };
        if let (LockSelection::FirstDue { bytes_max }, Ok(event)) = (&request.which, &event) {
            let bytes = event.event.size() + found.bytes_set();
            if bytes > *bytes_max {
                taken.too_large = Some(bytes);
                break;
            }
        }
        if let Some((from, until)) = found.lock.filter(|_| counts) {
            record_lapse(tx, id, attempts, from, until)?;
        }
        let token = LockToken::of_delivery(*seed, id);
        let values = params![id, token, now, until, counts];
        tx.run(LOCK, values)?;
        if counts {
            tx.counts().attempt(request.of.subscription, now);
        }
        let Ok(event) = event else {
            continue; // a dead letter already: locked for nobody, and out of the way of those behind it
        };
        let locked = Locked {
            token,
            until,
            delivery: found.delivery,
            event: Arc::new(event),
            deferred: found.deferred,
            dead_letter: found.dead_letter,
            properties: found.properties,
            origin: found.origin,
        };
        bytes += locked.bytes();
        taken.locked.push(locked);
    }
    Ok(taken)
}

const GIVE_BACK: &str = "UPDATE delivery SET lock_token = NULL, locked_at = NULL, locked_until = NULL, \
     next_attempt_at = CASE WHEN deferred THEN next_attempt_at \
     ELSE min(coalesce(ended_at, published_at), locked_until) END WHERE id = ?1";

/// Returns deliveries whose locks have expired to their old places, ahead of deliveries that were enqueued later. They
/// are due at once, even if the clock was set back to before they were enqueued. One change returns at most
/// [`CHANGE_DELIVERIES_MAX`] deliveries, and stops after [`LOCK_BYTES_MAX`] bytes that receivers have set. The others
/// wait for the next change, and keep the place of the end of their lock until then.
fn give_back_lapsed(tx: &WriteTx, of: QueueRef, now: Timestamp) -> Result<(), StoreError> {
    let find = format!(
        "SELECT id, attempts, locked_at, locked_until, {BYTES_SET} FROM delivery WHERE subscription_id = ?1 \
         AND state = '{}' AND lock_token IS NOT NULL AND (session IS NULL OR state <> 'Pending') \
         AND locked_until <= ?2 ORDER BY locked_until LIMIT ?3",
        of.queue.state().name()
    );
    let values = params![of.subscription, now, CHANGE_DELIVERIES_MAX];
    let lapsed = tx.all(&find, values, |row| {
        let lock = (row.get(2)?, row.get(3)?);
        Ok((row.get(0)?, row.get(1)?, lock, row.get::<_, usize>(4)?))
    })?;
    let mut bytes = 0;
    for (id, attempts, (from, until), bytes_set) in lapsed {
        if bytes > LOCK_BYTES_MAX {
            break;
        }
        bytes += bytes_set;
        let id: DeliveryId = id;
        if of.queue == SubQueue::Active {
            record_lapse(tx, id, attempts, from, until)?;
        }
        tx.run(GIVE_BACK, [id])?;
    }
    Ok(())
}

/// Returns the end of the locks and the largest number of them. Returns `None` if their session is not held any more.
fn bounds(
    tx: &Connection,
    request: &LockRequest,
) -> Result<Option<(Timestamp, usize)>, StoreError> {
    let most = request.seeds.len().min(CHANGE_DELIVERIES_MAX);
    let Some(session) = &request.session else {
        return Ok(Some((request.until, most)));
    };
    let held = sessions::messages_held(tx, session, request.now)?;
    let left = |count| SESSION_MESSAGES_HELD_MAX.saturating_sub(count);
    Ok(held.map(|(until, count)| (until, most.min(left(count)))))
}

/// Returns deliveries in the order of their sequence numbers. A delivery whose event cannot be read is left out.
pub(super) fn peek(tx: &Connection, request: &PeekRequest) -> Result<Vec<Peeked>, StoreError> {
    let (of, session) = (request.of, request.session.as_deref());
    let scope = scope(of, session);
    let numbered = "SELECT 1 FROM delivery WHERE subscription_id = ?1 AND state = 'Pending' AND number IS NOT NULL LIMIT 1";
    // Each of these queries walks an index from its first match, so other deliveries of the queue are not read.
    let select = match (of.queue, session) {
        (SubQueue::DeadLetter, None) => {
            // Within a queue, ids and sequence numbers have the same order. Dead letters of event subscriptions have no
            // sequence numbers.
            let first = "SELECT own.id FROM delivery AS own WHERE own.subscription_id = ?1 \
                 AND own.state = 'DeadLettered' AND own.number >= ?2 ORDER BY own.number LIMIT 1";
            select(&format!(
                "{scope} AND id >= coalesce(({first}), ?2) AND coalesce(number, id) >= ?2 ORDER BY id LIMIT ?3"
            ))
        }
        (SubQueue::Active, None) if !tx.is_any(numbered, [of.subscription])? => {
            select(&format!("{scope} AND id >= ?2 ORDER BY id LIMIT ?3"))
        }
        (SubQueue::Active, None) | (_, Some(_)) => select(&format!(
            "{scope} AND number >= ?2 ORDER BY number LIMIT ?3"
        )),
    };
    let values = params![of.subscription, request.from, request.limit, session];
    let mut peeked = Vec::new();
    let mut bytes = 0;
    for found in tx.all(&select, values, Lockable::of)? {
        if bytes > request.bytes_max {
            break;
        }
        let Ok(event) = load_event(tx, found.delivery.event, found.delivery.id)? else {
            continue;
        };
        bytes += event.event.size() + found.bytes_set();
        peeked.push(Peeked {
            delivery: found.delivery,
            event: Arc::new(event),
            deferred: found.deferred,
            locked_until: found.lock.map(|(_, until)| until),
            dead_letter: found.dead_letter,
            properties: found.properties,
            origin: found.origin,
            scheduled_at: found.scheduled_at,
        });
    }
    Ok(peeked)
}

/// Returns the query for the deliveries that match `condition`, with the columns that [`Lockable::of`] reads.
fn select(condition: &str) -> String {
    format!("SELECT {DELIVERY_COLUMNS}, {LOCKABLE} FROM delivery WHERE {condition}")
}

/// Returns the SQL condition for the deliveries of the queue `?1`, or of its session `?4`.
fn scope(of: QueueRef, session: Option<&str>) -> String {
    // The state is a literal, since SQLite uses a partial index only if the value is in the text of the query.
    let state = of.queue.state().name();
    let session = match session {
        Some(_) => "session = ?4",
        None => "?4 IS NULL",
    };
    format!("subscription_id = ?1 AND state = '{state}' AND {session}")
}

fn find(tx: &Connection, request: &LockRequest, limit: usize) -> Result<Vec<Lockable>, StoreError> {
    let subscription = request.of.subscription;
    let session = request
        .session
        .as_ref()
        .map(|session| session.name.as_str());
    let scope = scope(request.of, session);
    let find = |condition: &str, values: &[&dyn ToSql]| {
        let select = select(&format!("{scope} AND {condition}"));
        tx.all(&select, values, Lockable::of)
    };
    match &request.which {
        LockSelection::Due | LockSelection::FirstDue { .. } => {
            let due = "next_attempt_at <= ?2 ORDER BY next_attempt_at, id LIMIT ?3";
            find(due, params![subscription, request.now, limit, session])
        }
        LockSelection::EnqueuedBefore(before) => {
            let oldest = format!(
                "SELECT id AS oldest FROM delivery WHERE {scope} AND next_attempt_at <= ?2 \
                 ORDER BY next_attempt_at, id LIMIT {OLDEST_LOOKED_AT}"
            );
            let select = format!(
                "SELECT {DELIVERY_COLUMNS}, {LOCKABLE} FROM ({oldest}) CROSS JOIN delivery ON id = oldest \
                 WHERE published_at < ?5 LIMIT ?3"
            );
            let values = params![subscription, request.now, limit, session, before];
            tx.all(&select, values, Lockable::of)
        }
        LockSelection::Deferred(numbers) => {
            let (mut found, mut named) = (Vec::new(), HashSet::new());
            for number in numbers.iter().filter(|number| named.insert(**number)) {
                if found.len() >= limit {
                    break;
                }
                found.extend(find(
                    &deferred(request.of.queue),
                    params![subscription, request.now, number, session],
                )?);
            }
            Ok(found)
        }
    }
}

/// Returns the SQL condition for the deferred delivery of the queue `?1` with the sequence number `?3`, if it is not
/// locked at the time `?2`.
fn deferred(queue: SubQueue) -> String {
    // Deliveries without a number, those of event subscriptions, are named by their ids.
    let state = queue.state().name();
    format!(
        "deferred = 1 AND (locked_until IS NULL OR locked_until <= ?2) AND id = coalesce((SELECT own.id FROM \
         delivery AS own WHERE own.subscription_id = ?1 AND own.state = '{state}' AND own.number = ?3), ?3) \
         AND coalesce(number, id) = ?3"
    )
}

/// Reports whether all of these messages are deferred and none of them is locked.
pub(super) fn are_deferred(tx: &Connection, query: &DeferredQuery) -> Result<bool, StoreError> {
    let (of, session) = (query.of, query.session.as_deref());
    let is_there = format!(
        "SELECT 1 FROM delivery WHERE {} AND {}",
        scope(of, session),
        deferred(of.queue)
    );
    for number in &query.numbers {
        let values = params![of.subscription, query.now, number, session];
        if !tx.is_any(&is_there, values)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A query for messages by the sequence numbers that their sender knows.
#[derive(Clone, Debug)]
pub enum NumberedQuery {
    /// The messages with these numbers in a queue.
    Queue {
        queue: SubscriptionId,
        numbers: BTreeSet<i64>,
    },
    /// The messages that were scheduled in a topic with rules under these numbers, and still wait in one of the
    /// subscriptions. The subscriptions are sorted.
    Topic {
        subscriptions: Arc<[SubscriptionId]>,
        numbers: BTreeSet<i64>,
    },
}

impl NumberedQuery {
    /// Returns the queue, or the first of the subscriptions.
    pub(super) fn queue(&self) -> Option<SubscriptionId> {
        match self {
            Self::Queue { queue, .. } => Some(*queue),
            Self::Topic { subscriptions, .. } => subscriptions.first().copied(),
        }
    }
}

/// Selects the waiting copies of the message that was scheduled in a topic under the number `?1`. The copies were
/// created together, and no other delivery has an id between theirs. So the search ends at the first row after them, no
/// matter how many messages were scheduled later.
const COPIES: &str = "SELECT id, subscription_id FROM delivery WHERE id >= ?1 \
     AND id < coalesce((SELECT other.id FROM delivery AS other \
         WHERE other.id >= ?1 AND other.first_number IS NOT ?1 ORDER BY other.id LIMIT 1), ?1 + ?2) \
     AND first_number = ?1 AND hops IS NULL AND state = 'Pending'";

/// Finds the messages of a query with all their copies. Returns `None` if one of the messages does not exist. The
/// search ends once more than [`RULE_COPIES_MAX`] are found.
pub(super) fn numbered(
    tx: &Connection,
    query: &NumberedQuery,
) -> Result<Option<Vec<(DeliveryId, SubscriptionId)>>, StoreError> {
    let mut found = Vec::new();
    match query {
        NumberedQuery::Queue { queue, numbers } => {
            let find = "SELECT id FROM delivery WHERE subscription_id = ?1 AND state = 'Pending' AND number = ?2";
            for number in numbers.iter().take(RULE_COPIES_MAX + 1) {
                let Some(id) = tx.find(find, params![queue, number])? else {
                    return Ok(None);
                };
                found.push((id, *queue));
            }
        }
        NumberedQuery::Topic {
            subscriptions,
            numbers,
        } => {
            for number in numbers {
                let values = params![number, RULE_COPIES_MAX];
                let copies = tx.all(COPIES, values, |row| Ok((row.get(0)?, row.get(1)?)))?;
                let before = found.len();
                let waiting = copies.into_iter();
                found.extend(waiting.filter(|(_, of)| subscriptions.binary_search(of).is_ok()));
                if found.len() == before {
                    return Ok(None);
                }
                if found.len() > RULE_COPIES_MAX {
                    break;
                }
            }
        }
    }
    Ok(Some(found))
}

static HELD: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT delivery.id, subscription_id, locked_until, locked_at, attempts, \
             published_at, ended_at, deferred, event.event_id, coalesce(number, delivery.id), \
             {BYTES_SET}, bytes \
         FROM delivery JOIN event ON event.id = delivery.event_id WHERE delivery.id = ?1 AND lock_token = ?2"
    )
});

/// A lock that is held.
struct Held {
    lock: Lock,
    /// The number of bytes of the row that receivers have set.
    bytes_set: usize,
    /// The number of bytes that the message adds to the size of its queue.
    bytes: Option<u32>,
}

/// Returns the lock with this token, if it is held.
fn held(tx: &Connection, token: LockToken, now: Timestamp) -> Result<Option<Held>, StoreError> {
    let held = tx.first(&HELD, params![token.delivery(), token], |row| {
        let (published_at, ended_at): (_, Option<_>) = (row.get(5)?, row.get(6)?);
        let subscription = row.get(1)?;
        let lock = Lock {
            token,
            delivery: row.get(0)?,
            // An ended delivery that is locked is a dead letter.
            of: match ended_at {
                None => QueueRef::pending(subscription),
                Some(_) => QueueRef::dead_letters(subscription),
            },
            until: row.get(2)?,
            locked_at: row.get(3)?,
            queued_at: ended_at.unwrap_or(published_at),
            attempts: row.get(4)?,
            deferred: row.get(7)?,
            event_id: row.get(8)?,
            number: row.get(9)?,
        };
        Ok(Held {
            lock,
            bytes_set: row.get(10)?,
            bytes: row.get(11)?,
        })
    })?;
    Ok(held.filter(|held| is_held(held.lock.until, now)))
}

const RENEW: &str = "UPDATE delivery SET locked_until = ?2, \
     next_attempt_at = CASE WHEN deferred THEN next_attempt_at ELSE ?2 END WHERE id = ?1";

impl LockSettled {
    /// Reports whether the delivery is pending again, and not deferred.
    pub fn is_returned(&self) -> bool {
        matches!(self.end, LockEnd::Settled(Settlement::Retry { at }) if at != NEVER)
            && self.lock.of.queue == SubQueue::Active
    }

    fn removes_dead_letter(&self) -> bool {
        let is_back = matches!(
            self.end,
            LockEnd::Renewed { .. } | LockEnd::Settled(Settlement::Retry { .. })
        );
        self.lock.of.queue == SubQueue::DeadLetter && !is_back
    }
}

/// Reports for each token whether its lock is held and is the one that the [`LockOf`] describes.
pub(super) fn check_locks(
    tx: &Connection,
    locks: Vec<(LockToken, LockOf)>,
    now: Timestamp,
) -> Result<Vec<Result<(), LockError>>, StoreError> {
    let check = |(token, of): (LockToken, LockOf)| {
        let held = held(tx, token, now)?.filter(|held| held.lock.is(&of));
        Ok(held.map(drop).ok_or(LockError::LockLost))
    };
    locks.into_iter().map(check).collect()
}

/// Settles the first locks of a request: at most `most`, and only until the bytes that receivers have set, before or in
/// this request, reach [`SETTLED_BYTES_MAX`]. Also returns the audit entry to record.
pub(super) fn settle_locks(
    tx: &WriteTx,
    mut request: LockChanges,
    most: usize,
) -> Result<(LocksSettled, Option<AuditEntry>), StoreError> {
    let mut changes = std::mem::take(&mut request.changes).into_iter();
    let (mut settled, mut bytes) = (Vec::with_capacity(changes.len().min(most)), 0);
    while bytes < SETTLED_BYTES_MAX
        && settled.len() < most
        && let Some(change) = changes.next()
    {
        settled.push(settle_lock(tx, change, &mut request, &mut bytes)?);
    }
    request.changes = changes.collect();
    let ended = settled.iter().flatten();
    let removed = ended.filter(|each| each.removes_dead_letter()).count();
    let entry = request.audit.clone();
    let audit = entry.and_then(|entry| entry.of_dead_letters(removed));
    let rest = request;
    Ok((LocksSettled { settled, rest }, audit))
}

fn settle_lock(
    tx: &WriteTx,
    change: LockChange,
    request: &mut LockChanges,
    bytes: &mut usize,
) -> Result<Result<LockSettled, LockError>, StoreError> {
    let now = request.now;
    let held = held(tx, change.token, now)?;
    let Some(held) = held.filter(|held| held.lock.is(&change.of)) else {
        return Ok(Err(LockError::LockLost));
    };
    let lock = &held.lock;
    let drops = request.dropping.contains(&lock.of.subscription);
    let (end, result) = match lock.dispose(change.disposition, drops, now) {
        Ok(end) => end,
        Err(error) => return Ok(Err(error)),
    };
    let told = told_bytes(end, result.as_ref());
    *bytes += held.bytes_set + change.properties.len() + told;
    let grows = !change.properties.is_empty() || told > 0;
    if grows && let Err(error) = add(tx, &held, &change.properties, told, &mut request.room)? {
        return Ok(Err(error));
    }
    let id = lock.delivery;
    match (end, lock.of.queue) {
        (LockEnd::Renewed { until }, _) => {
            tx.run(RENEW, params![id, until])?;
        }
        (LockEnd::Settled(settlement), SubQueue::Active) => {
            let counted_for = (lock.of.subscription, lock.queued_at, held.bytes);
            let known = (!grows).then_some(counted_for);
            settle_pending(tx, lock, known, settlement, result, now)?;
        }
        (LockEnd::Settled(Settlement::Retry { at }), SubQueue::DeadLetter) => {
            unlock(tx, id, at)?;
        }
        (LockEnd::Settled(_), SubQueue::DeadLetter) => remove(tx, id, now)?,
    }
    let lock = held.lock;
    Ok(Ok(LockSettled { lock, end }))
}

/// Returns the number of bytes of the reason, description and properties that the receiver has given for a dead letter;
/// 0 if the message is not dead-lettered.
fn told_bytes(end: LockEnd, result: Option<&AttemptResult>) -> usize {
    let details = result.and_then(|result| result.dead_letter.as_deref());
    match end {
        LockEnd::Settled(Settlement::DeadLetter(_)) => details.map_or(0, DeadLetterDetails::bytes),
        LockEnd::Settled(
            Settlement::Complete
            | Settlement::Retry { .. }
            | Settlement::Drop(_)
            | Settlement::Split { .. },
        )
        | LockEnd::Renewed { .. } => 0,
    }
}

/// Merges the properties in `set` into those that were set before. Adds the growth, and the `told` bytes of
/// dead-letter details that are stored later, to the size of the queue.
fn add(
    tx: &WriteTx,
    held: &Held,
    set: &[u8],
    told: usize,
    room: &mut QueueRoom,
) -> Result<Result<(), LockError>, StoreError> {
    let (id, queue) = (held.lock.delivery, held.lock.of.subscription);
    let (mut growth, mut properties) = (0, None);
    if !set.is_empty() {
        let find = "SELECT message_properties FROM delivery WHERE id = ?1";
        let before: Option<Vec<u8>> = tx.value(find, [id])?;
        let merged = match &before {
            Some(before) => merged(before, set),
            None => Ok(set.to_vec()),
        };
        let all = merged.map_err(|error| row::unreadable("map of properties", error))?;
        if all.len() > RECEIVER_PROPERTY_BYTES_MAX {
            return Ok(Err(LockError::TooManyProperties));
        }
        growth = as_number(all.len()) - as_number(before.as_ref().map_or(0, Vec::len));
        properties = Some(all);
    }
    if let Some(bytes) = held.bytes {
        let counted = growth + as_number(told.saturating_sub(DEAD_LETTER_BYTES_LET_IN));
        if !room.take(queue, counted) {
            return Ok(Err(LockError::QuotaExceeded));
        }
        growth = (growth + as_number(told)).max(-i64::from(bytes));
        tx.counts().grow(queue, growth);
    }
    let update = "UPDATE delivery SET message_properties = coalesce(?2, message_properties), \
         bytes = bytes + ?3 WHERE id = ?1";
    change_sealed(tx, id, update, params![id, properties, growth])?;
    Ok(Ok(()))
}

/// Settles a lock on a pending delivery. `counted_for` is read from the database if it is `None`.
fn settle_pending(
    tx: &WriteTx,
    lock: &Lock,
    counted_for: Option<CountedFor>,
    settlement: Settlement,
    result: Option<AttemptResult>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut attempts = lock.attempts;
    if result.is_none() {
        uncount(tx, lock.delivery)?;
        attempts -= 1;
    }
    let record = SettlementRecord {
        delivery: lock.delivery,
        counted_for,
        attempts,
        attempt: result.map(|result| Arc::new(lock.attempt(now, result))),
        late: None,
        settlement: Some(settlement),
    };
    settle(tx, &record, now)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::store::engine::{checksum, db, migrate};

    /// Queues with so many messages each, the last ones to be received first: active, deferred, scheduled, dead, in a
    /// session, and dead of a session. The last two have another session with one message at their end.
    fn filled(messages: i64) -> Connection {
        let mut connection = db::open_in_memory().expect("a database");
        migrate::migrate(&mut connection).expect("a schema");
        let queue = |queue: i64, columns: &str, values: &str| {
            format!(
                "WITH number (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM number WHERE n < {messages})
                 INSERT INTO delivery (event_id, subscription_id, number, published_at, next_attempt_at, checksum, {columns})
                     SELECT 1, {queue}, n, 0, {messages} - n, 0, {values} FROM number;"
            )
        };
        let dead = "session, state, ended_at, dead_letter_reason";
        let fill = [
            "INSERT INTO event (id, topic_id, received_at, event_id, event_type, matched, checksum)
                 VALUES (1, 1, 0, 'e', 'Order.Paid', 1, 0);"
                .to_owned(),
            queue(1, "bytes", "10"),
            queue(2, "deferred", "1"),
            queue(3, "scheduled_at", &format!("{messages} - n")),
            queue(4, dead, "NULL, 'DeadLettered', 1, 'Application'"),
            queue(5, "session", "'s'"),
            queue(6, dead, "'s', 'DeadLettered', 1, 'Application'"),
            format!(
                "UPDATE delivery SET session = 'other' WHERE number = {messages} AND session IS NOT NULL;"
            ),
        ];
        connection.execute_batch(&fill.concat()).expect("messages");
        for sealed in [checksum::EVENT, checksum::DELIVERY] {
            let seal = sealed.seal().replace(" WHERE id = ?1", "");
            connection.execute(&seal, []).expect("checksums");
        }
        connection
    }

    /// Counts the steps that SQLite makes from now on.
    fn counted_steps(connection: &mut Connection) -> Arc<AtomicU64> {
        let steps = Arc::new(AtomicU64::new(0));
        let each = Arc::clone(&steps);
        let count = move || {
            each.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection
            .progress_handler(1, Some(count))
            .expect("a handler");
        steps
    }

    /// Looks at three messages of a queue from a number on. Returns their numbers, and the steps that SQLite has made.
    fn peeked(
        connection: &mut Connection,
        of: i64,
        session: Option<&str>,
        from: i64,
    ) -> (Vec<i64>, u64) {
        let steps = counted_steps(connection);
        let of_state = match of {
            4 | 6 => QueueRef::dead_letters(SubscriptionId(of)),
            _ => QueueRef::pending(SubscriptionId(of)),
        };
        let request = PeekRequest {
            of: of_state,
            from,
            limit: 3,
            bytes_max: usize::MAX,
            session: session.map(str::to_owned),
        };
        let peeked = peek(connection, &request).expect("an answer");
        let numbers = peeked.iter().map(|each| each.delivery.number).collect();
        (numbers, steps.load(Ordering::Relaxed))
    }

    /// `EVERPOST_DEPTH` says how many messages lie in each of the long queues, unless 10,000.
    #[test]
    fn a_peek_costs_as_much_in_a_long_queue_as_in_a_short_one() {
        let given = std::env::var("EVERPOST_DEPTH");
        let long = given.map_or(10_000, |count| count.parse().expect("a number"));
        let short = 1_000;
        let [mut few, mut many] = [short, long].map(filled);
        for of in 1..=6 {
            let sessions: &[Option<&str>] = match of {
                5 | 6 => &[None, Some("s")],
                _ => &[None],
            };
            for session in sessions {
                let looks = |connection: &mut Connection, length: i64| {
                    [1, length / 2, length - 3].map(|from| {
                        let (numbers, steps) = peeked(connection, of, *session, from);
                        assert_eq!(numbers, [from, from + 1, from + 2], "{of} {session:?}");
                        steps
                    })
                };
                let steps = looks(&mut few, short);
                assert_eq!(steps, looks(&mut many, long), "{of} {session:?}");
                assert!(steps.iter().all(|steps| *steps < 500), "{of}: {steps:?}");
            }
        }
        for of in [5, 6] {
            let other = |connection: &mut Connection, length| {
                let (numbers, steps) = peeked(connection, of, Some("other"), 1);
                assert_eq!(numbers, [length], "{of}");
                steps
            };
            assert_eq!(other(&mut few, short), other(&mut many, long), "{of}");
        }
    }

    #[test]
    fn deferred_messages_are_looked_for_up_to_the_first_that_is_not_there() {
        let mut connection = filled(1_000);
        let mut look = |of: i64, numbers: Vec<i64>| {
            let steps = counted_steps(&mut connection);
            let query = DeferredQuery {
                of: QueueRef::pending(SubscriptionId(of)),
                numbers,
                session: None,
                now: Timestamp::from_ms(1),
            };
            let all = are_deferred(&connection, &query).expect("an answer");
            (all, steps.load(Ordering::Relaxed))
        };
        assert!(look(2, (1..=1_000).collect()).0);
        let (all, one) = look(2, vec![2_000]);
        assert!(!all);
        assert_eq!(look(2, (2_000..3_000).collect()), (false, one));
        assert!(!look(2, (1..=1_001).collect()).0);
        assert!(!look(1, vec![1]).0, "it is not deferred");
    }

    #[test]
    fn what_is_newer_is_not_found_however_long_the_queue_is() {
        let (short, long) = (2_000, 20_000);
        let [mut few, mut many] = [short, long].map(filled);
        let older = |connection: &mut Connection, before| {
            let steps = counted_steps(connection);
            let request = LockRequest {
                of: QueueRef::pending(SubscriptionId(1)),
                which: LockSelection::EnqueuedBefore(Timestamp::from_ms(before)),
                now: Timestamp::from_ms(long),
                until: Timestamp::from_ms(long),
                seeds: Vec::new(),
                bytes_max: usize::MAX,
                session: None,
            };
            let found = find(connection, &request, 3).expect("an answer");
            let numbers: Vec<_> = found.iter().map(|each| each.delivery.number).collect();
            (numbers, steps.load(Ordering::Relaxed))
        };
        let (none, steps) = older(&mut few, 0);
        assert_eq!(none, [0; 0]);
        assert_eq!(older(&mut many, 0), (none, steps));
        for (connection, length) in [(&mut few, short), (&mut many, long)] {
            let (numbers, _) = older(connection, 1);
            assert_eq!(numbers, [length, length - 1, length - 2]);
        }
    }

    /// A topic with so many scheduled messages, two copies of each, of which the second one has the number `3`: the ids of
    /// the first copies are odd.
    fn scheduled(messages: i64) -> Connection {
        let mut connection = db::open_in_memory().expect("a database");
        migrate::migrate(&mut connection).expect("a schema");
        let fill = format!(
            "INSERT INTO event (id, topic_id, received_at, event_id, event_type, matched, checksum)
                 VALUES (1, 1, 0, 'e', 'Order.Paid', 1, 0);
             WITH number (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM number WHERE n < {messages} * 2)
             INSERT INTO delivery (id, event_id, subscription_id, first_number, published_at, next_attempt_at, checksum)
                 SELECT n, 1, 1 + (n + 1) % 2, n - (n + 1) % 2, 0, 0, 0 FROM number;"
        );
        connection.execute_batch(&fill).expect("messages");
        connection
    }

    /// Finds scheduled messages by their numbers, with both copies of each. Returns how many copies there are, if all are
    /// there, and the steps that SQLite has made.
    fn found(
        connection: &mut Connection,
        numbers: impl Iterator<Item = i64>,
    ) -> (Option<usize>, u64) {
        let steps = counted_steps(connection);
        let query = NumberedQuery::Topic {
            subscriptions: [SubscriptionId(1), SubscriptionId(2)].into(),
            numbers: numbers.collect(),
        };
        let found = numbered(connection, &query).expect("an answer");
        (
            found.map(|copies| copies.len()),
            steps.load(Ordering::Relaxed),
        )
    }

    #[test]
    fn a_scheduled_message_is_found_as_fast_among_many_as_alone() {
        let [mut alone, mut many] = [1, 4_500].map(scheduled);
        let (copies, steps) = found(&mut alone, [1].into_iter());
        assert_eq!(copies, Some(2));
        let (copies, among_many) = found(&mut many, [1].into_iter());
        assert_eq!(copies, Some(2));
        assert!(among_many < 2 * steps, "{among_many} steps, alone {steps}");
        let most = i64::try_from(RULE_COPIES_MAX).expect("a number") / 2;
        let (copies, together) = found(&mut many, (0..most).map(|n| 2 * n + 1));
        assert_eq!(copies, Some(RULE_COPIES_MAX));
        assert!(together < 2 * steps * 2_250, "{together} steps");
        let (copies, _) = found(&mut many, [1, 4].into_iter());
        assert_eq!(copies, None, "the second copy has no number");
    }

    #[test]
    fn no_more_copies_are_looked_for_than_can_be_cancelled_together() {
        let mut many = scheduled(9_000);
        let (copies, steps) = found(&mut many, (0..9_000).map(|n| 2 * n + 1));
        assert_eq!(copies, Some(RULE_COPIES_MAX + 2));
        let (_, half) = found(&mut many, (0..4_500).map(|n| 2 * n + 1));
        assert!(
            steps.abs_diff(half) < half / 100,
            "{steps} and {half} steps"
        );
    }
}
