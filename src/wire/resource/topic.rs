//! Topics as Azure Resource Manager writes them (rule 3.2).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::fields::{Fields, Origin};
use super::{InvalidResource, TLS_VERSIONS, read_stored, render_system_data};
use super::{namespace_topic, network};
use crate::model::access::{AccessKeys, KeyName};
use crate::model::registry::TopicEntry;
use crate::model::topic::{InputMapping, InputSchema, MappedField, TopicDefinition, TopicId};

/// Names of the envelope.
const ENVELOPE: [&str; 11] = [
    "id",
    "name",
    "type",
    "location",
    "tags",
    "identity",
    "sku",
    "kind",
    "extendedLocation",
    "systemData",
    "properties",
];

/// Names inside `properties`; the last six are answers only.
const PROPERTIES: [&str; 13] = [
    "inputSchema",
    "inputSchemaMapping",
    "publicNetworkAccess",
    "inboundIpRules",
    "disableLocalAuth",
    "minimumTlsVersionAllowed",
    "dataResidencyBoundary",
    "eventTypeInfo",
    "builtIn",
    "endpoint",
    "metricResourceId",
    "privateEndpointConnections",
    "provisioningState",
];

/// Kept and shown without effect, on the envelope.
const INERT_ENVELOPE: [&str; 2] = ["identity", "sku"];

/// Kept and shown without effect, inside `properties`.
const INERT_PROPERTIES: [&str; 3] = [
    "minimumTlsVersionAllowed",
    "dataResidencyBoundary",
    "eventTypeInfo",
];

#[derive(Clone, Copy)]
enum SchemaKind {
    EventGrid,
    CloudEvents,
    Custom,
}

const SCHEMA_KINDS: [(&str, SchemaKind); 3] = [
    ("EventGridSchema", SchemaKind::EventGrid),
    ("CloudEventSchemaV1_0", SchemaKind::CloudEvents),
    ("CustomEventSchema", SchemaKind::Custom),
];

/// Reads the body of a PUT.
pub fn parse_topic(body: &Value) -> Result<TopicDefinition, InvalidResource> {
    read(&Fields::root(body, Origin::Request)?, None)
}

/// Applies the body of a PATCH: a property that is given replaces its whole old value, `null` restores
/// its default, the others stay. What publishers send cannot be changed (rule 3.2), because the
/// subscriptions were made for it; to repeat it as it is does no harm.
pub fn patch_topic(
    current: &TopicDefinition,
    body: &Value,
) -> Result<TopicDefinition, InvalidResource> {
    let body = Fields::root(body, Origin::Request)?;
    refuse_schema_change(&body.object_or_empty("properties")?, &current.input_schema)?;
    read(&body, Some(current))
}

/// The answer that shows a topic of either kind. `endpoint` is the URL to publish to, which a built-in
/// one has not.
pub fn render_topic(entry: &TopicEntry, endpoint: &str) -> Value {
    let topic = &entry.topic;
    let (mut document, kind) = match topic.definition.event_retention {
        Some(retention) => (
            namespace_topic::render_definition(retention),
            "Microsoft.EventGrid/namespaces/topics",
        ),
        None => (
            render_definition(&topic.definition),
            "Microsoft.EventGrid/topics",
        ),
    };
    document["id"] = json!(&*entry.resource_id);
    document["name"] = json!(topic.name.own());
    document["type"] = json!(kind);
    document["systemData"] = render_system_data(topic.created_at, topic.updated_at);
    let properties = &mut document["properties"];
    properties["provisioningState"] = json!("Succeeded");
    properties["metricResourceId"] = json!(metric_resource_id(topic.id));
    match topic.is_built_in() {
        true => properties["builtIn"] = json!(true), // an extension
        false => properties["endpoint"] = json!(endpoint),
    }
    document
}

/// Azure gives every topic a UUID for its metrics; here it is the topic's number in that form.
fn metric_resource_id(id: TopicId) -> String {
    Uuid::from_u128(u128::from(id.0.cast_unsigned())).to_string()
}

/// The answer to `listKeys` and `regenerateKey`.
pub fn render_keys(keys: &AccessKeys) -> Value {
    json!({ "key1": keys.key1.reveal(), "key2": keys.key2.reveal() })
}

/// Reads the body of `regenerateKey`.
pub fn parse_key_name(body: &Value) -> Result<KeyName, InvalidResource> {
    let options = [("key1", KeyName::Key1), ("key2", KeyName::Key2)];
    let body = Fields::root(body, Origin::Request)?;
    body.expect_names(&["keyName"])?;
    body.choice("keyName", &options)?
        .ok_or_else(|| body.missing("keyName", "\"key1\" or \"key2\""))
}

