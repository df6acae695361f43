//! The hosts under which browsers reach the admin pages.

use std::net::{IpAddr, SocketAddr};

use url::Host;

/// All that are this appliance's.
#[derive(Clone, Debug)]
pub struct OwnHosts {
    hosts: Vec<OwnHost>,
    /// Any address by number: a rebound name is no number.
    any_address: bool,
}

/// A host as requests name it, without the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnHost {
    /// In small letters, without a dot at the end.
    Name(String),
    Address(IpAddr),
}

/// Returns whether the host of a URL is this machine: a name that nobody else can own, or an address that leads nowhere
/// else.
pub fn is_loopback<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => {
            let lower = name.as_ref().to_ascii_lowercase();
            let name = lower.strip_suffix('.').unwrap_or(&lower);
            name == "localhost" || name.ends_with(".localhost")
        }
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => IpAddr::from(*address).to_canonical().is_loopback(),
    }
}

impl OwnHosts {
    /// `more` besides this machine's names for itself, and the addresses that are listened on: where one of them is every
    /// one, any address by number.
    pub fn new(more: &[OwnHost], listening: &[SocketAddr]) -> Self {
        let addresses = listening.iter().map(SocketAddr::ip);
        let own = addresses
            .clone()
            .map(|ip| OwnHost::Address(ip.to_canonical()));
        let localhost = [OwnHost::Name("localhost".to_owned())];
        let hosts = localhost.into_iter().chain(own).chain(more.to_vec());
        Self {
            hosts: hosts.collect(),
            any_address: addresses.clone().any(|ip| ip.is_unspecified()),
        }
    }

    /// Returns whether `host` is one of this appliance's own hosts.
    pub fn has(&self, host: &OwnHost) -> bool {
        let any = |address: &IpAddr| self.any_address || address.is_loopback();
        matches!(host, OwnHost::Address(address) if any(address)) || self.hosts.contains(host)
    }
}

impl OwnHost {
    /// A name, or an address with or without brackets; `None` for anything else, such as a host with a
    /// port.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        match Host::parse(name).ok()? {
            Host::Domain(name) if name.is_empty() || name.contains('*') => None,
            Host::Domain(name) => Some(Self::Name(name)),
            Host::Ipv4(address) => Some(Self::Address(address.into())),
            Host::Ipv6(address) => Some(Self::Address(IpAddr::from(address).to_canonical())),
        }
    }
}
