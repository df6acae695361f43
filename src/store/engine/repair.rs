//! Repairs damage of a database: missing or changed indexes and triggers of the schema, deliveries with an invalid
//! state, and indexes that differ from their tables.
//!
//! If an index differs from its table, the table is taken as correct. If the row itself is damaged, its values are
//! restored from an index. A delivery that stays damaged is dead-lettered when it is due, so an index must find it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::store::engine::checksum::{self, DELIVERY};
use crate::store::engine::indexes::{Index, RowSpan, SpanSteps};
use crate::store::engine::{db, migrate};
use crate::store::error::StoreError;

/// Condition for deliveries whose state is invalid or contradicts `ended_at`.
const CONTRADICTS: &str = "state NOT IN ('Pending', 'Delivered', 'DeadLettered', 'Dropped', 'Resubmitted', 'Removed') \
     OR (state = 'Pending') <> (ended_at IS NULL)";

/// Compares the schema with the schema that this version creates. Recreates missing or different indexes and triggers,
/// and describes them in the result. Fails if a table is missing or different.
pub(in crate::store) fn mend_schema(path: &Path) -> Result<Vec<String>, StoreError> {
    let wanted = {
        let mut fresh = db::open_in_memory()?;
        migrate::migrate(&mut fresh)?;
        schema(&fresh)?
    };
    let connection = db::open_writer(path)?;
    let have = schema(&connection)?;
    let mut said = Vec::new();
    let tx = connection.unchecked_transaction()?;
    for (name, SchemaPart { kind, sql }) in &wanted {
        let is_there = have.get(name);
        if is_there.is_some_and(|part| part.sql == *sql) {
            continue;
        }
        let problem = if is_there.is_some() {
            "differs from what it should be"
        } else {
            "is missing"
        };
        if kind == "table" {
            return Err(StoreError::Other(format!(
                "{}: the table {name} {problem}, so this is a damaged database, or one that somebody has changed; \
                 restore a backup, or copy what can be read with `everpost salvage NEW_DIR`",
                path.display()
            )));
        }
        let drop = format!("DROP {kind} IF EXISTS \"{name}\"");
        let made = tx.execute_batch(&drop).and_then(|()| tx.execute_batch(sql));
        made.map_err(|error| {
            StoreError::Damaged(format!(
                "the {kind} {name} {problem} and cannot be made: {error}"
            ))
        })?;
        said.push(format!("the {kind} {name} {problem}; it was made anew"));
    }
    tx.commit()?;
    Ok(said)
}

/// A table, an index or a trigger.
struct SchemaPart {
    kind: String,
    sql: String,
}

