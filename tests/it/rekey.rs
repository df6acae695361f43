//! The master key, with the built binary: a change of it that is killed anywhere heals, and without the
//! key nothing starts.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use everpost::base::{Clock, Entropy};
use everpost::model::access::AccessKeys;
use everpost::model::name::{NamespaceName, TopicName};
use everpost::model::registry::{Registry, ResourceScope};
use everpost::store::{DataDir, Effects, NamespaceChange, RegistryChange, Store, StoreOptions};
use everpost::wire::resource;
use serde_json::json;

/// The exit code that the README names.
const MISUSED: i32 = 2;

/// Enough for several batches, together with a namespace, which has two keys as well.
const TOPICS: usize = 120;

fn open(dir: &Path) -> Store {
    let options = StoreOptions {
        clock: Clock::system(),
        entropy: Entropy::Os,
        scope: ResourceScope {
            subscription: "sub".to_owned(),
            resource_group: "group".to_owned(),
        },
        master_keys: None,
        on_fatal: Box::new(|error| panic!("{error}")),
    };
    let data_dir = Arc::new(DataDir::open(dir).expect("a data directory"));
    Store::open(data_dir, options, &|_| ()).expect("a store")
}

async fn fill(dir: &Path) -> Vec<AccessKeys> {
    let store = open(dir);
    let definition = resource::parse_topic(&json!({"location": "l"})).expect("a topic");
    for number in 0..TOPICS {
        let add = RegistryChange::AddTopic {
            namespace: None,
            name: TopicName::parse(&format!("topic-{number:03}")).expect("a name"),
            kind: definition.clone(),
            keys: AccessKeys::generate(&Entropy::Os),
        };
        let now = Clock::system().now();
        store
            .ledger
            .change_catalog(
                &store.ledger.catalog().await.expect("a catalog"),
                add,
                Effects::default(),
                now,
            )
            .await
            .expect("a topic");
    }
    let add = NamespaceChange::Add {
        name: NamespaceName::parse("shop").expect("a name"),
        definition: resource::parse_namespace(&json!({"location": "l"})).expect("a namespace"),
        keys: AccessKeys::generate(&Entropy::Os),
    };
    let (add, now) = (RegistryChange::Namespace(add), Clock::system().now());
    store
        .ledger
        .change_catalog(
            &store.ledger.catalog().await.expect("a catalog"),
            add,
            Effects::default(),
            now,
        )
        .await
        .expect("a namespace");
    keys(&store.ledger.catalog().await.expect("a registry"))
}

fn keys(registry: &Registry) -> Vec<AccessKeys> {
    let topics = registry
        .topics()
        .filter_map(|entry| entry.topic.keys.as_ref());
    let namespaces = registry.namespaces().map(|entry| &entry.namespace.keys);
    topics.chain(namespaces).cloned().collect()
}

fn everpost(arguments: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everpost"));
    command.args(arguments).arg("--data-dir").arg(dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str], dir: &Path) -> Output {
    everpost(arguments, dir).output().expect("it runs")
}

fn lines(dir: &Path) -> usize {
    let text = fs::read_to_string(dir.join("master.key")).expect("the master key");
    text.lines().count()
}

#[tokio::test]
async fn a_killed_rekey_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder for the data");
    let before = fill(folder.path()).await;
    let first = fs::read(folder.path().join("master.key")).expect("the master key");
    for wait_ms in [0, 5, 10, 15, 20, 30, 40, 60] {
        let mut rekey = everpost(&["rekey"], folder.path())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(wait_ms)); // anywhere will do
        rekey.kill().expect("it can be killed");
        rekey.wait().expect("it has ended");
        if wait_ms % 20 == 0 {
            let after = open(folder.path()).ledger.catalog().await;
            assert!(keys(&after.expect("a registry")) == before, "{wait_ms}");
        }
    }
    let done = run(&["rekey"], folder.path());
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        done.status.success() && said.contains("242 secrets"),
        "{done:?}"
    );
    assert_eq!(lines(folder.path()), 1);
    let last = fs::read(folder.path().join("master.key")).expect("the master key");
    assert_ne!(first, last);
    let after = open(folder.path()).ledger.catalog().await;
    assert!(keys(&after.expect("a registry")) == before);
}

#[tokio::test]
async fn without_its_key_nothing_starts() {
    let folder = tempfile::tempdir().expect("a folder for the data");
    fill(folder.path()).await;
    let file = folder.path().join("master.key");
    fs::remove_file(&file).expect("removed");
    for arguments in [&["serve", "--listen", "127.0.0.1:0"][..], &["rekey"]] {
        let rejected = run(arguments, folder.path());
        let said = String::from_utf8_lossy(&rejected.stderr).into_owned();
        assert_eq!(rejected.status.code(), Some(MISUSED), "{said}");
        let path = folder.path().canonicalize().expect("the folder");
        let path = path.join("master.key");
        assert!(said.contains(&path.display().to_string()), "{said}");
        assert!(said.contains("it is missing"), "{said}");
    }
    assert!(!file.exists());
}
