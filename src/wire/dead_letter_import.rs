//! Import of dead-letter blobs that Azure or this server wrote. The events are restored to their state before they were
//! dead-lettered (rule 9.2, 9.3, rule N7).

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::base::{Entropy, Timestamp};
use crate::model::event::Event;
use crate::model::topic::InputSchema;
use crate::wire::bad_input::BadInput;
use crate::wire::dead_letter::is_fact;
use crate::wire::decode_one;
use crate::wire::json::ObjectWriter;

/// Members that records of namespace topics have in addition to those of the event. Azure's documents differ on
/// these members and on their letter case.
const AROUND: [&str; 3] = [
    "deadletterProperties",
    "brokerProperties",
    "customDeliveryProperties",
];

type Members<'a> = BTreeMap<String, &'a RawValue>;

/// Reads all events of a blob, which is an array of records or one record; one bad record rejects the whole blob. The
/// facts about the failed delivery are dropped. An event is accepted only by a topic of its own schema, since another
/// schema would lose its attributes; resubmissions have this restriction, too. `now` and `entropy` supply an omitted
/// time or id.
pub fn read(
    blob: &[u8],
    to: &InputSchema,
    topic_resource_id: &str,
    now: Timestamp,
    entropy: &Entropy,
) -> Result<Vec<Event>, BadInput> {
    let records = records(blob)?;
    let read = |record: &RawValue| {
        let event = event_of(record)?;
        if is_cloud_events(to) != is_cloud_events(&event.schema) {
            let problem = format!(
                "it is an event of {}, and the topic takes events of another schema, {}",
                event.schema.name(),
                to.name()
            );
            return Err(BadInput::malformed(problem));
        }
        decode_one(&event.schema, topic_resource_id, &event.json, now, entropy)
    };
    let numbered = records.into_iter().enumerate();
    numbered
        .map(|(index, record)| read(record).map_err(|problem| problem.at(index)))
        .collect()
}

fn records(blob: &[u8]) -> Result<Vec<&RawValue>, BadInput> {
    let no_json = |error| BadInput::malformed(format!("it is no blob of dead letters: {error}"));
    match blob.trim_ascii_start().first() {
        Some(b'[') => serde_json::from_slice(blob).map_err(no_json),
        _ => serde_json::from_slice(blob)
            .map(|record| vec![record])
            .map_err(no_json),
    }
}

/// Reports whether events of a schema are CloudEvents. Dead letters of custom events are written in Event Grid's
/// schema.
fn is_cloud_events(schema: &InputSchema) -> bool {
    match schema {
        InputSchema::CloudEventSchemaV1_0 => true,
        InputSchema::EventGridSchema | InputSchema::CustomEventSchema(_) => false,
    }
}

/// An event as a publisher would send it.
struct ImportedEvent {
    schema: InputSchema,
    json: String,
}

fn event_of(record: &RawValue) -> Result<ImportedEvent, BadInput> {
    let mut members = members(record)?;
    let is_event = |members: &Members<'_>| {
        members.contains_key("specversion") || members.contains_key("eventType")
    };
    if !is_event(&members)
        && let Some(event) = members.get("event").copied()
    {
        members = self::members(event)?;
    }
    if !is_event(&members) {
        return Err(BadInput::malformed(
            "it is no dead letter: it has neither an eventType nor a specversion",
        ));
    }
    let is_cloud_event = members.contains_key("specversion");
    let mut json = Vec::new();
    let mut object = ObjectWriter::open(&mut json);
    for (name, value) in &members {
        // Drops the topic of an Event Grid event, which names the topic where the event was dead-lettered.
        let is_elsewhere = !is_cloud_event && name == "topic";
        let is_around = AROUND.iter().any(|each| each.eq_ignore_ascii_case(name));
        if !is_elsewhere && !is_around && !is_fact(name, is_cloud_event) {
            object.raw(name, value.get());
        }
    }
    object.close();
    Ok(ImportedEvent {
        schema: if is_cloud_event {
            InputSchema::CloudEventSchemaV1_0
        } else {
            InputSchema::EventGridSchema
        },
        json: String::from_utf8_lossy(&json).into_owned(),
    })
}

