//! Shared access signatures: `r=<resource>&e=<expiry>&s=<signature>` (rule 1.2).
//!
//! The signature covers the text before `&s=` exactly as received, since each SDK encodes resource and expiry
//! differently.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::base::Timestamp;
use crate::model::access::{AccessKeys, KeyName, Secret};
use crate::wire::moment;

/// The claims of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SasClaims {
    /// The URL that the token is for, with everything below it; see [`resource_covers`].
    pub resource: String,
    pub expires_at: Timestamp,
    /// The key that the token was signed with.
    pub key: KeyName,
}

/// The reason why a token is rejected, without the token itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SasError {
    /// Answered with 400 (rule 1.2).
    #[error(
        "the shared access signature is invalid: {0}; the valid format is \
         r=<resource>&e=<expiry>&s=<signature>, each URL-encoded"
    )]
    Malformed(&'static str),
    /// Answered with 401, like what follows.
    #[error("the shared access signature is for another resource")]
    WrongResource,
    #[error("the shared access signature expired at {at}")]
    Expired { at: Timestamp },
}

/// Checks a token against both keys of a topic. Returns `None` if the token was signed with neither key. The contents
/// are used only after the signature has been verified. The caller checks that the resource covers the request.
pub fn verify(
    token: &str,
    keys: &AccessKeys,
    now: Timestamp,
) -> Result<Option<SasClaims>, SasError> {
    let parts = SasParts::split(token)?;
    let signature = parts.signature()?;
    let first = is_signed(&keys.key1, parts.signed, &signature);
    let second = is_signed(&keys.key2, parts.signed, &signature);
    let key = match (first, second) {
        (true, _) => KeyName::Key1,
        (false, true) => KeyName::Key2,
        (false, false) => return Ok(None),
    };
    let claims = parts.claims(key)?;
    if claims.expires_at <= now {
        return Err(SasError::Expired {
            at: claims.expires_at,
        });
    }
    Ok(Some(claims))
}

/// Checks the format of a token, for which no key is needed.
pub fn check_form(token: &str) -> Result<(), SasError> {
    SasParts::split(token)?.signature().map(drop)
}

/// Makes a token, signed with `key`, that permits publishing to the URL `resource` until `expires_at`.
pub fn sign(resource: &str, expires_at: Timestamp, key: &Secret) -> String {
    let resource = utf8_percent_encode(resource, NON_ALPHANUMERIC);
    let expiry = expires_at.to_string();
    let expiry = utf8_percent_encode(&expiry, NON_ALPHANUMERIC);
    let signed = format!("r={resource}&e={expiry}");
    let signature = STANDARD.encode(hmac::sign(&hmac_key(key), signed.as_bytes()));
    let signature = utf8_percent_encode(&signature, NON_ALPHANUMERIC);
    format!("{signed}&s={signature}")
}

/// Reports whether a token for `resource` is good for a request to `request_host` (with its port, if any) and
/// `request_path`: the same host, and the same path or one above it. Scheme, query and letter case do not matter, nor
/// does a default port.
pub fn resource_covers(resource: &str, request_host: &str, request_path: &str) -> bool {
    let url = resource.split(['?', '#']).next().unwrap_or("");
    let place = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    same_host(host, request_host) && is_at_or_above(path, request_path)
}

/// A token taken apart, still encoded.
struct SasParts<'a> {
    resource: &'a str,
    expiry: &'a str,
    signature: &'a str,
    /// Everything in front of `&s=`.
    signed: &'a str,
}

impl<'a> SasParts<'a> {
    fn split(token: &'a str) -> Result<Self, SasError> {
        let malformed = |part| move || SasError::Malformed(part);
        let (signed, signature) = token
            .split_once("&s=")
            .ok_or_else(malformed("the part s is missing"))?;
        let (resource, expiry) = signed
            .split_once("&e=")
            .ok_or_else(malformed("the part e is missing"))?;
        let resource = resource
            .strip_prefix("r=")
            .ok_or_else(malformed("it does not start with the part r"))?;
        if [resource, expiry, signature]
            .iter()
            .any(|part| part.contains('&'))
        {
            return Err(SasError::Malformed("it has other parts than r, e and s"));
        }
        Ok(Self {
            resource,
            expiry,
            signature,
            signed,
        })
    }

