//! Topics as Azure Resource Manager writes them (rule 3.2).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::InvalidResource;
use super::as_written::{self, AnswerScope};
use super::document::{self, Authored};
use super::envelope::{
    Answered, Envelope, LOCATION, Object, Resource, Succeeded, SystemData, TlsVersion, from_inert,
    to_inert,
};
use super::mirror::documents;
use super::namespace_topic::{NamespaceTopic, NamespaceTopicProperties};
use super::network::Network;
use super::queue::render_queue;
use super::reader::schema_of;
use super::rules::{Context, Judged};
use super::service_bus::{ServiceBusTopicRequest, render_service_bus_topic};
use crate::model::as_written::AsWritten;
use crate::model::queue::{QueueCounts, SendRules};
use crate::model::registry::TopicEntry;
use crate::model::system_topic::SystemTopic;
use crate::model::topic::{
    CustomTopic, InputMapping, InputSchema, MappedField, TopicId, TopicKind, TopicKindName,
};

documents! {
    InputMapping => InputMappingDocument;
    MappedField => MappedFieldDocument;
}

/// The body of a PUT of a topic.
pub(crate) type TopicRequest = Topic;

/// A topic as answers show it.
pub(crate) type ShownTopic = Resource<Topic<Answered<TopicProperties, TopicAnswer>>>;

/// A namespace topic as answers show it.
pub(crate) type ShownNamespaceTopic =
    Resource<Envelope<Answered<NamespaceTopicProperties, TopicAnswer>>>;

/// A topic, to which publishers send events.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Topic")]
pub(crate) struct Topic<P = TopicProperties> {
    /// A region; any name will do.
    #[schemars(length(min = 1), extend("x-expected" = LOCATION))]
    location: String,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(flatten)]
    inert: InertTopic,
    properties: P,
}

/// The members that a topic has in Azure beside its properties.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
struct InertTopic {
    /// Kept and shown without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Object>,
    /// Kept and shown without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    sku: Option<Object>,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-rule" = "inputSchema"))]
pub(crate) struct TopicProperties {
    /// The schema of the events that publishers send; it cannot be changed later.
    #[schemars(extend("default" = "EventGridSchema", "x-kept" = [], "x-answered" = true))]
    input_schema: Option<Schema>,
    /// With `CustomEventSchema` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kept" = []))]
    input_schema_mapping: Option<InputSchemaMapping>,
    /// Rejects keys and signatures, so that only bearer tokens publish.
    #[serde(default)]
    #[schemars(extend("x-answered" = true))]
    disable_local_auth: bool,
    #[serde(flatten)]
    network: Network,
    #[serde(flatten)]
    inert: InertProperties,
}

/// The properties that a topic has in Azure and that have no effect here.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct InertProperties {
    /// Kept and shown without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum_tls_version_allowed: Option<TlsVersion>,
    /// Kept and shown without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_residency_boundary: Option<DataResidency>,
    /// Kept and shown without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_type_info: Option<Object>,
}

/// The types of events that `eventTypeInfo` describes, with what it says of each.
pub fn event_types(kind: &TopicKind) -> Map<String, Value> {
    let TopicKind::Custom(definition) = kind else {
        return Map::new();
    };
    let info = definition.inert.get("eventTypeInfo");
    let info: Option<Value> = info.and_then(|text| serde_json::from_str(text).ok());
    match info.map(|mut info| info["inlineEventTypes"].take()) {
        Some(Value::Object(types)) => types,
        _ => Map::new(),
    }
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
enum DataResidency {
    WithinGeopair,
    WithinRegion,
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InputSchema")]
enum Schema {
    #[serde(rename = "EventGridSchema")]
    EventGrid,
    #[serde(rename = "CloudEventSchemaV1_0")]
    CloudEvents,
    #[serde(rename = "CustomEventSchema")]
    Custom,
}

/// Which properties of a custom event are those of the envelope (rule 2.4).
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct InputSchemaMapping {
    #[serde(default)]
    input_schema_mapping_type: MappingType,
    #[schemars(extend("x-expected" = "the mapped properties"))]
    properties: InputMapping,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
enum MappingType {
    #[default]
    Json,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "InputMapping", rename_all = "camelCase")]
struct InputMappingDocument {
    #[serde(default, with = "source", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Source>")]
    id: Option<String>,
    #[serde(default, with = "source", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Source>")]
    topic: Option<String>,
    #[serde(default, with = "source", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Source>")]
    event_time: Option<String>,
    event_type: MappedField,
    subject: MappedField,
    data_version: MappedField,
}

/// A part of the envelope that has no default of the operator's.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SourceField", extend("x-rejected" = {
    "defaultValue": "only eventType, subject and dataVersion can have one; leave it out",
}))]
struct Source {
    #[schemars(length(min = 1), extend("x-expected" = SOURCE_FIELD))]
    source_field: Option<String>,
}

