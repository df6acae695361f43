//! Shared access rules as the management API writes them: an extension.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::InvalidResource;
use super::document;
use super::envelope::close_but_for;
use super::mirror::documents;
use super::rules::RuleContext;
use crate::base::Timestamp;
use crate::model::access::Secret;
use crate::model::limits::CREDENTIAL_BYTES_MAX;
use crate::model::shared_access::{AccessRule, AccessRuleDefinition, Right, Rights};

documents! {
    AccessRuleDefinition => AccessRuleDocument;
}

/// The minimum length of a key that a client supplies, in characters. Shorter keys can be guessed.
const KEY_CHARACTERS_MIN: u32 = 16;

/// The rights and the keys of an access rule.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "AccessRuleDefinition", rename_all = "camelCase")]
#[schemars(rename = "AccessRuleDefinition", transform = close_but_for::<ShownOfAccessRule>)]
struct AccessRuleDocument {
    /// Manage includes the others.
    #[schemars(with = "Vec<Right>", length(min = 1, max = 3), extend("x-noun" = "rights"))]
    rights: Rights,
    /// Null in answers; left out, it stays, or is generated.
    #[schemars(length(min = KEY_CHARACTERS_MIN), extend("x-maxBytes" = CREDENTIAL_BYTES_MAX))]
    #[schemars(extend("x-check" = "headerValue", "x-kept" = []))]
    key1: Option<Secret>,
    /// Null in answers; left out, it stays, or is generated.
    #[schemars(length(min = KEY_CHARACTERS_MIN), extend("x-maxBytes" = CREDENTIAL_BYTES_MAX))]
    #[schemars(extend("x-check" = "headerValue", "x-kept" = []))]
    key2: Option<Secret>,
}

/// The properties that an access rule has in answers, besides its definition.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ShownOfAccessRule {
    name: String,
    created_at: Timestamp,
    last_modified_at: Timestamp,
}

/// An access rule as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AccessRule")]
pub struct ShownAccessRule {
    #[serde(flatten)]
    definition: AccessRuleDefinition,
    #[serde(flatten)]
    shown: ShownOfAccessRule,
}

impl From<&AccessRule> for ShownAccessRule {
    fn from(rule: &AccessRule) -> Self {
        Self {
            definition: rule.into(),
            shown: ShownOfAccessRule {
                name: rule.name.to_string(),
                created_at: rule.created_at,
                last_modified_at: rule.updated_at,
            },
        }
    }
}

/// Reads the body of a PUT. Keys that are left out are taken from the access rule that is replaced.
pub fn parse_access_rule(
    body: &Value,
    replaced: Option<&AccessRule>,
) -> Result<AccessRuleDefinition, InvalidResource> {
    let former = replaced.map(AccessRuleDefinition::from);
    document::put(body, former.as_ref(), &RuleContext::NONE).map(|read| read.document)
}

/// Renders the response that shows an access rule.
pub fn render_access_rule(rule: &AccessRule) -> Value {
    json!(ShownAccessRule::from(rule))
}
