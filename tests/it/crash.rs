//! The built binary, killed at random moments under load: whatever it acknowledged arrives, nothing
//! arrives that was not sent, and a kill costs no more duplicates than were on the wire.

mod appliance;
mod backup;
mod commands;
mod damage;
mod export;
mod ledger;
mod load;
mod receiver;
mod replay;

use std::path::Path;
use std::time::Duration;

use everpost::base::Entropy;
use serde_json::json;

pub(crate) use appliance::Appliance;
use ledger::Ledger;
use load::Load;
use receiver::Receiver;

/// Unless `EVERPOST_KILLS` says otherwise.
const KILLS: u32 = 20;

/// How many more events are acknowledged before a kill, at most. A count and not a time, so that a slow
/// machine is killed at the same stages of its work as a fast one.
const EVENTS_BETWEEN_KILLS: u64 = 400;

/// One start in so many is cut short by another kill, within the time that follows.
const BROKEN_STARTS: u64 = 4;
const BROKEN_START_MS: u64 = 60;

/// Starts that are stopped at once.
const STOPPED_STARTS: u32 = 5;

/// Ends in a failure what would otherwise hang; no machine needs so long.
const PATIENCE: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_every_kill() {
    let dice = dice();
    let folder = tempfile::tempdir().expect("a folder for the data");
    let receiver = Receiver::start().await;
    let mut appliance = Appliance::start(folder.path()).await;
    let ledger = Ledger::default();
    let load = Load::start(&appliance, &receiver, &ledger, &dice).await;

    for _ in 0..given("EVERPOST_KILLS", KILLS) {
        let growth = 1 + up_to(&dice, EVENTS_BETWEEN_KILLS);
        ledger.grow_by(growth).await;
        load.point_at(None);
        appliance.kill();
        receiver.begin_next_life().await;
        if up_to(&dice, BROKEN_STARTS) == 0 {
            break_a_start(folder.path(), &dice).await;
            receiver.begin_next_life().await;
        }
        appliance = Appliance::start(folder.path()).await;
        load.point_at(Some(&appliance));
    }
    load.stop().await;

    let kept = ledger.kept(&appliance).await;
    receiver.wait_for(&kept).await;
    ledger.check(&receiver.deliveries());
    let dead = appliance.get("/everpost/deadLetters").await;
    assert_eq!(dead["value"], json!([]), "no delivery was given up");
}

/// Whoever finds it ready may end it: the first moment is no exception.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_stopped_as_soon_as_it_is_found_ends_well() {
    let folder = tempfile::tempdir().expect("a folder for the data");
    for _ in 0..STOPPED_STARTS {
        let mut appliance = Appliance::spawn(folder.path());
        let found = folder.path().join("data/server.url");
        eventually("the appliance says where it listens", async || {
            found.exists().then_some(())
        })
        .await;
        let status = appliance.stop().await;
        assert_eq!(status.code(), Some(0), "{status}");
        assert!(!found.exists(), "it took its address away");
    }
}

/// Starts the appliance and kills it before it can be of use.
async fn break_a_start(folder: &Path, dice: &Entropy) {
    let mut unlucky = Appliance::spawn(folder);
    tokio::time::sleep(Duration::from_millis(up_to(dice, BROKEN_START_MS))).await;
    unlucky.kill();
}

/// The number that the environment gives, if it gives one.
fn given(name: &str, otherwise: u32) -> u32 {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number"))
    })
}

/// The dice of this run, by a seed that is printed and can be given.
fn dice() -> Entropy {
    let given = std::env::var("EVERPOST_SEED").ok();
    let seed = given.map_or_else(random_seed, |text| {
        text.parse().expect("EVERPOST_SEED is a number")
    });
    println!("repeat with EVERPOST_SEED={seed}");
    Entropy::seeded(seed)
}

fn random_seed() -> u64 {
    up_to(&Entropy::Os, u64::from(u32::MAX))
}

/// A number below `end`.
fn up_to(dice: &Entropy, end: u64) -> u64 {
    (dice.fraction() * end as f64) as u64
}

/// The answer of `question` once there is one.
async fn eventually<T>(what: &str, mut question: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = question().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    answer.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"))
}
