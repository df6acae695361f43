//! Copies the readable rows of a damaged database into a new one.
//!
//! Rows are read in the order of their ids. After a read error, the salvage searches for the next readable id and
//! continues there, so that a damaged page loses only its own rows. Rows that the new database rejects, such as a
//! delivery whose event is lost, are not copied. At the end, the counters are updated to match the copied rows.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, params_from_iter};

use crate::store::engine::{db, migrate};
use crate::store::error::StoreError;
use crate::store::ledger::counters;

/// Rows in one transaction of the new database.
const BATCH_ROWS: usize = 1_000;

/// The result of a salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    pub tables: Vec<SalvagedTable>,
}

/// The outcome of a salvage for the rows of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvagedTable {
    pub name: String,
    pub copied: u64,
    /// Number of rows that the new database rejected, because they refer to lost rows or are damaged.
    pub rejected: u64,
    /// Ranges of ids on damaged pages, both ends included. It is unknown which of these ids had a row.
    pub unreadable: Vec<(i64, i64)>,
    /// The error that ended the copying of a table without ids before its last row.
    pub cut_short: Option<String>,
}

impl SalvagedTable {
    /// Reports whether all rows of the table were copied.
    pub fn is_whole(&self) -> bool {
        self.rejected == 0 && self.unreadable.is_empty() && self.cut_short.is_none()
    }
}

/// Copies the database `damaged` into the new file `copy`. Does not write to `damaged`. Calls `progress` with the name
/// of the current table and the number of its copied rows.
pub(in crate::store) fn salvage(
    damaged: &Path,
    copy: &Path,
    progress: &mut dyn FnMut(&str, u64),
) -> Result<Salvaged, StoreError> {
    migrate::migrate_file(copy, &|_| {})?;
    let old = Connection::open_with_flags(damaged, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut new = db::open_writer(copy)?;
    let mut salvaged = Salvaged::default();
    for table in NewTable::all(&new)? {
        let mut copying = Copying {
            table: &table,
            old: &old,
            batch: Vec::new(),
            last_id: None,
            found: SalvagedTable {
                name: table.name.clone(),
                ..SalvagedTable::default()
            },
            new: &mut new,
            progress,
        };
        copying.run()?;
        salvaged.tables.push(copying.found);
    }
    let tx = new.transaction()?;
    counters::mend(&tx)?;
    tx.commit()?;
    new.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);")?;
    Ok(salvaged)
}

/// A table of the new database.
struct NewTable {
    name: String,
    columns: Vec<String>,
    /// The name of the integer column by which the rows are read in order, if there is one.
    id: Option<String>,
    /// Is true if each id belongs to one row only.
    is_unique: bool,
}

impl NewTable {
    /// Returns all tables that hold data, each after those that it refers to.
    fn all(new: &Connection) -> Result<Vec<Self>, StoreError> {
        let names = "SELECT name, wr = 0 FROM pragma_table_list WHERE schema = 'main' AND type = 'table' \
             AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'refinery\\_%' ESCAPE '\\' \
             ORDER BY name";
        let mut names = new.prepare(names)?;
        let tables = names.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut left = tables.collect::<Result<Vec<(String, bool)>, _>>()?;
        let mut ordered: Vec<Self> = Vec::new();
        while !left.is_empty() {
            let count = left.len();
            for (name, is_unique) in std::mem::take(&mut left) {
                let parents = "SELECT \"table\" FROM pragma_foreign_key_list(?1)";
                let is_done =
                    |of: &String| *of == name || ordered.iter().any(|table| table.name == *of);
                if !strings(new, parents, &name)?.iter().all(is_done) {
                    left.push((name, is_unique));
                    continue;
                }
                let columns = strings(new, "SELECT name FROM pragma_table_info(?1)", &name)?;
                let key =
                    "SELECT name FROM pragma_table_info(?1) WHERE pk = 1 AND type = 'INTEGER'";
                let id = if is_unique {
                    Some("rowid".to_owned())
                } else {
                    strings(new, key, &name)?.pop()
                };
                ordered.push(Self {
                    name,
                    columns,
                    id,
                    is_unique,
                });
            }
            if left.len() == count {
                return Err(StoreError::Other("tables refer to each other".to_owned()));
            }
        }
        Ok(ordered)
    }

    /// Returns the query for all rows. The first result column is the id, or 0 without one; the table's columns follow.
    fn select(&self) -> String {
        let Self { name, columns, .. } = self;
        let id = self.id.as_deref().unwrap_or("0");
        let names = columns.join("\", \"");
        format!("SELECT {id}, \"{names}\" FROM \"{name}\" NOT INDEXED")
    }

    fn select_from_id(&self) -> String {
        let id = self.id.as_deref().unwrap_or("0");
        format!("{} WHERE {id} >= ?1 ORDER BY {id}", self.select())
    }

