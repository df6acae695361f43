//! The Event Grid schema: events are received and delivered in arrays (rule 1.3, 2.2).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::base::Timestamp;
use crate::model::event::{Event, EventData, StoredEvent};
use crate::model::limits::PUBLISH_EVENTS_MAX;
use crate::model::registry::TopicEntry;
use crate::model::topic::InputSchema;
use crate::wire::bad_input::{BadInput, quoted};
use crate::wire::json::{JsonKind, JsonMembers, ObjectWriter};
use crate::wire::{envelope, field};

/// The length of a date and time to the second.
const SECONDS_LENGTH: usize = "2026-11-21T06:40:53".len();

/// The only version of the envelope.
pub(super) const METADATA_VERSION: &str = "1";

/// Reads the events of a request.
pub(super) fn decode(topic_resource_id: &str, text: &str) -> Result<Vec<Event>, BadInput> {
    envelope::array(text, PUBLISH_EVENTS_MAX, |_, members| {
        EventProperties::read(members)?.finish(topic_resource_id)
    })
}

/// Checks that no event names another topic, as Azure does. Only a test may publish events that were captured
/// elsewhere.
pub fn check_topics(topic: &TopicEntry, events: &[Event]) -> Result<(), BadInput> {
    if *topic.topic.kind.input_schema() != InputSchema::EventGridSchema {
        return Ok(());
    }
    let mut each = events.iter().enumerate();
    let other = each.find_map(|(index, event)| Some((index, event.source.as_deref()?)));
    other.map_or(Ok(()), |(index, other)| {
        let problem = format!(
            "{} is not this topic; leave it out, or send {:?}",
            quoted(other),
            &*topic.resource_id
        );
        Err(BadInput::in_field("topic", problem).at(index))
    })
}

/// The properties of an event that have been read so far.
#[derive(Default)]
struct EventProperties<'a> {
    id: Option<String>,
    subject: Option<String>,
    event_type: Option<String>,
    event_time: Option<String>,
    data: Option<&'a str>,
    data_version: Option<String>,
    topic: Option<String>,
}

impl<'a> EventProperties<'a> {
    fn read(members: &JsonMembers<'a>) -> Result<Self, BadInput> {
        let mut draft = Self::default();
        for (name, value) in members.iter() {
            let text = || field::optional_text(name, value);
            match name {
                "id" => draft.id = id(value)?,
                "subject" => draft.subject = text()?,
                "eventType" => draft.event_type = text()?,
                "eventTime" => draft.event_time = text()?,
                "data" => draft.data = Some(value),
                "dataVersion" => draft.data_version = text()?,
                "metadataVersion" => check_metadata_version(text()?)?,
                "topic" => draft.topic = text()?,
                other => return Err(unexpected(other)),
            }
        }
        Ok(draft)
    }

    fn finish(self, topic_resource_id: &str) -> Result<Event, BadInput> {
        let id = field::required("id", self.id)?;
        let subject = field::required("subject", self.subject)?;
        let event_type = field::required("eventType", self.event_type)?;
        let time = field::required("eventTime", self.event_time)?;
        // Resource ids are not case-sensitive.
        let is_other = |topic: &String| !topic.eq_ignore_ascii_case(topic_resource_id);
        Ok(Event {
            id,
            source: self.topic.filter(is_other),
            event_type,
            subject: Some(subject),
            time: Some(field::date_time("eventTime", with_zone(time))?),
            data_version: Some(self.data_version.unwrap_or_default()),
            attributes: Vec::new(),
            data: match self.data {
                Some(json) => EventData::Json(json.to_owned()),
                None => EventData::Absent,
            },
        })
    }
}

/// Reads the id of an event. A number is accepted and converted to text, as Azure does.
fn id(value: &str) -> Result<Option<String>, BadInput> {
    match JsonKind::of(value) {
        JsonKind::Number => Ok(Some(value.trim().to_owned())),
        JsonKind::Null
        | JsonKind::String
        | JsonKind::Object
        | JsonKind::Array
        | JsonKind::Boolean
        | JsonKind::Nothing => field::optional_text("id", value),
    }
}

