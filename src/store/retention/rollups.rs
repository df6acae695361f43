//! Rolls old counters up to hours and days, so that years of them stay small.

use rusqlite::{Connection, OptionalExtension, params};

use crate::base::Timestamp;
use crate::store::engine::upkeep::Upkeep;
use crate::store::error::StoreError;
use crate::store::ledger::counters::{DAY_MS, HOUR_MS};

/// The length of a roll-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    Hour,
    Day,
}

impl Granularity {
    /// Its length in milliseconds.
    pub fn ms(self) -> i64 {
        match self {
            Self::Hour => HOUR_MS,
            Self::Day => DAY_MS,
        }
    }
}

impl Upkeep {
    /// Rolls the counters of one topic and one subscription from before `before` up to one row of this
    /// length. Returns whether there were any: call it until there are none.
    pub async fn roll_up(
        &self,
        granularity: Granularity,
        before: Timestamp,
    ) -> Result<bool, StoreError> {
        let before = before.as_ms() - before.as_ms().rem_euclid(granularity.ms());
        // Searched for outside the writer: the last search of a round reads the whole index.
        let found = self
            .db
            .read(move |tx| {
                let subscription = find(tx, &SUBSCRIPTIONS, granularity, before)?;
                let topic = find(tx, &TOPICS, granularity, before)?;
                Ok((subscription, topic))
            })
            .await?;
        let (subscription, topic) = found;
        if subscription.is_none() && topic.is_none() {
            return Ok(false);
        }
        self.db
            .write(move |tx| {
                if let Some(period) = subscription {
                    fold(tx, &SUBSCRIPTIONS, &period, granularity)?;
                }
                if let Some(period) = topic {
                    fold(tx, &TOPICS, &period, granularity)?;
                }
                Ok(true)
            })
            .await
    }

    /// Deletes up to `limit` roll-ups from before `before`. Returns how many.
    pub async fn delete_rollups(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<usize, StoreError> {
        self.db
            .write(move |tx| {
                let mut forgotten = 0;
                for Table { name, key, .. } in [SUBSCRIPTIONS, TOPICS] {
                    let forget = format!(
                        "DELETE FROM {name} WHERE ({key}, start_at) IN \
                         (SELECT {key}, start_at FROM {name} WHERE start_at < ?1 LIMIT ?2)"
                    );
                    let limit = i64::try_from(limit - forgotten).unwrap_or(i64::MAX);
                    forgotten += tx
                        .prepare_cached(&forget)?
                        .execute(params![before.as_ms(), limit])?;
                }
                Ok(forgotten)
            })
            .await
    }
}

/// A table of roll-ups.
struct Table {
    name: &'static str,
    key: &'static str,
    counts: &'static [&'static str],
}

const SUBSCRIPTIONS: Table = Table {
    name: "subscription_rollup",
    key: "subscription_id",
    counts: &[
        "matched",
        "delivered",
        "dead_lettered",
        "dropped",
        "attempts",
    ],
};

/// The latency buckets of a subscription's roll-ups, which are deleted with them.
const LATENCIES: Table = Table {
    name: "latency_bucket",
    key: "subscription_id",
    counts: &["deliveries"],
};

const TOPICS: Table = Table {
    name: "topic_rollup",
    key: "topic_id",
    counts: &["published", "unmatched", "data_bytes"],
};

/// Whose roll-ups, and the beginning of the hour or day.
struct Period {
    key: i64,
    start_at: i64,
}

/// The newest roll-up that is too short. All that were rolled up before are older.
fn find(
    tx: &Connection,
    table: &Table,
    granularity: Granularity,
    before: i64,
) -> Result<Option<Period>, StoreError> {
    let Table { name, key, .. } = table;
    let find = format!(
        "SELECT {key}, start_at - start_at % ?2 FROM {name} \
         WHERE start_at < ?1 AND start_at % ?2 <> 0 ORDER BY start_at DESC LIMIT 1"
    );
    let found = tx
        .prepare_cached(&find)?
        .query_row([before, granularity.ms()], |row| {
            Ok(Period {
                key: row.get(0)?,
                start_at: row.get(1)?,
            })
        });
    Ok(found.optional()?)
}

/// Adds the roll-ups of `period` up and deletes those that were added.
fn fold(
    tx: &Connection,
    table: &Table,
    period: &Period,
    granularity: Granularity,
) -> rusqlite::Result<()> {
    let Table { name, key, .. } = table;
    let end_at = period.start_at + granularity.ms();
    let values = params![period.key, period.start_at, end_at];
    tx.prepare_cached(&add_up(table, &[]))?.execute(values)?;
    if name == &SUBSCRIPTIONS.name {
        tx.prepare_cached(&add_up(&LATENCIES, &["le_ms"]))?
            .execute(values)?;
    }
    let delete = format!("DELETE FROM {name} WHERE {key} = ?1 AND start_at > ?2 AND start_at < ?3");
    tx.prepare_cached(&delete)?.execute(values)?;
    Ok(())
}

/// Adds the counts of key ?1 after ?2 and before ?3 to those at ?2, grouped by the columns `by`.
fn add_up(Table { name, key, counts }: &Table, by: &[&str]) -> String {
    let by: String = by.iter().map(|column| format!(", {column}")).collect();
    let each = |form: fn(&str) -> String| -> String {
        let all: Vec<String> = counts.iter().map(|count| form(count)).collect();
        all.join(", ")
    };
    format!(
        "INSERT INTO {name} ({key}, start_at{by}, {}) SELECT {key}, ?2{by}, {} FROM {name} \
         WHERE {key} = ?1 AND start_at > ?2 AND start_at < ?3 GROUP BY {key}{by} \
         ON CONFLICT DO UPDATE SET {}",
        counts.join(", "),
        each(|count| format!("sum({count})")),
        each(|count| format!("{count} = {count} + excluded.{count}")),
    )
}
