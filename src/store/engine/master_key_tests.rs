//! The master key on a real disk: every state that a crash can leave behind is repaired, and a wrong key is
//! rejected.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::*;
use crate::base::regular_file::make_pipe;
use crate::base::{Clock, Timestamp};
use crate::model::registry::ResourceScope;
use crate::store::{FILE, Store, StoreOptions, db, migrate};

/// Texts that must not be in any file.
const SECRETS: [&str; 3] = ["c2VjcmV0LWtleS1vbmU=", "SECRET-IN-URL", "SECRET-CODE"];

/// A data directory whose database holds plain texts.
fn unsealed(topics: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join(FILE);
    migrate::migrate_file(&path, &|_| ()).expect("a new database");
    let connection = db::open_writer(&path).expect("the database");
    for id in 1..=topics {
        let insert = "INSERT INTO topic (id, name, kind, definition, key1, key2, created_at, updated_at)
                      VALUES (?1, 'topic-' || ?1, 'Custom', '{\"location\":\"l\",\"properties\":{}}', ?2, ?2, 0, 0)";
        connection
            .execute(insert, params![id as i64, SECRETS[0]])
            .expect("a topic");
    }
    let definition = format!(
        r#"{{"properties":{{"eventDeliverySchema":"EventGridSchema","destination":{{"endpointType":
        "WebHook","properties":{{"endpointUrl":"https://a.test/?code={}"}}}}}}}}"#,
        SECRETS[1]
    );
    let insert = "INSERT INTO event_subscription (id, topic_id, name, definition, validation_state,
                  validated_once, validation_code, created_at, updated_at)
                  VALUES (1, 1, 'billing', ?1, 'Creating', 0, ?2, 0, 0)";
    connection
        .execute(insert, params![definition, SECRETS[2]])
        .expect("a subscription");
    dir
}

fn options(master_keys: Option<MasterKeys>) -> StoreOptions {
    StoreOptions {
        clock: Clock::simulated(Timestamp::from_ms(0)),
        entropy: Entropy::Os,
        scope: ResourceScope {
            subscription: "s".to_owned(),
            resource_group: "g".to_owned(),
        },
        master_keys,
        on_fatal: Box::new(|error| panic!("{error}")),
    }
}

/// Opens the store, returns its secrets and closes it.
async fn read(dir: &Path, keys: Option<&MasterKeys>) -> Result<String, StoreError> {
    let data_dir = Arc::new(DataDir::open(dir).expect("the data directory"));
    let store = Store::open(data_dir, options(keys.cloned()), &|_| ())?;
    let registry = store.ledger.catalog().await?;
    let entry = registry.made_topics().next().expect("a topic");
    let subscription = entry.subscriptions.values().next();
    let subscription = subscription.expect("a subscription");
    let crate::model::destination::Destination::WebHook(webhook) =
        &subscription.definition.destination
    else {
        panic!("a webhook");
    };
    Ok([
        entry.topic.keys.as_ref().expect("keys").key1.reveal(),
        webhook.endpoint_url.reveal().query().unwrap_or_default(),
        subscription
            .validation
            .code
            .as_ref()
            .map_or("", |code| code.reveal()),
    ]
    .join(" "))
}

const INSIDE: &str = "c2VjcmV0LWtleS1vbmU= code=SECRET-IN-URL SECRET-CODE";

/// Asserts that no file of the directory holds a secret, deleted pages and the log included.
fn assert_sealed(dir: &Path) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let Ok(bytes) = fs::read(&path) else { continue };
        for secret in SECRETS {
            let found = bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!found, "{secret} stands in {}", path.display());
        }
    }
}

fn keys_in(dir: &Path) -> MasterKeys {
    let text = fs::read_to_string(dir.join(MASTER_KEY_FILE)).expect("a key file");
    MasterKeys::parse(&text).expect("keys")
}

fn connection(dir: &Path) -> Connection {
    db::open_writer(&dir.join(FILE)).expect("the database")
}

