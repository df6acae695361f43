//! Credentials of webhooks: extensions.

use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use serde_json::json;

use super::*;
use crate::model::credentials::{Authentication, Credentials};
use crate::model::destination::Destination;
use crate::model::limits::SIGNING_GRACE;

const SECRET: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn check_webhook(changes: &str, expected: &str) {
    let expected = inside("properties.destination.properties", expected);
    check(changes, parse(&webhook(changes)).map(show), &expected);
}

fn authentication(fields: &str) -> String {
    format!("{{'authentication': {fields}}}")
}

#[test]
fn kinds_of_authentication_are_read_and_shown_without_their_secrets() {
    let table = "
        {'type': 'Basic', 'username': 'ada', 'password': 'p'}     => /username = 'ada'
        {'type': 'basic', 'username': 'ada', 'password': 'p'}     => /type = 'Basic'
        {'type': 'Basic', 'username': 'ada', 'password': 'p'}     => /password = null
        {'type': 'Bearer', 'token': 't'}                          => /type = 'Bearer'
        {'type': 'Bearer', 'token': 't'}                          => /token = null
        {'type': 'ClientCredentials', 'tokenUrl': 'https://login.test/t?p=1', 'clientId': 'c', 'clientSecret': 's'} => /tokenUrl = 'https://login.test/t'
        {'type': 'ClientCredentials', 'tokenUrl': 'https://login.test/t', 'clientId': 'c', 'clientSecret': 's'} => /clientSecret = null
        {'type': 'ClientCredentials', 'tokenUrl': 'https://login.test/t', 'clientId': 'c', 'clientSecret': 's'} => /sentIn = null
        {'type': 'ClientCredentials', 'tokenUrl': 'https://login.test/t', 'clientId': 'c', 'clientSecret': 's', 'sentIn': 'body'} => /sentIn = 'Body'
        {'type': 'ClientCredentials', 'tokenUrl': 'https://login.test/t', 'clientId': 'c', 'clientSecret': 's', 'scope': 'x y'} => /scope = 'x y'

        'Basic'                                                   => ! : it must be an object
        {}                                                        => ! type: it is missing
        {'type': 'Digest'}                                        => ! type: \"ClientCredentials\"
        {'type': 'Basic', 'password': 'p'}                        => ! username: it is missing
        {'type': 'Basic', 'username': 'ada'}                      => ! password: it is missing
        {'type': 'Basic', 'username': 'ada', 'password': ''}      => ! password: it is empty
        {'type': 'Basic', 'username': 'a:b', 'password': 'p'}     => ! username: a colon
        {'type': 'Basic', 'username': 'ada', 'password': 'a\\nb'} => ! password: control characters
        {'type': 'Basic', 'user': 'ada', 'pasword': 'p'}          => ! pasword: \"password\"
        {'type': 'Bearer'}                                        => ! token: it is missing
        {'type': 'Bearer', 'token': 'a b'}                        => ! token: visible ASCII
        {'type': 'ClientCredentials', 'clientId': 'c', 'clientSecret': 's'} => ! tokenUrl: it is missing
        {'type': 'ClientCredentials', 'tokenUrl': 'login', 'clientId': 'c', 'clientSecret': 's'} => ! tokenUrl: not an absolute URL
        {'type': 'ClientCredentials', 'tokenUrl': 'http://login.test/', 'clientId': 'c', 'clientSecret': 's'} => ! tokenUrl: does not start with https
        {'type': 'ClientCredentials', 'tokenUrl': 'https://login.test/', 'clientSecret': 's'} => ! clientId: it is missing
        {'type': 'ClientCredentials', 'tokenUrl': 'https://login.test/', 'clientId': 'c'} => ! clientSecret: it is missing
        {'type': 'ClientCredentials', 'tokenUrl': 'https://login.test/', 'clientId': 'c', 'clientSecret': 's', 'sentIn': 'x'} => ! sentIn: \"Header\" or \"Body\"
    ";
    each_line(table, |fields, expected| {
        let expected = match expected.strip_prefix("! ") {
            Some(rejected) => format!("! authentication.{rejected}").replace(".: ", ": "),
            None => format!("/authentication{expected}"),
        };
        check_webhook(&authentication(fields), &expected);
    });
    check_webhook("{}", "/authentication = null");
    let twice = "{'authentication': {'type': 'Bearer', 'token': 't'}, 'deliveryAttributeMappings':
        [{'name': 'authorization', 'type': 'Static', 'properties': {'value': 'x'}}]}";
    check_webhook(twice, "! authentication: leave one of the two out");
}

