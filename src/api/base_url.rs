//! The URL by which a client reaches the appliance.

use std::convert::Infallible;
use std::fmt;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{Extensions, HeaderMap, Uri};

use crate::api::ApiState;
use crate::api::publish::host_of;
use crate::broker::people::ByTrustedProxy;

/// The header in which a reverse proxy says whether it was asked over HTTPS.
const X_FORWARDED_PROTO: &str = "x-forwarded-proto";

/// Begins the links of an answer, without a slash behind it: the configured URL, or else scheme and host of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::api) struct BaseUrl(String);

impl BaseUrl {
    /// Returns that of a request.
    pub(in crate::api) fn of(
        state: &ApiState,
        headers: &HeaderMap,
        uri: &Uri,
        extensions: &Extensions,
    ) -> Self {
        let options = state.broker.options();
        let host = host_of(headers, uri).and_then(|host| host.parse::<Authority>().ok());
        match host.filter(|host| !options.public_url_is_set && !host.as_str().contains('@')) {
            None => Self(options.public_url.clone()),
            Some(host) => {
                let proxy = extensions.get::<ByTrustedProxy>();
                let told = proxy.and_then(|_| headers.get(X_FORWARDED_PROTO)?.to_str().ok());
                let own = options.public_url.split("://").next();
                let scheme = match told.or(own) {
                    Some("https") => "https",
                    _ => "http",
                };
                Self(format!("{scheme}://{host}"))
            }
        }
    }

    /// Returns its host, with the port if there is one.
    pub(in crate::api) fn host(&self) -> &str {
        let url = self.0.as_str();
        url.split_once("://").map_or(url, |(_, host)| host)
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for BaseUrl {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromRequestParts<ApiState> for BaseUrl {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, Infallible> {
        let Parts {
            headers,
            uri,
            extensions,
            ..
        } = parts;
        Ok(Self::of(state, headers, uri, extensions))
    }
}
