//! Time-based one-time codes of six digits (RFC 6238), as authenticator apps make them.

use std::ops::RangeInclusive;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, Key, sign};
use zeroize::Zeroizing;

use crate::base::{Entropy, Timestamp};

/// Seconds of one step, and digits of a code: what all apps take without asking (RFC 6238, 4.1).
const STEP_S: i64 = 30;
const DIGITS: u32 = 6;

/// Bytes of a seed, as RFC 4226 recommends (4, R6).
const SEED_BYTES: usize = 20;

/// Time steps around the current one whose codes are accepted: clocks differ, and typing takes time (RFC
/// 6238, 5.2).
const STEPS_TAKEN: RangeInclusive<i64> = -1..=1;

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The secret that the app shares with us. Its `Debug` form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed(Zeroizing<Vec<u8>>);

impl Seed {
    /// A new one.
    pub fn generate(entropy: &Entropy) -> Self {
        let mut bytes = Zeroizing::new(vec![0; SEED_BYTES]);
        entropy.fill(&mut bytes);
        Self(bytes)
    }

    /// Reads what [`Seed::to_text`] writes; spaces and letter case do not matter.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(from_base32(text)?);
        (bytes.len() == SEED_BYTES).then_some(Self(bytes))
    }

    /// In base32, as apps take it: a secret.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(to_base32(&self.0))
    }

    /// The URL that apps read from a QR code: a secret.
    pub fn url(&self, account: &str) -> Zeroizing<String> {
        let mut url = url::Url::parse("otpauth://totp/").expect("a URL");
        url.set_path(&format!("/Everpost:{account}"));
        url.query_pairs_mut()
            .append_pair("secret", &self.to_text())
            .append_pair("issuer", "Everpost");
        Zeroizing::new(url.into())
    }

    /// The time step of the code `presented`, if it is around the current one and later than `last`: no code
    /// is accepted twice.
    pub fn step_of(&self, presented: &str, now: Timestamp, last: Option<i64>) -> Option<i64> {
        let presented: String = presented.split_whitespace().collect();
        let present = now.as_ms().div_euclid(1_000 * STEP_S);
        let admits = |step: &i64| {
            let code = self.code(*step);
            verify_slices_are_equal(code.as_bytes(), presented.as_bytes()).is_ok()
        };
        let steps = STEPS_TAKEN.map(|offset| present + offset);
        // All of them are compared, whichever matches.
        let fitting: Vec<i64> = steps.filter(admits).collect();
        fitting.into_iter().find(|step| Some(*step) > last)
    }

    /// The code of a step (RFC 4226, 5.3).
    fn code(&self, step: i64) -> Zeroizing<String> {
        let key = Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, &self.0);
        let tag = sign(&key, &step.to_be_bytes());
        let tag = tag.as_ref();
        let offset = usize::from(tag[tag.len() - 1] & 0xf);
        let four = [
            tag[offset],
            tag[offset + 1],
            tag[offset + 2],
            tag[offset + 3],
        ];
        let number = (u32::from_be_bytes(four) & 0x7fff_ffff) % 10_u32.pow(DIGITS);
        Zeroizing::new(format!("{number:06}"))
    }

    /// The code at a moment, for tests.
    pub fn code_at(&self, now: Timestamp) -> Zeroizing<String> {
        self.code(now.as_ms().div_euclid(1_000 * STEP_S))
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// RFC 4648, 6, without padding.
pub fn to_base32(bytes: &[u8]) -> String {
    let chunk = |chunk: &[u8]| -> String {
        let mut block = [0; 8];
        block[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(block);
        let characters = (chunk.len() * 8).div_ceil(5);
        let character = |index: usize| {
            let five = (bits >> (35 - 5 * index)) & 31;
            char::from(BASE32[usize::try_from(five).unwrap_or(0)])
        };
        (0..characters).map(character).collect()
    };
    bytes.chunks(5).map(chunk).collect()
}

fn from_base32(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for character in text.chars().filter(|c| !c.is_whitespace()) {
        let upper = character.to_ascii_uppercase();
        let five = BASE32.iter().position(|each| char::from(*each) == upper)?;
        bits = (bits << 5) | u32::try_from(five).ok()?;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6238, appendix B, for SHA-1, the last six of its eight digits.
    const VECTORS: [(i64, &str); 6] = [
        (59, "287082"),
        (1_111_111_109, "081804"),
        (1_111_111_111, "050471"),
        (1_234_567_890, "005924"),
        (2_000_000_000, "279037"),
        (20_000_000_000, "353130"),
    ];

    fn seed() -> Seed {
        Seed(Zeroizing::new(b"12345678901234567890".to_vec()))
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_ms(1_000 * seconds)
    }

    #[test]
    fn codes_are_those_of_the_standard() {
        for (seconds, code) in VECTORS {
            assert_eq!(*seed().code_at(at(seconds)), code, "{seconds}");
            assert_eq!(seed().step_of(code, at(seconds), None), Some(seconds / 30));
        }
    }

    #[test]
    fn a_code_is_taken_half_a_minute_early_or_late_and_only_once() {
        let code = seed().code_at(at(3_000));
        let spaced = format!(" {} {} ", &code[..3], &code[3..]);
        for (seconds, taken) in [
            (2_969, false),
            (2_970, true),
            (3_000, true),
            (3_059, true),
            (3_060, false),
        ] {
            let step = seed().step_of(&spaced, at(seconds), None);
            assert_eq!(step, taken.then_some(100), "{seconds}");
        }
        assert_eq!(seed().step_of(&code, at(3_000), Some(99)), Some(100));
        assert_eq!(seed().step_of(&code, at(3_000), Some(100)), None);
        assert_eq!(seed().step_of("", at(3_000), None), None);
        assert_eq!(seed().step_of("12345", at(3_000), None), None);
    }

    #[test]
    fn seeds_are_read_as_they_are_written() {
        let text = seed().to_text();
        assert_eq!(*text, "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
        assert_eq!(Seed::parse(&text), Some(seed()));
        assert_eq!(
            Seed::parse("gezd gnbv gy3t qojq gezd gnbv gy3t qojq"),
            Some(seed())
        );
        for wrong in ["", "GEZD", "1EZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"] {
            assert_eq!(Seed::parse(wrong), None, "{wrong}");
        }
        let url = seed().url("ann lee");
        assert_eq!(
            *url,
            "otpauth://totp/Everpost:ann%20lee?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Everpost"
        );
        assert_eq!(format!("{:?}", seed()), "***");
    }

    #[test]
    fn base32_is_that_of_the_standard() {
        for (text, encoded) in [
            ("", ""),
            ("f", "MY"),
            ("fo", "MZXQ"),
            ("foo", "MZXW6"),
            ("foob", "MZXW6YQ"),
            ("fooba", "MZXW6YTB"),
            ("foobar", "MZXW6YTBOI"),
        ] {
            assert_eq!(to_base32(text.as_bytes()), encoded);
            assert_eq!(from_base32(encoded).as_deref(), Some(text.as_bytes()));
        }
    }
}
