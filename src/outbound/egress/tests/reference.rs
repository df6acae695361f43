//! Compares the rules with an independent implementation, on random addresses.

use super::*;

/// The table again, as ranges of integers.
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

/// A random address, most of the time moved into a special block.
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
