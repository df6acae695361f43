//! Dead-letter records: the event and the reason why it was not delivered (rule 9.3; for namespace topics rule N7).

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::base::Timestamp;
use crate::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use crate::model::delivery::Outcome;
use crate::model::destination::{AttributeValue, DeliveryAttributeMapping};
use crate::model::event::{Event, StoredEvent};
use crate::model::subscription::SubscriptionDefinition;
use crate::model::topic::DeliverySchema;
use crate::wire::attribute::dynamic_value;
use crate::wire::json::ObjectWriter;
use crate::wire::{cloud_events, event_grid};

/// The facts that a dead-letter record adds to the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterFacts {
    pub reason: DeadLetterReason,
    /// The details that the receiver gave, if it dead-lettered the event itself.
    pub details: DeadLetterDetails,
    /// The number of attempts made in all.
    pub attempts: u32,
    /// The outcome of the last attempt; `None` when there was none, as with an event that expired first.
    pub last_outcome: Option<Outcome>,
    /// The HTTP status of the last attempt, if it was answered.
    pub last_status: Option<u16>,
    pub publish_time: Timestamp,
    pub last_attempt_at: Option<Timestamp>,
}

/// The names of the facts in a dead-letter record.
struct RecordNames {
    reason: &'static str,
    description: &'static str,
    attempts: &'static str,
    last_outcome: &'static str,
    last_status: &'static str,
    publish_time: &'static str,
    last_attempt_at: &'static str,
}

const EVENT_GRID: RecordNames = RecordNames {
    reason: "deadLetterReason",
    description: "deadLetterErrorDescription",
    attempts: "deliveryAttempts",
    last_outcome: "lastDeliveryOutcome",
    last_status: "lastHttpStatusCode",
    publish_time: "publishTime",
    last_attempt_at: "lastDeliveryAttemptTime",
};

/// The names of the facts as extension attributes, which have no capital letters.
const CLOUD_EVENTS: RecordNames = RecordNames {
    reason: "deadletterreason",
    description: "deadlettererrordescription",
    attempts: "deliveryattempts",
    last_outcome: "lastdeliveryoutcome",
    last_status: "lasthttpstatuscode",
    publish_time: "publishtime",
    last_attempt_at: "lastdeliveryattempttime",
};

/// The topic and the event subscription of a dead letter, which decide on the shape of its record.
#[derive(Clone, Copy, Debug)]
pub struct RecordOf<'a> {
    /// Is true if the topic is one of a namespace.
    pub is_in_namespace: bool,
    pub topic_resource_id: &'a str,
    /// `None` once the event subscription is deleted.
    pub definition: Option<&'a SubscriptionDefinition>,
}

impl RecordOf<'_> {
    /// Writes the record that Azure would write to storage. The kind of the topic decides on the format. The schema is
    /// that of the event subscription or, if the subscription is deleted, that in which the event was published.
    pub fn write(&self, event: &StoredEvent, facts: &DeadLetterFacts) -> Vec<u8> {
        let definition = self.definition;
        if self.is_in_namespace {
            let headers = definition.map_or(&[][..], |each| each.destination.attribute_mappings());
            return namespace_record(self.topic_resource_id, event, headers, facts);
        }
        let published = || published_schema(&event.event);
        let schema = definition.map_or_else(published, |definition| definition.delivery_schema);
        record(schema, self.topic_resource_id, event, facts)
    }
}

/// Returns the schema in which an event was published. Only CloudEvents have no data version.
fn published_schema(event: &Event) -> DeliverySchema {
    match event.data_version {
        Some(_) => DeliverySchema::EventGridSchema,
        None => DeliverySchema::CloudEventSchemaV1_0,
    }
}

/// Writes a record as one JSON object: the event as it would have been delivered, with the facts beside the properties
/// of the event. A custom event is written in the Event Grid schema.
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
            // Replaces old facts, which an event has if it was dead-lettered before and published again.
            let renewed = CLOUD_EVENTS.all();
            cloud_events::write_members(&mut object, topic_resource_id, event, &renewed);
            CLOUD_EVENTS.write(&mut object, facts);
        }
    }
    object.close();
    out
}

