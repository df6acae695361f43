//! How people sign in besides by a password.

use http::HeaderName;

use super::GroupRoles;
use crate::model::identity::UserSource;
use crate::outbound::identity_provider::IdentityProvider;

/// Marks a request that comes from a trusted proxy itself. The headers of all others are as if they were not there.
#[derive(Clone, Copy, Debug)]
pub struct ByTrustedProxy;

/// The headers that the proxy sets.
#[derive(Clone, Debug)]
pub struct ProxyHeaders {
    pub user: HeaderName,
    /// With the groups, separated by commas.
    pub groups: HeaderName,
}

/// How people sign in besides by a password.
#[derive(Clone, Default)]
pub struct SignInOptions {
    pub provider: Option<IdentityProvider>,
    pub proxy: Option<ProxyHeaders>,
    pub roles: GroupRoles,
    /// Is true if nobody signs in by a password.
    pub hides_password: bool,
}

impl SignInOptions {
    /// Returns the name of the provider that people see.
    pub fn provider_name(&self) -> &str {
        let provider = self.provider.as_ref();
        provider.map_or("OpenID Connect", IdentityProvider::name)
    }

    /// Returns the name of a source that people see.
    pub fn source_name(&self, source: UserSource) -> &str {
        match source {
            UserSource::Local => "Local",
            UserSource::Oidc => self.provider_name(),
            UserSource::Proxy => "Reverse proxy",
        }
    }

    /// Returns the name of a source as it stands within a sentence.
    pub fn source_in_words(&self, source: UserSource) -> &str {
        match source {
            UserSource::Proxy => "the reverse proxy",
            UserSource::Local | UserSource::Oidc => self.source_name(source),
        }
    }
}
