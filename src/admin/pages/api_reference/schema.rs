//! JSON Schemas in words.

use serde_json::Value;

use crate::admin::page::*;
use crate::admin::pages::api_reference::document::{elements, entries, text};

/// Where schemas stand in the document.
const SCHEMAS: &str = "#/components/schemas/";

/// What a value looks like, in a few words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Template)]
#[template(path = "widgets/api_kind.html")]
pub(crate) struct Kind {
    pub(crate) words: String,
    /// The schemas that the words speak of.
    pub(crate) named: Vec<String>,
}

part!(Kind);

/// A schema of the document.
pub(crate) struct Schema {
    pub(crate) name: String,
    pub(crate) says: String,
    /// What it is, unless it is an object.
    pub(crate) kind: Option<Kind>,
    /// The properties; one list for each form that it can have.
    pub(crate) forms: Vec<Vec<Row>>,
}

/// A property.
pub(crate) struct Row {
    /// With the names of the objects around it.
    pub(crate) name: String,
    pub(crate) required: bool,
    pub(crate) kind: Kind,
    pub(crate) says: String,
}

/// Reads schemas, and notes which others they speak of.
pub(crate) struct Reader<'a> {
    all: &'a Value,
    /// In the order in which they were met.
    met: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(document: &'a Value) -> Self {
        Self {
            all: &document["components"]["schemas"],
            met: Vec::new(),
        }
    }

    /// What a value of `schema` looks like.
    pub(crate) fn kind(&mut self, schema: &Value) -> Kind {
        let kind = kind(schema);
        for name in &kind.named {
            if !self.met.contains(name) {
                self.met.push(name.clone());
            }
        }
        kind
    }

    /// All schemas that were spoken of, and those that they speak of in turn.
    pub(crate) fn schemas(mut self) -> Vec<Schema> {
        let mut read = Vec::new();
        while let Some(name) = self.met.get(read.len()).cloned() {
            let schema = self.read(name);
            read.push(schema);
        }
        read
    }

    fn read(&mut self, name: String) -> Schema {
        let json = &self.all[&name];
        let forms: Vec<&Value> = match json.get("anyOf") {
            Some(forms) => elements(forms).collect(),
            None => vec![json],
        };
        let objects = forms.iter().filter(|form| form["properties"].is_object());
        let forms: Vec<Vec<Row>> = objects
            .map(|form| {
                let mut rows = Vec::new();
                self.add_rows(form, "", &mut rows);
                rows
            })
            .collect();
        Schema {
            says: text(&json["description"]),
            kind: forms.is_empty().then(|| self.kind(json)),
            name,
            forms,
        }
    }

    fn add_rows(&mut self, object: &Value, above: &str, rows: &mut Vec<Row>) {
        for (own, schema) in entries(&object["properties"]) {
            let name = format!("{above}{own}");
            rows.push(Row {
                required: elements(&object["required"]).any(|each| each == own),
                kind: self.kind(schema),
                says: text(&schema["description"]),
                name: name.clone(),
            });
            match inner_object(schema) {
                Some((object, true)) => self.add_rows(object, &format!("{name}[]."), rows),
                Some((object, false)) => self.add_rows(object, &format!("{name}."), rows),
                None => {}
            }
        }
    }
}

/// The object with properties of its own that a property holds, and whether it holds a list of them.
fn inner_object(schema: &Value) -> Option<(&Value, bool)> {
    if schema["properties"].is_object() {
        return Some((schema, false));
    }
    if schema["items"]["properties"].is_object() {
        return Some((&schema["items"], true));
    }
    let mut forms = elements(&schema["anyOf"]).filter(|form| form["type"] != "null");
    let form = forms.next()?;
    (form["properties"].is_object() && forms.next().is_none()).then_some((form, false))
}

fn kind(schema: &Value) -> Kind {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix(SCHEMAS).unwrap_or(reference);
        return Kind {
            words: name.to_owned(),
            named: vec![name.to_owned()],
        };
    }
    if schema["anyOf"].is_array() {
        let kinds: Vec<Kind> = elements(&schema["anyOf"]).map(kind).collect();
        let words: Vec<&str> = kinds.iter().map(|kind| kind.words.as_str()).collect();
        return Kind {
            words: words.join(" or "),
            named: kinds.iter().flat_map(|kind| kind.named.clone()).collect(),
        };
    }
    let mut types: Vec<&str> = elements(&schema["type"])
        .filter_map(Value::as_str)
        .collect();
    types.extend(schema["type"].as_str());
    let or_null = if types.contains(&"null") && types.len() > 1 {
        " or null"
    } else {
        ""
    };
    let first = types.first().copied().unwrap_or_default();
    let mut found = match first {
        "array" => {
            let each = kind(&schema["items"]);
            Kind {
                words: format!("list of {}", each.words),
                ..each
            }
        }
        "object" if schema["additionalProperties"].is_object() => {
            let each = kind(&schema["additionalProperties"]);
            Kind {
                words: format!("object of {}", each.words),
                ..each
            }
        }
        first => Kind {
            words: plain(first, schema),
            named: Vec::new(),
        },
    };
    found.words.push_str(or_null);
    found.words.push_str(&limits(schema));
    found
}

