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

    /// Returns the plain secret, only for sending, signing and storing. Never display it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Reports whether `presented` equals the secret. The comparison takes constant time.
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

/// The two keys of a topic, a namespace or an access rule. Both keys authorize publishing and signing, so that one can
/// be regenerated while the other is in use (rule 1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessKeys {
    pub key1: Secret,
    pub key2: Secret,
}

/// The name of one of the two keys.
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

/// A reference to one key of an owner.
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
    /// Both key names.
    pub const ALL: [KeyName; 2] = [Self::Key1, Self::Key2];

    /// Returns the name as Azure spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Key1 => "key1",
            Self::Key2 => "key2",
        }
    }
}

impl AccessKeys {
    /// Generates two new keys.
    pub fn generate(entropy: &Entropy) -> Self {
        Self {
            key1: Secret::new(entropy.access_key()),
            key2: Secret::new(entropy.access_key()),
        }
    }

    /// Returns the key with the given name.
    pub fn get(&self, name: KeyName) -> &Secret {
        match name {
            KeyName::Key1 => &self.key1,
            KeyName::Key2 => &self.key2,
        }
    }

    /// Returns the keys with the named key regenerated.
    pub fn regenerated(&self, name: KeyName, entropy: &Entropy) -> Self {
        self.with(name, Secret::new(entropy.access_key()))
    }

    /// Returns the keys with the named key replaced by `fresh`.
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

    /// Returns the name of the key that equals `presented`, if any. Always compares with both keys.
    pub fn find(&self, presented: &str) -> Option<KeyName> {
        let admits = KeyName::ALL.map(|name| self.get(name).admits(presented));
        let mut found = KeyName::ALL.into_iter().zip(admits);
        found.find(|(_, is)| *is).map(|(name, _)| name)
    }
}
