//! Throttling of guesses: failed guesses are counted per account and per network.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use super::People;
use super::password::{Crowded, HashPlace};
use crate::base::sha256_hex;
use crate::model::audit::Actor;
use crate::store::StoreError;
use crate::store::accounts::Guessers;

/// The prefix lengths of counted networks. Addresses are not counted alone, because one guesser can have many
/// addresses (docs/security.md B3).
const IPV4_PREFIX: u8 = 24;
const IPV6_PREFIX: u8 = 64;

/// The prefix length of an IPv6 end site. One customer can have all networks in it (RFC 6177).
const IPV6_END_SITE_PREFIX: u8 = 48;

/// The time that a client must wait before the next guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooOften(pub Duration);

/// Throttles guesses by the failures that the accounts have recorded. Accounts are counted by the typed name, even if
/// no such user exists. A guess at a link has no account.
impl People {
    /// Returns the result of `tried`, which is `None` for a wrong guess. Fails with [`TooOften`] if the client must
    /// wait before guessing.
    pub async fn guess<T, E: From<StoreError> + From<TooOften>>(
        &self,
        account: Option<&str>,
        address: Option<IpAddr>,
        tried: impl Future<Output = Result<Option<T>, E>>,
    ) -> Result<Option<T>, E> {
        let guessers = guessers(account, address);
        // The guess counts as failed until it is known to be right.
        let begun = self.accounts.begin_login_attempt(guessers, self.now());
        if let Some(wait) = begun.await? {
            return Err(TooOften(wait).into());
        }
        let found = tried.await?;
        if found.is_some() {
            self.guessed_right(account, address).await?;
        }
        Ok(found)
    }

    /// Waits for a place to hash a password for `account`. Clients in a network from which the account was used
    /// before do not wait for unknown clients. Fails at once if the guess is too early.
    pub(super) async fn place_to_guess<E>(
        &self,
        account: &str,
        address: Option<IpAddr>,
    ) -> Result<HashPlace, E>
    where
        E: From<StoreError> + From<TooOften> + From<Crowded>,
    {
        if let Some(wait) = self.wait_before_guess(Some(account), address).await? {
            return Err(wait.into());
        }
        let guessers = guessers(Some(account), address);
        let place = if self.accounts.is_known_there(guessers).await? {
            let who = Actor::User(account.to_lowercase());
            self.hashes.known(who).await
        } else {
            self.hashes.stranger(address.map(end_site)).await
        };
        Ok(place?)
    }

    /// Returns the time that a client must wait before a guess, without counting the guess. Used for guesses that are
    /// counted later because they first wait for something else. A guess without an account is counted only if it was
    /// wrong ([`People::guessed_wrong`]), because many clients of one network can be right at the same time.
    pub async fn wait_before_guess(
        &self,
        account: Option<&str>,
        address: Option<IpAddr>,
    ) -> Result<Option<TooOften>, StoreError> {
        let guessers = guessers(account, address);
        let wait = self.accounts.login_wait(guessers, self.now()).await?;
        Ok(wait.map(TooOften))
    }

    /// Counts a wrong guess without an account, unless its network must wait by now because of other guesses.
    pub async fn guessed_wrong(&self, address: Option<IpAddr>) -> Result<(), StoreError> {
        let guessers = guessers(None, address);
        let counted = self.accounts.begin_login_attempt(guessers, self.now());
        counted.await.map(drop)
    }

    /// Removes the failure that was counted for a right guess. Resets the failures of the account, and records that
    /// the account is used from this network.
    pub async fn guessed_right(
        &self,
        account: Option<&str>,
        address: Option<IpAddr>,
    ) -> Result<(), StoreError> {
        let guessers = guessers(account, address);
        self.accounts
            .clear_login_failures(guessers, self.now())
            .await
    }
}

