//! Restoring a backup into a new data directory.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::model::backup::Manifest;
use crate::store::backup::verify;
use crate::store::{BackupError, DataDir};

/// Copies the files of the backup at `from` into the empty directory `to`. What was copied is verified.
pub fn restore(from: &Path, manifest: &Manifest, to: &DataDir) -> Result<(), BackupError> {
    for name in manifest.files.keys() {
        let target = to.file(name);
        copy(&from.join(name), &target).map_err(|error| BackupError::at(&target, error))?;
    }
    verify(to.path(), manifest)?;
    to.sync().map_err(|error| BackupError::at(to.path(), error))
}

/// Whole or not at all, and for its owner alone.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let unfinished = to.with_extension("unfinished");
    fs::copy(from, &unfinished)?;
    fs::set_permissions(&unfinished, PermissionsExt::from_mode(0o600))?;
    File::open(&unfinished)?.sync_all()?;
    fs::rename(&unfinished, to)
}
