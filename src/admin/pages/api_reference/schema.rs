//! JSON Schemas in words.

use askama::Template;
use serde_json::Value;

use super::DocumentedOperation;
use crate::admin::widgets::part;

/// Prefix of references to schemas in the OpenAPI document.
const SCHEMAS: &str = "#/components/schemas/";

/// Returns the elements of a JSON array; none if the value is not an array.
pub(super) fn elements(json: &Value) -> impl Iterator<Item = &Value> {
    json.as_array().into_iter().flatten()
}

/// Returns the members of a JSON object; none if the value is not an object.
pub(super) fn entries(json: &Value) -> impl Iterator<Item = (&String, &Value)> {
    json.as_object().into_iter().flatten()
}

/// Returns a text without its backticks, which pages would show literally.
pub(super) fn said(json: &Value) -> String {
    json.as_str().unwrap_or_default().replace('`', "")
}

/// Describes the values of a schema in a few words.
#[derive(Template)]
#[template(path = "widgets/api_kind.html")]
pub(super) struct ValueKind<'a>(pub(super) &'a Value);

/// Rows for the properties of an object. Properties of nested objects have dotted names.
#[derive(Template)]
#[template(path = "widgets/api_rows.html")]
pub(super) struct PropertyRows<'a> {
    object: &'a Value,
    /// Prefix of the property names.
    above: String,
}

part!(ValueKind<'_>, PropertyRows<'_>);

/// Returns the schemas that an operation references, directly or through other schemas.
pub(super) fn named<'a>(
    document: &'a Value,
    operation: &DocumentedOperation<'a>,
) -> Vec<(&'a str, &'a Value)> {
    let (all, json) = (&document["components"]["schemas"], operation.json);
    let mut found = Vec::new();
    note(&json["requestBody"], all, &mut found);
    let parameters = operation.parameters();
    parameters.for_each(|each| note(each, all, &mut found));
    note(&json["responses"], all, &mut found);
    let mut read = 0;
    while let Some((_, schema)) = found.get(read).copied() {
        note(schema, all, &mut found);
        read += 1;
    }
    found
}

/// Adds the schemas that `json` references to `found`.
fn note<'a>(json: &'a Value, all: &'a Value, found: &mut Vec<(&'a str, &'a Value)>) {
    elements(json).for_each(|each| note(each, all, found));
    entries(json).for_each(|(_, each)| note(each, all, found));
    let name = ValueKind(json).name();
    if let Some(name) = name.filter(|name| found.iter().all(|(other, _)| other != name)) {
        found.push((name, &all[name]));
    }
}

/// Returns the object schemas with properties that a value of a named schema can have.
pub(super) fn forms(schema: &Value) -> Vec<&Value> {
    let all = elements(&schema["anyOf"]).chain([schema]);
    all.filter(has_own).collect()
}

fn has_own(object: &&Value) -> bool {
    object["properties"].is_object()
}

impl<'a> ValueKind<'a> {
    fn name(&self) -> Option<&'a str> {
        self.0["$ref"].as_str()?.strip_prefix(SCHEMAS)
    }

    /// Reports whether the type of the schema is `kind`, or `kind` and `null`.
    fn is(&self, kind: &str) -> bool {
        let types = &self.0["type"];
        types == kind || types[0] == kind
    }

    fn or_null(&self) -> bool {
        elements(&self.0["type"]).any(|each| each == "null")
    }

    /// Returns the values of an `enum`, except `null`.
    fn words(&self) -> Vec<String> {
        let words = elements(&self.0["enum"]).filter(|word| !word.is_null());
        words.map(shown).collect()
    }

    fn limit(&self, name: &str) -> Option<u64> {
        self.0[name].as_u64()
    }
}

impl<'a> PropertyRows<'a> {
    pub(super) fn new(object: &'a Value) -> Self {
        let above = String::new();
        Self { object, above }
    }

    fn is_required(&self, name: &str) -> bool {
        elements(&self.object["required"]).any(|each| each == name)
    }