fn plain(kind: &str, schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words = words.iter().filter(|word| !word.is_null());
        let words: Vec<String> = words.map(shown).collect();
        return match words.as_slice() {
            [only] => only.clone(),
            _ => format!("one of {}", words.join(", ")),
        };
    }
    match (kind, schema["format"].as_str()) {
        ("string", Some("date-time")) => "date and time",
        ("string", Some("duration")) => "duration",
        ("string", Some("uri")) => "URL",
        ("string", _) => "text",
        ("integer", _) => "whole number",
        ("number", _) => "number",
        ("boolean", _) => "true or false",
        ("object", _) => "object",
        ("null", _) => "null",
        _ => "any JSON",
    }
    .to_owned()
}

/// A value of JSON as people read it: texts without their quotes.
fn shown(json: &Value) -> String {
    json.as_str()
        .map_or_else(|| json.to_string(), str::to_owned)
}

fn limits(schema: &Value) -> String {
    let number = |name: &str| schema[name].as_u64();
    let mut message = Vec::new();
    match (number("minimum"), number("maximum")) {
        (Some(least), Some(most)) => message.push(format!("from {least} to {most}")),
        (Some(least), None) if least > 0 => message.push(format!("at least {least}")),
        _ => {}
    }
    match (number("minLength"), number("maxLength")) {
        (Some(0), Some(most)) => message.push(format!("up to {most} characters")),
        (Some(least), Some(most)) => message.push(format!("{least} to {most} characters")),
        _ => {}
    }
    match (number("minItems"), number("maxItems")) {
        (Some(0), Some(most)) => message.push(format!("up to {most}")),
        (Some(least), Some(most)) if least == most => message.push(format!("{most} of them")),
        (Some(least), Some(most)) => message.push(format!("{least} to {most}")),
        _ => {}
    }
    if let Some(default) = schema.get("default") {
        message.push(format!("{} unless given", shown(default)));
    }
    match message.as_slice() {
        [] => String::new(),
        message => format!(", {}", message.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_told_in_words() {
        for (schema, words, named) in [
            (json!({ "type": "string" }), "text", None),
            (
                json!({ "type": "string", "minLength": 3, "maxLength": 50 }),
                "text, 3 to 50 characters",
                None,
            ),
            (
                json!({ "type": "integer", "minimum": 1, "maximum": 30, "default": 30 }),
                "whole number, from 1 to 30, 30 unless given",
                None,
            ),
            (
                json!({ "type": ["string", "null"], "enum": ["a", "b", null] }),
                "one of a, b or null",
                None,
            ),
            (
                json!({ "type": ["string", "null"], "format": "date-time" }),
                "date and time or null",
                None,
            ),
            (
                json!({ "type": "array", "maxItems": 25, "minItems": 0,
                    "items": { "$ref": "#/components/schemas/Filter" } }),
                "list of Filter, up to 25",
                Some("Filter"),
            ),
            (
                json!({ "anyOf": [{ "$ref": "#/components/schemas/Topic" }, { "type": "null" }] }),
                "Topic or null",
                Some("Topic"),
            ),
            (
                json!({ "type": "object", "additionalProperties": { "type": "string" } }),
                "object of text",
                None,
            ),
            (json!({}), "any JSON", None),
        ] {
            let found = kind(&schema);
            assert_eq!(found.words, words, "{schema}");
            assert_eq!(found.named.first().map(String::as_str), named, "{schema}");
        }
    }

    #[test]
    fn objects_within_are_told_by_dotted_names_and_named_ones_by_themselves() {
        let document = json!({ "components": { "schemas": {
            "Job": { "type": "object", "required": ["id"], "properties": {
                "id": { "type": "integer" },
                "errors": { "type": "array", "items": { "type": "object", "required": ["error"],
                    "properties": { "error": { "$ref": "#/components/schemas/Error" } } } },
            } },
            "Error": { "anyOf": [
                { "type": "object", "properties": { "code": { "type": "string" } } },
                { "type": "object", "properties": { "text": { "type": "string" } } },
            ] },
        } } });
        let mut reader = Reader::new(&document);
        reader.kind(&json!({ "$ref": "#/components/schemas/Job" }));
        let schemas = reader.schemas();
        let names: Vec<&str> = schemas.iter().map(|schema| schema.name.as_str()).collect();
        assert_eq!(names, ["Job", "Error"]);
        let rows: Vec<(&str, bool)> = schemas[0].forms[0]
            .iter()
            .map(|row| (row.name.as_str(), row.required))
            .collect();
        assert_eq!(
            rows,
            [("errors", false), ("errors[].error", true), ("id", true)]
        );
        assert_eq!(schemas[1].forms.len(), 2);
    }
}
