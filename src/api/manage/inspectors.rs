//! Inspectors.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::lists::{List, Page};
use crate::api::manage::{ApiResult, created, json as read_json};
use crate::api::parameters::RequestParameters;
use crate::broker::InspectorError;
use crate::model::audit::Caller;
use crate::model::name::InspectorName;
use crate::store::views::InspectedQuery;
use crate::wire::query::Paging;
use crate::wire::resource::{self, InspectedRow, ShownInspector, ShownRequest};

/// `GET /everpost/inspectors`
pub(crate) async fn list(
    State(state): State<ApiState>,
) -> Result<Json<List<ShownInspector>>, ApiError> {
    let all = state.views.inspectors().await?;
    Ok(Json(all.iter().map(ShownInspector::from).collect()))
}

/// `GET /everpost/inspectors/{name}`
pub(crate) async fn get(State(state): State<ApiState>, Path(name): Path<String>) -> ApiResult {
    let inspector = state
        .broker
        .inspector(&InspectorName::parse(&name)?)
        .await?;
    Ok(Json(ShownInspector::from(&inspector)).into_response())
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
    let status = created(state.broker.put_inspector(&by, &name, definition).await?);
    let inspector = state.broker.inspector(&name).await?;
    Ok((status, Json(ShownInspector::from(&inspector))).into_response())
}

/// `DELETE /everpost/inspectors/{name}`: deletes the inspector with its captured requests.
pub(crate) async fn delete(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let name = InspectorName::parse(&name)?;
    state.broker.delete_inspector(&by, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// How many requests were forgotten.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Cleared {
    cleared: usize,
}

/// `POST /everpost/inspectors/{name}/clear`: deletes the captured requests of the inspector.
pub(crate) async fn clear(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> Result<Json<Cleared>, ApiError> {
    let name = InspectorName::parse(&name)?;
    let cleared = state.broker.clear_inspector(&by, &name).await?;
    Ok(Json(Cleared { cleared }))
}

/// `GET /everpost/inspectors/{name}/requests`
pub(crate) async fn requests(
    State(state): State<ApiState>,
    Path(name): Path<String>,
    RequestParameters(paging): RequestParameters<Paging>,
) -> Result<Json<Page<InspectedRow>>, ApiError> {
    let name = InspectorName::parse(&name)?;
    state.broker.inspector(&name).await?;
    let query = InspectedQuery {
        before: paging.before.map(|number| number.try_into().unwrap_or(0)),
        limit: paging.limit(),
    };
    let page = state.views.inspected(name, query).await?;
    let next_before = page.next_before.and_then(|number| number.try_into().ok());
    Ok(Json(Page::new(
        page.rows.iter().map(InspectedRow::from),
        next_before,
    )))
}

/// `GET /everpost/inspectors/{name}/requests/{number}`
pub(crate) async fn request(
    State(state): State<ApiState>,
    Path((name, number)): Path<(String, u64)>,
) -> Result<Json<ShownRequest>, ApiError> {
    let name = InspectorName::parse(&name)?;
    let kept = state.views.inspected_request(name.clone(), number).await?;
    let found = kept.ok_or_else(|| {
        ApiError::not_found(format!("The inspector {name} keeps no request {number}."))
    })?;
    Ok(Json(ShownRequest::from(&found)))
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
