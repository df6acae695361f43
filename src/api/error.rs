//! Error responses in Azure's format (rule 1.5).

use std::any::Any;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::response::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};

use crate::api::ApiState;
use crate::api::arm::ArmPath;
use crate::api::failures::{note_defect, note_unreadable};
use crate::base::request_memory::TooMuch;
use crate::broker::{
    ErrorKind, ManageError, MessagingError, PublishError, ReplayError, ResubmitError, UnknownCode,
};
use crate::model::limits::RETRY_AFTER_BUSY_S;
use crate::model::name::InvalidName;
use crate::store::StoreError;
use crate::wire::error_body::{ErrorBody, ErrorDetail, correlation};
use crate::wire::pull::InvalidPull;
use crate::wire::resource::{Fault, InvalidResource};
use crate::wire::{BadInput, BadInputKind};

/// Azure's code for a webhook that failed endpoint validation (rule 5).
pub(super) const VALIDATION_FAILED: &str = "Url validation";

/// Details of conflicts: a limit is reached, or the entity already exists.
pub(super) const QUOTA_EXCEEDED: &str = "QuotaExceeded";
pub(super) const ENTITY_EXISTS: &str = "EntityAlreadyExists";

/// The header from which clients of namespaces read the error code (rule N3).
const ERROR_CODE: HeaderName = HeaderName::from_static("x-ms-error-code");

/// The header with the request id, which is also at the end of each error message.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");

/// Maximum bytes that are read of the framework's plain text rejections, which quote little of the request.
const PLAIN_REJECTION_BYTES_MAX: usize = 16_384;