const SOURCE_FIELD: &str = "the name of a property of the event";

mod source {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Source;

    pub(super) fn serialize<S: Serializer>(
        source_field: &Option<String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Source {
            source_field: source_field.clone(),
        }
        .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<String>, D::Error> {
        let source: Option<Source> = Option::deserialize(deserializer)?;
        Ok(source.and_then(|source| source.source_field))
    }
}

/// At least one of both.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "MappedField", rename_all = "camelCase")]
#[schemars(rename = "MappedField", extend("x-rule" = "mappedField"))]
#[schemars(extend("x-expected" = "an object with sourceField, defaultValue or both"))]
struct MappedFieldDocument {
    #[schemars(length(min = 1), extend("x-expected" = SOURCE_FIELD))]
    source_field: Option<String>,
    default_value: Option<String>,
}

/// The properties that a topic has only in answers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TopicAnswer {
    /// Where to publish; built-in topics have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    built_in: Option<bool>,
    metric_resource_id: String,
    provisioning_state: Succeeded,
}

impl From<&CustomTopic> for Topic {
    fn from(definition: &CustomTopic) -> Self {
        let (schema, mapping) = match &definition.input_schema {
            InputSchema::EventGridSchema => (Schema::EventGrid, None),
            InputSchema::CloudEventSchemaV1_0 => (Schema::CloudEvents, None),
            InputSchema::CustomEventSchema(mapping) => {
                let mapping = InputSchemaMapping {
                    input_schema_mapping_type: MappingType::Json,
                    properties: (**mapping).clone(),
                };
                (Schema::Custom, Some(mapping))
            }
        };
        Self {
            location: definition.location.clone(),
            tags: definition.tags.clone(),
            inert: from_inert(&definition.inert),
            properties: TopicProperties {
                input_schema: Some(schema),
                input_schema_mapping: mapping,
                disable_local_auth: definition.disable_local_auth,
                network: (&definition.network_access).into(),
                inert: from_inert(&definition.inert),
            },
        }
    }
}

impl From<Topic> for CustomTopic {
    fn from(topic: Topic) -> Self {
        let Topic {
            location,
            tags,
            inert,
            properties,
        } = topic;
        let mut all = to_inert(&inert);
        all.extend(to_inert(&properties.inert));
        Self {
            location,
            tags,
            input_schema: match (properties.input_schema, properties.input_schema_mapping) {
                (Some(Schema::Custom), Some(mapping)) => {
                    InputSchema::CustomEventSchema(Box::new(mapping.properties))
                }
                (Some(Schema::CloudEvents), _) => InputSchema::CloudEventSchemaV1_0,
                (_, _) => InputSchema::EventGridSchema,
            },
            disable_local_auth: properties.disable_local_auth,
            network_access: properties.network.into(),
            inert: all,
            as_written: AsWritten::default(),
        }
    }
}

impl From<Authored<Topic>> for CustomTopic {
    fn from(read: Authored<Topic>) -> Self {
        Self {
            as_written: as_written::to_text(&read.own),
            ..read.document.into()
        }
    }
}

