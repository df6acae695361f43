//! Time-based one-time codes of six digits (RFC 6238), as authenticator apps make them.

use totp_rs::{Builder, Secret, Totp};
use zeroize::Zeroizing;

use crate::base::{Entropy, Timestamp};

/// Bytes of a seed, as RFC 4226 recommends (4, R6).
const SEED_BYTES: usize = 20;

/// The secret that an app and the appliance share. Its `Debug` form hides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed(Totp);

impl Seed {
    /// Generates a new seed.
    pub fn generate(entropy: &Entropy) -> Self {
        let mut bytes = Zeroizing::new([0; SEED_BYTES]);
        entropy.fill(bytes.as_mut());
        Self::of(Secret::new_stack(*bytes))
    }

    /// Uses the defaults that all apps assume: SHA-1, six digits, 30 seconds. Codes of the steps before and after the
    /// current one are accepted, because clocks differ and typing takes time (RFC 6238, 5.2).
    fn of(secret: Secret) -> Self {
        let totp = Builder::new().with_secret(secret).build();
        Self(totp.expect("a seed of 20 bytes is long enough"))
    }

    /// Reads what [`Seed::to_text`] writes; spaces and letter case do not matter.
    pub fn parse(text: &str) -> Option<Self> {
        let compact = text.split_whitespace().collect::<String>();
        let base32 = Zeroizing::new(compact.to_ascii_uppercase());
        let secret = Secret::try_from_base32(base32.as_str()).ok()?;
        (secret.len() == SEED_BYTES).then(|| Self::of(secret))
    }

    /// Returns the seed in base32, which apps accept. The text is a secret.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(self.0.secret().to_base32())
    }

    /// Returns the URL that apps read from a QR code. The URL is a secret.
    pub fn url(&self, account: &str) -> Zeroizing<String> {
        let mut url = url::Url::parse("otpauth://totp/").expect("a URL");
        url.set_path(&format!("/Everpost:{account}"));
        url.query_pairs_mut()
            .append_pair("secret", &self.to_text())
            .append_pair("issuer", "Everpost");
        Zeroizing::new(url.into())
    }

    /// Returns the time step of the code `presented`, if that step is close to `now` and later than `last`, so that no
    /// code is accepted twice.
    pub fn step_of(&self, presented: &str, now: Timestamp, last: Option<i64>) -> Option<i64> {
        let presented: String = presented.split_whitespace().collect();
        let step = self.0.check(&presented, seconds(now))?;
        i64::try_from(step).ok().filter(|step| Some(*step) > last)
    }

    /// The code at a moment, for tests.
    pub fn code_at(&self, now: Timestamp) -> Zeroizing<String> {
        Zeroizing::new(self.0.generate(seconds(now)).to_string())
    }
}

fn seconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_ms() / 1_000).unwrap_or_default()
}

/// Encodes bytes in base32 (RFC 4648, 6), without padding.
pub fn to_base32(bytes: &[u8]) -> String {
    Secret::from(bytes).to_base32()
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
        Seed::of(Secret::new_stack(*b"12345678901234567890"))
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
        let debug = format!("{:?}", seed());
        assert!(
            !debug.contains("GEZD") && !debug.contains("1234"),
            "{debug}"
        );
    }
}