/// Writes the record of an event of a namespace topic as one JSON object. The record has three inner objects: the event
/// as it would have been delivered, the custom headers of the webhook delivery without secrets, and the facts.
fn namespace_record(
    topic_resource_id: &str,
    event: &StoredEvent,
    headers: &[DeliveryAttributeMapping],
    facts: &DeadLetterFacts,
) -> Vec<u8> {
    let mut whole = Vec::with_capacity(event.event.size() + 768);
    cloud_events::write(&mut whole, topic_resource_id, event);
    let mut out = Vec::with_capacity(whole.len() + 512);
    let mut object = ObjectWriter::open(&mut out);
    object.raw("event", &String::from_utf8_lossy(&whole));
    let headers = shown_headers(headers, &event.event, topic_resource_id);
    object.raw(
        "customDeliveryProperties",
        &Value::Object(headers).to_string(),
    );
    object.raw("deadletterProperties", &broker_facts(facts).to_string());
    object.close();
    out
}

fn shown_headers(
    headers: &[DeliveryAttributeMapping],
    event: &Event,
    topic: &str,
) -> Map<String, Value> {
    let shown = headers.iter().filter_map(|mapping| {
        let value = match &mapping.value {
            AttributeValue::Static { is_secret, .. } if *is_secret => return None,
            AttributeValue::Static { value, .. } => value.reveal().to_owned(),
            AttributeValue::Dynamic { source_field } => dynamic_value(event, topic, source_field)?,
        };
        Some((mapping.name.clone(), Value::from(value)))
    });
    shown.collect()
}

/// Returns the value of `deadletterProperties`. Without a delivery attempt, its result and time are left out.
fn broker_facts(facts: &DeadLetterFacts) -> Value {
    // A receiver that rejects an event may supply its own reason.
    let reason = facts.details.reason.as_deref();
    let mut object = json!({
        "deadletterreason": reason.unwrap_or(sentence_for(facts.reason)),
        "deliveryattempts": facts.attempts,
        "publishutc": facts.publish_time.to_azure(),
    });
    if let Some(outcome) = facts.last_outcome {
        object["deliveryresult"] = result_name(outcome, facts.last_status).into();
    }
    if let Some(at) = facts.last_attempt_at {
        object["deliveryattemptutc"] = at.to_azure().into();
    }
    object
}

/// Returns the sentence for a reason: Azure's sentence if it is published, otherwise this project's own, which must not
/// change.
fn sentence_for(reason: DeadLetterReason) -> &'static str {
    match reason {
        DeadLetterReason::MaxDeliveryAttemptsExceeded => "Maximum delivery attempts was exceeded.",
        DeadLetterReason::TimeToLiveExceeded => "Event time to live has expired.",
        DeadLetterReason::UndeliverableDueToClientError
        | DeadLetterReason::UndeliverableDueToProbationCausedByClientError
        | DeadLetterReason::UndeliverableDueToHttpBadRequest
        | DeadLetterReason::UndeliverableDueToHttpUnauthorized
        | DeadLetterReason::UndeliverableDueToHttpForbidden
        | DeadLetterReason::UndeliverableDueToHttpRequestEntityTooLarge => {
            "Undeliverable due to client error"
        }
        DeadLetterReason::SubscriptionDeleted => "Event subscription was deleted.",
        DeadLetterReason::Cancelled => "Scheduled message was cancelled.",
        DeadLetterReason::SessionIdMissing => "Session id is missing.",
        DeadLetterReason::FilterEvaluationFailed => "Rule could not be evaluated.",
        DeadLetterReason::HeaderSizeExceeded => "Header size was exceeded.",
        DeadLetterReason::MaxTransferHopCountExceeded => "Maximum transfer hop count was exceeded.",
        DeadLetterReason::ForwardTargetFull => "Queue or topic to forward to is full.",
        DeadLetterReason::ForwardTargetDisabled => "Queue or topic to forward to is disabled.",
        DeadLetterReason::ForwardTargetMissing => "Queue or topic to forward to was not found.",
        DeadLetterReason::MessageSizeExceeded => {
            "Queue or topic to forward to takes smaller messages."
        }
        DeadLetterReason::EventUnreadable => "Event could not be read.",
        DeadLetterReason::Application => "Event was rejected.",
        DeadLetterReason::Manual => "Event was dead-lettered by an operator.",
    }
}

