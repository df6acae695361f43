//! Shared access rules of queues and topics of Service Bus (rule S1.1).

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::api::ApiState;
use crate::api::arm::listing::ListRequest;
use crate::api::error::ApiError;
use crate::api::manage::{ApiResult, created, json as read_json};
use crate::model::audit::Caller;
use crate::model::name::AccessRuleName;
use crate::wire::resource::{self, ShownAccessRule};

/// `GET /everpost/accessRules`
pub(crate) async fn list(State(state): State<ApiState>, listing: ListRequest) -> Response {
    let registry = state.broker.registry();
    Json(listing.page(
        registry.access_rules(),
        |rule| rule.name.to_string(),
        |rule| json!(ShownAccessRule::from(&***rule)),
    ))
    .into_response()
}

/// `GET /everpost/accessRules/{name}`
pub(crate) async fn get(
    State(state): State<ApiState>,
    Path(name): Path<String>,
) -> Result<Json<ShownAccessRule>, ApiError> {
    let rule = state.broker.access_rule(&AccessRuleName::parse(&name)?)?;
    Ok(Json(ShownAccessRule::from(&*rule)))
}

/// `PUT /everpost/accessRules/{name}`: keys that are left out stay, or are generated.
pub(crate) async fn put(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> ApiResult {
    let name = AccessRuleName::parse(&name)?;
    let known = state.broker.access_rule(&name).ok();
    let definition = resource::parse_access_rule(&read_json(&body)?, known.as_deref())?;
    let rule = state.broker.put_access_rule(&by, &name, definition).await?;
    let status = created(known.is_none());
    Ok((status, Json(ShownAccessRule::from(&*rule))).into_response())
}

/// `DELETE /everpost/accessRules/{name}`
pub(crate) async fn delete(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let name = AccessRuleName::parse(&name)?;
    state.broker.delete_access_rule(&by, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /everpost/accessRules/{name}/listKeys`
pub(crate) async fn list_keys(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let name = AccessRuleName::parse(&name)?;
    let keys = state.broker.show_access_rule_keys(&by, &name).await?;
    Ok(Json(resource::render_keys(&keys)).into_response())
}

/// `POST /everpost/accessRules/{name}/regenerateKey`
pub(crate) async fn regenerate_key(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> ApiResult {
    let name = AccessRuleName::parse(&name)?;
    let key = resource::parse_key_name(&read_json(&body)?)?;
    let keys = state.broker.regenerate_access_rule_key(&by, &name, key);
    Ok(Json(resource::render_keys(&keys.await?)).into_response())
}
