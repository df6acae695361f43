//! Everpost's own door to the tokens of programs.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::manage::ApiResult;
use crate::api::manage::people::{read, role};
use crate::base::Timestamp;
use crate::broker::people::NewTokenRequest;
use crate::model::audit::Caller;
use crate::store::accounts::ApiToken;

/// `GET /everpost/tokens`
pub(crate) async fn list(State(state): State<ApiState>) -> ApiResult {
    let tokens: Vec<Value> = state.people.tokens().list().iter().map(render).collect();
    Ok(Json(json!({ "value": tokens })).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTokenBody {
    name: String,
    role: String,
    days: Option<u32>,
}

/// `POST /everpost/tokens`: the answer is the only one that holds the token.
pub(crate) async fn create(State(state): State<ApiState>, by: Caller, body: Bytes) -> ApiResult {
    let body: NewTokenBody = read(&body)?;
    let wish = NewTokenRequest {
        name: body.name.clone(),
        role: role(&body.role)?,
        days: body.days,
    };
    let token = state.people.tokens().create(&by, wish).await?;
    let mut shown = render(&find(&state, &body.name)?);
    shown["token"] = json!(token.reveal());
    Ok((StatusCode::CREATED, Json(shown)).into_response())
}

/// `GET /everpost/tokens/{name}`
pub(crate) async fn show(State(state): State<ApiState>, Path(name): Path<String>) -> ApiResult {
    Ok(Json(render(&find(&state, &name)?)).into_response())
}

/// `DELETE /everpost/tokens/{name}`
pub(crate) async fn delete(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let token = find(&state, &name)?;
    state.people.tokens().delete(&by, token.id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn find(state: &ApiState, name: &str) -> Result<ApiToken, ApiError> {
    let found = state.people.tokens().find(name);
    found.ok_or_else(|| ApiError::not_found(format!("There is no token {name}.")))
}

fn render(token: &ApiToken) -> Value {
    let moment = |at: Option<Timestamp>| at.map(|at| at.to_string());
    json!({
        "name": token.name,
        "role": token.role.name(),
        "createdBy": token.created_by,
        "createdAt": token.created_at.to_string(),
        "expiresAt": moment(token.expires_at),
        "usedAt": moment(token.used_at),
    })
}
