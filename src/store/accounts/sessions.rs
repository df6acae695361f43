//! Sessions, stored under the hash of their cookie.

use rusqlite::{OptionalExtension, Row, params};

use crate::base::Timestamp;
use crate::model::audit::{AuditAction, AuditTarget, Caller};
use crate::store::accounts::users::existing;
use crate::store::accounts::{AccountError, Accounts, UserId};
use crate::store::error::StoreError;

/// Maximum number of sessions of one user; a further sign-in deletes the least recently used session.
const SESSIONS_PER_USER_MAX: i64 = 50;

/// Maximum number of sessions without a user: the password was accepted and the second factor is still missing. Beyond
/// the limit, the least recently used sessions are deleted.
const SESSIONS_OF_NOBODY_MAX: i64 = 1_000;

/// A session as it is stored.
#[derive(Clone, Debug)]
pub struct SessionRecord {
    /// SHA-256 of the cookie's token, in hex.
    pub id: String,
    /// The session's data, as JSON.
    pub record: String,
    /// `None` until somebody has signed in.
    pub user: Option<UserId>,
    pub started_at: Timestamp,
    pub used_at: Timestamp,
    pub expires_at: Timestamp,
    /// The address of the client that started the session.
    pub address: Option<String>,
    /// The name of the browser, as given in its requests.
    pub browser: Option<String>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSession {
    pub id: String,
    pub user: UserId,
    pub user_name: String,
    pub started_at: Timestamp,
    pub used_at: Timestamp,
    pub expires_at: Timestamp,
    pub address: Option<String>,
    pub browser: Option<String>,
}

impl Accounts {
    /// Stores a new session, and deletes the least recently used sessions beyond the limit.
    pub async fn add_session(&self, new: SessionRecord) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                let user = new.user.map(|user| user.0);
                tx.execute(
                    "INSERT INTO session (id, record, user_id, started_at, used_at, expires_at, \
                         address, browser) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                    params![
                        new.id,
                        new.record,
                        user,
                        new.started_at.as_ms(),
                        new.used_at.as_ms(),
                        new.expires_at.as_ms(),
                        new.address,
                        new.browser
                    ],
                )?;
                let kept = match user {
                    Some(_) => SESSIONS_PER_USER_MAX,
                    None => SESSIONS_OF_NOBODY_MAX,
                };
                tx.execute(
                    "DELETE FROM session WHERE id IN (SELECT id FROM session WHERE user_id IS ?1 \
                         ORDER BY used_at DESC LIMIT -1 OFFSET ?2)",
                    params![user, kept],
                )?;
                Ok(())
            })
            .await
    }

    /// Updates a session. A session that was deleted in the meantime stays deleted.
    pub async fn save_session(&self, session: SessionRecord) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                tx.prepare_cached(
                    "UPDATE session SET record = ?2, used_at = ?3, expires_at = ?4 WHERE id = ?1",
                )?
                .execute(params![
                    session.id,
                    session.record,
                    session.used_at.as_ms(),
                    session.expires_at.as_ms()
                ])?;
                Ok(())
            })
            .await
    }

    /// Returns the data of a session that has not expired.
    pub async fn session(&self, id: String, now: Timestamp) -> Result<Option<String>, StoreError> {
        self.db
            .read(move |tx| {
                let find = "SELECT record FROM session WHERE id = ?1 AND expires_at > ?2";
                let mut find = tx.prepare_cached(find)?;
                Ok(find
                    .query_row(params![id, now.as_ms()], |row| row.get(0))
                    .optional()?)
            })
            .await
    }

    /// Returns up to `limit` sessions that have not expired, of one user or of all users, most recently used first.
    pub async fn sessions(
        &self,
        user: Option<UserId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<ListedSession>, StoreError> {
        self.db
            .read(move |tx| {
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                let mut list = tx.prepare_cached(
                    "SELECT session.id, user_id, name, started_at, used_at, expires_at, address, \
                         browser \
                     FROM session JOIN user ON user.id = user_id \
                     WHERE expires_at > ?1 AND (?2 IS NULL OR user_id = ?2) \
                     ORDER BY used_at DESC, session.id LIMIT ?3",
                )?;
                let rows = list.query_map(
                    params![now.as_ms(), user.map(|user| user.0), limit],
                    session_row,
                )?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// Counts the sessions of a user that have not expired.
    pub async fn count_sessions(&self, user: UserId, now: Timestamp) -> Result<u64, StoreError> {
        self.db
            .read(move |tx| {
                let count = "SELECT count(*) FROM session WHERE user_id = ?1 AND expires_at > ?2";
                let mut count = tx.prepare_cached(count)?;
                let count: i64 = count.query_row(params![user.0, now.as_ms()], |row| row.get(0))?;
                Ok(count.unsigned_abs())
            })
            .await
    }

    /// Deletes the session of a user who signs out.
    pub async fn sign_out(&self, id: String, by: Caller) -> Result<(), StoreError> {
        self.db
            .write_audited(move |tx| {
                tx.prepare_cached("DELETE FROM session WHERE id = ?1")?
                    .execute([id])?;
                let target = AuditTarget::user(by.actor.name());
                Ok(((), Some(by.did(AuditAction::SignOut, target))))
            })
            .await
    }

    /// Deletes a session without an audit entry: the session has expired, or the browser gets a new one.
    pub async fn delete_session(&self, id: String) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                tx.prepare_cached("DELETE FROM session WHERE id = ?1")?
                    .execute([id])?;
                Ok(())
            })
            .await
    }

    /// Deletes a session on request of `by`, if the session exists and has a user.
    pub async fn end_session(&self, id: String, by: Caller) -> Result<(), AccountError> {
        self.db
            .write_audited(move |tx| {
                let ended =
                    "DELETE FROM session WHERE id = ?1 AND user_id IS NOT NULL RETURNING user_id";
                let user: Option<i64> = tx
                    .prepare_cached(ended)?
                    .query_row([id], |row| row.get(0))
                    .optional()?;
                let Some(user) = user else {
                    return Ok(((), None));
                };
                let target = AuditTarget::user(&existing(tx, UserId(user))?.name);
                let action = AuditAction::EndSessions { sessions: 1 };
                Ok(((), Some(by.did(action, target))))
            })
            .await
    }

    /// Deletes all sessions of one user or of all users, except `kept`. Returns the number of deleted sessions.
    pub async fn end_sessions(
        &self,
        user: Option<UserId>,
        kept: Option<String>,
        by: Caller,
    ) -> Result<usize, AccountError> {
        self.db
            .write_audited(move |tx| {
                let target = match user {
                    Some(user) => AuditTarget::user(&existing(tx, user)?.name),
                    None => AuditTarget::appliance(),
                };
                let ended = tx.execute(
                    "DELETE FROM session WHERE (?1 IS NULL OR user_id = ?1) AND id IS NOT ?2",
                    params![user.map(|user| user.0), kept],
                )?;
                let sessions = u64::try_from(ended).unwrap_or(u64::MAX);
                let entry = by.did(AuditAction::EndSessions { sessions }, target);
                Ok((ended, Some(entry)))
            })
            .await
    }

    /// Deletes the sessions that have expired.
    pub async fn delete_expired_sessions(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.db
            .write(move |tx| {
                let forget = "DELETE FROM session WHERE expires_at <= ?1";
                Ok(tx.prepare_cached(forget)?.execute([now.as_ms()])?)
            })
            .await
    }
}

fn session_row(row: &Row<'_>) -> rusqlite::Result<ListedSession> {
    Ok(ListedSession {
        id: row.get(0)?,
        user: UserId(row.get(1)?),
        user_name: row.get(2)?,
        started_at: Timestamp::from_ms(row.get(3)?),
        used_at: Timestamp::from_ms(row.get(4)?),
        expires_at: Timestamp::from_ms(row.get(5)?),
        address: row.get(6)?,
        browser: row.get(7)?,
    })
}
