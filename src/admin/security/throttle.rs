//! Whose failures count together when somebody guesses: those at one account, and those from one network.

use std::fmt::Display;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::admin::error::{PageError, PageResult};
use crate::base::{Clock, Timestamp, sha256_hex};
use crate::store::accounts::{Accounts, Guessers};

/// Networks are counted, not addresses, because one guesser has many of them (docs/security.md B3).
const IPV4_PREFIX: u8 = 24;
const IPV6_PREFIX: u8 = 64;

/// Slows guessers down by what the book of people knows of them.
pub(crate) struct Throttle {
    accounts: Accounts,
    clock: Clock,
}

impl Throttle {
    pub(crate) fn new(accounts: Accounts, clock: Clock) -> Self {
        Self { accounts, clock }
    }

    /// Lets a try pass, counting it as failed until [`Throttle::succeeded`] says otherwise, or tells how
    /// long to wait. `account` is what was typed, whether there is such a user or not.
    pub(crate) async fn begin(
        &self,
        account: &str,
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> PageResult<()> {
        self.count(guessers(Some(account), address), now).await
    }

    /// Takes back the failure counted by [`Throttle::begin`]; the account starts afresh, and is known to be used
    /// from there.
    pub(crate) async fn succeeded(&self, account: &str, address: Option<IpAddr>) -> PageResult<()> {
        self.clear(guessers(Some(account), address)).await
    }

    /// [`Throttle::begin`] for a link, which names nobody.
    pub(crate) async fn begin_link(&self, address: Option<IpAddr>) -> PageResult<()> {
        self.count(guessers(None, address), self.clock.now()).await
    }

    /// Takes back the failure counted by [`Throttle::begin_link`].
    pub(crate) async fn link_succeeded(&self, address: Option<IpAddr>) -> PageResult<()> {
        self.clear(guessers(None, address)).await
    }

    async fn count(&self, guessers: Guessers, now: Timestamp) -> PageResult<()> {
        let wait = self.accounts.begin_login_attempt(guessers, now).await?;
        wait.map_or(Ok(()), |wait| Err(PageError::TooOften(wait)))
    }

    async fn clear(&self, guessers: Guessers) -> PageResult<()> {
        let now = self.clock.now();
        Ok(self.accounts.clear_login_failures(guessers, now).await?)
    }
}

fn guessers(account: Option<&str>, address: Option<IpAddr>) -> Guessers {
    let account = account.map(str::to_lowercase);
    let network = address.map(network);
    let there = account.as_ref().zip(network);
    Guessers {
        account_there: there
            .map(|(account, network)| hash("account there", &format!("{network} {account}"))),
        account: account.map(|account| hash("account", &account)),
        networks: network
            .map(|network| hash("network", &network))
            .into_iter()
            .collect(),
    }
}

fn hash(kind: &str, what: &dyn Display) -> String {
    sha256_hex(format!("{kind} {what}").as_bytes())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::registry::ResourceScope;
    use crate::store::Store;

    const START: Timestamp = Timestamp::from_ms(1_000_000_000);

    fn throttle() -> Throttle {
        let scope = ResourceScope {
            subscription: "s".to_owned(),
            resource_group: "g".to_owned(),
        };
        let store = Store::open_inline(scope).expect("a store");
        Throttle::new(store.accounts, Clock::simulated(START))
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    /// Seconds to wait; `None` for a try that was let pass.
    fn wait(begun: PageResult<()>) -> Option<u64> {
        match begun {
            Ok(()) => None,
            Err(PageError::TooOften(wait)) => Some(wait.as_secs()),
            Err(error) => panic!("{error}"),
        }
    }

    impl Throttle {
        /// Seconds to wait; `None` for a try that was let pass, and failed.
        async fn fail(&self, account: &str, address: Option<IpAddr>) -> Option<u64> {
            wait(self.begin(account, address, START).await)
        }

        async fn succeed(&self, account: &str, address: Option<IpAddr>) {
            let done = self.succeeded(account, address).await;
            done.expect("taken back");
        }
    }

    #[tokio::test]
    async fn accounts_do_not_slow_each_other_and_letter_case_is_no_way_around() {
        let throttle = throttle();
        for name in ["ann", "bob"] {
            for _ in 0..5 {
                assert_eq!(throttle.fail(name, None).await, None);
            }
        }
        assert_eq!(throttle.fail("ANN", None).await, Some(1));
    }

    #[tokio::test]
    async fn a_network_is_slowed_whatever_names_it_tries() {
        let throttle = throttle();
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
        let throttle = throttle();
        let from = address("192.0.2.1");
        for _ in 0..20 {
            assert_eq!(throttle.fail("ann", from).await, None);
            throttle.succeed("ann", from).await;
        }
    }

    #[tokio::test]
    async fn failures_elsewhere_keep_nobody_from_where_they_have_signed_in() {
        let throttle = throttle();
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

    #[tokio::test]
    async fn what_names_nobody_is_counted_by_network_alone() {
        let throttle = throttle();
        let (here, there) = (address("192.0.2.1"), address("198.51.100.1"));
        let guess = async |from| wait(throttle.begin_link(from).await);
        for _ in 0..5 {
            assert_eq!(guess(here).await, None);
        }
        assert_eq!(guess(here).await, Some(1));
        assert_eq!(guess(there).await, None);
    }
}
