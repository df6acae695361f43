//! Everpost's own door to the people who sign in to the admin pages, and to their sessions.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::manage::{ApiResult, json};
use crate::api::parameters::Parameters;
use crate::base::Timestamp;
use crate::broker::people::{LINK_LIFE, PeopleError, UserPatch};
use crate::model::access::Secret;
use crate::model::audit::Caller;
use crate::store::accounts::{AccountError, Role, SessionRow, User, UserId};

/// Sessions in one answer: more people than look after one appliance.
const SESSIONS_MAX: usize = 1_000;

impl From<PeopleError> for ApiError {
    fn from(error: PeopleError) -> Self {
        let explanation = error.to_string();
        match error {
            PeopleError::Name(_) => Self::of_field("name", explanation),
            PeopleError::Password(_) => Self::of_field("password", explanation),
            PeopleError::Days => Self::of_field("days", explanation),
            PeopleError::Account(error) => error.into(),
            PeopleError::WrongPassword | PeopleError::WrongCode | PeopleError::DeadLink => {
                Self::conflict(explanation)
            }
        }
    }
}

impl From<AccountError> for ApiError {
    fn from(error: AccountError) -> Self {
        let explanation = error.to_string();
        match error {
            AccountError::NotFound | AccountError::TokenNotFound => Self::not_found(explanation),
            AccountError::Store(error) => error.into(),
            AccountError::NameTaken
            | AccountError::TooMany
            | AccountError::FirstIsAdmin
            | AccountError::TokenNameTaken
            | AccountError::TooManyTokens
            | AccountError::LastAdmin => Self::conflict(explanation),
        }
    }
}

