//! Backups: directories with a copy of the database, of what else a start needs, and a manifest by which damage is
//! noticed.
//!
//! A backup is made under another name, flushed and verified before it gets its own, so whatever has one is whole.

mod kept;
mod restore;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;

use rusqlite::Connection;
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use self::kept::{describe, draft_of, keep_newest};
pub use self::kept::{parse, read, verify};
pub use self::restore::{copy, settle};
use crate::base::{Clock, human, regular_file, sha256_hex};
use crate::model::backup::{BackupCounts, FORMAT, KeptBackup, MANIFEST_FILE, Manifest};
use crate::store::engine::data_dir::{free_bytes, sync_dir};
use crate::store::engine::db::{self, LogHold};
use crate::store::engine::online_copy::{EachStep, copy_online};
use crate::store::engine::{checksum, master_key, migrate};
use crate::store::{BackupError, DataDir, FILE, Pages, StoreError, Upkeep, write_private};

/// The bytes that the write-ahead log may grow to while a snapshot is held: more than a busy appliance writes while
/// some tens of gigabytes are copied.
const LOG_BYTES_MAX: u64 = 4 * 1_024 * 1_024 * 1_024;

/// The lowest priority that there is.
#[cfg(target_os = "linux")]
const NICE_MAX: i32 = 19;

/// The place in the data directory of a backup that goes elsewhere.
const STAGE: &str = "backup-upload";

/// Characters of a database's id: enough to tell the appliances apart that share a directory.
const ID_CHARACTERS: usize = 16;

/// An order to back up the database and files beside it into a directory.
#[derive(Clone, Debug)]
pub struct BackupOrder {
    /// The directory that gets the backup; it exists.
    pub into: PathBuf,
    /// Files of the data directory, as far as they are there.
    pub beside: &'static [&'static str],
    /// Free bytes that are left on the disks.
    pub free_bytes_min: u64,
}

impl Upkeep {
    /// Makes a backup while the database is used, on a thread of its own. `progress` is called with the pages copied so
    /// far, and returns whether to go on.
    pub async fn back_up(
        &self,
        order: BackupOrder,
        clock: Clock,
        mut progress: impl FnMut(Pages) -> bool + Send + 'static,
    ) -> Result<KeptBackup, BackupError> {
        let (sender, made) = oneshot::channel();
        let data_dir = self.data_dir()?;
        let db = self.db.clone();
        let run = move || {
            give_way();
            let hold = db.hold_log();
            let made = make_with(hold, &data_dir, &order, &clock, &mut progress);
            drop(sender.send(made)); // nobody may wait for it any more
        };
        thread::Builder::new()
            .name("store-backup".to_owned())
            .spawn(run)
            .map_err(|cause| BackupError(format!("cannot start: {cause}")))?;
        made.await.map_err(|_| StoreError::Closed)?
    }

    /// A directory for a backup that goes elsewhere.
    pub fn stage(&self) -> Result<StagingDirectory, BackupError> {
        StagingDirectory::begin(&*self.data_dir()?)
    }

    /// Returns the id that tells this database from others.
    pub fn database_id(&self) -> Result<String, BackupError> {
        database_id(&self.data_dir()?.file(FILE))
    }

    /// The backups of this database in `dir`, the newest first. More than `keep` of them are deleted.
    pub async fn keep_backups(
        &self,
        dir: PathBuf,
        keep: usize,
    ) -> Result<Vec<KeptBackup>, BackupError> {
        let database = self.data_dir()?.file(FILE);
        let kept = move || keep_newest(&dir, &database_id(&database)?, keep);
        let kept = tokio::task::spawn_blocking(kept).await;
        kept.map_err(|_| StoreError::Closed)?
    }
}

/// Leaves the processors to other threads that want them, for as long as this one lives: checking and hashing a copy
/// keep one busy.
fn give_way() {
    // On Linux alone a thread has a priority of its own.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICE_MAX);
}

