//! The integrity check of the database file.

use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::base::{Clock, Timestamp};
use crate::store::FILE;
use crate::store::engine::indexes::{Index, RowSpan, SpanSteps};
use crate::store::engine::repair::repair;
use crate::store::engine::upkeep::Upkeep;
use crate::store::engine::{checksum, db};
use crate::store::error::StoreError;

/// Maximum number of reported faults. A damaged file has either few faults or thousands.
const FAULTS_MAX: usize = 20;

/// The result of an integrity check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Integrity {
    /// Number of tables that were checked, each with its indexes. `tables` is the number of tables in the database.
    pub checked: usize,
    pub tables: usize,
    /// Descriptions of the damage. They name tables and rows, but contain no values.
    pub faults: Vec<String>,
    /// Descriptions of the damage that was repaired.
    pub repaired: Vec<String>,
    /// True if at least one index differs from its table and needs repair.
    differs: bool,
}

impl Integrity {
    /// Reports whether all tables were checked. The time limit or the maximum number of faults may end a check early.
    pub fn is_complete(&self) -> bool {
        self.checked == self.tables
    }
}

impl Upkeep {
    /// Checks the tables one by one on a separate connection, until `within` has passed. Reads each table in its own
    /// snapshot, so that SQLite can reset the write-ahead log between two tables. Blocks neither the writer nor other
    /// readers. Calls `progress` with the findings after each table.
    pub async fn check_integrity(
        &self,
        clock: Clock,
        within: Duration,
        progress: impl Fn(&Integrity) + Send + 'static,
    ) -> Result<Integrity, StoreError> {
        let ends_at = clock.now() + within;
        let Some(data_dir) = &self.data_dir else {
            let look = move |tx: &_| look(tx, &clock, ends_at, &progress);
            return self.db.read(look).await;
        };
        let path = data_dir.file(FILE);
        let (sender, received) = oneshot::channel();
        let check = move || {
            let opened = db::open_watched(&path, clock.clone(), ends_at);
            let checked = opened.and_then(|connection| {
                let mut found = look(&connection, &clock, ends_at, &progress)?;
                if found.differs {
                    (found.repaired, _) = repair(&path, &|| clock.now() > ends_at)?;
                }
                Ok(found)
            });
            drop(sender.send(checked)); // nobody may wait for it any more
        };
        thread::Builder::new()
            .name("store-check".to_owned())
            .spawn(check)
            .map_err(|cause| StoreError::Other(format!("cannot start the check: {cause}")))?;
        received.await.map_err(|_| StoreError::Closed)?
    }
}

fn look(
    connection: &Connection,
    clock: &Clock,
    ends_at: Timestamp,
    progress: &dyn Fn(&Integrity),
) -> Result<Integrity, StoreError> {
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut tables = connection.prepare(tables)?;
    let tables: Vec<String> = tables
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut found = Integrity {
        tables: tables.len(),
        ..Integrity::default()
    };
    let indexes = Index::all(connection)?;
    for table in &tables {
        let mut of_table = indexes.iter().filter(|index| index.table == *table);
        let checked = check(connection, table, &mut found.faults)
            .and_then(|()| check_seals(connection, table, &mut found.faults))
            .and_then(|()| {
                let differs = |index: &Index| differs(index, connection);
                found.differs |= of_table.try_fold(false, |any, index| {
                    Ok::<_, StoreError>(any | differs(index)?)
                })?;
                Ok(())
            });
        match checked {
            Ok(()) => found.checked += 1,
            Err(StoreError::TooSlow) => break,
            Err(error) if error.is_unreadable() => {
                found.checked += 1;
                found.faults.push(format!("{table}: {error}"));
            }
            Err(error) => return Err(error),
        }
        progress(&found);
        if clock.now() > ends_at || found.faults.len() >= FAULTS_MAX {
            break;
        }
    }
    Ok(found)
}

fn check(connection: &Connection, table: &str, faults: &mut Vec<String>) -> Result<(), StoreError> {
    let mut check = connection.prepare(&format!("PRAGMA quick_check(\"{table}\")"))?;
    let mut rows = check.query([])?;
    while let Some(row) = rows.next()? {
        let said: String = row.get(0)?;
        if said != "ok" && faults.len() < FAULTS_MAX {
            faults.push(format!("{table}: {said}"));
        }
    }
    Ok(())
}

/// Reports whether an index differs from its table. Logs a difference as an error.
fn differs(index: &Index, connection: &Connection) -> Result<bool, StoreError> {
    let Some(found) = index.compare(connection, &|| false)? else {
        return Ok(false);
    };
    if !found.is_none() {
        tracing::error!(problem = index.told(&found), "the database is damaged");
    }
    Ok(!found.is_none())
}

/// Compares the rows of a table with their checksums. Adds a fault for each row that does not match.
fn check_seals(
    connection: &Connection,
    table: &str,
    faults: &mut Vec<String>,
) -> Result<(), StoreError> {
    let sealed = checksum::SEALED.iter();
    for sealed in sealed.filter(|sealed| sealed.table == table) {
        let mut steps = SpanSteps::over(table);
        while let Some(RowSpan { first, last }) = steps.next(connection)?
            && faults.len() < FAULTS_MAX
        {
            let damaged = checksum::damaged(connection, sealed, first, last)?;
            let told = damaged.iter().map(|id| {
                let consequence = sealed.consequence;
                format!("{table} {id} is not as it was stored, by its checksum; {consequence}")
            });
            faults.extend(told);
        }
        faults.truncate(FAULTS_MAX);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(clock: &Clock) -> Timestamp {
        clock.now() + Duration::from_secs(60)
    }

    #[test]
    fn what_is_wrong_is_told_table_by_table() {
        let clock = Clock::system();
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch(
                "CREATE TABLE good (a INTEGER NOT NULL) STRICT;
                 CREATE TABLE bad (a INTEGER) STRICT;
                 INSERT INTO bad VALUES (NULL);
                 PRAGMA writable_schema = ON;
                 UPDATE sqlite_schema SET sql = 'CREATE TABLE bad (a INTEGER NOT NULL) STRICT'
                 WHERE name = 'bad';
                 PRAGMA writable_schema = RESET;",
            )
            .expect("a damaged table");
        let found = look(&connection, &clock, late(&clock), &|_| {}).expect("a look");
        assert!(found.is_complete());
        assert_eq!(found.tables, 2);
        assert_eq!(found.faults, ["bad: NULL value in bad.a"]);
    }

    #[test]
    fn a_look_without_time_is_not_complete() {
        let clock = Clock::simulated(Timestamp::from_ms(1_000));
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch("CREATE TABLE a (x); CREATE TABLE b (x);")
            .expect("tables");
        let found = look(&connection, &clock, Timestamp::from_ms(999), &|_| {}).expect("a look");
        assert_eq!((found.checked, found.tables), (1, 2));
        assert!(!found.is_complete() && found.faults.is_empty());
    }
}
