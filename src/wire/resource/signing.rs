//! The verbs about signing secrets: extensions.

use std::time::Duration;

use serde_json::{Value, json};

use super::InvalidResource;
use super::credentials::{SIGNING, render_fingerprints};
use super::fields::{Fields, Origin};
use crate::model::limits::{SIGNING_GRACE, SIGNING_GRACE_MAX};
use crate::model::signing::SigningSecret;
use crate::model::subscription::SubscriptionDefinition;
use crate::wire::bad_input::quoted;
use crate::wire::duration;

/// How a new signing secret takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// `None` for one that is made here.
    pub secret: Option<SigningSecret>,
    /// For how long the older ones go on signing.
    pub grace: Duration,
}

/// Reads the body of `rotateSigningSecret`, all of which is optional.
pub fn parse_rotation(body: &Value) -> Result<Rotation, InvalidResource> {
    const GRACE: &str = "gracePeriod";
    let fields = Fields::root(body, Origin::Request)?;
    fields.expect_names(&["secret", GRACE])?;
    let secret = fields.text("secret")?.map(SigningSecret::parse).transpose();
    let secret = secret.map_err(|problem| fields.invalid("secret", problem.to_string()))?;
    let Some(text) = fields.text(GRACE)? else {
        let grace = SIGNING_GRACE;
        return Ok(Rotation { secret, grace });
    };
    let grace = duration::parse(text).map_err(|invalid| {
        fields.invalid(GRACE, format!("{} is no duration: {invalid}", quoted(text)))
    })?;
    if grace > SIGNING_GRACE_MAX {
        let most = duration::format(SIGNING_GRACE_MAX);
        let problem = format!("it must be {most} at most, but it is {}", quoted(text));
        return Err(fields.invalid(GRACE, problem));
    }
    Ok(Rotation { secret, grace })
}

/// The answer to `rotateSigningSecret`: the only one that shows the new secret.
pub fn render_rotated(secret: &SigningSecret, definition: &SubscriptionDefinition) -> Value {
    json!({ "secret": secret.reveal(), SIGNING: fingerprints(definition) })
}

/// The answer to `listSigningSecrets`.
pub fn render_signing_secrets(definition: &SubscriptionDefinition) -> Value {
    json!({ "value": fingerprints(definition) })
}

/// None where nothing is sent.
fn fingerprints(definition: &SubscriptionDefinition) -> Value {
    let webhook = definition.destination.webhook();
    webhook.map_or_else(
        || json!([]),
        |webhook| render_fingerprints(&webhook.credentials.signing),
    )
}
