//! Validation of ID tokens (OpenID Connect Core 1.0, section 3.1.3.7): signature, audience and times.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::base::Timestamp;

/// Maximum difference between the provider's clock and the server's clock.
const CLOCK_SKEW_S: i64 = 60;

/// Maximum number of keys that are read from a provider. Real providers have two or three.
const KEYS_MAX: usize = 100;

/// Maximum number of groups that are read for a user. Directories put fewer into a token.
const GROUPS_MAX: usize = 1_000;

/// Maximum number of bytes of a subject (section 2).
const SUBJECT_BYTES_MAX: usize = 255;

/// The reason why a token is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdTokenError {
    #[error("it is not a signed token")]
    Malformed,
    #[error("it is signed with {0:?}; RS256, PS256 and ES256 are understood")]
    Algorithm(String),
    #[error("none of the provider's keys is the one that it is signed with")]
    UnknownKey,
    #[error("its signature is wrong")]
    Signature,
    #[error("it is from {0:?}, which is another issuer")]
    Issuer(String),
    #[error("it is for another client")]
    Audience,
    #[error("it has expired; if it was made just now, one of the clocks is wrong")]
    Expired,
    #[error("it does not say when it was made")]
    Undated,
    #[error("it is from the future; one of the clocks is wrong")]
    Future,
    #[error("it belongs to another sign-in")]
    Nonce,
    #[error("it does not say who signed in")]
    Subject,
    #[error("it is not from a sign-in of just now")]
    Stale,
}

/// The values that a token is expected to have.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    /// The earliest sign-in that counts; `None` if any does.
    pub authenticated_since: Option<Timestamp>,
}

/// The usable public keys of a provider.
#[derive(Clone, Debug, Default)]
pub struct KeySet(Vec<SigningKey>);

#[derive(Clone, Debug)]
struct SigningKey {
    id: Option<String>,
    /// The only algorithm that the key may be used with, if the provider names one.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
}

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    kid: Option<String>,
    /// Critical extensions, which a verifier must support. None is supported.
    crit: Option<Value>,
}

#[derive(Clone, Copy)]
enum Algorithm {
    Rsa(&'static RsaParameters),
    Es256,
}

impl Algorithm {
    /// Returns the supported algorithm of this name. `none` is not supported, nor is any algorithm in which a public
    /// key could be misused as a shared secret.
    fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rsa(&RSA_PKCS1_2048_8192_SHA256)),
            "PS256" => Some(Self::Rsa(&RSA_PSS_2048_8192_SHA256)),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }
}

impl KeySet {
    /// Reads a JWK set (RFC 7517); passes over keys of other kinds.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let set: Value = serde_json::from_slice(body).map_err(|_| "it is no JSON")?;
        let keys = set["keys"].as_array().ok_or("it has no keys")?;
        Ok(Self(
            keys.iter()
                .take(KEYS_MAX)
                .filter_map(SigningKey::read)
                .collect(),
        ))
    }

    fn fitting<'a>(&'a self, header: &'a TokenHeader) -> impl Iterator<Item = &'a SigningKey> {
        let is_named = |key: &&SigningKey| header.kid.is_none() || key.id == header.kid;
        let is_for = |key: &&SigningKey| key.algorithm.as_ref().is_none_or(|it| *it == header.alg);
        self.0.iter().filter(is_named).filter(is_for)
    }
}

impl SigningKey {
    fn read(key: &Value) -> Option<Self> {
        let text = |name: &str| key[name].as_str();
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let is_for_signatures = text("use").is_none_or(|it| it == "sig");
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::Rsa {
                n: bytes("n")?,
                e: bytes("e")?,
            },
            // An uncompressed point (SEC 1, section 2.3.3).
            ("EC", Some("P-256")) => Material::P256([vec![4], bytes("x")?, bytes("y")?].concat()),
            _ => return None,
        };
        is_for_signatures.then(|| Self {
            id: text("kid").map(str::to_owned),
            algorithm: text("alg").map(str::to_owned),
            material,
        })
    }

    fn verifies(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        match (algorithm, &self.material) {
            (Algorithm::Rsa(parameters), Material::Rsa { n, e }) => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(parameters, signed, signature).is_ok()
            }
            (Algorithm::Es256, Material::P256(point)) => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(signed, signature).is_ok()
            }
            _ => false,
        }
    }
}

/// The claims of a provider about a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims(Map<String, Value>);

impl Claims {
    /// Reads an object, as from the UserInfo endpoint.
    pub fn read(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok().map(Self)
    }

