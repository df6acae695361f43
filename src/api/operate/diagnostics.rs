//! The support bundle.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::model::audit::Caller;

/// `POST /everpost/supportBundle`
pub(crate) async fn support_bundle(
    State(state): State<ApiState>,
    by: Caller,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(state.diagnostics.bundle(&by).await?))
}
