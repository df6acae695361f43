//! Housekeeping: what has outlived its use goes, in small bites, so that no commit takes long.

use std::sync::Arc;

use crate::base::Timestamp;
use crate::store::engine::data_dir::DataDir;
use crate::store::engine::db::Db;
use crate::store::engine::migrate::schema_version;
use crate::store::engine::write_times::{CommitTimes, Longest};
use crate::store::error::StoreError;

/// The book of housekeeping.
#[derive(Clone)]
pub struct Upkeep {
    pub(in crate::store) db: Db,
    /// `None` for a store in memory.
    pub(in crate::store) data_dir: Option<Arc<DataDir>>,
}

/// What the store works with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStatus {
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

/// How large the database is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// The file, once its log has been written back.
    pub file: u64,
    /// What of it holds nothing.
    pub free: u64,
    /// One page, the least by which the file gets smaller.
    pub page: u64,
    /// The write-ahead log.
    pub log: u64,
    /// Free on the disk; `None` where that cannot be told, or does not matter.
    pub disk_free: Option<u64>,
}

impl Sizes {
    /// What of the file holds something.
    pub fn used(&self) -> u64 {
        self.file.saturating_sub(self.free)
    }
}

impl Upkeep {
    /// What the store works with, and how busy that is.
    pub fn engine_status(&self) -> EngineStatus {
        self.db.engine_status()
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

    /// How large the database is.
    pub async fn sizes(&self) -> Result<Sizes, StoreError> {
        let (pages, free, page) = self
            .db
            .read(|tx| {
                let number = |pragma: &str| -> rusqlite::Result<u64> {
                    let value = tx.query_row(pragma, [], |row| row.get::<_, i64>(0))?;
                    Ok(value.unsigned_abs())
                };
                Ok((
                    number("PRAGMA page_count")?,
                    number("PRAGMA freelist_count")?,
                    number("PRAGMA page_size")?,
                ))
            })
            .await?;
        Ok(Sizes {
            file: pages * page,
            free: free * page,
            page,
            log: self.db.log_bytes(),
            disk_free: self.free_bytes(),
        })
    }

    /// Gives up to `pages` pages that hold nothing back to the file system, which sees them gone once the
    /// log has been written back.
    pub async fn shrink(&self, pages: u64) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                let mut shrink = tx.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
                let mut steps = shrink.query([])?;
                while steps.next()?.is_some() {} // a page at a time
                Ok(())
            })
            .await
    }

    /// Writes the log back and cuts it off, so that the file system sees what has become free.
    pub async fn cut_log(&self) -> Result<(), StoreError> {
        self.db.cut_log().await
    }
}
