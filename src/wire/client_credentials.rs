//! Access token requests of the OAuth 2.0 client credentials grant (RFC 6749, section 4.4), and the responses to them.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use url::form_urlencoded;
use zeroize::Zeroizing;

use crate::model::access::Secret;
use crate::model::credentials::{ClientCredentials, SecretPlace};

/// Maximum length of an authorization server's error code. A longer one is not shown at all.
const ERROR_CODE_MAX: usize = 60;

/// A token and how long it lives, if the server says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessToken {
    pub token: Secret,
    pub life: Option<Duration>,
}

/// Returns the body of the access token request, in the encoding of forms (`application/x-www-form-urlencoded`).
pub fn form(client: &ClientCredentials) -> Zeroizing<String> {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    let optional = [("scope", &client.scope), ("audience", &client.audience)];
    for (name, value) in optional {
        if let Some(value) = value {
            form.append_pair(name, value);
        }
    }
    if client.sent_in == SecretPlace::Body {
        form.append_pair("client_id", &client.client_id);
        form.append_pair("client_secret", client.client_secret.reveal());
    }
    Zeroizing::new(form.finish())
}

/// Returns the value of the header `Authorization`, if the client's secret is sent in it. The id and the secret of the
/// client are encoded as in a form first (RFC 6749, section 2.3.1).
pub fn authorization(client: &ClientCredentials) -> Option<Secret> {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    (client.sent_in == SecretPlace::Header).then(|| {
        basic(
            &encoded(&client.client_id),
            &encoded(client.client_secret.reveal()),
        )
    })
}

/// The value of `Authorization` with a user name and a password (RFC 7617).
pub fn basic(username: &str, password: &str) -> Secret {
    let pair = Zeroizing::new(format!("{username}:{password}"));
    Secret::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())))
}

/// The value of `Authorization` with a token (RFC 6750).
pub fn bearer(token: &Secret) -> Secret {
    Secret::new(format!("Bearer {}", token.reveal()))
}

/// Reports whether a text can be sent as a bearer token in a header: it is not empty, and is visible ASCII only.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: Option<String>,
    token_type: Option<String>,
    /// Some servers write it as a string.
    expires_in: Option<serde_json::Value>,
    error: Option<String>,
}

/// Reads the authorization server's response to an access token request. The error says what is wrong with the
/// response, without any secret.
pub fn read(status: u16, body: &[u8]) -> Result<AccessToken, String> {
    let read: Option<TokenResponse> = serde_json::from_slice(body).ok();
    if status != 200 {
        let code = read
            .and_then(|answer| answer.error)
            .filter(|code| is_code(code))
            .map_or_else(String::new, |code| format!(" ({code})"));
        return Err(format!("the authorization server answered {status}{code}"));
    }
    let answer = read.ok_or("the authorization server answered 200, but no JSON object")?;
    let token = answer
        .access_token
        .filter(|token| is_token(token))
        .ok_or("the authorization server answered 200, but without access_token")?;
    // RFC 6749, section 5.1, requires `token_type`. A response without it is taken to mean a bearer token.
    let is_bearer = |kind: &String| kind.eq_ignore_ascii_case("bearer");
    if !answer.token_type.as_ref().is_none_or(is_bearer) {
        return Err("the authorization server's token is no bearer token".to_owned());
    }
    let life = answer.expires_in.as_ref().and_then(whole_seconds);
    Ok(AccessToken {
        token: Secret::new(token),
        life,
    })
}

fn whole_seconds(value: &serde_json::Value) -> Option<Duration> {
    let seconds = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    Some(Duration::from_secs(seconds))
}

/// Reports whether a text has the form of an error code of RFC 6749, such as `invalid_client`. Any other text could
/// hold anything, even a secret.
fn is_code(code: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    code.len() <= ERROR_CODE_MAX && code.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::destination::EndpointUrl;

    fn client(sent_in: SecretPlace) -> ClientCredentials {
        ClientCredentials {
            token_url: EndpointUrl::parse("https://login.test/token").expect("a URL"),
            client_id: "a b".to_owned(),
            client_secret: Secret::new("p+q:r"),
            scope: Some("x y".to_owned()),
            audience: None,
            sent_in,
        }
    }

    #[test]
    fn secrets_go_into_the_header_or_the_body() {
        let client_in = client(SecretPlace::Header);
        assert_eq!(*form(&client_in), "grant_type=client_credentials&scope=x+y");
        // printf 'a+b:p%%2Bq%%3Ar' | base64
        let header = authorization(&client_in).expect("a header");
        assert_eq!(header.reveal(), "Basic YStiOnAlMkJxJTNBcg==");
        let client_in = client(SecretPlace::Body);
        assert_eq!(
            *form(&client_in),
            "grant_type=client_credentials&scope=x+y&client_id=a+b&client_secret=p%2Bq%3Ar"
        );
        assert!(authorization(&client_in).is_none());
    }

    #[test]
    fn answers_are_told_apart() {
        let check = |status: u16, body: &str, expected: Result<(&str, Option<u64>), &str>| {
            let read = read(status, body.as_bytes());
            let read = read.map(|grant| (grant.token, grant.life.map(|life| life.as_secs())));
            let expected = expected.map(|(token, life)| (Secret::new(token), life));
            assert_eq!(read, expected.map_err(str::to_owned), "{body}");
        };
        let token = r#"{"access_token": "t", "token_type": "Bearer", "expires_in": 60}"#;
        check(200, token, Ok(("t", Some(60))));
        let written = r#"{"access_token": "t", "expires_in": "60"}"#;
        check(200, written, Ok(("t", Some(60))));
        check(200, r#"{"access_token": "t"}"#, Ok(("t", None)));
        let nothing = "the authorization server answered 200, but without access_token";
        check(200, "{}", Err(nothing));
        check(200, r#"{"access_token": "a\nb"}"#, Err(nothing));
        let no_json = "the authorization server answered 200, but no JSON object";
        check(200, "<html>", Err(no_json));
        let mac = r#"{"access_token": "t", "token_type": "mac"}"#;
        check(
            200,
            mac,
            Err("the authorization server's token is no bearer token"),
        );
        let rejected = r#"{"error": "invalid_client", "error_description": "secret s3"}"#;
        let said = "the authorization server answered 401 (invalid_client)";
        check(401, rejected, Err(said));
        let odd = r#"{"error": "your secret is s3"}"#;
        check(400, odd, Err("the authorization server answered 400"));
        check(302, token, Err("the authorization server answered 302"));
    }
}
