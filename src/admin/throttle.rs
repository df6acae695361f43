//! Slows down the guessing of passwords: per account and per network of the guesser, with waits that
//! grow and end (security.md B3). The counts live in memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use ipnet::IpNet;

use crate::base::Timestamp;

/// Failures without consequences (security.md B3).
const FREE_TRIES: u32 = 5;

/// The longest wait: nobody is locked out for good (security.md B3).
const WAIT_MAX: Duration = Duration::from_secs(300);

/// After this long without a failure an account or network starts afresh.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);

/// Accounts and networks that are remembered at once: bounds memory.
const REMEMBERED_MAX: usize = 10_000;

/// Networks are counted, not addresses, because one guesser has many of them.
const IPV4_PREFIX: u8 = 24;
const IPV6_PREFIX: u8 = 64;

/// Counts the failures.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    guesses: Mutex<HashMap<Guesser, Failures>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Guesser {
    /// By name, whether there is such a user or not.
    OfAccount(String),
    From(IpNet),
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last_at: Timestamp,
    free_at: Timestamp,
}

impl Throttle {
    /// Lets a try pass, counting it as failed until [`Throttle::succeeded`] says otherwise, or tells how
    /// long to wait.
    pub(super) fn begin(
        &self,
        account: &str,
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<(), Duration> {
        let guessers = guessers(account, address);
        let mut guesses = self.guesses.lock().unwrap();
        make_room(&mut guesses, now);
        let wait = guessers.iter().filter_map(|guesser| guesses.get(guesser));
        let wait = wait.map(|failures| failures.free_at.since(now)).max();
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            return Err(wait);
        }
        for guesser in guessers {
            let failures = guesses.entry(guesser).or_insert(Failures::none(now));
            *failures = failures.unless_forgotten(now).one_more(now);
        }
        Ok(())
    }

    /// Takes back the failure counted by [`Throttle::begin`]; the account starts afresh.
    pub(super) fn succeeded(&self, account: &str, address: Option<IpAddr>) {
        let mut guesses = self.guesses.lock().unwrap();
        for guesser in guessers(account, address) {
            match &guesser {
                Guesser::OfAccount(_) => drop(guesses.remove(&guesser)),
                Guesser::From(_) => {
                    if let Some(failures) = guesses.get_mut(&guesser) {
                        *failures = failures.one_fewer();
                    }
                }
            }
        }
    }
}

impl Failures {
    fn none(now: Timestamp) -> Self {
        Self {
            count: 0,
            last_at: now,
            free_at: now,
        }
    }

    fn one_more(self, now: Timestamp) -> Self {
        let count = self.count.saturating_add(1);
        Self {
            count,
            last_at: now,
            free_at: now + wait_after(count),
        }
    }

    fn one_fewer(self) -> Self {
        Self {
            count: self.count.saturating_sub(1),
            free_at: self.last_at,
            ..self
        }
    }

    fn unless_forgotten(self, now: Timestamp) -> Self {
        match self.is_forgotten(now) {
            true => Self::none(now),
            false => self,
        }
    }

    fn is_forgotten(&self, now: Timestamp) -> bool {
        now.since(self.last_at) >= FORGOTTEN_AFTER
    }
}

/// Nothing after the free tries but the last, then 1, 2, 4 … seconds.
fn wait_after(failures: u32) -> Duration {
    match failures.checked_sub(FREE_TRIES) {
        None => Duration::ZERO,
        Some(beyond) => Duration::from_secs(1 << beyond.min(16)).min(WAIT_MAX),
    }
}

fn guessers(account: &str, address: Option<IpAddr>) -> Vec<Guesser> {
    // Cut, so that a name cannot be used to fill the memory.
    let account = account.chars().take(64).collect::<String>().to_lowercase();
    let mut guessers = vec![Guesser::OfAccount(account)];
    guessers.extend(address.map(|address| Guesser::From(network(address))));
    guessers
}

fn network(address: IpAddr) -> IpNet {
    let address = address.to_canonical();
    let prefix = match address {
        IpAddr::V4(_) => IPV4_PREFIX,
        IpAddr::V6(_) => IPV6_PREFIX,
    };
    IpNet::new(address, prefix)
        .expect("the prefix fits the family")
        .trunc()
}