    /// Reports whether there is a claim of that name.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns a claim that is a text and not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// Returns the texts of a claim that is a list of texts or a single text.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let found = self.get(name);
        let list = found.and_then(Value::as_array).map(Vec::as_slice);
        let all = list.unwrap_or_else(|| found.map_or(&[], std::slice::from_ref));
        let texts = all.iter().filter_map(Value::as_str).map(str::to_owned);
        texts.take(GROUPS_MAX).collect()
    }

    /// Reports whether a claim is present and not true. Some providers write `"true"` instead of `true`.
    pub fn denies(&self, name: &str) -> bool {
        let is_yes = |said: &Value| said.as_bool() == Some(true) || said.as_str() == Some("true");
        self.get(name).is_some_and(|said| !is_yes(said))
    }

    /// Returns the moment at which the user last authenticated, if the provider states it.
    pub fn authenticated_at(&self) -> Option<Timestamp> {
        self.seconds("auth_time")
            .map(|at| Timestamp::from_ms(at.saturating_mul(1_000)))
    }

    /// Adds the claims of `more` that are not there yet.
    pub fn with(mut self, more: Self) -> Self {
        for (name, value) in more.0 {
            self.0.entry(name).or_insert(value);
        }
        self
    }

    /// Returns a claim by its name, or by the path to it: `realm_access.roles`.
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).or_else(|| {
            let (first, rest) = name.split_once('.')?;
            let inner = self.0.get(first)?;
            rest.split('.').try_fold(inner, |at, part| at.get(part))
        })
    }

    /// Returns a time claim in whole seconds. Some providers write fractions.
    fn seconds(&self, name: &str) -> Option<i64> {
        self.0.get(name)?.as_f64().map(|seconds| seconds as i64)
    }
}

/// Verifies a token, and reads it.
pub fn verify(
    token: &str,
    keys: &KeySet,
    expected: Expected<'_>,
    now: Timestamp,
) -> Result<Claims, IdTokenError> {
    let (signed, signature) = token.rsplit_once('.').ok_or(IdTokenError::Malformed)?;
    let (header, claims) = signed.split_once('.').ok_or(IdTokenError::Malformed)?;
    let decode = |part: &str| {
        let decoded = URL_SAFE_NO_PAD.decode(part);
        decoded.map_err(|_| IdTokenError::Malformed)
    };
    let header: TokenHeader = serde_json::from_slice(&decode(header)?)
        .ok()
        .filter(|header: &TokenHeader| header.crit.is_none())
        .ok_or(IdTokenError::Malformed)?;
    let algorithm =
        Algorithm::named(&header.alg).ok_or_else(|| IdTokenError::Algorithm(header.alg.clone()))?;
    let mut fitting = keys.fitting(&header).peekable();
    fitting.peek().ok_or(IdTokenError::UnknownKey)?;
    let signature = decode(signature)?;
    if !fitting.any(|key| key.verifies(algorithm, signed.as_bytes(), &signature)) {
        return Err(IdTokenError::Signature);
    }
    let claims = Claims::read(&decode(claims)?).ok_or(IdTokenError::Malformed)?;
    check(&claims, expected, now.as_ms() / 1_000)?;
    Ok(claims)
}

fn check(claims: &Claims, expected: Expected<'_>, now_s: i64) -> Result<(), IdTokenError> {
    let issuer = claims.text("iss").unwrap_or_default();
    if issuer != expected.issuer {
        return Err(IdTokenError::Issuer(issuer.chars().take(200).collect()));
    }
    let audiences = claims.texts("aud");
    let is_for_us = audiences.iter().any(|it| it == expected.client_id);
    // A token for several audiences names the client that requested it in `azp`.
    let asked = claims.text("azp");
    let is_ours = asked.map_or(audiences.len() == 1, |it| it == expected.client_id);
    if !(is_for_us && is_ours) {
        return Err(IdTokenError::Audience);
    }
    let expires = claims.seconds("exp");
    if expires.is_none_or(|at| at.saturating_add(CLOCK_SKEW_S) <= now_s) {
        return Err(IdTokenError::Expired);
    }
    if claims.seconds("iat").is_none() {
        return Err(IdTokenError::Undated);
    }
    let latest = now_s + CLOCK_SKEW_S;
    let is_future = |name: &str| claims.seconds(name).is_some_and(|at| at > latest);
    if is_future("iat") || is_future("nbf") {
        return Err(IdTokenError::Future);
    }
    if claims.text("nonce") != Some(expected.nonce) {
        return Err(IdTokenError::Nonce);
    }
    let subject = claims.text("sub");
    if subject.is_none_or(|subject| subject.len() > SUBJECT_BYTES_MAX) {
        return Err(IdTokenError::Subject);
    }
    // A token without `auth_time` passes, since the age of its sign-in is unknown.
    let told = claims.seconds("auth_time");
    let since = expected.authenticated_since.map(|at| at.as_ms() / 1_000);
    match told.zip(since) {
        Some((told, since)) if told.saturating_add(CLOCK_SKEW_S) < since => {
            Err(IdTokenError::Stale)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