/// Returns the name of the HTTP status of the last attempt; without a known status, a text for the outcome.
fn result_name(outcome: Outcome, status: Option<u16>) -> String {
    let known = status.and_then(|status| StatusCode::from_u16(status).ok());
    match known.and_then(|status| status.canonical_reason()) {
        Some(reason) => reason.replace([' ', '-'], ""),
        None if is_undecided(outcome) => "Event was not acknowledged nor rejected.".to_owned(),
        None => outcome.name().to_owned(),
    }
}

/// Reports whether a receiver got the event, but did not decide what becomes of it.
fn is_undecided(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::LockLost | Outcome::Released)
}

/// Reports whether a record has a fact of that name beside the members of the event.
pub(super) fn is_fact(name: &str, of_cloud_event: bool) -> bool {
    let names = if of_cloud_event {
        CLOUD_EVENTS
    } else {
        EVENT_GRID
    };
    names.all().contains(&name)
}

impl RecordNames {
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
    use crate::model::access::Secret;
    use crate::model::event::{Attribute, EventData, EventKey};

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

    fn namespace_facts(reason: DeadLetterReason, status: Option<u16>) -> DeadLetterFacts {
        DeadLetterFacts {
            reason,
            attempts: 3,
            last_outcome: Some(status.map_or(Outcome::SocketError, Outcome::of_status)),
            last_status: status,
            ..facts()
        }
    }

    #[test]
    fn namespaces_wrap_the_event_and_tell_no_secrets() {
        let static_header = |name: &str, is_secret| DeliveryAttributeMapping {
            name: name.to_owned(),
            value: AttributeValue::Static {
                value: Secret::new("value1"),
                is_secret,
            },
        };
        let headers = [
            static_header("custom-header-1", false),
            static_header("custom-header-2", true),
            DeliveryAttributeMapping {
                name: "custom-header-3".to_owned(),
                value: AttributeValue::Dynamic {
                    source_field: "data.a".to_owned(),
                },
            },
        ];
        let event = stored(None, &[("tenant", "\"n\"")]);
        let reason = DeadLetterReason::UndeliverableDueToClientError;
        let facts = namespace_facts(reason, Some(401));
        let record = namespace_record("/t", &event, &headers, &facts);
        let record: Value = serde_json::from_slice(&record).expect("JSON");
        let expected = json!({
            "event": {"id": "1", "source": "/t", "specversion": "1.0", "type": "T", "subject": "/s",
                "time": "2026-11-21T06:40:53Z", "tenant": "n", "data": {"a": 1}},
            "customDeliveryProperties": {"custom-header-1": "value1", "custom-header-3": "1"},
            "deadletterProperties": {
                "deadletterreason": "Undeliverable due to client error", "deliveryattempts": 3,
                "deliveryresult": "Unauthorized", "publishutc": "2026-11-21T06:40:53.1380000Z",
                "deliveryattemptutc": "2026-11-21T06:40:54.0000000Z",
            },
        });
        assert_eq!(record, expected);
    }

    #[test]
    fn namespaces_have_words_of_their_own() {
        for (reason, status, sentence, result) in [
            (
                DeadLetterReason::MaxDeliveryAttemptsExceeded,
                Some(500),
                "Maximum delivery attempts was exceeded.",
                "InternalServerError",
            ),
            (
                DeadLetterReason::UndeliverableDueToClientError,
                Some(414),
                "Undeliverable due to client error",
                "URITooLong",
            ),
            (
                DeadLetterReason::TimeToLiveExceeded,
                None,
                "Event time to live has expired.",
                "SocketError",
            ),
        ] {
            let facts = broker_facts(&namespace_facts(reason, status));
            assert_eq!(facts["deadletterreason"], sentence);
            assert_eq!(facts["deliveryresult"], result);
        }
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
