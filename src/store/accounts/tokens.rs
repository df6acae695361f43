//! API tokens for programs, stored as hashes.

use rusqlite::{OptionalExtension, Row, params};
use serde_json::{Value, json};

use crate::base::Timestamp;
use crate::model::audit::{AuditAction, Caller, TargetKind};
use crate::store::accounts::{AccountError, Accounts, Role};
use crate::store::error::StoreError;
use crate::wire::changes::changes;

/// Maximum number of tokens of one appliance; all tokens are held in memory.
const TOKENS_MAX: i64 = 1_000;

/// The id of a token; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenId(pub i64);

/// A stored token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiToken {
    pub id: TokenId,
    pub name: String,
    /// SHA-256, in hex.
    pub hash: String,
    pub role: Role,
    /// The actor that created the token, as text.
    pub created_by: String,
    pub created_at: Timestamp,
    /// `None` for a token that never expires.
    pub expires_at: Option<Timestamp>,
    /// The last use of the token, to the minute.
    pub used_at: Option<Timestamp>,
}

/// A token to store.
#[derive(Clone, Debug)]
pub struct NewToken {
    pub name: String,
    pub hash: String,
    pub role: Role,
    pub expires_at: Option<Timestamp>,
}

const COLUMNS: &str = "id, name, hash, role, created_by, created_at, expires_at, used_at";

impl Accounts {
    /// Returns all tokens, sorted by name.
    pub async fn tokens(&self) -> Result<Vec<ApiToken>, StoreError> {
        self.db
            .read(|tx| {
                let all = format!("SELECT {COLUMNS} FROM api_token ORDER BY name");
                let mut all = tx.prepare_cached(&all)?;
                Ok(all.query_map([], token)?.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// Adds a token.
    pub async fn add_token(&self, new: NewToken, by: Caller) -> Result<ApiToken, AccountError> {
        self.db
            .write_audited(move |tx| {
                let count = "SELECT count(*) FROM api_token";
                let count: i64 = tx.query_row(count, [], |row| row.get(0))?;
                if count >= TOKENS_MAX {
                    return Err(AccountError::TooManyTokens);
                }
                let added = tx.execute(
                    "INSERT INTO api_token (name, hash, role, created_by, created_at, expires_at) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (name) DO NOTHING",
                    params![
                        new.name,
                        new.hash,
                        new.role.name(),
                        by.actor.to_string(),
                        by.at.as_ms(),
                        new.expires_at.map(Timestamp::as_ms)
                    ],
                )?;
                if added == 0 {
                    return Err(AccountError::TokenNameTaken);
                }
                let id = tx.last_insert_rowid();
                let find = format!("SELECT {COLUMNS} FROM api_token WHERE id = ?1");
                let added = tx.query_row(&find, [id], token)?;
                let changes = changes(None, Some(&audited(&added)));
                let target = TargetKind::ApiToken.named(&added.name);
                let entry = by.did(AuditAction::Create { changes }, target);
                Ok((added, Some(entry)))
            })
            .await
    }

    /// Deletes a token.
    pub async fn delete_token(&self, id: TokenId, by: Caller) -> Result<(), AccountError> {
        self.db
            .write_audited(move |tx| {
                let delete = format!("DELETE FROM api_token WHERE id = ?1 RETURNING {COLUMNS}");
                let found = tx.query_row(&delete, [id.0], token).optional()?;
                let deleted = found.ok_or(AccountError::TokenNotFound)?;
                let changes = changes(Some(&audited(&deleted)), None);
                let target = TargetKind::ApiToken.named(&deleted.name);
                let entry = by.did(AuditAction::Delete { changes }, target);
                Ok(((), Some(entry)))
            })
            .await
    }

    /// Stores when a token was used.
    pub async fn note_token_use(&self, id: TokenId, now: Timestamp) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                tx.execute(
                    "UPDATE api_token SET used_at = ?2 WHERE id = ?1",
                    params![id.0, now.as_ms()],
                )?;
                Ok(())
            })
            .await
    }
}

/// Returns the properties of a token that the audit log records.
fn audited(token: &ApiToken) -> Value {
    json!({
        "name": token.name,
        "role": token.role.name(),
        "expiresAt": token.expires_at.map(|at| at.to_string()),
    })
}

fn token(row: &Row<'_>) -> rusqlite::Result<ApiToken> {
    let role: String = row.get(3)?;
    let expires_at: Option<i64> = row.get(6)?;
    let used_at: Option<i64> = row.get(7)?;
    Ok(ApiToken {
        id: TokenId(row.get(0)?),
        name: row.get(1)?,
        hash: row.get(2)?,
        role: Role::stored(&role),
        created_by: row.get(4)?,
        created_at: Timestamp::from_ms(row.get(5)?),
        expires_at: expires_at.map(Timestamp::from_ms),
        used_at: used_at.map(Timestamp::from_ms),
    })
}
