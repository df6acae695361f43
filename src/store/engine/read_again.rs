//! Retries of reads that failed: SQLite reports a database as damaged even if the disk failed only once to read a page.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use crate::base::Stopwatch;
use crate::store::engine::db::open_reader;
use crate::store::error::StoreError;

/// Pauses before each further attempt to read. Each pause begins when the attempt before it has failed.
const PAUSES: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(500),
];

/// Time after a successful read of a whole database file during which damage is reported without further attempts,
/// since the disk is known to be readable.
const DISK_IS_TRUSTED_FOR: Duration = Duration::from_secs(60);

/// Bytes read at once.
const PIECE: usize = 1_024 * 1_024;

/// Stopwatch started when a whole database file was last read without an error; `None` if none has been read yet.
static READABLE: Mutex<Option<Stopwatch>> = Mutex::new(None);

/// Database files that were opened without SQLite, to read them as a whole. They stay open, since closing one would
/// release SQLite's locks on that file.
static FILES: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());

/// Repeats `read` after pauses, each time on a new connection, which has nothing in its page cache. Returns `first` if
/// no attempt succeeds, or [`StoreError::Failed`] if the file itself cannot be read, which means that the disk has
/// failed. Returns `first` at once for a database in memory, and if a whole file was read successfully a short time
/// ago.
pub(in crate::store) fn read_again<T>(
    tx: &Connection,
    first: StoreError,
    read: impl Fn(&Connection) -> Result<Option<T>, StoreError>,
) -> Result<T, StoreError> {
    read_after(thread::sleep, tx, first, read)
}

fn read_after<T>(
    pause_for: impl Fn(Duration),
    tx: &Connection,
    first: StoreError,
    read: impl Fn(&Connection) -> Result<Option<T>, StoreError>,
) -> Result<T, StoreError> {
    let path = tx.path().filter(|path| !path.is_empty()).map(PathBuf::from);
    let is_trusted = || {
        let readable = READABLE.lock().unwrap();
        readable.is_some_and(|since| since.took() < DISK_IS_TRUSTED_FOR)
    };
    let Some(path) = path.filter(|_| !is_trusted()) else {
        return Err(first);
    };
    for pause in PAUSES {
        pause_for(pause);
        if let Ok(Some(found)) = open_reader(&path).and_then(|connection| read(&connection)) {
            return Ok(found);
        }
    }
    read_file(&path).map_err(|error| {
        StoreError::Failed(format!("{} cannot be read: {error}", path.display()))
    })?;
    *READABLE.lock().unwrap() = Some(Stopwatch::begin());
    Err(first)
}

/// Reads all of the file.
fn read_file(path: &Path) -> io::Result<()> {
    let mut files = FILES.lock().unwrap();
    if !files.contains_key(path) {
        files.insert(path.to_owned(), File::open(path)?);
    }
    let file = &files[path];
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    loop {
        let read = file.read_at(&mut piece, at)?;
        if read == 0 {
            return Ok(());
        }
        at += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::store::engine::migrate;

    /// Both, since they share the memory of when the disk was readable.
    #[test]
    fn what_can_be_read_later_is_no_damage_and_what_cannot_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("everpost.db");
        migrate::migrate_file(&path, &|_| {}).expect("a database");
        let tx = open_reader(&path).expect("a reader");
        let damaged = || StoreError::Damaged("a page".to_owned());
        let tries = Cell::new(0);
        let at_last = |_: &Connection| {
            tries.set(tries.get() + 1);
            if tries.get() < PAUSES.len() {
                Err(damaged())
            } else {
                Ok(Some(7))
            }
        };
        assert_eq!(read_after(|_| {}, &tx, damaged(), at_last), Ok(7));

        let never = |_: &Connection| {
            tries.set(tries.get() + 1);
            Err::<Option<()>, _>(damaged())
        };
        tries.set(0);
        assert_eq!(read_after(|_| {}, &tx, damaged(), never), Err(damaged()));
        assert_eq!(tries.get(), PAUSES.len());
        // The disk is trusted for a while, so that many damaged rows do not hold up everybody.
        assert_eq!(read_after(|_| {}, &tx, damaged(), never), Err(damaged()));
        assert_eq!(tries.get(), PAUSES.len());

        let memory = Connection::open_in_memory().expect("a database");
        assert_eq!(
            read_after(|_| {}, &memory, damaged(), never),
            Err(damaged())
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(read_file(&dir.path().join("missing")).is_err());
        assert!(read_file(dir.path()).is_err(), "a directory");
    }
}
