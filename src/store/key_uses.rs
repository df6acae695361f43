//! When access keys were last used.

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::access::{KeyOwner, KeyRef};
use crate::store::engine::db::Db;
use crate::store::error::StoreError;
use crate::store::sql::Sql;

/// The uses of access keys.
#[derive(Clone)]
pub struct KeyUses {
    pub(super) db: Db,
}

impl KeyUses {
    /// Stores when these keys were used, in one transaction.
    pub async fn keep(&self, uses: Vec<(KeyRef, Timestamp)>) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                for (KeyRef { owner, key }, at) in &uses {
                    let (table, id) = row_of(*owner);
                    let update = format!("UPDATE {table} SET {key}_used_at = ?2 WHERE id = ?1");
                    tx.run(&update, params![id, at])?;
                }
                Ok(())
            })
            .await
    }

    /// Returns when each of the two keys of `owner` was last used.
    pub async fn of(&self, owner: KeyOwner) -> Result<[Option<Timestamp>; 2], StoreError> {
        let (table, id) = row_of(owner);
        let select = format!("SELECT key1_used_at, key2_used_at FROM {table} WHERE id = ?1");
        self.db
            .read(move |tx| {
                let uses = tx.first(&select, [id], |row| Ok([row.get(0)?, row.get(1)?]))?;
                Ok(uses.unwrap_or_default())
            })
            .await
    }
}

/// Forgets the use of a key that has another value now.
pub(super) fn forget(tx: &Connection, KeyRef { owner, key }: KeyRef) -> rusqlite::Result<usize> {
    let (table, id) = row_of(owner);
    let update = format!("UPDATE {table} SET {key}_used_at = NULL WHERE id = ?1");
    tx.run(&update, [id])
}

/// The table and the id of the row that holds the keys.
fn row_of(owner: KeyOwner) -> (&'static str, i64) {
    match owner {
        KeyOwner::Topic(id) => ("topic", id.0),
        KeyOwner::Namespace(id) => ("namespace", id.0),
        KeyOwner::AccessRule(id) => ("access_rule", id.0),
    }
}