fn members(object: &RawValue) -> Result<Members<'_>, BadInput> {
    serde_json::from_str(object.get())
        .map_err(|error| BadInput::malformed(format!("it is no dead letter: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::EventData;

    fn read_to(schema: &InputSchema, blob: &str) -> Result<Vec<Event>, String> {
        let now = Timestamp::from_ms(1_795_243_253_138);
        super::read(blob.as_bytes(), schema, "/t", now, &Entropy::seeded(1))
            .map_err(|problem| problem.to_string())
    }

    fn read(blob: &str) -> Result<Vec<Event>, String> {
        read_to(&InputSchema::EventGridSchema, blob)
    }

    /// As Microsoft's documentation prints them.
    const EVENT_GRID: &str = r#"{"id":"93902694-901e-008f-6f95-7153a806873c","eventTime":"2020-08-13T17:18:13.1647262Z","eventType":"Microsoft.Storage.BlobCreated","dataVersion":"","metadataVersion":"1","topic":"/subscriptions/0/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/myaccount","subject":"/blobServices/default/containers/c/blobs/b","deadLetterReason":"MaxDeliveryAttemptsExceeded","deliveryAttempts":1,"lastDeliveryOutcome":"NotFound","publishTime":"2020-08-13T17:18:14.0265758Z","lastDeliveryAttemptTime":"2020-08-13T17:18:14.0465788Z","lastHttpStatusCode":404,"data":{"api":"PutBlob","contentLength":10000000000000000000000}}"#;
    const CLOUD_EVENT: &str = r#"{"id":"caee971c-3ca0-4254-8f99-1395b394588e","source":"mysource","dataversion":"1.0","subject":"mySubject","type":"fooEventType","datacontenttype":"application/json","data":{"prop1":"value1","prop2":5},"specversion":"1.0","deadletterreason":"MaxDeliveryAttemptsExceeded","deliveryattempts":1,"lastdeliveryoutcome":"NotFound","publishtime":"2020-08-13T21:21:36.4018726Z"}"#;
    const NAMESPACE: &str = r#"{"event":{"specversion":"1.0","type":"com.example.someevent","source":"/mycontext","id":"A234-1234-1234","datacontenttype":"application/json","data":{"appinfoA":"abc"}},"customDeliveryProperties":{"custom-header-1":"value1"},"deadLetterProperties":{"deadletterreason":"Maximum delivery attempts was exceeded.","deliveryattempts":1,"deliveryresult":"Event was not acknowledged nor rejected.","publishutc":"2023-06-19T23:28:08.3063899Z"}}"#;
    const NAMESPACE_FLAT: &str = r#"{"specversion":"1.0","type":"com.example.someevent","source":"/mycontext","id":"A234-1234-1234","data_base64":"AAE=","deadletterProperties":{"deadletterreason":"r"},"customDeliveryProperties":{}}"#;

    #[test]
    fn both_of_azures_shapes_become_the_events_that_they_were() {
        let grid = &read(EVENT_GRID).expect("a dead letter")[0];
        let blob = format!("[{CLOUD_EVENT},{NAMESPACE},{NAMESPACE_FLAT}]");
        let events = read_to(&InputSchema::CloudEventSchemaV1_0, &blob).expect("dead letters");
        let [cloud, namespace, flat] = &events[..] else {
            panic!("three events, not {}", events.len());
        };
        assert_eq!(grid.event_type, "Microsoft.Storage.BlobCreated");
        assert_eq!(
            grid.source, None,
            "it is an event of the topic that takes it"
        );
        assert_eq!(
            grid.data,
            EventData::Json(
                r#"{"api":"PutBlob","contentLength":10000000000000000000000}"#.to_owned()
            )
        );
        assert_eq!(
            (cloud.id.as_str(), cloud.source.as_deref()),
            ("caee971c-3ca0-4254-8f99-1395b394588e", Some("mysource"))
        );
        let names: Vec<_> = cloud
            .attributes
            .iter()
            .map(|each| each.name.as_str())
            .collect();
        assert!(
            names.contains(&"dataversion"),
            "an attribute of its own: {names:?}"
        );
        assert!(
            !names
                .iter()
                .any(|name| name.starts_with("dea") || name.starts_with("last")),
            "{names:?}"
        );
        assert_eq!(namespace.id, "A234-1234-1234");
        assert_eq!(flat.data, EventData::Binary(vec![0, 1].into()));
        assert!(flat.attributes.is_empty(), "{:?}", flat.attributes);
    }

    #[test]
    fn events_go_to_topics_of_their_own_schema_alone() {
        let custom = InputSchema::CustomEventSchema(Box::default());
        let (grid, cloud) = (
            InputSchema::EventGridSchema,
            InputSchema::CloudEventSchemaV1_0,
        );
        for (blob, to, is_taken) in [
            (EVENT_GRID, &grid, true),
            (EVENT_GRID, &custom, true),
            (EVENT_GRID, &cloud, false),
            (CLOUD_EVENT, &grid, false),
            (CLOUD_EVENT, &custom, false),
            (NAMESPACE, &grid, false),
            (NAMESPACE, &cloud, true),
        ] {
            let result = read_to(to, blob);
            assert_eq!(result.is_ok(), is_taken, "{to:?}: {result:?}");
            let named = result
                .err()
                .is_none_or(|problem| problem.contains("another schema"));
            assert!(named, "{to:?}: {blob}");
        }
    }

    #[test]
    fn a_blob_can_be_a_single_record() {
        assert_eq!(read(EVENT_GRID).expect("a dead letter").len(), 1);
        assert_eq!(read("[]").expect("none").len(), 0);
    }

    #[test]
    fn what_is_no_dead_letter_rejects_the_whole_blob() {
        for (blob, problem) in [
            ("", "it is no blob of dead letters"),
            ("[{}", "it is no blob of dead letters"),
            ("[1]", "event [0]: it is no dead letter"),
            (r#"[{"a":1}]"#, "event [0]: it is no dead letter"),
            (
                &format!(r#"[{EVENT_GRID},{{"event":7}}]"#),
                "event [1]: it is no dead letter",
            ),
            (
                &format!(r#"[{EVENT_GRID},{{"eventType":"T"}}]"#),
                "event [1], field",
            ),
        ] {
            let error = read(blob).expect_err(blob);
            assert!(error.starts_with(problem), "{blob}: {error}");
        }
    }
}
