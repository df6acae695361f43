//! Everpost's own door to the publish requests that were refused.

use axum::Json;
use axum::extract::{Path, State};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::operate::records::PAGE_ROWS;
use crate::api::parameters::Parameters;
use crate::model::name::TopicName;
use crate::model::rejection::{RejectionId, StoredRejection};
use crate::store::views::RejectionQuery;
use crate::wire;

#[derive(Deserialize)]
pub(crate) struct Asked {
    topic: Option<String>,
    reason: Option<String>,
    limit: Option<usize>,
    before: Option<i64>,
}

/// `GET /everpost/rejectedEvents`
pub(crate) async fn list(
    State(state): State<ApiState>,
    Parameters(asked): Parameters<Asked>,
) -> Result<Json<Value>, ApiError> {
    let topic = match asked.topic {
        Some(name) => Some(state.broker.topic(&TopicName::parse(&name)?)?.topic.id),
        None => None,
    };
    let query = RejectionQuery {
        topic,
        reason: asked.reason,
        before: asked.before.map(RejectionId),
        limit: asked.limit.unwrap_or(PAGE_ROWS),
    };
    let page = state.views.rejections(query).await?;
    let rows: Vec<Value> = page.rows.iter().map(row).collect();
    Ok(Json(
        json!({ "value": rows, "nextBefore": page.next_before.map(|id| id.0) }),
    ))
}

/// `GET /everpost/rejectedEvents/{id}`
pub(crate) async fn get(
    State(state): State<ApiState>,
    Path(id): Path<i64>,
) -> Result<Json<Value>, ApiError> {
    let found = state.views.rejection(RejectionId(id)).await?;
    let found =
        found.ok_or_else(|| ApiError::not_found(format!("There is no refused request {id}.")))?;
    let mut body = row(&found);
    let body_start = &found.rejection.body_start;
    body["truncated"] = json!(body_start.len() < found.rejection.bytes);
    match wire::text_beginning(body_start) {
        Some(text) => body["body"] = json!(text),
        None => body["bodyBase64"] = json!(STANDARD.encode(body_start)),
    }
    Ok(Json(body))
}

fn row(stored: &StoredRejection) -> Value {
    let rejection = &stored.rejection;
    json!({
        "id": stored.id.0,
        "topic": stored.topic,
        "receivedAt": rejection.received_at.to_string(),
        "httpStatusCode": rejection.status,
        "code": rejection.code,
        "reason": rejection.reason,
        "contentType": rejection.content_type,
        "size": rejection.bytes,
    })
}
