//! Simulations: from a seed, a random world does its worst to the appliance, and after every step what is
//! promised must hold.
//!
//! The appliance is the real one, dispatcher and janitor included, over a simulated clock, a database in
//! memory that survives crashes and can be full, and receivers of all moods. A seed decides everything,
//! so a failure can be played again: `EVERPOST_SIM_SEED=n cargo test --test it sim::one_seed`.

pub(crate) mod dice;
mod event;
mod ledger;
mod life;
mod pull;
mod pulled;
mod request;
mod run;
mod spec;
mod step;
mod watch;
mod world;

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use run::{Ending, play};

/// Seeds that every test run plays.
const SEEDS: u64 = 200;

/// Threads that play; a seed needs one.
const THREADS: usize = 2;

/// Seeds that may break a rule before nothing more can be learned from playing on.
const BROKEN_MAX: usize = 10;

/// Seeds between two lines of progress.
const PROGRESS_SEEDS: u64 = 1_000;

fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is no number: {text}")),
    )
}

/// What happened up to the rule that was broken, if one was.
fn story(seed: u64, ending: &Ending) -> Option<String> {
    let rule = ending.violation.as_ref()?;
    Some(format!(
        "seed {seed}: {rule}\n{}\nplay it again: EVERPOST_SIM_SEED={seed} cargo test --test it \
         sim::one_seed",
        ending.trace
    ))
}

/// A failure shows its seed. More of them: `EVERPOST_SIM_SEEDS=100000 cargo test --release --test it sim::many -- --nocapture`.
#[test]
fn many_seeds() {
    let seeds = number_from("EVERPOST_SIM_SEEDS").unwrap_or(SEEDS);
    let played = Played::default();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| played.play_up_to(seeds));
        }
    });
    let [events, requests, seconds] = played.sizes.map(AtomicU64::into_inner);
    let days = seconds / 86_400;
    eprintln!("{seeds} seeds: {events} events in {requests} attempts over {days} days");
    let broken = played.broken.into_inner().unwrap();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(events > seeds && requests > seeds, "too little happens");
}

/// What several threads have played so far.
#[derive(Default)]
struct Played {
    next: AtomicU64,
    sizes: [AtomicU64; 3],
    /// The stories of the seeds that broke a rule.
    broken: Mutex<Vec<String>>,
}

impl Played {
    fn play_up_to(&self, seeds: u64) {
        while self.broken.lock().unwrap().len() < BROKEN_MAX {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return;
            }
            let ending = play(seed);
            for (sum, size) in self.sizes.iter().zip(ending.size) {
                sum.fetch_add(size, Ordering::Relaxed);
            }
            if let Some(story) = story(seed, &ending) {
                eprintln!("seed {seed} breaks a rule");
                self.broken.lock().unwrap().push(story);
            }
            if (seed + 1).is_multiple_of(PROGRESS_SEEDS) {
                eprintln!("{} of {seeds} seeds", seed + 1);
            }
        }
    }
}

#[test]
fn one_seed() {
    let seed = number_from("EVERPOST_SIM_SEED").unwrap_or(SEEDS);
    let ending = play(seed);
    if let Some(story) = story(seed, &ending) {
        panic!("{story}");
    }
    println!("{}", ending.trace);
}

#[test]
fn a_seed_repeats_itself() {
    let mut hashes = HashSet::new();
    for seed in 0..5 {
        let (one, other) = (play(seed), play(seed));
        assert_eq!(one.trace, other.trace, "seed {seed}");
        assert_eq!(one.hash, other.hash, "seed {seed}");
        assert!(hashes.insert(one.hash), "seed {seed} is like another");
    }
}
