//! Custom events: objects of any shape, with a mapping to the parts of the envelope (rule 2.4).

use serde_json::{Value, json};

use crate::base::{Entropy, Timestamp};
use crate::model::event::{Event, EventData, StoredEvent};
use crate::model::limits::PUBLISH_EVENTS_MAX;
use crate::model::topic::{InputMapping, MappedField};
use crate::wire::bad_input::BadInput;
use crate::wire::json::{self, JsonKind, JsonMembers};
use crate::wire::{envelope, event_grid, field};

/// Reads the events of a request. `now` and `entropy` supply a time or an id that the mapping does not find.
pub(super) fn decode(
    mapping: &InputMapping,
    text: &str,
    now: Timestamp,
    entropy: &Entropy,
) -> Result<Vec<Event>, BadInput> {
    envelope::array(text, PUBLISH_EVENTS_MAX, |original, members| {
        let id = optional(members, &mapping.id)?.unwrap_or_else(|| entropy.uuid().to_string());
        Ok(Event {
            id,
            source: optional(members, &mapping.topic)?,
            event_type: required(members, "eventType", &mapping.event_type)?,
            subject: Some(required(members, "subject", &mapping.subject)?),
            time: Some(event_time(members, &mapping.event_time, now)?),
            data_version: Some(data_version(members, &mapping.data_version)?),
            attributes: Vec::new(),
            data: EventData::Json(original.to_owned()),
        })
    })
}

/// Returns an optional part of the envelope. The event may omit it, but a present value must not be blank.
fn optional(members: &JsonMembers<'_>, from: &Option<String>) -> Result<Option<String>, BadInput> {
    let Some(source_field) = from else {
        return Ok(None);
    };
    let text = mapped(members, source_field)?;
    text.map(|text| field::required(source_field, Some(text)))
        .transpose()
}

/// Returns the event time: the mapped time of the event or, if there is none, the moment of publishing.
fn event_time(
    members: &JsonMembers<'_>,
    from: &Option<String>,
    now: Timestamp,
) -> Result<String, BadInput> {
    match (from, optional(members, from)?) {
        (Some(source_field), Some(text)) => field::date_time(source_field, text),
        _ => Ok(now.to_azure()),
    }
}

/// Returns a required part of the envelope, which must not be blank.
fn required(members: &JsonMembers<'_>, part: &str, from: &MappedField) -> Result<String, BadInput> {
    let text = part_of(members, part, from)?;
    field::required(from.source_field.as_deref().unwrap_or(part), Some(text))
}

/// Returns the data version; empty if it is not mapped.
fn data_version(members: &JsonMembers<'_>, from: &MappedField) -> Result<String, BadInput> {
    if *from == MappedField::default() {
        return Ok(String::new());
    }
    part_of(members, "dataVersion", from)
}

/// Returns the mapped property or, if there is none, the default value.
fn part_of(members: &JsonMembers<'_>, part: &str, from: &MappedField) -> Result<String, BadInput> {
    let found = match &from.source_field {
        Some(path) => mapped(members, path)?,
        None => None,
    };
    found.or_else(|| from.default_value.clone()).ok_or_else(|| {
        BadInput::in_field(
            from.source_field.as_deref().unwrap_or(part),
            format!("it is missing; it is mapped to {part} without a default value"),
        )
    })
}

/// Returns the value of a source field: the property of exactly that name or, if there is none, the property at the
/// dotted path. `None` if there is no such property, or if its value is `null`.
fn mapped(members: &JsonMembers<'_>, source_field: &str) -> Result<Option<String>, BadInput> {
    let Some(json) = members
        .get(source_field)
        .or_else(|| nested(members, source_field))
    else {
        return Ok(None);
    };
    match JsonKind::of(json) {
        JsonKind::Null => Ok(None),
        JsonKind::String => field::string(source_field, json).map(Some),
        JsonKind::Number | JsonKind::Boolean => Ok(Some(json.to_owned())),
        kind @ (JsonKind::Object | JsonKind::Array | JsonKind::Nothing) => Err(BadInput::in_field(
            source_field,
            format!(
                "it is {}; expected a string, a number or a boolean",
                kind.noun()
            ),
        )),
    }
}

fn nested<'a>(members: &JsonMembers<'a>, source_field: &str) -> Option<&'a str> {
    let (first, rest) = source_field.split_once('.')?;
    let path: Vec<&str> = rest.split('.').collect();
    json::value_at(members.get(first)?, &path)
}

/// Returns an example of an event as a publisher would send it: an object with every property that the mapping looks
/// for.
pub(super) fn example(mapping: &InputMapping, id: &str, now: Timestamp) -> Value {
    let source = |field: &MappedField| field.source_field.clone();
    let mut event = json!({ "number": 1 });
    for (path, value) in [
        (mapping.id.clone(), id),
        (mapping.event_time.clone(), &now.to_string()),
        (source(&mapping.event_type), "Example.Created"),
        (source(&mapping.subject), "/examples/1"),
        (source(&mapping.data_version), "1.0"),
    ] {
        if let Some(path) = path {
            put(&mut event, &path, value);
        }
    }
    json!([event])
}

