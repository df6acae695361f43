//! Message sessions: their locks, and the state that holders store.
//!
//! The lock on a session is in the row of the session. Each message that the holder has received has a lock of its own,
//! which ends with the lock of the session, so these messages are settled, peeked and counted like all others.
//! `available_at` is the earliest time at which the session may have a message for a new holder. A lock moves
//! `available_at` to the end of the lock, like the due time of a delivery, so it expires by itself. `available_at` may
//! be too early, and is then corrected by the next search; it is never too late.

use rusqlite::{Connection, Row, params};

use crate::base::Timestamp;
use crate::model::delivery::DeliveryId;
use crate::model::lease::{LockToken, NEVER, is_held};
use crate::model::limits::{SESSION_STATE_BYTES_MAX, SESSIONS_LISTED_MAX, SESSIONS_WALKED_MAX};
use crate::model::retry::WAIT_MAX;
use crate::model::session::{
    HeldSession, SessionAnswer, SessionChange, SessionError, SessionSelection,
};
use crate::model::subscription::SubscriptionId;
use crate::store::engine::db::WriteTx;
use crate::store::error::StoreError;
use crate::store::ledger::counters::{HAS_LEFT, QueueRoom};
use crate::store::ledger::settle::{record_lapse, uncount, unlock};
use crate::store::sql::Sql;

/// The number of sessions that one change looks at to find one that can be locked. The next change continues the
/// search.
const LOOKED_AT_MAX: usize = 100;

/// The number of sessions that one read looks at for a list of sessions. Other reads take their turns before the next
/// one.
const WALKED_AT_ONCE: usize = 5_000;

/// The number of sessions that are looked at in one minute to find idle ones. This takes a few milliseconds, no matter
/// how many sessions exist.
const TIDIED_MAX: i64 = 2_000;

/// The number of session states of deleted queues that one change deletes. Together they have 4 MiB at most.
const STATES_AT_ONCE: usize = 16;

/// A request to lock a session.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    pub of: SubscriptionId,
    pub which: SessionSelection,
    pub token: LockToken,
    pub now: Timestamp,
    pub until: Timestamp,
}

/// A query for the names of sessions of a queue. Only the first [`SESSIONS_WALKED_MAX`] sessions are looked at.
#[derive(Clone, Copy, Debug)]
pub struct SessionQuery {
    pub of: SubscriptionId,
    /// Lists only sessions whose state was set after this time. `None` lists all sessions that have messages or a
    /// state.
    pub state_set_since: Option<Timestamp>,
    pub skip: usize,
    pub limit: usize,
}

/// The event that a receiver waits for in a queue with sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SessionWait {
    /// A session that is not locked.
    Next(SubscriptionId),
    /// A message of this session.
    In(SubscriptionId, String),
}

impl SessionWait {
    /// Returns the queue.
    pub(super) fn queue(&self) -> SubscriptionId {
        match self {
            Self::Next(of) | Self::In(of, _) => *of,
        }
    }
}

/// A row of the table `message_session`.
struct QueueSessionRow {
    id: i64,
    of: SubscriptionId,
    name: String,
    /// The token and the end of the newest lock, unless the session was released.
    lock: Option<(LockToken, Timestamp)>,
    has_state: bool,
}

const COLUMNS: &str =
    "id, subscription_id, name, lock_token, locked_until, state_set_at IS NOT NULL";

impl QueueSessionRow {
    fn of(row: &Row<'_>) -> Result<Self, StoreError> {
        let (token, until): (Option<_>, Option<_>) = (row.get(3)?, row.get(4)?);
        debug_assert_eq!(
            token.is_some(),
            until.is_some(),
            "whoever holds a session holds it until some time"
        );
        Ok(Self {
            id: row.get(0)?,
            of: row.get(1)?,
            name: row.get(2)?,
            lock: token.zip(until),
            has_state: row.get(5)?,
        })
    }

    fn is_held(&self, now: Timestamp) -> bool {
        self.lock.is_some_and(|(_, until)| is_held(until, now))
    }
}