/// The form in which the store keeps a definition.
pub fn topic_to_text(definition: &TopicDefinition) -> String {
    match definition.event_retention {
        Some(retention) => namespace_topic::render_definition(retention).to_string(),
        None => render_definition(definition).to_string(),
    }
}

/// Reads what [`topic_to_text`] wrote.
pub fn topic_from_text(text: &str) -> Result<TopicDefinition, InvalidResource> {
    let body = read_stored(text)?;
    let body = Fields::root(&body, Origin::Store)?;
    match namespace_topic::is_meant(&body)? {
        true => namespace_topic::read(&body),
        false => read(&body, None),
    }
}

fn read(
    body: &Fields,
    current: Option<&TopicDefinition>,
) -> Result<TopicDefinition, InvalidResource> {
    body.expect_names(&ENVELOPE)?;
    body.expect_inside("properties", &PROPERTIES)?;
    let properties = body.object_or_empty("properties")?;
    properties.expect_names(&PROPERTIES)?;
    Ok(TopicDefinition {
        location: match current {
            Some(current) => current.location.clone(),
            None => read_location(body)?,
        },
        tags: body.updated("tags", current.map(|each| &each.tags), |body| {
            body.text_map("tags")
        })?,
        input_schema: match current {
            Some(current) => current.input_schema.clone(),
            None => read_input_schema(&properties)?,
        },
        disable_local_auth: properties.updated(
            "disableLocalAuth",
            current.map(|each| &each.disable_local_auth),
            |properties| Ok(properties.flag("disableLocalAuth")?.unwrap_or(false)),
        )?,
        network_access: network::read(&properties, current.map(|each| &each.network_access))?,
        event_retention: None,
        inert: read_inert(body, &properties, current.map(|each| &each.inert))?,
    })
}

pub(super) fn read_location(body: &Fields) -> Result<String, InvalidResource> {
    let location = body.required_text("location", "the name of a region; any name will do");
    let required = |error| InvalidResource {
        code: "LocationRequired",
        ..error
    };
    Ok(location.map_err(required)?.to_owned())
}

fn read_input_schema(properties: &Fields) -> Result<InputSchema, InvalidResource> {
    let kind = properties.choice("inputSchema", &SCHEMA_KINDS)?;
    let mapping = properties.object("inputSchemaMapping")?;
    match (kind.unwrap_or(SchemaKind::EventGrid), mapping) {
        (SchemaKind::EventGrid, None) => Ok(InputSchema::EventGridSchema),
        (SchemaKind::CloudEvents, None) => Ok(InputSchema::CloudEventSchemaV1_0),
        (SchemaKind::Custom, Some(mapping)) => Ok(InputSchema::CustomEventSchema(Box::new(
            read_mapping(&mapping)?,
        ))),
        (SchemaKind::Custom, None) => Err(properties.missing(
            "inputSchemaMapping",
            "a mapping of the properties of CustomEventSchema",
        )),
        (SchemaKind::EventGrid | SchemaKind::CloudEvents, Some(_)) => Err(properties.invalid(
            "inputSchemaMapping",
            "only \"CustomEventSchema\" takes a mapping; leave it out, or set inputSchema to that",
        )),
    }
}

fn read_mapping(mapping: &Fields) -> Result<InputMapping, InvalidResource> {
    mapping.expect_names(&["inputSchemaMappingType", "properties"])?;
    mapping.choice("inputSchemaMappingType", &[("Json", ())])?;
    let targets = mapping.object("properties")?;
    let targets = targets.ok_or_else(|| mapping.missing("properties", "the mapped properties"))?;
    targets.expect_names(&[
        "id",
        "topic",
        "eventTime",
        "eventType",
        "subject",
        "dataVersion",
    ])?;
    Ok(InputMapping {
        id: read_source(&targets, "id")?,
        topic: read_source(&targets, "topic")?,
        event_time: read_source(&targets, "eventTime")?,
        event_type: read_mapped_field(&targets, "eventType")?,
        subject: read_mapped_field(&targets, "subject")?,
        data_version: read_mapped_field(&targets, "dataVersion")?,
    })
}

/// A part of the envelope that has no default of the operator's.
fn read_source(targets: &Fields, name: &str) -> Result<Option<String>, InvalidResource> {
    let Some(field) = targets.object(name)? else {
        return Ok(None);
    };
    field.expect_names(&["sourceField"])?;
    if field.value("defaultValue").is_some() {
        return Err(field.invalid(
            "defaultValue",
            "only eventType, subject and dataVersion can have one; leave it out",
        ));
    }
    source_field(&field)
}

