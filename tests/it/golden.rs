//! Requests as Azure's clients send them, what is read from them, and what is delivered.
//!
//! Each folder `tests/golden/<schema>/<case>` holds the request (`request.http`, for custom events also
//! `mapping.json` in Azure's form) and what comes of it. With `UPDATE=1` in the environment the latter
//! is written anew, to be reviewed as a change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use everpost::base::{Entropy, Timestamp};
use everpost::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use everpost::model::delivery::Outcome;
use everpost::model::event::{EventKey, StoredEvent};
use everpost::model::topic::{DeliverySchema, InputMapping, InputSchema, MappedField};
use everpost::wire::dead_letter::{DeadLetterFacts, record};
use everpost::wire::{BadInput, Payload, decode, encode};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

const TOPIC: &str = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/everpost\
                     /providers/Microsoft.EventGrid/topics/orders";

/// 2026-11-21T06:40:53.138Z
const NOW: Timestamp = Timestamp::from_ms(1_795_243_253_138);

const GIVEN: [&str; 2] = ["request.http", "mapping.json"];

/// File names and contents.
type Files = BTreeMap<String, String>;

#[test]
fn requests_become_deliveries() {
    let update = std::env::var_os("UPDATE").is_some();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut differences = Vec::new();
    let mut cases = 0;
    for schema in entries(&root) {
        for case in entries(&schema) {
            cases += 1;
            let outcome = outcome(&case);
            if update {
                write(&case, &outcome);
            }
            differences.extend(compare(&case, &outcome));
        }
    }
    assert!(cases > 0, "there are cases in {}", root.display());
    assert!(
        differences.is_empty(),
        "{}\n\nIf this is as it should be, run the test with UPDATE=1 and review the change.",
        differences.join("\n\n")
    );
}

/// What comes of the request of a case.
fn outcome(case: &Path) -> Files {
    let (headers, body) = request(&case.join("request.http"));
    let schema = schema(case);
    let events = decode(&schema, TOPIC, &headers, &body, NOW, &Entropy::seeded(1));
    match events {
        Err(bad) => Files::from([("rejection.txt".to_owned(), rejection(&bad))]),
        Ok(events) => {
            let keys = (1..).map(EventKey);
            let events: Vec<StoredEvent> = keys
                .zip(events)
                .map(|(key, event)| StoredEvent {
                    key,
                    received_at: NOW,
                    event,
                })
                .collect();
            deliveries(&schema, &events)
        }
    }
}

fn rejection(bad: &BadInput) -> String {
    format!("{:?}: {bad}\n", bad.kind)
}

fn deliveries(input: &InputSchema, events: &[StoredEvent]) -> Files {
    let mut files = Files::from([("events.txt".to_owned(), format!("{events:#?}\n"))]);
    for schema in DeliverySchema::ALL {
        if schema.can_express(input) {
            let name = schema.name();
            files.insert(format!("delivered.{name}.http"), delivered(schema, events));
            files.insert(
                format!("dead_letter.{name}.json"),
                dead_letters(schema, events),
            );
        }
    }
    files
}

/// Each event by itself, then all of them as a batch.
fn delivered(schema: DeliverySchema, events: &[StoredEvent]) -> String {
    let singles = events
        .iter()
        .map(|event| encode(schema, TOPIC, &[event], false));
    let references: Vec<&StoredEvent> = events.iter().collect();
    let batch = encode(schema, TOPIC, &references, true);
    singles
        .chain([batch])
        .map(|payload| shown(&payload))
        .collect()
}

fn shown(payload: &Payload) -> String {
    let body = text(&payload.body);
    let content_type = payload.content_type;
    format!("Content-Type: {content_type}\n\n{body}\n\n")
}

