//! Namespaces as Azure Resource Manager writes them (rule N1).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fields::{Fields, Origin};
use super::topic::read_location;
use super::{InvalidResource, TLS_VERSIONS, network, read_stored, render_system_data};
use crate::model::limits::THROUGHPUT_UNITS_MAX;
use crate::model::namespace::NamespaceDefinition;
use crate::model::registry::NamespaceEntry;

/// Names of the envelope.
const ENVELOPE: [&str; 9] = [
    "id",
    "name",
    "type",
    "location",
    "tags",
    "identity",
    "sku",
    "systemData",
    "properties",
];

/// Names inside `properties`; those after `isZoneRedundant` are answers only, or must not ask for
/// anything.
const PROPERTIES: [&str; 8] = [
    "publicNetworkAccess",
    "inboundIpRules",
    "minimumTlsVersionAllowed",
    "isZoneRedundant",
    "topicsConfiguration",
    TOPIC_SPACES,
    "privateEndpointConnections",
    "provisioningState",
];

const TOPIC_SPACES: &str = "topicSpacesConfiguration";

/// Kept and shown without effect, inside `properties`.
const INERT_PROPERTIES: [&str; 2] = ["minimumTlsVersionAllowed", "isZoneRedundant"];

const IDENTITY: &str = "identity";

/// Reads the body of a PUT.
pub fn parse_namespace(body: &Value) -> Result<NamespaceDefinition, InvalidResource> {
    read(&Fields::root(body, Origin::Request)?, None)
}

/// Applies the body of a PATCH: a property that is given replaces its whole old value, `null` restores
/// its default, the others stay.
pub fn patch_namespace(
    current: &NamespaceDefinition,
    body: &Value,
) -> Result<NamespaceDefinition, InvalidResource> {
    read(&Fields::root(body, Origin::Request)?, Some(current))
}

/// The answer that shows a namespace. `hostname` is where publishers find it.
pub fn render_namespace(entry: &NamespaceEntry, hostname: &str) -> Value {
    let namespace = &entry.namespace;
    let mut document = render_definition(&namespace.definition);
    document["id"] = json!(&*entry.resource_id);
    document["name"] = json!(namespace.name.as_str());
    document["type"] = json!("Microsoft.EventGrid/namespaces");
    document["systemData"] = render_system_data(namespace.created_at, namespace.updated_at);
    let properties = &mut document["properties"];
    properties["provisioningState"] = json!("Succeeded");
    properties["topicsConfiguration"] = json!({ "hostname": hostname });
    document
}

/// The form in which the store keeps a definition.
pub fn namespace_to_text(definition: &NamespaceDefinition) -> String {
    render_definition(definition).to_string()
}

/// Reads what [`namespace_to_text`] wrote.
pub fn namespace_from_text(text: &str) -> Result<NamespaceDefinition, InvalidResource> {
    let body = read_stored(text)?;
    read(&Fields::root(&body, Origin::Store)?, None)
}

fn read(
    body: &Fields,
    current: Option<&NamespaceDefinition>,
) -> Result<NamespaceDefinition, InvalidResource> {
    body.expect_names(&ENVELOPE)?;
    body.expect_inside("properties", &PROPERTIES)?;
    let properties = body.object_or_empty("properties")?;
    properties.expect_names(&PROPERTIES)?;
    refuse_topic_spaces(&properties)?;
    Ok(NamespaceDefinition {
        location: match current {
            Some(current) => current.location.clone(),
            None => read_location(body)?,
        },
        tags: body.updated("tags", current.map(|each| &each.tags), |body| {
            body.text_map("tags")
        })?,
        capacity: body.updated("sku", current.map(|each| &each.capacity), read_capacity)?,
        network_access: network::read(&properties, current.map(|each| &each.network_access))?,
        inert: read_inert(body, &properties, current.map(|each| &each.inert))?,
    })
}

fn read_capacity(body: &Fields) -> Result<u32, InvalidResource> {
    let sku = body.object_or_empty("sku")?;
    sku.expect_names(&["name", "capacity"])?;
    sku.choice("name", &[("Standard", ())])?;
    let capacity = sku.number("capacity", 1..=THROUGHPUT_UNITS_MAX)?;
    Ok(capacity.unwrap_or(1))
}

/// MQTT would change what the namespace does, so that to pass over it would mislead.
fn refuse_topic_spaces(properties: &Fields) -> Result<(), InvalidResource> {
    let Some(configuration) = properties.object(TOPIC_SPACES)? else {
        return Ok(());
    };
    let states = [("Disabled", false), ("Enabled", true)];
    match configuration.choice("state", &states)? {
        Some(true) => Err(configuration.invalid(
            "state",
            "MQTT is not supported here; leave it out, or set it to \"Disabled\"",
        )),
        Some(false) | None => Ok(()),
    }
}

/// Even without effect a value must be one that Azure knows.
fn read_inert(
    body: &Fields,
    properties: &Fields,
    current: Option<&BTreeMap<String, String>>,
) -> Result<BTreeMap<String, String>, InvalidResource> {
    properties.choice("minimumTlsVersionAllowed", &TLS_VERSIONS)?;
    properties.flag("isZoneRedundant")?;
    body.object(IDENTITY)?;
    let mut inert = current.cloned().unwrap_or_default();
    let inside = INERT_PROPERTIES.map(|name| (name, properties));
    for (name, place) in inside.into_iter().chain([(IDENTITY, body)]) {
        if let Some(value) = place.value(name) {
            inert.insert(name.to_owned(), value.to_string());
        } else if !place.is_absent(name) {
            inert.remove(name);
        }
    }
    Ok(inert)
}

/// The document without its answer-only parts.
fn render_definition(definition: &NamespaceDefinition) -> Value {
    let mut document = json!({
        "location": definition.location,
        "tags": definition.tags,
        "sku": { "name": "Standard", "capacity": definition.capacity },
        "properties": {},
    });
    network::render(&mut document["properties"], &definition.network_access);
    for (name, text) in &definition.inert {
        let place = match name == IDENTITY {
            true => &mut document,
            false => &mut document["properties"],
        };
        place[name] = serde_json::from_str(text).unwrap_or_default();
    }
    document
}
