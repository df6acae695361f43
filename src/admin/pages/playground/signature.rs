//! Checks a signature as a receiver does (Standard Webhooks 1.0.0). The secret is used and forgotten: it is
//! neither logged nor drawn again.

use crate::admin::forms::field::Field;
use crate::admin::page::*;
use crate::admin::pages::playground::{Tool, pasted};
use crate::model::limits::PUBLISH_BYTES_MAX;
use crate::model::signing::SigningSecret;
use crate::wire::signature::{ID, NotSigned, SIGNATURE, TIMESTAMP, TOLERANCE, verify};

const PATH: &str = "/admin/playground/signature";
const SECRET: &str = "secret";
const BODY: &str = "body";

/// Bytes of a pasted header; signatures with five secrets have less than 300.
const HEADER_BYTES_MAX: usize = 4_096;

/// Bytes of a pasted body: as many as a batch of events has by its preferred size.
const BODY_BYTES_MAX: usize = PUBLISH_BYTES_MAX;

#[derive(Template)]
#[template(path = "pages/playground_signature.html")]
struct SignaturePage {
    frame: Frame,
    tool: Tool,
    verdict: Option<SignatureText>,
}

/// A verdict ready to print.
struct SignatureText {
    badge: Badge,
    said: String,
    /// What is to be known besides; empty for nothing.
    remark: String,
}

/// The headers and the body that were pasted.
struct Signed<'a> {
    id: &'a str,
    timestamp: &'a str,
    signature: &'a str,
    body: &'a str,
}

/// The form.
pub(crate) async fn draft(visitor: Visitor) -> PageResult {
    Ok(draw(&visitor, &Form::default(), Ok(None)))
}

/// The form with the verdict.
pub(crate) async fn check(Submitted { visitor, form }: Submitted) -> PageResult {
    let verdict = evaluate(&form, visitor.now).map(Some);
    Ok(draw(&visitor, &form, verdict))
}

fn evaluate(form: &Form, now: Timestamp) -> Result<SignatureText, Refusal> {
    let secret = SigningSecret::parse(form.text(SECRET))
        .map_err(|error| Refusal::of(SECRET, sentence(&error.to_string())))?;
    let signed = Signed {
        id: header(form, ID)?,
        timestamp: header(form, TIMESTAMP)?,
        signature: header(form, SIGNATURE)?,
        body: pasted::text(form, BODY, BODY_BYTES_MAX)?,
    };
    Ok(signed.evaluate(&[secret], now))
}

fn header<'a>(form: &'a Form, name: &str) -> Result<&'a str, Refusal> {
    match pasted::text(form, name, HEADER_BYTES_MAX)?.trim() {
        "" => Err(Refusal::of(
            name,
            format!("It is missing; paste the value of the header {name}."),
        )),
        text => Ok(text),
    }
}

impl Signed<'_> {
    fn evaluate(&self, secrets: &[SigningSecret], now: Timestamp) -> SignatureText {
        match self.verify(secrets, now) {
            Ok(()) => SignatureText {
                badge: Badge::new(Tone::Good, "Right"),
                said: "The signature was made with this secret, for this id, timestamp and body."
                    .to_owned(),
                remark: String::new(),
            },
            Err(why) => SignatureText {
                badge: Badge::new(Tone::Bad, "Wrong"),
                said: sentence(&why.to_string()),
                remark: self.remark(why, secrets, now),
            },
        }
    }

    /// Browsers write line breaks of a form as two characters, whatever they were; the body is tried both ways.
    fn verify(&self, secrets: &[SigningSecret], now: Timestamp) -> Result<(), NotSigned> {
        let with_line_feeds = self.body.replace("\r\n", "\n");
        let header = |name: &'static str| {
            Some(match name {
                ID => self.id,
                TIMESTAMP => self.timestamp,
                _ => self.signature,
            })
        };
        let check = |body: &str| verify(secrets, header, body.as_bytes(), now);
        check(self.body).or_else(|_| check(&with_line_feeds))
    }

    /// What may be the matter.
    fn remark(&self, why: NotSigned, secrets: &[SigningSecret], now: Timestamp) -> String {
        match (why, self.sent_at()) {
            (NotSigned::Stale, Some(sent)) => {
                let fits = match self.verify(secrets, sent) {
                    Ok(()) => "Apart from that it is right",
                    Err(_) => "No signature would fit the secret either",
                };
                format!(
                    "{fits}. The request was signed {}; receivers take it for {} at most, so that \
                     nobody sends it again later.",
                    print::relative(sent, now),
                    print::span(TOLERANCE)
                )
            }
            (NotSigned::Stale | NotSigned::NoTimestamp, _) => {
                "Seconds since 1970-01-01 are expected, such as 1795243253.".to_owned()
            }
            (NotSigned::Missing(_) | NotSigned::Mismatch, _) => {
                "Signed are id, timestamp and body with a full stop between them. The body must be what \
                 came, byte for byte: not laid out anew, and without a line break added at its end."
                    .to_owned()
            }
        }
    }

    /// The moment that the timestamp tells, if it is one.
    fn sent_at(&self) -> Option<Timestamp> {
        let seconds: i64 = self.timestamp.parse().ok()?;
        Some(Timestamp::from_ms(seconds.checked_mul(1_000)?))
    }
}