const JOIN: &str = "INSERT INTO message_session (subscription_id, name, available_at) VALUES (?1, ?2, ?3) \
     ON CONFLICT (subscription_id, name) DO UPDATE SET available_at = min(available_at, ?3) \
     WHERE locked_until IS NULL OR locked_until <= ?3";

/// Records that a message of a session is due at `at`. Creates the session if it does not exist.
pub(super) fn join(
    tx: &Connection,
    of: SubscriptionId,
    name: &str,
    at: Timestamp,
) -> rusqlite::Result<()> {
    tx.run(JOIN, params![of, name, at])?;
    Ok(())
}

/// Locks a session for a receiver.
pub(super) fn accept(
    tx: &WriteTx,
    request: &SessionRequest,
) -> Result<Result<HeldSession, SessionError>, StoreError> {
    let SessionRequest { of, now, until, .. } = *request;
    debug_assert!(until > now, "a lock ends after it begins");
    let found = match &request.which {
        SessionSelection::Named(name) => Some(named_or_new(tx, of, name)?),
        SessionSelection::Next => next(tx, of, now)?,
    };
    let Some(session) = found else {
        return Ok(Err(SessionError::NoneFree));
    };
    if session.is_held(now) {
        return Ok(Err(SessionError::Held));
    }
    // Returns the messages of an earlier holder whose lock has expired to their places.
    return_messages(tx, &session, true, now)?;
    let lock = "UPDATE message_session SET lock_token = ?2, locked_until = ?3, available_at = ?3 WHERE id = ?1";
    tx.run(lock, params![session.id, request.token, until])?;
    Ok(Ok(HeldSession {
        of,
        name: session.name,
        token: request.token,
        until,
    }))
}

fn named(
    tx: &Connection,
    of: SubscriptionId,
    name: &str,
) -> Result<Option<QueueSessionRow>, StoreError> {
    let find =
        format!("SELECT {COLUMNS} FROM message_session WHERE subscription_id = ?1 AND name = ?2");
    tx.first(&find, params![of, name], QueueSessionRow::of)
}

fn named_or_new(
    tx: &Connection,
    of: SubscriptionId,
    name: &str,
) -> Result<QueueSessionRow, StoreError> {
    if let Some(session) = named(tx, of, name)? {
        return Ok(session);
    }
    let add =
        "INSERT INTO message_session (subscription_id, name, available_at) VALUES (?1, ?2, ?3)";
    tx.run(add, params![of, name, NEVER])?;
    Ok(QueueSessionRow {
        id: tx.last_insert_rowid(),
        of,
        name: name.to_owned(),
        lock: None,
        has_state: false,
    })
}

/// Returns the next session that is not locked and has a due message.
fn next(
    tx: &Connection,
    of: SubscriptionId,
    now: Timestamp,
) -> Result<Option<QueueSessionRow>, StoreError> {
    let find = format!(
        "SELECT {COLUMNS} FROM message_session WHERE subscription_id = ?1 AND available_at <= ?2 \
         ORDER BY available_at LIMIT 1"
    );
    for _ in 0..LOOKED_AT_MAX {
        let Some(session) = tx.first(&find, params![of, now], QueueSessionRow::of)? else {
            return Ok(None);
        };
        debug_assert!(
            !session.is_held(now),
            "a session is not worth looking at before its lock ends"
        );
        let due_at = first_due(tx, of, &session.name)?;
        if due_at.is_some_and(|at| at <= now) {
            return Ok(Some(session));
        }
        rest(tx, &session, due_at)?;
    }
    Ok(None)
}

/// Returns the due time of the first message of a session, which may have passed. Returns `None` if the session has no
/// messages.
fn first_due(
    tx: &Connection,
    of: SubscriptionId,
    name: &str,
) -> Result<Option<Timestamp>, StoreError> {
    let first = "SELECT min(next_attempt_at) FROM delivery \
         WHERE subscription_id = ?1 AND session = ?2 AND state = 'Pending'";
    tx.value(first, params![of, name])
}

