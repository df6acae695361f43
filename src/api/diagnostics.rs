//! Everpost's own door to what helps somebody elsewhere to understand this appliance.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use crate::api::ApiState;
use crate::api::error::ApiError;

/// `POST /everpost/supportBundle`: changes nothing, but that it was asked for is noted.
pub(super) async fn support_bundle(State(state): State<ApiState>) -> Result<Json<Value>, ApiError> {
    Ok(Json(state.diagnostics.bundle().await?))
}
