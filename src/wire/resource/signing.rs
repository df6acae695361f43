//! Requests about keys and signing secrets, and the answers (the signing secrets are extensions).

use std::time::Duration;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::rules::RuleContext;
use super::{InvalidResource, document};
use crate::model::access::{AccessKeys, KeyName};
use crate::model::limits::SIGNING_GRACE;
use crate::model::signing::{Signing, SigningSecret};
use crate::model::subscription::SubscriptionDefinition;
use crate::wire::duration;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RegenerateKey {
    key_name: KeyName,
}

/// Reads the body of `regenerateKey`.
pub fn parse_key_name(body: &Value) -> Result<KeyName, InvalidResource> {
    document::read::<RegenerateKey>(body, &RuleContext::NONE).map(|request| request.key_name)
}

/// The answer to `listKeys` and `regenerateKey`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AccessKeys")]
pub struct ShownKeys {
    key1: String,
    key2: String,
}

pub fn render_keys(keys: &AccessKeys) -> ShownKeys {
    ShownKeys {
        key1: keys.key1.reveal().to_owned(),
        key2: keys.key2.reveal().to_owned(),
    }
}

/// How a new signing secret takes over.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SigningSecretRotation")]
pub struct Rotation {
    /// A secret of your own; without it, one is made.
    pub secret: Option<SigningSecret>,
    /// For how long the older secrets go on signing, up to 30 days.
    #[serde(
        rename = "gracePeriod",
        default = "default_grace",
        deserialize_with = "duration_text"
    )]
    #[schemars(with = "String", extend("format" = "duration", "x-check" = "gracePeriod"))]
    #[schemars(extend("default" = duration::format(SIGNING_GRACE)))]
    pub grace: Duration,
}

fn default_grace() -> Duration {
    SIGNING_GRACE
}

fn duration_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    duration::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Reads the body of `rotateSigningSecret`, all of which is optional.
pub fn parse_rotation(body: &Value) -> Result<Rotation, InvalidResource> {
    document::read(body, &RuleContext::NONE)
}

/// The answer to `rotateSigningSecret`: the only one that shows the new secret.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RotatedSigningSecret {
    /// The new one; it is never shown again.
    secret: String,
    signing_secrets: Signing,
}

pub fn render_rotated(
    secret: &SigningSecret,
    definition: &SubscriptionDefinition,
) -> RotatedSigningSecret {
    RotatedSigningSecret {
        secret: secret.reveal().to_owned(),
        signing_secrets: signing(definition),
    }
}

/// The answer to `listSigningSecrets`.
#[derive(Serialize, JsonSchema)]
pub struct SigningSecrets {
    value: Signing,
}

pub fn render_signing_secrets(definition: &SubscriptionDefinition) -> SigningSecrets {
    let value = signing(definition);
    SigningSecrets { value }
}

/// None where nothing is sent.
fn signing(definition: &SubscriptionDefinition) -> Signing {
    definition
        .destination
        .signing()
        .cloned()
        .unwrap_or_default()
}
