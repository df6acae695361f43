//! Elements that the documents of Azure Resource Manager have in common.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::base::Timestamp;

/// An object whose properties are Azure's business.
pub(super) type Object = Map<String, Value>;

/// The description of a valid location.
pub(super) const LOCATION: &str = "the name of a region; any name will do";

// A document that has `properties` alone.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{P}")]
pub(crate) struct Envelope<P> {
    pub(super) properties: P,
}

impl<'a, M, P: From<&'a M>> From<&'a M> for Envelope<P> {
    fn from(model: &'a M) -> Self {
        Self {
            properties: P::from(model),
        }
    }
}

// A resource as answers show it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "{D}")]
pub(crate) struct Resource<D> {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) r#type: String,
    pub(super) system_data: SystemData,
    #[serde(flatten)]
    pub(super) document: D,
}

// The properties that were set, and those that answers alone have.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{P}", inline)]
pub(crate) struct Answered<P, A> {
    #[serde(flatten)]
    pub(super) set: P,
    #[serde(flatten)]
    pub(super) answer: A,
}

/// When a resource was created and changed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SystemData {
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    #[schemars(extend("format" = "date-time"))]
    last_modified_at: String,
}

impl SystemData {
    pub(super) fn new(created_at: Timestamp, updated_at: Timestamp) -> Self {
        Self {
            created_at: created_at.to_azure(),
            last_modified_at: updated_at.to_azure(),
        }
    }
}

/// The state of resources that are there at once.
#[derive(Serialize, JsonSchema)]
pub(super) enum Succeeded {
    Succeeded,
}

/// Versions of TLS that Azure knows. Everpost never speaks one below 1.2.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub(super) enum TlsVersion {
    #[serde(rename = "1.0")]
    V1_0,
    #[serde(rename = "1.1")]
    V1_1,
    #[serde(rename = "1.2")]
    V1_2,
}

/// Adds the properties of `T` to a schema, for what requests or answers have besides.
pub(super) fn add_properties<T: JsonSchema>(schema: &mut Schema) {
    add(schema, properties_of::<T>());
}

/// Closes an object of ours: but for the properties of `T`, which answers show and requests may repeat, what
/// is not known is rejected.
pub(super) fn close_but_for<T: JsonSchema>(schema: &mut Schema) {
    let mut shown = properties_of::<T>();
    for property in shown.values_mut() {
        property["readOnly"] = json!(true);
    }
    add(schema, shown);
    schema.insert("x-closed".to_owned(), json!(true));
}

fn add(schema: &mut Schema, added: Map<String, Value>) {
    let properties = schema.ensure_object().entry("properties");
    if let Value::Object(properties) = properties.or_insert_with(|| json!({})) {
        properties.extend(added);
    }
}

fn properties_of<T: JsonSchema>() -> Map<String, Value> {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = T::json_schema(&mut settings.into_generator()).to_value();
    match schema["properties"].take() {
        Value::Object(properties) => properties,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

/// Properties without effect, as the model keeps them: JSON text by their names.
pub(super) fn to_inert(properties: &impl Serialize) -> BTreeMap<String, String> {
    let document = json!(properties);
    let members = document.as_object().into_iter().flatten();
    members
        .map(|(name, value)| (name.clone(), value.to_string()))
        .collect()
}

/// Reads what [`to_inert`] made; other names are passed over.
pub(super) fn from_inert<T: DeserializeOwned + Default>(inert: &BTreeMap<String, String>) -> T {
    let value =
        |(name, text): (&String, &String)| Some((name.clone(), serde_json::from_str(text).ok()?));
    let properties = inert.iter().filter_map(value).collect();
    serde_json::from_value(Value::Object(properties)).unwrap_or_default()
}

/// A list of resources, or a page of it (rule 3.1).
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(crate) struct ResourceList<R> {
    value: Vec<R>,
    /// The URL of the next page; `null` at the end.
    next_link: Option<String>,
}

impl<R> ResourceList<R> {
    pub(crate) fn page(resources: impl IntoIterator<Item = R>, next_link: Option<String>) -> Self {
        let value = resources.into_iter().collect();
        Self { value, next_link }
    }
}

impl<R> FromIterator<R> for ResourceList<R> {
    fn from_iter<I: IntoIterator<Item = R>>(resources: I) -> Self {
        Self::page(resources, None)
    }
}
