//! API tokens for programs, stored as hashes.

use rusqlite::{Row, params};

use crate::base::Timestamp;
use crate::store::accounts::{AccountError, Accounts, Role};
use crate::store::error::StoreError;

/// Tokens of one appliance. All of them are held in memory.
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
    /// Who created it, in words.
    pub created_by: String,
    pub created_at: Timestamp,
    /// `None`: it never expires.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    pub used_at: Option<Timestamp>,
}

/// A token to store.
#[derive(Clone, Debug)]
pub struct NewToken {
    pub name: String,
    pub hash: String,
    pub role: Role,
    pub created_by: String,
    pub expires_at: Option<Timestamp>,
}

impl Accounts {
    /// All tokens by their names.
    pub async fn tokens(&self) -> Result<Vec<ApiToken>, StoreError> {
        self.db
            .read(|tx| {
                let mut all = tx.prepare_cached(
                    "SELECT id, name, hash, role, created_by, created_at, expires_at, used_at \
                     FROM api_token ORDER BY name",
                )?;
                Ok(all.query_map([], token)?.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// Adds a token.
    pub async fn add_token(&self, new: NewToken, now: Timestamp) -> Result<TokenId, AccountError> {
        self.db
            .write(move |tx| {
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
                        new.created_by,
                        now.as_ms(),
                        new.expires_at.map(Timestamp::as_ms)
                    ],
                )?;
                match added {
                    0 => Err(AccountError::TokenNameTaken),
                    _ => Ok(TokenId(tx.last_insert_rowid())),
                }
            })
            .await
    }

    /// Deletes a token.
    pub async fn delete_token(&self, id: TokenId) -> Result<(), AccountError> {
        self.db
            .write(
                move |tx| match tx.execute("DELETE FROM api_token WHERE id = ?1", [id.0])? {
                    0 => Err(AccountError::TokenNotFound),
                    _ => Ok(()),
                },
            )
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
