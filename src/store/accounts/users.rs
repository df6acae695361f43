//! Users. The last one who can sign in as admin can be neither deleted, disabled nor demoted.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::base::Timestamp;
use crate::store::accounts::{Accounts, Role};
use crate::store::error::{ChangeError, StoreError};

/// Users of one appliance: bounds the lists of them.
const USERS_MAX: i64 = 1_000;

/// The id of a user; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserId(pub i64);

/// Somebody who can sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub name: String,
    /// PHC string; empty until the user chooses a password.
    pub password_hash: String,
    pub role: Role,
    pub created_at: Timestamp,
    /// When the user was disabled.
    pub disabled_at: Option<Timestamp>,
    /// The last sign-in.
    pub signed_in_at: Option<Timestamp>,
    /// Whether a second factor is set up.
    pub has_second_factor: bool,
    /// When the password link expires, if there is one.
    pub link_expires_at: Option<Timestamp>,
}

/// A user to store.
#[derive(Clone, Debug)]
pub struct NewUser {
    pub name: String,
    /// PHC string; empty if the user chooses a password by a link.
    pub password_hash: String,
    pub role: Role,
}

/// A link with which its holder chooses a password.
#[derive(Clone, Debug)]
pub struct PasswordLink {
    /// SHA-256, in hex, of the token.
    pub hash: String,
    pub expires_at: Timestamp,
}

/// A change of a user; `None` leaves a property as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserChange {
    pub role: Option<Role>,
    /// `true` disables the user and ends all sessions.
    pub disabled: Option<bool>,
}

/// Why an account was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    #[error("there is a user of that name already")]
    NameTaken,
    #[error("there are {USERS_MAX} users already, which is the limit")]
    TooMany,
    #[error("the first user must have the role admin, and a password")]
    FirstIsAdmin,
    #[error("there is a token of that name already")]
    TokenNameTaken,
    #[error("there are 1000 tokens already, which is the limit")]
    TooManyTokens,
    #[error("there is no such token")]
    TokenNotFound,
    #[error("there is no such user")]
    NotFound,
    #[error("this is the last user who can sign in with the role admin")]
    LastAdmin,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ChangeError for AccountError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error) => Some(error),
            Self::NameTaken
            | Self::TooMany
            | Self::FirstIsAdmin
            | Self::TokenNameTaken
            | Self::TooManyTokens
            | Self::TokenNotFound
            | Self::NotFound
            | Self::LastAdmin => None,
        }
    }
}

impl From<rusqlite::Error> for AccountError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

const COLUMNS: &str = "id, name, password_hash, role, created_at, disabled_at, signed_in_at, \
     link_expires_at, totp IS NOT NULL";

impl Accounts {
    /// Whether there is a user. Until then the appliance is unclaimed.
    pub async fn is_claimed(&self) -> Result<bool, StoreError> {
        self.db
            .read(|tx| {
                Ok(tx
                    .prepare_cached("SELECT 1 FROM user LIMIT 1")?
                    .exists([])?)
            })
            .await
    }

    /// Creates the first user. `None` if there is one already.
    pub async fn claim(
        &self,
        name: String,
        password_hash: String,
        now: Timestamp,
    ) -> Result<Option<UserId>, StoreError> {
        self.db
            .write(move |tx| {
                let claimed = "INSERT INTO user (name, password_hash, role, created_at) \
                     SELECT ?1, ?2, 'admin', ?3 WHERE NOT EXISTS (SELECT 1 FROM user)";
                let made = tx.execute(claimed, params![name, password_hash, now.as_ms()])?;
                Ok((made == 1).then(|| UserId(tx.last_insert_rowid())))
            })
            .await
    }

