//! Which addresses and URLs may be called.

mod reference;
mod urls;

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::base::Entropy;

fn policy(allow: &str) -> EgressPolicy {
    EgressPolicy {
        allow: nets(allow),
        ..EgressPolicy::default()
    }
}

fn nets(text: &str) -> Vec<IpNet> {
    text.split_whitespace()
        .map(|net| net.parse().expect("a network"))
        .collect()
}

/// `verdict` is empty if the address may be called, else a part of the error.
fn check_address(allow: &str, address: &str, verdict: &str) {
    let judged = policy(allow).check_address(address.parse().expect("an address"));
    compare(judged, verdict, &format!("{address} with {allow:?}"));
}

fn check_url(allow: &str, url: &str, verdict: &str) {
    let parsed = Url::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    compare(policy(allow).check_url(&parsed), verdict, url);
}

#[track_caller]
fn compare<T>(judged: Result<T, EgressDenied>, verdict: &str, what: &str) {
    let text = judged
        .err()
        .map_or(String::new(), |denied| denied.to_string());
    let agrees = if verdict.is_empty() {
        text.is_empty()
    } else {
        text.contains(verdict)
    };
    assert!(agrees, "{what}: {text:?}, expected {verdict:?}");
}

#[test]
fn a_permit_says_which_rule_it_is_by() {
    let permit = |allow: &str, address: &str| {
        let address = address.parse().expect("an address");
        policy(allow).check_address(address).expect("a permit")
    };
    let opened = |what: &'static str, by: &str| Permit::Opened {
        what,
        by: by.parse().expect("a network"),
    };
    assert_eq!(permit("10.0.0.0/8", "8.8.8.8"), Permit::Public);
    let private = opened("a private address", "10.2.0.0/16");
    assert_eq!(permit("10.1.0.0/16 10.2.0.0/16", "10.2.3.4"), private);
    let loopback = opened("a loopback address", "127.0.0.0/8");
    assert_eq!(permit("127.0.0.0/8", "::ffff:127.0.0.1"), loopback);
}

#[test]
fn public_addresses_may_be_called() {
    for address in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "93.184.216.34",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "168.63.129.15",
        "168.63.129.17",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "191.255.255.255",
        "192.0.1.0",
        "192.0.3.0",
        "192.88.98.255",
        "192.88.100.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "198.51.99.255",
        "198.51.101.0",
        "203.0.112.255",
        "203.0.114.0",
        "223.255.255.255",
        "2001:200::",
        "2001:4860:4860::8888",
        "2001:db7:ffff::",
        "2001:db9::",
        "2003::1",
        "2606:4700:4700::1111",
        "2a00:1450:4001:80b::200e",
        "2000::",
        "3ffe::1",
        "3fff:1000::",
        // Public by what is inside.
        "::ffff:8.8.8.8",
        "::ffff:808:808",
    ] {
        check_address("", address, "");
    }
}

#[test]
fn every_other_class_is_named() {
    for (what, addresses) in [
        (
            "a loopback address",
            "127.0.0.0 127.0.0.1 127.1.2.3 127.255.255.255 ::1",
        ),
        (
            "a private address",
            "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0",
        ),
        (
            "a private address",
            "192.168.255.255 fc00:: fd00::1 fdff:ffff::1 fd12:3456:789a::1",
        ),
        ("\"this\" network", "0.0.0.0 0.0.0.1 0.255.255.255"),
        (
            "carrier-grade NAT",
            "100.64.0.0 100.127.255.255 100.100.100.201",
        ),
        (
            "a link-local address",
            "169.254.0.0 169.254.1.1 169.254.255.255 fe80:: fe80::1 febf::1",
        ),
        (
            "the metadata service",
            "169.254.169.254 169.254.170.2 169.254.170.23 168.63.129.16",
        ),
        ("the metadata service", "100.100.100.200 192.0.0.192"),
        (
            "the metadata service",
            "fd00:ec2::254 fd00:ec2::23 fd20:ce::254",
        ),
        (
            "of the IETF",
            "192.0.0.0 192.0.0.1 192.0.0.170 192.0.0.255 2001:1::1 2001:4:112::1",
        ),
        ("of the IETF", "2001:100:: 2001:1ff:ffff::"),
        (
            "a documentation address",
            "192.0.2.0 192.0.2.255 198.51.100.1 203.0.113.255",
        ),
        (
            "a documentation address",
            "2001:db8:: 2001:db8:ffff::1 3fff:: 3fff:fff:ffff::",
        ),
        ("a 6to4 relay", "192.88.99.0 192.88.99.1 192.88.99.255"),
        (
            "a benchmarking address",
            "198.18.0.0 198.19.255.255 2001:2::1",
        ),
        (
            "a multicast address",
            "224.0.0.0 224.0.0.1 239.255.255.255 ff00:: ff02::1 ffff::",
        ),
        ("a reserved address", "240.0.0.0 250.1.2.3 255.255.255.254"),
        ("the broadcast address", "255.255.255.255"),
        ("the unspecified address", "::"),
        (
            "an IPv4-compatible address",
            "::2 ::127.0.0.1 ::10.0.0.1 ::8.8.8.8 ::ffff",
        ),
        (
            "an IPv4-translated address",
            "::ffff:0:127.0.0.1 ::ffff:0:8.8.8.8 ::ffff:0:7f00:1",
        ),
        (
            "a NAT64 address",
            "64:ff9b::7f00:1 64:ff9b::127.0.0.1 64:ff9b::8.8.8.8 64:ff9b::a9fe:a9fe",
        ),
        (
            "a local NAT64 address",
            "64:ff9b:1:: 64:ff9b:1:ffff::7f00:1",
        ),
        ("a discard address", "100:: 100::ffff:ffff:ffff:ffff"),
        (
            "a Teredo tunnel address",
            "2001:: 2001::1 2001:0:4136:e378:8000:63bf:80ff:fffe",
        ),
        (
            "an ORCHID",
            "2001:10::1 2001:1f::1 2001:20::1 2001:2f:ffff::",
        ),
        (
            "a 6to4 tunnel address",
            "2002:: 2002:7f00:1:: 2002:a9fe:a9fe::1 2002:808:808::1",
        ),
        ("a segment routing address", "5f00:: 5f00:ffff::1"),
        ("a site-local address", "fec0:: fec0::1 feff::1"),
        (
            "an ISATAP tunnel address",
            "2001:4860::5efe:7f00:1 2001:4860::200:5efe:10.0.0.1",
        ),
        (
            "an ISATAP tunnel address",
            "2a00:1:2:3:0:5efe:8.8.8.8 2a00::300:5efe:a9fe:a9fe",
        ),
        (
            "not a public address",
            "1::1 64:ff9b:2::1 100:1:: 1fff:ffff:: 4000:: 5eff:: 6000::1",
        ),
        (
            "not a public address",
            "8000::1 a000:: fbff:: fe00::1 fe7f::1",
        ),
        // IPv4-mapped addresses count as the embedded ones.
        (
            "127.0.0.1 is a loopback address",
            "::ffff:127.0.0.1 ::ffff:7f00:1 0:0:0:0:0:ffff:7f00:0001",
        ),
        (
            "10.0.0.1 is a private address",
            "::ffff:10.0.0.1 ::ffff:a00:1",
        ),
        (
            "169.254.169.254 is the metadata",
            "::ffff:169.254.169.254 ::ffff:a9fe:a9fe",
        ),
        ("0.0.0.0 is an address of", "::ffff:0.0.0.0 ::ffff:0:0"),
    ] {
        for address in addresses.split_whitespace() {
            check_address("", address, what);
        }
    }
}

