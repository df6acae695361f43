//! Plain-language descriptions of TLS errors, which say what to do about them.

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use crate::base::Timestamp;

/// Returns a description of the error, or `None` if it would say no more than the message of rustls.
pub(super) fn in_words(failure: &Error) -> Option<String> {
    if let Error::InvalidCertificate(problem) = failure {
        return of_certificate(problem);
    }
    let words = if let Error::InvalidMessage(InvalidMessage::InvalidContentType) = failure {
        "the receiver does not speak TLS at this port, perhaps plain HTTP; check the port, or call it by http"
    } else if let Error::AlertReceived(AlertDescription::CertificateRequired) = failure {
        "the receiver asks for a client certificate; set clientCertificate"
    } else {
        return None;
    };
    Some(words.to_owned())
}

fn of_certificate(problem: &CertificateError) -> Option<String> {
    let words = if let CertificateError::UnknownIssuer = problem {
        "the certificate is from an unknown authority; if it is one of your own, give its certificate in \
         certificateAuthorities of the webhook, or add it to those of the system"
            .to_owned()
    } else if let CertificateError::NotValidForNameContext {
        expected,
        presented,
    } = problem
    {
        let names: Vec<&str> = presented.iter().map(|name| plain(name)).collect();
        let names = if names.is_empty() {
            "no name at all".to_owned()
        } else {
            names.join(", ")
        };
        format!(
            "the certificate has the wrong name: it is not for {}, but for {names}",
            expected.to_str()
        )
    } else if let CertificateError::NotValidForName = problem {
        "the certificate has the wrong name: it is not for this host".to_owned()
    } else if let CertificateError::ExpiredContext { not_after, .. } = problem {
        format!("the certificate expired on {}", date(*not_after))
    } else if let CertificateError::Expired = problem {
        "the certificate has expired".to_owned()
    } else if let CertificateError::NotValidYetContext { not_before, .. } = problem {
        let from = date(*not_before);
        format!("the certificate is not valid before {from}; check the clocks")
    } else {
        return None;
    };
    Some(words)
}

/// Returns the bare name from one that rustls formats with its type, such as `DnsName("a.example")`; any other text is
/// returned unchanged.
fn plain(presented: &str) -> &str {
    presented.split('"').nth(1).unwrap_or(presented)
}

fn date(time: UnixTime) -> String {
    let ms = i64::try_from(time.as_secs().saturating_mul(1_000)).unwrap_or(i64::MAX);
    let at = Timestamp::from_ms(ms).to_string();
    at.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn failures_say_what_to_do() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let name = |text: &'static str| text.try_into().expect("a name");
        for (problem, expected) in [
            (
                CertificateError::UnknownIssuer,
                "unknown authority; if it is one of your own, give its certificate in certificateAuthorities",
            ),
            (
                CertificateError::NotValidForNameContext {
                    expected: name("a.example"),
                    presented: vec!["DnsName(\"b.example\")".to_owned(), "c.example".to_owned()],
                },
                "it is not for a.example, but for b.example, c.example",
            ),
            (
                CertificateError::ExpiredContext {
                    time: at(1_800_000_000),
                    not_after: at(1_795_243_253),
                },
                "expired on 2026-11-21",
            ),
            (
                CertificateError::NotValidYetContext {
                    time: at(0),
                    not_before: at(1_795_243_253),
                },
                "not valid before 2026-11-21",
            ),
        ] {
            let words = in_words(&Error::InvalidCertificate(problem)).expect(expected);
            assert!(words.contains(expected), "{words}");
        }
        let plain_http = Error::InvalidMessage(InvalidMessage::InvalidContentType);
        assert!(in_words(&plain_http).is_some_and(|words| words.contains("plain HTTP")));
        assert_eq!(in_words(&Error::DecryptError), None);
    }
}
