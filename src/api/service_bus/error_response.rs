//! Rejections, as clients of Service Bus read them over HTTP.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::authority::AccessDenied;
use crate::api::error::{ApiError, ENTITY_EXISTS, QUOTA_EXCEEDED};
use crate::api::failures::note_unserved;
use crate::api::intake::NoBody;
use crate::broker::{ErrorKind, MessagingError};
use crate::model::lease::LockError;
use crate::model::limits::RETRY_AFTER_BUSY_S;
use crate::wire::service_bus::error_body;

/// A rejection: the status and the detail that the client reads.
pub(super) struct ErrorResponse {
    pub(super) status: StatusCode,
    pub(super) detail: String,
}

impl ErrorResponse {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { status, detail }
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// Returns the rejection for the administration API, where a finer number stands in front (rule S9).
    pub(super) fn of_administration(error: ApiError) -> Self {
        // Clients take any conflict for an entity that exists, but for one with another number.
        let (status, number) = match error.detail {
            QUOTA_EXCEEDED => (StatusCode::FORBIDDEN, 40_300),
            ENTITY_EXISTS => (error.status, 40_900),
            _ if error.status == StatusCode::CONFLICT => (error.status, 40_901),
            _ => (error.status, u32::from(error.status.as_u16()) * 100),
        };
        Self::new(status, error.explanation).numbered(number)
    }

    /// Returns the rejection with Azure's sub code in front of the detail, which ends with a full stop.
    pub(super) fn numbered(self, number: u32) -> Self {
        let stop = if self.detail.ends_with('.') { "" } else { "." };
        let detail = format!("SubCode={number}. {}{stop}", self.detail);
        Self { detail, ..self }
    }

    /// Says why a body was not read, or that it is too large.
    pub(super) fn of_body(why: NoBody, too_large: Self) -> Self {
        match why {
            NoBody::TooLarge => too_large,
            NoBody::NoMemory => {
                let detail = "There is no memory left for this request; try again in a moment.";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
            }
            NoBody::Broken => {
                Self::bad_request("The body ended before it was whole, or came too slowly.")
            }
        }
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let body = error_body(self.status.as_u16(), &self.detail);
        let kind = (header::CONTENT_TYPE, "application/xml; charset=utf-8");
        let mut response = (self.status, [kind], body).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            let schemes = HeaderValue::from_static("SharedAccessSignature, Bearer");
            headers.insert(header::WWW_AUTHENTICATE, schemes);
        }
        if matches!(self.status.as_u16(), 429 | 503) {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER_BUSY_S.into());
        }
        response
    }
}

impl From<AccessDenied> for ErrorResponse {
    fn from(denied: AccessDenied) -> Self {
        let status = match denied {
            AccessDenied::TooManyGuesses(_) => StatusCode::TOO_MANY_REQUESTS,
            AccessDenied::Token(_)
            | AccessDenied::Resource(_)
            | AccessDenied::WrongKey(_)
            | AccessDenied::OtherResource(_)
            | AccessDenied::MissingRight { .. } => StatusCode::UNAUTHORIZED,
        };
        let text = denied.to_string();
        let mut letters = text.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        let detail: String = first.into_iter().chain(letters).chain(['.']).collect();
        Self::new(status, detail)
    }
}

impl From<ApiError> for ErrorResponse {
    fn from(error: ApiError) -> Self {
        Self::new(error.status, error.explanation)
    }
}

impl From<MessagingError> for ErrorResponse {
    fn from(error: MessagingError) -> Self {
        let status = match (error.kind(), &error) {
            (_, MessagingError::TooManyWaiting) => StatusCode::TOO_MANY_REQUESTS,
            (ErrorKind::NotFound, _) => StatusCode::NOT_FOUND,
            (ErrorKind::Invalid, _) => StatusCode::BAD_REQUEST,
            (ErrorKind::Exists | ErrorKind::Conflict, _) => StatusCode::CONFLICT,
            (ErrorKind::Forbidden | ErrorKind::Limit, _) => StatusCode::FORBIDDEN,
            (ErrorKind::Unavailable, _) => StatusCode::SERVICE_UNAVAILABLE,
        };
        note_unserved(&error);
        Self::new(status, detail_of(&error))
    }
}

/// Returns the sentence, behind the name of an error that clients look for.
fn detail_of(error: &MessagingError) -> String {
    let is_lost = matches!(
        error,
        MessagingError::Lock(LockError::LockLost) | MessagingError::LockLostInSession
    );
    let name = if is_lost { "MessageLockLost: " } else { "" };
    format!("{name}{error}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::samples::one_of_each;

    /// Both doors that speak HTTP answer with these, in bodies of their own.
    #[test]
    fn every_error_has_its_status() {
        let statuses = one_of_each().into_iter().map(|error| {
            let error_response = ErrorResponse::from(error.clone());
            assert!(
                error_response.detail.ends_with('.'),
                "{}",
                error_response.detail
            );
            let status = error_response.status.as_u16();
            assert_eq!(ApiError::from(error).status.as_u16(), status);
            status
        });
        let expected = [
            404, 404, 404, 400, 403, 429, 503, 503, // entities, and who may receive
            409, 409, 409, 409, 409, // sessions
            404, 400, 400, 403, 400, 404, // locks
            404, 404, 400, 400, 403, // what was sent
            503, 503, 403, 403, 403, 403, 400, // publishing
            409, 404, 400, 403, // rules
            403, 503,
        ];
        assert_eq!(Vec::from_iter(statuses), expected);
    }
}
