//! Stored events, deliveries and dead letters.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::memory::AnswerMemory;
use crate::base::Timestamp;
use crate::broker::Hold;
use crate::model::delivery::{DeliveryAttempt, DeliveryId, DeliveryState, Outcome};
use crate::model::event::EventKey;
use crate::model::limits::EVENT_BYTES_MAX;
use crate::model::registry::Registry;
use crate::store::views::{DeliveryDetail, DeliveryRow, EventDetail, LineageRow};
use crate::wire::stored_event::StoredEventBody;

/// `GET /everpost/events/{key}`
pub(crate) async fn get_event(
    State(state): State<ApiState>,
    Path(key): Path<i64>,
    memory: AnswerMemory,
) -> Result<Json<EventBody>, ApiError> {
    memory.reserve(EVENT_BYTES_MAX).await?;
    let found = state.views.event(EventKey(key)).await?;
    let event = found.ok_or_else(|| ApiError::not_found(format!("There is no event {key}.")))?;
    Ok(Json(event_body(&state, &event)))
}

/// `GET /everpost/deadLetters/{id}`
pub(crate) async fn get_dead_letter(
    State(state): State<ApiState>,
    Path(id): Path<i64>,
    memory: AnswerMemory,
) -> Result<Json<DeadLetterBody>, ApiError> {
    let missing = || ApiError::not_found(format!("There is no dead letter {id}."));
    memory.reserve(EVENT_BYTES_MAX).await?;
    let delivery = state.views.delivery(DeliveryId(id)).await?;
    let detail = delivery
        .filter(|found| was_dead(found.row.state))
        .ok_or_else(missing)?;
    let event = state
        .views
        .event(detail.row.event)
        .await?
        .ok_or_else(missing)?;
    Ok(Json(DeadLetterBody {
        record: record(&state.broker.registry(), &detail.row, &event),
        delivery: (&detail).into(),
        event: envelope(&event),
    }))
}

/// Returns the record of a dead letter that Azure would have written to storage.
fn record(registry: &Registry, row: &DeliveryRow, event: &EventDetail) -> Option<Box<RawValue>> {
    let bytes = row.record(&event.stored, registry)?;
    RawValue::from_string(String::from_utf8(bytes).ok()?).ok()
}

/// A dead letter that was resubmitted can still be looked at.
fn was_dead(state: DeliveryState) -> bool {
    match state {
        DeliveryState::DeadLettered | DeliveryState::Resubmitted | DeliveryState::Removed => true,
        DeliveryState::Pending | DeliveryState::Delivered | DeliveryState::Dropped => false,
    }
}

