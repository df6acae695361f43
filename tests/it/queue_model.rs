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

use play::Play;

/// Seeds that every test run plays, and the steps of each.
const SEEDS: u64 = 16;
const STEPS: u64 = 250;

fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// A million steps: `EVERPOST_MODEL_SEEDS=4000 cargo test --release --test it queue_model::many`.
#[tokio::test]
async fn many_seeds() {
    for seed in 0..number_from("EVERPOST_MODEL_SEEDS").unwrap_or(SEEDS) {
        Play::new(seed).await.steps(STEPS).await;
    }
}

#[tokio::test]
async fn one_seed() {
    let seed = number_from("EVERPOST_MODEL_SEED").unwrap_or(SEEDS);
    Play::new(seed).await.steps(STEPS).await;
}
