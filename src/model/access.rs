//! Access keys of topics, namespaces and access rules.

use std::fmt;
use std::hash::{Hash, Hasher};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::base::Entropy;
use crate::model::namespace::NamespaceId;
use crate::model::shared_access::AccessRuleId;
use crate::model::topic::TopicId;

/// A secret text. Its `Debug` form hides it, so it cannot get into a log, and its memory is overwritten when
/// it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The secret itself: for sending, signing and storing, never for showing.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether `presented` is the secret. The time that it takes does not depend on where the two differ.
    pub fn admits(&self, presented: &str) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), presented.as_bytes()).is_ok()
    }
}

impl Hash for Secret {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_str().hash(state);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The two keys of a topic, a namespace or an access rule. Either one publishes and signs, so that one can be
/// regenerated while the other is in use (rule 1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessKeys {
    pub key1: Secret,
    pub key2: Secret,
}

/// Which of the two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyName {
    Key1,
    Key2,
}

/// An object that has two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyOwner {
    Topic(TopicId),
    Namespace(NamespaceId),
    AccessRule(AccessRuleId),
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyRef {
    pub owner: KeyOwner,
    pub key: KeyName,
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl KeyName {
    /// Both.
    pub const ALL: [KeyName; 2] = [Self::Key1, Self::Key2];

    /// Azure's spelling.
    pub fn name(self) -> &'static str {
        match self {
            Self::Key1 => "key1",
            Self::Key2 => "key2",
        }
    }
}

impl AccessKeys {
    /// Two new keys.
    pub fn generate(entropy: &Entropy) -> Self {
        Self {
            key1: Secret::new(entropy.access_key()),
            key2: Secret::new(entropy.access_key()),
        }
    }

    /// The key of that name.
    pub fn get(&self, name: KeyName) -> &Secret {
        match name {
            KeyName::Key1 => &self.key1,
            KeyName::Key2 => &self.key2,
        }
    }

    /// The keys with one of them regenerated.
    pub fn regenerated(&self, name: KeyName, entropy: &Entropy) -> Self {
        self.with(name, Secret::new(entropy.access_key()))
    }

    /// The keys with `fresh` in the place of one of them.
    pub fn with(&self, name: KeyName, fresh: Secret) -> Self {
        match name {
            KeyName::Key1 => Self {
                key1: fresh,
                key2: self.key2.clone(),
            },
            KeyName::Key2 => Self {
                key1: self.key1.clone(),
                key2: fresh,
            },
        }
    }

    /// Which of the keys `presented` is, if any; always compares with both.
    pub fn find(&self, presented: &str) -> Option<KeyName> {
        let admits = KeyName::ALL.map(|name| self.get(name).admits(presented));
        let mut found = KeyName::ALL.into_iter().zip(admits);
        found.find(|(_, is)| *is).map(|(name, _)| name)
    }
}
