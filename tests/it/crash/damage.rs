//! Single flipped bits in the files of a killed appliance, anywhere: nothing is received that was not sent, and nothing is
//! missing without a word.
//!
//! `EVERPOST_FLIPS` says how many are tried.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use everpost::base::Entropy;
use reqwest::{Client, Method, StatusCode};
use serde_json::json;

use super::appliance::{Appliance, client};
use super::{dice, eventually, given, up_to};

/// Unless `EVERPOST_FLIPS` says otherwise.
const FLIPS: u32 = 6;

const MESSAGES: usize = 60;

/// Starts in a row, as a supervisor makes them, of an appliance that ends because of what it has found.
const STARTS_MAX: usize = 5;

/// Files in which bits are flipped.
const FILES: [&str; 5] = [
    "everpost.db",
    "everpost.db",
    "everpost.db-wal",
    "master.key",
    "management.token",
];

const QUEUE: &str = "jobs";

/// The messages of an appliance that was killed, and the copy of its data directory.
pub(super) struct Killed {
    folder: tempfile::TempDir,
    sent: Vec<String>,
}

impl Killed {
    /// With all of it in the log, or nearly nothing.
    pub(super) async fn new(is_in_log: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut appliance = Appliance::start(folder.path()).await;
        let queue = json!({"properties": {"maxDeliveryCount": 100}});
        let path = format!("/queues/{QUEUE}");
        appliance.manage(Method::PUT, &path, Some(&queue)).await;
        let token = appliance.token();
        let mut sent = Vec::new();
        for number in 0..MESSAGES {
            let body = format!("message {number} {}", "x".repeat(20 * number));
            let answer = client()
                .post(format!("{}/{QUEUE}/messages", appliance.url))
                .bearer_auth(&token)
                .body(body.clone())
                .send()
                .await;
            assert_eq!(answer.expect("an answer").status(), StatusCode::CREATED);
            sent.push(body);
        }
        if is_in_log {
            appliance.kill();
        } else {
            appliance.stop().await;
            let mut again = Appliance::start(folder.path()).await;
            again.kill();
        }
        Self { folder, sent }
    }

    /// A copy of its data directory, in the folder of an appliance.
    pub(super) fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().expect("a folder");
        let data = copy.path().join("data");
        fs::create_dir(&data).expect("a folder");
        for file in fs::read_dir(self.folder.path().join("data")).expect("a folder") {
            let file = file.expect("a file");
            if file.path().is_file() {
                fs::copy(file.path(), data.join(file.file_name())).expect("a copy");
            }
        }
        copy
    }

    /// Takes all that the appliance of a folder gives, and checks that it was sent. Returns how many are missing.
    pub(super) async fn receive(&self, appliance: &Appliance) -> Result<usize, StatusCode> {
        let mut left: BTreeMap<&str, ()> = self.sent.iter().map(|body| (&**body, ())).collect();
        let (client, token) = (client(), appliance.token());
        loop {
            match take(&client, appliance, &token).await {
                Ok(Some(body)) => {
                    let was_sent = left.remove(&*body).is_some();
                    assert!(was_sent, "it was not sent, or received before: {body:?}");
                }
                Ok(None) => return Ok(left.len()),
                Err(status) => return Err(status),
            }
        }
    }
}

/// The next message of the queue.
async fn take(
    client: &Client,
    appliance: &Appliance,
    token: &str,
) -> Result<Option<String>, StatusCode> {
    let next = client
        .delete(format!("{}/{QUEUE}/messages/head?timeout=0", appliance.url))
        .bearer_auth(token);
    let gone = StatusCode::BAD_GATEWAY;
    let answer = next.send().await.map_err(|_| gone)?;
    match answer.status() {
        StatusCode::OK => answer.text().await.map(Some).map_err(|_| gone),
        StatusCode::NO_CONTENT => Ok(None),
        status => Err(status),
    }
}

/// Flips a bit of one of the files, and says which.
fn flip(data: &Path, dice: &Entropy) -> String {
    let there: Vec<PathBuf> = FILES
        .iter()
        .map(|name| data.join(name))
        .filter(|file| fs::metadata(file).is_ok_and(|file| file.len() > 0))
        .collect();
    let file = &there[up_to(dice, there.len() as u64) as usize];
    let mut bytes = fs::read(file).expect("a file");
    let bit = up_to(dice, 8 * bytes.len() as u64);
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    fs::write(file, bytes).expect("a damaged file");
    format!(
        "bit {bit} of {}",
        file.file_name().expect("a name").to_string_lossy()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_flipped_bit_alters_a_message_or_hides_one_without_a_word() {
    let dice = dice();
    let killed = [Killed::new(true).await, Killed::new(false).await];
    let (mut rejected, mut told, mut whole) = (0, 0, 0);
    for number in 0..given("EVERPOST_FLIPS", FLIPS) {
        let killed = &killed[number as usize % killed.len()];
        let folder = killed.copy();
        let what = flip(&folder.path().join("data"), &dice);
        match look(killed, folder.path(), &what).await {
            Found::Rejected => rejected += 1,
            Found::Told => told += 1,
            Found::Whole => whole += 1,
        }
    }
    println!("{whole} changed nothing, {told} were told, {rejected} were not started with");
}

enum Found {
    /// The appliance does not start, and says why.
    Rejected,
    /// Something is missing, and it says so.
    Told,
    Whole,
}

async fn look(killed: &Killed, folder: &Path, what: &str) -> Found {
    let mut missing = MESSAGES;
    for _ in 0..STARTS_MAX {
        let mut appliance = match Appliance::try_start(folder).await {
            Ok(appliance) => appliance,
            Err((code, log)) => {
                assert!(
                    [Some(1), Some(2), Some(74)].contains(&code),
                    "{what}: {code:?} {log}"
                );
                assert!(log.contains("rror"), "{what}: without a word: {log}");
                return Found::Rejected;
            }
        };
        let received = killed.receive(&appliance).await;
        missing = match received {
            Ok(0) if missing == MESSAGES => return Found::Whole,
            Ok(_) if dead_letters(&appliance).await > 0 || is_told(&appliance).await => {
                return Found::Told;
            }
            Ok(missing) => panic!("{what}: {missing} are missing without a word"),
            Err(StatusCode::BAD_GATEWAY) => MESSAGES - 1, // the process has ended; what it gave before is gone
            Err(status) => {
                assert!(is_told(&appliance).await, "{what}: {status} without a word");
                return Found::Told;
            }
        };
        appliance.kill();
    }
    Found::Rejected
}

async fn dead_letters(appliance: &Appliance) -> usize {
    let dead = appliance.get("/everpost/deadLetters").await;
    dead["value"].as_array().map_or(0, Vec::len)
}

/// Whether the appliance says that something is damaged, at its start or when it checks.
async fn is_told(appliance: &Appliance) -> bool {
    let path = "/everpost/integrityCheck";
    let has = |status: &serde_json::Value, name: &str| {
        status[name]
            .as_array()
            .is_some_and(|lines| !lines.is_empty())
    };
    if has(&appliance.get(path).await, "foundAtStart") {
        return true;
    }
    appliance.manage(Method::POST, path, None).await;
    let status = eventually("the check ends", async || {
        let status = appliance.get(path).await;
        (status["state"] == "done").then_some(status)
    })
    .await;
    has(&status, "faults") || has(&status, "repaired") || status["error"].is_string()
}
