//! Tokens as attackers would make them.

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaEncoding,
};
use serde_json::json;

use super::*;

const NOW_S: i64 = 1_800_000_000;

const EXPECTED: Expected<'_> = Expected {
    issuer: "https://id.example",
    client_id: "everpost",
    nonce: "n-1",
    authenticated_since: None,
};

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A provider with an RSA and an EC key.
struct Provider {
    rsa: KeyPair,
    ec: EcdsaKeyPair,
}

impl Provider {
    fn new() -> Self {
        let rsa = KeyPair::generate(KeySize::Rsa2048).expect("a key");
        let ec = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        Self { rsa, ec }
    }

    /// Of the public key in PKCS#1, which holds the exponent behind it.
    fn modulus(&self) -> &[u8] {
        &self.rsa.public_key().as_ref()[9..265]
    }

    fn keys(&self) -> Value {
        let exponent = &self.rsa.public_key().as_ref()[267..];
        let point = self.ec.public_key().as_ref();
        json!({ "keys": [
            { "kty": "oct", "kid": "x", "k": "c2VjcmV0" },
            { "kty": "RSA", "kid": "r", "use": "sig", "n": encode(self.modulus()),
              "e": encode(exponent) },
            { "kty": "EC", "kid": "e", "alg": "ES256", "crv": "P-256", "x": encode(&point[1..33]),
              "y": encode(&point[33..]) },
        ] })
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!(
            "{}.{}",
            encode(header.to_string()),
            encode(claims.to_string())
        );
        let random = SystemRandom::new();
        let rsa = |encoding: &'static dyn RsaEncoding| {
            let mut signature = vec![0; self.rsa.public_modulus_len()];
            let sign = self
                .rsa
                .sign(encoding, &random, signed.as_bytes(), &mut signature);
            sign.expect("signed");
            signature
        };
        let signature = match header["alg"].as_str().expect("an algorithm") {
            "RS256" => rsa(&RSA_PKCS1_SHA256),
            "PS256" => rsa(&RSA_PSS_SHA256),
            "ES256" => {
                let signature = self.ec.sign(&random, signed.as_bytes()).expect("signed");
                signature.as_ref().to_vec()
            }
            // The attack by which a public key is taken for a password.
            "HS256" => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, self.modulus());
                hmac::sign(&key, signed.as_bytes()).as_ref().to_vec()
            }
            _ => Vec::new(),
        };
        format!("{signed}.{}", encode(signature))
    }

    fn verify(&self, token: &str) -> Result<Claims, IdTokenError> {
        let keys = KeySet::read(self.keys().to_string().as_bytes()).expect("keys");
        verify(token, &keys, EXPECTED, Timestamp::from_ms(NOW_S * 1_000))
    }
}

fn header(alg: &str, kid: &str) -> Value {
    json!({ "alg": alg, "kid": kid, "typ": "JWT" })
}

fn claims() -> Value {
    json!({ "iss": "https://id.example", "aud": "everpost", "sub": "u-7", "nonce": "n-1",
        "iat": NOW_S, "exp": NOW_S + 300, "groups": ["ops"], "realm_access": { "roles": ["a", "b"] } })
}

#[test]
fn what_the_provider_signed_is_believed() {
    let provider = Provider::new();
    let no_kid = json!({ "alg": "RS256" });
    for header in [
        header("RS256", "r"),
        header("PS256", "r"),
        header("ES256", "e"),
        no_kid,
    ] {
        let claims = provider.verify(&provider.sign(&header, &claims()));
        let claims = claims.unwrap_or_else(|error| panic!("{header}: {error}"));
        assert_eq!(claims.text("sub"), Some("u-7"));
        assert_eq!(claims.texts("groups"), ["ops"]);
        assert_eq!(claims.texts("realm_access.roles"), ["a", "b"]);
        assert!(claims.texts("realm_access.none").is_empty());
    }
}

