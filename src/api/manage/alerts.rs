//! Alerts: firing alerts, alert rules, channels and messages.

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
use crate::api::manage::{ApiResult, created, json};
use crate::api::parameters::RequestParameters;
use crate::broker::AlertError;
use crate::model::alert::AlertMessageId;
use crate::model::audit::Caller;
use crate::model::name::{AlertChannelName, AlertRuleName};
use crate::wire::query::Paging;
use crate::wire::resource::{
    ShownAlert, ShownAlertChannel, ShownAlertMessage, ShownAlertRule, parse_alert_channel,
    parse_alert_rule,
};

impl From<AlertError> for ApiError {
    fn from(error: AlertError) -> Self {
        match error {
            AlertError::NoRule(_) | AlertError::NoChannel(_) => {
                Self::not_found(format!("{error}."))
            }
            AlertError::TooManyRules | AlertError::TooManyChannels => {
                Self::conflict(format!("{error}."))
            }
            AlertError::Store(error) => error.into(),
        }
    }
}

/// `GET /everpost/alerts`
pub(crate) async fn list(
    State(state): State<ApiState>,
) -> Result<Json<List<ShownAlert>>, ApiError> {
    let rules = state.views.alert_rules().await?;
    let of_rule = rules.iter().flat_map(|rule| {
        let firing = rule.firing();
        firing.map(move |alert| ShownAlert::new(rule, alert))
    });
    Ok(Json(of_rule.collect()))
}

/// `GET /everpost/alerts/messages`
pub(crate) async fn messages(
    State(state): State<ApiState>,
    RequestParameters(paging): RequestParameters<Paging>,
) -> Result<Json<Page<ShownAlertMessage>>, ApiError> {
    let before = paging.before.map(AlertMessageId);
    let page = state.views.alert_messages(before, paging.limit()).await?;
    let rows = page.rows.iter().map(ShownAlertMessage::from);
    Ok(Json(Page::new(rows, page.next_before.map(|id| id.0))))
}

/// `GET /everpost/alerts/rules`
pub(crate) async fn list_rules(
    State(state): State<ApiState>,
) -> Result<Json<List<ShownAlertRule>>, ApiError> {
    let rules = state.views.alert_rules().await?;
    Ok(Json(rules.iter().map(ShownAlertRule::from).collect()))
}

/// `GET /everpost/alerts/rules/{name}`
pub(crate) async fn get_rule(
    State(state): State<ApiState>,
    Path(name): Path<String>,
) -> Result<Json<ShownAlertRule>, ApiError> {
    let rule = state
        .broker
        .alert_rule(&AlertRuleName::parse(&name)?)
        .await?;
    Ok(Json(ShownAlertRule::from(&rule)))
}

/// `PUT /everpost/alerts/rules/{name}`
pub(crate) async fn put_rule(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> ApiResult {
    let name = AlertRuleName::parse(&name)?;
    let rule = parse_alert_rule(&json(&body)?)?;
    let status = created(state.broker.put_alert_rule(&by, &name, rule).await?);
    let rule = state.broker.alert_rule(&name).await?;
    Ok((status, Json(ShownAlertRule::from(&rule))).into_response())
}

/// `DELETE /everpost/alerts/rules/{name}`
pub(crate) async fn delete_rule(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let name = AlertRuleName::parse(&name)?;
    state.broker.delete_alert_rule(&by, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /everpost/alerts/channels`
pub(crate) async fn list_channels(
    State(state): State<ApiState>,
) -> Result<Json<List<ShownAlertChannel>>, ApiError> {
    let channels = state.views.alert_channels().await?;
    Ok(Json(channels.iter().map(ShownAlertChannel::from).collect()))
}

/// `GET /everpost/alerts/channels/{name}`
pub(crate) async fn get_channel(
    State(state): State<ApiState>,
    Path(name): Path<String>,
) -> Result<Json<ShownAlertChannel>, ApiError> {
    let name = AlertChannelName::parse(&name)?;
    let channel = state.broker.alert_channel(&name).await?;
    Ok(Json(ShownAlertChannel::from(&channel)))
}

/// `PUT /everpost/alerts/channels/{name}`: secrets that the body leaves out keep their values.
pub(crate) async fn put_channel(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> ApiResult {
    let name = AlertChannelName::parse(&name)?;
    let known = match state.broker.alert_channel(&name).await {
        Ok(known) => Some(known.channel),
        Err(AlertError::NoChannel(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let require_https = state.broker.options().egress.require_https;
    let channel = parse_alert_channel(&json(&body)?, known.as_ref(), require_https)?;
    let status = created(state.broker.put_alert_channel(&by, &name, channel).await?);
    let channel = state.broker.alert_channel(&name).await?;
    Ok((status, Json(ShownAlertChannel::from(&channel))).into_response())
}

/// `DELETE /everpost/alerts/channels/{name}`: deletes the channel with its messages.
pub(crate) async fn delete_channel(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let name = AlertChannelName::parse(&name)?;
    state.broker.delete_alert_channel(&by, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// How a test of a channel ended.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Tested {
    sent: bool,
    /// The answer of the other side, or the problem.
    answer: String,
}

/// `POST /everpost/alerts/channels/{name}/test`
pub(crate) async fn test_channel(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> Result<Json<Tested>, ApiError> {
    let name = AlertChannelName::parse(&name)?;
    let tested = state.broker.test_alert_channel(&by, &name).await?;
    Ok(Json(Tested {
        sent: tested.is_ok(),
        answer: tested.unwrap_or_else(|error| error),
    }))
}
