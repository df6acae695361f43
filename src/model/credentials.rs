//! Authentication of the appliance to a webhook: credentials, a client certificate and signatures.

use std::sync::Arc;

use crate::model::access::Secret;
use crate::model::destination::EndpointUrl;
use crate::model::signing::Signing;

/// Credentials for a webhook, and the certificate authorities that verify the webhook. The default has neither.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    pub authentication: Option<Authentication>,
    /// TLS settings, shared because an HTTP client is kept for each.
    pub tls: Option<Arc<TlsMaterial>>,
    pub signing: Signing,
}

/// The credentials that are sent in the header `Authorization`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// RFC 7617.
    Basic { username: String, password: Secret },
    /// RFC 6750, with a token that never changes.
    Bearer { token: Secret },
    /// A bearer token that is fetched (RFC 6749, section 4.4).
    ClientCredentials(ClientCredentials),
}

/// Settings to fetch a token from an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCredentials {
    pub token_url: EndpointUrl,
    pub client_id: String,
    pub client_secret: Secret,
    pub scope: Option<String>,
    /// Sent as `audience`, which some authorization servers need.
    pub audience: Option<String>,
    pub sent_in: SecretPlace,
}

/// Where the client's secret is sent (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecretPlace {
    /// In the header, as basic authentication, which every authorization server must accept.
    #[default]
    Header,
    Body,
}

/// TLS settings of a subscription. All texts are PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsMaterial {
    pub client_certificate: Option<ClientCertificate>,
    /// Authorities that are trusted besides the system's.
    pub authorities: Option<String>,
}

/// A certificate with its chain, and its private key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientCertificate {
    pub certificate: String,
    pub key: Secret,
}
