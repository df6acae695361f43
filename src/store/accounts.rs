//! People who sign in to the admin pages, and their sessions.

use rusqlite::{OptionalExtension, params};

use crate::base::Timestamp;
use crate::store::db::Db;
use crate::store::error::StoreError;

/// The book of users and sessions.
#[derive(Clone)]
pub struct Accounts {
    pub(super) db: Db,
}

/// Somebody who may sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: i64,
    pub name: String,
    /// PHC string.
    pub password_hash: String,
    pub role: Role,
}

/// What a user may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Sees everything but secrets.
    Viewer,
    /// Also resubmits, pauses and publishes.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    /// All roles, the weakest first.
    pub const ALL: [Role; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl Accounts {
    /// Whether anybody can sign in at all; until then the appliance is unclaimed.
    pub async fn is_claimed(&self) -> Result<bool, StoreError> {
        self.db
            .read(|tx| {
                Ok(tx
                    .prepare_cached("SELECT 1 FROM user LIMIT 1")?
                    .exists([])?)
            })
            .await
    }

    /// Makes the first user, unless there is one already: then `false`, and nothing changes.
    pub async fn claim(
        &self,
        name: String,
        password_hash: String,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.db
            .write(move |tx| {
                let claimed = "INSERT INTO user (name, password_hash, role, created_at) \
                     SELECT ?1, ?2, 'admin', ?3 WHERE NOT EXISTS (SELECT 1 FROM user)";
                Ok(tx.execute(claimed, params![name, password_hash, now.as_ms()])? == 1)
            })
            .await
    }

    /// The user of that name, in any letter case.
    pub async fn find(&self, name: String) -> Result<Option<User>, StoreError> {
        self.db
            .read(move |tx| {
                let find = "SELECT id, name, password_hash, role FROM user WHERE name = ?1";
                let found = tx.prepare_cached(find)?.query_row([name], |row| {
                    let role: String = row.get(3)?;
                    Ok(User {
                        id: row.get(0)?,
                        name: row.get(1)?,
                        password_hash: row.get(2)?,
                        // The schema admits no other word; the weakest role is the safe reading.
                        role: Role::ALL
                            .into_iter()
                            .find(|each| each.name() == role)
                            .unwrap_or(Role::Viewer),
                    })
                });
                Ok(found.optional()?)
            })
            .await
    }

    /// Keeps a session until `expires_at`, in the place of an older record of the same id.
    pub async fn save_session(
        &self,
        id: String,
        record: String,
        expires_at: Timestamp,
    ) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                tx.prepare_cached(
                    "INSERT OR REPLACE INTO session (id, record, expires_at) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![id, record, expires_at.as_ms()])?;
                Ok(())
            })
            .await
    }

    /// The record of a session that has not expired.
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

    /// Ends a session.
    pub async fn delete_session(&self, id: String) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                tx.prepare_cached("DELETE FROM session WHERE id = ?1")?
                    .execute([id])?;
                Ok(())
            })
            .await
    }
}
