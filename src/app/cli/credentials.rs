//! Flags that set how requests to a webhook are authenticated. Secrets are read from files or standard input, since
//! every process of the machine can read a command line.

use std::path::Path;

use clap::{ArgGroup, Args};
use serde_json::{Map, Value, json};

use crate::app::cli::filter::name_and_value;
use crate::app::cli::request::given;
use crate::app::files;
use crate::model::access::Secret;
use crate::model::limits::PEM_BYTES_MAX;

/// Credentials; what is not given stays as it is.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "credentials", multiple = true)]
#[command(next_help_heading = "Authentication")]
#[command(group = ArgGroup::new("authentication").args(["basic_user", "bearer_token", "token_url", "no_authentication"]))]
pub(super) struct CredentialArgs {
    /// Name of a user, for basic authentication
    #[arg(long, value_name = "NAME", requires = "password")]
    basic_user: Option<String>,
    /// File with the user's password; - for standard input, as with every file of a secret
    #[arg(long = "password-file", value_name = "FILE", value_parser = secret_line, requires = "basic_user")]
    password: Option<Secret>,
    /// File with a bearer token
    #[arg(long = "bearer-token-file", value_name = "FILE", value_parser = secret_line)]
    bearer_token: Option<Secret>,
    /// Token URL of an authorization server, for client credentials (OAuth 2.0)
    #[arg(long, value_name = "URL", requires_all = ["client_id", "client_secret"])]
    token_url: Option<String>,
    /// Id of the client
    #[arg(long, value_name = "ID", requires = "token_url")]
    client_id: Option<String>,
    /// File with the client's secret
    #[arg(long = "client-secret-file", value_name = "FILE", value_parser = secret_line, requires = "token_url")]
    client_secret: Option<Secret>,
    /// Scope to ask the token for
    #[arg(long, value_name = "SCOPE", requires = "token_url")]
    scope: Option<String>,
    /// Audience to ask the token for
    #[arg(long, value_name = "AUDIENCE", requires = "token_url")]
    audience: Option<String>,
    /// Send the client's secret in the body instead of a header
    #[arg(long, requires = "token_url")]
    client_secret_in_body: bool,
    /// Remove the authentication
    #[arg(long)]
    no_authentication: bool,
    /// File with a client certificate and its chain, in PEM
    #[arg(long, value_name = "FILE", value_parser = whole_text, requires = "client_key")]
    client_certificate: Option<Secret>,
    /// File with the certificate's private key in PEM
    #[arg(long, value_name = "FILE", value_parser = whole_text, requires = "client_certificate")]
    client_key: Option<Secret>,
    /// File with further certificate authorities to trust, in PEM
    #[arg(long = "ca", value_name = "FILE", value_parser = whole_text)]
    authorities: Option<Secret>,
    /// File with a secret to sign requests with (whsec_…), in place of those in use
    #[arg(long = "signing-secret-file", value_name = "FILE", value_parser = secret_line)]
    signing_secret: Option<Secret>,
    /// Do not sign requests
    #[arg(long, conflicts_with = "signing_secret")]
    no_signing: bool,
}

impl CredentialArgs {
    /// Returns the properties of the webhook that the flags set or remove.
    pub(super) fn properties(&self) -> Map<String, Value> {
        let secret = |secret: &Option<Secret>| secret.as_ref().map(|text| json!(text.reveal()));
        let certificate = secret(&self.client_certificate)
            .map(|chain| json!({ "certificate": chain, "key": secret(&self.client_key) }));
        let signing = match (&self.signing_secret, self.no_signing) {
            (Some(text), _) => Some(json!([{ "secret": text.reveal() }])),
            (None, true) => Some(json!([])),
            (None, false) => None,
        };
        let mut properties = given(&json!({
            "clientCertificate": certificate,
            "certificateAuthorities": secret(&self.authorities),
            "signingSecrets": signing,
        }));
        let authentication = self.authentication();
        properties.extend(authentication.map(|each| ("authentication".to_owned(), each)));
        properties
    }

    fn authentication(&self) -> Option<Value> {
        let secret = |secret: &Option<Secret>| secret.as_ref().map(|text| text.reveal().to_owned());
        if let Some(user) = &self.basic_user {
            let password = secret(&self.password);
            return Some(json!({ "type": "Basic", "username": user, "password": password }));
        }
        if let Some(token) = secret(&self.bearer_token) {
            return Some(json!({ "type": "Bearer", "token": token }));
        }
        if let Some(url) = &self.token_url {
            return Some(json!({
                "type": "ClientCredentials",
                "tokenUrl": url,
                "clientId": self.client_id,
                "clientSecret": secret(&self.client_secret),
                "scope": self.scope,
                "audience": self.audience,
                "sentIn": if self.client_secret_in_body { "Body" } else { "Header" },
            }));
        }
        self.no_authentication.then_some(Value::Null)
    }
}

