//! Rate limit for wrong keys and tokens, per client. Clients with a known right key or token never wait.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use crate::api::intake::client_of;
use crate::base::{Timestamp, sha256};
use crate::model::access::Secret;

/// Wrong tokens that a client may present in a burst. A few programs with an old token stay below it.
const WRONG_AT_ONCE: u32 = 10;

/// The interval after which one more wrong token is allowed: about 30 million a year, of 2^256 possible tokens.
const WRONG_EVERY: Duration = Duration::from_secs(1);

/// Maximum number of clients that are remembered, the most recent ones. They take a few megabytes.
const CLIENTS_MAX: usize = 10_000;

/// Maximum number of right tokens that are remembered per client, enough for the programs that share an address.
const RIGHT_MAX: usize = 16;

/// The SHA-256 hash of a presented key or token.
type Hash = [u8; 32];

/// The right and wrong keys and tokens that clients have recently presented.
#[derive(Default)]
pub struct Guesses {
    clients: Mutex<HashMap<IpAddr, ClientGuesses>>,
}

#[derive(Default)]
struct ClientGuesses {
    last_at: Timestamp,
    /// The time at which all wrong tokens so far no longer count.
    forgotten_at: Timestamp,
    /// The hashes of right tokens, which are examined even while the client has to wait because of wrong ones.
    right: VecDeque<Hash>,
}

impl Guesses {
    /// Returns the owner of `token` as `look` finds it, or `None` if the token is not valid. Returns the time to wait
    /// as an error if the client has presented too many wrong tokens, unless this token was right before.
    pub(super) fn examine<T>(
        &self,
        token: &Secret,
        address: Option<IpAddr>,
        now: Timestamp,
        look: impl FnOnce() -> Option<T>,
    ) -> Result<Option<T>, Duration> {
        let Some(client) = address.map(client_of) else {
            return Ok(look());
        };
        let hash = sha256(token.reveal().as_bytes());
        if let Some(wait) = self.wait(client, Some(hash), now) {
            return Err(wait);
        }
        let found = look();
        self.note(client, hash, found.is_some(), now);
        Ok(found)
    }

    /// Returns the time to wait as an error if the client has presented too many wrong tokens. Called before an error
    /// that would reveal that a key is right although its signature grants nothing.
    pub(super) fn hold_back(
        &self,
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<(), Duration> {
        let waits = address.and_then(|address| self.wait(client_of(address), None, now));
        waits.map_or(Ok(()), Err)
    }

    /// Returns the time that a client has to wait, or `None` if it need not wait or if its token was right before.
    fn wait(&self, client: IpAddr, hash: Option<Hash>, now: Timestamp) -> Option<Duration> {
        let clients = self.clients.lock().unwrap();
        let of_client = clients.get(&client)?;
        let wait = of_client
            .forgotten_at
            .since(now + WRONG_EVERY * (WRONG_AT_ONCE - 1));
        let is_known = hash.is_some_and(|hash| of_client.right.contains(&hash));
        (!wait.is_zero() && !is_known).then_some(wait)
    }

    fn note(&self, client: IpAddr, hash: Hash, is_right: bool, now: Timestamp) {
        let mut clients = self.clients.lock().unwrap();
        if clients.len() >= CLIENTS_MAX && !clients.contains_key(&client) {
            let oldest = clients.iter().min_by_key(|(_, each)| each.last_at);
            if let Some(oldest) = oldest.map(|(client, _)| *client) {
                clients.remove(&oldest);
            }
        }
        let of_client = clients.entry(client).or_default();
        of_client.last_at = now;
        if !is_right {
            of_client.forgotten_at = of_client.forgotten_at.max(now) + WRONG_EVERY;
            of_client.right.retain(|each| *each != hash);
        } else if !of_client.right.contains(&hash) {
            of_client.right.truncate(RIGHT_MAX - 1);
            of_client.right.push_front(hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_ms(1_000_000);

    /// Seconds to wait, or whether the token was looked at and right.
    fn present(guesses: &Guesses, from: &str, token: &str, after_s: u64) -> Result<bool, u64> {
        let from = from.parse().expect("an address");
        let now = START + Duration::from_secs(after_s);
        let look = || token.starts_with("right").then_some(());
        let found = guesses.examine(&Secret::new(token), Some(from), now, look);
        found
            .map(|found| found.is_some())
            .map_err(|wait| wait.as_secs())
    }

    #[test]
    fn a_client_that_guesses_waits_and_others_do_not() {
        let guesses = Guesses::default();
        assert_eq!(present(&guesses, "192.0.2.1", "right", 0), Ok(true));
        for _ in 0..10 {
            assert_eq!(present(&guesses, "192.0.2.1", "wrong", 0), Ok(false));
        }
        for (from, token, after_s, expected) in [
            ("192.0.2.1", "wrong", 0, Err(1)),
            ("192.0.2.1", "right but new", 0, Err(1)),
            ("192.0.2.1", "right", 0, Ok(true)),
            ("192.0.2.2", "right", 0, Ok(true)),
            ("192.0.2.1", "wrong", 1, Ok(false)),
            ("192.0.2.1", "wrong", 1, Err(1)),
            ("192.0.2.1", "right but new", 2, Ok(true)),
            ("192.0.2.1", "wrong", 3_600, Ok(false)),
        ] {
            let found = present(&guesses, from, token, after_s);
            assert_eq!(found, expected, "{token} from {from} after {after_s} s");
        }
    }

    #[test]
    fn what_says_that_a_key_is_right_waits_like_any_other() {
        let guesses = Guesses::default();
        let held_back = |from: &str, after_s: u64| {
            let now = START + Duration::from_secs(after_s);
            let from = from.parse().expect("an address");
            guesses.hold_back(Some(from), now).is_err()
        };
        assert_eq!(present(&guesses, "192.0.2.1", "right", 0), Ok(true));
        for number in 0..10 {
            assert!(!held_back("192.0.2.1", 0), "{number}");
            assert_eq!(present(&guesses, "192.0.2.1", "wrong", 0), Ok(false));
        }
        assert!(held_back("192.0.2.1", 0));
        assert!(!held_back("192.0.2.2", 0));
        assert!(!held_back("192.0.2.1", 1), "it costs no turn itself");
        assert!(!held_back("192.0.2.1", 1));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let guesses = Guesses::default();
        for client in 0..CLIENTS_MAX as u32 + 5 {
            let from = std::net::Ipv4Addr::from_bits(client).to_string();
            let _ = present(&guesses, &from, "wrong", client.into());
        }
        for number in 0..50 {
            let token = format!("right {number}");
            assert_eq!(present(&guesses, "192.0.2.1", &token, 99_999), Ok(true));
        }
        let clients = guesses.clients.lock().unwrap();
        assert_eq!(clients.len(), CLIENTS_MAX);
        assert!(clients.values().all(|each| each.right.len() <= RIGHT_MAX));
    }
}
