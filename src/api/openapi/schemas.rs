//! The schemas of the document, made from the types of requests and answers.
//!
//! A type looks different in requests, where what has a default may be left out, and in answers, where the rest
//! of it is always there. Where that makes a difference, the schema of requests gets a name of its own.

use std::collections::BTreeSet;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Where the document has its schemas.
const PUBLISHED: &str = "#/components/schemas/";

/// Where references of requests lead until all schemas are known.
const REQUESTED: &str = "#/components/requests/";

/// The suffix for the name of a request's schema if answers have a different schema of that name.
const DEFINITION: &str = "Definition";

/// The schemas that have been asked for, and those that they speak of.
pub(crate) struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let generator = |settings: SchemaSettings, path: &str| {
            let path = path
                .trim_start_matches('#')
                .trim_end_matches('/')
                .to_owned();
            settings
                .with(|settings| settings.definitions_path = path.into())
                .into_generator()
        };
        let draft = SchemaSettings::draft2020_12;
        Self {
            requests: generator(draft(), REQUESTED),
            answers: generator(draft().for_serialize(), PUBLISHED),
        }
    }

    /// Returns the schema of a request body.
    pub(crate) fn request<T: JsonSchema>(&mut self) -> Value {
        let mut schema = self.requests.subschema_for::<T>().to_value();
        publish(&mut schema, false);
        schema
    }

    /// Returns the schema of a response body.
    pub(crate) fn answer<T: JsonSchema>(&mut self) -> Value {
        let mut schema = self.answers.subschema_for::<T>().to_value();
        publish(&mut schema, true);
        schema
    }

    /// Returns the schema of the body of a PATCH: no property is required, and `null` restores the default.
    pub(crate) fn update<T: JsonSchema>(&mut self) -> Value {
        let mut schema = T::json_schema(&mut self.requests).to_value();
        loosen(&mut schema);
        publish(&mut schema, false);
        schema
    }

    /// Returns the parameters of a query, which are the properties of `T`.
    pub(crate) fn parameters<T: JsonSchema>(&mut self) -> Vec<Value> {
        let mut schema = T::json_schema(&mut self.requests).to_value();
        publish(&mut schema, false);
        let required = schema["required"].take();
        let properties = schema["properties"].as_object().cloned();
        let parameter = |(name, mut schema): (String, Value)| {
            let description = schema
                .as_object_mut()
                .and_then(|it| it.remove("description"));
            let is_required = required
                .as_array()
                .is_some_and(|names| names.contains(&json!(name)));
            json!({
                "in": "query", "name": name, "required": is_required,
                "description": description, "schema": without_null(schema),
            })
        };
        properties.into_iter().flatten().map(parameter).collect()
    }

    /// All schemas by their names; references of requests in `document` are set right.
    pub(super) fn finish(mut self, document: &mut Value) -> Map<String, Value> {
        let mut requests = self.requests.take_definitions(false);
        let mut answers = self.answers.take_definitions(false);
        requests
            .values_mut()
            .for_each(|schema| publish(schema, false));
        answers
            .values_mut()
            .for_each(|schema| publish(schema, true));
        let own = own_names(&requests, &answers);
        let settle = |text: &str| {
            let name = text.strip_prefix(REQUESTED)?;
            let ending = if own.contains(name) { DEFINITION } else { "" };
            Some(format!("{PUBLISHED}{name}{ending}"))
        };
        replace_references(document, &settle);
        for (name, mut schema) in requests {
            replace_references(&mut schema, &settle);
            let ending = if own.contains(&name) { DEFINITION } else { "" };
            answers.insert(format!("{name}{ending}"), schema);
        }
        answers
    }
}

/// The names of requests' schemas that are not what answers have under the same name, nor speak of such.
fn own_names(requests: &Map<String, Value>, answers: &Map<String, Value>) -> BTreeSet<String> {
    let mut own = BTreeSet::new();
    loop {
        let settle = |text: &str| {
            let name = text.strip_prefix(REQUESTED)?;
            (!own.contains(name)).then(|| format!("{PUBLISHED}{name}"))
        };
        let differs = |(name, schema): &(&String, &Value)| {
            let mut schema = (*schema).clone();
            replace_references(&mut schema, &settle);
            answers.get(*name).is_some_and(|answer| *answer != schema)
        };
        let found: BTreeSet<String> = requests
            .iter()
            .filter(differs)
            .map(|(name, _)| name.clone())
            .collect();
        if found == own {
            return own;
        }
        own = found;
    }
}

