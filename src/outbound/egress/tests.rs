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

/// `verdict` is empty where the address may be called, else a part of the reason.
fn check_address(allow: &str, address: &str, verdict: &str) {
    let judged = policy(allow).check_address(address.parse().expect("an address"));
    compare(judged, verdict, &format!("{address} with {allow:?}"));
}

fn check_url(allow: &str, url: &str, verdict: &str) {
    let parsed = Url::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    compare(policy(allow).check_url(&parsed), verdict, url);
}

#[track_caller]
fn compare<T>(judged: Result<T, Denied>, verdict: &str, what: &str) {
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
        // IPv4-mapped addresses are what is inside.
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
    check_address("10.1.0.0/16", "10.2.0.1", "--egress-allow 10.0.0.0/8");
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

#[test]
fn urls_are_judged_by_what_they_mean() {
    let private = [
        // Spellings of 127.0.0.1 that a look at the text would miss.
        ("http://127.0.0.1/", "127.0.0.1 is a loopback"),
        ("http://127.0.0.1:8080/x?y=z", "127.0.0.1 is a loopback"),
        ("https://127.0.0.1/", "127.0.0.1 is a loopback"),
        ("http://127.1/", "127.0.0.1 is a loopback"),
        ("http://127.0.1/", "127.0.0.1 is a loopback"),
        ("http://127.0.0.1./", "127.0.0.1 is a loopback"),
        ("http://0x7f.1/", "127.0.0.1 is a loopback"),
        ("http://0x7f.0.0.1/", "127.0.0.1 is a loopback"),
        ("http://0X7F.0x0.0x0.0x1/", "127.0.0.1 is a loopback"),
        ("http://0x7f000001/", "127.0.0.1 is a loopback"),
        ("http://2130706433/", "127.0.0.1 is a loopback"),
        ("http://017700000001/", "127.0.0.1 is a loopback"),
        ("http://0177.0.0.1/", "127.0.0.1 is a loopback"),
        ("http://0177.0.0.01/", "127.0.0.1 is a loopback"),
        ("http://0177.1/", "127.0.0.1 is a loopback"),
        ("http://127.0x1/", "127.0.0.1 is a loopback"),
        ("http://127.65535/", "127.0.255.255 is a loopback"),
        ("http://１２７.０.０.１/", "127.0.0.1 is a loopback"),
        ("http://①②⑦.⓪.⓪.①/", "127.0.0.1 is a loopback"),
        ("http://127。0。0。1/", "127.0.0.1 is a loopback"),
        ("http://127．0．0．1/", "127.0.0.1 is a loopback"),
        ("http://127｡0｡0｡1/", "127.0.0.1 is a loopback"),
        ("http://%31%32%37.0.0.1/", "127.0.0.1 is a loopback"),
        ("http://127%2e0%2e0%2e1/", "127.0.0.1 is a loopback"),
        ("http:\\\\127.0.0.1\\", "127.0.0.1 is a loopback"),
        ("http:/127.0.0.1/", "127.0.0.1 is a loopback"),
        ("http:127.0.0.1", "127.0.0.1 is a loopback"),
        ("  http://127.0.0.1/  ", "127.0.0.1 is a loopback"),
        ("http://127.0.\n0.1/", "127.0.0.1 is a loopback"),
        ("HTTP://127.0.0.1/", "127.0.0.1 is a loopback"),
        ("http://127.255.255.254/", "is a loopback"),
        // The same game with others.
        ("http://0/", "0.0.0.0 is an address of \"this\""),
        ("http://0.0.0.0/", "0.0.0.0 is an address of \"this\""),
        ("http://0x0/", "0.0.0.0 is an address of \"this\""),
        ("http://00000/", "0.0.0.0 is an address of \"this\""),
        ("http://10.1/", "10.0.0.1 is a private"),
        ("http://167772161/", "10.0.0.1 is a private"),
        ("http://0xa.0.0.1/", "10.0.0.1 is a private"),
        ("http://012.0.0.1/", "10.0.0.1 is a private"),
        ("http://172.16.0.1/", "is a private"),
        ("http://192.168.257/", "192.168.1.1 is a private"),
        ("http://0xc0a80101/", "192.168.1.1 is a private"),
        ("http://3232235777/", "192.168.1.1 is a private"),
        (
            "http://169.254.169.254/latest/meta-data/",
            "is the metadata",
        ),
        ("http://2852039166/", "169.254.169.254 is the metadata"),
        ("http://0xa9fea9fe/", "169.254.169.254 is the metadata"),
        (
            "http://0251.0376.0251.0376/",
            "169.254.169.254 is the metadata",
        ),
        ("http://169.254.43518/", "169.254.169.254 is the metadata"),
        (
            "http://１６９.２５４.１６９.２５４/",
            "169.254.169.254 is the metadata",
        ),
        ("http://100.100.100.200/", "is the metadata"),
        ("http://168.63.129.16/metadata", "is the metadata"),
        ("http://192.0.0.192/", "is the metadata"),
        ("http://255.255.255.255/", "is the broadcast"),
        ("http://4294967295/", "is the broadcast"),
        // IPv6, in brackets as URLs want it.
        ("http://[::1]/", "::1 is a loopback"),
        ("http://[0:0:0:0:0:0:0:1]:80/", "::1 is a loopback"),
        (
            "http://[0000:0000:0000:0000:0000:0000:0000:0001]/",
            "::1 is a loopback",
        ),
        ("http://[::]/", "the unspecified"),
        ("http://[::ffff:127.0.0.1]/", "127.0.0.1 is a loopback"),
        ("http://[::ffff:7f00:1]/", "127.0.0.1 is a loopback"),
        ("http://[0:0:0:0:0:ffff:7f00:1]/", "127.0.0.1 is a loopback"),
        ("http://[::FFFF:7F00:0001]/", "127.0.0.1 is a loopback"),
        (
            "http://[::ffff:169.254.169.254]/",
            "169.254.169.254 is the metadata",
        ),
        (
            "http://[::ffff:a9fe:a9fe]/",
            "169.254.169.254 is the metadata",
        ),
        ("http://[::ffff:10.0.0.1]/", "10.0.0.1 is a private"),
        ("http://[::127.0.0.1]/", "IPv4-compatible"),
        ("http://[::ffff:0:127.0.0.1]/", "IPv4-translated"),
        ("http://[64:ff9b::127.0.0.1]/", "a NAT64"),
        ("http://[64:ff9b::a9fe:a9fe]/", "a NAT64"),
        ("http://[64:ff9b:1::a00:1]/", "a local NAT64"),
        ("http://[2002:7f00:1::]/", "a 6to4"),
        ("http://[2002:a9fe:a9fe::1]/", "a 6to4"),
        ("http://[2001:0:7f00:1::]/", "a Teredo"),
        ("http://[2001:4860::5efe:127.0.0.1]/", "an ISATAP"),
        ("http://[fe80::1]/", "a link-local"),
        ("http://[fec0::1]/", "a site-local"),
        ("http://[fd00:ec2::254]/", "is the metadata"),
        ("http://[fd20:ce::254]/", "is the metadata"),
        ("http://[fc00::1]/", "a private"),
        ("http://[ff02::1]/", "a multicast"),
        ("http://[5f00::1]/", "a segment routing"),
        ("http://[100::1]/", "a discard"),
        // What is no host.
        ("ftp://example.com/", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("gopher://127.0.0.1:6379/_", "only http and https"),
        ("data:text/plain,x", "only http and https"),
        ("unix:/run/docker.sock", "only http and https"),
        ("http://user@example.com/", "user name"),
        ("http://user:pw@example.com/", "user name"),
        ("http://:pw@example.com/", "user name"),
        // The part before the @ is no host.
        ("http://8.8.8.8@127.0.0.1/", "user name"),
    ];
    for (url, verdict) in private {
        check_url("", url, verdict);
    }
    for url in [
        "http://8.8.8.8/",
        "https://8.8.8.8:8443/x",
        "http://134744072/",
        "http://0x08080808/",
        "https://[2606:4700:4700::1111]/",
        "https://[::ffff:8.8.8.8]/",
        // Names are judged when they are looked up, whatever they look like.
        "https://example.com/",
        "https://example.com./",
        "http://localhost/",
        "http://127.0.0.1.example.com/",
        "http://127-0-0-1.example/",
        "http://metadata.google.internal/",
        "http://host.docker.internal:8080/",
        "https://xn--mnchen-3ya.example/",
        "https://bücher.example/?x=http://127.0.0.1/#",
        "https://example.com/@127.0.0.1/",
    ] {
        check_url("", url, "");
    }
    check_url("127.0.0.0/8", "http://0x7f.1:9000/", "");
    check_url("127.0.0.0/8", "http://[::ffff:7f00:1]/", "");
    check_url("127.0.0.0/8", "http://[::1]/", "loopback");
}

/// Every way of writing an IPv4 address that a URL knows means the same.
#[test]
fn spellings_do_not_matter() {
    for (address, verdict) in [
        ("0.0.0.0", "\"this\" network"),
        ("10.1.2.3", "10.1.2.3 is a private"),
        ("100.100.100.200", "metadata"),
        ("127.0.0.1", "127.0.0.1 is a loopback"),
        ("127.255.255.254", "loopback"),
        ("168.63.129.16", "metadata"),
        ("169.254.169.254", "169.254.169.254 is the metadata"),
        ("172.31.0.9", "private"),
        ("192.168.1.1", "private"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "broadcast"),
        ("8.8.8.8", ""),
        ("93.184.216.34", ""),
    ] {
        for host in spellings(address.parse().expect("an address")) {
            check_url("", &format!("http://{host}/"), verdict);
            check_url("", &format!("https://{host}:8443/x?y#z"), verdict);
        }
    }
}

fn spellings(address: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = address.octets();
    let number = u32::from(address);
    let (low_16, low_24) = (number & 0xffff, number & 0xff_ffff);
    let (high, low) = (number >> 16, low_16);
    let wide = |text: String| -> String {
        let widen = |c: char| {
            c.to_digit(10)
                .and_then(|digit| char::from_u32(0xff10 + digit))
        };
        text.chars().map(|c| widen(c).unwrap_or(c)).collect()
    };
    vec![
        format!("{a}.{b}.{c}.{d}"),
        format!("{a}.{b}.{c}.{d}."),
        format!("{a}.{b}.{low_16}"),
        format!("{a}.{low_24}"),
        format!("{number}"),
        format!("{number:#x}"),
        format!("0{number:o}"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("{a:#010x}.{b:#X}.{low_16:#x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("000{a:o}.{low_24:#x}"),
        format!("{a:#x}.0{b:o}.{c}.{d}"),
        wide(format!("{a}.{b}.{c}.{d}")),
        wide(format!("{number}")),
        format!("{a}\u{3002}{b}\u{ff0e}{c}\u{ff61}{d}"),
        format!("{a}%2E{b}%2e{c}.{d}"),
        format!("[::ffff:{a}.{b}.{c}.{d}]"),
        format!("[::FFFF:{high:x}:{low:x}]"),
        format!("[0:0:0:0:0:ffff:{high:04X}:{low:04x}]"),
    ]
}

/// Such texts must not become URLs at all: a lenient second parser might read an address into them.
#[test]
fn malformed_hosts_are_no_urls() {
    for text in [
        "http://",
        "http://:80/",
        "http://127.0.0.256/",
        "http://1.2.3.4.5/",
        "http://0x7f.0.0.0x/0x100",
        "http://127.0.0.1.0x/",
        "http://4294967296/",
        "http://0x100000000/",
        "http://09.0.0.1/",
        "http://::1/",
        "http://[::1",
        "http://[::1%25eth0]/",
        "http://[::1%eth0]/",
        "http://[127.0.0.1]/",
        "http://[::ffff:0x7f.0.0.1]/",
        "http://[::ffff:127.1]/",
        "http://[:::1]/",
        "http://exa mple.com/",
        "http://example.com:65536/",
        "http://example.com:x/",
        "http://127.0.0.1 .example/",
        "http://a%00b/",
        "http://a<b/",
        "http://a|b/",
        "http://%zz/",
    ] {
        let parsed = Url::parse(text);
        let harmless = match &parsed {
            Err(_) => true,
            Ok(url) => EgressPolicy::default().check_url(url).is_err(),
        };
        assert!(harmless, "{text} became {parsed:?}");
    }
}

#[test]
fn https_can_be_required() {
    let policy = EgressPolicy {
        require_https: true,
        ..EgressPolicy::default()
    };
    for (url, verdict) in [
        ("https://example.com/", ""),
        ("http://example.com/", "only https may be called"),
        ("https://10.0.0.1/", "private"),
    ] {
        compare(
            policy.check_url(&Url::parse(url).expect("a URL")),
            verdict,
            url,
        );
    }
}

/// The table again, written another way: ranges of whole numbers.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let closed: [(u32, u32); 21] = [
        (0x0000_0000, 0x00ff_ffff),
        (0x0a00_0000, 0x0aff_ffff),
        (0x6440_0000, 0x647f_ffff),
        (0x7f00_0000, 0x7fff_ffff),
        (0xa83f_8110, 0xa83f_8110),
        (0xa9fe_0000, 0xa9fe_ffff),
        (0xac10_0000, 0xac1f_ffff),
        (0xc000_0000, 0xc000_00ff),
        (0xc000_0200, 0xc000_02ff),
        (0xc058_6300, 0xc058_63ff),
        (0xc0a8_0000, 0xc0a8_ffff),
        (0xc612_0000, 0xc613_ffff),
        (0xc633_6400, 0xc633_64ff),
        (0xcb00_7100, 0xcb00_71ff),
        (0xe000_0000, 0xe0ff_ffff),
        (0xe100_0000, 0xefff_ffff),
        (0xf000_0000, 0xf0ff_ffff),
        (0xf100_0000, 0xf1ff_ffff),
        (0xf200_0000, 0xfeff_ffff),
        (0xff00_0000, 0xffff_fffe),
        (0xffff_ffff, 0xffff_ffff),
    ];
    let number = u32::from(address);
    !closed
        .iter()
        .any(|(from, to)| (*from..=*to).contains(&number))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let number = u128::from(address);
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    let top = |bits: u32| number >> (128 - bits);
    let isatap = matches!((number >> 32) as u32 & !0x0300_0000, 0x0000_5efe);
    top(3) == 1
        && top(23) != 0x2001_0000 >> 9
        && top(32) != 0x2001_0db8
        && top(20) != 0x3fff0
        && top(16) != 0x2002
        && !isatap
}

#[test]
fn a_hundred_thousand_random_addresses_agree_with_the_reference() {
    let entropy = Entropy::seeded(0x5eed);
    let policy = EgressPolicy::default();
    for round in 0..100_000_u32 {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes);
        let v4 = Ipv4Addr::from([bytes[0], bytes[1], bytes[2], bytes[3]]);
        assert_eq!(
            policy.check_address(v4.into()).is_ok(),
            is_public_v4(v4),
            "{v4}"
        );
        let v6 = bent(bytes, round);
        assert_eq!(
            policy.check_address(v6.into()).is_ok(),
            is_public_v6(v6),
            "{v6}"
        );
    }
}

/// A random address, most of the time bent towards a block that matters.
fn bent(mut bytes: [u8; 16], round: u32) -> Ipv6Addr {
    let heads: [&[u8]; 12] = [
        &[],
        &[0x20],
        &[0x20, 0x01],
        &[0x20, 0x01, 0x00],
        &[0x20, 0x01, 0x0d, 0xb8],
        &[0x20, 0x02],
        &[0x3f, 0xff],
        &[0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0xfd],
        &[0x2a],
    ];
    let head = heads[round as usize % heads.len()];
    bytes[..head.len()].copy_from_slice(head);
    if round.is_multiple_of(7) && head.len() < 8 {
        bytes[8] &= 3;
        bytes[9..12].copy_from_slice(&[0, 0x5e, 0xfe]);
    }
    Ipv6Addr::from(bytes)
}
