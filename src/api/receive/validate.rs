//! Receivers that agree by hand: the validation URL, and the callback of a CloudEvents handshake (rule 5).

use axum::extract::State;
use axum::http::{HeaderMap, Uri};

use crate::api::ApiState;
use crate::api::auth::query_value;
use crate::api::error::ApiError;

/// `GET|POST /validate?code=…`. A callback may grant a rate; without one, none is kept.
pub(crate) async fn confirm(
    State(state): State<ApiState>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<&'static str, ApiError> {
    let code = query_value(&uri, "code")
        .ok_or_else(|| ApiError::bad_request("The validation link lacks its `code`."))?;
    let granted = headers
        .get("webhook-allowed-rate")
        .and_then(|rate| rate.to_str().ok());
    let rate = granted
        .and_then(|rate| rate.trim().parse().ok())
        .filter(|rate| *rate > 0);
    state.broker.confirm_validation(&code, rate).await?;
    Ok("Webhook successfully validated as a subscription endpoint.\n")
}
