//! Everpost's own door to inspectors.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::manage::{ApiResult, json as read_json};
use crate::api::operate::records::PAGE_ROWS;
use crate::api::parameters::Parameters;
use crate::broker::InspectorError;
use crate::model::audit::Caller;
use crate::model::name::InspectorName;
use crate::store::views::InspectedQuery;
use crate::wire::resource;

/// `GET /everpost/inspectors`
pub(crate) async fn list(State(state): State<ApiState>) -> Result<Json<Value>, ApiError> {
    let all = state.views.inspectors().await?;
    let all: Vec<Value> = all.iter().map(resource::render_inspector).collect();
    Ok(Json(json!({ "value": all })))
}

/// `GET /everpost/inspectors/{name}`
pub(crate) async fn get(State(state): State<ApiState>, Path(name): Path<String>) -> ApiResult {
    let inspector = state
        .broker
        .inspector(&InspectorName::parse(&name)?)
        .await?;
    Ok(Json(resource::render_inspector(&inspector)).into_response())
}

/// `PUT /everpost/inspectors/{name}`
pub(crate) async fn put(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> ApiResult {
    let name = InspectorName::parse(&name)?;
    let definition = resource::parse_inspector(&read_json(&body)?)?;
    let status = match state.broker.put_inspector(&by, &name, definition).await? {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    let inspector = state.broker.inspector(&name).await?;
    Ok((status, Json(resource::render_inspector(&inspector))).into_response())
}

/// `DELETE /everpost/inspectors/{name}`, with its requests
pub(crate) async fn delete(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let name = InspectorName::parse(&name)?;
    state.broker.delete_inspector(&by, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /everpost/inspectors/{name}/clear`: forgets its requests
pub(crate) async fn clear(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let name = InspectorName::parse(&name)?;
    let cleared = state.broker.clear_inspector(&by, &name).await?;
    Ok(Json(json!({ "cleared": cleared })))
}

#[derive(Deserialize)]
pub(crate) struct Asked {
    limit: Option<usize>,
    before: Option<u64>,
}

/// `GET /everpost/inspectors/{name}/requests`
pub(crate) async fn requests(
    State(state): State<ApiState>,
    Path(name): Path<String>,
    Parameters(asked): Parameters<Asked>,
) -> Result<Json<Value>, ApiError> {
    let name = InspectorName::parse(&name)?;
    state.broker.inspector(&name).await?;
    let query = InspectedQuery {
        before: asked.before,
        limit: asked.limit.unwrap_or(PAGE_ROWS),
    };
    let page = state.views.inspected(name, query).await?;
    let rows: Vec<Value> = page
        .rows
        .iter()
        .map(resource::render_inspected_row)
        .collect();
    Ok(Json(
        json!({ "value": rows, "nextBefore": page.next_before }),
    ))
}

/// `GET /everpost/inspectors/{name}/requests/{number}`
pub(crate) async fn request(
    State(state): State<ApiState>,
    Path((name, number)): Path<(String, u64)>,
) -> Result<Json<Value>, ApiError> {
    let name = InspectorName::parse(&name)?;
    let found = state.views.inspected_request(name.clone(), number).await?;
    let found = found.ok_or_else(|| {
        ApiError::not_found(format!("The inspector {name} keeps no request {number}."))
    })?;
    Ok(Json(resource::render_inspected(&found)))
}

impl From<InspectorError> for ApiError {
    fn from(error: InspectorError) -> Self {
        match error {
            InspectorError::NotFound(_) => Self::not_found(format!("{error}.")),
            InspectorError::TooMany => Self::conflict(format!("{error}.")),
            InspectorError::Store(error) => error.into(),
        }
    }
}
