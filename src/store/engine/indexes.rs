//! Compares indexes with their tables, and rebuilds indexes that differ.
//!
//! A query that uses an index does not find rows that the index lacks: such a pending delivery is never attempted.
//! SQLite trusts its indexes, and `quick_check` does not compare their entries with the table.

use rusqlite::{Connection, params};

use crate::store::error::StoreError;

/// Maximum number of rows that are compared between two checks of the clock.
const STEP_ROWS: usize = 2_000;

/// Maximum number of row ids that are reported as missing in one index.
const NAMED_MAX: usize = 5;

/// An index of a table with row ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) table: String,
    pub(super) name: String,
    columns: Vec<String>,
    /// The `WHERE` condition of a partial index; `TRUE` if the index has all rows.
    condition: String,
}

/// How an index differs from its table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Ids of the first rows that the index lacks or has with other values. `missing_count` is the number of all such
    /// rows.
    missing: Vec<i64>,
    missing_count: usize,
    /// Number of entries in the index. `rows` is the number that it should have.
    entries: u64,
    rows: u64,
}

/// Iterates over a table in spans of at most [`STEP_ROWS`] rows, in the order of row ids. Spans are bounded by the
/// number of rows, not by a range of ids, because a damaged id may be far from all others.
pub(super) struct SpanSteps {
    next: String,
    after: i64,
}

/// A range of row ids, both ends included.
pub(super) struct RowSpan {
    pub(super) first: i64,
    pub(super) last: i64,
}

impl SpanSteps {
    pub(super) fn over(table: &str) -> Self {
        let next = format!(
            "SELECT min(id), max(id) FROM (SELECT rowid AS id FROM \"{table}\" NOT INDEXED \
             WHERE rowid > ?1 ORDER BY rowid LIMIT {STEP_ROWS})"
        );
        Self {
            next,
            after: i64::MIN,
        }
    }

    /// Returns the next span, if there is one.
    pub(super) fn next(&mut self, connection: &Connection) -> Result<Option<RowSpan>, StoreError> {
        let mut next = connection.prepare_cached(&self.next)?;
        let ends = next.query_row([self.after], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (Some(first), Some(last)) = ends else {
            return Ok(None);
        };
        self.after = last;
        Ok(Some(RowSpan { first, last }))
    }
}

impl Difference {
    pub(super) fn is_none(&self) -> bool {
        self.missing_count == 0 && self.entries == self.rows
    }
}

impl Index {
    /// Returns all indexes, partial indexes first.
    pub(super) fn all(connection: &Connection) -> Result<Vec<Self>, StoreError> {
        let all = "SELECT t.name, i.name, i.partial, coalesce(s.sql, '') \
             FROM pragma_table_list AS t, pragma_index_list(t.name) AS i \
             LEFT JOIN sqlite_schema AS s ON s.type = 'index' AND s.name = i.name \
             WHERE t.schema = 'main' AND t.type = 'table' AND t.wr = 0 AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
             ORDER BY i.partial DESC, t.name, i.name";
        let mut all = connection.prepare(all)?;
        let rows = all.query_map([], |row| {
            let (is_partial, sql): (bool, String) = (row.get(2)?, row.get(3)?);
            let condition = sql.split_once("WHERE ").filter(|_| is_partial);
            Ok(Self {
                table: row.get(0)?,
                name: row.get(1)?,
                columns: Vec::new(),
                condition: condition
                    .map_or("TRUE", |(_, condition)| condition)
                    .to_owned(),
            })
        })?;
        let mut indexes = rows.collect::<Result<Vec<_>, _>>()?;
        for index in &mut indexes {
            // Skips the row id, which is part of every index entry but has no column name.
            let select = "SELECT name FROM pragma_index_info(?1) WHERE name IS NOT NULL";
            let mut select = connection.prepare_cached(select)?;
            let columns = select.query_map([&index.name], |row| row.get(0))?;
            index.columns = columns.collect::<Result<_, _>>()?;
        }
        Ok(indexes)
    }

    /// Compares the index with its table, in steps. Returns `None` if `is_late` is true before the comparison ends.
    pub(super) fn compare(
        &self,
        connection: &Connection,
        is_late: &dyn Fn() -> bool,
    ) -> Result<Option<Difference>, StoreError> {
        let Self {
            table,
            name,
            columns,
            condition,
        } = self;
        if is_late() {
            return Ok(None);
        }
        let mut found = Difference::default();
        let equal = columns
            .iter()
            .map(|column| format!("e.\"{column}\" IS \"{table}\".\"{column}\" AND "));
        let missing = format!(
            "SELECT rowid FROM \"{table}\" NOT INDEXED WHERE rowid BETWEEN ?1 AND ?2 AND ({condition}) \
             AND NOT EXISTS (SELECT 1 FROM \"{table}\" AS e INDEXED BY \"{name}\" \
                 WHERE {}e.rowid = \"{table}\".rowid AND ({condition}))",
            equal.collect::<String>()
        );
        let mut missing = connection.prepare(&missing)?;
        let mut steps = SpanSteps::over(table);
        while let Some(RowSpan { first, last }) = steps.next(connection)? {
            if is_late() {
                return Ok(None);
            }
            let mut rows = missing.query(params![first, last])?;
            while let Some(row) = rows.next()? {
                found.missing_count += 1;
                if found.missing.len() < NAMED_MAX {
                    found.missing.push(row.get(0)?);
                }
            }
        }
        let count = format!(
            "SELECT (SELECT count(*) FROM \"{table}\" INDEXED BY \"{name}\" WHERE ({condition})), \
                 (SELECT count(*) FROM \"{table}\" NOT INDEXED WHERE ({condition}))"
        );
        (found.entries, found.rows) =
            connection.query_row(&count, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Some(found))
    }

