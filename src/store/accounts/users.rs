//! Users. The last user who can sign in as admin cannot be deleted, disabled or demoted.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Value, json};

use crate::base::Timestamp;
use crate::model::audit::{AuditAction, AuditTarget, Caller, Change};
use crate::model::identity::UserSource;
use crate::store::accounts::{Accounts, Role};
use crate::store::error::{ChangeError, StoreError};
use crate::wire::changes::changes;

/// Maximum number of users of one appliance, which also bounds lists of users.
const USERS_MAX: i64 = 1_000;

/// The id of a user; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserId(pub i64);

/// Somebody who can sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub name: String,
    /// PHC string; empty until the user chooses a password, and for users of an external source.
    pub password_hash: String,
    pub source: UserSource,
    /// The identifier of the user at the source; `None` for local users.
    pub subject: Option<String>,
    pub role: Role,
    pub created_at: Timestamp,
    /// When the user was disabled.
    pub disabled_at: Option<Timestamp>,
    /// The last sign-in.
    pub signed_in_at: Option<Timestamp>,
    /// Is true if a second factor is set up.
    pub has_second_factor: bool,
    /// When the password link expires, if there is one.
    pub link_expires_at: Option<Timestamp>,
    /// Name of the time zone in which times are shown to the user; `None` for the time zone of the browser.
    pub time_zone: Option<String>,
}

/// A user to store.
#[derive(Clone, Debug)]
pub struct NewUser {
    pub name: String,
    /// PHC string; empty if the user chooses a password with a link.
    pub password_hash: String,
    pub role: Role,
    pub link: Option<PasswordLink>,
}

/// A link for choosing a password.
#[derive(Clone, Debug)]
pub struct PasswordLink {
    /// SHA-256 of the link's token, in hex.
    pub hash: String,
    pub expires_at: Timestamp,
}

/// A change of a user; `None` leaves the property unchanged.
#[derive(Clone, Debug, Default)]
pub struct UserChange {
    pub role: Option<Role>,
    /// `true` disables the user and ends all sessions of the user.
    pub disabled: Option<bool>,
    pub password: Option<NewPassword>,
    pub removes_second_factor: bool,
}

/// A new password. Setting it makes the password link invalid and ends all sessions of the user except `kept_session`.
#[derive(Clone, Debug)]
pub struct NewPassword {
    /// PHC string.
    pub hash: String,
    /// The session that is not ended.
    pub kept_session: Option<String>,
    /// The hash of the token of the link with which the password was chosen; the link must still be valid.
    pub by_link: Option<String>,
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
    #[error("the link was used already")]
    DeadLink,
    #[error("this is the last user with a password here and the role admin")]
    LastAdmin,
    #[error("the user signs in elsewhere, and has neither a password nor a second factor here")]
    External,
    #[error("the user is disabled")]
    Disabled,
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
            | Self::DeadLink
            | Self::LastAdmin
            | Self::External
            | Self::Disabled => None,
        }
    }
}

impl From<rusqlite::Error> for AccountError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

const COLUMNS: &str = "id, name, password_hash, role, created_at, disabled_at, signed_in_at, \
     link_expires_at, totp IS NOT NULL, time_zone, source, subject";

impl Accounts {
    /// Returns whether a user exists. An appliance without users is unclaimed.
    pub async fn is_claimed(&self) -> Result<bool, StoreError> {
        self.db
            .read(|tx| {
                Ok(tx
                    .prepare_cached("SELECT 1 FROM user LIMIT 1")?
                    .exists([])?)
            })
            .await
    }

    /// Creates the first user. Returns `None` if a user already exists.
    pub async fn claim(
        &self,
        name: String,
        password_hash: String,
        by: Caller,
    ) -> Result<Option<UserId>, StoreError> {
        self.db
            .write_audited(move |tx| {
                let claimed = "INSERT INTO user (name, password_hash, role, created_at) \
                     SELECT ?1, ?2, 'admin', ?3 WHERE NOT EXISTS (SELECT 1 FROM user)";
                let made = tx.execute(claimed, params![name, password_hash, by.at.as_ms()])?;
                if made == 0 {
                    return Ok((None, None));
                }
                let id = UserId(tx.last_insert_rowid());
                let entry = by.did(AuditAction::SetUp, AuditTarget::user(&name));
                Ok((Some(id), Some(entry)))
            })
            .await
    }