/// An error response. [`finish`] writes its body, which contains a request id to give to the operator.
#[derive(Clone, Debug)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    /// Azure's error code.
    pub(super) code: &'static str,
    /// A more specific error code, or the same as `code`.
    pub(super) detail: &'static str,
    pub(super) explanation: String,
    /// The field that is wrong.
    pub(super) target: Option<String>,
    /// All faults, if the request can have more than one.
    faults: Box<[Fault]>,
    /// The value of the Retry-After header, in seconds.
    pub(super) retry_after_s: Option<u64>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, explanation: impl Into<String>) -> Self {
        let explanation = explanation.into();
        Self {
            status,
            code,
            detail: code,
            explanation,
            target: None,
            faults: Box::default(),
            retry_after_s: None,
        }
    }

    pub(super) fn bad_request(explanation: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", explanation)
    }

    /// Returns a bad request error for one field.
    pub(super) fn of_field(target: &str, explanation: impl Into<String>) -> Self {
        let mut error = Self::bad_request(explanation);
        error.target = Some(target.to_owned());
        error
    }

    pub(super) fn unauthorized(explanation: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", explanation)
    }

    pub(super) fn forbidden(explanation: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", explanation)
    }

    pub(super) fn not_found(explanation: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", explanation)
    }

    pub(super) fn unknown_subscription(name: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "SubscriptionNotFound",
            format!(
                "The subscription '{name}' could not be found; the setting azure.subscription_id names those that are here."
            ),
        )
    }

    pub(super) fn unknown_resource_group(name: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "ResourceGroupNotFound",
            format!(
                "Resource group '{name}' could not be found; the setting azure.resource_group names those that are here."
            ),
        )
    }

    /// Returns the error for a resource type that Azure has and the appliance does not.
    pub(super) fn not_offered(kind: &str, instead: &str) -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "NotOffered",
            format!("Everpost has no {kind}: {instead}."),
        )
    }

    pub(super) fn too_large(explanation: impl Into<String>) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            explanation,
        )
    }

    pub(super) fn too_many(explanation: impl Into<String>) -> Self {
        let mut error = Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "TooManyRequests",
            explanation,
        );
        error.retry_after_s = Some(RETRY_AFTER_BUSY_S);
        error
    }

    /// Returns [`ApiError::too_many`] with `wait` as the time to retry after.
    pub(super) fn too_many_guesses(explanation: impl Into<String>, wait: Duration) -> Self {
        let mut error = Self::too_many(explanation);
        error.retry_after_s = Some(wait.as_secs().max(1));
        error
    }

    pub(super) fn unavailable(explanation: impl Into<String>) -> Self {
        let mut error = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            explanation,
        );
        error.retry_after_s = Some(RETRY_AFTER_BUSY_S);
        error
    }

    /// Returns the paths of all invalid fields.
    pub(super) fn paths(&self) -> Vec<String> {
        self.faults.iter().map(|fault| fault.path.clone()).collect()
    }

    pub(super) fn conflict(explanation: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", explanation)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if let Some(seconds) = self.retry_after_s {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Middleware that writes the bodies of error responses, each with its own request id and time.
pub(super) async fn finish(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    render_error(&state, response).await
}

/// Writes the body of a response if it is an error. Other responses are returned unchanged.
pub(super) async fn render_error(state: &ApiState, response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let error = match parts.extensions.remove::<ApiError>() {
        Some(error) => error,
        None if is_plain_rejection(&parts) => in_our_words(parts.status, body).await,
        None => return Response::from_parts(parts, body),
    };
    let id = state.broker.entropy().uuid();
    let report = correlation(id, state.broker.clock().now());
    let stop = if error.explanation.ends_with(['.', '!', '?']) {
        ""
    } else {
        "."
    };
    let message = format!("{}{stop}{report}", error.explanation);
    let mut body = ErrorBody::new(error.code, message, error.detail);
    if !error.faults.is_empty() {
        let details = error.faults.iter().map(|fault| ErrorDetail {
            code: fault.code().to_owned(),
            message: fault.to_string(),
            target: Some(fault.path.clone()),
        });
        body.error.details = details.collect();
    }
    body.error.target = error.target;
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(header::CONTENT_TYPE);
    parts
        .headers
        .insert(ERROR_CODE, HeaderValue::from_static(error.code));
    if let Ok(id) = HeaderValue::try_from(id.to_string()) {
        parts.headers.insert(REQUEST_ID, id);
    }
    (parts.status, parts.headers, Json(body)).into_response()
}

/// Reports whether the framework rejected the request before a handler ran. The framework answers in plain text if it
/// cannot parse a query or a number in the path, or if a body is too large.
fn is_plain_rejection(parts: &Parts) -> bool {
    let kind = parts.headers.get(header::CONTENT_TYPE);
    parts.status.is_client_error()
        && kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"))
}

async fn in_our_words(status: StatusCode, body: Body) -> ApiError {
    let read = to_bytes(body, PLAIN_REJECTION_BYTES_MAX).await;
    let bytes = read.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let explanation = format!("{text}.");
    if TooMuch::is_told_by(&text) {
        return ApiError::unavailable(explanation);
    }
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large(explanation),
        _ => ApiError::bad_request(explanation),
    }
}

/// Returns the error for an unknown path, with a hint at the path that the client probably meant.
pub(super) async fn no_such_path(
    method: Method,
    uri: Uri,
    arm: Option<Extension<ArmPath>>,
) -> ApiError {
    let path = asked(&uri, arm.as_ref());
    let below_queues = uri.path().strip_prefix("/queues/");
    let of_queue = below_queues.and_then(|rest| rest.split_once("/eventSubscriptions"));
    if let Some((queue, _)) = of_queue {
        return ApiError::not_found(format!(
            "There is nothing at {method} {path}. Event subscriptions of a queue are under /topics/{queue}/eventSubscriptions."
        ));
    }
    let hint = if method == Method::POST {
        "Events are published with POST /topics/{topic}/api/events; the endpoint given to an Event \
         Grid client is http://HOST/topics/{topic}/api/events."
    } else {
        "Topics are under /topics and /namespaces, those of Service Bus under /serviceBusTopics, queues under /queues, the admin pages under /admin, health under /healthz."
    };
    ApiError::not_found(format!("There is nothing at {method} {path}. {hint}"))
}