/// Sets the property at the dotted `path` to `value`, unless a step of the path is not an object.
fn put(event: &mut Value, path: &str, value: &str) {
    let mut place = event;
    for name in path.split('.') {
        if place.is_null() {
            *place = json!({});
        }
        let Some(object) = place.as_object_mut() else {
            return;
        };
        place = object.entry(name).or_insert(Value::Null);
    }
    *place = json!(value);
}

/// Writes the original object (rule A). Events without such an object are stored only if the schema of the topic was
/// changed. They are written in the Event Grid schema, which includes all that is known of them.
pub(super) fn write(out: &mut Vec<u8>, topic_resource_id: &str, stored: &StoredEvent) {
    match &stored.event.data {
        EventData::Json(json) if JsonKind::of(json) == JsonKind::Object => {
            out.extend_from_slice(json.as_bytes());
        }
        EventData::Json(_) | EventData::Binary(_) | EventData::Absent => {
            event_grid::write(out, topic_resource_id, stored);
        }
    }
}

#[cfg(test)]
mod reference;

#[cfg(test)]
mod tests {
    use super::*;

    fn field(source_field: &str, default_value: &str) -> MappedField {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        MappedField {
            source_field: some(source_field),
            default_value: some(default_value),
        }
    }

    fn mapping() -> InputMapping {
        InputMapping {
            id: Some("orderNo".to_owned()),
            topic: Some("shop.name".to_owned()),
            event_time: Some("when".to_owned()),
            event_type: field("kind", "Order"),
            subject: field("path", ""),
            data_version: field("", "1.0"),
        }
    }

    fn read(mapping: &InputMapping, original: &str) -> Result<Event, String> {
        let now = Timestamp::from_ms(1_795_243_253_138);
        let text = format!("[ {original} ]");
        let events = decode(mapping, &text, now, &Entropy::seeded(1));
        let mut events = events.map_err(|bad| BadInput { index: None, ..bad }.to_string())?;
        Ok(events.remove(0))
    }

    #[test]
    fn mapped_fields_make_up_the_envelope() {
        let original = r#"{"orderNo": 17, "shop":{"name":"north"}, "when":"2026-11-21T06:40:53+0000",
            "kind":"Order.Paid", "path":"/orders/17", "any":[ 1 ]}"#;
        assert_eq!(
            read(&mapping(), original),
            Ok(Event {
                id: "17".to_owned(),
                source: Some("north".to_owned()),
                event_type: "Order.Paid".to_owned(),
                subject: Some("/orders/17".to_owned()),
                time: Some("2026-11-21T06:40:53Z".to_owned()),
                data_version: Some("1.0".to_owned()),
                attributes: Vec::new(),
                data: EventData::Json(original.to_owned()),
            })
        );
    }

    #[test]
    fn what_is_not_mapped_or_not_there_is_supplied() {
        for (mapping, original) in [
            (mapping(), r#"{"path":"/p","kind":null,"shop":{}}"#),
            (
                InputMapping {
                    event_type: field("", "Order"),
                    subject: field("path", "/other"),
                    data_version: field("version", "1.0"),
                    ..InputMapping::default()
                },
                r#"{"path":"/p","orderNo":"not mapped"}"#,
            ),
        ] {
            let event = read(&mapping, original).expect(original);
            assert_eq!(event.id, Entropy::seeded(1).uuid().to_string());
            assert_eq!(event.source, None);
            assert_eq!(event.time.as_deref(), Some("2026-11-21T06:40:53.1380000Z"));
            assert_eq!(event.event_type, "Order");
            assert_eq!(event.subject.as_deref(), Some("/p"));
            assert_eq!(event.data_version.as_deref(), Some("1.0"));
        }
    }

    #[test]
    fn a_name_with_dots_comes_before_a_path() {
        for (original, expected) in [
            (
                r#"{"path":"/p","shop.name":"flat","shop":{"name":"deep"}}"#,
                Some("flat"),
            ),
            (r#"{"path":"/p","shop":{"name":true}}"#, Some("true")),
            (r#"{"path":"/p","shop":"none"}"#, None),
        ] {
            let event = read(&mapping(), original).expect(original);
            assert_eq!(event.source.as_deref(), expected, "{original}");
        }
    }

    #[test]
    fn what_cannot_be_mapped_is_rejected() {
        for (original, rejection) in [
            (
                r#"{"kind":"K"}"#,
                "field \"path\": it is missing; it is mapped to subject without a default value",
            ),
            (r#"{"path":" "}"#, "field \"path\": it is blank"),
            (
                r#"{"path":"/p","orderNo":""}"#,
                "field \"orderNo\": it is blank",
            ),
            (
                r#"{"path":["/p"]}"#,
                "field \"path\": it is an array; expected a string, a number or a boolean",
            ),
            (
                r#"{"path":"/p","when":"soon"}"#,
                "field \"when\": \"soon\" is not a date and time with its zone; expected RFC 3339 \
                 such as 2026-11-21T06:40:53Z",
            ),
            (
                r#"{"path":"/p","path":"/q"}"#,
                "field \"path\": it is there more than once",
            ),
            (
                "7",
                "Unexpected token when reading JSON. Expected: StartObject, actual: Number",
            ),
        ] {
            let told = read(&mapping(), original).expect_err(original);
            assert_eq!(told, rejection);
        }
        assert_eq!(
            read(&InputMapping::default(), "{}").expect_err("nothing is mapped"),
            "field \"eventType\": it is missing; it is mapped to eventType without a \
             default value"
        );
    }
}