    /// Returns all users, sorted by name.
    pub async fn users(&self) -> Result<Vec<User>, StoreError> {
        self.db
            .read(|tx| {
                let all = format!("SELECT {COLUMNS} FROM user ORDER BY name");
                let mut all = tx.prepare_cached(&all)?;
                Ok(all.query_map([], user)?.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// Returns the user with this name, ignoring case.
    pub async fn find(&self, name: String) -> Result<Option<User>, StoreError> {
        self.db.read(move |tx| one(tx, "name = ?1", [name])).await
    }

    /// Returns the user with this id.
    pub async fn user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        self.db.read(move |tx| one(tx, "id = ?1", [id.0])).await
    }

    /// Returns the user of a password link that has not expired.
    pub async fn user_of_link(
        &self,
        hash: String,
        now: Timestamp,
    ) -> Result<Option<User>, StoreError> {
        let found = self
            .db
            .read(move |tx| one(tx, "link_hash = ?1", [hash]))
            .await?;
        Ok(found.filter(|user| user.link_expires_at > Some(now)))
    }

    /// Adds a user, and a password link if `new` has one.
    pub async fn add_user(&self, new: NewUser, by: Caller) -> Result<UserId, AccountError> {
        self.db
            .write_audited(move |tx| {
                let count = reject_beyond_limit(tx)?;
                let NewUser {
                    name,
                    password_hash,
                    role,
                    link,
                } = new;
                if count == 0 && (role != Role::Admin || password_hash.is_empty()) {
                    return Err(AccountError::FirstIsAdmin);
                }
                let added = tx.execute(
                    "INSERT INTO user (name, password_hash, role, created_at) \
                     VALUES (?1, ?2, ?3, ?4) ON CONFLICT (name) DO NOTHING",
                    params![name, password_hash, role.name(), by.at.as_ms()],
                )?;
                if added == 0 {
                    return Err(AccountError::NameTaken);
                }
                let id = UserId(tx.last_insert_rowid());
                if let Some(link) = link {
                    put_link(tx, id, &link)?;
                }
                let user = existing(tx, id)?;
                let changes = changes(None, Some(&audited(&user)));
                let entry = by.did(
                    AuditAction::Create { changes },
                    AuditTarget::user(&user.name),
                );
                Ok((id, Some(entry)))
            })
            .await
    }

    /// Changes a user. Disabling the user ends all sessions of the user.
    pub async fn change_user(
        &self,
        id: UserId,
        change: UserChange,
        by: Caller,
    ) -> Result<(), AccountError> {
        self.db
            .write_audited(move |tx| {
                let before = if change.password.is_some() {
                    local(tx, id)?
                } else {
                    existing(tx, id)?
                };
                tx.execute(
                    "UPDATE user SET role = coalesce(?2, role), disabled_at = CASE ?3 \
                         WHEN 1 THEN coalesce(disabled_at, ?4) WHEN 0 THEN NULL ELSE disabled_at END \
                     WHERE id = ?1",
                    params![
                        id.0,
                        change.role.map(Role::name),
                        change.disabled,
                        by.at.as_ms()
                    ],
                )?;
                if change.disabled == Some(true) {
                    tx.execute("DELETE FROM session WHERE user_id = ?1", [id.0])?;
                }
                if let Some(password) = &change.password {
                    set_password(tx, id, password, by.at)?;
                }
                if change.removes_second_factor {
                    tx.execute("DELETE FROM recovery_code WHERE user_id = ?1", [id.0])?;
                    tx.execute(
                        "UPDATE user SET totp = NULL, totp_step = NULL WHERE id = ?1",
                        [id.0],
                    )?;
                }
                keep_an_admin(tx)?;
                let action = action_of(&change, &before, &existing(tx, id)?);
                let entry = by.did(action, AuditTarget::user(&before.name));
                Ok(((), Some(entry)))
            })
            .await
    }

    /// Deletes a user and all sessions of the user.
    pub async fn delete_user(&self, id: UserId, by: Caller) -> Result<(), AccountError> {
        self.db
            .write_audited(move |tx| {
                let user = existing(tx, id)?;
                tx.execute("DELETE FROM session WHERE user_id = ?1", [id.0])?;
                tx.execute("DELETE FROM user WHERE id = ?1", [id.0])?;
                keep_an_admin(tx)?;
                let changes = changes(Some(&audited(&user)), None);
                let entry = by.did(
                    AuditAction::Delete { changes },
                    AuditTarget::user(&user.name),
                );
                Ok(((), Some(entry)))
            })
            .await
    }

    /// Stores a password link, replacing an older one.
    pub async fn put_link(
        &self,
        id: UserId,
        link: PasswordLink,
        by: Caller,
    ) -> Result<(), AccountError> {
        self.db
            .write_audited(move |tx| {
                let user = local(tx, id)?;
                put_link(tx, id, &link)?;
                let target = AuditTarget::user(&user.name);
                let entry = by.did(AuditAction::CreatePasswordLink, target);
                Ok(((), Some(entry)))
            })
            .await
    }

    /// Stores the time zone in which times are shown to a user; `None` for the time zone of the browser.
    pub async fn set_time_zone(&self, id: UserId, zone: Option<String>) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                let set = "UPDATE user SET time_zone = ?2 WHERE id = ?1";
                tx.execute(set, params![id.0, zone])?;
                Ok(())
            })
            .await
    }

    /// Stores when a user signed in.
    pub async fn note_sign_in(&self, id: UserId, by: Caller) -> Result<(), StoreError> {
        self.db
            .write_audited(move |tx| {
                tx.execute(
                    "UPDATE user SET signed_in_at = ?2 WHERE id = ?1",
                    params![id.0, by.at.as_ms()],
                )?;
                let target = AuditTarget::user(by.actor.name());
                Ok(((), Some(by.did(AuditAction::SignIn, target))))
            })
            .await
    }
}