/// Makes room for the two that a try adds at most.
fn make_room(guesses: &mut HashMap<Guesser, Failures>, now: Timestamp) {
    let is_full = |guesses: &HashMap<_, _>| guesses.len() + 2 > REMEMBERED_MAX;
    if is_full(guesses) {
        guesses.retain(|_, failures| !failures.is_forgotten(now));
    }
    while is_full(guesses) {
        let oldest = guesses.iter().min_by_key(|(_, failures)| failures.last_at);
        let Some(oldest) = oldest.map(|(oldest, _)| oldest.clone()) else {
            return;
        };
        guesses.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_ms(1_000_000_000);

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    /// Fails `tries` times as soon as each is allowed, and returns the waits in between.
    fn waits(throttle: &Throttle, account: &str, tries: u32) -> Vec<u64> {
        let mut now = START;
        let mut waits = Vec::new();
        for _ in 0..tries {
            let wait = throttle.begin(account, None, now).err().unwrap_or_default();
            waits.push(wait.as_secs());
            now = now + wait;
            if !wait.is_zero() {
                assert_eq!(throttle.begin(account, None, now), Ok(()));
            }
        }
        waits
    }

    #[test]
    fn five_tries_are_free_and_then_waits_grow_to_five_minutes() {
        assert_eq!(
            waits(&Throttle::default(), "ann", 16),
            [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
        );
    }

    #[test]
    fn accounts_do_not_slow_each_other_and_letter_case_is_no_way_around() {
        let throttle = Throttle::default();
        waits(&throttle, "ann", 6);
        assert_eq!(waits(&throttle, "bob", 5), [0; 5]);
        assert!(throttle.begin("ANN", None, START).is_err());
    }

    #[test]
    fn a_network_is_slowed_whatever_names_it_tries() {
        let throttle = Throttle::default();
        for last in 1..=5 {
            let from = address(&format!("192.0.2.{last}"));
            assert_eq!(throttle.begin(&format!("user{last}"), from, START), Ok(()));
        }
        let another = throttle.begin("user6", address("192.0.2.200"), START);
        assert_eq!(another, Err(seconds(1)));
        let mapped = throttle.begin("user6", address("::ffff:192.0.2.7"), START);
        assert_eq!(mapped, Err(seconds(1)));
        assert_eq!(throttle.begin("user6", address("192.0.3.1"), START), Ok(()));
        for last in 1..=5 {
            let from = address(&format!("2001:db8::{last}"));
            let name = format!("other{last}");
            assert_eq!(throttle.begin(&name, from, START), Ok(()));
        }
        let same_64 = throttle.begin("other6", address("2001:db8::ffff:1"), START);
        assert_eq!(same_64, Err(seconds(1)));
    }

    #[test]
    fn success_starts_the_account_afresh_and_costs_the_network_nothing() {
        let throttle = Throttle::default();
        let from = address("192.0.2.1");
        for _ in 0..20 {
            assert_eq!(throttle.begin("ann", from, START), Ok(()));
            throttle.succeeded("ann", from);
        }
    }

    #[test]
    fn failures_are_forgotten_after_an_hour() {
        let throttle = Throttle::default();
        waits(&throttle, "ann", 12);
        let later = START + FORGOTTEN_AFTER + seconds(200);
        for _ in 0..5 {
            assert_eq!(throttle.begin("ann", None, later), Ok(()));
        }
    }

    #[test]
    fn memory_is_bounded() {
        let throttle = Throttle::default();
        for number in 0..REMEMBERED_MAX + 100 {
            let from = IpAddr::from([10, (number >> 8) as u8, number as u8, 1]);
            let _ = throttle.begin(&format!("user{number}"), Some(from), START);
        }
        assert!(throttle.guesses.lock().unwrap().len() <= REMEMBERED_MAX);
        let _ = throttle.begin("late", None, START + FORGOTTEN_AFTER);
        assert_eq!(throttle.guesses.lock().unwrap().len(), 1);
    }
}
