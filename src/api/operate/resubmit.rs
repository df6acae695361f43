//! Dead letters that are resubmitted.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::lists::List;
use crate::broker::{DeadLetterResubmission, EventEdit, ResubmitError, Resubmitted};
use crate::model::audit::Caller;
use crate::model::delivery::DeliveryId;
use crate::model::limits::{REPLAY_BATCH_MAX, REPLAY_REQUESTS_MAX};
use crate::model::replay::ReplayTarget;
use crate::wire::error_body::ErrorDetail;
use crate::wire::json::AtMost;
use crate::wire::resource::bodies::ReplayTargetDocument;
use crate::wire::resource::{self, ReplayContext};

/// How one dead letter is resubmitted. Event and data are taken byte for byte.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct OneBody {
    #[schemars(with = "Option<ReplayTargetDocument>")]
    target: Option<Value>,
    /// An event in its place, in the topic's input schema; of a message of Service Bus the body, as JSON.
    #[schemars(with = "Option<Value>")]
    event: Option<Box<RawValue>>,
    /// Other data for the same event, or another body for the same message: a string is its text, unless the message says
    /// that it holds JSON.
    #[schemars(with = "Option<Value>")]
    data: Option<Box<RawValue>>,
}

impl OneBody {
    fn edit(&self) -> Result<Option<EventEdit>, ApiError> {
        let text = |raw: &RawValue| raw.get().to_owned();
        match (&self.event, &self.data) {
            (None, None) => Ok(None),
            (Some(event), None) => Ok(Some(EventEdit::Event(text(event)))),
            (None, Some(data)) => Ok(Some(EventEdit::Data(text(data)))),
            (Some(_), Some(_)) => Err(ApiError::bad_request(
                "The properties event and data exclude each other: an event brings its data along.",
            )),
        }
    }
}

/// Which dead letters are resubmitted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(inline)]
pub(crate) struct SelectionBody {
    #[schemars(with = "Vec<i64>", length(max = REPLAY_BATCH_MAX))]
    delivery_ids: AtMost<i64, REPLAY_BATCH_MAX>,
    #[schemars(with = "Option<ReplayTargetDocument>")]
    target: Option<Value>,
}

/// The delivery and the event that a dead letter was resubmitted as.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Resubmitted")]
pub(crate) struct ShownResubmitted {
    resubmission_of: i64,
    delivery_id: Option<i64>,
    event_key: i64,
    /// Event subscriptions that matched the new event.
    matched: usize,
}

/// The reason that a dead letter was not resubmitted.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RejectedResubmission {
    resubmission_of: i64,
    error: ErrorDetail,
}

/// The outcome for one dead letter of a request.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub(crate) enum Outcome {
    Resubmitted(ShownResubmitted),
    Rejected(RejectedResubmission),
}

/// `POST /everpost/deadLetters/{id}/resubmit`
pub(crate) async fn one(
    State(state): State<ApiState>,
    by: Caller,
    Path(id): Path<i64>,
    body: Bytes,
) -> Result<Json<ShownResubmitted>, ApiError> {
    let body: OneBody = if body.is_empty() {
        OneBody::default()
    } else {
        parse(&body)?
    };
    let request = DeadLetterResubmission {
        deliveries: vec![DeliveryId(id)],
        target: target(&state, body.target.as_ref())?,
        edit: body.edit()?,
    };
    let mut done = state.broker.resubmit_all(&by, request).await?;
    let (id, resubmitted) = done.pop().expect("one result for each");
    Ok(Json(shown(id, &resubmitted?)))
}

/// `POST /everpost/deadLetters/resubmit`
pub(crate) async fn selection(
    State(state): State<ApiState>,
    by: Caller,
    body: Bytes,
) -> Result<Json<List<Outcome>>, ApiError> {
    let body: SelectionBody = parse(&body)?;
    let target = target(&state, body.target.as_ref())?;
    let most = match target {
        ReplayTarget::Subscription | ReplayTarget::Topic(_) => REPLAY_BATCH_MAX,
        ReplayTarget::Url(_) => REPLAY_REQUESTS_MAX,
    };
    let AtMost(ids) = body.delivery_ids;
    if ids.len() > most {
        return Err(ApiError::bad_request(format!(
            "The property deliveryIds has {} elements, and at most {most} are taken at once; start a \
             replay for more.",
            ids.len()
        )));
    }
    let request = DeadLetterResubmission {
        deliveries: ids.into_iter().map(DeliveryId).collect(),
        target,
        edit: None,
    };
    let done = state.broker.resubmit_all(&by, request).await?;
    let outcomes = done.into_iter().map(|(id, result)| match result {
        Ok(resubmitted) => Outcome::Resubmitted(shown(id, &resubmitted)),
        Err(error) => Outcome::Rejected(rejected(id, error)),
    });
    Ok(Json(outcomes.collect()))
}

fn parse<'a, T: Deserialize<'a>>(body: &'a Bytes) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|cause| {
        ApiError::bad_request(format!("The request body cannot be read: {cause}."))
    })
}

fn target(state: &ApiState, target: Option<&Value>) -> Result<ReplayTarget, ApiError> {
    let registry = state.broker.registry();
    let context = ReplayContext {
        registry: &registry,
        require_https: state.broker.options().egress.require_https,
    };
    let body = json!({ "target": target });
    Ok(resource::parse_target(&body, context)?)
}

fn shown(id: DeliveryId, resubmitted: &Resubmitted) -> ShownResubmitted {
    ShownResubmitted {
        resubmission_of: id.0,
        delivery_id: resubmitted.delivery.map(|id| id.0),
        event_key: resubmitted.event.0,
        matched: resubmitted.subscriptions.len(),
    }
}

fn rejected(id: DeliveryId, error: ResubmitError) -> RejectedResubmission {
    let error = ApiError::from(error);
    RejectedResubmission {
        resubmission_of: id.0,
        error: ErrorDetail {
            code: error.code.to_owned(),
            message: error.explanation,
            target: None,
        },
    }
}