/// Reads a secret of one line from a file; `-` is standard input.
pub(super) fn secret_line(path: &str) -> Result<Secret, String> {
    files::secret(Path::new(path))
}

/// Reads a whole file of up to [`PEM_BYTES_MAX`] bytes, unchanged; `-` is standard input.
fn whole_text(path: &str) -> Result<Secret, String> {
    files::text(Path::new(path), PEM_BYTES_MAX).map(Secret::new)
}

/// Parses `NAME=FILE`: the name of a header, and the file that has its value.
pub(super) fn secret_header(text: &str) -> Result<(String, Secret), String> {
    let (name, path) = name_and_value(text)?;
    Ok((name, secret_line(&path)?))
}

/// Returns the credentials of a webhook in an answer of the API, as lines of a label and a text.
pub(super) fn lines(webhook: &Value) -> Vec<(&'static str, String)> {
    let authentication = &webhook["authentication"];
    let of = |name: &str| authentication[name].as_str().unwrap_or_default();
    let shown = match of("type") {
        "Basic" => format!("basic, as {}", of("username")),
        "Bearer" => "bearer token".to_owned(),
        "ClientCredentials" => format!("token of {}, as {}", of("tokenUrl"), of("clientId")),
        other => other.to_owned(),
    };
    let present = |name: &str, text: &str| {
        if webhook[name].is_null() {
            String::new()
        } else {
            text.to_owned()
        }
    };
    let signing = webhook["signingSecrets"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|secret| {
            let fingerprint = secret["fingerprint"].as_str().unwrap_or_default();
            match secret["expiresAt"].as_str() {
                Some(until) => format!("{fingerprint} until {until}"),
                None => fingerprint.to_owned(),
            }
        });
    vec![
        ("authentication", shown),
        (
            "certificate",
            present("clientCertificate", "client certificate"),
        ),
        (
            "authorities",
            present("certificateAuthorities", "its own and the system's"),
        ),
        ("signed with", signing.collect::<Vec<_>>().join(", ")),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct CommandLine {
        #[command(flatten)]
        credentials: CredentialArgs,
    }

    #[test]
    fn flags_become_properties_and_secrets_come_from_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name).display().to_string();
        for (name, text) in [("secret", "hush\n"), ("pem", "-----\nx\n"), ("empty", "\n")] {
            std::fs::write(path(name), text).expect("written");
        }
        let check = |flags: &str, expected: Result<Value, &str>| {
            let flags = flags.split_whitespace().map(|word| match word {
                "secret" | "pem" | "empty" | "nowhere" => path(word),
                word => word.to_owned(),
            });
            let line = std::iter::once("everpost".to_owned()).chain(flags);
            let parsed = CommandLine::try_parse_from(line);
            match (parsed, expected) {
                (Ok(parsed), Ok(expected)) => {
                    assert!(!format!("{parsed:?}").contains("hush"));
                    assert_eq!(Value::Object(parsed.credentials.properties()), expected);
                }
                (Err(error), Err(expected)) => {
                    let error = error.to_string();
                    assert!(
                        error.contains(expected) && !error.contains("hush"),
                        "{error}"
                    );
                }
                (found, expected) => panic!("{expected:?}: {found:?}"),
            }
        };
        check("", Ok(json!({})));
        check(
            "--basic-user ada --password-file secret",
            Ok(json!({"authentication": {"type": "Basic", "username": "ada", "password": "hush"}})),
        );
        check(
            "--bearer-token-file secret",
            Ok(json!({"authentication": {"type": "Bearer", "token": "hush"}})),
        );
        check(
            "--token-url https://a/ --client-id c --client-secret-file secret --scope s --client-secret-in-body",
            Ok(
                json!({"authentication": {"type": "ClientCredentials", "tokenUrl": "https://a/",
                "clientId": "c", "clientSecret": "hush", "scope": "s", "audience": null, "sentIn": "Body"}}),
            ),
        );
        check("--no-authentication", Ok(json!({"authentication": null})));
        check(
            "--client-certificate pem --client-key pem --ca pem",
            Ok(
                json!({"clientCertificate": {"certificate": "-----\nx\n", "key": "-----\nx\n"},
                "certificateAuthorities": "-----\nx\n"}),
            ),
        );
        check(
            "--signing-secret-file secret",
            Ok(json!({"signingSecrets": [{"secret": "hush"}]})),
        );
        check("--no-signing", Ok(json!({"signingSecrets": []})));
        check("--basic-user ada", Err("--password-file"));
        check("--client-key pem", Err("--client-certificate"));
        check(
            "--bearer-token-file secret --no-authentication",
            Err("cannot be used with"),
        );
        check("--bearer-token-file pem", Err("more than one line"));
        check("--bearer-token-file empty", Err("is empty"));
        check("--bearer-token-file nowhere", Err("cannot be read"));
    }
}
