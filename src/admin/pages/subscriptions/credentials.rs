//! What the webhook of a subscription is shown besides events, for its page: kinds and names, never secrets.

use crate::admin::widgets::Due;
use crate::admin::widgets::print;
use crate::base::Timestamp;
use crate::model::credentials::{Authentication, Credentials};
use crate::model::signing::ActiveSecret;

/// Credentials ready to print.
pub(crate) struct CredentialText {
    pub(crate) authentication: String,
    /// Empty for nothing of its own.
    pub(crate) tls: String,
    /// Newest first; empty for requests that are not signed.
    pub(crate) keys: Vec<SigningKeyText>,
}

/// A signing secret, by its fingerprint.
pub(crate) struct SigningKeyText {
    pub(crate) fingerprint: String,
    /// Since when it signs.
    pub(crate) age: String,
    /// `None` for the newest one, which signs for good.
    pub(crate) ends: Option<Due>,
}

impl CredentialText {
    pub(crate) fn new(credentials: &Credentials, now: Timestamp) -> Self {
        Self {
            authentication: authentication(credentials.authentication.as_ref()),
            tls: tls(credentials),
            keys: credentials
                .signing
                .active(now)
                .map(|each| SigningKeyText::new(each, now))
                .collect(),
        }
    }
}

impl SigningKeyText {
    fn new(active: &ActiveSecret, now: Timestamp) -> Self {
        Self {
            fingerprint: active.secret.fingerprint(),
            age: print::relative(active.created_at, now),
            ends: active.expires_at.map(|at| Due::new(at, now)),
        }
    }
}

fn authentication(authentication: Option<&Authentication>) -> String {
    match authentication {
        None => "None".to_owned(),
        Some(Authentication::Basic { username, .. }) => {
            format!(
                "User name and password (Basic) of {}",
                print::visible(username)
            )
        }
        Some(Authentication::Bearer { .. }) => "A fixed token (Bearer)".to_owned(),
        Some(Authentication::ClientCredentials(client)) => format!(
            "Tokens from {} (OAuth 2.0 client credentials) for the client {}",
            client.token_url.base(),
            print::visible(&client.client_id)
        ),
    }
}

fn tls(credentials: &Credentials) -> String {
    let Some(tls) = &credentials.tls else {
        return String::new();
    };
    let parts = match (&tls.client_certificate, &tls.authorities) {
        (Some(_), Some(_)) => "A client certificate (mTLS), and certificate authorities of its own",
        (Some(_), None) => "A client certificate (mTLS)",
        (None, Some(_)) => "Certificate authorities of its own",
        (None, None) => "",
    };
    parts.to_owned()
}
