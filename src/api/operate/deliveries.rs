//! Everpost's own door to single deliveries.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::broker::{PublishError, RetryNowError, SendError};
use crate::model::audit::Caller;
use crate::model::delivery::DeliveryId;
use crate::model::event::EventKey;

/// `POST /everpost/deliveries/{id}/tryNow`
pub(crate) async fn try_now(
    State(state): State<ApiState>,
    by: Caller,
    Path(id): Path<i64>,
) -> Result<Json<Value>, ApiError> {
    let hold = state.broker.retry_now(&by, DeliveryId(id)).await?;
    let held = hold.map(|hold| hold.render());
    Ok(Json(
        json!({ "deliveryId": id, "due": hold.is_none(), "held": held }),
    ))
}

/// To whom an event is to be sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendBody {
    subscription: String,
}

/// `POST /everpost/events/{key}/send`
pub(crate) async fn send(
    State(state): State<ApiState>,
    by: Caller,
    Path(key): Path<i64>,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let body: SendBody = serde_json::from_slice(&body).map_err(|cause| {
        ApiError::bad_request(format!("The request body cannot be read: {cause}."))
    })?;
    let delivery = state
        .broker
        .send_stored(&by, EventKey(key), &body.subscription)
        .await?;
    Ok(Json(json!({ "deliveryId": delivery.0 })))
}

impl From<SendError> for ApiError {
    fn from(error: SendError) -> Self {
        let explanation = error.to_string();
        match error {
            SendError::NoEvent(_) | SendError::NoSubscription(..) => Self::not_found(explanation),
            SendError::Already(..) | SendError::Unmatched(..) => Self::conflict(explanation),
            SendError::Stopping => PublishError::Stopping.into(),
            SendError::DiskLow => PublishError::DiskLow.into(),
            SendError::Store(error) => error.into(),
        }
    }
}

impl From<RetryNowError> for ApiError {
    fn from(error: RetryNowError) -> Self {
        match error {
            RetryNowError::NotFound(_) => Self::not_found(format!("{error}.")),
            RetryNowError::NotPending(..) | RetryNowError::Held(_) => {
                Self::conflict(format!("{error}."))
            }
            RetryNowError::Store(error) => error.into(),
        }
    }
}