/// Returns the properties of a user that the audit log records.
pub(super) fn audited(user: &User) -> Value {
    json!({
        "name": user.name,
        "role": user.role.name(),
        "source": user.source.name(),
        "disabled": user.disabled_at.is_some(),
        "hasSecondFactor": user.has_second_factor,
    })
}

/// Returns the audit action for a change: a specific action if only one property changes, otherwise an update.
fn action_of(change: &UserChange, before: &User, after: &User) -> AuditAction {
    let UserChange {
        role,
        disabled,
        password,
        removes_second_factor,
    } = change;
    match (role, disabled, password, removes_second_factor) {
        (None, Some(true), None, false) => AuditAction::Disable,
        (None, Some(false), None, false) => AuditAction::Enable,
        (None, None, Some(_), false) => AuditAction::ChangePassword,
        (None, None, None, true) => AuditAction::RemoveSecondFactor,
        _ => {
            let mut changes = changes(Some(&audited(before)), Some(&audited(after)));
            changes.extend(password.as_ref().map(|_| Change {
                property: "password".to_owned(),
                before: Value::Null,
                after: Value::Null,
            }));
            AuditAction::Update { changes }
        }
    }
}

fn put_link(tx: &Connection, id: UserId, link: &PasswordLink) -> rusqlite::Result<()> {
    tx.execute(
        "UPDATE user SET link_hash = ?2, link_expires_at = ?3 WHERE id = ?1",
        params![id.0, link.hash, link.expires_at.as_ms()],
    )?;
    Ok(())
}

fn set_password(
    tx: &Connection,
    id: UserId,
    password: &NewPassword,
    now: Timestamp,
) -> Result<(), AccountError> {
    let set = tx.execute(
        "UPDATE user SET password_hash = ?2, link_hash = NULL, link_expires_at = NULL WHERE id = ?1 \
             AND (?3 IS NULL OR (link_hash = ?3 AND link_expires_at > ?4 AND disabled_at IS NULL))",
        params![id.0, password.hash, password.by_link, now.as_ms()],
    )?;
    if set == 0 {
        return Err(AccountError::DeadLink);
    }
    tx.execute(
        "DELETE FROM session WHERE user_id = ?1 AND id IS NOT ?2",
        params![id.0, password.kept_session],
    )?;
    Ok(())
}

/// Fails if no user remains who can sign in as admin, so that the change is rolled back.
fn keep_an_admin(tx: &Connection) -> Result<(), AccountError> {
    let some = "SELECT 1 FROM user WHERE role = 'admin' AND disabled_at IS NULL \
         AND password_hash <> '' LIMIT 1";
    if tx.prepare_cached(some)?.exists([])? {
        Ok(())
    } else {
        Err(AccountError::LastAdmin)
    }
}

pub(super) fn existing(tx: &Connection, id: UserId) -> Result<User, AccountError> {
    one(tx, "id = ?1", [id.0])?.ok_or(AccountError::NotFound)
}

/// Returns a user, who must be local. Fails for a user of an external source.
pub(super) fn local(tx: &Connection, id: UserId) -> Result<User, AccountError> {
    let user = existing(tx, id)?;
    match user.source {
        UserSource::Local => Ok(user),
        UserSource::Oidc | UserSource::Proxy => Err(AccountError::External),
    }
}

/// Returns the number of users. Fails if the limit is reached.
pub(super) fn reject_beyond_limit(tx: &Connection) -> Result<i64, AccountError> {
    let count: i64 = tx.query_row("SELECT count(*) FROM user", [], |row| row.get(0))?;
    if count < USERS_MAX {
        Ok(count)
    } else {
        Err(AccountError::TooMany)
    }
}

pub(super) fn one(
    tx: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
) -> Result<Option<User>, StoreError> {
    let find = format!("SELECT {COLUMNS} FROM user WHERE {condition}");
    let mut find = tx.prepare_cached(&find)?;
    Ok(find.query_row(values, user).optional()?)
}

fn user(row: &Row<'_>) -> rusqlite::Result<User> {
    let (role, source): (String, String) = (row.get(3)?, row.get(10)?);
    let moment = |column| -> rusqlite::Result<Option<Timestamp>> {
        let ms: Option<i64> = row.get(column)?;
        Ok(ms.map(Timestamp::from_ms))
    };
    Ok(User {
        id: UserId(row.get(0)?),
        name: row.get(1)?,
        password_hash: row.get(2)?,
        // An unknown source, which the schema does not allow, counts as one without local passwords.
        source: UserSource::parse(&source).unwrap_or(UserSource::Oidc),
        subject: row.get(11)?,
        role: Role::stored(&role),
        created_at: moment(4)?.unwrap_or_default(),
        disabled_at: moment(5)?,
        signed_in_at: moment(6)?,
        link_expires_at: moment(7)?,
        has_second_factor: row.get(8)?,
        time_zone: row.get(9)?,
    })
}
