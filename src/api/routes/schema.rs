//! Schemas (JSON Schema 2020-12, as OpenAPI 3.1 has them), written with few words.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

/// What a value looks like.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    json: Value,
    /// Whether the object that it is a property of may do without it.
    optional: bool,
}

fn of(json: Value) -> Schema {
    Schema {
        json,
        optional: false,
    }
}

pub(crate) fn text() -> Schema {
    of(json!({ "type": "string" }))
}

/// A date and a time with its zone (RFC 3339).
pub(crate) fn moment() -> Schema {
    of(json!({ "type": "string", "format": "date-time" }))
}

pub(crate) fn integer() -> Schema {
    of(json!({ "type": "integer" }))
}

/// How many there are of something, or its number.
pub(crate) fn count() -> Schema {
    of(json!({ "type": "integer", "minimum": 0 }))
}

pub(crate) fn flag() -> Schema {
    of(json!({ "type": "boolean" }))
}

/// Any JSON.
pub(crate) fn anything() -> Schema {
    of(json!({}))
}

/// One of these words.
pub(crate) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Schema {
    let words: Vec<&str> = words.into_iter().collect();
    of(json!({ "type": "string", "enum": words }))
}

pub(crate) fn list(of_what: Schema) -> Schema {
    of(json!({ "type": "array" })).set("items", of_what.json)
}

/// The schema of that name.
pub(crate) fn named(name: &str) -> Schema {
    of(json!({ "$ref": format!("#/components/schemas/{name}") }))
}

/// One of several.
pub(crate) fn either(of_what: impl IntoIterator<Item = Schema>) -> Schema {
    let each: Vec<Value> = of_what.into_iter().map(|each| each.json).collect();
    of(json!({ "anyOf": each }))
}

/// An object with these properties and no others.
pub(crate) fn object<const N: usize>(properties: [(&str, Schema); N]) -> Schema {
    let empty = of(json!({
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": false,
    }));
    empty.with(properties)
}

/// A whole list.
pub(crate) fn list_of(row: &str) -> Schema {
    object([("value", list(named(row)))])
}

/// A whole list in the manner of Azure Resource Manager.
pub(crate) fn resources(row: &str) -> Schema {
    let next = of(json!({ "type": "null" })).says("Lists are never cut into pages.");
    list_of(row).with([("nextLink", next)])
}

/// A parameter in the query, which may be left out.
pub(crate) fn query(name: &str, schema: Schema, says: &str) -> Value {
    parameter("query", name, schema, says)
}

/// A header, which may be left out.
pub(crate) fn header(name: &str, schema: Schema, says: &str) -> Value {
    parameter("header", name, schema, says)
}

fn parameter(place: &str, name: &str, schema: Schema, says: &str) -> Value {
    json!({ "in": place, "name": name, "description": says, "schema": schema.into_json() })
}

/// A parameter that must be there.
pub(crate) fn needed(mut parameter: Value) -> Value {
    parameter["required"] = true.into();
    parameter
}

impl Schema {
    pub(crate) fn says(self, words: impl Into<String>) -> Self {
        self.set("description", words.into())
    }

    /// The value where none is given.
    pub(crate) fn by_default(self, value: impl Into<Value>) -> Self {
        self.set("default", value)
    }

    /// A value that fits.
    pub(crate) fn such_as(self, value: impl Into<Value>) -> Self {
        self.set("examples", vec![value.into()])
    }

    /// From the first to the last number.
    pub(crate) fn within<T: Into<Value> + Copy>(self, range: &RangeInclusive<T>) -> Self {
        self.set("minimum", *range.start())
            .set("maximum", *range.end())
    }

    /// From 1 to so many.
    pub(crate) fn up_to(self, most: impl Into<Value>) -> Self {
        self.set("minimum", 1).set("maximum", most)
    }

    /// One of these numbers.
    pub(crate) fn one_of(self, numbers: &[u64]) -> Self {
        self.set("enum", numbers)
    }

    /// Characters of a text, from the first to the last number.
    pub(crate) fn long(self, characters: &RangeInclusive<usize>) -> Self {
        self.set("minLength", *characters.start())
            .set("maxLength", *characters.end())
    }

    /// Elements of a list.
    pub(crate) fn elements(self, range: &RangeInclusive<usize>) -> Self {
        self.set("minItems", *range.start())
            .set("maxItems", *range.end())
    }

    /// A text of that form, a regular expression.
    pub(crate) fn like(self, pattern: &str) -> Self {
        self.set("pattern", pattern)
    }

    /// The object that it is a property of may do without it.
    pub(crate) fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    pub(crate) fn or_null(self) -> Self {
        let Self { mut json, optional } = self;
        if let Some(Value::Array(words)) = json.get_mut("enum") {
            words.push(Value::Null);
        }
        let json = match json.get("type") {
            Some(Value::String(kind)) => {
                json["type"] = json!([kind, "null"]);
                json
            }
            _ => json!({ "anyOf": [json, { "type": "null" }] }),
        };
        Self { json, optional }
    }

    /// An object that has these properties as well.
    pub(crate) fn with<const N: usize>(mut self, properties: [(&str, Schema); N]) -> Self {
        for (name, schema) in properties {
            self.json["properties"][name] = schema.json;
            if let (false, Some(required)) = (schema.optional, self.json["required"].as_array_mut())
            {
                required.push(name.into());
            }
        }
        self
    }

    /// An object that may have other properties; they are passed over.
    pub(crate) fn open(mut self) -> Self {
        if let Value::Object(json) = &mut self.json {
            json.remove("additionalProperties");
        }
        self
    }

    pub(crate) fn into_json(self) -> Value {
        self.json
    }

    fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        if let Value::Object(json) = &mut self.json {
            json.insert(name.to_owned(), value.into());
        }
        self
    }
}

/// The schemas of an area by their names.
pub(crate) type SchemasByName = Map<String, Value>;

/// Schemas by their names.
pub(crate) fn schemas<const N: usize>(each: [(&str, Schema); N]) -> SchemasByName {
    let named = each.map(|(name, schema)| (name.to_owned(), schema.into_json()));
    named.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_name_what_they_need() {
        let schema = object([
            ("name", text().long(&(1..=3))),
            ("at", moment().or_null().optional()),
            ("role", words(["a", "b"]).or_null()),
            ("of", named("Other").or_null().optional()),
        ]);
        let expected = json!({
            "type": "object",
            "required": ["name", "role"],
            "additionalProperties": false,
            "properties": {
                "name": { "type": "string", "minLength": 1, "maxLength": 3 },
                "at": { "type": ["string", "null"], "format": "date-time" },
                "role": { "type": ["string", "null"], "enum": ["a", "b", null] },
                "of": { "anyOf": [{ "$ref": "#/components/schemas/Other" }, { "type": "null" }] },
            },
        });
        assert_eq!(schema.into_json(), expected);
        assert_eq!(
            object([]).open().into_json(),
            json!({ "type": "object", "properties": {}, "required": [] })
        );
    }
}
