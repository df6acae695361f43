//! Queues (rule S1).

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::Value;

use crate::api::ApiState;
use crate::api::arm::listing::Listing;
use crate::api::error::ApiError;
use crate::api::manage::{ApiResult, json};
use crate::broker::Queue;
use crate::model::audit::Caller;
use crate::model::name::TopicName;
use crate::wire::resource;

/// `GET /queues`
pub(crate) async fn list(State(state): State<ApiState>, listing: Listing) -> ApiResult {
    let shown = show(&state, state.broker.queues()).await?;
    let name = |queue: &Value| queue["name"].as_str().unwrap_or_default().to_owned();
    let page = listing.page(shown.into_iter(), name, Value::clone);
    Ok(Json(page).into_response())
}

/// `GET /queues/{queue}`
pub(crate) async fn get(State(state): State<ApiState>, Path(name): Path<String>) -> ApiResult {
    let queue = state.broker.queue(&TopicName::custom(&name)?)?;
    Ok(Json(show(&state, vec![queue]).await?.pop()).into_response())
}

/// `PUT /queues/{queue}`: 201, as with topics.
pub(crate) async fn put(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> ApiResult {
    let name = TopicName::custom(&name)?;
    let definition = resource::parse_queue(&json(&body)?)?;
    let queue = state.broker.put_queue(&by, name, definition).await?;
    let shown = show(&state, vec![queue]).await?.pop();
    Ok((StatusCode::CREATED, Json(shown)).into_response())
}

/// `DELETE /queues/{queue}`, with its messages
pub(crate) async fn delete(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let name = TopicName::custom(&name)?;
    state.broker.delete_queue(&by, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn show(state: &ApiState, queues: Vec<Queue>) -> Result<Vec<Value>, ApiError> {
    let totals = state.broker.queue_totals(&queues).await?;
    let each = queues.iter().zip(totals);
    let each = each.filter_map(|((topic, subscription), totals)| {
        let (messages, dead_letters) = (totals.pending, totals.dead_letters);
        resource::render_queue(topic, subscription, messages, dead_letters)
    });
    Ok(each.collect())
}
