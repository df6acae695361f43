//! The life cycle of the master key: generated at the first start, stored in a file beside the database,
//! replaced on request.
//!
//! One procedure serves the first start, later starts and the replacement. It encrypts every secret that is not yet
//! encrypted by the newest key, in small batches, and then keeps only the newest key in the file. The procedure runs at
//! every start, so it also finishes a replacement that a crash interrupted.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior, params};
use zeroize::Zeroizing;

use crate::base::{Entropy, regular_file};
use crate::store::engine::data_dir::{DataDir, write_private};
use crate::store::engine::encryption::{
    COLUMNS, Column, Encryption, MasterKeys, is_encrypted, key_id,
};
use crate::store::error::StoreError;

/// The name of the key file in the data directory.
pub const MASTER_KEY_FILE: &str = "master.key";

/// Maximum number of bytes that are read from the key file. A key file is much smaller.
const FILE_BYTES_MAX: u64 = 65_536;

/// Cells encrypted in one commit.
const BATCH: usize = 100;

/// The sources of master keys.
pub(in crate::store) struct MasterKeyFile<'a> {
    pub(in crate::store) data_dir: &'a DataDir,
    /// Keys from the configuration. If `None`, the key file is read, or created.
    pub(in crate::store) configured: Option<&'a MasterKeys>,
    pub(in crate::store) entropy: &'a Entropy,
}

/// The result of replacing the master key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rekeyed {
    /// Id of the replaced key. `new` is the id of its replacement.
    pub old: String,
    pub new: String,
    /// Number of texts that were encrypted again.
    pub cells: usize,
}

impl MasterKeyFile<'_> {
    /// Reads the keys and finishes an interrupted replacement. Fails if a key is missing that a stored secret is
    /// encrypted by.
    pub(in crate::store) fn unlock(
        &self,
        connection: &mut Connection,
        progress: &dyn Fn(&str),
    ) -> Result<Encryption, StoreError> {
        Ok(self.unlocked(connection, progress)?.0)
    }

    fn unlocked(
        &self,
        connection: &mut Connection,
        progress: &dyn Fn(&str),
    ) -> Result<(Encryption, MasterKeys), StoreError> {
        let needed = key_ids(connection)?;
        let keys = match self.configured {
            Some(keys) => keys.clone(),
            None => self.read_or_make(&needed)?,
        };
        let encryption = Encryption::new(&keys, self.entropy.clone());
        self.check(&keys, &needed)?;
        encrypt_all(connection, &encryption, progress)?;
        if self.configured.is_none() && keys.count() > 1 {
            self.write(&keys.newest())?;
        }
        Ok((encryption, keys.newest()))
    }

    /// Encrypts all secrets by a new key and deletes the old key. No other process may have the database open.
    pub(in crate::store) fn rekey(
        &self,
        connection: &mut Connection,
        progress: &dyn Fn(&str),
    ) -> Result<Rekeyed, StoreError> {
        let (_, old) = self.unlocked(connection, progress)?;
        let both = old.behind(MasterKeys::generate(self.entropy));
        self.write(&both)?;
        let encryption = Encryption::new(&both, self.entropy.clone());
        let cells = encrypt_all(connection, &encryption, progress)?;
        self.write(&both.newest())?;
        Ok(Rekeyed {
            old: old.id(),
            new: both.id(),
            cells,
        })
    }

    fn read_or_make(&self, needed: &BTreeSet<String>) -> Result<MasterKeys, StoreError> {
        let path = self.path();
        match text_of(&path) {
            Ok(text) => MasterKeys::parse(&text).map_err(|error| self.reject(&error.to_string())),
            Err(error) if error.kind() == ErrorKind::NotFound && needed.is_empty() => {
                let keys = MasterKeys::generate(self.entropy);
                self.write(&keys)?;
                Ok(keys)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Err(self.reject(&format!(
                "it is missing, but the database is encrypted by the master key {}; put that file back, or \
                 name it with --master-key-file",
                listed(needed)
            ))),
            Err(error) => Err(self.reject(&error.to_string())),
        }
    }

    fn check(&self, keys: &MasterKeys, needed: &BTreeSet<String>) -> Result<(), StoreError> {
        let known = keys.ids();
        let missing: BTreeSet<_> = needed.difference(&known).cloned().collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(self.reject(&format!(
            "it holds the master key {}, but the database is encrypted by {}; put the right key back \
             (several keys may stand there, a line each, the newest first)",
            listed(&known),
            listed(&missing)
        )))
    }

    fn reject(&self, problem: &str) -> StoreError {
        let place = match self.configured {
            Some(_) => "the setting master_key".to_owned(),
            None => self.path().display().to_string(),
        };
        StoreError::MasterKey(format!("{place}: {problem}"))
    }

    fn write(&self, keys: &MasterKeys) -> Result<(), StoreError> {
        write_private(&self.path(), &keys.to_text())
            .map_err(|error| self.reject(&error.to_string()))
    }

    fn path(&self) -> PathBuf {
        self.data_dir.file(MASTER_KEY_FILE)
    }
}

