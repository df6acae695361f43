//! Finds the client of a request that came through a reverse proxy.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Proxies that are trusted to name the client of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct TrustedProxies(pub(super) Arc<[IpNet]>);

/// Error for two headers that name different clients. One of them passed a proxy that does not know it, so anybody
/// can have written it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "X-Forwarded-For and Forwarded name different clients; let the reverse proxy set one of them and remove the \
     other"
)]
pub(super) struct Ambiguous;

impl TrustedProxies {
    /// Returns whether `address` is that of a trusted proxy.
    pub(super) fn contain(&self, address: IpAddr) -> bool {
        let canonical = address.to_canonical();
        self.0.iter().any(|network| network.contains(&canonical))
    }

    /// The client of a request that came from `peer`: the nearest address that no trusted proxy has.
    pub(super) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Result<IpAddr, Ambiguous> {
        if !self.contain(peer) {
            return Ok(peer);
        }
        let lists = [
            (X_FORWARDED_FOR, hop as fn(&str) -> Option<IpAddr>),
            (header::FORWARDED, |element| hop(forwarded_for(element)?)),
        ];
        let mut told = lists.into_iter().filter_map(|(name, read)| {
            let values = headers
                .get_all(name)
                .iter()
                .map(|value| value.to_str().unwrap_or_default());
            let hops: Vec<_> = values
                .flat_map(|value| value.split(','))
                .map(read)
                .collect();
            (!hops.is_empty()).then(|| self.nearest(peer, &hops))
        });
        match (told.next(), told.next()) {
            (Some(one), Some(other)) if one != other => Err(Ambiguous),
            (told, _) => Ok(told.unwrap_or(peer)),
        }
    }

    /// Follows the hops back from `peer` for as long as they are trusted proxies. Every proxy appends the address of
    /// its own client, so entries before an unknown address may be forged.
    fn nearest(&self, peer: IpAddr, hops: &[Option<IpAddr>]) -> IpAddr {
        let mut client = peer;
        for hop in hops.iter().rev() {
            match hop {
                Some(hop) if self.contain(client) => client = *hop,
                _ => break,
            }
        }
        client
    }
}

/// `for` of an element of `Forwarded` (RFC 7239).
fn forwarded_for(element: &str) -> Option<&str> {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let mut named = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    Some(named.next()?.1.trim().trim_matches('"'))
}

/// An address, with or without a port.
fn hop(text: &str) -> Option<IpAddr> {
    let trimmed = text.trim();
    let with_port = || Some(trimmed.parse::<SocketAddr>().ok()?.ip());
    let bare = trimmed.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse().ok().or_else(with_port)?;
    Some(IpAddr::to_canonical(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[(&'static str, &str)]) -> String {
        let networks = ["127.0.0.1/32", "10.0.0.0/8", "fd00::/8"];
        let networks = networks.map(|network| network.parse().expect("a network"));
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().expect("a value"));
        }
        let client = TrustedProxies(networks.into()).client(peer.parse().expect("one"), &headers);
        client.map_or_else(|error| error.to_string(), |client| client.to_string())
    }

    #[test]
    fn only_trusted_proxies_are_believed_and_only_in_what_they_know() {
        for (peer, value, expected) in [
            ("127.0.0.1", "192.0.2.1", "192.0.2.1"),
            ("127.0.0.1", "198.51.100.9, 192.0.2.1", "192.0.2.1"),
            ("127.0.0.1", "192.0.2.1, 10.0.0.7", "192.0.2.1"),
            ("127.0.0.1", "10.1.1.1, 10.0.0.7", "10.1.1.1"),
            ("::ffff:127.0.0.1", "192.0.2.1:4711", "192.0.2.1"),
            ("fd00::1", "[2001:db8::1]:443", "2001:db8::1"),
            ("fd00::1", "2001:db8::1", "2001:db8::1"),
            ("127.0.0.1", "192.0.2.1, unknown", "127.0.0.1"),
            ("127.0.0.1", "192.0.2.1, unknown, 10.0.0.7", "10.0.0.7"),
            ("127.0.0.1", "", "127.0.0.1"),
            ("192.0.2.66", "127.0.0.1", "192.0.2.66"),
        ] {
            let found = client(peer, &[("x-forwarded-for", value)]);
            assert_eq!(found, expected, "{value:?} from {peer}");
        }
        let lines = [
            ("x-forwarded-for", "10.9.9.9"),
            ("x-forwarded-for", "192.0.2.1"),
        ];
        assert_eq!(client("127.0.0.1", &lines), "192.0.2.1");
        assert_eq!(client("127.0.0.1", &[]), "127.0.0.1");
    }

    #[test]
    fn both_headers_are_read_and_must_not_contradict_each_other() {
        for (value, expected) in [
            ("for=192.0.2.1", "192.0.2.1"),
            (
                "For=\"[2001:db8::1]:4711\";proto=https;by=10.0.0.1",
                "2001:db8::1",
            ),
            (
                "for=198.51.100.9, proto=http; for=192.0.2.1, for=10.0.0.7",
                "192.0.2.1",
            ),
            ("for=192.0.2.1, for=_hidden", "127.0.0.1"),
            ("proto=https", "127.0.0.1"),
        ] {
            let found = client("127.0.0.1", &[("forwarded", value)]);
            assert_eq!(found, expected, "{value:?}");
        }
        let both = |address| [("x-forwarded-for", "192.0.2.1"), ("forwarded", address)];
        assert_eq!(client("127.0.0.1", &both("for=192.0.2.1")), "192.0.2.1");
        let told = client("127.0.0.1", &both("for=192.0.2.2"));
        assert!(told.contains("different clients"), "{told}");
        assert_eq!(client("192.0.2.66", &both("for=192.0.2.2")), "192.0.2.66");
    }
}
