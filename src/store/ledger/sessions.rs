//! Message sessions: who holds one, and what holders keep with it.
//!
//! The lock on a session is in its row. Each message of it that its holder has received has a lock of its own, which ends
//! with that of the session, so messages are settled, looked at and counted like all others. `available_at` is the
//! moment from which a session is worth looking at: like the due moment of a delivery it moves to the end of the lock,
//! so that a lock lapses by itself. It may be too early, and then it is put right by whoever looks; it is never too
//! late.

use rusqlite::{Connection, Row, params};

use crate::base::Timestamp;
use crate::model::delivery::DeliveryId;
use crate::model::lease::{LockToken, NEVER, is_held};
use crate::model::limits::{SESSION_STATE_BYTES_MAX, SESSIONS_LISTED_MAX};
use crate::model::retry::WAIT_MAX;
use crate::model::session::{
    HeldSession, SessionAnswer, SessionChange, SessionError, SessionSelection,
};
use crate::model::subscription::SubscriptionId;
use crate::store::engine::db::WriteTx;
use crate::store::error::StoreError;
use crate::store::ledger::counters::QueueRoom;
use crate::store::ledger::settle::{record_lapse, uncount, unlock};
use crate::store::sql::Sql;

/// Sessions that one change looks at to find one that can be held. The next change goes on.
const LOOKED_AT_MAX: usize = 100;

/// Sessions that are looked at in a minute to find those that nothing needs: a few milliseconds, however many there are.
const TIDIED_MAX: i64 = 2_000;

/// A session to hold.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    pub of: SubscriptionId,
    pub which: SessionSelection,
    pub token: LockToken,
    pub now: Timestamp,
    pub until: Timestamp,
}

/// Which sessions of a queue to list.
#[derive(Clone, Copy, Debug)]
pub struct SessionQuery {
    pub of: SubscriptionId,
    /// Those whose state was set since then, or else those that have messages or a state.
    pub state_set_since: Option<Timestamp>,
    pub skip: usize,
    pub limit: usize,
}

/// What to wait for in a queue with sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SessionWait {
    /// A session that nobody holds.
    Next(SubscriptionId),
    /// A message of this session.
    In(SubscriptionId, String),
}

/// A row.
struct Session {
    id: i64,
    of: SubscriptionId,
    name: String,
    /// The newest lock, unless it was given back.
    lock: Option<(LockToken, Timestamp)>,
    has_state: bool,
}

const COLUMNS: &str =
    "id, subscription_id, name, lock_token, locked_until, state_set_at IS NOT NULL";