/// Clears the lock of a session, and makes it available when its first message is due. Deletes the session if it has
/// neither messages nor a state.
fn rest(
    tx: &Connection,
    session: &QueueSessionRow,
    due_at: Option<Timestamp>,
) -> Result<(), StoreError> {
    if due_at.is_none() && !session.has_state {
        tx.run("DELETE FROM message_session WHERE id = ?1", [session.id])?;
        return Ok(());
    }
    let rest = "UPDATE message_session SET lock_token = NULL, locked_until = NULL, available_at = ?2 \
         WHERE id = ?1";
    tx.run(rest, params![session.id, due_at.unwrap_or(NEVER)])?;
    Ok(())
}

const HELD: &str = "SELECT id, attempts, locked_at, locked_until, published_at, deferred FROM delivery \
     WHERE subscription_id = ?1 AND session = ?2 AND state = 'Pending' AND lock_token IS NOT NULL";

/// Returns the messages of the holder of a session to their places. If `counts` is true, their locks count as attempts.
/// Otherwise the messages are as if they had not been received.
fn return_messages(
    tx: &WriteTx,
    session: &QueueSessionRow,
    counts: bool,
    now: Timestamp,
) -> Result<(), StoreError> {
    let held = tx.all(HELD, params![session.of, session.name], |row| {
        let id: DeliveryId = row.get(0)?;
        let attempts: u32 = row.get(1)?;
        let lock: (Timestamp, Timestamp) = (row.get(2)?, row.get(3)?);
        let is_deferred: bool = row.get(5)?;
        let place = if is_deferred { NEVER } else { row.get(4)? };
        Ok((id, attempts, lock, place))
    })?;
    for (id, attempts, (from, until), place) in held {
        debug_assert!(
            session.lock.is_some_and(|(_, end)| until <= end),
            "the locks on the messages of a session end with its own"
        );
        if counts {
            record_lapse(tx, id, attempts, from, until.min(now))?;
        } else {
            uncount(tx, id)?;
        }
        unlock(tx, id, place)?;
    }
    Ok(())
}

/// Returns the session of a lock, if the lock is held.
fn held(
    tx: &Connection,
    lock: &HeldSession,
    now: Timestamp,
) -> Result<Option<QueueSessionRow>, StoreError> {
    let session = named(tx, lock.of, &lock.name)?;
    Ok(session.filter(|session| {
        session.is_held(now) && session.lock.is_some_and(|(token, _)| token == lock.token)
    }))
}

/// Returns the end of the lock on a session, and the number of its messages that the holder has locked. Returns `None`
/// if the lock is not held.
pub(super) fn messages_held(
    tx: &Connection,
    lock: &HeldSession,
    now: Timestamp,
) -> Result<Option<(Timestamp, usize)>, StoreError> {
    let Some(QueueSessionRow {
        lock: Some((_, until)),
        ..
    }) = held(tx, lock, now)?
    else {
        return Ok(None);
    };
    let count = "SELECT count(*) FROM delivery \
         WHERE subscription_id = ?1 AND session = ?2 AND state = 'Pending' AND lock_token IS NOT NULL";
    let messages = tx.value(count, params![lock.of, lock.name])?;
    Ok(Some((until, messages)))
}

const RENEW_MESSAGES: &str = "UPDATE delivery SET locked_until = ?3, \
         next_attempt_at = CASE WHEN deferred THEN next_attempt_at ELSE ?3 END \
     WHERE subscription_id = ?1 AND session = ?2 AND state = 'Pending' AND lock_token IS NOT NULL";

