//! The hosts under which browsers reach the admin pages.

use std::net::{IpAddr, SocketAddr};

use url::Host;

/// All hosts under which this appliance is reached.
#[derive(Clone, Debug)]
pub struct OwnHosts {
    hosts: Vec<OwnHost>,
    /// Is true if any IP address is accepted. DNS rebinding needs a name, so IP addresses are safe.
    any_address: bool,
}

/// A host as requests name it, without the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnHost {
    /// A name in lower case, without a dot at the end.
    Name(String),
    Address(IpAddr),
}

/// Returns whether the host of a URL is this machine: a name that is reserved for it, or a loopback address.
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
    /// Takes `localhost`, the addresses in `listening`, and `more`. If an address in `listening` is unspecified, every
    /// IP address is accepted.
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
    /// Parses a name, or an address with or without brackets; `None` for anything else, such as a host with a port.
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