impl Session {
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

/// Notes that a message comes into a session, and is due at `at`.
pub(super) fn join(
    tx: &Connection,
    of: SubscriptionId,
    name: &str,
    at: Timestamp,
) -> rusqlite::Result<()> {
    tx.run(JOIN, params![of, name, at])?;
    Ok(())
}

/// Locks a session for somebody.
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
    // What a holder had whose lock has lapsed goes back to its place.
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

fn named(tx: &Connection, of: SubscriptionId, name: &str) -> Result<Option<Session>, StoreError> {
    let find =
        format!("SELECT {COLUMNS} FROM message_session WHERE subscription_id = ?1 AND name = ?2");
    tx.first(&find, params![of, name], Session::of)
}

fn named_or_new(tx: &Connection, of: SubscriptionId, name: &str) -> Result<Session, StoreError> {
    if let Some(session) = named(tx, of, name)? {
        return Ok(session);
    }
    let add =
        "INSERT INTO message_session (subscription_id, name, available_at) VALUES (?1, ?2, ?3)";
    tx.run(add, params![of, name, NEVER])?;
    Ok(Session {
        id: tx.last_insert_rowid(),
        of,
        name: name.to_owned(),
        lock: None,
        has_state: false,
    })
}

/// The next session that has a message for whoever holds it.
fn next(
    tx: &Connection,
    of: SubscriptionId,
    now: Timestamp,
) -> Result<Option<Session>, StoreError> {
    let find = format!(
        "SELECT {COLUMNS} FROM message_session WHERE subscription_id = ?1 AND available_at <= ?2 \
         ORDER BY available_at LIMIT 1"
    );
    for _ in 0..LOOKED_AT_MAX {
        let Some(session) = tx.first(&find, params![of, now], Session::of)? else {
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

/// When the first message of a session falls due, or did; `None` if it has no messages.
fn first_due(
    tx: &Connection,
    of: SubscriptionId,
    name: &str,
) -> Result<Option<Timestamp>, StoreError> {
    let first = "SELECT min(next_attempt_at) FROM delivery \
         WHERE subscription_id = ?1 AND session = ?2 AND state = 'Pending'";
    tx.value(first, params![of, name])
}

/// Leaves a session that nobody holds alone until its first message is due, or forgets it.
fn rest(tx: &Connection, session: &Session, due_at: Option<Timestamp>) -> Result<(), StoreError> {
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

/// Puts the messages of a holder back to their places, as if it had not received them unless that `counts`.
fn return_messages(
    tx: &WriteTx,
    session: &Session,
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
        match counts {
            true => record_lapse(tx, id, attempts, from, until.min(now))?,
            false => uncount(tx, id)?,
        }
        unlock(tx, id, place)?;
    }
    Ok(())
}

/// The session of a lock, if the lock is held.
fn held(
    tx: &Connection,
    lock: &HeldSession,
    now: Timestamp,
) -> Result<Option<Session>, StoreError> {
    let session = named(tx, lock.of, &lock.name)?;
    Ok(session.filter(|session| {
        session.is_held(now) && session.lock.is_some_and(|(token, _)| token == lock.token)
    }))
}

/// When the lock on a session ends, if it is held, and how many of its messages its holder has.
pub(super) fn messages_held(
    tx: &Connection,
    lock: &HeldSession,
    now: Timestamp,
) -> Result<Option<(Timestamp, usize)>, StoreError> {
    let Some(Session {
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

/// Does what the holder of a session wants. The queue may grow by `room` bytes.
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
            let state = state.filter(|state| !state.is_empty());
            if let Err(error) = set_state(tx, &session, state.as_deref(), room, now)? {
                return Ok(Err(error));
            }
        }
        SessionChange::Release => end(tx, &session, false, now)?,
        SessionChange::Abandon => end(tx, &session, true, now)?,
    }
    Ok(Ok(SessionAnswer::Done))
}

fn end(tx: &WriteTx, session: &Session, counts: bool, now: Timestamp) -> Result<(), StoreError> {
    return_messages(tx, session, counts, now)?;
    let due_at = first_due(tx, session.of, &session.name)?;
    rest(tx, session, due_at)
}

/// Bytes of the queue that the state of a session takes, which is kept with its name.
pub(super) const STATE_BYTES: &str = "coalesce(length(state) + length(CAST(name AS BLOB)), 0)";

fn set_state(
    tx: &WriteTx,
    session: &Session,
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

/// When it is worth looking there, or was; `None` if nothing is to be expected.
pub(super) fn due(tx: &Connection, place: &SessionWait) -> Result<Option<Timestamp>, StoreError> {
    match place {
        SessionWait::Next(of) => {
            let first = "SELECT min(available_at) FROM message_session WHERE subscription_id = ?1";
            tx.value(first, [of])
        }
        SessionWait::In(of, name) => first_due(tx, *of, name),
    }
}

/// The names of sessions, in their order.
pub(super) fn list(tx: &Connection, query: &SessionQuery) -> Result<Vec<String>, StoreError> {
    let which = match query.state_set_since {
        Some(_) => "state_set_at > ?4",
        None => {
            "?4 IS NULL AND (state_set_at IS NOT NULL OR EXISTS (SELECT 1 FROM delivery \
             WHERE delivery.subscription_id = ?1 AND delivery.session = message_session.name \
             AND delivery.state = 'Pending'))"
        }
    };
    let find = format!(
        "SELECT name FROM message_session WHERE subscription_id = ?1 AND {which} \
         ORDER BY name LIMIT ?2 OFFSET ?3"
    );
    let limit = query.limit.min(SESSIONS_LISTED_MAX);
    let values = params![query.of, limit, query.skip, query.state_set_since];
    tx.all(&find, values, |row| Ok(row.get(0)?))
}

/// Sessions whose lock ends later than any lock can, up to `limit` of those that are looked at in this minute: a wrong
/// clock has planned it.
pub(super) fn overheld(
    tx: &Connection,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<i64>, StoreError> {
    looked_at(tx, "locked_until > ?1", now + WAIT_MAX, limit)
}

/// All sessions that somebody holds.
pub(super) fn all_held(tx: &Connection, now: Timestamp) -> Result<Vec<i64>, StoreError> {
    let find = "SELECT id FROM message_session WHERE locked_until > ?1";
    tx.all(find, [now], |row| Ok(row.get(0)?))
}

/// Ends the locks of these sessions, and of their messages.
pub(super) fn end_locks(tx: &Connection, ids: &[i64], now: Timestamp) -> Result<(), StoreError> {
    let find = format!("SELECT {COLUMNS} FROM message_session WHERE id = ?1 AND locked_until > ?2");
    for id in ids {
        if let Some(session) = tx.first(&find, params![id, now], Session::of)? {
            let end =
                "UPDATE message_session SET locked_until = ?2, available_at = ?2 WHERE id = ?1";
            tx.run(end, params![id, now])?;
            tx.run(RENEW_MESSAGES, params![session.of, session.name, now])?;
        }
    }
    Ok(())
}

/// Of sessions that nothing needs: nobody holds them, and they have neither messages nor a state, or their queue is
/// deleted.
const IS_IDLE: &str = "(locked_until IS NULL OR locked_until <= ?1) \
     AND (state_set_at IS NULL OR EXISTS (SELECT 1 FROM event_subscription \
         WHERE event_subscription.id = session.subscription_id AND deleted_at IS NOT NULL)) \
     AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.subscription_id = session.subscription_id \
         AND delivery.session = session.name AND delivery.state = 'Pending')";

/// Sessions that are to be forgotten, up to `limit` of those that are looked at in this minute.
pub(super) fn idle(tx: &Connection, now: Timestamp, limit: usize) -> Result<Vec<i64>, StoreError> {
    looked_at(tx, IS_IDLE, now, limit)
}

/// Up to `limit` of the sessions that are looked at in this minute, of which `condition` is true with `?1`.
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

/// Forgets those of them that are idle still.
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
