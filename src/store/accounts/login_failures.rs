//! Failed logins, stored so that a crash or an update of the program does not reset the delays.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use crate::base::Timestamp;
use crate::model::login_failures::LoginFailures;
use crate::store::accounts::Accounts;
use crate::store::error::StoreError;

/// Maximum number of accounts and networks with stored login failures; the oldest failures are deleted first.
const LOGIN_FAILURES_MAX: i64 = 10_000;

/// Maximum number of stored networks from which somebody signed in; the least recently used are deleted first.
const KNOWN_NETWORKS_MAX: i64 = 10_000;

/// The account and networks for which failures of a login attempt are counted. All values are hashes, since people
/// sometimes type their password into the name field.
#[derive(Clone, Debug, Default)]
pub struct Guessers {
    /// The account of the attempt; `None` if the attempt names no user, such as with a link.
    pub account: Option<String>,
    /// The account together with the network of the attempt. After a sign-in to the account from the network, only
    /// failures of this pair cause a wait; failures of the account elsewhere or of the network do not.
    pub account_there: Option<String>,
    /// The networks of the attempt.
    pub networks: Vec<String>,
}

/// The account and networks to which an attempt adds failures, and whose failures make it wait.
struct FailureKeys<'a> {
    account: Option<&'a String>,
    networks: &'a [String],
    waits_for_networks: bool,
}

impl Guessers {
    /// Returns whether somebody has signed in to the account from the network of the attempt.
    fn is_known(&self, tx: &Connection) -> Result<bool, StoreError> {
        let Some(there) = &self.account_there else {
            return Ok(false);
        };
        let mut find = tx.prepare_cached("SELECT 1 FROM known_network WHERE hash = ?1")?;
        Ok(find.exists([there])?)
    }

    fn counted(&self, tx: &Connection) -> Result<FailureKeys<'_>, StoreError> {
        let is_known = self.is_known(tx)?;
        Ok(FailureKeys {
            account: if is_known {
                self.account_there.as_ref()
            } else {
                self.account.as_ref()
            },
            networks: &self.networks,
            waits_for_networks: !is_known,
        })
    }
}

impl Accounts {
    /// Returns how long the next login attempt has to wait; `None` if it may be made now.
    pub async fn login_wait(
        &self,
        guessers: Guessers,
        now: Timestamp,
    ) -> Result<Option<Duration>, StoreError> {
        self.db
            .read(move |tx| wait(tx, &guessers.counted(tx)?, now))
            .await
    }

    /// Returns whether somebody has recently signed in to the account from the network of the attempt.
    pub async fn is_known_there(&self, guessers: Guessers) -> Result<bool, StoreError> {
        self.db.read(move |tx| guessers.is_known(tx)).await
    }

    /// Counts a login attempt as failed until [`Accounts::clear_login_failures`] is called, or returns how long the
    /// attempt has to wait.
    pub async fn begin_login_attempt(
        &self,
        guessers: Guessers,
        now: Timestamp,
    ) -> Result<Option<Duration>, StoreError> {
        // A client that has to wait causes no write.
        if let Some(wait) = self.login_wait(guessers.clone(), now).await? {
            return Ok(Some(wait));
        }
        self.db
            .write(move |tx| {
                let counted = guessers.counted(tx)?;
                let waits = wait(tx, &counted, now)?;
                if waits.is_none() {
                    for guesser in counted.account.into_iter().chain(counted.networks) {
                        let before = failures(tx, guesser)?.unwrap_or(LoginFailures::none(now));
                        put(tx, guesser, before.one_more(now))?;
                    }
                    make_room(tx)?;
                }
                Ok(waits)
            })
            .await
    }

    /// Removes the failure that [`Accounts::begin_login_attempt`] counted: failures of the account are reset to zero,
    /// and each network loses one failure. Also stores that somebody signed in to the account from the network.
    pub async fn clear_login_failures(
        &self,
        guessers: Guessers,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                let counted = guessers.counted(tx)?;
                if let Some(account) = counted.account {
                    tx.prepare_cached("DELETE FROM login_failure WHERE hash = ?1")?
                        .execute([account])?;
                }
                for guesser in counted.networks {
                    if let Some(failures) = failures(tx, guesser)? {
                        put(tx, guesser, failures.one_fewer())?;
                    }
                }
                if let Some(there) = &guessers.account_there {
                    note_network(tx, there, now)?;
                }
                Ok(())
            })
            .await
    }

    /// Deletes the networks from which nobody has signed in since `cutoff`.
    pub async fn delete_known_networks(&self, cutoff: Timestamp) -> Result<usize, StoreError> {
        self.db
            .write(move |tx| {
                let forget = "DELETE FROM known_network WHERE used_at <= ?1";
                Ok(tx.prepare_cached(forget)?.execute([cutoff.as_ms()])?)
            })
            .await
    }

    /// Deletes the failures of accounts and networks without a failure since `cutoff`.
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
    counted: &FailureKeys<'_>,
    now: Timestamp,
) -> Result<Option<Duration>, StoreError> {
    let networks = counted
        .networks
        .iter()
        .filter(|_| counted.waits_for_networks);
    let mut longest = Duration::ZERO;
    for guesser in counted.account.into_iter().chain(networks) {
        if let Some(failures) = failures(tx, guesser)? {
            longest = longest.max(failures.free_at.since(now));
        }
    }
    Ok((!longest.is_zero()).then_some(longest))
}

fn note_network(tx: &Connection, there: &str, now: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached("INSERT OR REPLACE INTO known_network (hash, used_at) VALUES (?1, ?2)")?
        .execute(params![there, now.as_ms()])?;
    tx.prepare_cached(
        "DELETE FROM known_network WHERE hash IN \
             (SELECT hash FROM known_network ORDER BY used_at DESC LIMIT -1 OFFSET ?1)",
    )?
    .execute([KNOWN_NETWORKS_MAX])?;
    Ok(())
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
