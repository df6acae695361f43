//! Namespace topics as Azure Resource Manager writes them (rule N1): all that is to be
//! decided is how long they keep events.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::InvalidResource;
use super::fields::{Fields, Origin};
use crate::model::limits::EVENT_RETENTION_DAYS_MAX;
use crate::model::topic::{InputSchema, NetworkAccess, TopicDefinition};

/// Names of the envelope.
const ENVELOPE: [&str; 5] = ["id", "name", "type", "systemData", "properties"];

/// Names inside `properties`; the last two are answers only.
const PROPERTIES: [&str; 5] = [
    "publisherType",
    "inputSchema",
    RETENTION,
    "endpoint",
    "provisioningState",
];

const RETENTION: &str = "eventRetentionInDays";

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Reads the body of a PUT.
pub fn parse_namespace_topic(body: &Value) -> Result<TopicDefinition, InvalidResource> {
    read(&Fields::root(body, Origin::Request)?)
}

/// Applies the body of a PATCH to a topic that keeps events for this long.
pub fn patch_namespace_topic(
    current: &TopicDefinition,
    body: &Value,
) -> Result<TopicDefinition, InvalidResource> {
    let fields = Fields::root(body, Origin::Request)?;
    let changed = read(&fields)?;
    let properties = fields.object_or_empty("properties")?;
    Ok(match properties.is_absent(RETENTION) {
        true => current.clone(),
        false => changed,
    })
}

/// Whether a stored definition is one of a namespace topic.
pub(super) fn is_meant(body: &Fields) -> Result<bool, InvalidResource> {
    Ok(!body.object_or_empty("properties")?.is_absent(RETENTION))
}

pub(super) fn read(body: &Fields) -> Result<TopicDefinition, InvalidResource> {
    body.expect_names(&ENVELOPE)?;
    body.expect_inside("properties", &PROPERTIES)?;
    let properties = body.object_or_empty("properties")?;
    properties.expect_names(&PROPERTIES)?;
    properties.choice("publisherType", &[("Custom", ())])?;
    properties.choice("inputSchema", &[("CloudEventSchemaV1_0", ())])?;
    let days = properties.number(RETENTION, 1..=EVENT_RETENTION_DAYS_MAX)?;
    Ok(TopicDefinition {
        location: String::new(),
        tags: BTreeMap::new(),
        input_schema: InputSchema::CloudEventSchemaV1_0,
        disable_local_auth: false,
        network_access: NetworkAccess::default(),
        event_retention: Some(DAY * days.unwrap_or(1)),
        inert: BTreeMap::new(),
    })
}

/// The document without its answer-only parts.
pub(super) fn render_definition(retention: Duration) -> Value {
    json!({
        "properties": {
            "publisherType": "Custom",
            "inputSchema": InputSchema::CloudEventSchemaV1_0.name(),
            RETENTION: retention.as_secs() / DAY.as_secs(),
        },
    })
}
