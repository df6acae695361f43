//! Everpost's own door to single deliveries.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::broker::HastenError;
use crate::model::delivery::DeliveryId;

/// `POST /everpost/deliveries/{id}/tryNow`
pub(super) async fn try_now(
    State(state): State<ApiState>,
    Path(id): Path<i64>,
) -> Result<Json<Value>, ApiError> {
    state.broker.hasten(DeliveryId(id)).await?;
    Ok(Json(json!({ "deliveryId": id, "due": true })))
}

impl From<HastenError> for ApiError {
    fn from(error: HastenError) -> Self {
        match error {
            HastenError::NotFound(_) => Self::not_found(format!("{error}.")),
            HastenError::NotPending(..) | HastenError::Held(_) => {
                Self::conflict(format!("{error}."))
            }
            HastenError::Store(error) => error.into(),
        }
    }
}