fn read_mapped_field(targets: &Fields, name: &str) -> Result<MappedField, InvalidResource> {
    let missing = || {
        let expected = "an object with sourceField, defaultValue or both";
        targets.missing(name, expected)
    };
    let field = targets.object(name)?.ok_or_else(missing)?;
    field.expect_names(&["sourceField", "defaultValue"])?;
    let mapped = MappedField {
        source_field: source_field(&field)?,
        default_value: field.text("defaultValue")?.map(str::to_owned),
    };
    if mapped == MappedField::default() {
        return Err(targets.invalid(name, "it needs a sourceField, a defaultValue or both"));
    }
    Ok(mapped)
}

fn source_field(field: &Fields) -> Result<Option<String>, InvalidResource> {
    match field.text("sourceField")? {
        Some("") => Err(field.invalid(
            "sourceField",
            "it is empty; name a property of the event or leave it out",
        )),
        source => Ok(source.map(str::to_owned)),
    }
}

fn refuse_schema_change(properties: &Fields, current: &InputSchema) -> Result<(), InvalidResource> {
    let immutable = |name| {
        let known = current.name();
        let problem =
            format!("it cannot be changed once the topic exists; it was made for {known}");
        Err(properties.invalid(name, problem))
    };
    if let Some(name) = properties.text("inputSchema")?
        && !name.eq_ignore_ascii_case(current.name())
    {
        return immutable("inputSchema");
    }
    let Some(mapping) = properties.object("inputSchemaMapping")? else {
        return Ok(());
    };
    match current {
        InputSchema::CustomEventSchema(kept) if read_mapping(&mapping)? == **kept => Ok(()),
        InputSchema::CustomEventSchema(_)
        | InputSchema::EventGridSchema
        | InputSchema::CloudEventSchemaV1_0 => immutable("inputSchemaMapping"),
    }
}

fn read_inert(
    body: &Fields,
    properties: &Fields,
    current: Option<&BTreeMap<String, String>>,
) -> Result<BTreeMap<String, String>, InvalidResource> {
    check_inert(body, properties)?;
    let mut inert = current.cloned().unwrap_or_default();
    let on_envelope = INERT_ENVELOPE.map(|name| (name, body));
    let inside = INERT_PROPERTIES.map(|name| (name, properties));
    for (name, place) in on_envelope.into_iter().chain(inside) {
        if let Some(value) = place.value(name) {
            inert.insert(name.to_owned(), value.to_string());
        } else if !place.is_absent(name) {
            inert.remove(name);
        }
    }
    Ok(inert)
}

/// Even without effect a value must be one that Azure knows.
fn check_inert(body: &Fields, properties: &Fields) -> Result<(), InvalidResource> {
    let boundaries = [("WithinGeopair", ()), ("WithinRegion", ())];
    properties.choice("minimumTlsVersionAllowed", &TLS_VERSIONS)?;
    properties.choice("dataResidencyBoundary", &boundaries)?;
    properties.object("eventTypeInfo")?;
    body.object("identity")?;
    body.object("sku")?;
    Ok(())
}

/// What the operator decided, in Azure's shape: the document without its answer-only parts.
fn render_definition(definition: &TopicDefinition) -> Value {
    let mut document = json!({
        "location": definition.location,
        "tags": definition.tags,
        "properties": {
            "inputSchema": definition.input_schema.name(),
            "inputSchemaMapping": render_mapping(&definition.input_schema),
            "disableLocalAuth": definition.disable_local_auth,
        },
    });
    network::render(&mut document["properties"], &definition.network_access);
    for (name, text) in &definition.inert {
        let place = match INERT_ENVELOPE.contains(&name.as_str()) {
            true => &mut document,
            false => &mut document["properties"],
        };
        place[name] = serde_json::from_str(text).unwrap_or_default();
    }
    document
}

/// The mapping of custom events (rule 2.4); `null` for the other schemas, which have none.
fn render_mapping(schema: &InputSchema) -> Value {
    let InputSchema::CustomEventSchema(mapping) = schema else {
        return Value::Null;
    };
    let mut targets = json!({
        "eventType": render_mapped_field(&mapping.event_type),
        "subject": render_mapped_field(&mapping.subject),
        "dataVersion": render_mapped_field(&mapping.data_version),
    });
    let sources = [
        ("id", &mapping.id),
        ("topic", &mapping.topic),
        ("eventTime", &mapping.event_time),
    ];
    for (name, source) in sources {
        if let Some(source) = source {
            targets[name] = json!({ "sourceField": source });
        }
    }
    json!({ "inputSchemaMappingType": "Json", "properties": targets })
}

fn render_mapped_field(field: &MappedField) -> Value {
    json!({ "sourceField": field.source_field, "defaultValue": field.default_value })
}
