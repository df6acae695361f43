//! Shared access signatures of Service Bus: `sr=<resource>&sig=<signature>&se=<expiry>&skn=<rule>`
//! (rule S1.1).
//!
//! The fields come in any order. The signature covers the resource exactly as received, because each SDK encodes the
//! resource differently. The HMAC key is the bytes of the key's text, not of the base64-decoded text.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::base::Timestamp;
use crate::model::access::Secret;

/// A parsed token. None of its fields can be trusted before the signature is verified.
#[derive(Clone, Debug)]
pub struct SasTokenText<'a> {
    /// The resource as received, which is the text that was signed.
    resource: &'a str,
    expiry: &'a str,
    signature: &'a str,
    rule: String,
}

/// The grant of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub until: Timestamp,
    /// The index of the key that signed the token.
    pub key: usize,
}

/// The reason why a token is rejected. No message contains the token. An error that Azure also reports begins with
/// Azure's wording, because programs compare the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error(
        "the shared access signature is not valid: {0}; a token is SharedAccessSignature \
         sr=<resource>&sig=<signature>&se=<expiry>&skn=<rule>"
    )]
    Malformed(&'static str),
    #[error("the shared access signature was not signed with the key of its rule")]
    WrongSignature,
    #[error("ExpiredToken: The token is expired. Expiration time: '{at}'")]
    Expired { at: Timestamp },
}

impl<'a> SasTokenText<'a> {
    /// Parses a token without its scheme prefix.
    pub fn parse(text: &'a str) -> Result<Self, TokenError> {
        let part = |name: &str| {
            let parts = text.trim().split('&');
            let mut named = parts.filter_map(|part| part.split_once('='));
            named
                .find(|(each, _)| *each == name)
                .map(|(_, value)| value)
        };
        let missing = TokenError::Malformed;
        Ok(Self {
            resource: part("sr").ok_or(missing("it has no sr"))?,
            signature: part("sig").ok_or(missing("it has no sig"))?,
            expiry: part("se").ok_or(missing("it has no se"))?,
            rule: decoded(part("skn").ok_or(missing("it has no skn"))?)
                .ok_or(missing("its skn is not UTF-8"))?,
        })
    }

    /// Returns the name of the rule that the token claims to be signed with.
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Returns the resource that the token claims to grant, which includes everything below that resource.
    pub fn resource(&self) -> Option<String> {
        decoded(self.resource)
    }

    /// Checks the signature against each of `keys`, and checks the expiry.
    pub fn verify<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k Secret>,
        now: Timestamp,
    ) -> Result<Granted, TokenError> {
        let signature: Vec<u8> = percent_decode_str(self.signature).collect();
        let signature = STANDARD
            .decode(signature)
            .map_err(|_| TokenError::Malformed("its sig is not base64"))?;
        // Errors in the format are reported before any key is compared, so that they reveal nothing about a key.
        let seconds: i64 = self
            .expiry
            .parse()
            .map_err(|_| TokenError::Malformed("its se is not a number of seconds"))?;
        let signed = signed_text(self.resource, self.expiry);
        let signs =
            |key: &Secret| hmac::verify(&hmac_key(key), signed.as_bytes(), &signature).is_ok();
        let key = keys
            .into_iter()
            .position(signs)
            .ok_or(TokenError::WrongSignature)?;
        let at = Timestamp::from_ms(seconds.saturating_mul(1_000));
        if at <= now {
            return Err(TokenError::Expired { at });
        }
        Ok(Granted { until: at, key })
    }
}

/// Returns a token that grants the URL `resource` until `expires_at`, signed with `key` of `rule`.
pub fn sign(resource: &str, rule: &str, expires_at: Timestamp, key: &Secret) -> String {
    let resource = encoded(resource);
    let expiry = (expires_at.as_ms() / 1_000).to_string();
    let signed = signed_text(&resource, &expiry);
    let signature = STANDARD.encode(hmac::sign(&hmac_key(key), signed.as_bytes()));
    let (signature, rule) = (encoded(&signature), encoded(rule));
    format!("SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn={rule}")
}

/// Returns the connection string for the rule `name` with one of its keys. The string has a port, because clients
/// otherwise use Azure's port. Without TLS it has `UseDevelopmentEmulator`, because clients otherwise require TLS.
pub fn connection_string(public_url: &str, name: &str, key: &str) -> String {
    let (scheme, rest) = public_url.split_once("://").unwrap_or(("http", public_url));
    let host = rest.split('/').next().unwrap_or_default();
    let (port, emulator) = match scheme {
        "https" => (":443", ""),
        _ => (":80", "UseDevelopmentEmulator=true;"),
    };
    let given = host.rsplit_once(':').map(|(_, port)| port);
    let has_port = given.is_some_and(|port| !port.ends_with(']'));
    let port = if has_port { "" } else { port };
    format!(
        "Endpoint=sb://{host}{port};SharedAccessKeyName={name};SharedAccessKey={key};{emulator}"
    )
}