    /// Decodes the signature. A plus sign is a base64 character here and not an encoded space.
    fn signature(&self) -> Result<Vec<u8>, SasError> {
        let bytes: Vec<u8> = percent_decode_str(self.signature).collect();
        STANDARD
            .decode(bytes)
            .map_err(|_| SasError::Malformed("the part s is not base64"))
    }

    fn claims(&self, key: KeyName) -> Result<SasClaims, SasError> {
        let resource =
            decoded(self.resource).ok_or(SasError::Malformed("the part r is not UTF-8"))?;
        let expires_at = decoded(self.expiry)
            .and_then(|text| moment::expiry(&text))
            .ok_or(SasError::Malformed("the part e is not a date and time"))?;
        Ok(SasClaims {
            resource,
            expires_at,
            key,
        })
    }
}

fn decoded(part: &str) -> Option<String> {
    let spaced = part.replace('+', " ");
    Some(percent_decode_str(&spaced).decode_utf8().ok()?.into_owned())
}

fn is_signed(key: &Secret, signed: &str, signature: &[u8]) -> bool {
    hmac::verify(&hmac_key(key), signed.as_bytes(), signature).is_ok()
}

/// Decodes a topic's access key from base64. A key that is not base64 is used as its own bytes; this server never
/// generates such a key.
fn hmac_key(key: &Secret) -> hmac::Key {
    let bytes = STANDARD
        .decode(key.reveal())
        .unwrap_or_else(|_| key.reveal().as_bytes().to_vec());
    hmac::Key::new(hmac::HMAC_SHA256, &bytes)
}

fn same_host(one: &str, other: &str) -> bool {
    without_default_port(one).eq_ignore_ascii_case(without_default_port(other))
}

fn without_default_port(host: &str) -> &str {
    host.strip_suffix(":443")
        .or_else(|| host.strip_suffix(":80"))
        .unwrap_or(host)
}

