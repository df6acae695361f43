//! Hides the secrets of a request in its response or error: receivers may echo requests, and their responses are
//! recorded and shown.

use http::HeaderValue;
use url::{Url, form_urlencoded};
use zeroize::Zeroizing;

use crate::model::blob_storage::{AzureAccess, BlobStorage};
use crate::model::credentials::{Authentication, Credentials};
use crate::model::destination::{AttributeValue, EndpointUrl, WebHook};
use crate::outbound::transport::{TransportError, TransportResponse};
use crate::wire::client_credentials::basic;

/// The text in the place of a secret.
const HIDDEN: &str = "***";

/// Minimum length in bytes of a secret that is hidden. A shorter one may occur in a text by chance; hiding it there
/// would reveal it, and garble the text.
const SECRET_BYTES_MIN: usize = 4;

/// Minimum length in bytes of the value of a query parameter that is hidden. Most of the shorter ones are versions,
/// formats and numbers.
const QUERY_VALUE_BYTES_MIN: usize = 8;

/// The secrets of one request, each in the encodings in which a response is likely to repeat it.
#[derive(Default)]
pub(super) struct Mask {
    /// The longest first, so that of two of which one holds the other nothing is left over.
    secrets: Vec<Zeroizing<String>>,
}

impl Mask {
    /// Returns the mask for requests to `webhook`.
    pub(super) fn of(webhook: &WebHook) -> Self {
        let mut mask = Self::default();
        mask.add_query(webhook.endpoint_url.reveal());
        for mapping in &webhook.attribute_mappings {
            match &mapping.value {
                AttributeValue::Static {
                    value,
                    is_secret: true,
                } => mask.add(value.reveal()),
                AttributeValue::Static { .. } | AttributeValue::Dynamic { .. } => {}
            }
        }
        mask.add_credentials(&webhook.credentials);
        mask
    }

    /// Returns the mask for requests to `storage`.
    pub(super) fn of_storage(storage: &BlobStorage) -> Self {
        let mut mask = Self::default();
        let endpoint = match storage {
            BlobStorage::Directory => None,
            BlobStorage::S3(account) => {
                mask.add(account.secret_access_key.reveal());
                account.endpoint.as_ref()
            }
            BlobStorage::AzureBlob(account) => {
                match &account.access {
                    AzureAccess::Key(key) => mask.add(key.reveal()),
                    AzureAccess::SasToken(token) => mask.add_values(token.reveal()),
                }
                account.endpoint.as_ref()
            }
        };
        if let Some(url) = endpoint.map(EndpointUrl::reveal) {
            mask.add_query(url);
        }
        mask
    }

