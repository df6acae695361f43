//! The support bundle, and the integrity check of the database.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::broker::diagnostics::IntegrityStatus;
use crate::model::audit::Caller;

/// `POST /everpost/supportBundle`
pub(crate) async fn support_bundle(
    State(state): State<ApiState>,
    by: Caller,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(state.diagnostics.bundle(&by).await?))
}

/// `GET /everpost/integrityCheck`
pub(crate) async fn integrity(State(state): State<ApiState>) -> Json<IntegrityStatus> {
    Json(state.diagnostics.integrity_status())
}

/// `POST /everpost/integrityCheck`
pub(crate) async fn check_integrity(
    State(state): State<ApiState>,
    by: Caller,
) -> Result<(StatusCode, Json<IntegrityStatus>), ApiError> {
    drop(state.diagnostics.check_integrity(&by).await?); // it goes on by itself
    Ok((
        StatusCode::ACCEPTED,
        Json(state.diagnostics.integrity_status()),
    ))
}
