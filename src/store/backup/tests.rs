//! Backups are whole, old ones go, and damaged ones are not restored.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::base::regular_file::make_pipe;
use crate::base::{Entropy, Timestamp};
use crate::model::registry::ResourceScope;
use crate::store::{MASTER_KEY_FILE, NewDataDir, Store, StoreOptions};

const KEY_AND_TOKEN: &[&str] = &[MASTER_KEY_FILE, "management.token", "everpost.toml"];

/// A data directory, a directory for backups, and the clock.
struct Setup {
    folder: tempfile::TempDir,
    data_dir: Arc<DataDir>,
    clock: Clock,
}

impl Setup {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        fs::create_dir(folder.path().join("backups")).expect("a directory");
        let data_dir = DataDir::open(&folder.path().join("data")).expect("a data directory");
        let setup = Self {
            folder,
            data_dir: Arc::new(data_dir),
            clock: Clock::simulated(Timestamp::from_ms(1_800_000_000_000)),
        };
        migrate::migrate_file(&setup.data_dir.file(FILE), &|_| ()).expect("a database");
        let key = format!("{}=\n", "A".repeat(43)); // 32 bytes in base64
        for (name, text) in [(MASTER_KEY_FILE, &*key), ("management.token", "sesame\n")] {
            write_private(&setup.data_dir.file(name), text).expect("a file");
        }
        setup
    }

    fn open(&self) -> Store {
        let options = StoreOptions {
            clock: self.clock.clone(),
            entropy: Entropy::Os,
            scope: ResourceScope {
                subscription: "s".to_owned(),
                resource_group: "g".to_owned(),
            },
            master_keys: None,
            on_fatal: Box::new(|error| panic!("{error}")),
        };
        Store::open(Arc::clone(&self.data_dir), options, &|_| ()).expect("a store")
    }

    fn backups(&self) -> PathBuf {
        self.folder.path().join("backups")
    }

    fn order(&self, beside: &'static [&'static str]) -> BackupOrder {
        BackupOrder {
            into: self.backups(),
            beside,
            free_bytes_min: 0,
        }
    }

    /// A second later than the one before.
    fn back_up(&self, beside: &'static [&'static str]) -> KeptBackup {
        self.clock.advance(Duration::from_secs(1));
        let made = make(
            &self.data_dir,
            &self.order(beside),
            &self.clock,
            &mut |_| true,
        );
        made.expect("a backup")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.backups()).expect("a directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names
            .map(|name| name.into_string().expect("text"))
            .collect();
        names.sort();
        names
    }
}

fn mode(path: &Path) -> u32 {
    let file = fs::metadata(path).expect("its facts");
    file.permissions().mode() & 0o777
}

#[test]
fn a_backup_has_what_a_start_needs_and_is_private() {
    let setup = Setup::new();
    let KeptBackup { path, manifest } = setup.back_up(KEY_AND_TOKEN);
    let path = Path::new(&path);
    assert_eq!(read(path).expect("a manifest"), manifest);
    assert_eq!(verify(path, &manifest), Ok(()));
    let files: Vec<&str> = manifest.files.keys().map(String::as_str).collect();
    assert_eq!(
        files,
        [FILE, "management.token", MASTER_KEY_FILE],
        "as far as they are there"
    );
    assert_eq!(manifest.counts, BackupCounts::default());
    assert_eq!(setup.names(), [manifest.name()], "nothing else is left");
    let mut found = fs::read_dir(path).expect("a directory");
    assert!(found.all(|entry| mode(&entry.expect("an entry").path()) == 0o600));
    assert_eq!(mode(path), 0o700);

    let alone = setup.back_up(&[]).manifest;
    assert_eq!(alone.files.len(), 1, "without the master key: {alone:?}");
    assert_eq!(alone.database_id, manifest.database_id);
}

#[tokio::test]
async fn an_open_store_is_backed_up_and_old_backups_go() {
    let setup = Setup::new();
    let others = setup.backups().join("everpost-2020-01-01T000000Z");
    fs::create_dir(&others).expect("a directory of somebody else");
    let upkeep = setup.open().upkeep;
    let mut made = Vec::new();
    for _ in 0..4 {
        setup.clock.advance(Duration::from_secs(1));
        let backup = upkeep.back_up(setup.order(&[]), setup.clock.clone(), |_| true);
        made.push(backup.await.expect("a backup"));
    }
    made.reverse();
    let all = upkeep.keep_backups(setup.backups(), usize::MAX).await;
    assert_eq!(all, Ok(made.clone()), "newest first");
    let kept = upkeep.keep_backups(setup.backups(), 2).await;
    assert_eq!(kept, Ok(made[..2].to_vec()));
    assert_eq!(
        setup.names().len(),
        3,
        "two, and what is none: {:?}",
        setup.names()
    );

    // Another appliance may use the same directory.
    let other = Setup::new();
    let ours = other.open().upkeep.keep_backups(setup.backups(), 0).await;
    assert_eq!(ours, Ok(Vec::new()));
    assert_eq!(setup.names().len(), 3);
}

#[test]
fn a_backup_that_is_stopped_or_finds_no_room_leaves_nothing() {
    let setup = Setup::new();
    let stopped = make(
        &setup.data_dir,
        &setup.order(&[]),
        &setup.clock,
        &mut |_| false,
    );
    assert_eq!(stopped, Err(BackupError("it was stopped".to_owned())));
    let order = BackupOrder {
        free_bytes_min: u64::MAX,
        ..setup.order(&[])
    };
    let full = make(&setup.data_dir, &order, &setup.clock, &mut |_| true);
    let full = full.expect_err("no room").to_string();
    assert!(full.contains("have to stay free"), "{full}");
    assert_eq!(setup.names(), [""; 0]);
}