#[test]
fn what_is_not_signed_by_the_provider_is_not_believed() {
    let (provider, other) = (Provider::new(), Provider::new());
    let check = |token: String, expected: IdTokenError| {
        assert_eq!(provider.verify(&token), Err(expected), "{token}");
    };
    let algorithm = |name: &str| IdTokenError::Algorithm(name.to_owned());
    check(
        provider.sign(&header("none", "r"), &claims()),
        algorithm("none"),
    );
    check(
        provider.sign(&header("None", "r"), &claims()),
        algorithm("None"),
    );
    check(
        provider.sign(&header("HS256", "r"), &claims()),
        algorithm("HS256"),
    );
    check(
        provider.sign(&header("HS256", "x"), &claims()),
        algorithm("HS256"),
    );
    check(
        other.sign(&header("RS256", "r"), &claims()),
        IdTokenError::Signature,
    );
    check(
        other.sign(&header("ES256", "e"), &claims()),
        IdTokenError::Signature,
    );
    check(
        other.sign(&header("RS256", "z"), &claims()),
        IdTokenError::UnknownKey,
    );
    // A key of the other kind, and one for another algorithm.
    check(
        provider.sign(&header("ES256", "r"), &claims()),
        IdTokenError::Signature,
    );
    check(
        provider.sign(&header("RS256", "e"), &claims()),
        IdTokenError::UnknownKey,
    );
    let critical = json!({ "alg": "RS256", "kid": "r", "crit": ["b64"] });
    check(provider.sign(&critical, &claims()), IdTokenError::Malformed);

    let token = provider.sign(&header("RS256", "r"), &claims());
    let parts: Vec<&str> = token.split('.').collect();
    let mut forged = claims();
    forged["groups"] = json!(["admins"]);
    let forged = encode(forged.to_string());
    check(
        format!("{}.{forged}.{}", parts[0], parts[2]),
        IdTokenError::Signature,
    );
    check(
        format!("{}.{}.", parts[0], parts[1]),
        IdTokenError::Signature,
    );
    check(
        format!("{}.{}", parts[0], parts[1]),
        IdTokenError::Malformed,
    );
    check(String::new(), IdTokenError::Malformed);
}

#[test]
fn a_token_must_be_for_this_sign_in() {
    let provider = Provider::new();
    let verify = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        provider.verify(&provider.sign(&header("RS256", "r"), &claims))
    };
    let issuer = |text: &str| IdTokenError::Issuer(text.to_owned());
    for (name, value, expected) in [
        (
            "iss",
            json!("https://id.example/"),
            issuer("https://id.example/"),
        ),
        ("iss", Value::Null, issuer("")),
        ("aud", json!("other"), IdTokenError::Audience),
        ("aud", json!(["everpost", "other"]), IdTokenError::Audience),
        ("aud", json!([]), IdTokenError::Audience),
        ("azp", json!("other"), IdTokenError::Audience),
        ("exp", json!(NOW_S - 60), IdTokenError::Expired),
        ("exp", Value::Null, IdTokenError::Expired),
        ("iat", json!(NOW_S + 61), IdTokenError::Future),
        ("iat", Value::Null, IdTokenError::Undated),
        ("iat", json!("now"), IdTokenError::Undated),
        ("nbf", json!(NOW_S + 61), IdTokenError::Future),
        ("nonce", json!("n-2"), IdTokenError::Nonce),
        ("nonce", Value::Null, IdTokenError::Nonce),
        ("sub", json!(""), IdTokenError::Subject),
        ("sub", json!("x".repeat(256)), IdTokenError::Subject),
    ] {
        assert_eq!(
            verify(name, value.clone()),
            Err(expected),
            "{name}: {value}"
        );
    }
    for (name, value) in [
        ("exp", json!(NOW_S - 59)),
        ("iat", json!(NOW_S + 60)),
        ("azp", json!("everpost")),
        ("auth_time", json!(0)),
    ] {
        assert!(verify(name, value.clone()).is_ok(), "{name}: {value}");
    }
}

#[test]
fn who_must_sign_in_again_cannot_show_an_old_sign_in() {
    let claims = |told: Option<i64>| {
        let mut claims = claims();
        claims["auth_time"] = json!(told);
        Claims::read(claims.to_string().as_bytes()).expect("claims")
    };
    let expected = Expected {
        authenticated_since: Some(Timestamp::from_ms(NOW_S * 1_000)),
        ..EXPECTED
    };
    assert_eq!(check(&claims(Some(NOW_S)), expected, NOW_S), Ok(()));
    assert_eq!(check(&claims(None), expected, NOW_S), Ok(()));
    let old = check(&claims(Some(NOW_S - 61)), expected, NOW_S);
    assert_eq!(old, Err(IdTokenError::Stale));
}

#[test]
fn only_yes_is_no_denial() {
    for (said, denies) in [
        (json!({}), false),
        (json!({ "email_verified": true }), false),
        (json!({ "email_verified": "true" }), false),
        (json!({ "email_verified": false }), true),
        (json!({ "email_verified": "false" }), true),
        (json!({ "email_verified": "" }), true),
        (json!({ "email_verified": 0 }), true),
        (json!({ "email_verified": 1 }), true),
        (json!({ "email_verified": null }), true),
        (json!({ "email_verified": [true] }), true),
    ] {
        let claims = Claims::read(said.to_string().as_bytes()).expect("claims");
        assert_eq!(claims.denies("email_verified"), denies, "{said}");
    }
}
