//! The schema of a database, compared with the committed dump `tests/schema.sql`: so a change of it is seen
//! in review, and an upgraded database can be held against a fresh one. `UPDATE=1` writes the dump anew.

use std::fs;
use std::path::Path;

use everpost::base::{Clock, Entropy};
use everpost::model::registry::ResourceScope;
use everpost::store::{DataDir, Store, StoreOptions};

#[tokio::test]
async fn a_fresh_database_has_the_committed_schema() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = StoreOptions {
        clock: Clock::system(),
        entropy: Entropy::Os,
        scope: ResourceScope {
            subscription: "s".to_owned(),
            resource_group: "g".to_owned(),
        },
        master_keys: None,
        on_fatal: Box::new(|error| panic!("{error}")),
    };
    let data_dir = DataDir::open(dir.path()).expect("a data directory");
    let store = Store::open(data_dir.into(), options, &|_| ()).expect("a store");
    let schema = store.upkeep.schema().await.expect("the schema");
    let mut statements: Vec<String> = schema.statements.iter().map(|each| plain(each)).collect();
    statements.sort();
    let dump = format!("-- Version {}\n{}\n", schema.version, statements.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schema.sql");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &dump).expect("the dump is written");
    }
    let committed = fs::read_to_string(&path).expect("the committed dump");
    assert!(
        dump == committed,
        "the schema is not that of tests/schema.sql:\n{}\n\nIf this is as it should be, run the test with \
         UPDATE=1 and review the change.",
        difference(&committed, &dump)
    );
}

/// A statement in one line, without its comments.
fn plain(statement: &str) -> String {
    let lines = statement
        .lines()
        .map(|line| line.split_once("--").map_or(line, |(code, _)| code));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ") + ";"
}

/// The lines that only one of the two has.
fn difference(committed: &str, dump: &str) -> String {
    let only = |these: &str, those: &str, mark: &str| -> Vec<String> {
        let those: Vec<&str> = those.lines().collect();
        let only = these.lines().filter(|line| !those.contains(line));
        only.map(|line| format!("{mark} {line}")).collect()
    };
    let mut lines = only(committed, dump, "-");
    lines.extend(only(dump, committed, "+"));
    lines.join("\n")
}