#[test]
fn what_a_killed_process_left_is_replaced() {
    let setup = Setup::new();
    let id = setup.back_up(&[]).manifest.database_id;
    let left = draft_of(&setup.backups(), &id);
    fs::create_dir(&left).expect("a directory");
    fs::write(left.join(FILE), "half a page").expect("a file");
    setup.back_up(&[]);
    assert_eq!(setup.names().len(), 2, "{:?}", setup.names());
}

#[test]
fn a_damaged_backup_is_told_by_its_file() {
    let setup = Setup::new();
    let KeptBackup { path, manifest } = setup.back_up(KEY_AND_TOKEN);
    let path = Path::new(&path);
    let file = path.join(FILE);
    let sound = fs::read(&file).expect("the copy");
    let mut damaged = sound.clone();
    damaged[sound.len() / 2] ^= 1;
    for bytes in [&damaged[..], &sound[1..], &sound[..0]] {
        fs::write(&file, bytes).expect("damage");
        let told = verify(path, &manifest).expect_err("damage").to_string();
        assert!(told.contains("everpost.db: it is damaged"), "{told}");
    }
    fs::remove_file(&file).expect("deleted");
    assert!(verify(path, &manifest).is_err());

    let told = |change: &dyn Fn(&mut Manifest)| {
        let mut changed = manifest.clone();
        change(&mut changed);
        let text = serde_json::to_string(&changed).expect("JSON");
        fs::write(path.join(MANIFEST_FILE), text).expect("a manifest");
        read(path).expect_err("a fault").to_string()
    };
    let newer = told(&|manifest| manifest.format += 1);
    assert!(newer.contains("by a newer release"), "{newer}");
    let outside = told(&|manifest| {
        let file = manifest.files[FILE].clone();
        manifest.files.insert("../outside".to_owned(), file);
    });
    assert!(outside.contains("outside of the backup"), "{outside}");
    let nothing = told(&|manifest| manifest.files.clear());
    assert!(nothing.contains("names no database"), "{nothing}");
}

#[test]
fn nothing_but_files_is_read_of_a_backup() {
    let setup = Setup::new();
    let KeptBackup { path, manifest } = setup.back_up(KEY_AND_TOKEN);
    let dir = Path::new(&path);
    let token = dir.join("management.token");
    assert_takes_a_file(&token, || verify(dir, &manifest));
    assert_takes_a_file(&token, || {
        let new = DataDir::open(&setup.folder.path().join("new")).expect("a directory");
        let draft = NewDataDir::begin(&new).expect("a draft");
        copy(dir, &manifest, &draft)
    });
    let file = dir.join(MANIFEST_FILE);
    assert_takes_a_file(&file, || read(dir).map(drop));
    fs::write(file, " ".repeat(65_537)).expect("a long one");
    let told = read(dir).expect_err("too long").to_string();
    assert!(told.contains("more than 65536 bytes"), "{told}");
}

/// Puts a link and a pipe in the place of a file that something is done with.
fn assert_takes_a_file(file: &Path, act: impl Fn() -> Result<(), BackupError>) {
    let elsewhere = file.with_extension("moved");
    fs::rename(file, &elsewhere).expect("moved");
    let fails = |kind: &str| {
        let told = act().expect_err(kind).to_string();
        let expected = format!("{}: it is {kind}, and must be a file", file.display());
        assert!(told.ends_with(&expected), "{told}");
        fs::remove_file(file).expect("deleted");
    };
    symlink(&elsewhere, file).expect("a link");
    fails("a link");
    make_pipe(file);
    fails("a pipe");
    fs::rename(&elsewhere, file).expect("moved back");
    assert_eq!(act(), Ok(()));
}

#[test]
fn a_damaged_database_is_not_kept_as_a_backup() {
    let setup = Setup::new();
    let database = setup.data_dir.file(FILE);
    let mut bytes = fs::read(&database).expect("the database");
    let connection = Connection::open(&database).expect("the database");
    let root = "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_schema WHERE name = 'topic'";
    let (root, page): (usize, usize) = connection
        .query_row(root, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("its page");
    drop(connection);
    bytes[(root - 1) * page..][..64].fill(0xa5);
    fs::write(&database, bytes).expect("the damage");
    let made = make(
        &setup.data_dir,
        &setup.order(&[]),
        &setup.clock,
        &mut |_| true,
    );
    let told = made.expect_err("damage").to_string();
    assert!(told.contains("the database is damaged"), "{told}");
    assert_eq!(setup.names(), [""; 0]);
}

#[test]
fn what_is_restored_is_the_same_and_opens() {
    let setup = Setup::new();
    let KeptBackup { path, manifest } = setup.back_up(KEY_AND_TOKEN);
    let new = DataDir::open(&setup.folder.path().join("new")).expect("a directory");
    let draft = NewDataDir::begin(&new).expect("a draft");
    copy(Path::new(&path), &manifest, &draft).expect("copied");
    settle(&manifest, draft).expect("settled");
    assert_eq!(mode(&new.file(FILE)), 0o600);
    assert_eq!(
        fs::read(new.file(MASTER_KEY_FILE)).expect("a key"),
        fs::read(setup.data_dir.file(MASTER_KEY_FILE)).expect("a key")
    );
    let restored = Setup {
        data_dir: Arc::new(new),
        ..setup
    };
    drop(restored.open());
    assert_eq!(
        restored.back_up(&[]).manifest.database_id,
        manifest.database_id
    );
}