    /// Adds a secret to hide, in plain text and as it is encoded in JSON and in a form. A secret shorter than
    /// `SECRET_BYTES_MIN` is left out.
    pub(super) fn add(&mut self, secret: &str) {
        if secret.len() < SECRET_BYTES_MIN {
            return;
        }
        let json = serde_json::Value::from(secret).to_string();
        let in_json = json[1..json.len() - 1].to_owned();
        let in_form: String = form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        for form in [secret.to_owned(), in_json, in_form].map(Zeroizing::new) {
            if !self.secrets.contains(&form) {
                self.secrets.push(form);
            }
        }
        self.secrets
            .sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    fn add_query(&mut self, url: &Url) {
        if let Some(query) = url.query() {
            self.add(query);
            self.add_values(query);
        }
    }

    /// Adds the values of the parameters in a query string, both percent-encoded as written and decoded.
    fn add_values(&mut self, query: &str) {
        let written = query
            .split('&')
            .map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
        let meant = form_urlencoded::parse(query.as_bytes()).map(|(_, value)| value.into_owned());
        for value in written.map(str::to_owned).chain(meant) {
            if value.len() >= QUERY_VALUE_BYTES_MIN {
                self.add(&value);
            }
        }
    }

    fn add_credentials(&mut self, credentials: &Credentials) {
        match &credentials.authentication {
            None => {}
            Some(Authentication::Basic { username, password }) => {
                self.add(password.reveal());
                let header = basic(username, password.reveal());
                self.add(header.reveal().trim_start_matches("Basic "));
            }
            Some(Authentication::Bearer { token }) => self.add(token.reveal()),
            Some(Authentication::ClientCredentials(client)) => {
                self.add(client.client_secret.reveal());
                self.add_query(client.token_url.reveal());
            }
        }
    }

    /// Returns the response or the error without the secrets.
    pub(super) fn hide(
        &self,
        sent: Result<TransportResponse, TransportError>,
    ) -> Result<TransportResponse, TransportError> {
        if self.secrets.is_empty() {
            return sent;
        }
        match sent {
            Ok(response) => Ok(self.hide_in_response(response)),
            Err(error) => Err(self.hide_in_error(error)),
        }
    }

    fn hide_in_response(&self, mut response: TransportResponse) -> TransportResponse {
        for value in response.headers.values_mut() {
            let hidden = self.bytes(value.as_bytes());
            if let Some(hidden) = hidden.and_then(|bytes| HeaderValue::from_bytes(&bytes).ok()) {
                *value = hidden;
            }
        }
        if let Some(hidden) = self.bytes(&response.body) {
            response.body = hidden;
        }
        response
    }

    fn hide_in_error(&self, error: TransportError) -> TransportError {
        match error {
            TransportError::Resolution(text) => TransportError::Resolution(self.text(text)),
            TransportError::Socket(text) => TransportError::Socket(self.text(text)),
            TransportError::Tls(text) => TransportError::Tls(self.text(text)),
            TransportError::Token(text) => TransportError::Token(self.text(text)),
            TransportError::TimedOut | TransportError::NoPlace | TransportError::Denied(_) => error,
        }
    }

    /// Returns `text` with its secrets replaced by `HIDDEN`.
    pub(super) fn text(&self, text: String) -> String {
        let hidden = self.bytes(text.as_bytes());
        hidden.map_or(text, |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns `bytes` with their secrets replaced by `HIDDEN`, or `None` if they contain none.
    fn bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut hidden: Option<Vec<u8>> = None;
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let mut secrets = self.secrets.iter();
            match secrets.find(|secret| rest.starts_with(secret.as_bytes())) {
                Some(secret) => {
                    hidden
                        .get_or_insert_with(|| bytes[..at].to_vec())
                        .extend_from_slice(HIDDEN.as_bytes());
                    at += secret.len();
                }
                None => {
                    if let Some(hidden) = &mut hidden {
                        hidden.push(bytes[at]);
                    }
                    at += 1;
                }
            }
        }
        hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(secrets: &[&str], query: &str, said: &str, expected: &str) {
        let mut mask = Mask::default();
        for secret in secrets {
            mask.add(secret);
        }
        let url = Url::parse(&format!("https://a.test/in{query}")).expect("a URL");
        mask.add_query(&url);
        assert_eq!(mask.text(said.to_owned()), expected, "{secrets:?} {query}");
    }

    #[test]
    fn secrets_are_hidden_in_the_forms_in_which_they_come_back() {
        check(&["hunter2"], "", "no hunter2, hunter2!", "no ***, ***!");
        check(&["a\"b/c d"], "", r#"{"k":"a\"b/c d"}"#, r#"{"k":"***"}"#);
        check(&["a+b/c=="], "", "key=a%2Bb%2Fc%3D%3D", "key=***");
        check(&["token", "token-two"], "", "token-two token", "*** ***");
        check(&["Grüße"], "", "«Grüße»", "«***»");
        let query = "?code=s%2Becret-1&v=2026";
        check(&[], query, "got s%2Becret-1", "got ***");
        check(&[], query, "got s+ecret-1 in 2026", "got *** in 2026");
        check(&[], query, "/in?code=s%2Becret-1&v=2026", "/in?***");
    }

    #[test]
    fn what_is_too_short_to_be_told_from_chance_stays() {
        check(&["abc"], "?v=2026-11", "abc of 2026-11", "abc of 2026-11");
        check(&["abcd"], "?v=2026", "abcd of 2026", "*** of 2026");
    }
}