fn is_at_or_above(path: &str, request_path: &str) -> bool {
    let path = path.trim_end_matches('/').as_bytes();
    let request_path = request_path.trim_end_matches('/').as_bytes();
    let Some((above, below)) = request_path.split_at_checked(path.len()) else {
        return false;
    };
    // A colon precedes the operation in the path of a namespace topic: `/topics/orders:publish`.
    above.eq_ignore_ascii_case(path) && matches!(below.first(), None | Some(b'/' | b':'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes 0 to 31.
    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const RESOURCE: &str = "http://localhost:8080/topics/orders/api/events";

    fn keys(key1: &str, key2: &str) -> AccessKeys {
        AccessKeys {
            key1: Secret::new(key1),
            key2: Secret::new(key2),
        }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("RFC 3339")
    }

    #[test]
    fn tokens_of_all_sdks_verify() {
        for (producer, expires_at, token) in [
            (
                "Python SDK",
                "2030-01-01T00:00:00Z",
                "r=http%3A%2F%2Flocalhost%3A8080%2Ftopics%2Forders%2Fapi%2Fevents\
                 %3FapiVersion%3D2018-01-01&e=2030-01-01%2000%3A00%3A00%2B00%3A00\
                 &s=z1TLfu7j5vUAxFlwdT6zNfH%2BE1ixAt2c07ZarxRHmcc%3D",
            ),
            (
                "Python SDK, fraction",
                "2030-01-01T00:00:00.123Z",
                "r=http%3A%2F%2Flocalhost%3A8080%2Ftopics%2Forders%2Fapi%2Fevents\
                 %3FapiVersion%3D2018-01-01&e=2030-01-01%2000%3A00%3A00.123456\
                 &s=v0i12kEKrGQN6%2F18M5M%2FmaF%2BI4XORyKK4HZStUW8Gf4%3D",
            ),
            (
                "JavaScript SDK",
                "2030-01-02T03:04:05Z",
                "r=http%3A%2F%2Flocalhost%3A8080%2Ftopics%2Forders%2Fapi%2Fevents\
                 %3FapiVersion%3D2018-01-01&e=1%2F2%2F2030%203%3A04%3A05%20AM\
                 &s=bn8IKjPra7gude30fgmzu7OQApTiTDSCfLIjcUf9DXs%3D",
            ),
            (
                ".NET SDK",
                "2030-01-01T00:00:00Z",
                "r=http%3a%2f%2flocalhost%3a8080%2ftopics%2forders%2fapi%2fevents\
                 %3fapi-version%3d2018-01-01&e=1%2f1%2f2030+12%3a00%3a00+AM+%2b00%3a00\
                 &s=Jv5J1akkHQF1frS1JTOINqjufztJE826zws3ljDoo24%3d",
            ),
            (
                "documented C#",
                "2030-06-15T18:20:15Z",
                "r=http%3a%2f%2flocalhost%3a8080%2ftopics%2forders%2fapi%2fevents\
                 &e=6%2f15%2f2030+6%3a20%3a15+PM\
                 &s=YMVnG4l4IZuzlPPWJVKQjZBgfa9lEwbZgy1NNwUpBbI%3d",
            ),
            (
                "documented Python",
                "2030-01-01T00:00:00.123Z",
                "r=http%3A%2F%2Flocalhost%3A8080%2Ftopics%2Forders%2Fapi%2Fevents\
                 &e=2030-01-01T00%3A00%3A00.123456\
                 &s=7IhtIR%2B%2FV5lVTFViTOrtmlR4PzFoWjgpSAixIec54Qg%3D",
            ),
        ] {
            let now = at("2029-12-31T23:59:59Z");
            for keys in [keys(KEY, "b3RoZXI="), keys("b3RoZXI=", KEY)] {
                let claims = verify(token, &keys, now).expect(producer).expect(producer);
                assert_eq!(claims.expires_at, at(expires_at), "{producer}");
                let covers = resource_covers(
                    &claims.resource,
                    "localhost:8080",
                    "/topics/orders/api/events",
                );
                assert!(covers, "{producer}: {}", claims.resource);
            }
        }
    }

    #[test]
    fn a_signature_that_is_not_fully_encoded_verifies() {
        let token = "r=http%3A%2F%2Flocalhost%3A8080%2Ftopics%2Forders%2Fapi%2Fevents\
                     &e=2030-01-01T00%3A00%3A00.123456\
                     &s=7IhtIR+/V5lVTFViTOrtmlR4PzFoWjgpSAixIec54Qg=";
        assert!(matches!(
            verify(token, &keys(KEY, KEY), Timestamp::default()),
            Ok(Some(_))
        ));
    }

    #[test]
    fn other_texts_are_malformed() {
        let signature = "7IhtIR%2B%2FV5lVTFViTOrtmlR4PzFoWjgpSAixIec54Qg%3D";
        for (token, problem) in [
            (String::new(), "the part s is missing"),
            (KEY.to_owned(), "the part s is missing"),
            (format!("r=x&s={signature}"), "the part e is missing"),
            (format!("e=x&r=x&s={signature}"), "the part e is missing"),
            (
                format!("x=1&r=x&e=x&s={signature}"),
                "it does not start with the part r",
            ),
            (
                format!("r=x&e=x&s={signature}&skn=1"),
                "it has other parts than r, e and s",
            ),
            ("r=x&e=x&s=%21".to_owned(), "the part s is not base64"),
        ] {
            let error = verify(&token, &keys(KEY, KEY), Timestamp::default());
            assert_eq!(error, Err(SasError::Malformed(problem)), "{token}");
        }
    }

    #[test]
    fn a_signed_text_with_no_moment_is_malformed() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(KEY).expect("base64"));
        let signature = STANDARD.encode(hmac::sign(&key, b"r=x&e=soon"));
        let token = format!("r=x&e=soon&s={signature}");
        assert_eq!(
            verify(&token, &keys(KEY, KEY), Timestamp::default()),
            Err(SasError::Malformed("the part e is not a date and time"))
        );
    }

    #[test]
    fn wrong_keys_and_past_expiries_are_rejected() {
        let expires_at = at("2030-01-01T00:00:00Z");
        let token = sign(RESOURCE, expires_at, &Secret::new(KEY));
        let before = at("2029-12-31T23:59:59.999Z");
        let right = keys(KEY, "b3RoZXI=");
        assert!(matches!(verify(&token, &right, before), Ok(Some(_))));
        assert_eq!(
            verify(&token, &keys("b3RoZXI=", "b3RoZXIy"), before),
            Ok(None)
        );
        assert_eq!(
            verify(&token, &keys(KEY, KEY), expires_at),
            Err(SasError::Expired { at: expires_at })
        );
    }

    #[test]
    fn resources_cover_what_lies_below_them() {
        let path = "/topics/orders/api/events";
        for (resource, host, path, covered) in [
            (RESOURCE, "localhost:8080", path, true),
            (
                "HTTPS://LOCALHOST:8080/Topics/ORDERS/api/events",
                "localhost:8080",
                path,
                true,
            ),
            (
                "http://localhost:8080/topics/orders/api/events/",
                "localhost:8080",
                path,
                true,
            ),
            (
                "http://localhost:8080/topics/orders",
                "localhost:8080",
                path,
                true,
            ),
            ("http://localhost:8080/", "localhost:8080", path, true),
            ("http://localhost:8080", "localhost:8080", path, true),
            (
                "localhost:8080/topics/orders?x=http://other",
                "localhost:8080",
                path,
                true,
            ),
            ("http://localhost:8080?x=/a", "localhost:8080", path, true),
            (
                "https://orders.example:443/api/events",
                "orders.example",
                "/api/events",
                true,
            ),
            (
                "https://orders.example/api/events",
                "Orders.Example:443",
                "/api/events/",
                true,
            ),
            (
                "http://localhost:8080/topics/orders",
                "localhost:8080",
                "/topics/orders2",
                false,
            ),
            (
                "http://localhost:8080/topics/orders/api/events/x",
                "localhost:8080",
                path,
                false,
            ),
            (
                "http://localhost:8081/topics/orders",
                "localhost:8080",
                path,
                false,
            ),
            (
                "http://evil.localhost:8080/topics",
                "localhost:8080",
                path,
                false,
            ),
            ("http://localhost/topics", "localhost:8080", path, false),
            ("/topics/orders", "localhost:8080", path, false),
            ("", "localhost:8080", path, false),
        ] {
            assert_eq!(
                resource_covers(resource, host, path),
                covered,
                "{resource} {host} {path}"
            );
        }
    }

    fn flipped(text: &str, bit: usize) -> Option<String> {
        let mut bytes = text.as_bytes().to_vec();
        let bit = bit % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        String::from_utf8(bytes).ok()
    }

    proptest! {
        #[test]
        fn what_is_signed_verifies_and_any_changed_bit_does_not(
            resource in "\\PC{0,40}",
            key_bytes in any::<[u8; 32]>(),
            bit in any::<usize>(),
        ) {
            let key = STANDARD.encode(key_bytes);
            let keys = keys(&key, "b3RoZXI=");
            let now = Timestamp::default();
            let expires_at = at("2030-01-01T00:00:00Z");
            let token = sign(&resource, expires_at, &keys.key1);
            prop_assert_eq!(
                verify(&token, &keys, now),
                Ok(Some(SasClaims { resource, expires_at, key: KeyName::Key1 }))
            );

            let (signed, signature) = token.split_once("&s=").expect("a token");
            let signature = percent_decode_str(signature).decode_utf8().expect("base64");
            let changed = [
                flipped(signed, bit).map(|signed| format!("{signed}&s={signature}")),
                flipped(&signature, bit).map(|signature| format!("{signed}&s={signature}")),
            ];
            for token in changed.into_iter().flatten() {
                prop_assert!(!matches!(verify(&token, &keys, now), Ok(Some(_))), "{}", token);
            }
        }
    }
}
