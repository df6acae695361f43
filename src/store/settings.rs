//! Settings that were changed while the appliance ran. What they mean is decided elsewhere.

use rusqlite::{Connection, params};

use crate::model::audit::AuditEntry;
use crate::model::setting::SavedSettings;
use crate::store::engine::db::Db;
use crate::store::error::StoreError;
use crate::store::sql::Sql;

/// Saved settings.
#[derive(Clone)]
pub struct SettingStore {
    pub(super) db: Db,
}

impl SettingStore {
    /// Returns all saved settings.
    pub async fn saved(&self) -> Result<SavedSettings, StoreError> {
        self.db.read(all).await
    }

    /// Saves the value of a setting, or forgets it.
    pub async fn save(
        &self,
        name: &'static str,
        value: Option<String>,
        entry: AuditEntry,
    ) -> Result<(), StoreError> {
        self.db
            .write_audited(move |tx| {
                match value {
                    Some(value) => tx.run(
                        "INSERT OR REPLACE INTO setting (name, value) VALUES (?1, ?2)",
                        params![name, value],
                    )?,
                    None => tx.run("DELETE FROM setting WHERE name = ?1", [name])?,
                };
                Ok(((), Some(entry)))
            })
            .await
    }
}

pub(super) fn all(tx: &Connection) -> Result<SavedSettings, StoreError> {
    let rows = tx.readable("SELECT name, value FROM setting", [], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(rows.into_iter().collect())
}
