//! Namespaces as Azure Resource Manager writes them (rule N1).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::InvalidResource;
use super::as_written::{self, AnswerScope};
use super::document::{self, Authored};
use super::envelope::{
    Answered, LOCATION, Object, Resource, Succeeded, SystemData, TlsVersion, add_properties,
    from_inert, to_inert,
};
use super::network::Network;
use super::reader::schema_of;
use super::rules::RuleContext;
use crate::model::as_written::AsWritten;
use crate::model::limits::THROUGHPUT_UNITS_MAX;
use crate::model::namespace::NamespaceDefinition;
use crate::model::registry::NamespaceEntry;

/// The body of a PUT of a namespace.
pub(crate) type NamespaceRequest = Namespace;

/// A namespace as answers show it.
pub(crate) type ShownNamespace =
    Resource<Namespace<Answered<NamespaceProperties, NamespaceAnswer>>>;

/// Topics that share two keys and network rules.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Namespace")]
pub(crate) struct Namespace<P = NamespaceProperties> {
    /// A region; any name will do.
    #[schemars(length(min = 1), extend("x-expected" = LOCATION))]
    location: String,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    #[schemars(extend("x-answered" = true))]
    sku: Sku,
    #[serde(flatten)]
    inert: InertNamespace,
    properties: P,
}

/// How much the namespace may hold.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "NamespaceSku")]
struct Sku {
    name: SkuName,
    /// Throughput units.
    #[schemars(range(min = 1, max = THROUGHPUT_UNITS_MAX))]
    capacity: u32,
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
enum SkuName {
    Standard,
}

impl Default for Sku {
    fn default() -> Self {
        Self {
            name: SkuName::Standard,
            capacity: 1,
        }
    }
}

/// The members that a namespace has in Azure beside its properties.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct InertNamespace {
    /// Kept and shown without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Object>,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, transform = add_properties::<Mqtt>)]
pub(crate) struct NamespaceProperties {
    #[serde(flatten)]
    network: Network,
    #[serde(flatten)]
    inert: InertNamespaceProperties,
}

/// There is no MQTT here: to pass over it would mislead.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "for the schema alone")]
struct Mqtt {
    #[schemars(extend("x-inert" = true))]
    topic_spaces_configuration: Option<TopicSpaces>,
}

/// The properties that a namespace has in Azure and that have no effect here.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct InertNamespaceProperties {
    /// Kept and shown without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum_tls_version_allowed: Option<TlsVersion>,
    /// Kept and shown without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_zone_redundant: Option<bool>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "for the schema alone")]
struct TopicSpaces {
    #[schemars(extend("x-unsupported" = ["Enabled"], "x-hint" = "there is no MQTT"))]
    state: Option<TopicSpacesState>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "for the schema alone")]
enum TopicSpacesState {
    Disabled,
}

/// The properties that a namespace has only in answers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NamespaceAnswer {
    provisioning_state: Succeeded,
    topics_configuration: TopicsConfiguration,
}

#[derive(Serialize, JsonSchema)]
struct TopicsConfiguration {
    /// Where publishers find the namespace.
    hostname: String,
}

impl From<&NamespaceDefinition> for Namespace {
    fn from(definition: &NamespaceDefinition) -> Self {
        Self {
            location: definition.location.clone(),
            tags: definition.tags.clone(),
            sku: Sku {
                name: SkuName::Standard,
                capacity: definition.capacity,
            },
            inert: from_inert(&definition.inert),
            properties: NamespaceProperties {
                network: (&definition.network_access).into(),
                inert: from_inert(&definition.inert),
            },
        }
    }
}

impl From<Namespace> for NamespaceDefinition {
    fn from(namespace: Namespace) -> Self {
        let Namespace {
            location,
            tags,
            sku,
            inert,
            properties,
        } = namespace;
        let mut all = to_inert(&inert);
        all.extend(to_inert(&properties.inert));
        Self {
            location,
            tags,
            capacity: sku.capacity,
            network_access: properties.network.into(),
            inert: all,
            as_written: AsWritten::default(),
        }
    }
}

impl From<Authored<Namespace>> for NamespaceDefinition {
    fn from(read: Authored<Namespace>) -> Self {
        Self {
            as_written: as_written::to_text(&read.own),
            ..read.document.into()
        }
    }
}

/// Reads the body of a PUT.
pub fn parse_namespace(body: &Value) -> Result<NamespaceDefinition, InvalidResource> {
    document::put::<Namespace>(body, None, &RuleContext::NONE).map(NamespaceDefinition::from)
}

/// Applies the body of a PATCH, which does not move a namespace.
pub fn patch_namespace(
    current: &NamespaceDefinition,
    body: &Value,
) -> Result<NamespaceDefinition, InvalidResource> {
    let (merged, own) = (
        &["", "properties"],
        as_written::from_text(&current.as_written),
    );
    let current_document = Authored {
        document: Namespace::from(current),
        own,
    };
    let patched = document::patch(&current_document, body, &RuleContext::NONE, merged)?;
    Ok(NamespaceDefinition {
        location: current.location.clone(),
        ..patched.into()
    })
}

/// The form in which the store keeps a definition.
pub fn namespace_to_text(definition: &NamespaceDefinition) -> String {
    document::to_authored_text(&Namespace::from(definition), &definition.as_written)
}

/// Reads what [`namespace_to_text`] wrote.
pub fn namespace_from_text(text: &str) -> Result<NamespaceDefinition, InvalidResource> {
    document::from_authored_text::<Namespace>(text).map(NamespaceDefinition::from)
}

/// The answer that shows a namespace as it was written. `hostname` is where publishers find it.
pub fn render_namespace(entry: &NamespaceEntry, hostname: &str) -> Value {
    let own = as_written::from_text(&entry.namespace.definition.as_written);
    let (whole, schema) = (whole_namespace(entry, hostname), schema_of::<Namespace>());
    as_written::answer(whole, &own, schema, AnswerScope::Set)
}

/// A namespace with all that its definition has.
pub fn whole_namespace(entry: &NamespaceEntry, hostname: &str) -> Value {
    let namespace = &entry.namespace;
    let Namespace {
        location,
        tags,
        sku,
        inert,
        properties: set,
    } = Namespace::from(&namespace.definition);
    let answer = NamespaceAnswer {
        provisioning_state: Succeeded::Succeeded,
        topics_configuration: TopicsConfiguration {
            hostname: hostname.to_owned(),
        },
    };
    let properties = Answered { set, answer };
    json!(Resource {
        id: entry.resource_id.to_string(),
        name: namespace.name.as_str().to_owned(),
        r#type: "Microsoft.EventGrid/namespaces".to_owned(),
        system_data: SystemData::new(namespace.created_at, namespace.updated_at),
        document: Namespace {
            location,
            tags,
            sku,
            inert,
            properties
        },
    })
}
