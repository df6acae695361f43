//! Events to publish, in requests of a sensible size: made from a template, or read from a file.

use std::io::Read;

use anyhow::Context;
use serde_json::de::IoRead;
use serde_json::value::RawValue;
use serde_json::{Deserializer, StreamDeserializer, Value};

use crate::app::cli::schema::SchemaArgument;
use crate::base::{Clock, Entropy};
use crate::model::limits::EVENT_BYTES_MAX;

/// Number of events per request: enough to keep requests few, and few enough to repeat after a failure.
pub(super) const BATCH_EVENTS: usize = 500;

/// Maximum size of a request in bytes: half the maximum size of an event. A larger event is sent alone.
const BATCH_BYTES: usize = EVENT_BYTES_MAX / 2;

/// The bodies of requests, one after the other.
pub(super) struct Batches {
    events: Box<dyn Iterator<Item = anyhow::Result<String>>>,
    /// Event that did not fit into the last batch.
    held_back: Option<String>,
}

/// Events of one request, as JSON.
#[derive(Debug, Default)]
pub(super) struct RequestEvents {
    events: Vec<String>,
    bytes: usize,
}

/// An event to be made again and again, with a new id and time.
pub(super) struct Template {
    pub(super) schema: SchemaArgument,
    pub(super) id: Option<String>,
    pub(super) event_type: String,
    pub(super) subject: String,
    /// Event data, sent exactly as written.
    pub(super) data: Box<RawValue>,
    pub(super) clock: Clock,
    pub(super) entropy: Entropy,
}

impl Batches {
    /// Returns `count` events made from the template.
    pub(super) fn made(template: Template, count: u64) -> Self {
        Self::of((0..count).map(move |_| Ok(template.make())))
    }

    /// Returns the events of a file that holds a sequence of JSON values; each element of an array is one event.
    pub(super) fn read(source: Box<dyn Read>) -> Self {
        let values = Deserializer::from_reader(std::io::BufReader::new(source)).into_iter();
        Self::of(RawValues {
            values,
            array: Vec::new().into_iter(),
        })
    }

    fn of(events: impl Iterator<Item = anyhow::Result<String>> + 'static) -> Self {
        Self {
            events: Box::new(events),
            held_back: None,
        }
    }
}

/// Ends after the first error.
impl Iterator for Batches {
    type Item = anyhow::Result<RequestEvents>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batch = RequestEvents::default();
        if let Some(event) = self.held_back.take() {
            batch.add(event);
        }
        while batch.events.len() < BATCH_EVENTS {
            match self.events.next() {
                None => break,
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(event)) if batch.has_room(&event) => batch.add(event),
                Some(Ok(event)) => {
                    self.held_back = Some(event);
                    break;
                }
            }
        }
        (batch.len() > 0).then_some(Ok(batch))
    }
}

impl RequestEvents {
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns the request body: an array, which every schema accepts.
    pub(super) fn body(&self) -> String {
        format!("[{}]", self.events.join(","))
    }

    fn has_room(&self, event: &str) -> bool {
        self.events.is_empty() || self.bytes + event.len() < BATCH_BYTES
    }

    fn add(&mut self, event: String) {
        self.bytes += event.len() + 1;
        self.events.push(event);
    }
}

impl Template {
    fn make(&self) -> String {
        let id = self
            .id
            .clone()
            .unwrap_or_else(|| self.entropy.uuid().to_string());
        let now = self.clock.now().to_string();
        let texts = [id, self.event_type.clone(), self.subject.clone(), now];
        let [id, event_type, subject, now] = texts.map(Value::from);
        let data = &self.data;
        match self.schema {
            SchemaArgument::Custom => data.get().to_owned(),
            SchemaArgument::Eventgrid => format!(
                r#"{{"id":{id},"eventType":{event_type},"subject":{subject},"eventTime":{now},"dataVersion":"1","data":{data}}}"#
            ),
            SchemaArgument::Cloudevents => format!(
                r#"{{"specversion":"1.0","id":{id},"source":"/everpost/publish","type":{event_type},"subject":{subject},"time":{now},"datacontenttype":"application/json","data":{data}}}"#
            ),
        }
    }
}

/// Reads JSON values from a file byte for byte, so that numbers keep all their digits.
struct RawValues {
    values: StreamDeserializer<'static, IoRead<std::io::BufReader<Box<dyn Read>>>, Box<RawValue>>,
    array: std::vec::IntoIter<Box<RawValue>>,
}

