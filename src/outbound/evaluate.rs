//! Evaluation of a URL by the egress policy. Uses the rules and DNS lookups of a delivery, but sends no request.

use std::net::IpAddr;

use url::{Host, Url};

use crate::outbound::Outbound;
use crate::outbound::egress::{EgressDenied, EgressPolicy, Permit};
use crate::outbound::resolver::{Guard, ResolveError};

/// The decision of the egress policy on a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EgressVerdict {
    /// A request would go to one of these addresses.
    Allowed(Vec<(IpAddr, Permit)>),
    /// A request would be served inside the appliance.
    Inside,
    Denied(EgressDenied),
    /// The host of the URL cannot be resolved, for this reason.
    Unresolved(String),
}

impl Outbound {
    /// Checks a URL against the egress policy. Resolves a host name, but sends no request.
    pub async fn evaluate(&self, url: &Url) -> EgressVerdict {
        match self.transport.network(url) {
            Some(network) => evaluate(network.policy(), network.guard(), url).await,
            None => EgressVerdict::Inside,
        }
    }
}

pub(super) async fn evaluate(policy: &EgressPolicy, guard: &Guard, url: &Url) -> EgressVerdict {
    let found = match (policy.check_url(url), url.host()) {
        (Err(denied), _) => return EgressVerdict::Denied(denied),
        (Ok(()), None) => return EgressVerdict::Denied(EgressDenied::NoHost),
        (Ok(()), Some(Host::Ipv4(address))) => Ok(vec![address.into()]),
        (Ok(()), Some(Host::Ipv6(address))) => Ok(vec![address.into()]),
        (Ok(()), Some(Host::Domain(name))) => guard.addresses(name).await,
    };
    let permits = found.and_then(|addresses| {
        let permit = |address: IpAddr| Ok((address, policy.check_address(address)?));
        addresses.into_iter().map(permit).collect()
    });
    match permits {
        Ok(permits) => EgressVerdict::Allowed(permits),
        Err(ResolveError::Denied(denied)) => EgressVerdict::Denied(denied),
        Err(ResolveError::Failed(reason)) => EgressVerdict::Unresolved(reason),
        Err(error @ ResolveError::NoPlace) => EgressVerdict::Unresolved(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::Clock;
    use crate::outbound::resolver::Lookup;

    async fn check(url: &str, expected: &str) {
        let policy = EgressPolicy {
            allow: vec!["10.0.0.0/8".parse().expect("a network")],
            ..EgressPolicy::default()
        };
        let lookup: Lookup = Arc::new(|name| {
            let addresses = match name.as_str() {
                "public.test" => Ok(vec!["8.8.8.8", "2606:4700::1111"]),
                "lan.test" => Ok(vec!["10.0.0.7"]),
                "mixed.test" => Ok(vec!["8.8.8.8", "192.168.1.1"]),
                _ => Err(std::io::Error::other("no such name")),
            };
            let parse = |text: &str| text.parse().expect("an address");
            let addresses = addresses.map(|all| all.into_iter().map(parse).collect());
            Box::pin(std::future::ready(addresses))
        });
        let guard = Guard::new(policy.clone(), Clock::system(), lookup);
        let url = Url::parse(url).expect("a URL");
        let verdict = format!("{:?}", evaluate(&policy, &guard, &url).await);
        assert!(verdict.contains(expected), "{url}: {verdict}");
    }

    #[tokio::test]
    async fn a_url_is_judged_as_a_delivery_would_be() {
        check(
            "https://public.test/in?code=1",
            "Allowed([(8.8.8.8, Public), (2606:",
        )
        .await;
        check("http://lan.test:9000", "Allowed([(10.0.0.7, Opened").await;
        check(
            "https://mixed.test",
            "Denied(NotPublic { address: 192.168.1.1",
        )
        .await;
        check(
            "https://nowhere.test",
            "Unresolved(\"nowhere.test cannot be",
        )
        .await;
        check("http://10.1.2.3/x", "by: 10.0.0.0/8").await;
        check(
            "http://2130706433/",
            "Denied(NotPublic { address: 127.0.0.1",
        )
        .await;
        check("http://[::ffff:169.254.169.254]/", "metadata").await;
        check("ftp://public.test/", "Denied(Scheme)").await;
        check("https://a:b@public.test/", "Denied(UserInfo)").await;
    }
}