/// A directory for a backup that goes elsewhere. When it is dropped, it is deleted with all that is in it.
pub struct StagingDirectory(UnnamedBackup);

impl StagingDirectory {
    /// In the place of one that a killed process has left.
    pub fn begin(data_dir: &DataDir) -> Result<Self, BackupError> {
        UnnamedBackup::begin(data_dir.file(STAGE)).map(Self)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0.0
    }
}

/// Makes a backup of the database in `data_dir`, which nobody else uses; see [`Upkeep::back_up`].
pub fn make(
    data_dir: &DataDir,
    order: &BackupOrder,
    clock: &Clock,
    progress: &mut dyn FnMut(Pages) -> bool,
) -> Result<KeptBackup, BackupError> {
    make_with(None, data_dir, order, clock, progress)
}

/// `hold` ends with the snapshot, long before the backup is verified.
fn make_with(
    hold: Option<LogHold>,
    data_dir: &DataDir,
    order: &BackupOrder,
    clock: &Clock,
    progress: &mut dyn FnMut(Pages) -> bool,
) -> Result<KeptBackup, BackupError> {
    let (made_at, database) = (clock.now(), data_dir.file(FILE));
    let database_id = database_id(&database)?;
    let space = DiskSpace {
        data_dir: data_dir.path(),
        order,
    };
    space.check_for(&database)?;
    let draft = UnnamedBackup::begin(draft_of(&order.into, &database_id))?;
    copy_database(&database, &draft.file(FILE), &mut |pages| {
        space.check(&database)?;
        if progress(pages) {
            Ok(())
        } else {
            Err(BackupError("it was stopped".to_owned()))
        }
    })?;
    drop(hold);
    for name in order.beside {
        copy_private(&data_dir.file(name), &draft.file(name))?;
    }
    let Contents {
        schema,
        counts,
        master_keys,
    } = examine(&draft.file(FILE))?;
    let names = [FILE].into_iter().chain(order.beside.iter().copied());
    let mut files = BTreeMap::new();
    for name in names.filter(|name| draft.file(name).exists()) {
        files.insert(name.to_owned(), describe(&draft.file(name))?);
    }
    let took = clock.now().since(made_at);
    let manifest = Manifest {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        made_at,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        database_id,
        schema,
        counts,
        master_keys,
        files,
    };
    draft.finish(&order.into, manifest)
}

/// Checks during a backup that enough stays free on the disks, and that the log does not grow too large.
struct DiskSpace<'a> {
    data_dir: &'a Path,
    order: &'a BackupOrder,
}

impl DiskSpace<'_> {
    /// Fails if there is not enough free space for a copy of the database.
    fn check_for(&self, database: &Path) -> Result<(), BackupError> {
        let BackupOrder {
            into,
            free_bytes_min,
            ..
        } = self.order;
        let bytes = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        let needed = bytes(database) + bytes(&db::log_of(database));
        let free = free_bytes(into).map_err(|error| BackupError::at(into, error))?;
        if free >= needed.saturating_add(*free_bytes_min) {
            Ok(())
        } else {
            Err(BackupError::at(
                into,
                format!(
                    "{} are free, and the backup takes up to {} besides the {} that have to stay free \
                     (storage.min_free_mb)",
                    human::bytes(free),
                    human::bytes(needed),
                    human::bytes(*free_bytes_min)
                ),
            ))
        }
    }

    /// Fails if too little is left on one of the disks, or if the log has grown too large.
    fn check(&self, database: &Path) -> Result<(), BackupError> {
        for dir in [self.data_dir, self.order.into.as_path()] {
            let free = free_bytes(dir).map_err(|error| BackupError::at(dir, error))?;
            if free < self.order.free_bytes_min {
                let problem = "less is free on its disk than storage.min_free_mb asks for";
                return Err(BackupError::at(dir, problem));
            }
        }
        let log = db::log_of(database);
        if fs::metadata(&log).is_ok_and(|log| log.len() > LOG_BYTES_MAX) {
            let most = human::bytes(LOG_BYTES_MAX);
            let problem = format!("it has grown past {most} while the backup was made");
            return Err(BackupError::at(&log, problem));
        }
        Ok(())
    }
}