fn fields(form: &Form) -> Vec<Field> {
    vec![
        Field::secret(SECRET, "Secret", &Form::default())
            .hint("whsec_ and what follows. It is not kept: paste it again for the next request.")
            .required(),
        Field::line(ID, "webhook-id", form).mono().required(),
        Field::line(TIMESTAMP, "webhook-timestamp", form)
            .mono()
            .required(),
        Field::line(SIGNATURE, "webhook-signature", form)
            .hint("One or more, separated by spaces, such as v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=")
            .mono()
            .required(),
        Field::area(BODY, "Body", 8, form).hint("Exactly as it came."),
    ]
}

fn draw(
    visitor: &Visitor,
    form: &Form,
    verdict: Result<Option<SignatureText>, Refusal>,
) -> Response {
    let mut tool = Tool {
        lead: "Paste the secret of an event subscription and a request that came to its webhook. The check \
               is the one that libraries of Standard Webhooks make.",
        action: PATH,
        problem: None,
        fields: fields(form),
        button: "Check",
        other: None,
    };
    let (verdict, refusal) = match verdict {
        Ok(verdict) => (verdict, None),
        Err(refusal) => (None, Some(refusal)),
    };
    tool.mark(refusal);
    let page = SignaturePage {
        frame: Frame::new(visitor, "Check a signature"),
        verdict,
        tool,
    };
    page.tool.draw(&page)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example of Standard Webhooks' own libraries.
    const SECRET_OF_EXAMPLE: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SENT: Timestamp = Timestamp::from_ms(1_614_265_330_000);
    const EXAMPLE: Signed<'_> = Signed {
        id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp: "1614265330",
        signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        body: "{\"test\": 2432232314}",
    };

    fn secrets() -> [SigningSecret; 1] {
        [SigningSecret::parse(SECRET_OF_EXAMPLE).expect("a secret")]
    }

    fn said(signed: &Signed<'_>, now: Timestamp) -> String {
        let text = signed.evaluate(&secrets(), now);
        format!("{} {}", text.said, text.remark)
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        assert!(said(&EXAMPLE, SENT).starts_with("The signature was made with this secret"));
        let late = Timestamp::from_ms(SENT.as_ms() + 3_600_000);
        let message = said(&EXAMPLE, late);
        assert!(
            message.contains("too far from now. Apart from that it is right"),
            "{message}"
        );
        assert!(message.contains("1 h ago"), "{message}");
        let other = Signed {
            body: "{}",
            ..EXAMPLE
        };
        assert!(said(&other, SENT).contains("byte for byte"));
        assert!(said(&other, late).contains("No signature would fit the secret either"));
        for timestamp in ["soon", "9223372036854775807"] {
            let unreadable = Signed {
                timestamp,
                ..EXAMPLE
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
        let signed = Signed {
            id: "1",
            signature: &signature,
            body: "{\r\n}",
            ..EXAMPLE
        };
        assert!(signed.verify(&secrets(), SENT).is_ok());
    }
}
