//! Migrates a database file to the current schema.
//!
//! The numbered files in `migrations/` only upgrade, never downgrade. The database is copied before an older schema is
//! changed. A database with a newer schema, or with a schema from before the first release, is not opened.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use refinery::{Migration, Runner};
use rusqlite::Connection;

use crate::store::engine::data_dir::sync_parent;
use crate::store::engine::db;
use crate::store::error::StoreError;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// Minimum version of SQLite. Older versions can lose committed data of the write-ahead log when one connection writes
/// while another one checkpoints.
const SQLITE_VERSION_MIN: i32 = 3_051_003;

/// Migrates the file `path`, creating it if it is missing, and closes it again. Reports slow steps to
/// `progress`.
pub(in crate::store) fn migrate_file(
    path: &Path,
    progress: &dyn Fn(&str),
) -> Result<(), StoreError> {
    check_sqlite(rusqlite::version_number())?;
    make_private(path)?;
    let is_new = path.metadata().is_ok_and(|file| file.len() == 0);
    if !is_new {
        check(path, &db::open_unchanged(path)?)?;
    }
    let mut connection = db::open_writer(path)?;
    let have = schema_version(&connection)?;
    let want = newest();
    if have > 0 && have < want {
        let copy = backup_path(path, have);
        progress(&format!(
            "upgrading the database from schema {have} to {want}"
        ));
        backup(&connection, &copy)?;
        progress(&format!(
            "a copy of the old database is in {}",
            copy.display()
        ));
    }
    migrate(&mut connection)?;
    make_shrinkable(&connection, progress)
}

/// The upgrade of a database that this version makes when it starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Upgrade {
    /// The schema of the database.
    pub from: i64,
    /// The schema of this version.
    pub to: i64,
    /// The free bytes on the disk that the upgrade needs.
    pub bytes: u64,
}

/// Returns the upgrade that [`migrate_file`] would make, and changes nothing. Another process may have the database
/// open.
pub(in crate::store) fn plan(path: &Path) -> Result<Upgrade, StoreError> {
    check_sqlite(rusqlite::version_number())?;
    let connection = db::open_unchanged(path)?;
    let from = check(path, &connection)?;
    let to = newest();
    let copies = u64::from(0 < from && from < to) + u64::from(!can_shrink(&connection)?);
    let size: u64 = connection.query_row(DATABASE_BYTES, [], |row| row.get(0))?;
    Ok(Upgrade {
        from,
        to,
        bytes: copies * size,
    })
}

const DATABASE_BYTES: &str =
    "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";

fn can_shrink(connection: &Connection) -> Result<bool, StoreError> {
    const INCREMENTAL: i64 = 2;
    let vacuum: i64 = connection.query_row("PRAGMA auto_vacuum", [], |row| row.get(0))?;
    Ok(vacuum == INCREMENTAL)
}

/// Enables incremental vacuum on a file that lacks it, such as one that another program created. New files have it from
/// the start. The one rewrite of the file needs free disk space for a second copy.
fn make_shrinkable(connection: &Connection, progress: &dyn Fn(&str)) -> Result<(), StoreError> {
    if !can_shrink(connection)? {
        progress("rewriting the database, so that it can get smaller");
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        connection.execute_batch("VACUUM;")?;
    }
    Ok(())
}

/// Migrates an open database.
pub(in crate::store) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    runner()
        .run(connection)
        .map_err(|error| StoreError::Other(format!("migration failed: {error}")))?;
    Ok(())
}

/// Returns the version of the schema. Rejects a database of another program, one from before the first release, and one
/// with a newer schema.
fn check(path: &Path, connection: &Connection) -> Result<i64, StoreError> {
    let have = schema_version(connection)?;
    // Ignores the history table: a start that was killed leaves a database with only this table.
    let is_used =
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE tbl_name <> 'refinery_schema_history')";
    if have == 0 && connection.query_row(is_used, [], |row| row.get(0))? {
        return Err(StoreError::Other(format!(
            "{} is a database of another program, and is left as it is; choose another --data-dir",
            path.display()
        )));
    }
    if !is_known(connection, have)? {
        return Err(StoreError::Other(format!(
            "{} was written by a version of Everpost from before the first release, and this version \
             cannot read or upgrade it. Move it away or choose another --data-dir to start with an empty \
             database; to get at what is in it, run the version that wrote it",
            path.display()
        )));
    }
    let newest = newest();
    if have > newest {
        return Err(StoreError::Other(format!(
            "{} has schema {have}, written by a newer release; this one knows schemas up to {newest}. \
             Start the newer release, or restore the copy made before its upgrade",
            path.display()
        )));
    }
    Ok(have)
}