fn signed_text(resource: &str, expiry: &str) -> String {
    format!("{resource}\n{expiry}")
}

fn hmac_key(key: &Secret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key.reveal().as_bytes())
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn decoded(text: &str) -> Option<String> {
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with Python's hmac, hashlib, base64 and urllib.parse.
    const KNOWN: &str = "sr=https%3A%2F%2Fhost%2Forders&sig=7MRSmCUByiYakga8%2BwB0azX9E20xD1MmY8KEX%2Bvo7Yk%3D&se=1900000000&skn=RootManageSharedAccessKey";

    fn key() -> Secret {
        Secret::new("c2VjcmV0")
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_ms(seconds * 1_000)
    }

    #[test]
    fn tokens_of_others_verify() {
        let token = SasTokenText::parse(KNOWN).expect("a token");
        assert_eq!(token.rule(), "RootManageSharedAccessKey");
        let keys = [Secret::new("another"), key()];
        let granted = token.verify(&keys, at(1_899_999_999)).expect("valid");
        assert_eq!(token.resource().as_deref(), Some("https://host/orders"));
        let expected = Granted {
            until: at(1_900_000_000),
            key: 1,
        };
        assert_eq!(granted, expected);
    }

    #[test]
    fn tokens_of_our_own_verify_in_any_order() {
        let token = sign("sb://host/a b", "a rule", at(10), &key());
        let token = token
            .strip_prefix("SharedAccessSignature ")
            .expect("a scheme");
        let mut parts: Vec<&str> = token.split('&').collect();
        parts.reverse();
        for text in [token.to_owned(), parts.join("&")] {
            let token = SasTokenText::parse(&text).expect("a token");
            assert_eq!(token.rule(), "a rule");
            assert_eq!(token.resource().as_deref(), Some("sb://host/a b"));
            let granted = Granted {
                until: at(10),
                key: 0,
            };
            assert_eq!(token.verify([&key()], at(9)), Ok(granted));
        }
    }

    #[test]
    fn nothing_else_verifies() {
        let error = |text: &str, key: &Secret, now| {
            let token = SasTokenText::parse(text)?;
            token.verify([key], now).map(|_| ())
        };
        let (right, now) = (key(), at(1));
        let expired = TokenError::Expired {
            at: at(1_900_000_000),
        };
        assert_eq!(error(KNOWN, &right, at(1_900_000_000)), Err(expired));
        let wrong = Err(TokenError::WrongSignature);
        // The bytes that the text stands for in base64 are another key.
        assert_eq!(error(KNOWN, &Secret::new("secret"), now), wrong);
        assert_eq!(error(&KNOWN.replace("orders", "order"), &right, now), wrong);
        assert_eq!(
            error(&KNOWN.replace("1900000000", "1900000001"), &right, now),
            wrong
        );
        for part in ["sr=", "sig=", "se=", "skn="] {
            let without = KNOWN.replace(part, "x=");
            let error = error(&without, &right, now).expect_err("a part is missing");
            assert!(matches!(error, TokenError::Malformed(_)), "{error}");
        }
        // Whatever the key is.
        let never = KNOWN.replace("1900000000", "never");
        let malformed = Err(TokenError::Malformed("its se is not a number of seconds"));
        assert_eq!(error(&never, &Secret::new("another"), now), malformed);
    }

    #[test]
    fn clients_connect_to_the_public_address() {
        let emulator = "SharedAccessKeyName=key1;SharedAccessKey=k=;UseDevelopmentEmulator=true;";
        let tls = "SharedAccessKeyName=key1;SharedAccessKey=k=;";
        for (url, endpoint, rest) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080", emulator),
            ("http://grid.lan", "grid.lan:80", emulator),
            ("https://grid.example/events", "grid.example:443", tls),
            ("https://[2001:db8::7]", "[2001:db8::7]:443", tls),
            ("https://[2001:db8::7]:8443", "[2001:db8::7]:8443", tls),
        ] {
            let expected = format!("Endpoint=sb://{endpoint};{rest}");
            assert_eq!(connection_string(url, "key1", "k="), expected);
        }
    }
}
