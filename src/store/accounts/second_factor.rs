//! The second factor of a user: an encrypted secret and hashed recovery codes.

use rusqlite::{OptionalExtension, params};

use crate::model::audit::{AuditAction, AuditTarget, Caller};
use crate::model::one_time_code::Seed;
use crate::store::accounts::users::local;
use crate::store::accounts::{AccountError, Accounts, UserId};
use crate::store::engine::encryption::USER_TOTP;
use crate::store::error::StoreError;

/// The stored second factor of a user, against which a code is checked.
#[derive(Clone, Debug)]
pub struct SecondFactor {
    pub seed: Seed,
    /// The time step of the last used code.
    pub last_step: Option<i64>,
}

/// A second factor to store.
#[derive(Clone, Debug)]
pub struct NewSecondFactor {
    pub seed: Seed,
    /// The time step of the code that confirmed the second factor.
    pub step: i64,
    /// SHA-256, in hex, of each recovery code.
    pub recovery_hashes: Vec<String>,
}

impl Accounts {
    /// Returns the second factor of a user.
    pub async fn second_factor(&self, id: UserId) -> Result<Option<SecondFactor>, StoreError> {
        let encryption = self.encryption.clone();
        self.db
            .read(move |tx| {
                let find = "SELECT totp, totp_step FROM user WHERE id = ?1 AND totp IS NOT NULL";
                let found: Option<(String, Option<i64>)> = tx
                    .prepare_cached(find)?
                    .query_row([id.0], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()?;
                let Some((encrypted, last_step)) = found else {
                    return Ok(None);
                };
                let text = encryption.open(USER_TOTP, id.0, &encrypted)?;
                let unreadable = || StoreError::Unreadable(format!("user.totp of row {}", id.0));
                let seed = Seed::parse(&text).ok_or_else(unreadable)?;
                Ok(Some(SecondFactor { seed, last_step }))
            })
            .await
    }

    /// Returns how many unused recovery codes a user has.
    pub async fn recovery_codes(&self, id: UserId) -> Result<u64, StoreError> {
        self.db
            .read(move |tx| {
                let count = "SELECT count(*) FROM recovery_code WHERE user_id = ?1";
                let count: i64 = tx
                    .prepare_cached(count)?
                    .query_row([id.0], |row| row.get(0))?;
                Ok(u64::try_from(count).unwrap_or(0))
            })
            .await
    }

    /// Stores or replaces the second factor of a user and the recovery codes.
    pub async fn set_second_factor(
        &self,
        id: UserId,
        new: NewSecondFactor,
        by: Caller,
    ) -> Result<(), AccountError> {
        let encryption = self.encryption.clone();
        self.db
            .write_audited(move |tx| {
                let target = AuditTarget::user(&local(tx, id)?.name);
                let encrypted = encryption.encrypt(USER_TOTP, id.0, &new.seed.to_text());
                tx.execute(
                    "UPDATE user SET totp = ?2, totp_step = ?3 WHERE id = ?1",
                    params![id.0, encrypted, new.step],
                )?;
                tx.execute("DELETE FROM recovery_code WHERE user_id = ?1", [id.0])?;
                for hash in new.recovery_hashes {
                    let insert = "INSERT INTO recovery_code (user_id, hash) VALUES (?1, ?2)";
                    tx.execute(insert, params![id.0, hash])?;
                }
                let entry = by.did(AuditAction::SetUpSecondFactor, target);
                Ok(((), Some(entry)))
            })
            .await
    }

    /// Marks the codes up to a time step as used. Returns `false` if the code of the time step was already used.
    pub async fn use_step(&self, id: UserId, step: i64) -> Result<bool, StoreError> {
        self.db
            .write(move |tx| {
                let used = tx.execute(
                    "UPDATE user SET totp_step = ?2 \
                     WHERE id = ?1 AND totp IS NOT NULL AND coalesce(totp_step, -1) < ?2",
                    params![id.0, step],
                )?;
                Ok(used == 1)
            })
            .await
    }

    /// Deletes a recovery code that is used. Returns `false` if the user has no such code.
    pub async fn use_recovery_code(&self, id: UserId, hash: String) -> Result<bool, StoreError> {
        self.db
            .write(move |tx| {
                let used = tx.execute(
                    "DELETE FROM recovery_code WHERE user_id = ?1 AND hash = ?2",
                    params![id.0, hash],
                )?;
                Ok(used == 1)
            })
            .await
    }
}
