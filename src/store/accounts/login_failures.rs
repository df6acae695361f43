//! Failed logins. They are stored, so that crashing or updating the program does not reset the delays.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use crate::base::Timestamp;
use crate::model::login_failures::LoginFailures;
use crate::store::accounts::Accounts;
use crate::store::error::StoreError;

/// Accounts and networks that are remembered, the newest failures first: bounds the table.
const LOGIN_FAILURES_MAX: i64 = 10_000;

impl Accounts {
    /// Counts a login attempt as failed until [`Accounts::clear_login_failures`] says otherwise, or returns
    /// how long to wait. `guessers` are hashes of an account and a network: hashes, since people type their
    /// password into the field for the name.
    pub async fn begin_login_attempt(
        &self,
        guessers: Vec<String>,
        now: Timestamp,
    ) -> Result<Option<Duration>, StoreError> {
        // A client that has to wait causes no write.
        let asked = guessers.clone();
        let waits = self.db.read(move |tx| wait(tx, &asked, now)).await?;
        if waits.is_some() {
            return Ok(waits);
        }
        self.db
            .write(move |tx| {
                let waits = wait(tx, &guessers, now)?;
                if waits.is_none() {
                    for guesser in &guessers {
                        let failures = failures(tx, guesser)?;
                        let failures = failures.unwrap_or(LoginFailures::none(now));
                        put(tx, guesser, failures.one_more(now))?;
                    }
                    make_room(tx)?;
                }
                Ok(waits)
            })
            .await
    }

    /// Removes the failure that [`Accounts::begin_login_attempt`] counted: `known` starts from zero, `others`
    /// lose that one failure.
    pub async fn clear_login_failures(
        &self,
        known: String,
        others: Vec<String>,
    ) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                tx.prepare_cached("DELETE FROM login_failure WHERE hash = ?1")?
                    .execute([known])?;
                for guesser in others {
                    if let Some(failures) = failures(tx, &guesser)? {
                        put(tx, &guesser, failures.one_fewer())?;
                    }
                }
                Ok(())
            })
            .await
    }

    /// Deletes the failures of those who have not failed since `cutoff`.
    pub async fn delete_login_failures(&self, cutoff: Timestamp) -> Result<usize, StoreError> {
        self.db
            .write(move |tx| {
                let forget = "DELETE FROM login_failure WHERE last_at <= ?1";
                Ok(tx.prepare_cached(forget)?.execute([cutoff.as_ms()])?)
            })
            .await
    }
}

fn wait(
    tx: &Connection,
    guessers: &[String],
    now: Timestamp,
) -> Result<Option<Duration>, StoreError> {
    let mut longest = Duration::ZERO;
    for guesser in guessers {
        if let Some(failures) = failures(tx, guesser)? {
            longest = longest.max(failures.free_at.since(now));
        }
    }
    Ok((!longest.is_zero()).then_some(longest))
}

fn failures(tx: &Connection, guesser: &str) -> Result<Option<LoginFailures>, StoreError> {
    let find = "SELECT failures, last_at, blocked_until FROM login_failure WHERE hash = ?1";
    let mut find = tx.prepare_cached(find)?;
    let found = find.query_row([guesser], |row| {
        Ok(LoginFailures {
            count: row.get(0)?,
            last_at: Timestamp::from_ms(row.get(1)?),
            free_at: Timestamp::from_ms(row.get(2)?),
        })
    });
    Ok(found.optional()?)
}

fn put(tx: &Connection, guesser: &str, failures: LoginFailures) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT OR REPLACE INTO login_failure (hash, failures, last_at, blocked_until) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![
        guesser,
        failures.count,
        failures.last_at.as_ms(),
        failures.free_at.as_ms()
    ])?;
    Ok(())
}

/// Deletes the oldest rows beyond the limit.
fn make_room(tx: &Connection) -> Result<(), StoreError> {
    tx.prepare_cached(
        "DELETE FROM login_failure WHERE hash IN \
             (SELECT hash FROM login_failure ORDER BY last_at DESC LIMIT -1 OFFSET ?1)",
    )?
    .execute([LOGIN_FAILURES_MAX])?;
    Ok(())
}
