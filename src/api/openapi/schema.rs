//! Schemas (JSON Schema 2020-12, as OpenAPI 3.1 has them), written with few words.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

/// What a value looks like.
#[derive(Clone, Debug)]
pub(super) struct Schema {
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

pub(super) fn text() -> Schema {
    of(json!({ "type": "string" }))
}

/// A date and a time with its zone (RFC 3339).
pub(super) fn moment() -> Schema {
    of(json!({ "type": "string", "format": "date-time" }))
}

/// A duration of ISO 8601, such as `PT1H`.
pub(super) fn duration() -> Schema {
    of(json!({ "type": "string", "format": "duration" }))
}

pub(super) fn url() -> Schema {
    of(json!({ "type": "string", "format": "uri" }))
}

pub(super) fn integer() -> Schema {
    of(json!({ "type": "integer" }))
}

/// How many there are of something, or its number.
pub(super) fn count() -> Schema {
    of(json!({ "type": "integer", "minimum": 0 }))
}

pub(super) fn number() -> Schema {
    of(json!({ "type": "number" }))
}

pub(super) fn flag() -> Schema {
    of(json!({ "type": "boolean" }))
}

/// Any JSON.
pub(super) fn anything() -> Schema {
    of(json!({}))
}

/// One of these words.
pub(super) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Schema {
    let words: Vec<&str> = words.into_iter().collect();
    of(json!({ "type": "string", "enum": words }))
}

pub(super) fn list(of_what: Schema) -> Schema {
    of(json!({ "type": "array" })).set("items", of_what.json)
}

/// An object with names of one's own.
pub(super) fn map(of_what: Schema) -> Schema {
    of(json!({ "type": "object" })).set("additionalProperties", of_what.json)
}

/// The schema of that name.
pub(super) fn named(name: &str) -> Schema {
    of(json!({ "$ref": format!("#/components/schemas/{name}") }))
}

/// One of several.
pub(super) fn either(of_what: impl IntoIterator<Item = Schema>) -> Schema {
    let each: Vec<Value> = of_what.into_iter().map(|each| each.json).collect();
    of(json!({ "anyOf": each }))
}

/// An object with these properties and no others.
pub(super) fn object<const N: usize>(properties: [(&str, Schema); N]) -> Schema {
    let empty = of(json!({
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": false,
    }));
    empty.with(properties)
}

/// A page of a list, and where the next one begins.
pub(super) fn page_of(row: &str) -> Schema {
    object([
        ("value", list(named(row))),
        (
            "nextBefore",
            integer()
                .or_null()
                .says("Give it as `before` for the next page; null at the end."),
        ),
    ])
}

/// A whole list.
pub(super) fn list_of(row: &str) -> Schema {
    object([("value", list(named(row)))])
}

/// A whole list in the manner of Azure Resource Manager.
pub(super) fn resources(row: &str) -> Schema {
    let next = of(json!({ "type": "null" })).says("Lists are never cut into pages.");
    list_of(row).with([("nextLink", next)])
}

impl Schema {
    pub(super) fn says(self, words: impl Into<String>) -> Self {
        self.set("description", words.into())
    }

    /// The value where none is given.
    pub(super) fn by_default(self, value: impl Into<Value>) -> Self {
        self.set("default", value)
    }

    /// A value that fits.
    pub(super) fn such_as(self, value: impl Into<Value>) -> Self {
        self.set("examples", vec![value.into()])
    }

    /// From the first to the last number.
    pub(super) fn within<T: Into<Value> + Copy>(self, range: &RangeInclusive<T>) -> Self {
        self.set("minimum", *range.start())
            .set("maximum", *range.end())
    }

    /// From 1 to so many.
    pub(super) fn up_to(self, most: impl Into<Value>) -> Self {
        self.set("minimum", 1).set("maximum", most)
    }

    pub(super) fn at_least(self, least: impl Into<Value>) -> Self {
        self.set("minimum", least)
    }

    pub(super) fn multiple_of(self, unit: impl Into<Value>) -> Self {
        self.set("multipleOf", unit)
    }

    /// One of these numbers.
    pub(super) fn one_of(self, numbers: &[u64]) -> Self {
        self.set("enum", numbers)
    }

    /// Characters of a text, from the first to the last number.
    pub(super) fn long(self, characters: &RangeInclusive<usize>) -> Self {
        self.set("minLength", *characters.start())
            .set("maxLength", *characters.end())
    }

    /// Elements of a list.
    pub(super) fn elements(self, range: &RangeInclusive<usize>) -> Self {
        self.set("minItems", *range.start())
            .set("maxItems", *range.end())
    }

    /// A text of that form, a regular expression.
    pub(super) fn like(self, pattern: &str) -> Self {
        self.set("pattern", pattern)
    }

    /// The object that it is a property of may do without it.
    pub(super) fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    pub(super) fn or_null(self) -> Self {
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
    pub(super) fn with<const N: usize>(mut self, properties: [(&str, Schema); N]) -> Self {
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
    pub(super) fn open(mut self) -> Self {
        if let Value::Object(json) = &mut self.json {
            json.remove("additionalProperties");
        }
        self
    }

    pub(super) fn into_json(self) -> Value {
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
pub(super) type Schemas = Map<String, Value>;

/// Schemas by their names.
pub(super) fn schemas<const N: usize>(each: [(&str, Schema); N]) -> Schemas {
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
