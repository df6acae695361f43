//! Rolls old counters up to hours and days, so that counters of several years stay small.

use std::sync::LazyLock;

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::limits::{DAYS_KEPT, HOURS_KEPT, MINUTES_KEPT};
use crate::store::error::StoreError;
use crate::store::ledger::counters::{DAY_MS, HOUR_MS, ROLLUP_COUNTS};
use crate::store::sql::Sql;

/// A table of roll-ups.
#[derive(Debug)]
pub(super) struct RollupTable {
    name: &'static str,
    key: &'static str,
    counts: Vec<String>,
}

pub(super) static SUBSCRIPTIONS: LazyLock<RollupTable> = LazyLock::new(|| RollupTable {
    name: "subscription_rollup",
    key: "subscription_id",
    counts: ROLLUP_COUNTS.clone(),
});

pub(super) static TOPICS: LazyLock<RollupTable> = LazyLock::new(|| RollupTable {
    name: "topic_rollup",
    key: "topic_id",
    counts: ["published", "unmatched", "data_bytes"]
        .map(str::to_owned)
        .to_vec(),
});

impl RollupTable {
    /// Returns the statement that adds the result of the query `found` to the existing roll-ups.
    fn add(&self, found: &str) -> String {
        let Self { name, key, counts } = self;
        let sums = counts
            .iter()
            .map(|count| format!("{count} = {count} + excluded.{count}"));
        format!(
            "INSERT INTO {name} ({key}, start_at, {}) {found} ON CONFLICT DO UPDATE SET {}",
            counts.join(", "),
            sums.collect::<Vec<_>>().join(", ")
        )
    }
}

/// A period of a topic or subscription whose roll-ups are merged into one roll-up of length `length_ms`.
#[derive(Debug)]
pub(in crate::store) struct Period {
    table: &'static RollupTable,
    key: i64,
    start_at: i64,
    length_ms: i64,
}

/// Returns the next periods to merge, at most one of a subscription and one of a topic, whose roll-ups are too short
/// for their age at `now`. Roll-ups are merged to days once none are left to merge to hours.
pub(in crate::store) fn find(tx: &Connection, now: Timestamp) -> Result<Vec<Period>, StoreError> {
    for (length_ms, kept) in [(HOUR_MS, MINUTES_KEPT), (DAY_MS, HOURS_KEPT)] {
        let mut found = Vec::new();
        for table in [&*SUBSCRIPTIONS, &*TOPICS] {
            found.extend(too_short(tx, table, length_ms, now - kept)?);
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Returns the period of the newest roll-up from before `before` that is shorter than `length_ms`. Roll-ups that were
/// merged in earlier runs are older.
fn too_short(
    tx: &Connection,
    table: &'static RollupTable,
    length_ms: i64,
    before: Timestamp,
) -> Result<Option<Period>, StoreError> {
    let end_ms = before.as_ms() - before.as_ms().rem_euclid(length_ms);
    let RollupTable { name, key, .. } = table;
    let find = format!(
        "SELECT {key}, start_at - start_at % ?2 FROM {name} \
         WHERE start_at < ?1 AND start_at % ?2 <> 0 ORDER BY start_at DESC LIMIT 1"
    );
    tx.first(&find, [end_ms, length_ms], |row| {
        Ok(Period {
            table,
            key: row.get(0)?,
            start_at: row.get(1)?,
            length_ms,
        })
    })
}

/// Adds the shorter roll-ups of a period to the roll-up that begins with the period, then deletes the shorter ones.
pub(in crate::store) fn roll_up(tx: &Connection, period: &Period) -> rusqlite::Result<()> {
    let RollupTable { name, key, counts } = period.table;
    let end_at = period.start_at + period.length_ms;
    let values = params![period.key, period.start_at, end_at];
    let sums: Vec<String> = counts.iter().map(|count| format!("sum({count})")).collect();
    let add_up = period.table.add(&format!(
        "SELECT {key}, ?2, {} FROM {name} \
         WHERE {key} = ?1 AND start_at > ?2 AND start_at < ?3 GROUP BY {key}",
        sums.join(", ")
    ));
    tx.run(&add_up, values)?;
    let delete = format!("DELETE FROM {name} WHERE {key} = ?1 AND start_at > ?2 AND start_at < ?3");
    tx.run(&delete, values)?;
    Ok(())
}

/// Adds the roll-ups of a deleted topic or subscription to those with the id 0, so that the total stays the same.
/// Deletes the original roll-ups and returns their number.
pub(super) fn release(tx: &Connection, table: &RollupTable, gone: i64) -> rusqlite::Result<usize> {
    let RollupTable { name, key, counts } = table;
    let add = table.add(&format!(
        "SELECT 0, start_at, {} FROM {name} WHERE {key} = ?1",
        counts.join(", ")
    ));
    tx.run(&add, [gone])?;
    tx.run(&format!("DELETE FROM {name} WHERE {key} = ?1"), [gone])
}

/// Deletes up to `limit` roll-ups that are too old at `now`. Returns the number deleted.
pub(in crate::store) fn delete(
    tx: &Connection,
    now: Timestamp,
    limit: usize,
) -> rusqlite::Result<usize> {
    let mut deleted = 0;
    for RollupTable { name, key, .. } in [&*SUBSCRIPTIONS, &*TOPICS] {
        let delete = format!(
            "DELETE FROM {name} WHERE ({key}, start_at) IN \
             (SELECT {key}, start_at FROM {name} WHERE start_at < ?1 LIMIT ?2)"
        );
        deleted += tx.run(&delete, params![now - DAYS_KEPT, limit - deleted])?;
    }
    Ok(deleted)
}
