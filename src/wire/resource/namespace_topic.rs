//! Namespace topics as Azure Resource Manager writes them (rule N1): all that there is to decide is how
//! long they keep events.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::envelope::Envelope;
use super::rules::Context;
use super::values::days;
use super::{InvalidResource, document};
use crate::model::entity_status::EntityStatus;
use crate::model::limits::{DUPLICATE_WINDOW, EVENT_RETENTION_DAYS_MAX, QUEUE_MEGABYTES};
use crate::model::topic::{DeliverySchema, InputSchema, NetworkAccess, TopicDefinition};

pub(crate) type NamespaceTopic = Envelope<NamespaceTopicProperties>;

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "NamespaceTopic", inline)]
pub(crate) struct NamespaceTopicProperties {
    publisher_type: PublisherType,
    #[schemars(extend("enum" = ["CloudEventSchemaV1_0"]))]
    input_schema: DeliverySchema,
    /// How long events can be delivered.
    #[serde(rename = "eventRetentionInDays", with = "days")]
    #[schemars(with = "u32", range(min = 1, max = EVENT_RETENTION_DAYS_MAX))]
    retention: Duration,
}

/// A property that every stored namespace topic has, and no other topic.
pub(super) const RETENTION: &str = "eventRetentionInDays";

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
enum PublisherType {
    Custom,
}

impl Default for NamespaceTopicProperties {
    fn default() -> Self {
        Self {
            publisher_type: PublisherType::Custom,
            input_schema: DeliverySchema::CloudEventSchemaV1_0,
            retention: Duration::from_secs(86_400),
        }
    }
}

impl From<&TopicDefinition> for NamespaceTopicProperties {
    fn from(definition: &TopicDefinition) -> Self {
        let default = Self::default();
        let retention = definition.event_retention.unwrap_or(default.retention);
        Self {
            retention,
            ..default
        }
    }
}

impl From<NamespaceTopic> for TopicDefinition {
    fn from(topic: NamespaceTopic) -> Self {
        Self {
            location: String::new(),
            tags: BTreeMap::new(),
            input_schema: InputSchema::CloudEventSchemaV1_0,
            disable_local_auth: false,
            network_access: NetworkAccess::default(),
            event_retention: Some(topic.properties.retention),
            message_time_to_live: None,
            detects_duplicates: false,
            duplicate_window: DUPLICATE_WINDOW,
            megabytes_max: QUEUE_MEGABYTES,
            delete_on_idle: None,
            status: EntityStatus::Active,
            inert: BTreeMap::new(),
        }
    }
}

/// Reads the body of a PUT.
pub fn parse_namespace_topic(body: &Value) -> Result<TopicDefinition, InvalidResource> {
    document::read::<NamespaceTopic>(body, &Context::NONE).map(TopicDefinition::from)
}

/// Applies the body of a PATCH.
pub fn patch_namespace_topic(
    current: &TopicDefinition,
    body: &Value,
) -> Result<TopicDefinition, InvalidResource> {
    let current = NamespaceTopic::from(current);
    document::patch(&current, body, &Context::NONE, &["", "properties"]).map(TopicDefinition::from)
}