/// Creates an empty file that only its owner can read, if the file is missing. SQLite creates the log with equal
/// permissions. Must not be called for an open database: closing the file would release SQLite's locks.
pub(in crate::store) fn make_private(path: &Path) -> Result<(), StoreError> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(StoreError::Other(format!("{}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

fn check_sqlite(version: i32) -> Result<(), StoreError> {
    if version < SQLITE_VERSION_MIN {
        return Err(StoreError::Other(format!(
            "SQLite {version} can lose committed data; at least {SQLITE_VERSION_MIN} is needed"
        )));
    }
    Ok(())
}

fn runner() -> Runner {
    // Runs each migration file in its own transaction, so that a kill leaves a complete schema: the one before the
    // file or the one after it.
    embedded::migrations::runner().set_grouped(false)
}

pub(in crate::store) fn newest() -> i64 {
    let versions = runner()
        .get_migrations()
        .iter()
        .map(Migration::version)
        .max();
    versions.map_or(0, i64::from)
}

/// Reports whether the schema with version `have` was made by migrations that this version contains.
fn is_known(connection: &Connection, have: i64) -> Result<bool, StoreError> {
    if have == 0 {
        return Ok(true);
    }
    let mut checksums =
        connection.prepare("SELECT checksum FROM refinery_schema_history ORDER BY version")?;
    let applied: Vec<String> = checksums
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let known = runner().get_migrations().clone();
    let mut pairs = applied.iter().zip(&known);
    Ok(pairs.all(|(applied, known)| *applied == known.checksum().to_string()))
}

/// Returns the schema version of an open database, 0 for a new file.
pub(in crate::store) fn schema_version(connection: &Connection) -> Result<i64, StoreError> {
    if !connection.table_exists(None, "refinery_schema_history")? {
        return Ok(0);
    }
    let version = "SELECT coalesce(max(version), 0) FROM refinery_schema_history";
    Ok(connection.query_row(version, [], |row| row.get(0))?)
}

fn backup_path(path: &Path, schema: i64) -> PathBuf {
    path.with_file_name("backups")
        .join(format!("before-upgrade-from-schema-{schema}.db"))
}

/// Copies the database to a temporary file, syncs it and renames it.
fn backup(connection: &Connection, copy: &Path) -> Result<(), StoreError> {
    let folder = copy.parent().expect("a file in a folder");
    let unfinished = copy.with_extension("unfinished");
    let io = |error: std::io::Error| StoreError::Other(format!("{}: {error}", copy.display()));
    std::fs::create_dir_all(folder).map_err(io)?;
    sync_parent(folder).map_err(io)?;
    if unfinished.exists() {
        std::fs::remove_file(&unfinished).map_err(io)?;
    }
    connection.execute("VACUUM INTO ?1", [unfinished.to_string_lossy()])?;
    std::fs::File::open(&unfinished)
        .and_then(|file| file.sync_all())
        .map_err(io)?;
    std::fs::rename(&unfinished, copy).map_err(io)?;
    sync_parent(copy).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_gets_the_newest_schema_and_stays_as_it_is() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("everpost.db");
        migrate_file(&path, &|_| ()).expect("a new database");
        migrate_file(&path, &|line| panic!("nothing to upgrade, but: {line}")).expect("no change");
        let connection = db::open_writer(&path).expect("the same database");
        assert_eq!(schema_version(&connection).expect("a version"), newest());
        let plan = plan(&path).expect("a plan");
        assert_eq!((plan.from, plan.bytes), (plan.to, 0));
    }

    #[test]
    fn an_upgrade_is_foreseen_with_the_space_that_it_needs() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("everpost.db");
        assert!(plan(&path).is_err(), "there is no database");
        let old = Connection::open(&path).expect("a database");
        old.execute_batch("PRAGMA auto_vacuum = NONE; CREATE TABLE other (x); DROP TABLE other")
            .expect("a file that cannot shrink");
        let plan = plan(&path).expect("a plan");
        assert_eq!((plan.from, plan.to), (0, newest()));
        let size = std::fs::metadata(&path).expect("a file").len();
        assert_eq!(plan.bytes, size);
    }

    /// The error of `migrate_file` for a database whose history was changed by `statements`.
    fn rejection(statements: &str) -> String {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("everpost.db");
        migrate_file(&path, &|_| ()).expect("a new database");
        let connection = db::open_writer(&path).expect("the same database");
        connection
            .execute_batch(statements)
            .expect("another history");
        drop(connection);
        let error = migrate_file(&path, &|line| panic!("{line}")).expect_err("an unknown schema");
        let foreseen = plan(&path).expect_err("the same");
        assert_eq!(foreseen.to_string(), error.to_string());
        error.to_string()
    }

    #[test]
    fn a_newer_schema_is_rejected() {
        let text = rejection("INSERT INTO refinery_schema_history VALUES (1000, 'later', '', '2')");
        assert!(
            text.contains("everpost.db has schema 1000, written by a newer release"),
            "{text}"
        );
    }

    #[test]
    fn a_database_from_before_the_first_release_is_rejected_in_plain_words() {
        let text = rejection(
            "UPDATE refinery_schema_history SET checksum = '1', name = 'first_schema';
             INSERT INTO refinery_schema_history VALUES (22, 'audit_names', '', '2')",
        );
        for part in [
            "everpost.db was written by a version of Everpost from before the first release",
            "choose another --data-dir",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn the_database_of_another_program_is_left_as_it_is() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("everpost.db");
        let other = Connection::open(&path).expect("a database");
        other
            .execute_batch("CREATE TABLE bookmarks (url)")
            .expect("a table");
        drop(other);
        let before = std::fs::read(&path).expect("its bytes");
        let error = migrate_file(&path, &|line| panic!("{line}")).expect_err("a foreign database");
        assert!(error.to_string().contains("of another program"), "{error}");
        assert!(plan(&path).is_err());
        assert!(std::fs::read(&path).expect("its bytes") == before);
        std::fs::write(&path, "no database").expect("a file");
        migrate_file(&path, &|line| panic!("{line}")).expect_err("no database");
        let left = std::fs::read_to_string(&path).expect("its text");
        assert_eq!(left, "no database");
    }

    #[test]
    fn an_old_sqlite_is_rejected() {
        assert!(check_sqlite(3_051_002).is_err());
        assert!(check_sqlite(3_051_003).is_ok());
    }

    #[test]
    fn the_copy_made_before_an_upgrade_holds_the_data() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("everpost.db");
        migrate_file(&path, &|_| ()).expect("a new database");
        let connection = db::open_writer(&path).expect("the same database");
        connection
            .execute("INSERT INTO user (name, password_hash, role, created_at) VALUES ('ada', 'hash', 'admin', 0)", [])
            .expect("a row");
        let copy = backup_path(&path, 1);
        backup(&connection, &copy).expect("a copy");
        backup(&connection, &copy).expect("a copy in the place of the first");
        let name: String = Connection::open(&copy)
            .and_then(|copy| copy.query_row("SELECT name FROM user", [], |row| row.get(0)))
            .expect("the row in the copy");
        assert_eq!(name, "ada");
    }

    #[test]
    fn a_file_that_cannot_get_smaller_is_rewritten_once() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("everpost.db");
        migrate_file(&path, &|_| ()).expect("a new database");
        let connection = db::open_writer(&path).expect("the same database");
        let fixed = "PRAGMA auto_vacuum = NONE; VACUUM; PRAGMA auto_vacuum = NONE;
            INSERT INTO user (name, password_hash, role, created_at) VALUES ('ada', 'hash', 'admin', 0);";
        connection
            .execute_batch(fixed)
            .expect("a file of fixed size");
        drop(connection);
        let mode = || -> i64 {
            let connection = Connection::open(&path).expect("the database");
            let mode = connection.query_row("PRAGMA auto_vacuum", [], |row| row.get(0));
            mode.expect("its mode")
        };
        assert_eq!(mode(), 0);
        let told = std::cell::Cell::new(0);
        let progress = |_: &str| told.set(told.get() + 1);
        migrate_file(&path, &progress).expect("a database that can");
        assert_eq!((mode(), told.get()), (2, 1));
        migrate_file(&path, &progress).expect("no change");
        assert_eq!(told.get(), 1);
        let users = Connection::open(&path).expect("the database");
        let users: i64 = users
            .query_row("SELECT count(*) FROM user", [], |row| row.get(0))
            .expect("a count");
        assert_eq!(users, 1);
    }
}
