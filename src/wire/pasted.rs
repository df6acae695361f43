//! Recognition of the schema of events that a user pastes, where no topic determines the schema.

use serde_json::value::RawValue;

use crate::model::topic::InputSchema;
use crate::wire::json;

/// The schema and the topic of an event, as far as its properties reveal them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognized {
    /// The schema. Custom events can be recognized only by the mapping of their topic, so they are treated as events
    /// of the Event Grid schema.
    pub schema: InputSchema,
    /// The `topic` that an event of the Event Grid schema names.
    pub topic: Option<String>,
}

/// Recognizes the schema of a JSON object, or of the first object in an array. Invalid JSON is rejected later, by
/// [`decode_one`].
///
/// [`decode_one`]: crate::wire::decode_one
pub fn recognize(json: &str) -> Recognized {
    let elements: Option<Vec<&RawValue>> = serde_json::from_str(json).ok();
    let first = elements.as_ref().and_then(|elements| elements.first());
    let object = first.map_or(json, |first| first.get());
    let text = |name| json::value_at(object, &[name]).and_then(json::scalar_text);
    match text("specversion") {
        Some(_) => Recognized {
            schema: InputSchema::CloudEventSchemaV1_0,
            topic: None,
        },
        None => Recognized {
            schema: InputSchema::EventGridSchema,
            topic: text("topic"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_events_say_their_version_and_others_may_say_their_topic() {
        let grid = |topic: Option<&str>| Recognized {
            schema: InputSchema::EventGridSchema,
            topic: topic.map(str::to_owned),
        };
        let cloud = Recognized {
            schema: InputSchema::CloudEventSchemaV1_0,
            topic: None,
        };
        for (json, expected) in [
            (r#"{"specversion":"1.0","topic":"x"}"#, &cloud),
            (r#" [{"specversion":"1.0"}]"#, &cloud),
            (r#"[{"id":"1","topic":"/t"}]"#, &grid(Some("/t"))),
            (r#"{"data":{"specversion":"1.0"}}"#, &grid(None)),
            (r#"{"topic":7}"#, &grid(Some("7"))),
            ("[]", &grid(None)),
            ("no JSON", &grid(None)),
        ] {
            assert_eq!(recognize(json), *expected, "{json}");
        }
    }
}