    /// Returns the id and the column values of a row that was read by the query from `select`.
    fn values(&self, row: &Row<'_>) -> rusqlite::Result<(i64, Vec<Value>)> {
        let values = (1..=self.columns.len()).map(|column| row.get(column));
        Ok((row.get(0)?, values.collect::<Result<_, _>>()?))
    }

    /// Returns the statement that stores a row. It replaces existing rows, because a new database already has some,
    /// such as the built-in topics.
    fn insert(&self) -> String {
        let Self { name, columns, .. } = self;
        let places = vec!["?"; columns.len()].join(", ");
        format!(
            "INSERT OR REPLACE INTO \"{name}\" (\"{}\") VALUES ({places})",
            columns.join("\", \"")
        )
    }
}

/// The copying of one table.
struct Copying<'a> {
    table: &'a NewTable,
    old: &'a Connection,
    new: &'a mut Connection,
    batch: Vec<Vec<Value>>,
    /// The id of the last row that was read.
    last_id: Option<i64>,
    found: SalvagedTable,
    progress: &'a mut dyn FnMut(&str, u64),
}

impl Copying<'_> {
    fn run(&mut self) -> Result<(), StoreError> {
        match self.table.id {
            Some(_) => self.by_id()?,
            None => self.found.cut_short = self.rows(&self.table.select(), [])?.err(),
        }
        self.flush()
    }

    fn by_id(&mut self) -> Result<(), StoreError> {
        let from_id = self.table.select_from_id();
        let mut next = i64::MIN;
        while self.rows(&from_id, [next])?.is_err() {
            let last = self.last_id.map_or(next, |last| last.max(next));
            next = self
                .last_id
                .map_or(next, |last| next.max(last.saturating_add(1)));
            let lost_from = if self.table.is_unique { next } else { last };
            let Some(again) = self.readable_after(next) else {
                self.found.unreadable.push((lost_from, i64::MAX));
                break;
            };
            self.found.unreadable.push((lost_from, again - 1));
            next = again;
        }
        Ok(())
    }

    /// Returns the first id after `unreadable` from which rows can be read, found by a binary search.
    fn readable_after(&self, unreadable: i64) -> Option<i64> {
        let mut unreadable = i128::from(unreadable);
        let mut step = 1;
        let mut readable = loop {
            let tried = (unreadable + step).min(i64::MAX.into());
            if self.is_readable(tried) {
                break tried;
            }
            if tried == i128::from(i64::MAX) {
                return None;
            }
            (unreadable, step) = (tried, step * 2);
        };
        while readable - unreadable > 1 {
            let middle = unreadable.midpoint(readable);
            if self.is_readable(middle) {
                readable = middle;
            } else {
                unreadable = middle;
            }
        }
        i64::try_from(readable).ok()
    }

    fn is_readable(&self, from: i128) -> bool {
        let first = format!("{} LIMIT 1", self.table.select_from_id());
        let Ok(from) = i64::try_from(from) else {
            return false;
        };
        let first = self
            .old
            .query_row(&first, [from], |row| self.table.values(row));
        first.map_or_else(
            |error| error == rusqlite::Error::QueryReturnedNoRows,
            |_| true,
        )
    }

    /// Copies the rows of a query. The inner error is the reason that the remaining rows cannot be read.
    fn rows<const N: usize>(
        &mut self,
        select: &str,
        parameters: [i64; N],
    ) -> Result<Result<(), String>, StoreError> {
        let old = self.old;
        let mut select = match old.prepare(select) {
            Ok(select) => select,
            Err(cause) => return damage(cause),
        };
        let mut rows = select.query(params_from_iter(parameters))?;
        loop {
            let row = match rows.next() {
                Ok(None) => return Ok(Ok(())),
                Ok(Some(row)) => self.table.values(row),
                Err(cause) => Err(cause),
            };
            let (id, values) = match row {
                Ok(row) => row,
                Err(cause) => return damage(cause),
            };
            self.last_id = Some(id);
            self.batch.push(values);
            if self.batch.len() == BATCH_ROWS {
                self.flush()?;
            }
        }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let tx = self.new.transaction()?;
        {
            let mut insert = tx.prepare_cached(&self.table.insert())?;
            for values in self.batch.drain(..) {
                match insert.execute(params_from_iter(values)) {
                    Ok(_) => self.found.copied += 1,
                    Err(error) if is_rejection(&error) => self.found.rejected += 1,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        tx.commit()?;
        (self.progress)(&self.table.name, self.found.copied);
        Ok(())
    }
}

/// Returns the cause as the inner error if a page or a row is damaged, and as the outer error otherwise.
fn damage<T>(cause: rusqlite::Error) -> Result<Result<T, String>, StoreError> {
    match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SystemIoFailure)
        | None => Ok(Err(cause.to_string())),
        Some(_) => Err(cause.into()),
    }
}

/// Reports whether the error means that a row does not fit the schema.
fn is_rejection(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch)
    )
}