/// Judges the mapping, which has to go with the schema, and the schema, which an update cannot change.
pub(super) fn judge_input_schema(it: &mut Judged<'_>) {
    let before = it
        .before
        .filter(|_| it.is_update)
        .and_then(|before| before[SCHEMA].as_str());
    if let Some(before) = before.filter(|before| it.text(SCHEMA) != Some(before)) {
        return it.fault(SCHEMA, immutable(before));
    }
    match (it.text(SCHEMA), it.has(MAPPING)) {
        (Some("CustomEventSchema"), false) => {
            it.missing(MAPPING, "a mapping of the properties of CustomEventSchema");
        }
        (Some("EventGridSchema" | "CloudEventSchemaV1_0") | None, true) => {
            let problem = "only \"CustomEventSchema\" takes a mapping; leave it out, or set inputSchema \
                           to that";
            it.fault(MAPPING, problem);
        }
        _ => {}
    }
}

const SCHEMA: &str = "inputSchema";
const MAPPING: &str = "inputSchemaMapping";

fn immutable(schema: &str) -> String {
    format!("it cannot be changed once the topic exists; it was made for {schema}")
}

pub(super) fn judge_mapped_field(it: &mut Judged<'_>) {
    if !it.has("sourceField") && !it.has("defaultValue") {
        it.fault("", "it needs a sourceField, a defaultValue or both");
    }
}

/// Reads the body of a PUT of a custom topic.
pub fn parse_topic(body: &Value) -> Result<TopicKind, InvalidResource> {
    let read = document::put::<Topic>(body, None, &Context::NONE)?;
    Ok(TopicKind::Custom(read.into()))
}

/// Applies the body of a PATCH. It does not move a topic, and cannot change what its publishers send
/// (rule 3.2), because its subscriptions were made for that.
pub fn patch_topic(current: &TopicKind, body: &Value) -> Result<TopicKind, InvalidResource> {
    let merged = &["", "properties"];
    match current {
        TopicKind::Custom(topic) => patch_custom(topic, body, merged).map(TopicKind::Custom),
        // Whoever stores it rejects that.
        TopicKind::System(_) => {
            let shown = CustomTopic::default();
            patch_custom(&shown, body, merged).map(TopicKind::Custom)
        }
        TopicKind::Namespace { event_retention } => {
            let before = Authored {
                document: NamespaceTopic::from(event_retention),
                own: Value::Null,
            };
            let patched = document::patch(&before, body, &Context::NONE, merged);
            patched.map(|patched| patched.document.into())
        }
        TopicKind::Queue(_) | TopicKind::ServiceBus(_) => {
            let problem = "it is no topic of events, and is replaced as a whole";
            Err(InvalidResource::of("", problem))
        }
    }
}

fn patch_custom(
    current: &CustomTopic,
    body: &Value,
    merged: &[&str],
) -> Result<CustomTopic, InvalidResource> {
    let current_document = Authored {
        document: Topic::from(current),
        own: as_written::from_text(&current.as_written),
    };
    let document = document::patch(&current_document, body, &Context::NONE, merged)?;
    let patched = CustomTopic {
        location: current.location.clone(),
        ..CustomTopic::from(document)
    };
    if patched.input_schema == current.input_schema {
        Ok(patched)
    } else {
        let path = format!("properties.{MAPPING}");
        Err(InvalidResource::of(
            &path,
            immutable(current.input_schema.name()),
        ))
    }
}

/// The form in which the store keeps what a topic of each kind is defined by. Of a queue that is all that its own
/// subscription does not have.
pub fn topic_to_text(kind: &TopicKind) -> String {
    match kind {
        TopicKind::Custom(topic) => {
            document::to_authored_text(&Topic::from(topic), &topic.as_written)
        }
        TopicKind::Namespace { event_retention } => {
            document::to_text(&NamespaceTopic::from(event_retention))
        }
        TopicKind::Queue(sending) => document::to_text(&Envelope {
            properties: sending.clone(),
        }),
        TopicKind::ServiceBus(topic) => {
            document::to_authored_text(&ServiceBusTopicRequest::from(topic), &topic.as_written)
        }
        TopicKind::System(_) => "{}".to_owned(),
    }
}