/// A backup that has no name yet: what is left of it when it is dropped is deleted.
struct UnnamedBackup(PathBuf);

impl UnnamedBackup {
    /// In the place of one that a killed process has left.
    fn begin(path: PathBuf) -> Result<Self, BackupError> {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(BackupError::at(&path, error));
            }
            _ => {}
        }
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| BackupError::at(&path, error))?;
        Ok(Self(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Gives it its name in the directory `into`.
    fn finish(self, into: &Path, manifest: Manifest) -> Result<KeptBackup, BackupError> {
        let path = into.join(manifest.name());
        let text = serde_json::to_string_pretty(&manifest).expect("a manifest is JSON");
        write_private(&self.file(MANIFEST_FILE), &format!("{text}\n"))
            .and_then(|()| fs::rename(&self.0, &path))
            .and_then(|()| sync_dir(into))
            .map_err(|error| BackupError::at(&path, error))?;
        Ok(KeptBackup {
            path: path.display().to_string(),
            manifest,
        })
    }
}

impl Drop for UnnamedBackup {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // it is not there any more once it has its name
    }
}

fn copy_database(from: &Path, to: &Path, each_step: EachStep<'_>) -> Result<(), BackupError> {
    migrate::make_private(to)?;
    copy_online(from, to, each_step)
}

/// Copies a text that may be a secret, if it is there.
fn copy_private(from: &Path, to: &Path) -> Result<(), BackupError> {
    let read = regular_file::open(from).and_then(io::read_to_string);
    let text = match read.map(Zeroizing::new) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(BackupError::at(from, error)),
    };
    write_private(to, &text).map_err(|error| BackupError::at(to, error))
}

/// The contents of a copied database, for the manifest of the backup.
struct Contents {
    schema: i64,
    counts: BackupCounts,
    master_keys: Vec<String>,
}

/// Reads every page of a copy, and makes one file of it that is read without a log.
fn examine(copy: &Path) -> Result<Contents, BackupError> {
    let connection = Connection::open(copy)?;
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(StoreError::Damaged(verdict).into());
    }
    let counts = "SELECT (SELECT count(*) FROM topic WHERE id > 0 AND deleted_at IS NULL),
        (SELECT count(*) FROM event_subscription WHERE deleted_at IS NULL),
        (SELECT count(*) FROM event), (SELECT coalesce(sum(pending), 0) FROM subscription_total)";
    let counts = connection.query_row(counts, [], |row| {
        Ok(BackupCounts {
            topics: row.get(0)?,
            event_subscriptions: row.get(1)?,
            events: row.get(2)?,
            pending_deliveries: row.get(3)?,
            damaged: 0,
        })
    })?;
    let counts = BackupCounts {
        damaged: checksum::count_damaged(&connection)?,
        ..counts
    };
    let contents = Contents {
        schema: migrate::schema_version(&connection)?,
        counts,
        master_keys: master_key::key_ids(&connection)?.into_iter().collect(),
    };
    connection.pragma_update(None, "journal_mode", "DELETE")?;
    drop(connection);
    let file = File::open(copy).and_then(|file| file.sync_all());
    file.map_err(|error| BackupError::at(copy, error))?;
    Ok(contents)
}

/// Returns the id that tells a database from others. It is made from the moment in which the database was created, so a
/// restored database keeps it.
fn database_id(database: &Path) -> Result<String, BackupError> {
    if !database.is_file() {
        return Err(BackupError::at(database, "there is no database"));
    }
    let created_at = "SELECT applied_on FROM refinery_schema_history ORDER BY version LIMIT 1";
    let connection = db::open_reader(database)?;
    let created_at: String = connection.query_row(created_at, [], |row| row.get(0))?;
    let mut id = sha256_hex(created_at.as_bytes());
    id.truncate(ID_CHARACTERS);
    Ok(id)
}
