//! Assembly of a data directory from restored or salvaged files.
//!
//! The files are written to a subdirectory of the data directory, flushed to disk, and then moved into the data
//! directory, the database last. If the process or the machine stops at any point, the data directory therefore has
//! either a database with all files that belong to it, or no database.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::store::FILE;
use crate::store::engine::data_dir::{DataDir, LOCK, sync_dir};

/// Name of the subdirectory of the data directory in which the files are assembled.
pub(super) const UNFINISHED: &str = "unfinished";

/// A data directory in the making.
pub struct NewDataDir<'a> {
    data_dir: &'a DataDir,
    dir: PathBuf,
}

impl<'a> NewDataDir<'a> {
    /// Creates an empty subdirectory for the files, and deletes what an earlier attempt has left.
    pub fn begin(data_dir: &'a DataDir) -> io::Result<Self> {
        let dir = data_dir.file(UNFINISHED);
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(&dir)?;
        data_dir.sync()?;
        Ok(Self { data_dir, dir })
    }

    /// Returns the path at which the file `name` is to be written.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns the path of the subdirectory in which the files are assembled.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Moves the files `names` into the data directory, with permissions for their owner alone (0600). Names of files
    /// that do not exist are skipped.
    pub fn finish<'n>(self, names: impl IntoIterator<Item = &'n str>) -> io::Result<()> {
        let mut names: Vec<&str> = names
            .into_iter()
            .filter(|name| self.file(name).exists())
            .collect();
        names.sort_by_key(|name| *name == FILE);
        for name in &names {
            let file = self.file(name);
            fs::set_permissions(&file, PermissionsExt::from_mode(0o600))?;
            File::open(&file)?.sync_all()?;
        }
        sync_dir(&self.dir)?;
        for name in names {
            if name == FILE {
                self.data_dir.sync()?;
            }
            fs::rename(self.file(name), self.data_dir.file(name))?;
        }
        self.data_dir.sync()?;
        fs::remove_dir_all(&self.dir)?;
        self.data_dir.sync()
    }
}

/// Returns whether a directory can become a data directory: it is missing or empty, holds nothing but the lock file, or
/// holds what an unfinished restore or salvage has left, and no database.
pub fn can_be_filled(dir: &Path) -> bool {
    let is_unfinished = dir.join(UNFINISHED).is_dir() && !dir.join(FILE).exists();
    let is_used = fs::read_dir(dir).is_ok_and(|files| {
        let mut names = files.flatten().map(|file| file.file_name());
        names.any(|name| name != LOCK)
    });
    is_unfinished || !is_used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_gets_its_name_last() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(can_be_filled(dir.path()) && can_be_filled(&dir.path().join("missing")));
        let data_dir = DataDir::open(dir.path()).expect("a data directory");
        assert!(can_be_filled(dir.path()), "it has a lock alone");
        let draft = NewDataDir::begin(&data_dir).expect("a draft");
        for name in [FILE, "a.key", "z.key"] {
            fs::write(draft.file(name), name).expect("a file");
        }
        assert!(can_be_filled(dir.path()));
        // One of the others cannot get its name: the database has none, either.
        fs::create_dir_all(dir.path().join("z.key/in the way")).expect("a directory");
        draft
            .finish([FILE, "a.key", "z.key", "missing"])
            .expect_err("a name that is taken");
        assert!(can_be_filled(dir.path()));
        fs::remove_dir_all(dir.path().join("z.key")).expect("out of the way");

        let draft = NewDataDir::begin(&data_dir).expect("a draft");
        for name in [FILE, "a.key", "z.key"] {
            fs::write(draft.file(name), name).expect("a file");
        }
        draft
            .finish([FILE, "a.key", "z.key", "missing"])
            .expect("all of them");
        for name in [FILE, "a.key", "z.key"] {
            let text = fs::read_to_string(dir.path().join(name)).expect("a file");
            assert_eq!(text, name);
        }
        assert!(!can_be_filled(dir.path()) && !dir.path().join(UNFINISHED).exists());
    }
}