/// Reads what [`topic_to_text`] wrote of the topic with this id.
pub fn topic_from_text(
    id: TopicId,
    kind: TopicKindName,
    text: &str,
) -> Result<TopicKind, InvalidResource> {
    Ok(match kind {
        TopicKindName::Custom => {
            TopicKind::Custom(document::from_authored_text::<Topic>(text)?.into())
        }
        TopicKindName::Namespace => document::from_text::<NamespaceTopic>(text)?.into(),
        TopicKindName::Queue => {
            TopicKind::Queue(document::from_text::<Envelope<SendRules>>(text)?.properties)
        }
        TopicKindName::ServiceBus => {
            let read = document::from_authored_text::<ServiceBusTopicRequest>(text)?;
            TopicKind::ServiceBus(read.into())
        }
        TopicKindName::System => {
            let known = SystemTopic::of(id);
            let unknown = || InvalidResource::of("id", "there is no built-in topic of this id");
            TopicKind::System(known.ok_or_else(unknown)?)
        }
    })
}

/// The answer that shows a topic of events as it was written. `endpoint` is the URL to publish to, which a built-in one
/// has not. Queues and topics of Service Bus are shown by answers of their own.
pub fn render_topic(entry: &TopicEntry, endpoint: &str) -> Option<Value> {
    let whole = whole_topic(entry, endpoint)?;
    Some(match &entry.topic.kind {
        TopicKind::Custom(topic) => {
            let own = as_written::from_text(&topic.as_written);
            as_written::answer(whole, &own, schema_of::<Topic>(), AnswerScope::Set)
        }
        TopicKind::System(_) => {
            as_written::answer(whole, &Value::Null, schema_of::<Topic>(), AnswerScope::Set)
        }
        TopicKind::Namespace { .. } | TopicKind::Queue(_) | TopicKind::ServiceBus(_) => whole,
    })
}

/// A topic of events with all that its definition has.
fn whole_topic(entry: &TopicEntry, endpoint: &str) -> Option<Value> {
    let is_built_in = entry.topic.kind.is_built_in();
    let answer = TopicAnswer {
        endpoint: (!is_built_in).then(|| endpoint.to_owned()),
        built_in: is_built_in.then_some(true),
        metric_resource_id: metric_resource_id(entry.topic.id),
        provisioning_state: Succeeded::Succeeded,
    };
    let custom = |definition: &CustomTopic, answer| {
        let Topic {
            location,
            tags,
            inert,
            properties: set,
        } = Topic::from(definition);
        let document = Topic {
            location,
            tags,
            inert,
            properties: Answered { set, answer },
        };
        json!(resource(entry, "Microsoft.EventGrid/topics", document))
    };
    match &entry.topic.kind {
        TopicKind::Custom(definition) => Some(custom(definition, answer)),
        TopicKind::System(_) => Some(custom(&CustomTopic::default(), answer)),
        TopicKind::Namespace { event_retention } => {
            let set = NamespaceTopicProperties::from(event_retention);
            let document = Envelope {
                properties: Answered { set, answer },
            };
            let kind = "Microsoft.EventGrid/namespaces/topics";
            Some(json!(resource(entry, kind, document)))
        }
        TopicKind::Queue(_) | TopicKind::ServiceBus(_) => None,
    }
}

/// A topic of any kind or a queue with all that its definition has, as if nothing lay in it.
pub fn whole_entity(entry: &TopicEntry, endpoint: &str) -> Option<Value> {
    match &entry.topic.kind {
        TopicKind::Custom(_) | TopicKind::Namespace { .. } | TopicKind::System(_) => {
            whole_topic(entry, endpoint)
        }
        TopicKind::Queue(_) => render_queue(entry, entry.own.as_ref()?, QueueCounts::default()),
        TopicKind::ServiceBus(topic) => Some(render_service_bus_topic(
            entry,
            topic,
            QueueCounts::default(),
        )),
    }
}

fn resource<D>(entry: &TopicEntry, kind: &str, document: D) -> Resource<D> {
    let topic = &entry.topic;
    Resource {
        id: entry.resource_id.to_string(),
        name: topic.name.own().to_owned(),
        r#type: kind.to_owned(),
        system_data: SystemData::new(topic.created_at, topic.updated_at),
        document,
    }
}

/// Azure gives every topic a UUID for its metrics; here it is the topic's number in that form.
fn metric_resource_id(id: TopicId) -> String {
    Uuid::from_u128(u128::from(id.0.cast_unsigned())).to_string()
}