#[test]
fn the_operator_opens_networks() {
    check_address("127.0.0.0/8", "127.0.0.1", "");
    check_address("127.0.0.0/8", "::ffff:127.0.0.1", "");
    check_address("127.0.0.1/32", "127.0.0.2", "loopback");
    check_address("127.0.0.0/8", "::1", "--egress-allow ::1/128");
    check_address("::1/128", "::1", "");
    check_address("10.1.0.0/16", "10.1.2.3", "");
    check_address(
        "10.1.0.0/16",
        "10.2.0.1",
        "--egress-allow 10.2.0.1/32, or its whole network with --egress-allow 10.0.0.0/8",
    );
    check_address("192.168.0.0/16 10.0.0.0/8", "10.2.0.1", "");
    check_address("fd00::/8", "fd12::1", "");
    check_address("4000::/3", "4000::1", "");
    check_address("", "4000::1", "--egress-allow 4000::1/128");
    // A metadata service only by its address.
    check_address("169.254.0.0/16", "169.254.1.1", "");
    check_address(
        "169.254.0.0/16",
        "169.254.169.254",
        "--egress-allow 169.254.169.254/32",
    );
    check_address("0.0.0.0/0", "169.254.169.254", "metadata");
    check_address("0.0.0.0/0", "168.63.129.16", "metadata");
    check_address("0.0.0.0/0", "192.168.1.1", "");
    check_address("169.254.169.254/32", "169.254.169.254", "");
    check_address("::/0", "fd00:ec2::254", "metadata");
    check_address("fd00:ec2::254/128", "fd00:ec2::254", "");
}

#[test]
fn an_opened_tunnel_does_not_open_what_it_leads_to() {
    for (tunnel, private, public) in [
        ("64:ff9b::/96", "64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8"),
        (
            "64:ff9b::/96",
            "64:ff9b::169.254.169.254",
            "64:ff9b::1.1.1.1",
        ),
        ("2002::/16", "2002:a00:1::", "2002:808:808::"),
        ("::/96", "::10.0.0.1", "::8.8.8.8"),
        ("::ffff:0:0:0/96", "::ffff:0:10.0.0.1", "::ffff:0:8.8.8.8"),
        ("2a00::/16", "2a00::5efe:10.0.0.1", "2a00::5efe:8.8.8.8"),
        (
            "2a00::/16",
            "2a00::200:5efe:10.0.0.1",
            "2a00::200:5efe:8.8.8.8",
        ),
        // Teredo stores the address inverted: !10.0.0.1, !8.8.8.8.
        ("2001::/32", "2001::f5ff:fffe", "2001::f7f7:f7f7"),
    ] {
        check_address(tunnel, public, "");
        check_address(tunnel, private, " is ");
        let both = format!("{tunnel} 10.0.0.0/8 169.254.169.254/32");
        check_address(&both, private, "");
    }
}

#[test]
fn denied_networks_stay_denied() {
    let policy = EgressPolicy {
        allow: nets("10.0.0.0/8"),
        deny: nets("10.9.0.0/16 93.184.0.0/16"),
        require_https: false,
    };
    for (address, verdict) in [
        ("10.8.0.1", ""),
        ("10.9.0.1", "10.9.0.1 lies in 10.9.0.0/16"),
        ("::ffff:10.9.0.1", "10.9.0.1 lies in 10.9.0.0/16"),
        ("93.184.216.34", "which the egress policy denies"),
    ] {
        compare(
            policy.check_address(address.parse().expect("an address")),
            verdict,
            address,
        );
    }
}
