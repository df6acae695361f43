//! Everpost's own door to searches in the dead-letter queues: list, count, purge.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::asked::{Of, Paging, moment, one_of};
use crate::api::auth::Principal;
use crate::api::error::ApiError;
use crate::api::operate::records::{PAGE_ROWS, delivery_row};
use crate::api::parameters::{BothParameters, Parameters};
use crate::model::audit::Caller;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::{DeliveryId, Outcome};
use crate::store::views::{DeadLetterQuery, NUMBERS_MAX};

/// The filters as a query has them.
#[derive(Deserialize)]
pub(crate) struct DeadLetterParameters {
    topic: Option<String>,
    subscription: Option<String>,
    reason: Option<String>,
    outcome: Option<String>,
    status: Option<u16>,
    from: Option<String>,
    to: Option<String>,
    #[serde(rename = "type")]
    event_type: Option<String>,
    subject: Option<String>,
    text: Option<String>,
}

/// How much of a purge is made at once.
#[derive(Deserialize)]
pub(crate) struct PurgeParameters {
    limit: Option<usize>,
    before: Option<i64>,
    /// Says that a purge without any filter is meant.
    #[serde(default)]
    all: bool,
}

impl DeadLetterParameters {
    fn filter(self, state: &ApiState, principal: &Principal) -> Result<DeadLetterFilter, ApiError> {
        let (topic, subscription) = (self.topic.as_deref(), self.subscription.as_deref());
        let of = Of::named(topic, subscription, state)?;
        let outcome = self.outcome.as_deref();
        Ok(DeadLetterFilter {
            topic: of.topic,
            subscription: of.subscription,
            reason: self.reason,
            outcome: one_of("outcome", outcome, &Outcome::ALL, Outcome::name)?,
            status: self.status,
            from: moment("from", self.from.as_deref())?,
            to: moment("to", self.to.as_deref())?,
            event_type: self.event_type,
            subject: self.subject,
            text: principal.sought(self.text),
        })
    }

    fn is_empty(&self) -> bool {
        let texts = [
            &self.topic,
            &self.reason,
            &self.outcome,
            &self.from,
            &self.to,
            &self.event_type,
            &self.subject,
            &self.text,
        ];
        self.status.is_none() && texts.iter().all(|text| text.is_none())
    }
}

/// `GET /everpost/deadLetters`
pub(crate) async fn list(
    State(state): State<ApiState>,
    principal: Principal,
    BothParameters(filter, paging): BothParameters<DeadLetterParameters, Paging>,
) -> Result<Json<Value>, ApiError> {
    let query = DeadLetterQuery {
        filter: filter.filter(&state, &principal)?,
        before: paging.before.map(DeliveryId),
        limit: paging.limit.unwrap_or(PAGE_ROWS),
    };
    let page = state.views.dead_letters(query).await?;
    let rows: Vec<Value> = page.rows.iter().map(delivery_row).collect();
    Ok(Json(
        json!({ "value": rows, "nextBefore": page.next_before.map(|id| id.0) }),
    ))
}

/// `GET /everpost/deadLetters/count`
pub(crate) async fn count(
    State(state): State<ApiState>,
    principal: Principal,
    Parameters(filter): Parameters<DeadLetterParameters>,
) -> Result<Json<Value>, ApiError> {
    let filter = filter.filter(&state, &principal)?;
    let count = state.views.count_dead_letters(filter).await?;
    Ok(Json(json!({ "count": count })))
}

/// `POST /everpost/deadLetters/purge`: one bite of a purge. Whoever wants it all asks again with `before` set
/// to `nextBefore`, until there is none.
pub(crate) async fn purge(
    State(state): State<ApiState>,
    principal: Principal,
    by: Caller,
    BothParameters(filter, bite): BothParameters<DeadLetterParameters, PurgeParameters>,
) -> Result<Json<Value>, ApiError> {
    if filter.is_empty() && !bite.all {
        return Err(ApiError::bad_request(
            "A purge needs a filter, or all=true where all dead letters are meant.",
        ));
    }
    let query = DeadLetterQuery {
        filter: filter.filter(&state, &principal)?,
        before: bite.before.map(DeliveryId),
        limit: bite.limit.unwrap_or(NUMBERS_MAX),
    };
    let purged = state.broker.purge_dead_letters(&by, query).await?;
    Ok(Json(json!({
        "removed": purged.removed,
        "locked": purged.held,
        "nextBefore": purged.next_before.map(|id| id.0),
    })))
}
