//! Users of the admin pages, and their sessions.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::api::ApiState;
use crate::api::base_url::BaseUrl;
use crate::api::error::ApiError;
use crate::api::lists::List;
use crate::api::manage::{ApiResult, json};
use crate::api::parameters::RequestParameters;
use crate::base::Timestamp;
use crate::broker::people::{
    LINK_LIFE, NAME_CHARACTERS_MAX, PASSWORD_CHARACTERS_MAX, PeopleError, UserPatch,
};
use crate::model::access::Secret;
use crate::model::audit::Caller;
use crate::model::identity::UserSource;
use crate::store::accounts::{AccountError, ListedSession, Role, User, UserId};
use crate::wire::query::SessionParameters;
use crate::wire::resource;

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
            PeopleError::Crowded(_) => {
                Self::unavailable(format!("Try again in a moment: {explanation}."))
            }
            PeopleError::WrongCode | PeopleError::DeadLink => Self::conflict(explanation),
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
            | AccountError::DeadLink
            | AccountError::LastAdmin
            | AccountError::External
            | AccountError::Disabled => Self::conflict(explanation),
        }
    }
}

/// `GET /everpost/users`
pub(crate) async fn list(State(state): State<ApiState>) -> ApiResult {
    let users = state.people.accounts().users().await?;
    let users: List<ShownUser> = users.iter().map(ShownUser::from).collect();
    Ok(Json(users).into_response())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewUser")]
pub(crate) struct NewUserBody {
    #[schemars(length(max = NAME_CHARACTERS_MAX))]
    name: String,
    role: Role,
    #[schemars(length(max = PASSWORD_CHARACTERS_MAX))]
    password: Option<String>,
}

/// `POST /everpost/users`: without a password, the answer holds the link by which one is chosen.
pub(crate) async fn create(
    State(state): State<ApiState>,
    by: Caller,
    base: BaseUrl,
    body: Bytes,
) -> ApiResult {
    let body: NewUserBody = read(&body)?;
    let password = body.password.as_deref();
    let added = state.people.add(&by, &body.name, body.role, password);
    let (id, token) = added.await?;
    let mut shown = ShownUser::from(&by_id(&state, id).await?);
    if let Some(token) = token {
        show_link(&state, &base, &token, &mut shown);
    }
    Ok((StatusCode::CREATED, Json(shown)).into_response())
}

/// `GET /everpost/users/{name}`
pub(crate) async fn show(State(state): State<ApiState>, Path(name): Path<String>) -> ApiResult {
    Ok(Json(ShownUser::from(&by_name(&state, name).await?)).into_response())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "UserUpdate")]
pub(crate) struct UserPatchBody {
    role: Option<Role>,
    disabled: Option<bool>,
    #[schemars(length(max = PASSWORD_CHARACTERS_MAX))]
    password: Option<String>,
    /// False removes it; only its user sets one up.
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
        role: body.role,
        disabled: body.disabled,
        password: body.password.as_deref(),
        removes_second_factor: body.has_second_factor == Some(false),
    };
    state.people.change(&by, &user, patch).await?;
    Ok(Json(ShownUser::from(&by_id(&state, user.id).await?)).into_response())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "UserDefinition")]
pub(crate) struct UserPutBody {
    pub(crate) role: Role,
    #[serde(default)]
    pub(crate) disabled: bool,
    /// The password of a new user; users that exist keep theirs.
    #[schemars(length(max = PASSWORD_CHARACTERS_MAX))]
    password: Option<String>,
}

