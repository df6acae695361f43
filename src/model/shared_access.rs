//! Shared access rules: keys of queues and topics of Service Bus, and what they allow (rule S1.1).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::Timestamp;
use crate::base::named::ids;
use crate::model::access::{AccessKeys, Secret};
use crate::model::name::AccessRuleName;

/// The name of the built-in access rule. It grants all rights, and its key is the management token.
pub const ROOT_RULE: &str = "RootManageSharedAccessKey";

ids! {
    /// The id of an access rule.
    AccessRuleId,
}

/// Two keys and the rights that they grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    pub id: AccessRuleId,
    pub name: AccessRuleName,
    pub rights: Rights,
    pub keys: AccessKeys,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A rule as it is defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRuleDefinition {
    pub rights: Rights,
    /// The first key; `None` keeps the existing key or generates one.
    pub key1: Option<Secret>,
    pub key2: Option<Secret>,
}

/// Creates a definition that keeps the existing keys, or generates new ones.
impl From<Rights> for AccessRuleDefinition {
    fn from(rights: Rights) -> Self {
        Self {
            rights,
            key1: None,
            key2: None,
        }
    }
}

impl From<&AccessRule> for AccessRuleDefinition {
    fn from(rule: &AccessRule) -> Self {
        Self {
            rights: rule.rights,
            key1: Some(rule.keys.key1.clone()),
            key2: Some(rule.keys.key2.clone()),
        }
    }
}

/// One thing that a rule may allow, in Azure's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Right {
    Manage,
    Send,
    Listen,
}

/// The rights that a shared access rule gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Right>", into = "Vec<Right>")]
pub struct Rights {
    pub send: bool,
    pub listen: bool,
    /// Includes the rights to send and to listen.
    pub manage: bool,
}

impl Rights {
    /// All rights.
    pub const ALL: Self = Self {
        send: true,
        listen: true,
        manage: true,
    };

    /// The rights to send and to listen.
    pub const USE: Self = Self {
        manage: false,
        ..Self::ALL
    };

    /// Returns whether `right` is among these rights.
    pub fn allow(self, right: Right) -> bool {
        self.manage
            || match right {
                Right::Send => self.send,
                Right::Listen => self.listen,
                Right::Manage => false,
            }
    }
}

impl From<Vec<Right>> for Rights {
    fn from(rights: Vec<Right>) -> Self {
        let manage = rights.contains(&Right::Manage);
        Self {
            send: manage || rights.contains(&Right::Send),
            listen: manage || rights.contains(&Right::Listen),
            manage,
        }
    }
}

/// Lists the rights in the order of [`Right::ALL`].
impl From<Rights> for Vec<Right> {
    fn from(rights: Rights) -> Self {
        let all = Right::ALL.into_iter();
        all.filter(|right| rights.allow(*right)).collect()
    }
}

/// Formats the rights, separated by commas.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rights: Vec<Right> = (*self).into();
        let words: Vec<String> = rights.iter().map(|right| format!("{right:?}")).collect();
        f.write_str(&words.join(", "))
    }
}

impl Right {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Manage, Self::Send, Self::Listen];
}