/// A certificate and its key in PEM.
fn identity() -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let parameters = CertificateParams::new(["client.test".to_owned()]).expect("parameters");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    (certificate.pem(), key.serialize_pem())
}

fn check_tls(changes: &Value, expected: &str) {
    check_webhook(&changes.to_string(), expected);
}

#[test]
fn certificates_and_keys_are_checked() {
    let (certificate, key) = identity();
    let (other, other_key) = identity();
    let of = |certificate: &str, key: &str| json!({"clientCertificate": {"certificate": certificate, "key": key}});
    let place = |name: &str, problem: &str| format!("! clientCertificate.{name}: {problem}");
    check_tls(&of(&certificate, &key), "/clientCertificate/key = null");
    let shown = format!("/clientCertificate/certificate = {}", json!(certificate));
    check_tls(&of(&certificate, &key), &shown);
    let chain = format!("{certificate}{other}");
    check_tls(&of(&chain, &key), "/clientCertificate/key = null");
    check_tls(&of(&chain, &other_key), &place("key", "does not belong"));
    check_tls(&of(&key, &key), &place("certificate", "no certificate"));
    check_tls(&of("x", &key), &place("certificate", "no certificate"));
    let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    check_tls(&of(empty, &key), &place("certificate", "cannot be read"));
    let cut = &certificate[..certificate.len() - 30];
    check_tls(&of(cut, &key), &place("certificate", "no valid PEM"));
    check_tls(&of(&certificate, &other), &place("key", "no private key"));
    let locked = key.replace("PRIVATE", "ENCRYPTED PRIVATE");
    check_tls(
        &of(&certificate, &locked),
        &place("key", "without a password"),
    );
    let without = json!({"clientCertificate": {"certificate": certificate}});
    check_tls(&without, &place("key", "it is missing"));

    let authorities = |text: &str| json!({ "certificateAuthorities": text });
    let shown = format!("/certificateAuthorities = {}", json!(chain));
    check_tls(&authorities(&chain), &shown);
    check_tls(
        &authorities("x"),
        "! certificateAuthorities: no certificate",
    );
    let bundle = format!("{certificate}{empty}");
    check_tls(
        &authorities(&bundle),
        "! certificateAuthorities: certificate 2",
    );
    let long = certificate.repeat(200);
    check_tls(
        &authorities(&long),
        "! certificateAuthorities: at most 65536",
    );
}

#[test]
fn tls_material_needs_https() {
    let (certificate, key) = identity();
    let certificate_of = json!({"certificate": certificate, "key": key});
    for (name, value) in [
        ("clientCertificate", certificate_of),
        ("certificateAuthorities", json!(certificate)),
    ] {
        let body = webhook(&json!({"endpointUrl": "http://shop.test/", name: value}).to_string());
        let context = SubscriptionContext {
            require_https: false,
            ..context(&InputSchema::EventGridSchema)
        };
        let invalid = parse_subscription(&body, &context).expect_err("it is http");
        assert!(invalid.first().path.ends_with(name), "{invalid}");
        assert!(invalid.first().problem.contains("https"), "{invalid}");
    }
}

#[test]
fn signing_secrets_are_shown_by_their_fingerprints() {
    let of = |secrets: &str| format!("{{'signingSecrets': {secrets}}}");
    let one = of(&format!("[{{'secret': '{SECRET}'}}]"));
    // printf whsec_AAA… | sha256sum | cut -c-16
    check_webhook(&one, "/signingSecrets/0/fingerprint = 'd3a8bab513ad3e03'");
    check_webhook(&one, "/signingSecrets/0/secret = null");
    check_webhook(&one, "/signingSecrets/0/expiresAt = null");
    check_webhook(
        &one,
        "/signingSecrets/0/createdAt = '2026-11-21T06:40:53.000Z'",
    );
    check_webhook(&of("[]"), "/signingSecrets = null");
    check_webhook(&of("['x']"), "! signingSecrets[0]: it must be an object");
    check_webhook(&of("[{}]"), "! signingSecrets[0].secret: it is missing");
    check_webhook(
        &of("[{'secret': 'whsec_AAAA'}]"),
        "! signingSecrets[0].secret: 24 to 64 bytes",
    );
    check_webhook(
        &of("[{'fingerprint': 'ab'}]"),
        "! signingSecrets[0].fingerprint: no secret in use has it",
    );
    let each = format!("{{'secret': '{SECRET}'}}");
    let many = vec![each; 6].join(",");
    check_webhook(&of(&format!("[{many}]")), "! signingSecrets: at most 5");
}

