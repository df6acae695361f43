//! Everpost's own door to what has been stored: events, deliveries and dead letters.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterDetails;
use crate::model::delivery::{DeliveryAttempt, DeliveryId, DeliveryState, Outcome};
use crate::model::event::EventKey;
use crate::model::name::TopicName;
use crate::model::registry::Registry;
use crate::store::views::{DeliveryDetail, DeliveryRow, EventDetail, LineageRow};
use crate::wire::dead_letter::RecordOf;
use crate::wire::stored_event::StoredEventBody;

/// Rows of a page when the client does not say.
pub(crate) const PAGE_ROWS: usize = 50;

/// `GET /everpost/events/{key}`
pub(crate) async fn get_event(
    State(state): State<ApiState>,
    Path(key): Path<i64>,
) -> Result<Json<EventBody>, ApiError> {
    let event = state.views.event(EventKey(key)).await?;
    let event = event.ok_or_else(|| ApiError::not_found(format!("There is no event {key}.")))?;
    Ok(Json(event_body(&state, &event)))
}

/// `GET /everpost/deadLetters/{id}`
pub(crate) async fn get_dead_letter(
    State(state): State<ApiState>,
    Path(id): Path<i64>,
) -> Result<Json<DeadLetterBody>, ApiError> {
    let missing = || ApiError::not_found(format!("There is no dead letter {id}."));
    let detail = state.views.delivery(DeliveryId(id)).await?;
    let detail = detail
        .filter(|found| was_dead(found.row.state))
        .ok_or_else(missing)?;
    let event = state
        .views
        .event(detail.row.event)
        .await?
        .ok_or_else(missing)?;
    Ok(Json(DeadLetterBody {
        record: record(&state.broker.registry(), &detail.row, &event),
        delivery: delivery(&detail),
        event: envelope(&event),
    }))
}

/// What Azure would have written to storage.
fn record(registry: &Registry, row: &DeliveryRow, event: &EventDetail) -> Option<Box<RawValue>> {
    let topic = TopicName::parse(&row.topic).ok()?;
    let facts = row.dead_letter_facts()?;
    let subscription = registry.subscription(row.subscription_id);
    let record = RecordOf {
        topic: &topic,
        topic_resource_id: &registry.resource_id(&topic),
        definition: subscription.map(|(_, each)| &each.definition),
    };
    let bytes = record.write(&event.stored, &facts);
    RawValue::from_string(String::from_utf8(bytes).ok()?).ok()
}

/// A dead letter that was resubmitted can still be looked at.
fn was_dead(state: DeliveryState) -> bool {
    match state {
        DeliveryState::DeadLettered | DeliveryState::Resubmitted | DeliveryState::Removed => true,
        DeliveryState::Pending | DeliveryState::Delivered | DeliveryState::Dropped => false,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventBody {
    #[serde(flatten)]
    envelope: StoredEventBody,
    deliveries: Vec<Value>,
    /// The resubmission that made it; `null` for what a publisher sent.
    made_by: Option<Value>,
    resubmissions: Vec<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadLetterBody {
    #[serde(flatten)]
    delivery: Value,
    event: StoredEventBody,
    record: Option<Box<RawValue>>,
}

fn event_body(state: &ApiState, event: &EventDetail) -> EventBody {
    let deliveries = event.deliveries.iter().map(|each| {
        let mut body = delivery(each);
        let is_pending = each.row.state == DeliveryState::Pending;
        let hold = is_pending.then(|| state.broker.hold(each.row.subscription_id));
        body["held"] = hold.flatten().map(|hold| hold.render()).into();
        body
    });
    EventBody {
        envelope: envelope(event),
        deliveries: deliveries.collect(),
        made_by: event.lineage.made_by.as_ref().map(line),
        resubmissions: event.lineage.resubmissions.iter().map(line).collect(),
    }
}

fn line(line: &LineageRow) -> Value {
    json!({
        "deliveryId": line.delivery.0,
        "eventKey": line.event.0,
        "asDeliveryId": line.as_delivery.map(|id| id.0),
        "asEventKey": line.as_event.map(|key| key.0),
        "asTopic": line.as_topic,
        "url": line.url,
        "replayJob": line.replay_job.map(|id| id.0),
        "resubmittedAt": line.resubmitted_at.to_string(),
    })
}

fn envelope(detail: &EventDetail) -> StoredEventBody {
    StoredEventBody::new(&detail.stored, &detail.topic, detail.matched)
}

pub(crate) fn delivery_row(row: &DeliveryRow) -> Value {
    let moment = |at: Option<Timestamp>| at.map(|at| at.to_string());
    json!({
        "deliveryId": row.id.0,
        "eventKey": row.event.0,
        "eventId": row.event_id,
        "eventType": row.event_type,
        "subject": row.subject,
        "topic": row.topic,
        "subscription": row.subscription,
        "state": row.state.name(),
        "attempts": row.attempts,
        "publishedAt": row.published_at.to_string(),
        "nextAttemptAt": moment(row.next_attempt_at),
        "endedAt": moment(row.ended_at),
        "removedAt": moment(row.removed_at),
        "lockedUntil": moment(row.locked_until),
        "deferred": row.deferred,
        "blob": row.blob,
        "deadLetterReason": row.reason(),
        "deadLetterErrorDescription": row.reason_description(),
        "deadLetterProperties": properties(&row.dead_letter),
        "lastDeliveryOutcome": row.last_outcome.map(Outcome::name),
        "lastHttpStatusCode": row.last_status,
        "lastAttemptAt": moment(row.last_attempt_at),
        "resubmissionOf": row.resubmission_of.map(|id| id.0),
        "resubmittedAs": row.resubmitted_as.map(|id| id.0),
    })
}

/// The properties of a dead letter as an object.
pub(crate) fn properties(details: &DeadLetterDetails) -> Value {
    let properties = details.properties.iter();
    properties
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn delivery(detail: &DeliveryDetail) -> Value {
    let mut body = delivery_row(&detail.row);
    body["deliveryAttempts"] = detail.attempts.iter().map(attempt).collect();
    body["madeBy"] = detail.made_by.as_ref().map(line).into();
    body["resubmissions"] = detail.resubmissions.iter().map(line).collect();
    body
}

fn attempt(attempt: &DeliveryAttempt) -> Value {
    let answer = &attempt.result;
    json!({
        "attempt": attempt.attempt,
        "startedAt": attempt.started_at.to_string(),
        "durationMs": millis(attempt.duration),
        "outcome": answer.outcome.name(),
        "httpStatusCode": answer.status,
        "error": answer.error,
        "remoteAddress": answer.remote_address,
        "responseHeaders": answer.headers,
        "responseBody": String::from_utf8_lossy(&answer.body),
        "lateHttpStatusCode": attempt.late.map(|late| late.status),
        "lateAfterMs": attempt.late.map(|late| millis(late.after)),
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
