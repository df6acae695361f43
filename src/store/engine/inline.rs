//! An in-memory database that runs everything on the caller's thread, for deterministic simulations.
//!
//! The database outlives the stores that are opened on it, like a file outlives processes. It can simulate a full
//! disk.

use std::cell::Cell;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use rusqlite::backup::Backup;
use rusqlite::trace::{TraceEvent, TraceEventCodes};

use crate::base::{Entropy, Timestamp};
use crate::store::engine::db::WriterConnection;
use crate::store::engine::encryption::{Encryption, MasterKeys};
use crate::store::engine::{db, migrate};
use crate::store::error::StoreError;

thread_local! {
    static STATEMENTS: Cell<u64> = const { Cell::new(0) };
}

/// Returns how often the next read or change yields to other tasks before it runs. The yields simulate the threads of
/// a real store.
pub type Pauses = Arc<dyn Fn() -> usize + Send + Sync>;

/// The argument of a step of SQLite's backup that copies everything.
const ALL_PAGES: std::ffi::c_int = -1;

/// Time since which repeated requests are recognized: the same for every opening of the database.
const SINCE: Timestamp = Timestamp::from_ms(0);

/// A handle of the in-memory database. All clones use one database.
#[derive(Clone)]
pub struct InlineDatabase {
    writer_connection: Arc<Mutex<WriterConnection>>,
    pub(in crate::store) encryption: Encryption,
    pauses: Pauses,
}

/// Returns a new database with the current schema. It is copied, because a test makes thousands of databases, and a
/// copy takes a fraction of the time of the migrations.
fn open_migrated() -> Result<Connection, StoreError> {
    static MIGRATED: LazyLock<Result<Mutex<Connection>, String>> = LazyLock::new(|| {
        let migrated = db::open_in_memory().and_then(|mut connection| {
            migrate::migrate(&mut connection)?;
            Ok(Mutex::new(connection))
        });
        migrated.map_err(|error| error.to_string())
    });
    let source = MIGRATED
        .as_ref()
        .map_err(|error| StoreError::Other(error.clone()))?;
    let locked = source.lock().unwrap_or_else(PoisonError::into_inner);
    let mut connection = db::open_in_memory()?;
    Backup::new(&locked, &mut connection)?.step(ALL_PAGES)?;
    Ok(connection)
}

impl InlineDatabase {
    /// Creates an empty database whose reads and changes do not yield to other tasks.
    pub fn new() -> Result<Self, StoreError> {
        Self::with_pauses(Arc::new(|| 0))
    }

    /// Creates an empty database whose reads and changes first yield to other tasks.
    pub fn with_pauses(pauses: Pauses) -> Result<Self, StoreError> {
        let connection = open_migrated()?;
        Ok(Self {
            writer_connection: Arc::new(Mutex::new(WriterConnection::new(connection, SINCE))),
            // A generated key suffices: only stores on this database decrypt its secrets.
            encryption: Encryption::new(&MasterKeys::generate(&Entropy::Os), Entropy::Os),
            pauses,
        })
    }

    /// Reloads the in-memory state of the writer from the database, like a new process.
    pub(in crate::store) fn open(&self) {
        self.writer_connection().load(SINCE);
    }

    /// Simulates a full disk, or ends the simulation. On a full disk, every change that needs a new page fails.
    pub fn set_full(&self, full: bool) -> Result<(), StoreError> {
        // SQLite raises a limit below the current size to the current size, and lowers a limit above its own maximum
        // to the maximum.
        let pages_max = if full { 1 } else { u32::MAX - 1 };
        let writer_connection = self.writer_connection();
        Ok(writer_connection.connection().pragma_update_and_check(
            None,
            "max_page_count",
            pages_max,
            |row| row.get::<_, i64>(0).map(drop),
        )?)
    }

    /// Starts to count the statements that run on this database.
    pub fn count_statements(&self) -> Result<(), StoreError> {
        let count = |_: TraceEvent<'_>| STATEMENTS.set(STATEMENTS.get() + 1);
        let mut writer_connection = self.writer_connection();
        let connection = writer_connection.connection_mut();
        Ok(connection.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(count))?)
    }

    /// Returns the number of counted statements that have run on this thread, including statements of triggers.
    pub fn statements() -> u64 {
        STATEMENTS.get()
    }

    /// Has every entry of the audit log fail, or not any more.
    #[cfg(test)]
    pub(crate) fn reject_audit(&self, reject: bool) {
        self.damage(if reject {
            "CREATE TRIGGER no_audit BEFORE INSERT ON audit \
             BEGIN SELECT RAISE(ABORT, 'no entry can be written'); END"
        } else {
            "DROP TRIGGER no_audit"
        });
    }

    /// Changes rows behind the store's back, as a broken disk would. Returns how many.
    #[cfg(test)]
    pub(crate) fn damage(&self, statement: &str) -> usize {
        let damaged = self.writer_connection().connection().execute(statement, []);
        damaged.expect("a statement")
    }

    /// Every row of every table, to see whether something has changed.
    #[cfg(test)]
    pub(crate) fn rows(&self) -> Vec<String> {
        let writer_connection = self.writer_connection();
        let connection = writer_connection.connection();
        let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
        let mut tables = connection.prepare(tables).expect("tables");
        let names = tables.query_map([], |row| row.get(0)).expect("tables");
        let tables: Vec<String> = names.map(|name| name.expect("a name")).collect();
        let mut rows = Vec::new();
        for table in tables {
            let mut all = connection
                .prepare(&format!("SELECT * FROM {table}"))
                .expect("rows");
            let columns = all.column_count();
            let row = |row: &rusqlite::Row<'_>| {
                let values =
                    (0..columns).map(|column| row.get_ref(column).map(|v| format!("{v:?}")));
                values.collect::<Result<Vec<_>, _>>()
            };
            let read = all.query_map([], row).expect("rows");
            rows.extend(read.map(|row| format!("{table} {:?}", row.expect("a row"))));
        }
        rows
    }

    pub(super) fn writer_connection(&self) -> MutexGuard<'_, WriterConnection> {
        self.writer_connection.lock().unwrap()
    }

    /// Yields to other tasks as often as `pauses` says.
    pub(super) async fn pause(&self) {
        for _ in 0..(self.pauses)() {
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_database_rejects_what_needs_room_until_it_gets_some() {
        let database = InlineDatabase::new().expect("a database");
        let write = || {
            database.writer_connection().connection().execute(
                "INSERT INTO session (id, record, started_at, used_at, expires_at) VALUES (hex(randomblob(9)), ?1, 0, 0, 0)",
                ["x".repeat(100_000)],
            )
        };
        database.set_full(true).expect("a limit");
        assert_eq!(write().map_err(StoreError::from), Err(StoreError::Full));
        database.set_full(false).expect("no limit");
        assert_eq!(write(), Ok(1));
    }
}
