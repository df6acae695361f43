//! Everpost's own door to searches in the events.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::asked::{Of, moment, one_of};
use crate::api::auth::Principal;
use crate::api::error::ApiError;
use crate::api::operate::records::PAGE_ROWS;
use crate::api::parameters::Parameters;
use crate::model::event::EventKey;
use crate::model::event_filter::{DeliveryStage, EventFilter};
use crate::store::views::{EventQuery, EventRow, SearchProgress};

/// The filters as a query has them.
#[derive(Deserialize)]
pub(crate) struct EventParameters {
    topic: Option<String>,
    subscription: Option<String>,
    state: Option<String>,
    id: Option<String>,
    #[serde(rename = "type")]
    event_type: Option<String>,
    subject: Option<String>,
    text: Option<String>,
    from: Option<String>,
    to: Option<String>,
    #[serde(default)]
    unmatched: bool,
    limit: Option<usize>,
    before: Option<i64>,
}

impl EventParameters {
    fn query(self, state: &ApiState, principal: &Principal) -> Result<EventQuery, ApiError> {
        let (topic, subscription) = (self.topic.as_deref(), self.subscription.as_deref());
        let of = Of::named(topic, subscription, state)?;
        Ok(EventQuery {
            before: self.before.map(EventKey),
            limit: self.limit.unwrap_or(PAGE_ROWS),
            filter: EventFilter {
                topic: of.topic,
                subscription: of.subscription,
                state: one_of(
                    "state",
                    self.state.as_deref(),
                    &DeliveryStage::ALL,
                    DeliveryStage::name,
                )?,
                from: moment("from", self.from.as_deref())?,
                to: moment("to", self.to.as_deref())?,
                id: self.id,
                event_type: self.event_type,
                subject: self.subject,
                text: principal.sought(self.text),
                unmatched: self.unmatched,
            },
        })
    }
}

/// `GET /everpost/events`
pub(crate) async fn list(
    State(state): State<ApiState>,
    principal: Principal,
    Parameters(filter): Parameters<EventParameters>,
) -> Result<Json<Value>, ApiError> {
    let page = state
        .views
        .events(filter.query(&state, &principal)?)
        .await?;
    let rows: Vec<Value> = page.rows.iter().map(event_row).collect();
    Ok(Json(json!({
        "value": rows,
        "nextBefore": page.next_before.map(|key| key.0),
        "lookedBack": page.progress.map(progress),
    })))
}

fn progress(progress: SearchProgress) -> Value {
    json!({ "events": progress.events, "to": progress.to.to_string() })
}

fn event_row(row: &EventRow) -> Value {
    let deliveries = row.deliveries.iter();
    let deliveries: serde_json::Map<_, _> = deliveries
        .map(|(state, count)| (state.name().to_owned(), Value::from(*count)))
        .collect();
    json!({
        "key": row.key.0,
        "topic": row.topic,
        "id": row.id,
        "eventType": row.event_type,
        "subject": row.subject,
        "receivedAt": row.received_at.to_string(),
        "size": row.data_bytes,
        "matched": row.matched,
        "deliveries": deliveries,
    })
}