/// An event, and what became of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Event")]
pub(crate) struct EventBody {
    #[serde(flatten)]
    envelope: StoredEventBody,
    deliveries: Vec<ShownDelivery>,
    /// The resubmission that made it; null for what a publisher sent.
    made_by: Option<ResubmissionRecord>,
    resubmissions: Vec<ResubmissionRecord>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeadLetter")]
pub(crate) struct DeadLetterBody {
    #[serde(flatten)]
    delivery: ShownDelivery,
    event: StoredEventBody,
    /// The record that Azure would have written to storage.
    #[schemars(with = "Value")]
    record: Option<Box<RawValue>>,
}

/// A delivery in a list.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeliveryRow")]
pub(crate) struct ShownRow {
    delivery_id: i64,
    event_key: i64,
    event_id: String,
    event_type: String,
    subject: Option<String>,
    topic: String,
    subscription: String,
    state: DeliveryState,
    attempts: u32,
    published_at: Timestamp,
    next_attempt_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    removed_at: Option<Timestamp>,
    locked_until: Option<Timestamp>,
    deferred: bool,
    /// The blob that the dead letter went to.
    blob: Option<String>,
    dead_letter_reason: Option<String>,
    dead_letter_error_description: Option<String>,
    dead_letter_properties: BTreeMap<String, String>,
    last_delivery_outcome: Option<Outcome>,
    last_http_status_code: Option<u16>,
    last_attempt_at: Option<Timestamp>,
    resubmission_of: Option<i64>,
    resubmitted_as: Option<i64>,
}

/// A delivery with its attempts.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Delivery")]
pub(crate) struct ShownDelivery {
    #[serde(flatten)]
    row: ShownRow,
    /// The state that holds it back although it is due, such as Paused or OnProbation.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<Option<ShownHold>>,
    /// When it expires, if that is before its next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    delivery_attempts: Vec<Attempt>,
    /// The resubmission that made it; null for what a publisher sent.
    made_by: Option<ResubmissionRecord>,
    resubmissions: Vec<ResubmissionRecord>,
}

/// The state that holds back a delivery that would be due otherwise.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct ShownHold {
    state: &'static str,
    until: Option<Timestamp>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeliveryAttempt")]
struct Attempt {
    attempt: u32,
    started_at: Timestamp,
    duration_ms: u64,
    outcome: Outcome,
    http_status_code: Option<u16>,
    error: Option<String>,
    /// The part that the request lacked, such as a header whose value could not be sent.
    warning: Option<String>,
    remote_address: Option<String>,
    /// Names and values; empty if the response was large and a later attempt, or another event of the request, has one.
    #[schemars(with = "Vec<[String; 2]>")]
    response_headers: Vec<(String, String)>,
    /// Its first 16 KiB, or 1 KiB where headers are not kept.
    response_body: String,
    /// The status code of an answer that came after the deadline.
    late_http_status_code: Option<u16>,
    late_after_ms: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ResubmissionRecord {
    delivery_id: i64,
    event_key: i64,
    as_delivery_id: Option<i64>,
    as_event_key: Option<i64>,
    /// The topic of the new event; null also once that event is gone.
    as_topic: Option<String>,
    url: Option<String>,
    replay_job: Option<i64>,
    resubmitted_at: Timestamp,
}

fn event_body(state: &ApiState, event: &EventDetail) -> EventBody {
    let deliveries = event.deliveries.iter().map(|detail| {
        let is_pending = detail.row.state == DeliveryState::Pending;
        let hold = is_pending.then(|| state.broker.hold(detail.row.subscription_id));
        ShownDelivery {
            held: Some(hold.flatten().map(ShownHold::from)),
            expires_at: state.broker.expires_first(&detail.row),
            ..detail.into()
        }
    });
    EventBody {
        envelope: envelope(event),
        deliveries: deliveries.collect(),
        made_by: event.lineage.made_by.as_ref().map(ResubmissionRecord::from),
        resubmissions: resubmissions(&event.lineage.resubmissions),
    }
}

fn envelope(detail: &EventDetail) -> StoredEventBody {
    StoredEventBody::new(&detail.stored, &detail.topic, detail.matched)
}

fn resubmissions(rows: &[LineageRow]) -> Vec<ResubmissionRecord> {
    rows.iter().map(ResubmissionRecord::from).collect()
}

impl From<&LineageRow> for ResubmissionRecord {
    fn from(row: &LineageRow) -> Self {
        Self {
            delivery_id: row.delivery.0,
            event_key: row.event.0,
            as_delivery_id: row.as_delivery.map(|id| id.0),
            as_event_key: row.as_event.map(|key| key.0),
            as_topic: row.as_topic.clone(),
            url: row.url.clone(),
            replay_job: row.replay_job.map(|id| id.0),
            resubmitted_at: row.resubmitted_at,
        }
    }
}

impl From<Hold> for ShownHold {
    fn from(Hold { state, until }: Hold) -> Self {
        Self { state, until }
    }
}

impl From<&DeliveryRow> for ShownRow {
    fn from(row: &DeliveryRow) -> Self {
        Self {
            delivery_id: row.id.0,
            event_key: row.event.0,
            event_id: row.event_id.clone(),
            event_type: row.event_type.clone(),
            subject: row.subject.clone(),
            topic: row.topic.clone(),
            subscription: row.subscription.clone(),
            state: row.state,
            attempts: row.attempts,
            published_at: row.published_at,
            next_attempt_at: row.next_attempt_at,
            ended_at: row.ended_at,
            removed_at: row.removed_at,
            locked_until: row.locked_until,
            deferred: row.deferred,
            blob: row.blob.clone(),
            dead_letter_reason: row.reason().map(str::to_owned),
            dead_letter_error_description: row.reason_description().map(str::to_owned),
            dead_letter_properties: row.dead_letter.properties.iter().cloned().collect(),
            last_delivery_outcome: row.last_outcome,
            last_http_status_code: row.last_status,
            last_attempt_at: row.last_attempt_at,
            resubmission_of: row.resubmission_of.map(|id| id.0),
            resubmitted_as: row.resubmitted_as.map(|id| id.0),
        }
    }
}

impl From<&DeliveryDetail> for ShownDelivery {
    fn from(detail: &DeliveryDetail) -> Self {
        Self {
            row: (&detail.row).into(),
            held: None,
            expires_at: None,
            delivery_attempts: detail.attempts.iter().map(Attempt::from).collect(),
            made_by: detail.made_by.as_ref().map(ResubmissionRecord::from),
            resubmissions: resubmissions(&detail.resubmissions),
        }
    }
}

impl From<&DeliveryAttempt> for Attempt {
    fn from(attempt: &DeliveryAttempt) -> Self {
        let result = &attempt.result;
        let response = result.response.clone().unwrap_or_default();
        Self {
            attempt: attempt.attempt,
            started_at: attempt.started_at,
            duration_ms: millis(attempt.duration),
            outcome: result.outcome,
            http_status_code: result.status(),
            error: result.error.clone(),
            warning: result.warning.clone(),
            remote_address: result.remote_address.clone(),
            response_headers: response.headers,
            response_body: String::from_utf8_lossy(&response.body).into_owned(),
            late_http_status_code: attempt.late.and_then(|late| late.status),
            late_after_ms: attempt.late.map(|late| millis(late.after)),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
