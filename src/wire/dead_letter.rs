//! The record of an event that was given up: the event, and why (spec 9.3).

use crate::base::Timestamp;
use crate::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use crate::model::delivery::Outcome;
use crate::model::event::StoredEvent;
use crate::model::topic::DeliverySchema;
use crate::wire::json::ObjectWriter;
use crate::wire::{cloud_events, event_grid};

/// What a record adds to the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterFacts {
    pub reason: DeadLetterReason,
    /// What the receiver said, where it dead-lettered the event itself.
    pub details: DeadLetterDetails,
    /// Attempts made in all.
    pub attempts: u32,
    /// The outcome of the last attempt; `None` when there was none, as with an event that expired first.
    pub last_outcome: Option<Outcome>,
    /// The HTTP status of the last attempt, if it was answered.
    pub last_status: Option<u16>,
    pub publish_time: Timestamp,
    pub last_attempt_at: Option<Timestamp>,
}

/// The names of what a record adds.
struct Names {
    reason: &'static str,
    description: &'static str,
    attempts: &'static str,
    last_outcome: &'static str,
    last_status: &'static str,
    publish_time: &'static str,
    last_attempt_at: &'static str,
}

const EVENT_GRID: Names = Names {
    reason: "deadLetterReason",
    description: "deadLetterErrorDescription",
    attempts: "deliveryAttempts",
    last_outcome: "lastDeliveryOutcome",
    last_status: "lastHttpStatusCode",
    publish_time: "publishTime",
    last_attempt_at: "lastDeliveryAttemptTime",
};

/// As extension attributes, which have no capital letters.
const CLOUD_EVENTS: Names = Names {
    reason: "deadletterreason",
    description: "deadlettererrordescription",
    attempts: "deliveryattempts",
    last_outcome: "lastdeliveryoutcome",
    last_status: "lasthttpstatuscode",
    publish_time: "publishtime",
    last_attempt_at: "lastdeliveryattempttime",
};

/// Writes the record, one JSON object: the event as it would have been delivered, a custom one wrapped
/// in the Event Grid schema, with the facts beside its own properties.
pub fn record(
    schema: DeliverySchema,
    topic_resource_id: &str,
    event: &StoredEvent,
    facts: &DeadLetterFacts,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(event.event.size() + 768);
    let mut object = ObjectWriter::open(&mut out);
    match schema {
        DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema => {
            event_grid::write_members(&mut object, topic_resource_id, event);
            EVENT_GRID.write(&mut object, facts);
        }
        DeliverySchema::CloudEventSchemaV1_0 => {
            // An event that was dead-lettered before and published again brings its old facts along.
            let renewed = CLOUD_EVENTS.all();
            cloud_events::write_members(&mut object, topic_resource_id, event, &renewed);
            CLOUD_EVENTS.write(&mut object, facts);
        }
    }
    object.close();
    out
}

impl Names {
    fn all(&self) -> [&'static str; 7] {
        [
            self.reason,
            self.description,
            self.attempts,
            self.last_outcome,
            self.last_status,
            self.publish_time,
            self.last_attempt_at,
        ]
    }

