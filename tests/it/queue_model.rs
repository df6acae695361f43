//! Queues against a model: from a seed, random senders and receivers use them, and what lies there is always
//! what a plain reading of Service Bus' rules says (docs/azure-compatibility.md, S2 to S6).
//!
//! The queues are the real ones, over a simulated clock and a database in memory that survives crashes. A failure shows
//! its seed and what happened; `EVERPOST_MODEL_SEED=n cargo test --test it queue_model::one_seed` plays it again.

mod check;
mod expected;
mod play;
mod receivers;
mod sessions;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use play::Play;
use tokio::runtime::Builder;

/// Seeds that every test run plays, and the steps of each.
const SEEDS: u64 = 16;
const STEPS: u64 = 250;

/// Seeds that are played at once.
const THREADS: u64 = 2;

/// After so many seeds, progress is printed.
const PROGRESS_SEEDS: u64 = 100;

fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// A million steps: `EVERPOST_MODEL_SEEDS=4000 cargo test --release --test it queue_model::many -- --nocapture`.
#[test]
fn many_seeds() {
    let seeds = number_from("EVERPOST_MODEL_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| play_up_to(seeds, &next));
        }
    });
}

fn play_up_to(seeds: u64, next: &AtomicU64) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds {
            return;
        }
        runtime.block_on(async { Play::new(seed).await.steps(STEPS).await });
        if (seed + 1).is_multiple_of(PROGRESS_SEEDS) {
            eprintln!("{} of {seeds} seeds", seed + 1);
        }
    }
}

#[tokio::test]
async fn one_seed() {
    let seed = number_from("EVERPOST_MODEL_SEED").unwrap_or(SEEDS);
    Play::new(seed).await.steps(STEPS).await;
}
