//! A database in memory that does everything on the caller's thread: for simulations, which it keeps
//! deterministic.
//!
//! It outlives the stores that are opened on it, as a file outlives the processes that open it, and it
//! can be filled up.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::base::Entropy;
use crate::store::engine::db::WriterConnection;
use crate::store::engine::encryption::{Encryption, MasterKeys};
use crate::store::engine::{db, migrate};
use crate::store::error::StoreError;

/// How many turns everybody else gets before the next question or change goes on: it stands in for the
/// threads of a real store.
pub type Pauses = Arc<dyn Fn() -> usize + Send + Sync>;

/// The database. Clones share it.
#[derive(Clone)]
pub struct InlineDatabase {
    writer_connection: Arc<Mutex<WriterConnection>>,
    pub(in crate::store) encryption: Encryption,
    pauses: Pauses,
}

impl InlineDatabase {
    /// An empty one that answers at once.
    pub fn new() -> Result<Self, StoreError> {
        Self::with_pauses(Arc::new(|| 0))
    }

    /// An empty one that lets others go first.
    pub fn with_pauses(pauses: Pauses) -> Result<Self, StoreError> {
        let mut connection = db::open_in_memory()?;
        migrate::migrate(&mut connection)?;
        Ok(Self {
            writer_connection: Arc::new(Mutex::new(WriterConnection::open(connection)?)),
            // Nobody but its own stores ever has to open it again.
            encryption: Encryption::new(&MasterKeys::generate(&Entropy::Os), Entropy::Os),
            pauses,
        })
    }

    /// Takes all room from it, or gives it back: a full one refuses whatever needs another page.
    pub fn set_full(&self, full: bool) -> Result<(), StoreError> {
        // SQLite takes a limit below the present size for that size, and caps one above its own.
        let pages_max = if full { 1 } else { u32::MAX - 1 };
        let writer_connection = self.writer_connection();
        Ok(writer_connection.connection().pragma_update_and_check(
            None,
            "max_page_count",
            pages_max,
            |row| row.get::<_, i64>(0).map(drop),
        )?)
    }

    /// Changes rows behind the store's back, as a broken disk would. Returns how many.
    #[cfg(test)]
    pub(crate) fn damage(&self, statement: &str) -> usize {
        let damaged = self.writer_connection().connection().execute(statement, []);
        damaged.expect("a statement")
    }

    pub(super) fn writer_connection(&self) -> MutexGuard<'_, WriterConnection> {
        self.writer_connection.lock().unwrap()
    }

    /// Lets others go first.
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
    fn a_full_database_refuses_what_needs_room_until_it_gets_some() {
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
