//! Signatures of deliveries according to Standard Webhooks 1.0.0: signing and verification.

use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::base::Timestamp;
use crate::model::signing::SigningSecret;

/// The header with an id that is the same in all attempts to deliver the same events.
pub const ID: &str = "webhook-id";
/// The header with the moment of this attempt, in seconds since the epoch.
pub const TIMESTAMP: &str = "webhook-timestamp";
/// Signatures separated by spaces, one for each secret in use.
pub const SIGNATURE: &str = "webhook-signature";

/// How far the clocks of sender and receiver may be apart (what the reference libraries allow).
pub const TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// The version of a symmetric signature.
const VERSION: &str = "v1";

/// The number of bytes of a hash in the id of a batch: the size of a UUID.
const BATCH_ID_BYTES: usize = 16;

/// Returns the id of a request that carries the events with these ids. For one event it is the event's id. For several
/// events it is a hash of their ids, so that every attempt with the same events has the same id. It never contains a
/// period, which separates the parts of the signed text.
pub fn request_id(ids: &[String]) -> String {
    if let [id] = ids {
        return id.clone();
    }
    let mut hash = Context::new(&SHA256);
    for id in ids {
        hash.update(id.as_bytes());
        hash.update(b"\n");
    }
    let digest = hash.finish();
    format!(
        "batch_{}",
        URL_SAFE_NO_PAD.encode(&digest.as_ref()[..BATCH_ID_BYTES])
    )
}

/// The value of [`SIGNATURE`]: `v1,<base64 of HMAC-SHA-256>` for each secret.
pub fn sign<'a>(
    secrets: impl Iterator<Item = &'a SigningSecret>,
    id: &str,
    at: Timestamp,
    body: &[u8],
) -> String {
    let seconds = seconds(at).to_string();
    let each = secrets.map(|secret| {
        let tag = STANDARD.encode(tag(secret, id, &seconds, body));
        format!("{VERSION},{tag}")
    });
    each.collect::<Vec<_>>().join(" ")
}

/// The reason why the signature of a request could not be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSigned {
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{TIMESTAMP} is no number of seconds")]
    NoTimestamp,
    #[error("{TIMESTAMP} is too far from now")]
    Stale,
    #[error("no signature fits the secret")]
    Mismatch,
}

/// Verifies a request as a receiver does; `header` looks up a header by name.
pub fn verify<'a>(
    secrets: &[SigningSecret],
    header: impl Fn(&'static str) -> Option<&'a str>,
    body: &[u8],
    now: Timestamp,
) -> Result<(), NotSigned> {
    let needed = |name| header(name).ok_or(NotSigned::Missing(name));
    let (id, timestamp, signatures) = (needed(ID)?, needed(TIMESTAMP)?, needed(SIGNATURE)?);
    let sent: i64 = timestamp.parse().map_err(|_| NotSigned::NoTimestamp)?;
    if sent.abs_diff(seconds(now)) > TOLERANCE.as_secs() {
        return Err(NotSigned::Stale);
    }
    let mut tags = signatures.split(' ').filter_map(|each| {
        let tag = each.strip_prefix(VERSION)?.strip_prefix(',')?;
        STANDARD.decode(tag).ok()
    });
    let text = signed_text(id, timestamp, body);
    let fits = |tag: Vec<u8>| {
        let verified = |secret| hmac::verify(&key(secret), &text, &tag).is_ok();
        secrets.iter().any(verified)
    };
    if tags.any(fits) {
        Ok(())
    } else {
        Err(NotSigned::Mismatch)
    }
}

/// Returns whole seconds since the epoch.
pub fn seconds(at: Timestamp) -> i64 {
    at.as_ms().div_euclid(1_000)
}

fn tag(secret: &SigningSecret, id: &str, timestamp: &str, body: &[u8]) -> hmac::Tag {
    hmac::sign(&key(secret), &signed_text(id, timestamp, body))
}

fn key(secret: &SigningSecret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &secret.key())
}

fn signed_text(id: &str, timestamp: &str, body: &[u8]) -> Vec<u8> {
    [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SigningSecret {
        SigningSecret::parse(text).expect("a secret")
    }

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID_OF_EXAMPLE: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const SENT: Timestamp = Timestamp::from_ms(1_614_265_330_999);
    const BODY: &[u8] = b"{\"test\": 2432232314}";
    const SIGNED: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    #[test]
    fn signatures_are_those_of_the_standard() {
        // The example of Standard Webhooks' own libraries.
        let one = secret(SECRET);
        assert_eq!(sign([&one].into_iter(), ID_OF_EXAMPLE, SENT, BODY), SIGNED);
        // Python: hmac.new(bytes(range(64)), f"{id}.{seconds}.ü\n".encode(), sha256).
        let other = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4\
                     OTo7PD0+Pw==";
        let other = secret(other);
        let body = "ü\n".as_bytes();
        let both = sign([&other, &one].into_iter(), ID_OF_EXAMPLE, SENT, body);
        let (first, second) = both.split_once(' ').expect("two signatures");
        assert_eq!(first, "v1,6LlqstbkrrQVgYT4CvmmQOZBkC8mF6D7xWUlrwjMhxM=");
        assert_eq!(second, sign([&one].into_iter(), ID_OF_EXAMPLE, SENT, body));
    }

    #[test]
    fn ids_are_stable_and_hold_no_period() {
        let ids = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(request_id(&ids(&["a-1"])), "a-1");
        // Python: base64.urlsafe_b64encode(sha256(b"a\nb\n").digest()[:16])
        assert_eq!(
            request_id(&ids(&["a", "b"])),
            "batch_kRFp3arxRq_1OfWMJsSJrw"
        );
        assert_ne!(request_id(&ids(&["b", "a"])), request_id(&ids(&["a", "b"])));
    }

    #[test]
    fn receivers_tell_what_is_wrong() {
        let check = |id, timestamp, signature, secrets: &[&str], expected| {
            let header = |name: &'static str| match name {
                ID => id,
                TIMESTAMP => timestamp,
                _ => signature,
            };
            let secrets: Vec<_> = secrets.iter().map(|text| secret(text)).collect();
            let now = SENT + TOLERANCE;
            assert_eq!(
                verify(&secrets, header, BODY, now),
                expected,
                "{signature:?}"
            );
        };
        let (id, at) = (Some(ID_OF_EXAMPLE), Some("1614265330"));
        let listed = format!("v1a,xyz v1,AAAA {SIGNED}");
        let wrong = Err(NotSigned::Mismatch);
        check(id, at, Some(SIGNED), &[SECRET], Ok(()));
        check(id, at, Some(&listed), &[SECRET], Ok(()));
        let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        check(id, at, Some(SIGNED), &[other], wrong);
        check(id, at, Some(SIGNED), &[other, SECRET], Ok(()));
        check(Some("other"), at, Some(SIGNED), &[SECRET], wrong);
        check(id, Some("1614265331"), Some(SIGNED), &[SECRET], wrong);
        check(id, at, Some(&SIGNED[3..]), &[SECRET], wrong);
        check(id, at, Some(""), &[SECRET], wrong);
        check(
            None,
            at,
            Some(SIGNED),
            &[SECRET],
            Err(NotSigned::Missing(ID)),
        );
        let missing = Err(NotSigned::Missing(SIGNATURE));
        check(id, at, None, &[SECRET], missing);
        let no_number = Err(NotSigned::NoTimestamp);
        check(id, Some("now"), Some(SIGNED), &[SECRET], no_number);
        let stale = Err(NotSigned::Stale);
        check(id, Some("1614265329"), Some(SIGNED), &[SECRET], stale);
    }
}
