//! Answers questions about the database as a file: its size, its schema, how busy it is, and whether it can be written.

use std::sync::Arc;

use crate::base::Timestamp;
use crate::store::engine::data_dir::DataDir;
use crate::store::engine::db::Db;
use crate::store::engine::migrate::schema_version;
use crate::store::engine::write_times::{CommitTimes, Longest};
use crate::store::error::StoreError;

/// The database as a file.
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
    /// Threads that read.
    pub readers: usize,
    /// Changes that wait for the writer, and how many may.
    pub changes_waiting: usize,
    pub changes_max: usize,
    pub commit_times: CommitTimes,
    /// The last checkpoint.
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
    /// The file after a checkpoint.
    pub file: u64,
    /// The bytes of the file that are in free pages.
    pub free: u64,
    /// One page, the unit by which the file shrinks.
    pub page: u64,
    /// The write-ahead log.
    pub log: u64,
    /// Free on the disk; `None` for a store in memory, or if it is unknown.
    pub disk_free: Option<u64>,
}

impl Sizes {
    /// Bytes of the file that are not free.
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

    /// How busy the database is.
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

    /// Free bytes on the disk; `None` for a store in memory, or if they are unknown.
    pub fn free_bytes(&self) -> Option<u64> {
        self.data_dir.as_ref()?.free_bytes().ok()
    }

    /// Says whether the room that is held back for checkpoints and retention is in use, because the disk was full.
    pub fn is_out_of_reserve(&self) -> bool {
        self.db.is_out_of_reserve()
    }

    /// The longest change and commit since the last call.
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

    /// Checkpoints and truncates the log, so that the file system sees what has become free.
    pub async fn cut_log(&self) -> Result<(), StoreError> {
        self.db.cut_log().await
    }
}
