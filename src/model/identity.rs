//! Users whom an OpenID Connect provider or a reverse proxy authenticates.

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

/// A user as a source identifies them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub source: UserSource,
    /// The id of the user at the source. Unlike a name, it is never given to another user.
    pub subject: String,
    pub name: String,
    pub groups: Vec<String>,
    /// The time when the source last authenticated the user, if the source provides it.
    pub authenticated_at: Option<Timestamp>,
}