fn replace_references(schema: &mut Value, settle: &dyn Fn(&str) -> Option<String>) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get_mut("$ref")
                && let Some(settled) = settle(reference)
            {
                *reference = settled;
            }
            object
                .values_mut()
                .for_each(|each| replace_references(each, settle));
        }
        Value::Array(list) => list
            .iter_mut()
            .for_each(|each| replace_references(each, settle)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Turns a schema into what readers of the document are to see.
fn publish(schema: &mut Value, is_answer: bool) {
    if *schema == Value::Bool(true) {
        *schema = json!({});
    }
    let Value::Object(object) = schema else {
        return;
    };
    let optional = if is_answer {
        left_out_in_answers(object)
    } else {
        read_as_empty(object)
    };
    object.retain(|keyword, _| !keyword.starts_with("x-") && keyword != "title");
    if is_answer || object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    let is_format_of_rust = |format: &Value| format.as_str().is_some_and(is_format_of_rust);
    if object.get("format").is_some_and(is_format_of_rust) {
        object.remove("format");
    }
    if let Some(word) = object.remove("const") {
        object.insert("enum".to_owned(), json!([word]));
    }
    let other_side = if is_answer { "writeOnly" } else { "readOnly" };
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.retain(|_, property| property[other_side] != true);
        let names: BTreeSet<&String> = properties.keys().collect();
        let names: Vec<Value> = names.into_iter().map(|name| json!(name)).collect();
        properties
            .values_mut()
            .for_each(|property| publish(property, is_answer));
        if let Some(Value::Array(required)) = object.get_mut("required") {
            required.retain(|name| names.contains(name) && !optional.contains(name));
        }
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(forms)) = object.get_mut(keyword) {
            forms.iter_mut().for_each(|form| publish(form, is_answer));
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(keyword)
            && inner.is_object()
        {
            publish(inner, is_answer);
        }
    }
    merge_forms(object);
    if is_answer && object.contains_key("properties") {
        object.entry("additionalProperties").or_insert(json!(false));
    }
    if is_answer && let Some(Value::Array(forms)) = object.get_mut("anyOf") {
        let objects = forms
            .iter_mut()
            .filter(|form| form["properties"].is_object());
        objects.for_each(|form| form["additionalProperties"] = json!(false));
    }
}

/// The properties that answers may leave out while nobody has set them: those with a default and those that may be
/// null, unless Azure always answers them.
fn left_out_in_answers(object: &Map<String, Value>) -> Vec<Value> {
    let properties = object.get("properties").and_then(Value::as_object);
    let optional = properties.into_iter().flatten().filter(|(_, property)| {
        let is_unset = property.get("default").is_some() || may_be_null(property);
        is_unset && property["x-answered"] != true
    });
    optional.map(|(name, _)| json!(name)).collect()
}

fn may_be_null(property: &Value) -> bool {
    let kinds = property["type"].as_array().into_iter().flatten();
    let forms = property["anyOf"].as_array().into_iter().flatten();
    kinds
        .chain(forms.map(|form| &form["type"]))
        .any(|kind| kind == "null")
}

/// The properties of a request that are read as an empty object where they are left out.
fn read_as_empty(object: &Map<String, Value>) -> Vec<Value> {
    let is_optional = |property: &Value| {
        let needs = property["required"].as_array().map_or(0, Vec::len);
        property["type"] == "object" && needs == 0 && property.get("x-expected").is_none()
    };
    let properties = object.get("properties").and_then(Value::as_object);
    let optional = properties
        .into_iter()
        .flatten()
        .filter(|(_, property)| is_optional(property));
    optional.map(|(name, _)| json!(name)).collect()
}

/// Says of each form of an object all that it has, and of words that they are words.
fn merge_forms(object: &mut Map<String, Value>) {
    let Some(Value::Array(mut forms)) = object.remove("oneOf") else {
        return;
    };
    if forms.iter().all(|form| form["enum"].is_array()) {
        let words = forms
            .iter()
            .flat_map(|form| form["enum"].as_array().cloned());
        let words: Vec<Value> = words.flatten().collect();
        object.insert("type".to_owned(), json!("string"));
        object.insert("enum".to_owned(), words.into());
        return;
    }
    let (properties, required) = (object.remove("properties"), object.remove("required"));
    object.remove("type");
    for form in &mut forms {
        for (name, property) in properties
            .as_ref()
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            form["properties"][name] = property.clone();
        }
        let also = required
            .as_ref()
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        match form["required"].as_array_mut() {
            Some(required) => required.extend(also),
            None => form["required"] = also.into(),
        }
    }
    match <[Value; 1]>::try_from(forms) {
        Ok([Value::Object(only)]) => object.extend(only),
        Ok([only]) => drop(object.insert("anyOf".to_owned(), json!([only]))),
        Err(forms) => drop(object.insert("anyOf".to_owned(), forms.into())),
    }
}

/// Formats of schemars that are no more than the sizes of numbers in memory.
fn is_format_of_rust(format: &str) -> bool {
    let digits = format.trim_start_matches("uint").trim_start_matches("int");
    format == "double"
        || (digits.len() < format.len() && digits.chars().all(|c| c.is_ascii_digit()))
}

/// Nothing is needed any more, and `null` is allowed, in the object and in its `properties`.
fn loosen(schema: &mut Value) {
    let Value::Object(object) = schema else {
        return;
    };
    object.remove("required");
    let Some(Value::Object(properties)) = object.get_mut("properties") else {
        return;
    };
    for (name, property) in properties {
        if name == "properties" {
            loosen(property);
        }
        if property["type"].is_string() {
            property["type"] = json!([property["type"], "null"]);
            if let Some(Value::Array(words)) = property.get_mut("enum") {
                words.push(Value::Null);
            }
        } else if property.get("$ref").is_some() {
            *property = json!({ "anyOf": [property, { "type": "null" }] });
        }
    }
}

/// A parameter that may be left out is not `null` otherwise.
fn without_null(mut schema: Value) -> Value {
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if let Some(Value::Array(kinds)) = schema.get("type").cloned() {
        let kind = kinds.into_iter().find(|kind| *kind != "null");
        schema["type"] = kind.unwrap_or_default();
    }
    if let Some(Value::Array(forms)) = schema.get("anyOf").cloned()
        && let Some(Value::Object(form)) = forms.into_iter().find(|form| form["type"] != "null")
        && let Value::Object(object) = &mut schema
    {
        object.remove("anyOf");
        object.extend(form);
    }
    schema
}
