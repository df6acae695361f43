//! Signing secrets of an event subscription (Standard Webhooks 1.0.0) and their rotation.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::base::{Entropy, Timestamp, sha256_hex};
use crate::model::access::Secret;
use crate::model::limits::SIGNING_SECRETS_MAX;

/// The prefix of every secret (Standard Webhooks 1.0.0).
const PREFIX: &str = "whsec_";

/// Bytes of a secret (Standard Webhooks 1.0.0: 24 to 64).
const BYTES_MIN: usize = 24;
const BYTES_MAX: usize = 64;

/// Bytes of a generated secret: as many as a SHA-256 hash has.
const BYTES_MADE: usize = 32;

/// Bytes of a secret's hash that represent it in responses: enough to recognise it by, and useless for
/// guessing, since a secret has at least 24 random bytes.
const FINGERPRINT_BYTES: usize = 8;

/// A signing secret: `whsec_` and the key in base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningSecret(Secret);

/// The error for a text that is not a signing secret. Its message does not show the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it must be \"{PREFIX}\" and {BYTES_MIN} to {BYTES_MAX} bytes in base64; the prefix may be left out"
)]
pub struct InvalidSigningSecret;

impl SigningSecret {
    /// Reads a secret, which may come without its prefix, as many services show it.
    pub fn parse(text: &str) -> Result<Self, InvalidSigningSecret> {
        let encoded = text.strip_prefix(PREFIX).unwrap_or(text);
        let decoded = STANDARD.decode(encoded).map(Zeroizing::new);
        let key = decoded.map_err(|_| InvalidSigningSecret)?;
        if !(BYTES_MIN..=BYTES_MAX).contains(&key.len()) {
            return Err(InvalidSigningSecret);
        }
        Ok(Self(Secret::new(format!("{PREFIX}{encoded}"))))
    }

    /// A new secret.
    pub fn generate(entropy: &Entropy) -> Self {
        let mut key = Zeroizing::new([0; BYTES_MADE]);
        entropy.fill(&mut *key);
        Self(Secret::new(format!("{PREFIX}{}", STANDARD.encode(*key))))
    }

    /// Returns the secret in plain text, to be given to the receiver once.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }

    /// Returns the decoded key with which requests are signed.
    pub fn key(&self) -> Zeroizing<Vec<u8>> {
        key_of(self.0.reveal()).expect("it was read before")
    }

    /// Returns the first [`FINGERPRINT_BYTES`] bytes of the secret's SHA-256 hash in hex, which represent it in
    /// responses.
    pub fn fingerprint(&self) -> String {
        let mut hash = sha256_hex(self.0.reveal().as_bytes());
        hash.truncate(2 * FINGERPRINT_BYTES);
        hash
    }
}

fn key_of(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let key = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
    Some(Zeroizing::new(key))
}

/// A secret and how long it signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveSecret {
    pub secret: SigningSecret,
    pub created_at: Timestamp,
    /// The time at which the secret stops signing; `None` for the newest, beside which older secrets sign until they
    /// expire.
    pub expires_at: Option<Timestamp>,
}

/// The signing secrets of one subscription, newest first; empty if the subscription does not sign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signing(pub Vec<ActiveSecret>);

/// The error of a rotation after which more than [`SIGNING_SECRETS_MAX`] secrets would be in use, so that one had to
/// end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{SIGNING_SECRETS_MAX} signing secrets are in use, which is the most; rotate with a shorter grace \
     time, or later"
)]
pub struct TooManySecrets;

impl Signing {
    /// The secrets that sign at `now`, newest first.
    pub fn active(&self, now: Timestamp) -> impl Iterator<Item = &ActiveSecret> {
        let signs = move |each: &&ActiveSecret| each.expires_at.is_none_or(|at| now < at);
        self.0.iter().filter(signs)
    }

