//! Namespace topics as Azure Resource Manager writes them (rule N1): all that there is to decide is how
//! long they keep events.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::envelope::Envelope;
use super::rules::RuleContext;
use super::values::days;
use super::{InvalidResource, document};
use crate::model::limits::EVENT_RETENTION_DAYS_MAX;
use crate::model::topic::{DeliverySchema, TopicKind};

pub(crate) type NamespaceTopic = Envelope<NamespaceTopicProperties>;

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "NamespaceTopic", inline)]
pub(crate) struct NamespaceTopicProperties {
    #[schemars(extend("x-answered" = true))]
    publisher_type: PublisherType,
    #[schemars(extend("enum" = ["CloudEventSchemaV1_0"], "x-answered" = true))]
    input_schema: DeliverySchema,
    /// How long events can be delivered.
    #[serde(rename = "eventRetentionInDays", with = "days")]
    #[schemars(with = "u32", range(min = 1, max = EVENT_RETENTION_DAYS_MAX))]
    #[schemars(extend("x-answered" = true))]
    retention: Duration,
}

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

impl From<&Duration> for NamespaceTopicProperties {
    fn from(event_retention: &Duration) -> Self {
        Self {
            retention: *event_retention,
            ..Self::default()
        }
    }
}

impl From<NamespaceTopic> for TopicKind {
    fn from(topic: NamespaceTopic) -> Self {
        Self::Namespace {
            event_retention: topic.properties.retention,
        }
    }
}

/// Reads the body of a PUT.
pub fn parse_namespace_topic(body: &Value) -> Result<TopicKind, InvalidResource> {
    document::read::<NamespaceTopic>(body, &RuleContext::NONE).map(TopicKind::from)
}