/// Credentials after `changes` to a webhook that has all kinds of them; by PATCH, then by PUT.
fn changed(changes: &Value) -> [Result<Credentials, InvalidResource>; 2] {
    let basic = json!({"type": "Basic", "username": "ada", "password": "old"});
    changed_from(&basic, changes)
}

/// The same, with this `authentication` before.
fn changed_from(
    authentication: &Value,
    changes: &Value,
) -> [Result<Credentials, InvalidResource>; 2] {
    let (certificate, key) = (certificate(), key());
    let first = json!({
        "authentication": authentication,
        "clientCertificate": {"certificate": certificate, "key": key},
        "signingSecrets": [{"secret": SECRET}],
    });
    let current = parse(&webhook(&first.to_string())).expect("a valid body");
    let properties =
        json!({ "destination": webhook(&changes.to_string())["properties"]["destination"] });
    let context = SubscriptionContext {
        replaces: Some(&current),
        ..context(&InputSchema::EventGridSchema)
    };
    let put = parse_subscription(&json!({ "properties": properties }), &context);
    let credentials = |definition: SubscriptionDefinition| {
        let Destination::WebHook(webhook) = definition.destination else {
            panic!("a webhook");
        };
        webhook.credentials
    };
    [
        patch(&current, &properties.to_string()).map(credentials),
        put.map(credentials),
    ]
}

fn certificate() -> String {
    identity_once().0.clone()
}

fn key() -> String {
    identity_once().1.clone()
}

fn identity_once() -> &'static (String, String) {
    static IDENTITY: std::sync::OnceLock<(String, String)> = std::sync::OnceLock::new();
    IDENTITY.get_or_init(identity)
}

#[test]
fn secrets_that_are_not_given_again_are_kept_with_what_they_belong_to() {
    let password = |credentials: Credentials| match credentials.authentication {
        Some(Authentication::Basic { password, .. }) => password.reveal().to_owned(),
        other => format!("{other:?}"),
    };
    let basic = |user: &str, password: Value| json!({"authentication": {"type": "Basic", "username": user, "password": password}});
    for (changes, expected) in [
        (basic("ada", Value::Null), "old"),
        (basic("ada", json!("new")), "new"),
        (basic("bob", Value::Null), "password: it is missing"),
        (
            json!({"authentication": {"type": "Bearer"}}),
            "token: it is missing",
        ),
        (json!({"authentication": null}), "None"),
    ] {
        for found in changed(&changes) {
            let found = found.map_or_else(|invalid| invalid.to_string(), password);
            assert!(found.contains(expected), "{changes}: {found}");
        }
    }
    let [patched, put] = changed(&json!({})).map(|found| found.map(password));
    assert_eq!(
        (patched.as_deref(), put.as_deref()),
        (Ok("old"), Ok("None"))
    );
    let kept = json!({"clientCertificate": {"certificate": certificate(), "key": null}});
    for credentials in changed(&kept) {
        let tls = credentials.expect("the key is kept").tls.expect("TLS");
        let certificate = tls.client_certificate.as_ref().expect("a certificate");
        assert_eq!(certificate.key.reveal(), key());
    }
    let other = json!({"clientCertificate": {"certificate": identity().0}});
    for rejected in changed(&other) {
        let target = rejected
            .expect_err("the key is another")
            .first()
            .path
            .clone();
        assert!(target.ends_with("clientCertificate.key"), "{target}");
    }
}

#[test]
fn the_query_of_a_token_url_is_a_secret() {
    let client = |url: &str, secret: Value| json!({"type": "ClientCredentials", "tokenUrl": url, "clientId": "c", "clientSecret": secret});
    let before = client("https://login.test/t?key=s3", json!("old"));
    for (url, expected) in [
        ("https://login.test/t", Ok("https://login.test/t?key=s3")),
        (
            "HTTPS://login.test:443/t",
            Ok("https://login.test/t?key=s3"),
        ),
        (
            "https://login.test/t?key=s4",
            Err("clientSecret: it is missing"),
        ),
        ("https://login.test/u", Err("clientSecret: it is missing")),
    ] {
        let changes = json!({ "authentication": client(url, Value::Null) });
        for found in changed_from(&before, &changes) {
            match (found, expected) {
                (Ok(credentials), Ok(expected)) => {
                    let Some(Authentication::ClientCredentials(client)) =
                        credentials.authentication
                    else {
                        panic!("{url}: no client");
                    };
                    assert_eq!(client.token_url.reveal().as_str(), expected, "{url}");
                    assert_eq!(client.client_secret.reveal(), "old", "{url}");
                }
                (Err(invalid), Err(expected)) => {
                    let said = invalid.to_string();
                    assert!(said.contains(expected) && !said.contains("s4"), "{said}");
                }
                (found, _) => panic!("{url}: {found:?}"),
            }
        }
    }
}