fn schema(connection: &Connection) -> Result<BTreeMap<String, SchemaPart>, StoreError> {
    let parts = "SELECT name, type, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut select = connection.prepare(parts)?;
    let rows = select.query_map([], |row| {
        let part = SchemaPart {
            kind: row.get(1)?,
            sql: row.get(2)?,
        };
        Ok((row.get(0)?, part))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Looks for damaged deliveries and indexes, and repairs them. Repairs nothing if `is_late` is true before the search
/// ends. Returns descriptions of the repairs, and whether the search ended in time. Other connections may have the
/// database open.
pub(in crate::store) fn repair(
    path: &Path,
    is_late: &dyn Fn() -> bool,
) -> Result<(Vec<String>, bool), StoreError> {
    let mut connection = db::open_writer(path)?;
    let Some((rows, indexes)) = look(&connection, is_late)? else {
        return Ok((Vec::new(), false));
    };
    if rows.is_empty() && indexes.is_empty() {
        return Ok((Vec::new(), true));
    }
    // Without `writable_schema`, SQLite fails a change of a row whose index entry is missing.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)?;
    connection.pragma_update(None, "writable_schema", true)?;
    connection.pragma_update(None, "foreign_keys", false)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut said = Vec::new();
    for id in rows {
        said.extend(mend_delivery(&tx, id)?);
    }
    for (index, difference) in indexes {
        index.rebuild(&tx)?;
        said.push(format!("{difference}; it was built anew"));
    }
    tx.commit()?;
    Ok((said, true))
}

type Findings = (BTreeSet<i64>, Vec<(Index, String)>);

/// Returns the ids of damaged deliveries, and the indexes that differ from their tables. Returns `None` if `is_late` is
/// true before the search ends.
fn look(
    connection: &Connection,
    is_late: &dyn Fn() -> bool,
) -> Result<Option<Findings>, StoreError> {
    let mut indexes = Vec::new();
    for index in Index::all(connection)? {
        let Some(found) = index.compare(connection, is_late)? else {
            return Ok(None);
        };
        if !found.is_none() {
            let told = index.told(&found);
            indexes.push((index, told));
        }
    }
    let mut rows = BTreeSet::new();
    let odd = format!(
        "SELECT id FROM delivery NOT INDEXED WHERE id BETWEEN ?1 AND ?2 AND ({CONTRADICTS})"
    );
    let mut odd = connection.prepare(&odd)?;
    let mut steps = SpanSteps::over(DELIVERY.table);
    while let Some(RowSpan { first, last }) = steps.next(connection)? {
        if is_late() {
            return Ok(None);
        }
        let contradicting = odd.query_map(params![first, last], |row| row.get(0))?;
        rows.extend(contradicting.collect::<Result<Vec<i64>, _>>()?);
        if !indexes.is_empty() {
            rows.extend(checksum::damaged(connection, &DELIVERY, first, last)?);
        }
    }
    if !indexes.is_empty() {
        rows.extend(differing_times(connection)?);
    }
    Ok(Some((rows, indexes)))
}

/// Returns the ids of pending deliveries whose due time in the table differs from the one in the index.
fn differing_times(connection: &Connection) -> Result<Vec<i64>, StoreError> {
    let find = "SELECT e.id FROM delivery AS e INDEXED BY delivery_due WHERE e.state = 'Pending' AND EXISTS \
         (SELECT 1 FROM delivery AS own NOT INDEXED WHERE own.id = e.id AND own.state = 'Pending' \
          AND own.subscription_id = e.subscription_id AND own.next_attempt_at <> e.next_attempt_at)";
    let mut find = connection.prepare(find)?;
    let ids = find.query_map([], |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

/// Restores the values of a damaged delivery from the index of due deliveries, and sets a valid state. Returns a
/// description of the repair, `None` if nothing was changed.
fn mend_delivery(tx: &Connection, id: i64) -> Result<Option<String>, StoreError> {
    // Reads only the index, which has all selected columns. The row in the table may be damaged.
    let due = "SELECT subscription_id, next_attempt_at FROM delivery INDEXED BY delivery_due \
         WHERE state = 'Pending' AND +id = ?1";
    let due: Option<(i64, i64)> = tx
        .query_row(due, [id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let row = format!(
        "SELECT {}, NOT ({CONTRADICTS}), state = 'Pending', ended_at IS NULL FROM delivery NOT INDEXED WHERE id = ?1",
        DELIVERY.is_sound()
    );
    let (is_sound, is_consistent, is_pending, is_open): (bool, bool, bool, bool) =
        tx.query_row(&row, [id], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?;
    let pend = "UPDATE delivery SET subscription_id = ?2, next_attempt_at = ?3, state = 'Pending', ended_at = NULL, \
         removed_at = NULL, lock_token = NULL, locked_at = NULL, locked_until = NULL, deferred = 0 WHERE id = ?1";
    match due {
        Some((_, at)) if is_sound && is_consistent && is_pending => {
            let earlier =
                "UPDATE delivery SET next_attempt_at = min(next_attempt_at, ?2) WHERE id = ?1";
            tx.execute(earlier, params![id, at])?;
            Ok(Some(format!(
                "the time at which delivery {id} is due was damaged; it is due at the earlier one"
            )))
        }
        Some((subscription, at)) if !(is_sound && is_consistent) => {
            tx.execute(pend, params![id, subscription, at])?;
            Ok(Some(format!(
                "delivery {id} was damaged; it is pending again, as an index has it"
            )))
        }
        None if !is_consistent && is_open => {
            let pend = "UPDATE delivery SET state = 'Pending' WHERE id = ?1";
            tx.execute(pend, [id])?;
            Ok(Some(format!(
                "the state of delivery {id} was damaged; it is pending again"
            )))
        }
        None if !is_consistent => {
            let end = "UPDATE delivery SET state = CASE WHEN removed_at IS NOT NULL THEN 'Removed' \
                     WHEN resubmitted_as IS NOT NULL THEN 'Resubmitted' \
                     WHEN dead_letter_reason IS NOT NULL THEN 'DeadLettered' ELSE 'Delivered' END WHERE id = ?1";
            tx.execute(end, [id])?;
            Ok(Some(format!(
                "the state of delivery {id}, which has ended, was damaged; it was mended"
            )))
        }
        Some(_) | None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const NEVER_LATE: &dyn Fn() -> bool = &|| false;

    /// A database with pending deliveries, sealed as they are stored.
    fn database() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("everpost.db");
        migrate::migrate_file(&path, &|_| {}).expect("a schema");
        let connection = db::open_writer(&path).expect("a database");
        let fill = format!(
            "WITH RECURSIVE n (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 100)
             INSERT INTO event (topic_id, received_at, event_id, event_type, data, matched, checksum)
                 SELECT 1, n, 'event ' || n, 'type', '1', 1, 0 FROM n;
             INSERT INTO delivery (event_id, subscription_id, next_attempt_at, published_at, checksum)
                 SELECT id, 1, 1000, received_at, 0 FROM event;
             UPDATE delivery SET checksum = row_checksum({})",
            DELIVERY.columns
        );
        connection.execute_batch(&fill).expect("rows");
        (dir, path)
    }

    /// Has rows changed without their indexes, as a flipped bit in the table does.
    fn flip(path: &Path, set: &str) {
        let connection = db::open_writer(path).expect("the database");
        let set_config = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false);
        set_config.expect("a schema that can be damaged");
        let hidden = format!(
            "PRAGMA ignore_check_constraints = ON; PRAGMA writable_schema = ON;
             CREATE TABLE hidden AS SELECT * FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'delivery';
             DELETE FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'delivery';
             PRAGMA writable_schema = RESET;
             UPDATE delivery SET {set};
             PRAGMA writable_schema = ON;
             INSERT INTO sqlite_schema SELECT * FROM hidden;
             PRAGMA writable_schema = RESET; DROP TABLE hidden;"
        );
        connection.execute_batch(&hidden).expect("a damaged row");
    }

    fn pending(path: &Path) -> Vec<i64> {
        let connection = db::open_writer(path).expect("the database");
        let pending = "SELECT id FROM delivery WHERE subscription_id = 1 AND state = 'Pending' AND next_attempt_at <= 1000";
        let mut pending = connection.prepare(pending).expect("a query");
        let ids = pending.query_map([], |row| row.get(0)).expect("rows");
        ids.collect::<Result<_, _>>().expect("ids")
    }

    #[test]
    fn no_damage_of_one_row_hides_a_pending_delivery() {
        for set in [
            "state = 'Qending' WHERE id = 50",
            "next_attempt_at = 1 << 60 WHERE id = 50",
            "subscription_id = 1 << 40 WHERE id = 50",
            "ended_at = 7 WHERE id = 50",
        ] {
            let (_dir, path) = database();
            flip(&path, set);
            let (said, is_whole) = repair(&path, NEVER_LATE).expect("a repair");
            assert!(
                is_whole && said.iter().any(|line| line.contains("delivery 50")),
                "{set}: {said:?}"
            );
            assert_eq!(pending(&path).len(), 100, "{set}: {said:?}");
            let again = repair(&path, NEVER_LATE).expect("nothing to repair");
            assert_eq!(again, (Vec::new(), true), "{set}");
            let connection = db::open_writer(&path).expect("the database");
            let damaged = checksum::damaged(&connection, &DELIVERY, 1, 100).expect("a look");
            assert_eq!(damaged, [0; 0], "{set}");
        }
    }

    #[test]
    fn a_sound_database_stays_as_it_is() {
        let (_dir, path) = database();
        assert_eq!(repair(&path, NEVER_LATE), Ok((Vec::new(), true)));
        assert_eq!(repair(&path, &|| true), Ok((Vec::new(), false)));
        assert_eq!(mend_schema(&path), Ok(Vec::new()));
    }

    #[test]
    fn a_missing_index_is_made_and_a_missing_table_is_named() {
        let (_dir, path) = database();
        let connection = db::open_writer(&path).expect("the database");
        connection
            .execute_batch("DROP INDEX delivery_due")
            .expect("no index");
        drop(connection);
        let said = mend_schema(&path).expect("mended");
        assert_eq!(
            said,
            ["the index delivery_due is missing; it was made anew"]
        );
        assert_eq!(pending(&path).len(), 100);
        let connection = db::open_writer(&path).expect("the database");
        connection
            .execute_batch("DROP TABLE alert_message")
            .expect("no table");
        drop(connection);
        let error = mend_schema(&path).expect_err("a missing table").to_string();
        assert!(
            error.contains("the table alert_message is missing"),
            "{error}"
        );
    }
}
