//! Users whom somebody else vouches for: an OpenID Connect provider, or a reverse proxy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::Timestamp;

/// Who knows the password of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum UserSource {
    /// The appliance.
    Local,
    /// The OpenID Connect provider.
    Oidc,
    /// The reverse proxy.
    Proxy,
}

impl UserSource {
    /// All sources.
    pub const ALL: [Self; 3] = [Self::Local, Self::Oidc, Self::Proxy];

    /// The name, as it is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Oidc => "oidc",
            Self::Proxy => "proxy",
        }
    }

    /// The source of that name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == word)
    }
}

/// Somebody whom a source vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub source: UserSource,
    /// The id by which the source tells people apart. It never goes to somebody else, as a name may.
    pub subject: String,
    pub name: String,
    pub groups: Vec<String>,
    /// When the source last saw a password or the like, if it says so.
    pub authenticated_at: Option<Timestamp>,
}
