//! URLs in every spelling.

use super::*;

#[test]
fn urls_are_judged_by_what_they_mean() {
    let private = [
        // Spellings of 127.0.0.1 that a check of the text would miss.
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
        // The same with other addresses.
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
        // Names are checked when they are resolved, whatever they look like.
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

/// Every spelling of an IPv4 address in a URL means the same.
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

/// Such texts must not parse as URLs: a lenient second parser might read an address into them.
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
