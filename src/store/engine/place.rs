//! Checks of a data directory before anything in it is changed: whether the database file may be created, or read and
//! written.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::store::FILE;
use crate::store::engine::data_dir::DataDir;
use crate::store::engine::db::log_of;
use crate::store::engine::master_key::MASTER_KEY_FILE;
use crate::store::engine::new_data_dir::UNFINISHED;
use crate::store::error::StoreError;

/// Files that belong to a database and do not exist before it is created.
const BESIDE: [&str; 2] = [MASTER_KEY_FILE, "management.token"];

/// Checks the files of the database in `data_dir`. Returns an error if the database file is missing or empty although
/// other files show that there was a database or that a restore or salvage is unfinished, or if one of its files cannot
/// be read and written.
pub(in crate::store) fn judge(data_dir: &DataDir) -> Result<(), StoreError> {
    let path = data_dir.file(FILE);
    let length = fs::metadata(&path).map(|file| file.len()).ok();
    if length.unwrap_or(0) == 0 {
        return reject_remains(data_dir, &path, length.is_some());
    }
    files_of(&path)
        .iter()
        .try_for_each(|file| check_writable(file))
}

/// Returns the paths of the database file, its write-ahead log and its shared-memory file.
fn files_of(path: &Path) -> [PathBuf; 3] {
    let mut shared = path.as_os_str().to_owned();
    shared.push("-shm");
    [path.to_owned(), log_of(path), shared.into()]
}

fn check_writable(file: &Path) -> Result<(), StoreError> {
    match access(file, Access::READ_OK | Access::WRITE_OK) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(_) => {}
    }
    Err(StoreError::Other(format!(
        "{} cannot be read and written by this process; give the file back to its user (chown) and make it writable \
         (chmod u+rw)",
        file.display()
    )))
}

/// Returns an error if the data directory holds an unfinished restore or salvage, or files of a lost database: a new
/// database would replace the lost one, whose write-ahead log would be thrown away.
fn reject_remains(data_dir: &DataDir, path: &Path, is_there: bool) -> Result<(), StoreError> {
    if data_dir.file(UNFINISHED).exists() {
        return Err(StoreError::Other(format!(
            "{} holds what a restore or a salvage has left that did not end; run it again",
            data_dir.path().display()
        )));
    }
    let log = log_of(path);
    let is_log = fs::metadata(&log).is_ok_and(|file| file.len() > 0);
    let mut remains: Vec<String> = BESIDE
        .map(|name| data_dir.file(name))
        .into_iter()
        .filter(|file| file.exists())
        .map(|file| file.display().to_string())
        .collect();
    if is_log {
        remains.insert(0, log.display().to_string());
    }
    if remains.is_empty() {
        return Ok(());
    }
    let state = if is_there { "is empty" } else { "is missing" };
    Err(StoreError::Other(format!(
        "{} {state}, but {} belongs to a database that was here. Put the database back (from where it was moved, or with \
         `everpost restore` from a backup into a new directory); to start with an empty one, move {} away first",
        path.display(),
        remains.join(" and "),
        if remains.len() > 1 {
            "these files"
        } else {
            "that file"
        },
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(prepare: impl Fn(&Path)) -> Option<String> {
        let dir = tempfile::tempdir().expect("a directory");
        prepare(dir.path());
        let before = contents(dir.path());
        let data_dir = DataDir::open(dir.path()).expect("a data directory");
        let error = judge(&data_dir).err().map(|error| error.to_string());
        drop(data_dir);
        fs::remove_file(dir.path().join("LOCK")).expect("the lock");
        if error.is_some() {
            assert_eq!(contents(dir.path()), before, "nothing is changed");
        }
        error
    }

    fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let files = fs::read_dir(dir).expect("a directory");
        let paths = files.map(|file| file.expect("a file").path());
        let mut all: Vec<_> = paths
            .filter(|path| path.is_file())
            .map(|path| (path.clone(), fs::read(&path).expect("its bytes")))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn a_new_database_takes_no_place_of_a_lost_one() {
        assert_eq!(rejection(|_| {}), None);
        for (name, state, empty) in [
            ("everpost.db-wal", "is missing", false),
            ("everpost.db-wal", "is empty", true),
            ("master.key", "is missing", false),
            ("management.token", "is missing", false),
            ("management.token", "is empty", true),
        ] {
            let said = rejection(|dir| {
                fs::write(dir.join(name), "x").expect("a file");
                if empty {
                    fs::write(dir.join("everpost.db"), "").expect("an empty file");
                }
            });
            let said = said.unwrap_or_else(|| panic!("{name} {state}"));
            assert!(said.contains(state) && said.contains(name), "{said}");
        }
        let unfinished =
            rejection(|dir| fs::create_dir(dir.join(UNFINISHED)).expect("a directory"));
        assert!(unfinished.expect("a rejection").contains("run it again"));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let database = dir.path().join("everpost.db");
        for file in files_of(&database) {
            fs::write(&file, "x").expect("a file");
            let read_only = std::os::unix::fs::PermissionsExt::from_mode(0o444);
            fs::set_permissions(&file, read_only).expect("permissions");
            let checked = check_writable(&file);
            if access(&file, Access::WRITE_OK).is_ok() {
                println!("skipped: root may write everything");
                return;
            }
            let said = checked.expect_err("a rejection").to_string();
            assert!(said.contains(&*file.to_string_lossy()), "{said}");
        }
    }
}
