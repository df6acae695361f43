//! Special IP addresses: blocks that are not on the public internet but lead into a private network, the
//! machine itself, the metadata service of a cloud, or nowhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A block of addresses that is denied unless the operator allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) net: IpNet,
    /// The kind of the addresses in it, with an article: "a loopback address".
    pub(super) what: &'static str,
    /// Is true if only an entry for this very address allows it, so that nobody allows a metadata service with a
    /// whole network.
    pub(super) by_name_only: bool,
}

/// Returns the block that contains `address`, or `None` if the address is public. An IPv4-mapped IPv6 address must be
/// passed in canonical form, that is, as an IPv4 address.
pub(super) fn block_of(address: IpAddr) -> Option<Block> {
    let listed = BLOCKS.iter().find(|block| block.net.contains(&address));
    listed.copied().or_else(|| match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(inner) if is_isatap(inner) => Some(single(address, "an ISATAP tunnel address")),
        IpAddr::V6(inner) if GLOBAL_UNICAST.contains(&inner) => None,
        IpAddr::V6(_) => Some(single(address, "not a public address (2000::/3)")),
    })
}

/// Returns the IPv4 address that `address` embeds, if any: packets to `address` are delivered to that one in the end.
pub(super) fn carried_by(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let tail = |bytes: [u8; 16]| Ipv4Addr::from([bytes[12], bytes[13], bytes[14], bytes[15]]);
    let bytes = address.octets();
    if COMPATIBLE.contains(&address) && !address.is_unspecified() && !address.is_loopback() {
        return Some(tail(bytes));
    }
    if SIIT.contains(&address) || NAT64.contains(&address) || is_isatap(address) {
        return Some(tail(bytes));
    }
    if TEREDO.contains(&address) {
        // RFC 4380: the client's address is stored inverted.
        return Some(tail(bytes.map(|byte| !byte)));
    }
    SIX_TO_FOUR
        .contains(&address)
        .then(|| Ipv4Addr::from([bytes[2], bytes[3], bytes[4], bytes[5]]))
}

/// Reports whether `address` is an ISATAP address (RFC 5214): under any prefix, its interface identifier is 0:5efe,
/// whose universal and group bits may be set (such as 200:5efe), followed by an IPv4 address.
fn is_isatap(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    segments[4] & !0x0300 == 0 && segments[5] == 0x5efe
}

fn single(address: IpAddr, what: &'static str) -> Block {
    Block {
        net: IpNet::from(address),
        what,
        by_name_only: false,
    }
}

const fn net4(octets: [u8; 4], prefix: u8) -> IpNet {
    let [a, b, c, d] = octets;
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix))
}

const fn net6(head: [u16; 3], prefix: u8) -> Ipv6Net {
    let [a, b, c] = head;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

const fn v4(octets: [u8; 4], prefix: u8, what: &'static str) -> Block {
    Block {
        net: net4(octets, prefix),
        what,
        by_name_only: false,
    }
}

const fn v6(net: Ipv6Net, what: &'static str) -> Block {
    Block {
        net: IpNet::V6(net),
        what,
        by_name_only: false,
    }
}

const fn metadata4(octets: [u8; 4]) -> Block {
    Block {
        net: net4(octets, 32),
        what: METADATA,
        by_name_only: true,
    }
}

const fn metadata6(address: Ipv6Addr) -> Block {
    Block {
        net: IpNet::V6(Ipv6Net::new_assert(address, 128)),
        what: METADATA,
        by_name_only: true,
    }
}

pub(crate) const METADATA: &str = "the metadata service of a cloud";

const COMPATIBLE: Ipv6Net = net6([0, 0, 0], 96);
const SIIT: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96);
const NAT64: Ipv6Net = net6([0x64, 0xff9b, 0], 96);
const TEREDO: Ipv6Net = net6([0x2001, 0, 0], 32);
const SIX_TO_FOUR: Ipv6Net = net6([0x2002, 0, 0], 16);
const GLOBAL_UNICAST: Ipv6Net = net6([0x2000, 0, 0], 3);

/// Blocks from IANA's registries of special-purpose addresses and from the documentation of the cloud providers. An
/// address belongs to the first block that contains it, so narrow blocks come before wide ones.
const BLOCKS: [Block; 45] = [
    // Metadata services, those with IPv4 addresses in this order: AWS, Azure, Google Cloud and others; ECS tasks; EKS
    // pods; Azure's WireServer (a public address); Alibaba Cloud; Oracle Cloud.
    metadata4([169, 254, 169, 254]),
    metadata4([169, 254, 170, 2]),
    metadata4([169, 254, 170, 23]),
    metadata4([168, 63, 129, 16]),
    metadata4([100, 100, 100, 200]),
    metadata4([192, 0, 0, 192]),
    metadata6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    metadata6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    metadata6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    v4([0, 0, 0, 0], 8, "an address of \"this\" network"),
    v4([10, 0, 0, 0], 8, "a private address"),
    v4([172, 16, 0, 0], 12, "a private address"),
    v4([192, 168, 0, 0], 16, "a private address"),
    v4([100, 64, 0, 0], 10, "a carrier-grade NAT address"),
    v4([127, 0, 0, 0], 8, "a loopback address"),
    v4([169, 254, 0, 0], 16, "a link-local address"),
    v4([192, 0, 0, 0], 24, "an address of the IETF"),
    v4([192, 0, 2, 0], 24, "a documentation address"),
    v4([198, 51, 100, 0], 24, "a documentation address"),
    v4([203, 0, 113, 0], 24, "a documentation address"),
    v4([192, 88, 99, 0], 24, "a 6to4 relay address"),
    v4([198, 18, 0, 0], 15, "a benchmarking address"),
    v4([224, 0, 0, 0], 4, "a multicast address"),
    v4([255, 255, 255, 255], 32, "the broadcast address"),
    v4([240, 0, 0, 0], 4, "a reserved address"),
    v6(net6([0, 0, 0], 128), "the unspecified address"),
    v6(
        Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128),
        "a loopback address",
    ),
    v6(COMPATIBLE, "an IPv4-compatible address"),
    v6(SIIT, "an IPv4-translated address"),
    v6(NAT64, "a NAT64 address"),
    v6(net6([0x64, 0xff9b, 1], 48), "a local NAT64 address"),
    v6(net6([0x100, 0, 0], 64), "a discard address"),
    v6(TEREDO, "a Teredo tunnel address"),
    v6(net6([0x2001, 2, 0], 48), "a benchmarking address"),
    v6(net6([0x2001, 0x10, 0], 28), "an ORCHID"),
    v6(net6([0x2001, 0x20, 0], 28), "an ORCHID"),
    v6(net6([0x2001, 0, 0], 23), "an address of the IETF"),
    v6(net6([0x2001, 0xdb8, 0], 32), "a documentation address"),
    v6(net6([0x3fff, 0, 0], 20), "a documentation address"),
    v6(SIX_TO_FOUR, "a 6to4 tunnel address"),
    v6(net6([0x5f00, 0, 0], 16), "a segment routing address"),
    v6(net6([0xfc00, 0, 0], 7), "a private address"),
    v6(net6([0xfe80, 0, 0], 10), "a link-local address"),
    v6(net6([0xfec0, 0, 0], 10), "a site-local address"),
    v6(net6([0xff00, 0, 0], 8), "a multicast address"),
];