    /// Returns the rows of a property whose value is an object with properties of its own, or a list of such objects.
    fn within(&self, name: &str, schema: &'a Value) -> Option<PropertyRows<'a>> {
        let mut forms = elements(&schema["anyOf"]).filter(|form| form["type"] != "null");
        let only = forms.next().filter(|_| forms.next().is_none());
        let (object, mark) = match Some(schema).filter(has_own).or(only.filter(has_own)) {
            Some(object) => (object, "."),
            None => (Some(&schema["items"]).filter(has_own)?, "[]."),
        };
        let above = format!("{}{name}{mark}", self.above);
        Some(PropertyRows { object, above })
    }
}

/// Returns a JSON value as readable text, with strings unquoted.
pub(super) fn shown(json: &Value) -> String {
    let text = json.as_str();
    text.map_or_else(|| json.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::pages::api_reference::operation;
    use serde_json::json;

    #[test]
    fn kinds_are_told_in_words() {
        let filter = "<a href=\"#schema-Filter\">Filter</a>";
        let topic = "<a href=\"#schema-Topic\">Topic</a>";
        for (schema, words) in [
            (json!({ "type": "string" }), "text".to_owned()),
            (
                json!({ "type": "string", "minLength": 3, "maxLength": 50 }),
                "text, 3 to 50 characters".to_owned(),
            ),
            (
                json!({ "type": "integer", "minimum": 1, "maximum": 30, "default": 30 }),
                "whole number, from 1 to 30, 30 unless given".to_owned(),
            ),
            (
                json!({ "type": ["string", "null"], "enum": ["a", "b", null] }),
                "one of a, b or null".to_owned(),
            ),
            (
                json!({ "type": ["string", "null"], "format": "date-time" }),
                "date and time or null".to_owned(),
            ),
            (
                json!({ "type": "array", "maxItems": 25, "minItems": 0,
                    "items": { "$ref": "#/components/schemas/Filter" } }),
                format!("list of {filter}, up to 25"),
            ),
            (
                json!({ "anyOf": [{ "$ref": "#/components/schemas/Topic" }, { "type": "null" }] }),
                format!("{topic} or null"),
            ),
            (
                json!({ "type": "object", "additionalProperties": { "type": "string" } }),
                "object of text".to_owned(),
            ),
            (json!({}), "any JSON".to_owned()),
        ] {
            assert_eq!(ValueKind(&schema).to_string(), words, "{schema}");
        }
    }

    #[test]
    fn objects_within_are_told_by_dotted_names_and_named_ones_by_themselves() {
        let job = json!({ "$ref": "#/components/schemas/Job" });
        let document = json!({
            "paths": { "/jobs": { "get": { "responses": { "200": job } } } },
            "components": { "schemas": {
                "Job": { "type": "object", "required": ["id"], "properties": {
                    "id": { "type": "integer" },
                    "errors": { "type": "array", "items": { "type": "object", "required": ["error"],
                        "properties": { "error": { "$ref": "#/components/schemas/Error" } } } },
                } },
                "Error": { "anyOf": [
                    { "type": "object", "properties": { "code": { "type": "string" } } },
                    { "type": "object", "properties": { "text": { "type": "string" } } },
                ] },
            } },
        });
        let operation = operation::all(&document).next().expect("an operation");
        let schemas = named(&document, &operation);
        let names: Vec<&str> = schemas.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["Job", "Error"]);
        let rows = PropertyRows::new(forms(schemas[0].1)[0]).to_string();
        let unbroken = rows.replace("<wbr>", "");
        let names: Vec<&str> = unbroken
            .split("<code>")
            .skip(1)
            .filter_map(|rest| rest.split("</td>").next())
            .collect();
        let told = |name: &str| {
            names
                .iter()
                .find(|told| told.starts_with(&format!("{name}<")))
        };
        assert_eq!(names.len(), 3, "{rows}");
        for (name, required) in [("errors", false), ("errors[].error", true), ("id", true)] {
            let told = told(name).expect(name);
            assert_eq!(told.contains("required"), required, "{told}");
        }
        assert_eq!(forms(schemas[1].1).len(), 2);
    }
}