/// `GET /everpost/users`
pub(crate) async fn list(State(state): State<ApiState>) -> ApiResult {
    let users = state.people.accounts().users().await?;
    let users: Vec<Value> = users.iter().map(render).collect();
    Ok(Json(json!({ "value": users })).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewUserBody {
    name: String,
    role: String,
    password: Option<String>,
}

/// `POST /everpost/users`: without a password, the answer holds the link by which one is chosen.
pub(crate) async fn create(State(state): State<ApiState>, by: Caller, body: Bytes) -> ApiResult {
    let body: NewUserBody = read(&body)?;
    let (role, password) = (role(&body.role)?, body.password.as_deref());
    let (id, token) = state.people.add(&by, &body.name, role, password).await?;
    let mut shown = render(&by_id(&state, id).await?);
    if let Some(token) = token {
        show_link(&state, &token, &mut shown);
    }
    Ok((StatusCode::CREATED, Json(shown)).into_response())
}

/// `GET /everpost/users/{name}`
pub(crate) async fn show(State(state): State<ApiState>, Path(name): Path<String>) -> ApiResult {
    Ok(Json(render(&by_name(&state, name).await?)).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserPatchBody {
    role: Option<String>,
    disabled: Option<bool>,
    password: Option<String>,
    #[serde(rename = "hasSecondFactor")]
    has_second_factor: Option<bool>,
}

/// `PATCH /everpost/users/{name}`
pub(crate) async fn patch(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> ApiResult {
    let user = by_name(&state, name).await?;
    let body: UserPatchBody = read(&body)?;
    if body.has_second_factor == Some(true) {
        return Err(ApiError::of_field(
            "hasSecondFactor",
            "a second factor can be removed here, but only its user sets one up",
        ));
    }
    let patch = UserPatch {
        role: body.role.as_deref().map(role).transpose()?,
        disabled: body.disabled,
        password: body.password.as_deref(),
        removes_second_factor: body.has_second_factor == Some(false),
    };
    state.people.change(&by, &user, patch).await?;
    Ok(Json(render(&by_id(&state, user.id).await?)).into_response())
}

/// `DELETE /everpost/users/{name}`
pub(crate) async fn delete(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let user = by_name(&state, name).await?;
    state.people.accounts().delete_user(user.id, by).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /everpost/users/{name}/passwordLink`
pub(crate) async fn put_link(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let user = by_name(&state, name).await?;
    let token = state.people.put_link(&by, user.id).await?;
    let mut shown = render(&user);
    show_link(&state, &token, &mut shown);
    Ok(Json(shown).into_response())
}

fn show_link(state: &ApiState, token: &Secret, shown: &mut Value) {
    let base = &state.broker.options().public_url;
    let url = format!("{base}/admin/password?token={}", token.reveal());
    shown["passwordUrl"] = json!(url);
    shown["passwordUrlExpiresAt"] = json!((state.people.now() + LINK_LIFE).to_string());
}

/// Whose sessions.
#[derive(Deserialize)]
pub(crate) struct Whose {
    user: Option<String>,
}

impl Whose {
    async fn id(self, state: &ApiState) -> Result<Option<UserId>, ApiError> {
        match self.user {
            Some(name) => Ok(Some(by_name(state, name).await?.id)),
            None => Ok(None),
        }
    }
}

/// `GET /everpost/sessions`
pub(crate) async fn list_sessions(
    State(state): State<ApiState>,
    Parameters(whose): Parameters<Whose>,
) -> ApiResult {
    let user = whose.id(&state).await?;
    let accounts = state.people.accounts();
    let sessions = accounts
        .sessions(user, SESSIONS_MAX, state.people.now())
        .await?;
    let sessions: Vec<Value> = sessions.iter().map(render_session).collect();
    Ok(Json(json!({ "value": sessions })).into_response())
}

/// `POST /everpost/sessions/end`
pub(crate) async fn end_sessions(
    State(state): State<ApiState>,
    by: Caller,
    Parameters(whose): Parameters<Whose>,
) -> ApiResult {
    let user = whose.id(&state).await?;
    let ended = state.people.accounts().end_sessions(user, None, by).await?;
    Ok(Json(json!({ "ended": ended })).into_response())
}

/// `DELETE /everpost/sessions/{id}`
pub(crate) async fn end_session(
    State(state): State<ApiState>,
    by: Caller,
    Path(id): Path<String>,
) -> ApiResult {
    state.people.accounts().end_session(id, by).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A body of that form.
pub(crate) fn read<T: serde::de::DeserializeOwned>(body: &Bytes) -> Result<T, ApiError> {
    serde_json::from_value(json(body)?)
        .map_err(|error| ApiError::bad_request(format!("The request body: {error}.")))
}

/// The role that a client names.
pub(crate) fn role(word: &str) -> Result<Role, ApiError> {
    Role::parse(word).ok_or_else(|| {
        ApiError::of_field(
            "role",
            format!("the role {word:?} must be viewer, operator or admin"),
        )
    })
}

async fn by_name(state: &ApiState, name: String) -> Result<User, ApiError> {
    let user = state.people.accounts().find(name.clone()).await?;
    user.ok_or_else(|| ApiError::not_found(format!("There is no user {name}.")))
}

async fn by_id(state: &ApiState, id: UserId) -> Result<User, ApiError> {
    let user = state.people.accounts().user(id).await?;
    user.ok_or_else(|| ApiError::not_found("The user was deleted meanwhile."))
}

fn render(user: &User) -> Value {
    let moment = |at: Option<Timestamp>| at.map(|at| at.to_string());
    json!({
        "name": user.name,
        "role": user.role.name(),
        "disabled": user.disabled_at.is_some(),
        "hasSecondFactor": user.has_second_factor,
        "hasPassword": !user.password_hash.is_empty(),
        "createdAt": user.created_at.to_string(),
        "signedInAt": moment(user.signed_in_at),
    })
}

fn render_session(session: &SessionRow) -> Value {
    json!({
        "id": session.id,
        "user": session.user_name,
        "startedAt": session.started_at.to_string(),
        "usedAt": session.used_at.to_string(),
        "expiresAt": session.expires_at.to_string(),
        "address": session.address,
        "browser": session.browser,
    })
}