/// Makes a change that the holder of a session has requested. The queue may grow by at most `room` bytes.
pub(super) fn change(
    tx: &WriteTx,
    lock: &HeldSession,
    change: SessionChange,
    room: &mut QueueRoom,
    now: Timestamp,
) -> Result<Result<SessionAnswer, SessionError>, StoreError> {
    let Some(session) = held(tx, lock, now)? else {
        return Ok(Err(SessionError::LockLost));
    };
    match change {
        SessionChange::Renew { until } => {
            let renew =
                "UPDATE message_session SET locked_until = ?2, available_at = ?2 WHERE id = ?1";
            tx.run(renew, params![session.id, until])?;
            tx.run(RENEW_MESSAGES, params![lock.of, lock.name, until])?;
        }
        SessionChange::ReadState => {
            let find = "SELECT state FROM message_session WHERE id = ?1";
            return Ok(Ok(SessionAnswer::State(tx.value(find, [session.id])?)));
        }
        SessionChange::SetState(state) => {
            let kept = state.as_deref().filter(|state| !state.is_empty());
            if let Err(error) = set_state(tx, &session, kept, room, now)? {
                return Ok(Err(error));
            }
        }
        SessionChange::Release => end(tx, &session, false, now)?,
        SessionChange::Abandon => end(tx, &session, true, now)?,
    }
    Ok(Ok(SessionAnswer::Done))
}

fn end(
    tx: &WriteTx,
    session: &QueueSessionRow,
    counts: bool,
    now: Timestamp,
) -> Result<(), StoreError> {
    return_messages(tx, session, counts, now)?;
    let due_at = first_due(tx, session.of, &session.name)?;
    rest(tx, session, due_at)
}

/// The SQL expression for the number of bytes that the state of a session adds to the size of its queue. The name of
/// the session counts too.
pub(super) const STATE_BYTES: &str = "coalesce(length(state) + length(CAST(name AS BLOB)), 0)";

fn set_state(
    tx: &WriteTx,
    session: &QueueSessionRow,
    state: Option<&[u8]>,
    room: &mut QueueRoom,
    now: Timestamp,
) -> Result<Result<(), SessionError>, StoreError> {
    if state.is_some_and(|state| state.len() > SESSION_STATE_BYTES_MAX) {
        return Ok(Err(SessionError::StateTooLarge));
    }
    let find = format!("SELECT {STATE_BYTES} FROM message_session WHERE id = ?1");
    let before: i64 = tx.value(&find, [session.id])?;
    let bytes = state.map_or(0, |state| state.len() + session.name.len());
    let growth = i64::try_from(bytes).unwrap_or(i64::MAX) - before;
    if !room.take(session.of, growth) {
        return Ok(Err(SessionError::QuotaExceeded));
    }
    tx.counts().grow(session.of, growth);
    let set = "UPDATE message_session SET state = ?2, state_set_at = ?3 WHERE id = ?1";
    tx.run(set, params![session.id, state, state.map(|_| now)])?;
    Ok(Ok(()))
}

/// Returns the earliest time, which may have passed, at which there may be something to receive: a free session, or a
/// message of a session. Returns `None` if nothing is expected.
pub(super) fn due(tx: &Connection, place: &SessionWait) -> Result<Option<Timestamp>, StoreError> {
    match place {
        SessionWait::Next(of) => {
            let first = "SELECT min(available_at) FROM message_session WHERE subscription_id = ?1";
            tx.value(first, [of])
        }
        SessionWait::In(of, name) => first_due(tx, *of, name),
    }
}

/// A search for the names of sessions: the names that were found, ordered by name, and the position of the search.
pub(super) struct SessionWalk {
    /// The query. Its `skip` is the number of sessions that are still to be skipped, and its `limit` is the total
    /// number of names.
    query: SessionQuery,
    /// The name from which the search continues; `None` if the search is done.
    next: Option<String>,
    /// The number of sessions that may still be looked at.
    left: usize,
    pub(super) names: Vec<String>,
}

const WALK: &str = "SELECT name, CASE WHEN ?3 IS NULL THEN state_set_at IS NOT NULL OR EXISTS (SELECT 1 FROM delivery \
         WHERE delivery.subscription_id = ?1 AND delivery.session = message_session.name \
         AND delivery.state = 'Pending') ELSE coalesce(state_set_at > ?3, FALSE) END \
     FROM message_session WHERE subscription_id = ?1 AND name >= ?2 ORDER BY name LIMIT ?4";

