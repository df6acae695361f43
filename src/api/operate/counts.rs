//! Counters: the numbers of deliveries of every event subscription by state, and the traffic over time.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::lists::List;
use crate::api::parameters::RequestParameters;
use crate::base::Timestamp;
use crate::broker::SubscriptionCounts;
use crate::model::name::TopicName;
use crate::store::views::{Bound, SLOTS_MAX, TrafficOf, TrafficQuery, TrafficSlot};

/// Default number of slots in a series: the last hour, with slots of one minute.
pub(crate) const SLOTS: i64 = 60;

/// Default length of a slot in seconds. Every length of a slot is a multiple of it.
pub(crate) const MINUTE_S: i64 = 60;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct CountsFilter {
    /// Counts the rows as well, and compares.
    #[serde(default)]
    verify: bool,
}

/// `GET /everpost/counts`
pub(crate) async fn list_counts(
    State(state): State<ApiState>,
    RequestParameters(filter): RequestParameters<CountsFilter>,
) -> Result<Json<List<SubscriptionCounts>>, ApiError> {
    let mut rows = Vec::new();
    for account in state.broker.accounts().await? {
        let verified = if filter.verify {
            Some(state.broker.verify(account.id).await?)
        } else {
            None
        };
        rows.push(SubscriptionCounts::new(&account, verified));
    }
    Ok(Json(rows.into_iter().collect()))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TrafficFilter {
    /// The name of a topic; one of a namespace is `namespace/topic`.
    topic: Option<String>,
    /// An event subscription of that topic.
    subscription: Option<String>,
    /// The length of a slot.
    #[schemars(range(min = MINUTE_S), extend("multipleOf" = MINUTE_S, "default" = MINUTE_S))]
    step_seconds: Option<i64>,
    /// How many slots.
    #[schemars(range(min = 1, max = SLOTS_MAX), extend("default" = SLOTS))]
    slots: Option<i64>,
}

/// A series of slots of equal length, up to now.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(crate) struct Traffic {
    step_seconds: i64,
    value: Vec<SlotAnswer>,
}

/// The traffic of one slot of time.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TrafficSlot")]
struct SlotAnswer {
    from: Timestamp,
    published: u64,
    unmatched: u64,
    bytes: u64,
    matched: u64,
    attempts: u64,
    delivered: u64,
    dead_lettered: u64,
    dropped: u64,
    /// Deliveries that were pending when the slot ended, or are now.
    pending: u64,
    /// Within how long such a part was delivered.
    latency_ms: Percentiles,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Percentiles {
    p50: Option<Within>,
    p95: Option<Within>,
    p99: Option<Within>,
}

/// At most so many milliseconds, or `longer` than any bound.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum Within {
    Milliseconds(u64),
    Longer(Longer),
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum Longer {
    Longer,
}

impl From<Bound> for Within {
    fn from(bound: Bound) -> Self {
        match bound {
            Bound::Within(ms) => Self::Milliseconds(ms),
            Bound::Longer => Self::Longer(Longer::Longer),
        }
    }
}

/// `GET /everpost/traffic`
pub(crate) async fn list_traffic(
    State(state): State<ApiState>,
    RequestParameters(filter): RequestParameters<TrafficFilter>,
) -> Result<Json<Traffic>, ApiError> {
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
    Ok(Json(Traffic {
        step_seconds: step,
        value: series.iter().map(SlotAnswer::from).collect(),
    }))
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
    let subscription = found.ok_or_else(|| {
        ApiError::not_found(format!("There is no event subscription {topic}/{name}."))
    })?;
    Ok(TrafficOf::Subscription(subscription.id))
}

impl From<&TrafficSlot> for SlotAnswer {
    fn from(slot: &TrafficSlot) -> Self {
        let within = |share| slot.latency.within_ms(share).map(Within::from);
        Self {
            from: slot.start_at,
            published: slot.published,
            unmatched: slot.unmatched,
            bytes: slot.bytes,
            matched: slot.matched,
            attempts: slot.attempts,
            delivered: slot.delivered,
            dead_lettered: slot.dead_lettered,
            dropped: slot.dropped,
            pending: slot.pending,
            latency_ms: Percentiles {
                p50: within(0.5),
                p95: within(0.95),
                p99: within(0.99),
            },
        }
    }
}
