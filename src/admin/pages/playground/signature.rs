//! Checks a signature as a receiver does (Standard Webhooks 1.0.0). The secret is used and forgotten: it is
//! neither logged nor drawn again.

use askama::Template;

use super::{Pasted, PlaygroundOutcome, check_size};
use crate::admin::forms::form::FormError;
use crate::admin::widgets::print::sentence;
use crate::admin::widgets::{Badge, Tone, filters, part, print};
use crate::base::Timestamp;
use crate::model::limits::PUBLISH_BYTES_MAX;
use crate::model::signing::SigningSecret;
use crate::wire::signature::{ID, NotSigned, SIGNATURE, TIMESTAMP, TOLERANCE, verify};

/// Maximum bytes of a pasted header. A header with signatures of five secrets has less than 300 bytes.
const HEADER_BYTES_MAX: usize = 4_096;

/// Maximum bytes of a pasted body: the preferred size of a batch of events.
const BODY_BYTES_MAX: usize = PUBLISH_BYTES_MAX;

/// The result of checking a signature, with the likely cause of a wrong one.
#[derive(Template)]
#[template(path = "widgets/signature.html")]
pub(super) struct SignatureVerdict {
    why_not: Option<NotSigned>,
    /// Time of the signature, from its timestamp.
    sent_at: Option<Timestamp>,
    /// Is true if the signature would have been right at that time.
    was_right: bool,
    now: Timestamp,
}

part!(SignatureVerdict);

impl Pasted {
    fn headers(&self) -> [(&'static str, &str); 3] {
        let texts = [&self.id, &self.timestamp, &self.signature].map(|text| text.trim());
        [(ID, texts[0]), (TIMESTAMP, texts[1]), (SIGNATURE, texts[2])]
    }
}

pub(super) fn check(
    pasted: &Pasted,
    now: Timestamp,
) -> Result<Option<PlaygroundOutcome>, FormError> {
    let secret = SigningSecret::parse(pasted.secret.trim())
        .map_err(|error| FormError::of("secret", sentence(&error.to_string())))?;
    for (name, text) in pasted.headers() {
        check_size(name, text, HEADER_BYTES_MAX)?;
        if text.is_empty() {
            let problem = format!("Paste the value of the header {name}.");
            return Err(FormError::of(name, problem));
        }
    }
    check_size("body", &pasted.body, BODY_BYTES_MAX)?;
    let verdict = evaluate(pasted, &[secret], now);
    Ok(Some(PlaygroundOutcome::Signature(verdict)))
}

fn evaluate(pasted: &Pasted, secrets: &[SigningSecret], now: Timestamp) -> SignatureVerdict {
    let seconds: Option<i64> = pasted.timestamp.trim().parse().ok();
    let sent_at = seconds
        .and_then(|seconds| seconds.checked_mul(1_000))
        .map(Timestamp::from_ms);
    SignatureVerdict {
        why_not: verify_either(pasted, secrets, now).err(),
        sent_at,
        was_right: sent_at.is_some_and(|at| verify_either(pasted, secrets, at).is_ok()),
        now,
    }
}

/// Browsers write line breaks of a form as two characters, whatever they were; the body is tried both ways.
fn verify_either(
    pasted: &Pasted,
    secrets: &[SigningSecret],
    now: Timestamp,
) -> Result<(), NotSigned> {
    let headers = pasted.headers();
    let header = |wanted: &'static str| {
        let found = headers.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, text)| *text)
    };
    let check = |body: &str| verify(secrets, header, body.as_bytes(), now);
    check(&pasted.body).or_else(|_| check(&pasted.body.replace("\r\n", "\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example of Standard Webhooks' own libraries.
    const SECRET_OF_EXAMPLE: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SENT: Timestamp = Timestamp::from_ms(1_614_265_330_000);

    fn example() -> Pasted {
        Pasted {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned(),
            timestamp: "1614265330".to_owned(),
            signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".to_owned(),
            body: "{\"test\": 2432232314}".to_owned(),
            ..Pasted::default()
        }
    }

    fn secrets() -> [SigningSecret; 1] {
        [SigningSecret::parse(SECRET_OF_EXAMPLE).expect("a secret")]
    }

    fn said(pasted: &Pasted, now: Timestamp) -> String {
        evaluate(pasted, &secrets(), now).to_string()
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        assert!(said(&example(), SENT).contains("The signature was made with this secret"));
        let late = Timestamp::from_ms(SENT.as_ms() + 3_600_000);
        let message = said(&example(), late);
        assert!(message.contains("too far from now."), "{message}");
        assert!(message.contains("Apart from that it is valid"), "{message}");
        assert!(message.contains("1 h ago"), "{message}");
        let other = Pasted {
            body: "{}".to_owned(),
            ..example()
        };
        assert!(said(&other, SENT).contains("byte for byte"));
        assert!(said(&other, late).contains("The signature does not match the secret either"));
        for timestamp in ["soon", "9223372036854775807"] {
            let unreadable = Pasted {
                timestamp: timestamp.to_owned(),
                ..example()
            };
            assert!(
                said(&unreadable, SENT).contains("Seconds since 1970"),
                "{timestamp}"
            );
        }
    }

    #[test]
    fn a_body_with_line_breaks_fits_however_the_browser_writes_them() {
        let signature = crate::wire::signature::sign(secrets().iter(), "1", SENT, b"{\n}");
        let signed = Pasted {
            id: "1".to_owned(),
            signature,
            body: "{\r\n}".to_owned(),
            ..example()
        };
        assert!(verify_either(&signed, &secrets(), SENT).is_ok());
    }
}