impl Iterator for RawValues {
    type Item = anyhow::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.array.next() {
                return Some(Ok(event.get().to_owned()));
            }
            let value = match self.values.next()? {
                Ok(value) => value,
                Err(error) => return Some(Err(error).context("the events are not JSON")),
            };
            if !value.get().starts_with('[') {
                return Some(Ok(value.get().to_owned()));
            }
            match serde_json::from_str::<Vec<Box<RawValue>>>(value.get()) {
                Ok(array) => self.array = array.into_iter(),
                Err(error) => return Some(Err(error).context("the events are not JSON")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;

    fn raw(json: String) -> Box<RawValue> {
        RawValue::from_string(json).expect("JSON")
    }

    fn template(schema: SchemaArgument) -> Template {
        Template {
            schema,
            id: Some("a-1".to_owned()),
            event_type: "T".to_owned(),
            subject: "s".to_owned(),
            data: raw("{\"n\": 1.10}".to_owned()),
            clock: Clock::simulated(Timestamp::from_ms(0)),
            entropy: Entropy::seeded(1),
        }
    }

    #[test]
    fn events_have_the_form_of_their_schema() {
        let check = |schema, expected: &str| assert_eq!(template(schema).make(), expected);
        check(
            SchemaArgument::Eventgrid,
            r#"{"id":"a-1","eventType":"T","subject":"s","eventTime":"1970-01-01T00:00:00.000Z","dataVersion":"1","data":{"n": 1.10}}"#,
        );
        check(
            SchemaArgument::Cloudevents,
            r#"{"specversion":"1.0","id":"a-1","source":"/everpost/publish","type":"T","subject":"s","time":"1970-01-01T00:00:00.000Z","datacontenttype":"application/json","data":{"n": 1.10}}"#,
        );
        check(SchemaArgument::Custom, r#"{"n": 1.10}"#);
        let mut nameless = template(SchemaArgument::Eventgrid);
        nameless.id = None;
        assert_ne!(
            nameless.make(),
            nameless.make(),
            "every event has an id of its own"
        );
    }

    fn sizes(batches: Batches) -> Vec<usize> {
        batches.map(|batch| batch.expect("events").len()).collect()
    }

    #[test]
    fn batches_are_bounded_by_count_and_bytes() {
        assert_eq!(
            sizes(Batches::made(template(SchemaArgument::Custom), 1)),
            [1]
        );
        assert_eq!(
            sizes(Batches::made(template(SchemaArgument::Custom), 1_001)),
            [500, 500, 1]
        );
        let mut big = template(SchemaArgument::Custom);
        big.data = raw(format!("\"{}\"", "x".repeat(BATCH_BYTES / 2)));
        assert_eq!(sizes(Batches::made(big, 3)), [1, 1, 1]);
        let mut small = template(SchemaArgument::Custom);
        small.data = raw(format!("\"{}\"", "x".repeat(BATCH_BYTES / 3)));
        assert_eq!(sizes(Batches::made(small, 5)), [2, 2, 1]);
    }

    fn read(text: &'static str) -> Result<Vec<String>, String> {
        let batches = Batches::read(Box::new(text.as_bytes()));
        let bodies = batches.map(|batch| batch.map(|batch| batch.body()));
        let bodies: anyhow::Result<Vec<String>> = bodies.collect();
        bodies.map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn files_hold_events_in_arrays_or_one_after_the_other() {
        let check = |text: &'static str, bodies: &[&str]| {
            assert_eq!(read(text).expect(text), bodies, "{text}");
        };
        check("", &[]);
        check("[]", &[]);
        check("{\"id\":1}", &["[{\"id\":1}]"]);
        check(
            " [ {\"a\": 1.10} , {\"b\":2} ] \n",
            &["[{\"a\": 1.10},{\"b\":2}]"],
        );
        check(
            "{\"a\":1}\n{\"b\":2}\n[{\"c\":12345678901234567890123}]",
            &["[{\"a\":1},{\"b\":2},{\"c\":12345678901234567890123}]"],
        );
        let error = read("{\"a\":1}\n{oops").expect_err("no JSON");
        assert!(error.starts_with("the events are not JSON"), "{error}");
    }
}
