//! Publish requests that were rejected.

use axum::Json;
use axum::extract::{Path, State};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::lists::Page;
use crate::api::parameters::BothParameters;
use crate::base::Timestamp;
use crate::model::name::TopicName;
use crate::model::rejection::{RejectionId, StoredRejection};
use crate::store::views::RejectionQuery;
use crate::wire::BodyBeginning;
use crate::wire::query::{Paging, RejectionParameters};

/// A rejected request in a list.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RejectedEventRow")]
pub(crate) struct ShownRejection {
    id: i64,
    topic: String,
    received_at: Timestamp,
    http_status_code: u16,
    code: String,
    reason: String,
    content_type: Option<String>,
    size: usize,
}

/// A rejected request with its body.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RejectedEvent")]
pub(crate) struct RejectionDetail {
    #[serde(flatten)]
    row: ShownRejection,
    #[serde(flatten)]
    body: BodyBeginning,
}

impl From<&StoredRejection> for ShownRejection {
    fn from(stored: &StoredRejection) -> Self {
        let rejection = &stored.rejection;
        Self {
            id: stored.id.0,
            topic: stored.topic.clone(),
            received_at: rejection.received_at,
            http_status_code: rejection.status,
            code: rejection.code.clone(),
            reason: rejection.reason.clone(),
            content_type: rejection.content_type.clone(),
            size: rejection.bytes,
        }
    }
}

/// `GET /everpost/rejectedEvents`
pub(crate) async fn list(
    State(state): State<ApiState>,
    BothParameters(filter, paging): BothParameters<RejectionParameters, Paging>,
) -> Result<Json<Page<ShownRejection>>, ApiError> {
    let topic = match filter.topic {
        Some(name) => Some(state.broker.topic(&TopicName::parse(&name)?)?.topic.id),
        None => None,
    };
    let query = RejectionQuery {
        topic,
        reason: filter.reason,
        before: paging.before.map(RejectionId),
        limit: paging.limit(),
    };
    let page = state.views.rejections(query).await?;
    let next_before = page.next_before.map(|id| id.0);
    Ok(Json(Page::new(
        page.rows.iter().map(ShownRejection::from),
        next_before,
    )))
}

/// `GET /everpost/rejectedEvents/{id}`
pub(crate) async fn get(
    State(state): State<ApiState>,
    Path(id): Path<i64>,
) -> Result<Json<RejectionDetail>, ApiError> {
    let found = state.views.rejection(RejectionId(id)).await?;
    let found =
        found.ok_or_else(|| ApiError::not_found(format!("There is no rejected request {id}.")))?;
    let bytes = found.rejection.bytes as u64;
    Ok(Json(RejectionDetail {
        row: (&found).into(),
        body: BodyBeginning::new(&found.rejection.body_start, bytes),
    }))
}
