//! Folds old roll-ups onto coarser grains, so that years of counters stay small.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, params};

use crate::base::Timestamp;
use crate::store::engine::upkeep::Upkeep;
use crate::store::error::StoreError;
use crate::store::ledger::counters::{DAY_MS, HOUR_MS, SUBSCRIPTION_COUNTS};

/// How coarse old roll-ups become.
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
    /// Folds one stretch of one topic's or subscription's roll-ups from before `before` into one row of
    /// this grain. Returns whether there was one: call it until there is none.
    pub async fn fold_rollups(
        &self,
        granularity: Granularity,
        before: Timestamp,
    ) -> Result<bool, StoreError> {
        let before = before.as_ms() - before.as_ms().rem_euclid(granularity.ms());
        // Looked for outside the writer: at the end of a round, the whole index has been walked.
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
                if let Some(id_range) = subscription {
                    fold(tx, &SUBSCRIPTIONS, &id_range, granularity)?;
                }
                if let Some(id_range) = topic {
                    fold(tx, &TOPICS, &id_range, granularity)?;
                }
                Ok(true)
            })
            .await
    }

    /// Deletes up to `limit` roll-ups from before `before`. Returns how many there were.
    pub async fn forget_rollups(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<usize, StoreError> {
        self.db
            .write(move |tx| {
                let mut forgotten = 0;
                for Table { name, key, .. } in [&*SUBSCRIPTIONS, &*TOPICS] {
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
    counts: Vec<String>,
}

static SUBSCRIPTIONS: LazyLock<Table> = LazyLock::new(|| Table {
    name: "subscription_rollup",
    key: "subscription_id",
    counts: SUBSCRIPTION_COUNTS.clone(),
});

static TOPICS: LazyLock<Table> = LazyLock::new(|| Table {
    name: "topic_rollup",
    key: "topic_id",
    counts: ["published", "unmatched", "bytes"]
        .map(str::to_owned)
        .into(),
});

/// Whose roll-ups, and from which full grain on.
struct IdRange {
    key: i64,
    start_at: i64,
}

/// The newest roll-up that is too fine: what has been folded before lies behind it.
fn find(
    tx: &Connection,
    table: &Table,
    granularity: Granularity,
    before: i64,
) -> Result<Option<IdRange>, StoreError> {
    let Table { name, key, .. } = table;
    let find = format!(
        "SELECT {key}, start_at - start_at % ?2 FROM {name} \
         WHERE start_at < ?1 AND start_at % ?2 <> 0 ORDER BY start_at DESC LIMIT 1"
    );
    let found = tx
        .prepare_cached(&find)?
        .query_row([before, granularity.ms()], |row| {
            Ok(IdRange {
                key: row.get(0)?,
                start_at: row.get(1)?,
            })
        });
    Ok(found.optional()?)
}

fn fold(
    tx: &Connection,
    table: &Table,
    id_range: &IdRange,
    granularity: Granularity,
) -> rusqlite::Result<()> {
    let Table { name, key, counts } = table;
    let each = |form: fn(&str) -> String| -> String {
        let all: Vec<String> = counts.iter().map(|count| form(count)).collect();
        all.join(", ")
    };
    let add = format!(
        "INSERT INTO {name} ({key}, start_at, {}) SELECT {key}, ?2, {} FROM {name} \
         WHERE {key} = ?1 AND start_at > ?2 AND start_at < ?3 GROUP BY {key} \
         ON CONFLICT DO UPDATE SET {}",
        counts.join(", "),
        each(|count| format!("sum({count})")),
        each(|count| format!("{count} = {count} + excluded.{count}")),
    );
    let forget = format!("DELETE FROM {name} WHERE {key} = ?1 AND start_at > ?2 AND start_at < ?3");
    let values = params![
        id_range.key,
        id_range.start_at,
        id_range.start_at + granularity.ms()
    ];
    tx.prepare_cached(&add)?.execute(values)?;
    tx.prepare_cached(&forget)?.execute(values)?;
    Ok(())
}
