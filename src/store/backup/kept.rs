//! Finds and verifies existing backups, and deletes old ones.

use std::fs::{self, File};
use std::io::{self, Read, Take};
use std::path::{Path, PathBuf};

use crate::base::{regular_file, sha256_of};
use crate::model::backup::{BackupFile, FORMAT, KeptBackup, MANIFEST_FILE, Manifest, NAME_PREFIX};
use crate::store::engine::migrate;
use crate::store::{BackupError, FILE};

/// Maximum size of a manifest in bytes, many times the size of a real one.
const MANIFEST_BYTES_MAX: u64 = 65_536;

/// Maximum number of backups in a directory that are examined, the newest ones; more than are ever kept.
const LOOKED_AT_MAX: usize = 1_000;

/// Returns the directory in `dir` in which a backup of the database `database_id` is made or deleted. There is one per
/// database, and its name, which begins with a dot, is not that of a backup.
pub(super) fn draft_of(dir: &Path, database_id: &str) -> PathBuf {
    dir.join(format!(".{NAME_PREFIX}{database_id}.unfinished"))
}

/// The size and the digest of a file.
pub(super) fn describe(file: &Path) -> Result<BackupFile, BackupError> {
    let read = File::open(file).and_then(sha256_of);
    let (sha256, bytes) = read.map_err(|error| BackupError::at(file, error))?;
    Ok(BackupFile { bytes, sha256 })
}

/// Reads the manifest of the backup at `path`.
pub fn read(path: &Path) -> Result<Manifest, BackupError> {
    let file = path.join(MANIFEST_FILE);
    let text = text_of(&file).map_err(|error| BackupError::at(&file, error))?;
    parse(&text).map_err(|error| BackupError::at(&file, error))
}

fn text_of(manifest: &Path) -> io::Result<String> {
    let file = regular_file::open_unlinked(manifest)?;
    if file.metadata()?.len() > MANIFEST_BYTES_MAX {
        return Err(io::Error::other(format!(
            "it has more than {MANIFEST_BYTES_MAX} bytes, which no manifest has"
        )));
    }
    io::read_to_string(file.take(MANIFEST_BYTES_MAX))
}

/// Reads the text of a manifest. The error says why the backup cannot be restored.
pub fn parse(text: &str) -> Result<Manifest, String> {
    let manifest: Manifest = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match fault_of(&manifest) {
        None => Ok(manifest),
        Some(fault) => Err(fault.to_owned()),
    }
}

fn fault_of(manifest: &Manifest) -> Option<&'static str> {
    let is_plain = |name: &String| {
        Path::new(name)
            .file_name()
            .is_some_and(|last| *last == **name)
    };
    if manifest.format > FORMAT || manifest.schema > migrate::newest() {
        return Some("it was made by a newer release of Everpost, which can restore it");
    }
    if !manifest.files.keys().all(is_plain) {
        return Some("it names files outside of the backup");
    }
    (!manifest.files.contains_key(FILE)).then_some("it names no database")
}

/// Checks that the files in `dir` are those of the manifest, to the last bit.
pub fn verify(dir: &Path, manifest: &Manifest) -> Result<(), BackupError> {
    for (name, expected) in &manifest.files {
        let path = dir.join(name);
        let read = sha256_of(open(&path, expected)?);
        let (sha256, bytes) = read.map_err(|error| BackupError::at(&path, error))?;
        if (BackupFile { bytes, sha256 }) != *expected {
            return Err(damaged(&path));
        }
    }
    Ok(())
}

/// Opens a file of a backup, which may come from an untrusted source. Returns an error if `path` is not a regular file
/// (links are not followed), or if its size is not the expected one.
pub(super) fn open(path: &Path, expected: &BackupFile) -> Result<Take<File>, BackupError> {
    let opened = regular_file::open_unlinked(path);
    let sized = opened.and_then(|file| Ok((file.metadata()?.len(), file)));
    let (bytes, file) = sized.map_err(|error| BackupError::at(path, error))?;
    if bytes != expected.bytes {
        return Err(damaged(path));
    }
    Ok(file.take(bytes))
}

fn damaged(path: &Path) -> BackupError {
    BackupError::at(
        path,
        "it is damaged: size or SHA-256 are not those of the manifest",
    )
}

/// Deletes all backups of the database in `dir` but the newest `keep`, and returns the remaining ones, newest first.
/// Backups of other databases in `dir` are left alone.
pub(super) fn keep_newest(
    dir: &Path,
    database_id: &str,
    keep: usize,
) -> Result<Vec<KeptBackup>, BackupError> {
    let mut kept = of_database(dir, database_id)?;
    for old in kept.split_off(keep.min(kept.len())) {
        delete(dir, &old)?;
    }
    Ok(kept)
}

fn of_database(dir: &Path, database_id: &str) -> Result<Vec<KeptBackup>, BackupError> {
    let entries = fs::read_dir(dir).map_err(|error| BackupError::at(dir, error))?;
    let is_backup = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let is_named_so = name
            .to_str()
            .is_some_and(|name| name.starts_with(NAME_PREFIX));
        is_named_so && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    let backups = entries.filter_map(Result::ok).filter(is_backup);
    let mut paths: Vec<PathBuf> = backups.map(|entry| entry.path()).collect();
    paths.sort_unstable_by(|one, other| other.cmp(one)); // names begin with the moment
    paths.truncate(LOOKED_AT_MAX);
    let found = paths.into_iter().filter_map(|path| {
        let manifest = read(&path).ok()?;
        let path = path.display().to_string();
        (manifest.database_id == database_id).then_some(KeptBackup { path, manifest })
    });
    Ok(found.collect())
}

/// Renames the backup before its files are deleted, so that no backup is ever found with only a part of its files.
fn delete(dir: &Path, backup: &KeptBackup) -> Result<(), BackupError> {
    let draft = draft_of(dir, &backup.manifest.database_id);
    fs::rename(&backup.path, &draft)
        .and_then(|()| fs::remove_dir_all(&draft))
        .map_err(|error| BackupError::at(Path::new(&backup.path), error))
}