impl SessionWalk {
    pub(super) fn new(query: SessionQuery) -> Self {
        let limit = query.limit.min(SESSIONS_LISTED_MAX);
        let is_beyond = query.skip >= SESSIONS_WALKED_MAX;
        Self {
            query: SessionQuery { limit, ..query },
            next: (limit > 0 && !is_beyond).then(String::new),
            left: SESSIONS_WALKED_MAX,
            names: Vec::new(),
        }
    }

    pub(super) fn goes_on(&self) -> bool {
        self.next.is_some()
    }

    /// Looks at the next sessions, at most [`WALKED_AT_ONCE`].
    pub(super) fn proceed(mut self, tx: &Connection) -> Result<Self, StoreError> {
        let Some(first) = self.next.take() else {
            return Ok(self);
        };
        let most = self.left.min(WALKED_AT_ONCE);
        let mut select = tx.prepare_cached(WALK)?;
        let values = params![self.query.of, first, self.query.state_set_since, most + 1];
        let mut rows = select.query(values)?;
        for _ in 0..most {
            let Some(row) = rows.next()? else {
                return Ok(self);
            };
            self.look_at(row)?;
            if self.names.len() >= self.query.limit {
                return Ok(self);
            }
        }
        if self.left > 0
            && let Some(row) = rows.next()?
        {
            self.next = Some(row.get(0)?);
        }
        Ok(self)
    }

    fn look_at(&mut self, row: &Row<'_>) -> Result<(), StoreError> {
        self.left -= 1;
        let is_wanted: bool = row.get(1)?;
        if !is_wanted {
            return Ok(());
        }
        match self.query.skip.checked_sub(1) {
            Some(left) => self.query.skip = left,
            None => self.names.push(row.get(0)?),
        }
        Ok(())
    }
}

