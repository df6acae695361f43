//! Searches the stored events.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::ApiState;
use crate::api::auth::Principal;
use crate::api::error::ApiError;
use crate::api::filters::{RowScope, moment, one_of};
use crate::api::lists::Page;
use crate::api::parameters::BothParameters;
use crate::base::Timestamp;
use crate::model::event::EventKey;
use crate::model::event_filter::{DeliveryStage, EventFilter};
use crate::store::views::{EventQuery, EventRow};
use crate::wire::query::{EventParameters, Paging};

/// A page of events, with how far the search came.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(crate) struct FoundEvents {
    #[serde(flatten)]
    page: Page<ShownEvent>,
    /// Set where the search ended before the page was full and before the oldest event.
    looked_back: Option<Progress>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Progress {
    /// Events that were looked at.
    events: u64,
    /// When the last of them was received.
    to: Timestamp,
}

/// An event in a list.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EventRow")]
pub(crate) struct ShownEvent {
    /// The appliance's own number.
    key: i64,
    topic: String,
    /// The publisher's id.
    id: String,
    event_type: String,
    subject: Option<String>,
    received_at: Timestamp,
    /// Bytes of the data.
    size: u64,
    /// Event subscriptions that matched it.
    matched: u64,
    /// Its deliveries, counted by their states.
    deliveries: BTreeMap<&'static str, u64>,
}

impl EventParameters {
    fn query(
        self,
        paging: &Paging,
        state: &ApiState,
        principal: &Principal,
    ) -> Result<EventQuery, ApiError> {
        let (topic, subscription) = (self.topic.as_deref(), self.subscription.as_deref());
        let scope = RowScope::named(topic, subscription, state)?;
        Ok(EventQuery {
            before: paging.before.map(EventKey),
            limit: paging.limit(),
            filter: EventFilter {
                topic: scope.topic,
                subscription: scope.subscription,
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
    BothParameters(filter, paging): BothParameters<EventParameters, Paging>,
) -> Result<Json<FoundEvents>, ApiError> {
    let page = state
        .views
        .events(filter.query(&paging, &state, &principal)?)
        .await?;
    let next_before = page.next_before.map(|key| key.0);
    Ok(Json(FoundEvents {
        page: Page::new(page.rows.iter().map(ShownEvent::from), next_before),
        looked_back: page.progress.map(|progress| Progress {
            events: progress.events,
            to: progress.to,
        }),
    }))
}

impl From<&EventRow> for ShownEvent {
    fn from(row: &EventRow) -> Self {
        let deliveries = row.deliveries.iter();
        Self {
            key: row.key.0,
            topic: row.topic.clone(),
            id: row.id.clone(),
            event_type: row.event_type.clone(),
            subject: row.subject.clone(),
            received_at: row.received_at,
            size: row.data_bytes,
            matched: row.matched,
            deliveries: deliveries
                .map(|(state, count)| (state.name(), *count))
                .collect(),
        }
    }
}