/// Returns the path as the client sent it.
fn asked<'a>(uri: &'a Uri, arm: Option<&'a Extension<ArmPath>>) -> &'a str {
    arm.map_or(uri, |Extension(arm)| &arm.asked).path()
}

/// Returns the error for a known path with a method that it does not support.
pub(super) async fn no_such_method(
    method: Method,
    uri: Uri,
    arm: Option<Extension<ArmPath>>,
) -> ApiError {
    let topic = uri.path().strip_prefix("/topics/");
    if let Some(topic) = topic.filter(|topic| method == Method::POST && !topic.contains('/')) {
        return ApiError::not_found(format!(
            "Nothing is published here: events of topic {topic:?} go to POST /topics/{topic}/api/events."
        ));
    }
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        format!("{method} does not apply to {}.", asked(&uri, arm.as_ref())),
    )
}

/// Returns the response to a request whose handler panicked. It reports an internal error without details.
pub(super) fn catch_panic(_cause: Box<dyn Any + Send>) -> Response {
    let explanation = "The appliance met a defect of its own; its log says more.";
    let code = "InternalServerError";
    let body = ErrorBody::new(code, explanation.to_owned(), code);
    (StatusCode::INTERNAL_SERVER_ERROR, Json(body)).into_response()
}

impl From<BadInput> for ApiError {
    fn from(input: BadInput) -> Self {
        let explanation = input.to_string();
        match input.kind {
            BadInputKind::Malformed => Self {
                detail: "InputJsonInvalid",
                ..Self::bad_request(explanation)
            },
            BadInputKind::TooLarge => Self::too_large(explanation),
            BadInputKind::UnsupportedEncoding => Self::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UnsupportedMediaType",
                explanation,
            ),
        }
    }
}

impl From<InvalidResource> for ApiError {
    fn from(invalid: InvalidResource) -> Self {
        let mut error = Self::new(
            StatusCode::BAD_REQUEST,
            invalid.first().code(),
            invalid.to_string(),
        );
        error.target = Some(invalid.first().path.clone());
        error.faults = invalid.faults.into();
        error
    }
}

impl From<InvalidPull> for ApiError {
    fn from(invalid: InvalidPull) -> Self {
        Self::bad_request(invalid.to_string())
    }
}

impl From<InvalidName> for ApiError {
    fn from(invalid: InvalidName) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "InvalidRequest",
            invalid.to_string(),
        )
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full => Self::unavailable("The disk is full; nothing was stored."),
            StoreError::Locked => Self::unavailable(format!("Nothing was stored: {error}.")),
            StoreError::Closed | StoreError::Failed(_) => {
                Self::unavailable("The appliance is stopping; try again in a moment.")
            }
            StoreError::TooSlow => {
                Self::unavailable("The question took too long; ask for less at once.")
            }
            StoreError::Undone(_) => {
                note_defect(&error);
                Self::unavailable("The events could not be stored; try again in a moment.")
            }
            StoreError::Unreadable(_) | StoreError::Damaged(_) => {
                note_unreadable(&error);
                Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "InternalServerError",
                    format!("What is stored cannot be read: {error}."),
                )
            }
            StoreError::Provisioned { .. } => Self::conflict(error.to_string()),
            StoreError::MasterKey(_) | StoreError::Other(_) => {
                note_defect(&error);
                Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "InternalServerError",
                    "The appliance met a defect of its own; its log says more.",
                )
            }
        }
    }
}

