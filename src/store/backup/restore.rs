//! Restoring a backup into a new data directory.

use std::fs;
use std::path::Path;

use crate::model::backup::Manifest;
use crate::store::backup::verify;
use crate::store::{BackupError, NewDataDir};

/// Copies the files of the backup in the directory `from`.
pub fn copy(from: &Path, manifest: &Manifest, to: &NewDataDir<'_>) -> Result<(), BackupError> {
    for name in manifest.files.keys() {
        let target = to.file(name);
        fs::copy(from.join(name), &target).map_err(|error| BackupError::at(&target, error))?;
    }
    Ok(())
}

/// Verifies the files, and makes a data directory of them.
pub fn settle(manifest: &Manifest, to: NewDataDir<'_>) -> Result<(), BackupError> {
    verify(to.path(), manifest)?;
    let path = to.path().to_owned();
    let names = manifest.files.keys().map(String::as_str);
    to.finish(names)
        .map_err(|error| BackupError::at(&path, error))
}
