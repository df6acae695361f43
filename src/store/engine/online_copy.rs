//! Copies a snapshot of the database while the database is written to.
//!
//! One read transaction holds the snapshot for the whole copy. Without the transaction, every commit during the copy
//! would restart it. Neither the writer nor other readers wait for the copy. The write-ahead log cannot start over
//! during the copy, so the caller monitors the size of the log (see [`LogHold`](super::db::LogHold)).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::base::Stopwatch;
use crate::store::engine::db;
use crate::store::error::{BackupError, StoreError};

/// Number of pages in one step: 256 KiB. Each step is flushed before the next one, so that the flush of a commit on
/// the same disk waits for at most one step.
const STEP_PAGES: i32 = 16;

/// Ratio of a pause to the duration of the step before it, while the database is written to. With this ratio, a tenth
/// of the commits coincide with a step.
const PAUSE_FACTOR: u32 = 9;

/// Size of the log above which the copy makes no pauses, because the log grows until the copy is finished.
const LOG_BYTES_PACED: u64 = 1_024 * 1_024 * 1_024;

/// The progress of a copy, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    pub copied: u64,
    pub all: u64,
}

/// A callback that receives the progress after each step. An error from the callback ends the copy.
pub(in crate::store) type EachStep<'a> = &'a mut dyn FnMut(Pages) -> Result<(), BackupError>;

/// Copies the current state of the database `from` into the empty file `to`.
pub(in crate::store) fn copy_online(
    from: &Path,
    to: &Path,
    each_step: EachStep<'_>,
) -> Result<(), BackupError> {
    let source = db::open_reader(from)?;
    let snapshot = source.unchecked_transaction()?;
    // The snapshot begins with the first read of the transaction.
    snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let copied = copy_snapshot(&snapshot, to, Pace::beside(from), each_step);
    drop(snapshot);
    // Checkpoints the commits that were made during the copy here instead of in the writer, for which publishers wait.
    let _ = source.execute_batch("PRAGMA wal_checkpoint(PASSIVE);");
    copied
}

fn copy_snapshot(
    snapshot: &Connection,
    to: &Path,
    mut pace: Pace,
    each_step: EachStep<'_>,
) -> Result<(), BackupError> {
    // This file handle is declared before the connection and so closed after it: closing the handle first would
    // release the locks of the connection.
    let written = File::open(to).map_err(|error| BackupError::at(to, error))?;
    let mut copy = Connection::open(to)?;
    // The copy needs no journal, because an unfinished copy is deleted. Each step flushes the file explicitly.
    copy.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -1024;",
    )?;
    let backup = Backup::new(snapshot, &mut copy)?;
    loop {
        let stopwatch = Stopwatch::begin();
        let step = backup.step(STEP_PAGES)?;
        written
            .sync_data()
            .map_err(|error| BackupError::at(to, error))?;
        let progress = backup.progress();
        let count = |pages: i32| u64::try_from(pages).unwrap_or_default();
        each_step(Pages {
            copied: count(progress.pagecount - progress.remaining),
            all: count(progress.pagecount),
        })?;
        if step == StepResult::Done {
            return Ok(());
        }
        if step != StepResult::More {
            return Err(StoreError::Locked.into());
        }
        thread::sleep(pace.pause_after(stopwatch.took()));
    }
}

/// Computes pauses between the steps, which leave the disk to the writer while the database is written to.
struct Pace {
    /// The write-ahead log of the database. Every commit changes its modification time.
    log: PathBuf,
    written_at: Option<SystemTime>,
}

impl Pace {
    fn beside(database: &Path) -> Self {
        Self {
            log: db::log_of(database),
            written_at: None,
        }
    }

    fn pause_after(&mut self, step: Duration) -> Duration {
        let log = fs::metadata(&self.log).ok();
        let log_bytes = log.as_ref().map_or(0, fs::Metadata::len);
        let written_at = log.and_then(|log| log.modified().ok());
        let is_written_to = written_at != self.written_at;
        self.written_at = written_at;
        if is_written_to && log_bytes <= LOG_BYTES_PACED {
            step * PAUSE_FACTOR
        } else {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::migrate;

    const ROWS: i64 = 400;

    /// A database of some mebibytes.
    fn filled(path: &Path) -> Connection {
        migrate::migrate_file(path, &|_| {}).expect("a schema");
        let writer = db::open_writer(path).expect("a database");
        let fill = "CREATE TABLE t (n INTEGER, filler TEXT) STRICT;
            WITH RECURSIVE n (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 400)
            INSERT INTO t SELECT n, printf('%016000d', n) FROM n;";
        writer.execute_batch(fill).expect("rows");
        writer
    }

    fn rows(path: &Path) -> (i64, i64) {
        let copy = Connection::open(path).expect("the copy");
        let rows = "SELECT count(*), max(n) FROM t";
        let rows = copy.query_row(rows, [], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.expect("a count")
    }

    #[test]
    fn what_is_written_meanwhile_is_not_in_the_copy_and_does_not_hold_it_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("from.db"), dir.path().join("to.db"));
        let writer = filled(&from);
        migrate::make_private(&to).expect("a file");
        let mut steps = Vec::new();
        let copied = copy_online(&from, &to, &mut |pages| {
            steps.push(pages);
            let number = i64::try_from(steps.len()).expect("a number");
            writer.execute("INSERT INTO t VALUES (?1, '')", [ROWS + number])?;
            writer.execute("DELETE FROM t WHERE n = ?1", [number])?;
            Ok(())
        });
        copied.expect("a copy");
        assert!(steps.len() > 3, "in steps: {steps:?}");
        assert!(steps.is_sorted_by_key(|pages| pages.copied), "{steps:?}");
        let last = steps.last().expect("a step");
        assert_eq!(last.copied, last.all);
        assert_eq!(rows(&to), (ROWS, ROWS));
    }

    #[test]
    fn it_pauses_while_others_write_and_the_log_is_short() {
        let dir = tempfile::tempdir().expect("a directory");
        let database = dir.path().join("from.db");
        let (mut pace, step) = (Pace::beside(&database), Duration::from_millis(1));
        assert_eq!(pace.pause_after(step), Duration::ZERO, "there is no log");
        let log = File::create(db::log_of(&database)).expect("a log");
        assert_eq!(pace.pause_after(step), step * PAUSE_FACTOR);
        assert_eq!(pace.pause_after(step), Duration::ZERO, "nobody wrote");
        let write = |at: u64, bytes: u64| {
            log.set_len(bytes).expect("a length");
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(at);
            log.set_modified(at).expect("a time");
        };
        write(1, LOG_BYTES_PACED);
        assert_eq!(pace.pause_after(step), step * PAUSE_FACTOR);
        write(2, LOG_BYTES_PACED + 1);
        assert_eq!(pace.pause_after(step), Duration::ZERO);
    }

    #[test]
    fn a_step_can_end_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("from.db"), dir.path().join("to.db"));
        let _writer = filled(&from);
        migrate::make_private(&to).expect("a file");
        let ended = BackupError::from(StoreError::Closed);
        let copied = copy_online(&from, &to, &mut |_| Err(ended.clone()));
        assert_eq!(copied, Err(ended));
    }
}