/// Returns up to `limit` of the sessions that are looked at in this minute whose lock ends later than any lock can.
/// Such a lock was set while the clock was wrong.
pub(super) fn overheld(
    tx: &Connection,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<i64>, StoreError> {
    looked_at(tx, "locked_until > ?1", now + WAIT_MAX, limit)
}

/// Returns all sessions that are locked.
pub(super) fn all_held(tx: &Connection, now: Timestamp) -> Result<Vec<i64>, StoreError> {
    let find = "SELECT id FROM message_session WHERE locked_until > ?1";
    tx.all(find, [now], |row| Ok(row.get(0)?))
}

/// Ends the locks of these sessions and of their messages.
pub(super) fn end_locks(tx: &Connection, ids: &[i64], now: Timestamp) -> Result<(), StoreError> {
    let find = format!("SELECT {COLUMNS} FROM message_session WHERE id = ?1 AND locked_until > ?2");
    for id in ids {
        if let Some(session) = tx.first(&find, params![id, now], QueueSessionRow::of)? {
            let end =
                "UPDATE message_session SET locked_until = ?2, available_at = ?2 WHERE id = ?1";
            tx.run(end, params![id, now])?;
            tx.run(RENEW_MESSAGES, params![session.of, session.name, now])?;
        }
    }
    Ok(())
}

/// The SQL condition for idle sessions. An idle session is not locked, has no pending messages, and has no state unless
/// its queue is deleted.
const IS_IDLE: &str = "(locked_until IS NULL OR locked_until <= ?1) \
     AND (state_set_at IS NULL OR EXISTS (SELECT 1 FROM event_subscription \
         WHERE event_subscription.id = session.subscription_id AND deleted_at IS NOT NULL)) \
     AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.subscription_id = session.subscription_id \
         AND delivery.session = session.name AND delivery.state = 'Pending')";

/// Returns up to `limit` idle sessions, of the sessions that are looked at in this minute.
pub(super) fn idle(tx: &Connection, now: Timestamp, limit: usize) -> Result<Vec<i64>, StoreError> {
    looked_at(tx, IS_IDLE, now, limit)
}

/// Returns up to `limit` idle sessions of deleted queues that have a state, but at most [`STATES_AT_ONCE`]. Sessions
/// without a state take little space, and are deleted later with other idle sessions.
pub(super) fn of_deleted(
    tx: &Connection,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<i64>, StoreError> {
    let find = format!(
        "SELECT session.id FROM subscription_total AS total \
         CROSS JOIN message_session AS session ON session.subscription_id = total.subscription_id \
             AND session.state_set_at IS NOT NULL \
         WHERE {HAS_LEFT} AND {IS_IDLE} LIMIT ?2"
    );
    let bounded_limit = limit.min(STATES_AT_ONCE);
    tx.all(&find, params![now, bounded_limit], |row| Ok(row.get(0)?))
}

/// Returns up to `limit` of the sessions that are looked at in this minute and that match `condition`. `now` is the
/// parameter `?1` of the condition.
fn looked_at(
    tx: &Connection,
    condition: &str,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<i64>, StoreError> {
    let last: i64 = tx.value("SELECT coalesce(max(id), 0) FROM message_session", [])?;
    let minute = now.as_ms() / 60_000;
    let first = (minute * TIDIED_MAX).rem_euclid(last + 1);
    let find = format!(
        "SELECT id FROM (SELECT id, subscription_id, name, locked_until, state_set_at \
             FROM message_session WHERE id >= ?2 ORDER BY id LIMIT ?3) AS session \
         WHERE {condition} LIMIT ?4"
    );
    let values = params![now, first, TIDIED_MAX, limit];
    tx.all(&find, values, |row| Ok(row.get(0)?))
}

/// Deletes those of these sessions that are still idle.
pub(super) fn forget(tx: &WriteTx, idle: &[i64], now: Timestamp) -> Result<(), StoreError> {
    let forget = format!(
        "DELETE FROM message_session AS session WHERE {IS_IDLE} AND id = ?2 \
         RETURNING subscription_id, {STATE_BYTES}"
    );
    for id in idle {
        let forgotten = tx.all(&forget, params![now, id], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?))
        })?;
        for (of, bytes) in forgotten {
            tx.counts().grow(of, -bytes);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::db::open_in_memory;
    use crate::store::engine::migrate::migrate;

    /// Reads until the list is whole. Returns the names, and how many reads it took.
    fn listed(tx: &Connection, skip: usize, since: Option<i64>) -> (Vec<String>, usize) {
        let mut walk = SessionWalk::new(SessionQuery {
            of: SubscriptionId(1),
            state_set_since: since.map(Timestamp::from_ms),
            skip,
            limit: 2,
        });
        let mut reads = 0;
        while walk.goes_on() {
            let before = walk.left;
            walk = walk.proceed(tx).expect("a read");
            assert!(before - walk.left <= WALKED_AT_ONCE);
            reads += 1;
        }
        (walk.names, reads)
    }

    #[test]
    fn a_list_looks_at_so_many_sessions_however_many_are_skipped() {
        let mut tx = open_in_memory().expect("a database");
        migrate(&mut tx).expect("the schema");
        let fill = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) \
             INSERT INTO message_session (subscription_id, name, available_at, state_set_at, state) \
             SELECT 1, CASE i WHEN 0 THEN '' ELSE printf('%06d', i) END, 0, i, x'00' FROM n";
        tx.run(fill, [SESSIONS_WALKED_MAX]).expect("sessions");
        let expect = |skip, since, names: &[&str], reads| {
            let (found, took) = listed(&tx, skip, since);
            assert_eq!(found, names, "{skip}");
            assert_eq!(took, reads, "{skip}");
        };
        expect(0, None, &["", "000001"], 1);
        expect(20_000, None, &["020000", "020001"], 5);
        expect(10, Some(20_000), &["020011", "020012"], 5);
        let (last, all) = (
            SESSIONS_WALKED_MAX - 1,
            SESSIONS_WALKED_MAX / WALKED_AT_ONCE,
        );
        expect(last, None, &["049999"], all);
        expect(1, Some(last as i64 - 1), &[], all);
        for beyond in [SESSIONS_WALKED_MAX, i32::MAX as usize] {
            expect(beyond, None, &[], 0);
        }
    }
}
