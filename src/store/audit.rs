//! The audit log. Entries are added and, in the end, deleted, but never changed.

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, Row, params, params_from_iter};

use crate::base::Timestamp;
use crate::model::audit::{Actor, AuditEntry, AuditId, AuditRow, Change};
use crate::model::limits::{AUDIT_LIFE, AUDIT_ROWS_MAX};
use crate::store::engine::db::Db;
use crate::store::error::StoreError;
use crate::store::views::{PAGE_ROWS_MAX, Page, Views};

/// Old entries that one addition deletes at most, so that it stays quick.
const FORGOTTEN_AT_ONCE: i64 = 100;

/// The audit log.
#[derive(Clone)]
pub struct Audit {
    pub(super) db: Db,
}

/// Which entries to list.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// The actor's name, or its kind.
    pub actor: Option<String>,
    /// The beginning of the path.
    pub path: Option<String>,
    pub from: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
    pub before: Option<AuditId>,
    pub limit: usize,
}

impl Audit {
    /// Adds an entry, and deletes what is too old or too much.
    pub async fn add(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.db.write(move |tx| add(tx, &entry)).await
    }
}

impl Views {
    /// Entries, newest first.
    pub async fn audit(&self, query: AuditQuery) -> Result<Page<AuditRow, AuditId>, StoreError> {
        self.db.read(move |tx| list(tx, &query)).await
    }
}

fn add(tx: &Connection, entry: &AuditEntry) -> Result<(), StoreError> {
    let changes: Vec<[&str; 3]> = entry
        .changes
        .iter()
        .map(|change| [&*change.property, &*change.before, &*change.after])
        .collect();
    let changes =
        serde_json::to_string(&changes).map_err(|error| StoreError::Other(error.to_string()))?;
    tx.prepare_cached(
        "INSERT INTO audit (at, actor_kind, actor, address, method, path, changes, name) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        entry.at.as_ms(),
        entry.actor.kind(),
        entry.actor.name(),
        entry.address,
        entry.method,
        entry.path,
        changes,
        entry.name
    ])?;
    let last_to_go = tx.last_insert_rowid().saturating_sub(AUDIT_ROWS_MAX);
    tx.prepare_cached(
        "DELETE FROM audit WHERE id IN \
             (SELECT id FROM audit WHERE id <= ?1 OR at < ?2 ORDER BY id LIMIT ?3)",
    )?
    .execute(params![
        last_to_go,
        (entry.at - AUDIT_LIFE).as_ms(),
        FORGOTTEN_AT_ONCE
    ])?;
    Ok(())
}

fn list(tx: &Connection, query: &AuditQuery) -> Result<Page<AuditRow, AuditId>, StoreError> {
    let limit = query.limit.clamp(1, PAGE_ROWS_MAX);
    let newest = query
        .before
        .map_or(i64::MAX, |before| before.0.saturating_sub(1));
    let mut conditions = "id <= ?".to_owned();
    let mut values = vec![Sql::from(newest)];
    let mut and = |condition: &str, value: Sql| {
        conditions.push_str(" AND ");
        conditions.push_str(condition);
        values.push(value);
    };
    if let Some(actor) = &query.actor {
        and("? IN (actor, actor_kind)", actor.clone().into());
    }
    if let Some(path) = &query.path {
        and("instr(path, ?) = 1", path.clone().into());
    }
    if let Some(from) = query.from {
        and("at >= ?", from.as_ms().into());
    }
    if let Some(until) = query.until {
        and("at < ?", until.as_ms().into());
    }
    let limit_plus_one = i64::try_from(limit + 1).unwrap_or(i64::MAX);
    values.push(limit_plus_one.into());
    let select = format!(
        "SELECT id, at, actor_kind, actor, address, method, path, changes, name FROM audit \
         WHERE {conditions} ORDER BY id DESC LIMIT ?"
    );
    let mut select = tx.prepare_cached(&select)?;
    let rows = select.query_map(params_from_iter(values), row)?;
    let mut rows: Vec<AuditRow> = rows.collect::<Result<_, _>>()?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next_before = rows.last().filter(|_| has_more).map(|row| row.id);
    Ok(Page { rows, next_before })
}

fn row(row: &Row<'_>) -> rusqlite::Result<AuditRow> {
    let kind: String = row.get(2)?;
    let changes: String = row.get(7)?;
    let changes: Vec<[String; 3]> = serde_json::from_str(&changes).unwrap_or_default();
    let change = |[property, before, after]: [String; 3]| Change {
        property,
        before,
        after,
    };
    Ok(AuditRow {
        id: AuditId(row.get(0)?),
        entry: AuditEntry {
            at: Timestamp::from_ms(row.get(1)?),
            actor: Actor::of(&kind, row.get(3)?),
            address: row.get(4)?,
            method: row.get(5)?,
            path: row.get(6)?,
            name: row.get(8)?,
            changes: changes.into_iter().map(change).collect(),
        },
    })
}
