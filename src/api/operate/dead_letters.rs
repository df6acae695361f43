//! Lists, counts and purges dead letters by a filter.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::ApiState;
use crate::api::auth::Principal;
use crate::api::error::ApiError;
use crate::api::filters::{RowScope, moment, one_of};
use crate::api::lists::Page;
use crate::api::operate::records::ShownRow;
use crate::api::parameters::{BothParameters, RequestParameters};
use crate::model::audit::Caller;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::{DeliveryId, Outcome};
use crate::store::views::{DeadLetterQuery, NUMBERS_MAX};
use crate::wire::query::{DeadLetterParameters, Paging};

/// How much is purged at once.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct PurgeParameters {
    /// How many at most.
    #[schemars(extend("default" = NUMBERS_MAX))]
    limit: Option<usize>,
    /// The `nextBefore` of the last request.
    before: Option<i64>,
    /// All dead letters, without any filter.
    #[serde(default)]
    all: bool,
}

impl DeadLetterParameters {
    fn filter(self, state: &ApiState, principal: &Principal) -> Result<DeadLetterFilter, ApiError> {
        let (topic, subscription) = (self.topic.as_deref(), self.subscription.as_deref());
        let scope = RowScope::named(topic, subscription, state)?;
        let outcome = self.outcome.as_deref();
        Ok(DeadLetterFilter {
            topic: scope.topic,
            subscription: scope.subscription,
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
}

/// `GET /everpost/deadLetters`
pub(crate) async fn list(
    State(state): State<ApiState>,
    principal: Principal,
    BothParameters(filter, paging): BothParameters<DeadLetterParameters, Paging>,
) -> Result<Json<Page<ShownRow>>, ApiError> {
    let query = DeadLetterQuery {
        filter: filter.filter(&state, &principal)?,
        before: paging.before.map(DeliveryId),
        limit: paging.limit(),
    };
    let page = state.views.dead_letters(query).await?;
    let next_before = page.next_before.map(|id| id.0);
    let rows = page.rows.into_iter().map(|row| row.seen_by(principal.role));
    Ok(Json(Page::new(
        rows.map(|row| ShownRow::from(&row)),
        next_before,
    )))
}

/// How many dead letters match.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Count {
    count: u64,
}

/// `GET /everpost/deadLetters/count`
pub(crate) async fn count(
    State(state): State<ApiState>,
    principal: Principal,
    RequestParameters(asked): RequestParameters<DeadLetterParameters>,
) -> Result<Json<Count>, ApiError> {
    let filter = asked.filter(&state, &principal)?;
    let count = state.views.count_dead_letters(filter).await?;
    Ok(Json(Count { count }))
}

/// The result of a purge.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(crate) struct Purged {
    removed: usize,
    /// The number of dead letters that receivers have locked, and that were kept.
    locked: usize,
    next_before: Option<i64>,
}

/// `POST /everpost/deadLetters/purge`: purges one batch. To purge all matching dead letters, repeat the request with
/// `before` set to the last `nextBefore` until an answer has no `nextBefore`.
pub(crate) async fn purge(
    State(state): State<ApiState>,
    principal: Principal,
    by: Caller,
    BothParameters(filter, batch): BothParameters<DeadLetterParameters, PurgeParameters>,
) -> Result<Json<Purged>, ApiError> {
    if filter.is_empty() && !batch.all {
        return Err(ApiError::bad_request(
            "A purge needs a filter, or all=true where all dead letters are meant.",
        ));
    }
    let query = DeadLetterQuery {
        filter: filter.filter(&state, &principal)?,
        before: batch.before.map(DeliveryId),
        limit: batch.limit.unwrap_or(NUMBERS_MAX),
    };
    let purged = state.broker.purge_dead_letters(&by, query).await?;
    Ok(Json(Purged {
        removed: purged.removed,
        locked: purged.held,
        next_before: purged.next_before.map(|id| id.0),
    }))
}