/// `PUT /everpost/users/{name}`
pub(crate) async fn put(
    State(state): State<ApiState>,
    by: Caller,
    base: BaseUrl,
    Path(name): Path<String>,
    body: Bytes,
) -> ApiResult {
    let body: UserPutBody = read(&body)?;
    let (mut link, mut status) = (None, StatusCode::OK);
    let user = match state.people.accounts().find(name.clone()).await? {
        Some(user) => user,
        None => {
            let password = body.password.as_deref();
            let added = state.people.add(&by, &name, body.role, password).await?;
            (link, status) = (added.1, StatusCode::CREATED);
            by_id(&state, added.0).await?
        }
    };
    let patch = UserPatch {
        role: Some(body.role),
        disabled: Some(body.disabled),
        password: None,
        removes_second_factor: false,
    };
    if user.role != body.role || user.disabled_at.is_some() != body.disabled {
        state.people.change(&by, &user, patch).await?;
    }
    let mut shown = ShownUser::from(&by_id(&state, user.id).await?);
    if let Some(token) = link {
        show_link(&state, &base, &token, &mut shown);
    }
    Ok((status, Json(shown)).into_response())
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
    base: BaseUrl,
    Path(name): Path<String>,
) -> ApiResult {
    let user = by_name(&state, name).await?;
    let token = state.people.put_link(&by, user.id).await?;
    let mut shown = ShownUser::from(&user);
    show_link(&state, &base, &token, &mut shown);
    Ok(Json(shown).into_response())
}

fn show_link(state: &ApiState, base: &BaseUrl, token: &Secret, shown: &mut ShownUser) {
    let url = format!("{base}/admin/password?token={}", token.reveal());
    shown.password_url = Some(url);
    shown.password_url_expires_at = Some(state.people.now() + LINK_LIFE);
}

impl SessionParameters {
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
    RequestParameters(of_user): RequestParameters<SessionParameters>,
) -> ApiResult {
    let user = of_user.id(&state).await?;
    let accounts = state.people.accounts();
    let sessions = accounts
        .sessions(user, SESSIONS_MAX, state.people.now())
        .await?;
    let sessions: List<ShownSession> = sessions.iter().map(ShownSession::from).collect();
    Ok(Json(sessions).into_response())
}

/// How many sessions have ended.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct EndedSessions {
    ended: usize,
}

/// `POST /everpost/sessions/end`
pub(crate) async fn end_sessions(
    State(state): State<ApiState>,
    by: Caller,
    RequestParameters(of_user): RequestParameters<SessionParameters>,
) -> ApiResult {
    let user = of_user.id(&state).await?;
    let ended = state.people.accounts().end_sessions(user, None, by).await?;
    Ok(Json(EndedSessions { ended }).into_response())
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
pub(crate) fn read<T: DeserializeOwned + JsonSchema + 'static>(
    body: &Bytes,
) -> Result<T, ApiError> {
    Ok(resource::read(&json(body)?)?)
}

async fn by_name(state: &ApiState, name: String) -> Result<User, ApiError> {
    let user = state.people.accounts().find(name.clone()).await?;
    user.ok_or_else(|| ApiError::not_found(format!("There is no user {name}.")))
}

async fn by_id(state: &ApiState, id: UserId) -> Result<User, ApiError> {
    let user = state.people.accounts().user(id).await?;
    user.ok_or_else(|| ApiError::not_found("The user was deleted meanwhile."))
}

/// A user as answers show it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "User")]
pub(crate) struct ShownUser {
    name: String,
    role: Role,
    /// Who knows the password: `oidc` is the sign-in provider, `proxy` a reverse proxy.
    source: UserSource,
    disabled: bool,
    has_second_factor: bool,
    has_password: bool,
    created_at: Timestamp,
    signed_in_at: Option<Timestamp>,
    /// Where the user chooses a password, once; for a new link alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    password_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_url_expires_at: Option<Timestamp>,
}

impl From<&User> for ShownUser {
    fn from(user: &User) -> Self {
        Self {
            name: user.name.clone(),
            role: user.role,
            source: user.source,
            disabled: user.disabled_at.is_some(),
            has_second_factor: user.has_second_factor,
            has_password: !user.password_hash.is_empty(),
            created_at: user.created_at,
            signed_in_at: user.signed_in_at,
            password_url: None,
            password_url_expires_at: None,
        }
    }
}

/// A session as answers show it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub(crate) struct ShownSession {
    id: String,
    user: String,
    started_at: Timestamp,
    used_at: Timestamp,
    expires_at: Timestamp,
    address: Option<String>,
    browser: Option<String>,
}

impl From<&ListedSession> for ShownSession {
    fn from(session: &ListedSession) -> Self {
        Self {
            id: session.id.clone(),
            user: session.user_name.clone(),
            started_at: session.started_at,
            used_at: session.used_at,
            expires_at: session.expires_at,
            address: session.address.clone(),
            browser: session.browser.clone(),
        }
    }
}