fn guessers(account: Option<&str>, address: Option<IpAddr>) -> Guessers {
    let hash = |text: String| sha256_hex(text.as_bytes());
    let folded_account = account.map(str::to_lowercase);
    let network = address.map(network);
    let there = folded_account
        .as_ref()
        .zip(network)
        .map(|(account, network)| format!("account there {network} {account}"));
    let networks = network.iter().map(|it| hash(format!("network {it}")));
    Guessers {
        account_there: there.map(hash),
        account: folded_account.map(|account| hash(format!("account {account}"))),
        networks: networks.collect(),
    }
}

/// Returns the network in which the failures of an address are counted.
fn network(address: IpAddr) -> IpNet {
    network_of(address, IPV6_PREFIX)
}

/// Returns the network for taking turns while guesses wait for a place: all addresses that one customer can have.
pub(super) fn end_site(address: IpAddr) -> IpNet {
    network_of(address, IPV6_END_SITE_PREFIX)
}

fn network_of(address: IpAddr, ipv6_prefix: u8) -> IpNet {
    let canonical = address.to_canonical();
    let prefix = match canonical {
        IpAddr::V4(_) => IPV4_PREFIX,
        IpAddr::V6(_) => ipv6_prefix,
    };
    let network = IpNet::new(canonical, prefix);
    network.expect("the prefix fits the family").trunc()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Clock, Entropy, Timestamp};
    use crate::model::registry::ResourceScope;
    use crate::store::Store;

    const START: Timestamp = Timestamp::from_ms(1_000_000_000);

    /// What a guess comes to.
    #[derive(Debug)]
    enum Rejected {
        Wait(Duration),
        Crowded,
        Store(StoreError),
    }

    impl From<TooOften> for Rejected {
        fn from(TooOften(wait): TooOften) -> Self {
            Self::Wait(wait)
        }
    }

    impl From<Crowded> for Rejected {
        fn from(Crowded: Crowded) -> Self {
            Self::Crowded
        }
    }

    impl From<StoreError> for Rejected {
        fn from(error: StoreError) -> Self {
            Self::Store(error)
        }
    }

    async fn people() -> People {
        let scope = ResourceScope {
            subscription: "s".to_owned(),
            resource_group: "g".to_owned(),
        };
        let store = Store::open_inline(scope).expect("a store");
        let clock = Clock::simulated(START);
        let people = People::open(store.accounts, clock, Entropy::seeded(1));
        people.await.expect("people")
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    impl People {
        /// Seconds to wait; `None` for a try that was let pass, and failed.
        async fn fails(&self, account: Option<&str>, from: Option<IpAddr>) -> Option<u64> {
            let wrong = async { Ok::<Option<()>, Rejected>(None) };
            match self.guess(account, from, wrong).await {
                Ok(_) => None,
                Err(Rejected::Wait(wait)) => Some(wait.as_secs()),
                Err(Rejected::Crowded) => panic!("nobody waits"),
                Err(Rejected::Store(error)) => panic!("{error}"),
            }
        }

        async fn fail(&self, account: &str, from: Option<IpAddr>) -> Option<u64> {
            self.fails(Some(account), from).await
        }

        async fn succeed(&self, account: &str, from: Option<IpAddr>) {
            let done = self.guessed_right(Some(account), from).await;
            done.expect("taken back");
        }
    }

    #[tokio::test]
    async fn accounts_do_not_slow_each_other_and_letter_case_is_no_way_around() {
        let throttle = people().await;
        for name in ["ann", "bob"] {
            for _ in 0..5 {
                assert_eq!(throttle.fail(name, None).await, None);
            }
        }
        assert_eq!(throttle.fail("ANN", None).await, Some(1));
    }

    #[tokio::test]
    async fn a_network_is_slowed_whatever_names_it_tries() {
        let throttle = people().await;
        for last in 1..=5 {
            let v4 = address(&format!("192.0.2.{last}"));
            assert_eq!(throttle.fail(&format!("user{last}"), v4).await, None);
            let v6 = address(&format!("2001:db8::{last}"));
            assert_eq!(throttle.fail(&format!("other{last}"), v6).await, None);
        }
        for (from, wait) in [
            ("192.0.2.200", Some(1)),
            ("::ffff:192.0.2.7", Some(1)),
            ("192.0.3.1", None),
            ("2001:db8::ffff:1", Some(1)),
            ("2001:db8:0:1::1", None),
        ] {
            assert_eq!(throttle.fail(from, address(from)).await, wait, "{from}");
        }
    }

    #[tokio::test]
    async fn success_starts_the_account_afresh_and_costs_the_network_nothing() {
        let throttle = people().await;
        let from = address("192.0.2.1");
        for _ in 0..20 {
            assert_eq!(throttle.fail("ann", from).await, None);
            throttle.succeed("ann", from).await;
        }
    }

    #[tokio::test]
    async fn failures_elsewhere_keep_nobody_from_where_they_have_signed_in() {
        let throttle = people().await;
        let (office, elsewhere) = (address("192.0.2.1"), address("198.51.100.1"));
        throttle.fail("Ann", office).await;
        throttle.succeed("Ann", office).await;
        for _ in 0..9 {
            throttle.fail("ann", elsewhere).await;
        }
        let colleague = address("192.0.2.99");
        assert_eq!(throttle.fail("ann", address("203.0.113.1")).await, Some(1));
        assert_eq!(
            throttle.fail("ann", colleague).await,
            None,
            "the same network"
        );
        throttle.succeed("ann", colleague).await;
        assert_eq!(
            throttle.fail("ann", elsewhere).await,
            Some(1),
            "the guesser waits on"
        );
        for number in 0..9 {
            throttle.fail(&format!("user{number}"), office).await;
        }
        assert_eq!(
            throttle.fail("bob", office).await,
            Some(1),
            "the network is slowed"
        );
        for free in [true, true, true, true, true, false] {
            assert_eq!(throttle.fail("ann", office).await.is_none(), free);
        }
    }

    #[test]
    fn all_networks_of_a_customer_take_turns_as_one() {
        let site = |text: &str| end_site(text.parse().expect("an address"));
        for (one, other, is_same) in [
            ("192.0.2.1", "::ffff:192.0.2.200", true),
            ("192.0.2.1", "192.0.3.1", false),
            ("2001:db8:1::1", "2001:db8:1:ffff::1", true),
            ("2001:db8:1::1", "2001:db8:2::1", false),
        ] {
            assert_eq!(site(one) == site(other), is_same, "{one} {other}");
        }
    }

    #[tokio::test]
    async fn strangers_keep_nobody_from_where_they_have_signed_in_and_who_is_sent_away_has_not_guessed()
     {
        let people = people().await;
        let (office, elsewhere) = (address("192.0.2.1"), address("198.51.100.1"));
        people.succeed("ann", office).await;
        let crowd = people.crowd().await;
        let sign_in = async |from| {
            let user = people.authenticate::<Rejected>("Ann", "a wrong guess", from);
            user.await.map(|user| user.is_some())
        };
        for _ in 0..9 {
            let sent_away = sign_in(elsewhere).await;
            assert!(matches!(sent_away, Err(Rejected::Crowded)), "{sent_away:?}");
        }
        for _ in 0..5 {
            let wrong = sign_in(office).await;
            assert!(matches!(wrong, Ok(false)), "{wrong:?}");
        }
        drop(crowd);
        let early = sign_in(office).await;
        assert!(matches!(early, Err(Rejected::Wait(_))), "{early:?}");
        let first = sign_in(elsewhere).await;
        assert!(matches!(first, Ok(false)), "{first:?}");
    }

    #[tokio::test]
    async fn what_names_nobody_is_counted_by_network_alone() {
        let throttle = people().await;
        let (here, there) = (address("192.0.2.1"), address("198.51.100.1"));
        let guess = async |from| throttle.fails(None, from).await;
        for _ in 0..5 {
            assert_eq!(guess(here).await, None);
        }
        assert_eq!(guess(here).await, Some(1));
        assert_eq!(guess(there).await, None);
    }
}
