//! Randomness: keys, tokens, ids and jitter, from the operating system or from a seed.

use std::sync::{Arc, Mutex};

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use uuid::Uuid;

/// Bytes of a topic's access key: as many as Event Grid's own keys have.
const ACCESS_KEY_BYTES: usize = 32;

/// Bytes of every other secret (tokens, validation codes): 256 bit, far past guessing.
const SECRET_BYTES: usize = 32;

/// A source of randomness. Cheap to clone; clones of a seeded one share one sequence.
#[derive(Clone, Debug)]
pub enum Entropy {
    /// The operating system's generator: the only one fit for secrets.
    Os,
    /// A repeatable sequence (SplitMix64), for simulations alone.
    Seeded(Arc<Mutex<u64>>),
}

impl Entropy {
    /// The sequence that belongs to `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(Mutex::new(seed)))
    }

    /// Fills `bytes`. A system without randomness cannot serve, so failing to get it panics.
    pub fn fill(&self, bytes: &mut [u8]) {
        match self {
            Self::Os => SystemRandom::new()
                .fill(bytes)
                .expect("the operating system gives random bytes"),
            Self::Seeded(state) => {
                let mut guard = state.lock().unwrap();
                for chunk in bytes.chunks_mut(8) {
                    chunk.copy_from_slice(&split_mix(&mut guard).to_le_bytes()[..chunk.len()]);
                }
            }
        }
    }

    /// A number in `-1..1`, for jitter.
    pub fn jitter(&self) -> f64 {
        2.0 * self.fraction() - 1.0
    }

    /// A number in `0..1`.
    pub fn fraction(&self) -> f64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        // 53 bits are what an f64 holds exactly.
        (u64::from_le_bytes(bytes) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A new access key of a topic: base64, as SAS tokens need it (rule 1.2).
    pub fn access_key(&self) -> String {
        let mut bytes = [0; ACCESS_KEY_BYTES];
        self.fill(&mut bytes);
        STANDARD.encode(bytes)
    }

    /// A new secret that is safe in URLs, headers and file names.
    pub fn secret(&self) -> String {
        let mut bytes = [0; SECRET_BYTES];
        self.fill(&mut bytes);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// A random UUID, for ids that must not be guessed in sequence but are no secrets.
    pub fn uuid(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_fractions_stay_below_one() {
        let (one, other) = (Entropy::seeded(7), Entropy::seeded(7));
        for _ in 0..1_000 {
            let fraction = one.fraction();
            assert!((0.0..1.0).contains(&fraction));
            assert_eq!(fraction, other.fraction());
        }
        assert_ne!(one.uuid(), one.uuid());
    }

    #[test]
    fn keys_are_base64_of_32_bytes_and_never_the_same() {
        let key = Entropy::Os.access_key();
        assert_eq!(STANDARD.decode(&key).expect("base64").len(), 32);
        assert_ne!(key, Entropy::Os.access_key());
    }
}
