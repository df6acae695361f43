//! Housekeeping: what has outlived its use goes, in small bites, so that no commit takes long.

use std::sync::Arc;

use rusqlite::params;

use crate::base::Timestamp;
use crate::store::data_dir::DataDir;
use crate::store::db::Db;
use crate::store::error::StoreError;
use crate::store::migrate::schema_version;
use crate::store::write_times::{CommitTimes, Longest};

/// The book of housekeeping.
#[derive(Clone)]
pub struct Upkeep {
    pub(super) db: Db,
    /// `None` for a store in memory.
    pub(super) data_dir: Option<Arc<DataDir>>,
}

/// What the store works with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machinery {
    /// Threads that read, beside the one that writes.
    pub readers: usize,
    /// Changes that wait to be written, and how many may.
    pub changes_waiting: usize,
    pub changes_max: usize,
    pub commit_times: CommitTimes,
    /// When the write-ahead log was last written back to the file: nothing else writes to that.
    pub checkpointed_at: Option<Timestamp>,
}

/// What the database is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    pub version: i64,
    /// What made its tables and indexes.
    pub statements: Vec<String>,
}

impl Upkeep {
    /// What the store works with, and how busy that is.
    pub fn machinery(&self) -> Machinery {
        self.db.machinery()
    }

    /// What the database is made of.
    pub async fn schema(&self) -> Result<Schema, StoreError> {
        self.db
            .read(|tx| {
                let statements =
                    "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid";
                let mut statements = tx.prepare(statements)?;
                let statements = statements.query_map([], |row| row.get(0))?;
                Ok(Schema {
                    version: schema_version(tx)?,
                    statements: statements.collect::<Result<_, _>>()?,
                })
            })
            .await
    }

    /// Bytes that are free for the store; `None` where that cannot be told, or does not matter.
    pub fn free_bytes(&self) -> Option<u64> {
        self.data_dir.as_ref()?.free_bytes().ok()
    }

    /// What kept the writer longest since this was asked last.
    pub fn take_longest(&self) -> Longest {
        self.db.take_longest()
    }

    /// Deletes up to `limit` marks of publish requests from before `since`. Returns how many there were.
    pub async fn forget_requests(
        &self,
        since: Timestamp,
        limit: usize,
    ) -> Result<usize, StoreError> {
        self.db
            .write(move |tx| {
                let forget = "DELETE FROM publish_request WHERE fingerprint IN \
                     (SELECT fingerprint FROM publish_request WHERE received_at < ?1 LIMIT ?2)";
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                Ok(tx
                    .prepare_cached(forget)?
                    .execute(params![since.as_ms(), limit])?)
            })
            .await
    }

    /// Deletes the sessions that have expired.
    pub async fn forget_sessions(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.db
            .write(move |tx| {
                let forget = "DELETE FROM session WHERE expires_at <= ?1";
                Ok(tx.prepare_cached(forget)?.execute([now.as_ms()])?)
            })
            .await
    }

    /// Forgets guessers who have not failed since `cutoff`.
    pub async fn forget_guessers(&self, cutoff: Timestamp) -> Result<usize, StoreError> {
        self.db
            .write(move |tx| {
                let forget = "DELETE FROM guesser WHERE last_at <= ?1";
                Ok(tx.prepare_cached(forget)?.execute([cutoff.as_ms()])?)
            })
            .await
    }

    /// Proves that the database can be written and that the disk takes it.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        self.db
            .write(|tx| {
                // An update of nothing takes the write lock and ends in a commit.
                tx.execute("UPDATE user SET role = role WHERE id = -1", [])?;
                Ok(())
            })
            .await
    }
}