/// Adds `Z` to a time without a zone, since Azure interprets it as UTC. PowerShell's `Get-Date -Format s` writes such
/// times.
fn with_zone(time: String) -> String {
    let fraction = time.get(SECONDS_LENGTH..);
    let has_none = fraction.is_some_and(|rest| {
        rest.bytes()
            .all(|byte| byte == b'.' || byte.is_ascii_digit())
    });
    if has_none { time + "Z" } else { time }
}

fn check_metadata_version(version: Option<String>) -> Result<(), BadInput> {
    match version {
        Some(version) if version != METADATA_VERSION => Err(BadInput::in_field(
            "metadataVersion",
            format!(
                "{} is not supported; leave it out, or send {METADATA_VERSION:?}",
                quoted(&version)
            ),
        )),
        Some(_) | None => Ok(()),
    }
}

fn unexpected(name: &str) -> BadInput {
    BadInput::in_field(
        name,
        format!(
            "this topic is configured for the 'EventGridEvent' schema, in which the property {} \
             is unexpected",
            quoted(name)
        ),
    )
}

/// Returns an example of events as a publisher would send them.
pub(super) fn example(id: &str, now: Timestamp) -> Value {
    json!([{
        "id": id,
        "eventType": "Example.Created",
        "subject": "/examples/1",
        "eventTime": now.to_string(),
        "dataVersion": "1.0",
        "data": { "number": 1 },
    }])
}

/// Writes an event and adds the properties that it was published without (rule 2.2).
pub(super) fn write(out: &mut Vec<u8>, topic_resource_id: &str, stored: &StoredEvent) {
    let mut object = ObjectWriter::open(out);
    write_members(&mut object, topic_resource_id, stored);
    object.close();
}

