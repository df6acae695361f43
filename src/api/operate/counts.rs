//! Everpost's own door to counters: how the deliveries of every event subscription stand, and what
//! happened when.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::parameters::Parameters;
use crate::model::name::TopicName;
use crate::store::views::{Bound, SLOTS_MAX, TrafficOf, TrafficQuery, TrafficSlot};

/// The slots of a series where the client does not say: the last hour by the minute.
pub(crate) const SLOTS: i64 = 60;

/// The length of a slot where the client does not say, and the unit of all lengths.
pub(crate) const MINUTE_S: i64 = 60;

#[derive(Deserialize)]
pub(crate) struct CountsFilter {
    /// Compare with a count of the rows themselves.
    #[serde(default)]
    verify: bool,
}

/// `GET /everpost/counts`
pub(crate) async fn list_counts(
    State(state): State<ApiState>,
    Parameters(filter): Parameters<CountsFilter>,
) -> Result<Json<Value>, ApiError> {
    let mut rows = Vec::new();
    for account in state.broker.accounts().await? {
        let mut row = account.render();
        if filter.verify {
            let verified = state.broker.verify(account.id).await?;
            row["recount"] = json!({
                "pending": verified.recount.pending,
                "deadLetters": verified.recount.dead_letters,
                "agrees": verified.agrees,
            });
        }
        rows.push(row);
    }
    Ok(Json(json!({ "value": rows })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TrafficFilter {
    topic: Option<String>,
    subscription: Option<String>,
    step_seconds: Option<i64>,
    slots: Option<i64>,
}

/// `GET /everpost/traffic`
pub(crate) async fn list_traffic(
    State(state): State<ApiState>,
    Parameters(filter): Parameters<TrafficFilter>,
) -> Result<Json<Value>, ApiError> {
    let of = traffic_of(&state, &filter)?;
    let step = filter.step_seconds.unwrap_or(MINUTE_S);
    if step < MINUTE_S || step % MINUTE_S != 0 {
        return Err(ApiError::bad_request(format!(
            "stepSeconds is {step}; it must be a multiple of {MINUTE_S}."
        )));
    }
    let slots = filter.slots.unwrap_or(SLOTS);
    if !(1..=SLOTS_MAX).contains(&slots) {
        return Err(ApiError::bad_request(format!(
            "slots is {slots}; it must lie between 1 and {SLOTS_MAX}."
        )));
    }
    let now = state.broker.clock().now();
    let query = TrafficQuery::until(now, of, step.saturating_mul(1_000), slots);
    let series = state.views.traffic(query).await?;
    let rows: Vec<Value> = series.iter().map(slot).collect();
    Ok(Json(json!({ "stepSeconds": step, "value": rows })))
}

fn traffic_of(state: &ApiState, filter: &TrafficFilter) -> Result<TrafficOf, ApiError> {
    let Some(topic) = &filter.topic else {
        return match &filter.subscription {
            None => Ok(TrafficOf::Everything),
            Some(_) => Err(ApiError::bad_request(
                "subscription needs topic beside it.".to_owned(),
            )),
        };
    };
    let entry = state.broker.topic(&TopicName::parse(topic)?)?;
    let Some(name) = &filter.subscription else {
        return Ok(TrafficOf::Topic(entry.topic.id));
    };
    let found = entry
        .subscriptions
        .values()
        .find(|each| each.name.as_str().eq_ignore_ascii_case(name));
    let found = found.ok_or_else(|| {
        ApiError::not_found(format!("There is no event subscription {topic}/{name}."))
    })?;
    Ok(TrafficOf::Subscription(found.id))
}

fn slot(slot: &TrafficSlot) -> Value {
    let within = |share| match slot.latency.within_ms(share) {
        Some(Bound::Within(ms)) => json!(ms),
        Some(Bound::Longer) => json!("longer"),
        None => Value::Null,
    };
    json!({
        "from": slot.start_at.to_string(),
        "published": slot.published,
        "unmatched": slot.unmatched,
        "bytes": slot.bytes,
        "matched": slot.matched,
        "attempts": slot.attempts,
        "delivered": slot.delivered,
        "deadLettered": slot.dead_lettered,
        "dropped": slot.dropped,
        "pending": slot.pending,
        "latencyMs": { "p50": within(0.5), "p95": within(0.95), "p99": within(0.99) },
    })
}
