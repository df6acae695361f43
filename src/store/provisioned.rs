//! Which objects come from the provisioning directory, and that nobody else changes them.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, Row, params};
use serde_json::{Value, json};

use crate::model::audit::{Actor, AuditAction, AuditEntry, AuditTarget, TargetKind};
use crate::model::provisioned::Mark;
use crate::store::engine::db::{Db, WriteTx};
use crate::store::error::StoreError;
use crate::store::row::unreadable;
use crate::store::sql::Sql;
use crate::wire::resource::configuration::above;

/// The marks of the resources that are provisioned from files.
#[derive(Clone)]
pub struct ProvisionedStore {
    pub(super) db: Db,
}

impl ProvisionedStore {
    /// Returns the marks of all provisioned resources.
    pub async fn all(&self) -> Result<Vec<Mark>, StoreError> {
        let select = "SELECT kind, name, file FROM provisioned";
        self.db.read(|tx| tx.readable(select, [], mark)).await
    }

    /// Replaces all marks by `marks`.
    pub async fn replace(&self, marks: Vec<Mark>) -> Result<(), StoreError> {
        let put = "INSERT INTO provisioned (kind, name, file) VALUES (?1, ?2, ?3)";
        let change = move |tx: &WriteTx| {
            tx.run("DELETE FROM provisioned", [])?;
            for Mark { target, file } in marks {
                tx.run(put, params![word(target.kind), target.name, file])?;
            }
            Ok::<_, StoreError>(())
        };
        self.db.write(change).await
    }
}

/// Rejects what `entry` is about to record if a file alone has the say in it.
pub(super) fn check(tx: &Connection, entry: &AuditEntry) -> Result<(), StoreError> {
    let target = &entry.target;
    if !entry.action.redefines() || matches!(entry.caller.actor, Actor::Provisioning(_)) {
        return Ok(());
    }
    let own = "SELECT kind, name, file FROM provisioned WHERE kind = ?1 AND name = ?2";
    let mut found = tx.first(own, params![word(target.kind), target.name], mark)?;
    if found.is_none() && matches!(entry.action, AuditAction::Delete { .. }) {
        let below =
            "SELECT kind, name, file FROM provisioned WHERE instr(lower(name), lower(?1)) = 1";
        let mut below = tx
            .all(below, [format!("{}/", target.name)], mark)?
            .into_iter();
        found = below.find(|mark| belongs_to(&mark.target, target));
    }
    match found {
        Some(Mark { target, file }) => Err(StoreError::Provisioned {
            target: target.to_string(),
            file,
        }),
        None => Ok(()),
    }
}

/// Reports whether the deletion of `outer` deletes `inner`, too.
fn belongs_to(inner: &AuditTarget, outer: &AuditTarget) -> bool {
    let is_outer =
        |of: AuditTarget| of.kind == outer.kind && of.name.eq_ignore_ascii_case(&outer.name);
    above(inner).into_iter().any(is_outer)
}

fn mark(row: &Row<'_>) -> Result<Mark, StoreError> {
    let kind: String = row.get(0)?;
    let kind: TargetKind = serde_json::from_value(Value::from(kind))
        .map_err(|error| unreadable("provisioned object", error))?;
    Ok(Mark {
        target: kind.named(row.get::<_, String>(1)?),
        file: row.get(2)?,
    })
}

/// The kind as files write it.
fn word(kind: TargetKind) -> SqlValue {
    SqlValue::Text(json!(kind).as_str().unwrap_or_default().to_owned())
}