fn strings(connection: &Connection, query: &str, of: &str) -> Result<Vec<String>, StoreError> {
    let mut query = connection.prepare(query)?;
    let found = query.query_map([of], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;

    use super::*;

    const EVENTS: i64 = 2_000;

    /// Events of one topic, each with a delivery and an attempt.
    const FILL: &str = "
        WITH RECURSIVE n (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
        INSERT INTO event (topic_id, received_at, event_id, event_type, data, matched, checksum)
            SELECT 1, n, 'event ' || n, 'type', printf('%0200d', n), 1, 0 FROM n;
        INSERT INTO delivery (event_id, subscription_id, next_attempt_at, published_at, attempts, checksum)
            SELECT id, 1, 0, received_at, 1, 0 FROM event;
        INSERT INTO delivery_attempt (delivery_id, attempt, started_at, duration_ms, outcome)
            SELECT id, 1, 0, 0, 'Busy' FROM delivery;
        INSERT INTO subscription_total VALUES (1, 2000, 2000, 0, 0, 0, 0, 0, 0, 2000, 0);
        INSERT INTO publish_request VALUES (1, 1, x'02');";

    /// Fills the file, and then writes nonsense over a leaf of each of these tables, or of their indexes. Returns what
    /// a salvage brings.
    fn salvaged(damaged: &[&str]) -> (tempfile::TempDir, Salvaged) {
        let dir = tempfile::tempdir().expect("a directory");
        let (old, new) = (dir.path().join("old.db"), dir.path().join("new.db"));
        migrate::migrate_file(&old, &|_| {}).expect("a schema");
        let connection = db::open_writer(&old).expect("a database");
        connection.execute_batch(FILL).expect("rows");
        let leaves =
            "SELECT pageno, pgsize FROM dbstat WHERE name = ?1 AND pagetype = 'leaf' ORDER BY path";
        let mut pages = Vec::new();
        for name in damaged {
            let mut leaves = connection.prepare(leaves).expect("a query");
            let leaves = leaves.query_map([name], |row| Ok((row.get(0)?, row.get(1)?)));
            let leaves: Vec<(u64, u64)> = leaves.expect("leaves").map(Result::unwrap).collect();
            pages.push(leaves[leaves.len() / 2]);
        }
        drop(connection);
        let file = fs::OpenOptions::new().write(true).open(&old);
        let file = file.expect("the file");
        for (page, bytes) in pages {
            let nonsense = vec![0xa5; usize::try_from(bytes).expect("a page")];
            let written = file.write_all_at(&nonsense, (page - 1) * bytes);
            written.expect("written");
        }
        let salvaged = salvage(&old, &new, &mut |_, _| {}).expect("a salvage");
        (dir, salvaged)
    }

    fn of<'a>(salvaged: &'a Salvaged, name: &str) -> &'a SalvagedTable {
        let mut tables = salvaged.tables.iter();
        tables.find(|table| table.name == name).expect(name)
    }

    fn count(dir: &tempfile::TempDir, query: &str) -> i64 {
        let new = Connection::open(dir.path().join("new.db")).expect("the copy");
        new.query_row(query, [], |row| row.get(0)).expect("a count")
    }

    #[test]
    fn a_sound_database_is_copied_whole() {
        let (dir, salvaged) = salvaged(&[]);
        assert!(salvaged.tables.iter().all(SalvagedTable::is_whole));
        assert_eq!(of(&salvaged, "event").copied, EVENTS as u64);
        assert_eq!(of(&salvaged, "publish_request").copied, 1);
        assert_eq!(
            count(&dir, "SELECT pending FROM subscription_total"),
            EVENTS
        );
    }

    #[test]
    fn a_damaged_page_costs_its_own_rows() {
        let (dir, salvaged) = salvaged(&["event", "delivery_attempt"]);
        let events = of(&salvaged, "event");
        let [(first, last)] = events.unreadable[..] else {
            panic!("one gap: {:?}", events.unreadable);
        };
        let lost = last - first + 1;
        assert!(lost < 100, "a page of them: {lost}");
        assert_eq!(events.copied, (EVENTS - lost) as u64);
        let deliveries = of(&salvaged, "delivery");
        assert_eq!(deliveries.rejected, lost as u64, "those of the lost events");
        assert_eq!(of(&salvaged, "delivery_attempt").unreadable.len(), 1);
        assert!(of(&salvaged, "publish_request").is_whole());
        let total = "SELECT pending FROM subscription_total WHERE pending = matched";
        assert_eq!(
            count(&dir, total),
            EVENTS - lost,
            "counters tell what there is"
        );
    }

    #[test]
    fn damaged_indexes_cost_nothing() {
        let (dir, salvaged) = salvaged(&["delivery_due"]);
        assert!(salvaged.tables.iter().all(SalvagedTable::is_whole));
        assert_eq!(count(&dir, "SELECT count(*) FROM delivery"), EVENTS);
    }
}
