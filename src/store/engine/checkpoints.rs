//! Checkpoints: copies committed pages from the write-ahead log into the database file on a separate thread, so that no
//! commit waits. (SQLite versions that cannot do so safely are rejected at startup.)

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;

use crate::store::engine::db::open_reader;
use crate::store::engine::fatal::FatalHandler;
use crate::store::error::StoreError;

/// Pause between two checkpoints.
const PAUSE: Duration = Duration::from_millis(100);

/// Minimum number of pages for a checkpoint. A page that changes often is then copied once for many commits.
const PAGES_MIN: u64 = 256;

/// The checkpoint thread, which ends when the value is dropped.
pub(super) struct Checkpointer {
    shared: Arc<SharedCheckpoints>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct SharedCheckpoints {
    asked: Mutex<CheckpointRequests>,
    changed: Condvar,
    /// Pages in the log at the last checkpoint; 0 after the writer has read the number.
    pages: AtomicU64,
    /// Held during a checkpoint, since only one can run at a time.
    copying: Mutex<()>,
}

#[derive(Default)]
struct CheckpointRequests {
    has_commits: bool,
    is_over: bool,
}

impl Checkpointer {
    pub(super) fn begin(path: &Path, fatal_handler: Arc<FatalHandler>) -> Result<Self, StoreError> {
        let connection = open_reader(path)?;
        let shared = Arc::new(SharedCheckpoints::default());
        let copying = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("store-checkpoints".to_owned())
            .spawn(move || copying.run(&connection, &fatal_handler))
            .map_err(|cause| StoreError::Other(format!("cannot start the checkpoints: {cause}")))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Notifies the thread of a commit.
    pub(super) fn committed(&self) {
        let mut asked = self.shared.asked.lock().unwrap();
        if !asked.has_commits {
            asked.has_commits = true;
            self.shared.changed.notify_one();
        }
    }

    /// Returns the pages in the log at the last checkpoint; 0 without a checkpoint since the last call.
    pub(super) fn copied(&self) -> u64 {
        self.shared.pages.swap(0, Ordering::Relaxed)
    }

    /// Waits for a running checkpoint to end, and prevents another while the guard is held.
    pub(super) fn pause(&self) -> MutexGuard<'_, ()> {
        self.shared.copying.lock().unwrap()
    }

    /// Ends the thread.
    pub(super) fn end(&mut self) {
        self.shared.asked.lock().unwrap().is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.end();
    }
}

impl SharedCheckpoints {
    fn run(&self, connection: &Connection, fatal_handler: &FatalHandler) {
        let mut asked = self.asked.lock().unwrap();
        loop {
            let idle = |asked: &mut CheckpointRequests| !asked.has_commits && !asked.is_over;
            asked = self.changed.wait_while(asked, idle).unwrap();
            if asked.is_over {
                return;
            }
            asked.has_commits = false;
            drop(asked);
            if let Err(error) = self.copy(connection) {
                fatal_handler.handle(&error);
            }
            asked = self.asked.lock().unwrap();
            let rest = self
                .changed
                .wait_timeout_while(asked, PAUSE, |asked| !asked.is_over);
            (asked, _) = rest.unwrap();
        }
    }

    fn copy(&self, connection: &Connection) -> Result<(), StoreError> {
        let _one_at_a_time = self.copying.lock().unwrap();
        let (pages, copied) = checkpoint(connection, "PRAGMA wal_checkpoint(NOOP)")?;
        if pages.saturating_sub(copied) >= PAGES_MIN {
            let (pages, _) = checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)")?;
            self.pages.store(pages, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Runs a checkpoint pragma. Returns the pages in the log, and how many of them are in the database file.
fn checkpoint(connection: &Connection, pragma: &str) -> Result<(u64, u64), StoreError> {
    let found = |column: i64| u64::try_from(column).unwrap_or(0); // -1 without a log
    Ok(connection.query_row(pragma, [], |row| {
        Ok((found(row.get(1)?), found(row.get(2)?)))
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::db::{PAGE_BYTES, open_writer};

    fn pages_to_copy(connection: &Connection) -> u64 {
        let (pages, copied) =
            checkpoint(connection, "PRAGMA wal_checkpoint(NOOP)").expect("the log");
        pages - copied
    }

    /// A database with a row of so many pages, whose log nobody but the checkpointer copies.
    fn database_with(pages: u64) -> (tempfile::TempDir, Connection, Checkpointer) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("everpost.db");
        let writer = open_writer(&path).expect("a database");
        let set = writer.pragma_update(None, "wal_autocheckpoint", 0);
        set.expect("no checkpoints by itself");
        writer.execute_batch("CREATE TABLE t (x)").expect("a table");
        write(&writer, pages);
        let fatal_handler = Arc::new(FatalHandler::new(Box::new(|error| panic!("{error}"))));
        let checkpointer = Checkpointer::begin(&path, fatal_handler).expect("a thread");
        (dir, writer, checkpointer)
    }

    fn write(writer: &Connection, pages: u64) {
        let written = writer.execute(
            "INSERT INTO t VALUES (zeroblob(?1))",
            [pages * u64::from(PAGE_BYTES)],
        );
        written.expect("a long row");
    }

    #[test]
    fn a_long_log_is_copied_and_a_short_one_is_left() {
        let (_dir, writer, checkpointer) = database_with(0);
        let few = pages_to_copy(&writer);
        assert!(few > 0);
        checkpointer.shared.copy(&writer).expect("no copy");
        assert_eq!((pages_to_copy(&writer), checkpointer.copied()), (few, 0));

        write(&writer, 2 * PAGES_MIN);
        checkpointer.shared.copy(&writer).expect("a copy");
        assert_eq!(pages_to_copy(&writer), 0);
        assert!(checkpointer.copied() >= 2 * PAGES_MIN);
        assert_eq!(checkpointer.copied(), 0, "it was told");
    }

    #[test]
    fn a_commit_is_enough_to_have_it_copied() {
        let (_dir, writer, checkpointer) = database_with(2 * PAGES_MIN);
        checkpointer.committed();
        while checkpointer.copied() == 0 {
            thread::yield_now();
        }
        assert_eq!(pages_to_copy(&writer), 0);
    }
}
