//! The management documents of Azure Resource Manager for namespaces, topics and event subscriptions, to
//! the model and back (rule 3, rule N1).
//!
//! What a client sends is checked in full and with the name of the property at fault. What the store
//! keeps has the same shape with the secrets in it, and is read without those checks, so that
//! a definition once accepted stays readable.

mod blob_storage;
mod credentials;
mod dead_letter_destination;
mod destination;
mod fields;
mod inspector;
mod namespace;
mod namespace_subscription;
mod namespace_topic;
mod network;
mod replay;
mod signing;
mod standing;
mod subscription;
#[cfg(test)]
mod tests;
mod topic;

use serde_json::{Value, json};

use crate::base::Timestamp;

pub use destination::INVALID_URL;
pub use inspector::{
    inspector_from_text, inspector_to_text, parse_inspector, render_inspected,
    render_inspected_row, render_inspector, render_inspector_definition,
};
pub use namespace::{
    namespace_from_text, namespace_to_text, parse_namespace, patch_namespace, render_namespace,
};
pub use namespace_topic::{parse_namespace_topic, patch_namespace_topic};
pub use replay::{ReplayContext, ReplayRequest, parse_replay, parse_target, render_replay};
pub use signing::{Rotation, parse_rotation, render_rotated, render_signing_secrets};
pub use standing::{render_outage, standing_reason};
pub use subscription::{
    SubscriptionContext, parse_subscription, patch_subscription, render_delivery_attributes,
    render_destination, render_full_url, render_subscription, subscription_from_text,
    subscription_to_text,
};
pub use topic::{
    parse_key_name, parse_topic, patch_topic, render_keys, render_topic, topic_from_text,
    topic_to_text,
};

/// Azure's code for everything that is wrong with a body.
pub(super) const INVALID_REQUEST: &str = "InvalidRequest";

/// Values of `minimumTlsVersionAllowed` (rule 3.2, 3.3). Deliveries and doors never go below 1.2.
const TLS_VERSIONS: [(&str, ()); 3] = [("1.0", ()), ("1.1", ()), ("1.2", ())];

/// What is wrong with a document: the answer is 400 with [`InvalidResource::code`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidResource {
    /// Azure's error code.
    pub code: &'static str,
    /// The path of the property, for example `properties.destination.properties.endpointUrl`; empty
    /// for the document as a whole.
    pub target: String,
    /// What is wrong with it, and what would be right. Holds no secrets.
    pub problem: String,
}

impl std::fmt::Display for InvalidResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.target.as_str() {
            "" => write!(f, "{}.", self.problem),
            target => write!(f, "{target}: {}.", self.problem),
        }
    }
}

impl std::error::Error for InvalidResource {}

/// A list of resources; it is never cut into pages (rule 3.1).
pub fn render_list(values: Vec<Value>) -> Value {
    json!({ "value": Value::Array(values), "nextLink": null })
}

fn render_system_data(created_at: Timestamp, updated_at: Timestamp) -> Value {
    json!({ "createdAt": created_at.to_azure(), "lastModifiedAt": updated_at.to_azure() })
}

/// The JSON of a stored definition.
fn read_stored(text: &str) -> Result<Value, InvalidResource> {
    serde_json::from_str(text).map_err(|error| InvalidResource {
        code: INVALID_REQUEST,
        target: String::new(),
        problem: format!("the stored definition is no JSON: {error}"),
    })
}