fn text_of(path: &Path) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    let file = regular_file::open(path)?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn listed(ids: &BTreeSet<String>) -> String {
    ids.iter().cloned().collect::<Vec<_>>().join(", ")
}

/// Returns the ids of all keys by which secrets in the database are encrypted.
pub(in crate::store) fn key_ids(connection: &Connection) -> Result<BTreeSet<String>, StoreError> {
    let mut ids = BTreeSet::new();
    for Column { table, column } in COLUMNS {
        let all = format!("SELECT {column} FROM {table} WHERE {column} IS NOT NULL");
        let mut select = connection.prepare(&all)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let text: String = row.get(0)?;
            ids.extend(key_id(&text).map(str::to_owned));
        }
    }
    Ok(ids)
}

/// Encrypts all secrets that are not encrypted by the newest key, and erases the old texts from the database file and
/// its log. Returns the number of encrypted secrets.
fn encrypt_all(
    connection: &mut Connection,
    encryption: &Encryption,
    progress: &dyn Fn(&str),
) -> Result<usize, StoreError> {
    let mut encrypted = 0;
    loop {
        let batch = encrypt_batch(connection, encryption, BATCH)?;
        if batch == 0 {
            break;
        }
        encrypted += batch;
        progress(&format!("encrypted {encrypted} secrets by the master key"));
    }
    if encrypted > 0 {
        // Truncates the log, which still holds pages with the old texts.
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);")?;
    }
    Ok(encrypted)
}

/// Encrypts up to `limit` cells in one commit. Returns the number of encrypted cells, 0 if none are left.
fn encrypt_batch(
    connection: &mut Connection,
    encryption: &Encryption,
    limit: usize,
) -> Result<usize, StoreError> {
    // Makes SQLite overwrite old texts with zeros.
    connection.pragma_update(None, "secure_delete", true)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut encrypted = 0;
    for column in COLUMNS {
        for (row, text) in stale(&tx, column, encryption, limit - encrypted)? {
            let text = if is_encrypted(&text) {
                encryption.open(column, row, &text)?
            } else {
                text
            };
            let Column {
                table,
                column: name,
            } = column;
            let update = format!("UPDATE {table} SET {name} = ?2 WHERE id = ?1");
            tx.execute(
                &update,
                params![row, encryption.encrypt(column, row, &text)],
            )?;
            encrypted += 1;
        }
    }
    tx.commit()?;
    Ok(encrypted)
}

/// Returns up to `limit` cells that are not encrypted by the newest key. Empty cells need no encryption.
fn stale(
    connection: &Connection,
    Column { table, column }: Column,
    encryption: &Encryption,
    limit: usize,
) -> Result<Vec<(i64, Zeroizing<String>)>, StoreError> {
    let prefix = encryption.prefix();
    let select = format!(
        "SELECT id, {column} FROM {table}
         WHERE {column} <> '' AND substr({column}, 1, ?1) <> ?2 LIMIT ?3"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let length = i64::try_from(prefix.len()).unwrap_or(i64::MAX);
    let mut select = connection.prepare(&select)?;
    let rows = select.query_map(params![length, prefix, limit], |row| {
        Ok((row.get(0)?, Zeroizing::new(row.get(1)?)))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
#[path = "master_key_tests.rs"]
mod tests;