#[test]
fn signing_secrets_stay_until_they_are_taken_out() {
    let count = |changes: Value| {
        let both = changed(&changes);
        both.map(|each| each.map(|each| each.signing.0.len()))
    };
    assert_eq!(count(json!({})), [Ok(1), Ok(1)]);
    assert_eq!(count(json!({"signingSecrets": null})), [Ok(1), Ok(1)]);
    assert_eq!(count(json!({"signingSecrets": []})), [Ok(0), Ok(0)]);
    // What an answer shows can be sent back.
    let shown = show(
        parse(&webhook(
            &json!({"signingSecrets": [{"secret": SECRET}]}).to_string(),
        ))
        .expect("valid"),
    );
    let shown = &shown["properties"]["destination"]["properties"]["signingSecrets"];
    assert_eq!(count(json!({ "signingSecrets": shown })), [Ok(1), Ok(1)]);
}

#[test]
fn rotations_are_read() {
    let check = |body: &str, expected: Result<(bool, Duration), &str>| {
        let found = parse_rotation(&read(body));
        let found = found.map(|rotation| (rotation.secret.is_some(), rotation.grace));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{body}"),
            (Err(invalid), Err(expected)) => {
                assert!(invalid.to_string().contains(expected), "{invalid}");
            }
            (found, _) => panic!("{body}: {found:?}"),
        }
    };
    check("{}", Ok((false, SIGNING_GRACE)));
    check("{'gracePeriod': 'PT0S'}", Ok((false, Duration::ZERO)));
    check(
        &format!("{{'secret': '{SECRET}', 'gracePeriod': 'P30D'}}"),
        Ok((true, Duration::from_secs(30 * 86_400))),
    );
    check(
        "{'gracePeriod': 'P31D'}",
        Err("gracePeriod: it must be P30D at most"),
    );
    check(
        "{'gracePeriod': '1h'}",
        Err("gracePeriod: \"1h\" is no duration"),
    );
    check("{'secret': 'x'}", Err("secret: it must be \"whsec_\""));
    check("{'gracePerod': 'PT1H'}", Err("gracePerod"));
    check("[]", Err("an object"));
}

#[test]
fn no_answer_and_no_error_shows_a_credential() {
    let (certificate, key) = identity();
    let key_line = key.lines().nth(1).expect("a line").to_owned();
    for authentication in [
        json!({"type": "Basic", "username": "ada", "password": "canary"}),
        json!({"type": "Bearer", "token": "canary"}),
        json!({"type": "ClientCredentials", "tokenUrl": "https://a/", "clientId": "c",
            "clientSecret": "canary"}),
    ] {
        let body = webhook(
            &json!({
                "authentication": authentication,
                "clientCertificate": {"certificate": certificate, "key": key},
                "signingSecrets": [{"secret": SECRET}],
            })
            .to_string(),
        );
        let definition = parse(&body).expect("a valid body");
        let text = format!("{} {definition:?}", show(definition.clone()));
        for secret in ["canary", &key_line, &SECRET[6..]] {
            assert!(!text.contains(secret), "{secret}: {text}");
            assert!(subscription_to_text(&definition).contains(secret) || secret != "canary");
        }
    }
    for changes in [
        "{'authentication': {'type': 'Bearer', 'token': 'canary x'}}",
        "{'authentication': {'type': 'Bearer', 'token': ['canary']}}",
        "{'authentication': {'type': 'Basic', 'username': 'a', 'password': 'canary\\n'}}",
        "{'clientCertificate': {'certificate': 'x', 'key': 'canary'}}",
        "{'signingSecrets': [{'secret': 'canary'}]}",
        "{'signingSecrets': ['canary']}",
    ] {
        let invalid = parse(&webhook(changes)).expect_err(changes);
        let text = format!("{invalid} {invalid:?}");
        assert!(!text.contains("canary"), "{text}");
    }
}
