//! Restoring a backup into a new data directory.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::model::backup::Manifest;
use crate::store::backup::kept::open;
use crate::store::backup::verify;
use crate::store::{BackupError, NewDataDir};

/// Copies the files of the backup in the directory `from`.
pub fn copy(from: &Path, manifest: &Manifest, to: &NewDataDir<'_>) -> Result<(), BackupError> {
    for (name, expected) in &manifest.files {
        let mut file = open(&from.join(name), expected)?;
        let target = to.file(name);
        let copied = File::create(&target).and_then(|mut copy| io::copy(&mut file, &mut copy));
        copied.map_err(|error| BackupError::at(&target, error))?;
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
