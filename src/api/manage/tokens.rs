//! API tokens.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::lists::List;
use crate::api::manage::ApiResult;
use crate::api::manage::people::read;
use crate::base::Timestamp;
use crate::broker::people::{NAME_CHARACTERS_MAX, NewTokenRequest, TOKEN_DAYS_MAX};
use crate::model::audit::Caller;
use crate::store::accounts::{ApiToken, Role};

/// `GET /everpost/tokens`
pub(crate) async fn list(State(state): State<ApiState>) -> ApiResult {
    let tokens = state.people.tokens().list();
    let tokens: List<ShownToken> = tokens.iter().map(ShownToken::from).collect();
    Ok(Json(tokens).into_response())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ApiTokenRequest")]
pub(crate) struct NewTokenBody {
    #[schemars(length(max = NAME_CHARACTERS_MAX))]
    name: String,
    role: Role,
    /// Left out, it does not expire.
    #[schemars(range(min = 1, max = TOKEN_DAYS_MAX))]
    days: Option<u32>,
}

/// `POST /everpost/tokens`. Only this response contains the token itself.
pub(crate) async fn create(State(state): State<ApiState>, by: Caller, body: Bytes) -> ApiResult {
    let body: NewTokenBody = read(&body)?;
    let wish = NewTokenRequest {
        name: body.name.clone(),
        role: body.role,
        days: body.days,
    };
    let token = state.people.tokens().create(&by, wish).await?;
    let shown = NewApiToken {
        created: (&find(&state, &body.name)?).into(),
        token: token.reveal().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(shown)).into_response())
}

/// `GET /everpost/tokens/{name}`
pub(crate) async fn show(State(state): State<ApiState>, Path(name): Path<String>) -> ApiResult {
    Ok(Json(ShownToken::from(&find(&state, &name)?)).into_response())
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

/// A token as answers show it, without itself.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ApiToken")]
pub(crate) struct ShownToken {
    name: String,
    role: Role,
    created_by: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    used_at: Option<Timestamp>,
}

/// A token that has just been created.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NewApiToken {
    #[serde(flatten)]
    created: ShownToken,
    /// It is never shown again.
    token: String,
}

impl From<&ApiToken> for ShownToken {
    fn from(token: &ApiToken) -> Self {
        Self {
            name: token.name.clone(),
            role: token.role,
            created_by: token.created_by.clone(),
            created_at: token.created_at,
            expires_at: token.expires_at,
            used_at: token.used_at,
        }
    }
}