    /// Describes the difference between the index and its table.
    pub(super) fn told(&self, found: &Difference) -> String {
        let Difference {
            missing,
            missing_count,
            entries,
            rows,
        } = found;
        let rows_named = missing.iter().map(i64::to_string).collect::<Vec<_>>();
        let such_as = match missing_count {
            0 => String::new(),
            _ => format!(
                "; {missing_count} rows of the table are not found by it, such as {}",
                rows_named.join(", ")
            ),
        };
        format!(
            "the index {} of {} has {entries} entries, and there should be {rows}{such_as}",
            self.name, self.table
        )
    }

    /// Rebuilds the index from its table.
    pub(super) fn rebuild(&self, connection: &Connection) -> Result<(), StoreError> {
        Ok(connection.execute_batch(&format!("REINDEX \"{}\"", self.name))?)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::config::DbConfig;

    use super::*;
    use crate::store::engine::{db, migrate};

    const NEVER_LATE: &dyn Fn() -> bool = &|| false;

    fn database() -> Connection {
        let mut connection = db::open_in_memory().expect("a database");
        migrate::migrate(&mut connection).expect("a schema");
        let fill = "
            WITH RECURSIVE n (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 5000)
            INSERT INTO event (topic_id, received_at, event_id, event_type, data, matched, checksum)
                SELECT 1, n, 'event ' || n, 'type', '1', 1, 0 FROM n;
            INSERT INTO delivery (event_id, subscription_id, next_attempt_at, published_at, number, session, checksum)
                SELECT id, 1, id, received_at, id, iif(id % 2, 's', NULL), 0 FROM event;
            UPDATE delivery SET state = 'DeadLettered', dead_letter_reason = 'Manual', ended_at = 1 WHERE id % 5 = 0;";
        connection.execute_batch(fill).expect("rows");
        connection
    }

    fn differences(connection: &Connection) -> Vec<String> {
        let indexes = Index::all(connection).expect("indexes");
        assert!(indexes.len() > 20, "{}", indexes.len());
        let told = indexes.iter().filter_map(|index| {
            let found = index.compare(connection, NEVER_LATE).expect("a comparison");
            let found = found.expect("in time");
            (!found.is_none()).then(|| index.told(&found))
        });
        told.collect()
    }

    #[test]
    fn sound_indexes_agree_with_their_tables() {
        assert_eq!(differences(&database()), [""; 0]);
    }

    /// A row whose index entries were written for another state: as a flipped bit in the index, or in the table, does.
    #[test]
    fn what_an_index_lacks_or_has_too_much_is_found_and_mended() {
        let connection = database();
        let set = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false);
        set.expect("a schema that can be damaged");
        connection
            .execute_batch(
                "PRAGMA writable_schema = ON;
                 UPDATE sqlite_schema SET sql = replace(sql, 'state = ''Pending''', 'state = ''Dropped''')
                     WHERE name = 'delivery_due';
                 PRAGMA writable_schema = RESET; REINDEX delivery_due;
                 PRAGMA writable_schema = ON;
                 UPDATE sqlite_schema SET sql = replace(sql, 'state = ''Dropped''', 'state = ''Pending''')
                     WHERE name = 'delivery_due';
                 PRAGMA writable_schema = RESET;",
            )
            .expect("an empty index");
        let hidden =
            "SELECT count(*) FROM delivery WHERE subscription_id = 1 AND state = 'Pending'";
        let count = || -> i64 {
            connection
                .query_row(hidden, [], |row| row.get(0))
                .expect("a count")
        };
        assert_eq!(count(), 0);
        let expected = "the index delivery_due of delivery has 0 entries, and there should be 4000; \
             4000 rows of the table are not found by it, such as 1, 2, 3, 4, 6";
        assert_eq!(differences(&connection), [expected]);
        let indexes = Index::all(&connection).expect("indexes");
        let due = indexes.iter().find(|index| index.name == "delivery_due");
        due.expect("it").rebuild(&connection).expect("rebuilt");
        assert_eq!(differences(&connection), [""; 0]);
        assert_eq!(count(), 4_000);
    }

    #[test]
    fn a_comparison_ends_when_it_is_late() {
        let connection = database();
        let indexes = Index::all(&connection).expect("indexes");
        let compared = indexes[0].compare(&connection, &|| true);
        assert_eq!(compared, Ok(None));
    }
}