fn dead_letters(schema: DeliverySchema, events: &[StoredEvent]) -> String {
    let facts = DeadLetterFacts {
        reason: DeadLetterReason::MaxDeliveryAttemptsExceeded,
        details: DeadLetterDetails::default(),
        attempts: 30,
        last_outcome: Some(Outcome::Busy),
        last_status: Some(503),
        publish_time: NOW,
        last_attempt_at: Some(NOW),
    };
    let records = events
        .iter()
        .map(|event| record(schema, TOPIC, event, &facts));
    records
        .map(|record| format!("{}\n", text(&record)))
        .collect()
}

/// Whatever is delivered must at least be JSON.
fn text(json: &[u8]) -> &str {
    serde_json::from_slice::<Value>(json).expect("what is delivered is JSON");
    std::str::from_utf8(json).expect("what is delivered is UTF-8")
}

/// Header lines, an empty line, and the body without the file's last line break.
fn request(path: &Path) -> (HeaderMap, Vec<u8>) {
    let file = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let end = file.windows(2).position(|two| two == b"\n\n");
    let end = end.expect("an empty line ends the headers");
    let lines = std::str::from_utf8(&file[..end]).expect("headers are text");
    let headers = lines.lines().map(|line| {
        let (name, value) = line
            .split_once(": ")
            .expect("a header has a name and a value");
        let name: HeaderName = name.parse().expect("the name of a header");
        let value: HeaderValue = value.parse().expect("the value of a header");
        (name, value)
    });
    let body = &file[end + 2..];
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    (headers.collect(), body.to_vec())
}

/// The schema that the case's parent folder is named after.
fn schema(case: &Path) -> InputSchema {
    let folder = case
        .parent()
        .and_then(Path::file_name)
        .and_then(|name| name.to_str());
    match folder {
        Some("event_grid") => InputSchema::EventGridSchema,
        Some("cloud_events") => InputSchema::CloudEventSchemaV1_0,
        Some("custom") => {
            let mapping = fs::read(case.join("mapping.json")).expect("a mapping");
            let mapping: Value = serde_json::from_slice(&mapping).expect("a mapping in JSON");
            InputSchema::CustomEventSchema(Box::new(mapping_of(&mapping["properties"])))
        }
        other => panic!("no input schema is kept in the folder {other:?}"),
    }
}

fn mapping_of(properties: &Value) -> InputMapping {
    let text = |part: &str, name: &str| properties[part][name].as_str().map(str::to_owned);
    let source = |part| text(part, "sourceField");
    let field = |part| MappedField {
        source_field: text(part, "sourceField"),
        default_value: text(part, "defaultValue"),
    };
    InputMapping {
        id: source("id"),
        topic: source("topic"),
        event_time: source("eventTime"),
        event_type: field("eventType"),
        subject: field("subject"),
        data_version: field("dataVersion"),
    }
}

fn write(case: &Path, outcome: &Files) {
    for stale in entries(case) {
        if !GIVEN.contains(&&*name_of(&stale)) {
            fs::remove_file(stale).expect("an old outcome is removed");
        }
    }
    for (name, content) in outcome {
        fs::write(case.join(name), content).expect("an outcome is written");
    }
}

/// Tells every file that is missing, left over or different.
fn compare(case: &Path, outcome: &Files) -> Vec<String> {
    let found: Files = entries(case)
        .iter()
        .map(|path| (name_of(path), fs::read_to_string(path).unwrap_or_default()))
        .filter(|(name, _)| !GIVEN.contains(&&**name))
        .collect();
    let left_over = found.keys().filter(|name| !outcome.contains_key(*name));
    let left_over = left_over.map(|name| format!("{}: left over", case.join(name).display()));
    let different = outcome
        .iter()
        .filter(|(name, content)| found.get(*name) != Some(content));
    let different = different.map(|(name, content)| {
        let path = case.join(name);
        let expected = found.get(name).map_or("(no such file)", String::as_str);
        format!(
            "{}:\n--- expected\n{expected}\n+++ is\n{content}",
            path.display()
        )
    });
    left_over.chain(different).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of goldens");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry of the folder").path())
        .collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().expect("an entry has a name");
    name.to_string_lossy().into_owned()
}
