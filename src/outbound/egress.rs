//! The egress policy: which addresses may be called. Everything but the public internet (private networks,
//! the machine itself, a cloud's metadata service) is denied until the operator allows it.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use url::{Host, Url};

pub(crate) use crate::outbound::address::METADATA;
use crate::outbound::address::{block_of, carried_by};

#[cfg(test)]
mod tests;

/// The egress policy. The default allows public addresses, by http and https.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    /// Networks that may be called although they are not public. A metadata service is allowed only by its
    /// very address (`/32`, `/128`), never by a wider network.
    pub allow: Vec<IpNet>,
    /// Networks that may not be called, whatever `allow` says.
    pub deny: Vec<IpNet>,
    /// Denies plain http.
    pub require_https: bool,
}

/// Why an address may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It is public.
    Public,
    /// The operator has allowed it.
    Opened {
        /// The kind of the address, with an article.
        what: &'static str,
        by: IpNet,
    },
}

/// Why a request is denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressDenied {
    #[error("{address} is {what}; allow it with --egress-allow {}{}", IpNet::from(*address), or_network(net))]
    NotPublic {
        address: IpAddr,
        what: &'static str,
        net: IpNet,
    },
    #[error("{address} lies in {net}, which the egress policy denies")]
    ByOperator { address: IpAddr, net: IpNet },
    #[error("only https may be called here, not http")]
    PlainHttp,
    #[error("only http and https can be called")]
    Scheme,
    #[error("the URL has no host")]
    NoHost,
    #[error("user name and password do not belong into the URL")]
    UserInfo,
}

/// Returns the part of an error message that offers to allow the whole network `net`, or an empty text if `net` is a
/// single address.
fn or_network(net: &IpNet) -> String {
    if net.prefix_len() == net.max_prefix_len() {
        String::new()
    } else {
        format!(", or its whole network with --egress-allow {net}")
    }
}

impl EgressPolicy {
    /// Checks what can be checked before a look-up: the form of the URL and, if its host is an address, that
    /// address. The addresses of a host name are checked when it is resolved.
    pub fn check_url(&self, url: &Url) -> Result<(), EgressDenied> {
        match url.scheme() {
            "https" => {}
            "http" if self.require_https => return Err(EgressDenied::PlainHttp),
            "http" => {}
            _ => return Err(EgressDenied::Scheme),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressDenied::UserInfo);
        }
        // Checks the parsed host, never its text: the URL parser has turned 0x7f.1 and 2130706433 into 127.0.0.1.
        match url.host() {
            None | Some(Host::Domain("")) => Err(EgressDenied::NoHost),
            Some(Host::Domain(_)) => Ok(()),
            Some(Host::Ipv4(address)) => self.check_address(address.into()).map(drop),
            Some(Host::Ipv6(address)) => self.check_address(address.into()).map(drop),
        }
    }

    /// Returns whether 127.0.0.1 is denied only because `allow` does not list it; `false` if `deny` lists it.
    pub fn shuts_out_this_machine(&self) -> bool {
        let judged = self.check_address(Ipv4Addr::LOCALHOST.into());
        matches!(judged, Err(EgressDenied::NotPublic { .. }))
    }

    /// Checks an address, and the IPv4 address that it may embed.
    pub fn check_address(&self, address: IpAddr) -> Result<Permit, EgressDenied> {
        let canonical = address.to_canonical();
        if let Some(net) = self.deny.iter().find(|net| net.contains(&canonical)) {
            return Err(EgressDenied::ByOperator {
                address: canonical,
                net: *net,
            });
        }
        let permit = self.check_block(canonical)?;
        if let IpAddr::V6(outer) = canonical
            && let Some(inner) = carried_by(outer)
        {
            self.check_address(inner.into())?;
        }
        Ok(permit)
    }

    fn check_block(&self, address: IpAddr) -> Result<Permit, EgressDenied> {
        let Some(block) = block_of(address) else {
            return Ok(Permit::Public);
        };
        let opens = |net: &IpNet| {
            net.contains(&address)
                && (!block.by_name_only || net.prefix_len() == net.max_prefix_len())
        };
        match self.allow.iter().find(|net| opens(net)) {
            Some(by) => Ok(Permit::Opened {
                what: block.what,
                by: *by,
            }),
            None => Err(EgressDenied::NotPublic {
                address,
                what: block.what,
                net: block.net,
            }),
        }
    }
}