    /// Returns the secrets after a rotation to `secret`: the older ones sign for at most `grace` from `now` on, and
    /// expired ones are dropped.
    pub fn rotated(
        &self,
        secret: SigningSecret,
        now: Timestamp,
        grace: Duration,
    ) -> Result<Self, TooManySecrets> {
        let end = now + grace;
        let newest = ActiveSecret {
            secret,
            created_at: now,
            expires_at: None,
        };
        let mut all = vec![newest];
        for each in self.active(now) {
            let expires_at = each.expires_at.map_or(end, |at| at.min(end));
            if each.secret != all[0].secret && expires_at > now {
                all.push(ActiveSecret {
                    expires_at: Some(expires_at),
                    ..each.clone()
                });
            }
        }
        if all.len() <= SIGNING_SECRETS_MAX {
            Ok(Self(all))
        } else {
            Err(TooManySecrets)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn secret(byte: u8) -> SigningSecret {
        let text = format!("{PREFIX}{}", STANDARD.encode([byte; BYTES_MIN]));
        SigningSecret::parse(&text).expect("a secret")
    }

    #[test]
    fn secrets_have_a_prefix_and_24_to_64_bytes() {
        let of = |bytes: usize| format!("{PREFIX}{}", STANDARD.encode(vec![7; bytes]));
        for (text, valid) in [
            (of(24), true),
            (of(64), true),
            (of(23), false),
            (of(65), false),
            (STANDARD.encode([7; 32]), true),
            (STANDARD.encode([7; 23]), false),
            (format!("{PREFIX}no base64"), false),
            (String::new(), false),
        ] {
            assert_eq!(SigningSecret::parse(&text).is_ok(), valid, "{text}");
        }
        let bare = SigningSecret::parse(&STANDARD.encode([7; 32])).expect("a secret");
        assert_eq!(bare.reveal(), of(32), "the same with its prefix");
        let made = SigningSecret::generate(&Entropy::Os);
        assert_eq!(made.key().len(), BYTES_MADE);
        assert!(SigningSecret::parse(made.reveal()).as_ref() == Ok(&made));
        assert_eq!(format!("{made:?}"), "SigningSecret(***)");
        assert_eq!(made.fingerprint().len(), 16);
    }

    #[test]
    fn a_rotated_secret_signs_for_the_grace_time() {
        let at = |hours: u32| Timestamp::from_ms(0) + HOUR * hours;
        let told = |signing: &Signing, now| {
            let active = signing.active(now).map(|each| each.secret.key()[0]);
            active.collect::<Vec<_>>()
        };
        let first = Signing::default().rotated(secret(1), at(0), HOUR);
        let first = first.expect("the first");
        assert_eq!(told(&first, at(1_000)), [1]);
        let second = first
            .rotated(secret(2), at(1), 24 * HOUR)
            .expect("a second");
        assert_eq!(told(&second, at(24)), [2, 1]);
        assert_eq!(told(&second, at(25)), [2]);
        // Another rotation shortens what is left of a grace time, and never lengthens it.
        let third = second.rotated(secret(3), at(2), HOUR).expect("a third");
        assert_eq!(told(&third, at(2)), [3, 2, 1]);
        assert_eq!(told(&third, at(3)), [3]);
        let at_once = second.rotated(secret(3), at(2), Duration::ZERO);
        assert_eq!(told(&at_once.expect("without grace"), at(2)), [3]);
        // The same one again stays one.
        let again = second.rotated(secret(1), at(2), HOUR).expect("again");
        assert_eq!(told(&again, at(2)), [1, 2]);
    }

    #[test]
    fn secrets_in_use_are_bounded() {
        let now = Timestamp::from_ms(0);
        let mut signing = Signing::default();
        for byte in 1..=SIGNING_SECRETS_MAX {
            let byte = u8::try_from(byte).expect("a few");
            signing = signing.rotated(secret(byte), now, HOUR).expect("room");
        }
        assert_eq!(signing.rotated(secret(9), now, HOUR), Err(TooManySecrets));
        assert!(signing.rotated(secret(9), now + HOUR, HOUR).is_ok());
    }
}
