//! Answers questions about the database as a file: its size, its schema, how busy it is, and whether it can be written.

use std::sync::Arc;

use crate::base::Timestamp;
use crate::store::engine::data_dir::DataDir;
use crate::store::engine::db::Db;
use crate::store::engine::migrate::schema_version;
use crate::store::engine::write_times::{CommitTimes, Longest};
use crate::store::error::StoreError;

/// Access to the database as a file: its size, schema, load and maintenance.
#[derive(Clone)]
pub struct Upkeep {
    pub(in crate::store) db: Db,
    /// `None` for a store in memory.
    pub(in crate::store) data_dir: Option<Arc<DataDir>>,
    pub(in crate::store) found_at_start: Arc<[String]>,
}

/// How busy the database is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStatus {
    /// Number of reader threads.
    pub readers: usize,
    /// Number of changes that wait for the writer. `changes_max` is the maximum.
    pub changes_waiting: usize,
    pub changes_max: usize,
    pub commit_times: CommitTimes,
    /// Time of the last checkpoint.
    pub checkpointed_at: Option<Timestamp>,
}

/// The schema of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseSchema {
    pub version: i64,
    /// The statements that create its tables, indexes and triggers.
    pub statements: Vec<String>,
}

/// The size of the database, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Size of the database file after a checkpoint.
    pub file: u64,
    /// The bytes of the file that are in free pages.
    pub free: u64,
    /// Size of one page, the unit by which the file shrinks.
    pub page: u64,
    /// Size of the write-ahead log.
    pub log: u64,
    /// Free space on the disk; `None` for a store in memory, or if the free space is unknown.
    pub disk_free: Option<u64>,
}

impl Sizes {
    /// Returns the number of bytes of the file that are not in free pages.
    pub fn used(&self) -> u64 {
        self.file.saturating_sub(self.free)
    }
}

impl Upkeep {
    /// Returns the data directory of the database. Fails if the database is in memory.
    pub(in crate::store) fn data_dir(&self) -> Result<Arc<DataDir>, StoreError> {
        let data_dir = self.data_dir.clone();
        data_dir.ok_or_else(|| StoreError::Other("the database is in memory".to_owned()))
    }

    /// Returns the damage and the losses that were found when the database was opened, and what was done about them, a
    /// sentence each.
    pub fn found_at_start(&self) -> &[String] {
        &self.found_at_start
    }

    /// Returns the load of the database.
    pub fn engine_status(&self) -> EngineStatus {
        self.db.engine_status()
    }

    /// Returns the schema of the database: its version and the SQL statements that make it.
    pub async fn schema(&self) -> Result<DatabaseSchema, StoreError> {
        self.db
            .read(|tx| {
                let statements =
                    "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid";
                let mut statements = tx.prepare(statements)?;
                let texts = statements.query_map([], |row| row.get(0))?;
                Ok(DatabaseSchema {
                    version: schema_version(tx)?,
                    statements: texts.collect::<Result<_, _>>()?,
                })
            })
            .await
    }

    /// Returns the free bytes on the disk, `None` for a store in memory or if the number is unknown.
    pub fn free_bytes(&self) -> Option<u64> {
        self.data_dir.as_ref()?.free_bytes().ok()
    }

    /// Reports whether the disk space reserved for checkpoints and retention is in use, because the disk was full.
    pub fn is_out_of_reserve(&self) -> bool {
        self.db.is_out_of_reserve()
    }

    /// Returns the durations of the longest change and the longest commit since the last call.
    pub fn take_longest(&self) -> Longest {
        self.db.take_longest()
    }

    /// Checks that the database and the disk can be written.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        self.db
            .write(|tx| {
                // An update of no rows takes the write lock and ends in a commit.
                tx.execute("UPDATE user SET role = role WHERE id = -1", [])?;
                Ok(())
            })
            .await
    }

    /// Returns the size of the database.
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

    /// Returns up to `pages` free pages to the file system, which sees them after the next checkpoint.
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

    /// Checkpoints and truncates the log, so that freed pages are returned to the file system.
    pub async fn cut_log(&self) -> Result<(), StoreError> {
        self.db.cut_log().await
    }
}
