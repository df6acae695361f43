//! The record of an event that was given up: the event, and why (spec 9.3).

use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::Outcome;
use crate::model::event::StoredEvent;
use crate::model::topic::DeliverySchema;
use crate::wire::json::ObjectWriter;
use crate::wire::{cloud_events, event_grid};

/// What a record adds to the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetterFacts {
    pub reason: DeadLetterReason,
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
    attempts: &'static str,
    last_outcome: &'static str,
    last_status: &'static str,
    publish_time: &'static str,
    last_attempt_at: &'static str,
}

const EVENT_GRID: Names = Names {
    reason: "deadLetterReason",
    attempts: "deliveryAttempts",
    last_outcome: "lastDeliveryOutcome",
    last_status: "lastHttpStatusCode",
    publish_time: "publishTime",
    last_attempt_at: "lastDeliveryAttemptTime",
};

/// As extension attributes, which have no capital letters.
const CLOUD_EVENTS: Names = Names {
    reason: "deadletterreason",
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
    fn all(&self) -> [&'static str; 6] {
        [
            self.reason,
            self.attempts,
            self.last_outcome,
            self.last_status,
            self.publish_time,
            self.last_attempt_at,
        ]
    }

    fn write(&self, object: &mut ObjectWriter<'_>, facts: &DeadLetterFacts) {
        object.text(self.reason, facts.reason.name());
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
