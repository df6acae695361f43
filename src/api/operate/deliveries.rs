//! Single deliveries: attempted now, or made for a stored event.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::operate::records::ShownHold;
use crate::broker::{PublishError, RetryNowError, SendError};
use crate::model::audit::Caller;
use crate::model::delivery::DeliveryId;
use crate::model::event::EventKey;

/// The result for a delivery that was to be attempted now.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(crate) struct Tried {
    delivery_id: i64,
    due: bool,
    /// The state that holds it back although it is due, such as Paused or OnProbation.
    held: Option<ShownHold>,
}

/// `POST /everpost/deliveries/{id}/tryNow`
pub(crate) async fn try_now(
    State(state): State<ApiState>,
    by: Caller,
    Path(id): Path<i64>,
) -> Result<Json<Tried>, ApiError> {
    let held = state.broker.retry_now(&by, DeliveryId(id)).await?;
    Ok(Json(Tried {
        delivery_id: id,
        due: held.is_none(),
        held: held.map(ShownHold::from),
    }))
}

/// The event subscription that an event is sent to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct SendBody {
    subscription: String,
}

/// The delivery that an event is sent by.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(crate) struct Sent {
    delivery_id: i64,
}

/// `POST /everpost/events/{key}/send`
pub(crate) async fn send(
    State(state): State<ApiState>,
    by: Caller,
    Path(key): Path<i64>,
    body: Bytes,
) -> Result<Json<Sent>, ApiError> {
    let body: SendBody = serde_json::from_slice(&body).map_err(|cause| {
        ApiError::bad_request(format!("The request body cannot be read: {cause}."))
    })?;
    let delivery = state
        .broker
        .send_stored(&by, EventKey(key), &body.subscription)
        .await?;
    Ok(Json(Sent {
        delivery_id: delivery.0,
    }))
}

impl From<SendError> for ApiError {
    fn from(error: SendError) -> Self {
        let explanation = error.to_string();
        match error {
            SendError::NoEvent(_) | SendError::NoSubscription(..) => Self::not_found(explanation),
            SendError::Already(..) | SendError::TooEarly(_) | SendError::Unmatched(..) => {
                Self::conflict(explanation)
            }
            SendError::Stopping => PublishError::Stopping.into(),
            SendError::DiskLow => PublishError::DiskLow.into(),
            SendError::TooManyTrials(error) => error.into(),
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