/// Writes the properties of an event. Any event is supported, although a CloudEvent is delivered in the Event Grid
/// schema only if the schema of its topic was changed (rule 2.1).
pub(super) fn write_members(
    object: &mut ObjectWriter<'_>,
    topic_resource_id: &str,
    stored: &StoredEvent,
) {
    let event = &stored.event;
    object.text("id", &event.id);
    object.text(
        "topic",
        event.source.as_deref().unwrap_or(topic_resource_id),
    );
    object.text("subject", event.subject.as_deref().unwrap_or(""));
    object.text("eventType", &event.event_type);
    match &event.time {
        Some(time) => object.text("eventTime", time),
        None => object.text("eventTime", &stored.received_at.to_azure()),
    }
    match &event.data {
        EventData::Absent => {}
        EventData::Json(json) => object.raw("data", json),
        EventData::Binary(bytes) => object.text("data", &STANDARD.encode(bytes)),
    }
    object.text("dataVersion", event.data_version.as_deref().unwrap_or(""));
    object.text("metadataVersion", METADATA_VERSION);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: &str = "/subscriptions/S/topics/orders";

    /// Reads one event of these properties and tells the rejection, if any.
    fn check(properties: &str, rejection: &str) {
        let result = decode(TOPIC, &format!("[{{{properties}}}]"));
        let told = result.err().map_or(String::new(), |bad| bad.to_string());
        assert_eq!(told, rejection, "{properties}");
    }

    #[test]
    fn each_rule_of_the_envelope_is_checked() {
        let valid = r#""id":"1","subject":"/s","eventType":"T","eventTime":"2026-11-21T06:40:53Z""#;
        let with = |more: &str| format!("{valid},{more}");
        let without = |name: &str| {
            let kept: Vec<&str> = valid
                .split(',')
                .filter(|property| !property.starts_with(&format!("{name:?}")))
                .collect();
            kept.join(",")
        };
        let missing = |name: &str| format!("event [0], field {name:?}: it is missing");
        let field = |name: &str, problem: &str| format!("event [0], field {name:?}: {problem}");

        check(valid, "");
        check(
            &with(r#""data":null,"dataVersion":"","metadataVersion":"1""#),
            "",
        );
        check(
            &with(r#""data":7,"dataVersion":null,"metadataVersion":null,"topic":null"#),
            "",
        );
        check(&with(r#""topic":"/subscriptions/s/TOPICS/orders""#), "");
        for name in ["id", "subject", "eventType", "eventTime"] {
            let name_only = without(name);
            check(&name_only, &missing(name));
            let with_value = |json: &str| format!("{name_only},{name:?}:{json}");
            check(&with_value("null"), &missing(name));
            check(&with_value(r#""""#), &field(name, "it is blank"));
            check(&with_value(r#"" \t""#), &field(name, "it is blank"));
            if name != "id" {
                check(
                    &with_value("7"),
                    &field(name, "it is a number; expected a string"),
                );
            }
            check(
                &with_value("{}"),
                &field(name, "it is an object; expected a string"),
            );
            check(
                &with_value(r#""\ud800""#),
                &field(name, "its escapes do not make up valid Unicode text"),
            );
        }
        check(
            &with(r#""dataVersion":1"#),
            &field("dataVersion", "it is a number; expected a string"),
        );
        check(
            &with(r#""metadataVersion":"2""#),
            &field(
                "metadataVersion",
                r#""2" is not supported; leave it out, or send "1""#,
            ),
        );
        check(
            &with(r#""source":"x""#),
            &field(
                "source",
                "this topic is configured for the 'EventGridEvent' schema, in which the property \
                 \"source\" is unexpected",
            ),
        );
        check(
            &with(r#""id":"2""#),
            &field("id", "it is there more than once"),
        );
        check(
            &with(r#""\u0069d":"2""#),
            &field("id", "it is there more than once"),
        );
    }

    #[test]
    fn another_topic_is_kept() {
        let rest = r#""id":"1","subject":"/s","eventType":"T","eventTime":"2026-11-21T06:40:53Z""#;
        for (topic, kept) in [
            (r#""/other""#, Some("/other")),
            (r#""/subscriptions/s/TOPICS/orders""#, None),
            ("null", None),
        ] {
            let events = decode(TOPIC, &format!(r#"[{{"topic":{topic},{rest}}}]"#));
            let source = events.expect("an event").remove(0).source;
            assert_eq!(source.as_deref(), kept, "{topic}");
        }
    }

    #[test]
    fn numbers_are_ids_too() {
        let rest = r#""subject":"/s","eventType":"T","eventTime":"2026-11-21T06:40:53Z""#;
        for (id, expected) in [("8741", "8741"), ("-1.50", "-1.50"), (r#""a""#, "a")] {
            let events = decode(TOPIC, &format!(r#"[{{"id":{id},{rest}}}]"#));
            assert_eq!(events.expect("an event")[0].id, expected);
        }
    }

    #[test]
    fn event_times_have_a_zone_and_are_respelled_only_if_need_be() {
        for (time, expected) in [
            ("2026-11-21T06:40:53Z", Some("2026-11-21T06:40:53Z")),
            (
                "2026-11-21T06:40:53.138324+05:30",
                Some("2026-11-21T06:40:53.138324+05:30"),
            ),
            ("2026-11-21T06:40:53+0000", Some("2026-11-21T06:40:53Z")),
            ("2026-11-21 06:40:53Z", Some("2026-11-21T06:40:53Z")),
            ("2026-11-21T06:40:53", Some("2026-11-21T06:40:53Z")),
            ("2026-11-21T06:40:53.5", Some("2026-11-21T06:40:53.5Z")),
            ("2026-11-21", None),
            ("yesterday", None),
        ] {
            let properties =
                format!(r#"[{{"id":"1","subject":"/s","eventType":"T","eventTime":"{time}"}}]"#);
            match (decode(TOPIC, &properties), expected) {
                (Ok(events), Some(_)) => assert_eq!(events[0].time.as_deref(), expected),
                (Err(bad), None) => assert_eq!(
                    bad.to_string(),
                    format!(
                        "event [0], field \"eventTime\": {time:?} is not a date and time with its \
                         zone; expected RFC 3339 such as 2026-11-21T06:40:53Z"
                    )
                ),
                (result, _) => panic!("{time}: {result:?}"),
            }
        }
    }
}