impl From<PublishError> for ApiError {
    fn from(error: PublishError) -> Self {
        let explanation = error.to_string();
        match error {
            PublishError::Stopping => {
                Self::unavailable("The appliance is stopping; try again in a moment.")
            }
            PublishError::DiskLow => Self::unavailable(
                "The disk is almost full, so nothing more is accepted; what was accepted before is \
                 still delivered.",
            ),
            PublishError::BuiltIn(_) | PublishError::SendDisabled(_) => {
                Self::forbidden(explanation)
            }
            PublishError::QuotaExceeded(..) => Self {
                detail: QUOTA_EXCEEDED,
                ..Self::forbidden(explanation)
            },
            PublishError::TooManyCopies => Self::too_large(explanation),
            PublishError::Unreadable(_) => Self::bad_request(explanation),
            PublishError::Store(error) => error.into(),
        }
    }
}

impl From<ManageError> for ApiError {
    fn from(error: ManageError) -> Self {
        let explanation = error.to_string();
        match (error.kind(), error) {
            (_, ManageError::Store(error)) => error.into(),
            (_, ManageError::NotValidated { .. }) => {
                Self::new(StatusCode::BAD_REQUEST, VALIDATION_FAILED, explanation)
            }
            (ErrorKind::NotFound, _) => {
                Self::new(StatusCode::NOT_FOUND, "ResourceNotFound", explanation)
            }
            (ErrorKind::Exists, _) => Self {
                detail: ENTITY_EXISTS,
                ..Self::conflict(explanation)
            },
            (ErrorKind::Conflict, _) => Self::conflict(explanation),
            (ErrorKind::Limit, _) => Self {
                detail: QUOTA_EXCEEDED,
                ..Self::conflict(explanation)
            },
            (ErrorKind::Invalid, _) => {
                Self::new(StatusCode::BAD_REQUEST, "InvalidRequest", explanation)
            }
            (ErrorKind::Forbidden, _) => Self::forbidden(explanation),
            (ErrorKind::Unavailable, _) => Self::unavailable(explanation),
        }
    }
}

impl From<MessagingError> for ApiError {
    fn from(error: MessagingError) -> Self {
        let explanation = error.to_string();
        match (error.kind(), error) {
            (_, MessagingError::Store(error)) => error.into(),
            (_, MessagingError::TooManyWaiting) => Self::too_many(explanation),
            (ErrorKind::NotFound, _) => Self::not_found(explanation),
            (ErrorKind::Invalid, _) => Self::bad_request(explanation),
            (ErrorKind::Exists | ErrorKind::Conflict, _) => Self::conflict(explanation),
            (ErrorKind::Forbidden | ErrorKind::Limit, _) => Self::forbidden(explanation),
            (ErrorKind::Unavailable, _) => Self::unavailable(explanation),
        }
    }
}

impl From<ResubmitError> for ApiError {
    fn from(error: ResubmitError) -> Self {
        let explanation = error.to_string();
        match error {
            ResubmitError::NotFound(_) => Self::not_found(explanation),
            ResubmitError::NotDeadLettered(..)
            | ResubmitError::Locked(..)
            | ResubmitError::Rejected(..) => Self::conflict(explanation),
            ResubmitError::EndpointFailed(..) => {
                Self::new(StatusCode::BAD_GATEWAY, "BadGateway", explanation)
            }
            ResubmitError::InvalidEvent(input) => input.into(),
            ResubmitError::Stopping => PublishError::Stopping.into(),
            ResubmitError::DiskLow => PublishError::DiskLow.into(),
            ResubmitError::Store(error) => error.into(),
        }
    }
}

impl From<ReplayError> for ApiError {
    fn from(error: ReplayError) -> Self {
        let explanation = error.to_string();
        match error {
            ReplayError::NotFound(_) => Self::not_found(explanation),
            ReplayError::Ended(..) | ReplayError::TooMany => Self::conflict(explanation),
            ReplayError::Store(error) => error.into(),
        }
    }
}

impl From<UnknownCode> for ApiError {
    fn from(error: UnknownCode) -> Self {
        match error {
            UnknownCode::NotOpen => Self::not_found(error.to_string()),
            UnknownCode::Store(error) => error.into(),
        }
    }
}
