//! Restoring a backup into a new data directory.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::model::backup::Manifest;
use crate::store::backup::verify;
use crate::store::{BackupError, DataDir};

/// Where a file of a backup is put, in the empty directory `to`, until all are there.
pub fn unfinished(to: &DataDir, name: &str) -> PathBuf {
    to.file(&format!("{name}.unfinished"))
}

/// Puts the files of the backup in the directory `from` there.
pub fn copy(from: &Path, manifest: &Manifest, to: &DataDir) -> Result<(), BackupError> {
    for name in manifest.files.keys() {
        let target = unfinished(to, name);
        fs::copy(from.join(name), &target).map_err(|error| BackupError::at(&target, error))?;
    }
    Ok(())
}

/// Gives the files that are there their names, each whole or not at all, and for its owner alone. They are verified.
pub fn settle(manifest: &Manifest, to: &DataDir) -> Result<(), BackupError> {
    for name in manifest.files.keys() {
        let unfinished = unfinished(to, name);
        fs::set_permissions(&unfinished, PermissionsExt::from_mode(0o600))
            .and_then(|()| File::open(&unfinished)?.sync_all())
            .and_then(|()| fs::rename(&unfinished, to.file(name)))
            .map_err(|error| BackupError::at(&unfinished, error))?;
    }
    verify(to.path(), manifest)?;
    to.sync().map_err(|error| BackupError::at(to.path(), error))
}
