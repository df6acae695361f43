//! Options for signing in with a provider or a trusted reverse proxy instead of a password.

use http::HeaderName;

use super::GroupRoles;
use crate::model::identity::UserSource;
use crate::outbound::identity_provider::IdentityProvider;

/// Marks a request that comes directly from a trusted proxy. The proxy headers of all other requests are ignored.
#[derive(Clone, Copy, Debug)]
pub struct ByTrustedProxy;

/// The names of the headers that the trusted proxy sets.
#[derive(Clone, Debug)]
pub struct ProxyHeaders {
    pub user: HeaderName,
    /// The header with the groups of the user, separated by commas.
    pub groups: HeaderName,
}

/// Options for signing in with a provider or a trusted reverse proxy instead of a password.
#[derive(Clone, Default)]
pub struct SignInOptions {
    pub provider: Option<IdentityProvider>,
    pub proxy: Option<ProxyHeaders>,
    pub roles: GroupRoles,
    /// Is true if users do not sign in with a password.
    pub hides_password: bool,
}

impl SignInOptions {
    /// Returns the display name of the provider.
    pub fn provider_name(&self) -> &str {
        let provider = self.provider.as_ref();
        provider.map_or("OpenID Connect", IdentityProvider::name)
    }

    /// Returns the display name of a user source.
    pub fn source_name(&self, source: UserSource) -> &str {
        match source {
            UserSource::Local => "Local",
            UserSource::Oidc => self.provider_name(),
            UserSource::Proxy => "Reverse proxy",
        }
    }

    /// Returns the name of a user source for use within a sentence.
    pub fn source_in_words(&self, source: UserSource) -> &str {
        match source {
            UserSource::Proxy => "the reverse proxy",
            UserSource::Local | UserSource::Oidc => self.source_name(source),
        }
    }
}