    /// All users by their names.
    pub async fn users(&self) -> Result<Vec<User>, StoreError> {
        self.db
            .read(|tx| {
                let all = format!("SELECT {COLUMNS} FROM user ORDER BY name");
                let mut all = tx.prepare_cached(&all)?;
                Ok(all.query_map([], user)?.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// The user of that name, in any letter case.
    pub async fn find(&self, name: String) -> Result<Option<User>, StoreError> {
        self.db.read(move |tx| one(tx, "name = ?1", &name)).await
    }

    /// The user of that id.
    pub async fn user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        self.db.read(move |tx| one(tx, "id = ?1", id.0)).await
    }

    /// The user of a password link that has not expired.
    pub async fn user_of_link(
        &self,
        hash: String,
        now: Timestamp,
    ) -> Result<Option<User>, StoreError> {
        let found = self
            .db
            .read(move |tx| one(tx, "link_hash = ?1", &hash))
            .await?;
        Ok(found.filter(|user| user.link_expires_at > Some(now)))
    }

    /// Adds a user.
    pub async fn add_user(&self, new: NewUser, now: Timestamp) -> Result<UserId, AccountError> {
        self.db
            .write(move |tx| {
                let count: i64 = tx.query_row("SELECT count(*) FROM user", [], |row| row.get(0))?;
                if count >= USERS_MAX {
                    return Err(AccountError::TooMany);
                }
                let NewUser {
                    name,
                    password_hash,
                    role,
                } = new;
                if count == 0 && (role != Role::Admin || password_hash.is_empty()) {
                    return Err(AccountError::FirstIsAdmin);
                }
                let added = tx.execute(
                    "INSERT INTO user (name, password_hash, role, created_at) \
                     VALUES (?1, ?2, ?3, ?4) ON CONFLICT (name) DO NOTHING",
                    params![name, password_hash, role.name(), now.as_ms()],
                )?;
                match added {
                    0 => Err(AccountError::NameTaken),
                    _ => Ok(UserId(tx.last_insert_rowid())),
                }
            })
            .await
    }

    /// Changes a user. Disabling a user ends all sessions.
    pub async fn change_user(
        &self,
        id: UserId,
        change: UserChange,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.db
            .write(move |tx| {
                let role = change.role.map(Role::name);
                let changed = tx.execute(
                    "UPDATE user SET role = coalesce(?2, role), disabled_at = CASE ?3 \
                         WHEN 1 THEN coalesce(disabled_at, ?4) WHEN 0 THEN NULL ELSE disabled_at END \
                     WHERE id = ?1",
                    params![id.0, role, change.disabled, now.as_ms()],
                )?;
                if changed == 0 {
                    return Err(AccountError::NotFound);
                }
                if change.disabled == Some(true) {
                    tx.execute("DELETE FROM session WHERE user_id = ?1", [id.0])?;
                }
                keep_an_admin(tx)
            })
            .await
    }

    /// Deletes a user and all sessions.
    pub async fn delete_user(&self, id: UserId) -> Result<(), AccountError> {
        self.db
            .write(move |tx| {
                tx.execute("DELETE FROM session WHERE user_id = ?1", [id.0])?;
                match tx.execute("DELETE FROM user WHERE id = ?1", [id.0])? {
                    0 => Err(AccountError::NotFound),
                    _ => keep_an_admin(tx),
                }
            })
            .await
    }

    /// Stores a password link, in place of an older one.
    pub async fn put_link(&self, id: UserId, link: PasswordLink) -> Result<(), AccountError> {
        self.db
            .write(move |tx| {
                let put = tx.execute(
                    "UPDATE user SET link_hash = ?2, link_expires_at = ?3 WHERE id = ?1",
                    params![id.0, link.hash, link.expires_at.as_ms()],
                )?;
                match put {
                    0 => Err(AccountError::NotFound),
                    _ => Ok(()),
                }
            })
            .await
    }

    /// Changes the password of a user, voids the password link, and ends all sessions except `kept`.
    pub async fn set_password(
        &self,
        id: UserId,
        password_hash: String,
        kept: Option<String>,
    ) -> Result<(), AccountError> {
        self.db
            .write(move |tx| {
                let set = tx.execute(
                    "UPDATE user SET password_hash = ?2, link_hash = NULL, link_expires_at = NULL \
                     WHERE id = ?1",
                    params![id.0, password_hash],
                )?;
                if set == 0 {
                    return Err(AccountError::NotFound);
                }
                tx.execute(
                    "DELETE FROM session WHERE user_id = ?1 AND id IS NOT ?2",
                    params![id.0, kept],
                )?;
                Ok(())
            })
            .await
    }

    /// Stores when a user signed in.
    pub async fn note_sign_in(&self, id: UserId, now: Timestamp) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                tx.execute(
                    "UPDATE user SET signed_in_at = ?2 WHERE id = ?1",
                    params![id.0, now.as_ms()],
                )?;
                Ok(())
            })
            .await
    }
}

/// Fails, and so undoes the change, if nobody is left who can sign in as admin.
fn keep_an_admin(tx: &Connection) -> Result<(), AccountError> {
    let some = "SELECT 1 FROM user WHERE role = 'admin' AND disabled_at IS NULL \
         AND password_hash <> '' LIMIT 1";
    match tx.prepare_cached(some)?.exists([])? {
        true => Ok(()),
        false => Err(AccountError::LastAdmin),
    }
}

fn one(
    tx: &Connection,
    condition: &str,
    value: impl rusqlite::ToSql,
) -> Result<Option<User>, StoreError> {
    let find = format!("SELECT {COLUMNS} FROM user WHERE {condition}");
    let mut find = tx.prepare_cached(&find)?;
    Ok(find.query_row([value], user).optional()?)
}

fn user(row: &Row<'_>) -> rusqlite::Result<User> {
    let role: String = row.get(3)?;
    let moment = |column| -> rusqlite::Result<Option<Timestamp>> {
        let ms: Option<i64> = row.get(column)?;
        Ok(ms.map(Timestamp::from_ms))
    };
    Ok(User {
        id: UserId(row.get(0)?),
        name: row.get(1)?,
        password_hash: row.get(2)?,
        role: Role::stored(&role),
        created_at: moment(4)?.unwrap_or_default(),
        disabled_at: moment(5)?,
        signed_in_at: moment(6)?,
        link_expires_at: moment(7)?,
        has_second_factor: row.get(8)?,
    })
}
