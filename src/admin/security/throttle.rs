//! Whose failures count together when somebody guesses: those at one account, and those from one network.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use crate::base::{Timestamp, sha256_hex};
use crate::store::StoreError;
use crate::store::accounts::Accounts;

/// Networks are counted, not addresses, because one guesser has many of them (docs/security.md B3).
const IPV4_PREFIX: u8 = 24;
const IPV6_PREFIX: u8 = 64;

/// Slows guessers down by what the book of people knows of them.
pub(crate) struct Throttle {
    accounts: Accounts,
}

impl Throttle {
    pub(crate) fn new(accounts: Accounts) -> Self {
        Self { accounts }
    }

    /// Lets a try pass, counting it as failed until [`Throttle::succeeded`] says otherwise, or tells how
    /// long to wait. `account` is what was typed, whether there is such a user or not.
    pub(crate) async fn begin(
        &self,
        account: &str,
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<Option<Duration>, StoreError> {
        let guessers = std::iter::once(of_account(account)).chain(from(address));
        self.accounts
            .begin_login_attempt(guessers.collect(), now)
            .await
    }

    /// Takes back the failure counted by [`Throttle::begin`]; the account starts afresh.
    pub(crate) async fn succeeded(
        &self,
        account: &str,
        address: Option<IpAddr>,
    ) -> Result<(), StoreError> {
        let networks = from(address).into_iter().collect();
        self.accounts
            .clear_login_failures(of_account(account), networks)
            .await
    }
}

/// Hashed, since people type their password into the field for the name.
fn of_account(name: &str) -> String {
    sha256_hex(format!("account {}", name.to_lowercase()).as_bytes())
}

fn from(address: Option<IpAddr>) -> Option<String> {
    let network = network(address?);
    Some(sha256_hex(format!("network {network}").as_bytes()))
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
        Throttle::new(Store::open_inline(scope).expect("a store").accounts)
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    impl Throttle {
        /// Seconds to wait; `None` for a try that was let pass, and failed.
        async fn fail(&self, account: &str, address: Option<IpAddr>) -> Option<u64> {
            let wait = self.begin(account, address, START).await;
            wait.expect("an answer").map(|wait| wait.as_secs())
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
            throttle.succeeded("ann", from).await.expect("taken back");
        }
    }
}