#[tokio::test]
async fn what_older_releases_left_open_is_sealed_at_the_start() {
    let dir = unsealed(3);
    assert_eq!(read(dir.path(), None).await.as_deref(), Ok(INSIDE));
    assert_sealed(dir.path());
    assert_eq!(read(dir.path(), None).await.as_deref(), Ok(INSIDE));
    use std::os::unix::fs::PermissionsExt;
    let file = fs::metadata(dir.path().join(MASTER_KEY_FILE)).expect("a key file");
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_missing_or_wrong_key_is_rejected_by_name_and_harms_nothing() {
    let dir = unsealed(1);
    read(dir.path(), None).await.expect("encrypted");
    let file = dir.path().join(MASTER_KEY_FILE);
    let (text, id) = (fs::read(&file).expect("a key"), keys_in(dir.path()).id());
    let other = MasterKeys::generate(&Entropy::Os);

    fs::remove_file(&file).expect("removed");
    let rejected = async |problem: &str, keys: Option<&MasterKeys>| {
        let error = read(dir.path(), keys).await.expect_err("rejected");
        let StoreError::MasterKey(said) = &error else {
            panic!("{error}");
        };
        let named = keys.map_or("master.key: ", |_| "the setting master_key: ");
        assert!(said.contains(problem) && said.contains(named), "{said}");
    };
    rejected(
        &format!("it is missing, but the database is encrypted by the master key {id}"),
        None,
    )
    .await;
    assert!(!file.exists(), "no new key takes its place");
    fs::write(&file, other.to_text().as_bytes()).expect("another key");
    rejected(&format!("but the database is encrypted by {id}"), None).await;
    rejected(
        &format!("but the database is encrypted by {id}"),
        Some(&other),
    )
    .await;
    fs::write(&file, "garbage").expect("no key");
    rejected("it is not a master key", None).await;
    fs::write(&file, text).expect("the key again");
    assert_eq!(read(dir.path(), None).await.as_deref(), Ok(INSIDE));
}

#[tokio::test]
async fn a_link_to_the_key_is_followed_and_a_pipe_is_not_waited_for() {
    let dir = unsealed(1);
    read(dir.path(), None).await.expect("encrypted");
    let file = dir.path().join(MASTER_KEY_FILE);
    let elsewhere = tempfile::tempdir().expect("a directory");
    let key = elsewhere.path().join("key");
    fs::copy(&file, &key).expect("a copy");
    fs::remove_file(&file).expect("removed");
    symlink(&key, &file).expect("a link");
    assert_eq!(read(dir.path(), None).await.as_deref(), Ok(INSIDE));
    let others: [fn(&Path); 2] = [
        |file| symlink("/dev/null", file).expect("a link"),
        make_pipe,
    ];
    for put in others {
        fs::remove_file(&file).expect("removed");
        put(&file);
        let told = read(dir.path(), None)
            .await
            .expect_err("no key")
            .to_string();
        assert!(told.contains("master.key: it is a"), "{told}");
        assert!(told.contains("must be a file"), "{told}");
    }
}

#[tokio::test]
async fn a_key_of_the_configuration_leaves_no_file() {
    let dir = unsealed(1);
    let keys = MasterKeys::generate(&Entropy::Os);
    assert_eq!(read(dir.path(), Some(&keys)).await.as_deref(), Ok(INSIDE));
    assert!(!dir.path().join(MASTER_KEY_FILE).exists());
    let both = keys.behind(MasterKeys::generate(&Entropy::Os));
    assert_eq!(read(dir.path(), Some(&both)).await.as_deref(), Ok(INSIDE));
    let newest = both.newest();
    assert_eq!(read(dir.path(), Some(&newest)).await.as_deref(), Ok(INSIDE));
    read(dir.path(), Some(&keys))
        .await
        .expect_err("it is not needed any more");
}

#[tokio::test]
async fn a_new_key_replaces_the_old_one() {
    let dir = unsealed(2 * BATCH);
    read(dir.path(), None).await.expect("encrypted");
    let old = keys_in(dir.path());
    let data_dir = DataDir::open(dir.path()).expect("the data directory");
    let rekeyed = Store::rekey(&data_dir, &Entropy::Os, &|_| ()).expect("a new key");
    drop(data_dir);
    let new = keys_in(dir.path());
    assert_eq!((rekeyed.old, rekeyed.new), (old.id(), new.id()));
    assert_eq!((rekeyed.cells, new.count()), (4 * BATCH + 2, 1));
    assert_eq!(key_ids(&connection(dir.path())).expect("ids"), new.ids());
    assert_eq!(read(dir.path(), None).await.as_deref(), Ok(INSIDE));
}

/// A crash leaves the file with both keys and any number of cells under the new one.
#[tokio::test]
async fn a_rekey_that_is_killed_heals_wherever_it_was() {
    for done in [0, 1, 5, 20, 21, 22] {
        let dir = unsealed(10);
        read(dir.path(), None).await.expect("encrypted");
        let both = keys_in(dir.path()).behind(MasterKeys::generate(&Entropy::Os));
        fs::write(dir.path().join(MASTER_KEY_FILE), both.to_text().as_bytes()).expect("written");
        let encryption = Encryption::new(&both, Entropy::Os);
        let batch =
            encrypt_batch(&mut connection(dir.path()), &encryption, done).expect("a part of it");
        assert_eq!(batch, done);

        assert_eq!(
            read(dir.path(), None).await.as_deref(),
            Ok(INSIDE),
            "{done}"
        );
        assert!(
            keys_in(dir.path()) == both.newest(),
            "{done}: the old key is forgotten"
        );
        let ids = key_ids(&connection(dir.path())).expect("ids");
        assert_eq!(ids, both.newest().ids(), "{done}");
    }
}

#[tokio::test]
async fn sealed_cells_cannot_be_swapped_in_the_file() {
    let dir = unsealed(2);
    read(dir.path(), None).await.expect("encrypted");
    let swap = "UPDATE topic SET key1 = (SELECT key1 FROM topic WHERE id = 2) WHERE id = 1";
    connection(dir.path()).execute(swap, []).expect("swapped");
    let data_dir = Arc::new(DataDir::open(dir.path()).expect("the data directory"));
    let store = Store::open(data_dir, options(None), &|_| ()).expect("a store");
    let registry = store.ledger.catalog().await.expect("the others");
    let names: Vec<_> = registry
        .made_topics()
        .map(|it| it.topic.name.as_str())
        .collect();
    assert_eq!(names, ["topic-2"]);
    let told = registry.unreadable().join(" ");
    assert!(told.contains("topic.key1 of row 1"), "{told}");
}
