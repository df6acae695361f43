//! A backup that is made while publishers go on: restored after a kill, it has whatever was acknowledged before it
//! began.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use super::appliance::{Appliance, binary, command};
use super::dice;
use super::ledger::Ledger;
use super::load::{Load, TOPIC};
use super::receiver::Receiver;

/// Some mebibytes, so that the copy takes several steps.
const EVENTS_BEFORE: u64 = 2_000;

/// Runs a command on the data directory of an appliance. Returns what it prints.
fn run(words: &[&str], folder: &Path) -> String {
    let output = command(binary())
        .args(words)
        .arg("--data-dir")
        .arg(folder.join("data"))
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    let [out, err] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{words:?}: {out}{err}");
    out + &err
}

/// The ids of all events.
async fn events(appliance: &Appliance) -> HashSet<String> {
    let mut found = HashSet::new();
    let mut before = String::new();
    loop {
        let path = format!("/everpost/events?topic={TOPIC}&limit=500{before}");
        let page = appliance.get(&path).await;
        let rows = page["value"].as_array().expect("a page").iter();
        found.extend(rows.map(|row| row["id"].as_str().expect("an id").to_owned()));
        match page["nextBefore"].as_i64() {
            Some(next) => before = format!("&before={next}"),
            None => return found,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_before_a_backup_is_restored() {
    let dice = dice();
    let [folder, new_folder, backups] = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let receiver = Receiver::start().await;
    let mut appliance = Appliance::start(folder.path()).await;
    let ledger = Ledger::default();
    let load = Load::start(&appliance, &receiver, &ledger, &dice).await;
    ledger.grow_by(EVENTS_BEFORE).await;

    let before = ledger.acknowledged();
    let into = backups.path().to_str().expect("a plain path").to_owned();
    let path = folder.path().to_owned();
    let backup = tokio::task::spawn_blocking(move || run(&["backup", &into], &path));
    println!("{}", backup.await.expect("a backup"));
    ledger.grow_by(1).await; // they are not held up
    load.point_at(None);
    appliance.kill();
    load.stop().await;

    let made: Vec<_> = fs::read_dir(backups.path()).expect("a folder").collect();
    let [Ok(made)] = &made[..] else {
        panic!("one backup: {made:?}");
    };
    let made = made.path();
    let made = made.to_str().expect("a plain path");
    let told = run(&["restore", made, "--dry-run"], new_folder.path());
    assert!(
        told.contains("the backup is sound; nothing was restored"),
        "{told}"
    );
    assert!(told.contains("1 topic, 2 event subscriptions, "), "{told}");
    run(&["restore", made], new_folder.path());

    let restored = Appliance::start(new_folder.path()).await;
    let there = events(&restored).await;
    let missing: Vec<_> = before.difference(&there).collect();
    assert!(missing.is_empty(), "{missing:?}");
    run(&["doctor"], new_folder.path());
    // What was pending then is delivered by the restored one.
    receiver.wait_for(&before).await;
}