    fn write(&self, object: &mut ObjectWriter<'_>, facts: &DeadLetterFacts) {
        let own = facts.details.reason.as_deref();
        object.text(self.reason, own.unwrap_or(facts.reason.name()));
        if let Some(description) = &facts.details.description {
            object.text(self.description, description);
        }
        object.raw(self.attempts, &facts.attempts.to_string());
        if let Some(outcome) = facts.last_outcome {
            object.text(self.last_outcome, outcome.name());
        }
        if let Some(status) = facts.last_status {
            object.raw(self.last_status, &status.to_string());
        }
        object.text(self.publish_time, &facts.publish_time.to_azure());
        if let Some(at) = facts.last_attempt_at {
            object.text(self.last_attempt_at, &at.to_azure());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{Attribute, Event, EventData, EventKey};

    fn facts() -> DeadLetterFacts {
        DeadLetterFacts {
            reason: DeadLetterReason::UndeliverableDueToHttpBadRequest,
            details: DeadLetterDetails::default(),
            attempts: 1,
            last_outcome: Some(Outcome::BadRequest),
            last_status: Some(400),
            publish_time: Timestamp::from_ms(1_795_243_253_138),
            last_attempt_at: Some(Timestamp::from_ms(1_795_243_254_000)),
        }
    }

    fn stored(data_version: Option<&str>, attributes: &[(&str, &str)]) -> StoredEvent {
        let attributes = attributes.iter().map(|(name, value)| Attribute {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        });
        StoredEvent {
            key: EventKey(1),
            received_at: Timestamp::from_ms(1_795_243_253_138),
            event: Event {
                id: "1".to_owned(),
                source: None,
                event_type: "T".to_owned(),
                subject: Some("/s".to_owned()),
                time: Some("2026-11-21T06:40:53Z".to_owned()),
                data_version: data_version.map(str::to_owned),
                attributes: attributes.collect(),
                data: EventData::Json("{ \"a\":1 }".to_owned()),
            },
        }
    }

    fn check(schema: DeliverySchema, event: &StoredEvent, facts: &DeadLetterFacts, expected: &str) {
        let record = record(schema, "/t", event, facts);
        assert_eq!(String::from_utf8(record).expect("UTF-8"), expected);
    }

    const EVENT: &str = r#"{"id":"1","topic":"/t","subject":"/s","eventType":"T","eventTime":"2026-11-21T06:40:53Z","data":{ "a":1 },"dataVersion":"2","metadataVersion":"1","#;

    #[test]
    fn the_facts_stand_beside_the_event() {
        let event = stored(Some("2"), &[]);
        let expected = format!(
            "{EVENT}{}",
            r#""deadLetterReason":"UndeliverableDueToHttpBadRequest","deliveryAttempts":1,"lastDeliveryOutcome":"BadRequest","lastHttpStatusCode":400,"publishTime":"2026-11-21T06:40:53.1380000Z","lastDeliveryAttemptTime":"2026-11-21T06:40:54.0000000Z"}"#
        );
        check(DeliverySchema::EventGridSchema, &event, &facts(), &expected);
        check(
            DeliverySchema::CustomInputSchema,
            &event,
            &facts(),
            &expected,
        );
    }

    #[test]
    fn a_cloud_event_has_them_in_lower_case_and_once() {
        let event = stored(None, &[("tenant", "\"n\""), ("deliveryattempts", "9")]);
        let expected = r#"{"id":"1","source":"/t","specversion":"1.0","type":"T","subject":"/s","time":"2026-11-21T06:40:53Z","tenant":"n","data":{ "a":1 },"deadletterreason":"UndeliverableDueToHttpBadRequest","deliveryattempts":1,"lastdeliveryoutcome":"BadRequest","lasthttpstatuscode":400,"publishtime":"2026-11-21T06:40:53.1380000Z","lastdeliveryattempttime":"2026-11-21T06:40:54.0000000Z"}"#;
        check(
            DeliverySchema::CloudEventSchemaV1_0,
            &event,
            &facts(),
            expected,
        );
    }

    #[test]
    fn what_never_happened_is_left_out() {
        let facts = DeadLetterFacts {
            reason: DeadLetterReason::TimeToLiveExceeded,
            attempts: 0,
            last_outcome: None,
            last_status: None,
            last_attempt_at: None,
            ..facts()
        };
        let expected = format!(
            "{EVENT}{}",
            r#""deadLetterReason":"TimeToLiveExceeded","deliveryAttempts":0,"publishTime":"2026-11-21T06:40:53.1380000Z"}"#
        );
        check(
            DeliverySchema::EventGridSchema,
            &stored(Some("2"), &[]),
            &facts,
            &expected,
        );
    }

    #[test]
    fn the_words_of_a_receiver_stand_in_the_place_of_ours() {
        let facts = DeadLetterFacts {
            reason: DeadLetterReason::Application,
            details: DeadLetterDetails::cut("Unknown customer", Some("no customer 7")),
            ..facts()
        };
        let expected = format!(
            "{EVENT}{}",
            r#""deadLetterReason":"Unknown customer","deadLetterErrorDescription":"no customer 7","deliveryAttempts":1,"lastDeliveryOutcome":"BadRequest","lastHttpStatusCode":400,"publishTime":"2026-11-21T06:40:53.1380000Z","lastDeliveryAttemptTime":"2026-11-21T06:40:54.0000000Z"}"#
        );
        let event = stored(Some("2"), &[]);
        check(DeliverySchema::EventGridSchema, &event, &facts, &expected);
    }
}
