//! What came of an attempt, in the words of HTTP and of networks. Azure's words stand beside them.

use http::StatusCode;

use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{DeliveryAttempt, Outcome};

/// What came of one attempt: `503 Service Unavailable`, `Connection refused`, `No response within 30 s`.
pub(crate) fn of_attempt(attempt: &DeliveryAttempt) -> String {
    let answer = &attempt.result;
    match (answer.outcome, answer.status()) {
        (Outcome::TimedOut, None) => {
            let deadline = super::print::span(attempt.duration);
            format!("No response within {deadline}")
        }
        (outcome, status) => words(outcome, status, answer.error.as_deref()),
    }
}

/// The same for an outcome of which less is known; `error` says what went wrong where there was no response.
pub(crate) fn words(outcome: Outcome, status: Option<u16>, error: Option<&str>) -> String {
    match status {
        Some(status) => of_status(status),
        None => without_status(outcome, error.unwrap_or_default()).to_owned(),
    }
}

/// `503 Service Unavailable`.
pub(crate) fn of_status(status: u16) -> String {
    let known = StatusCode::from_u16(status).ok();
    match known.and_then(|status| status.canonical_reason()) {
        Some(reason) => format!("{status} {reason}"),
        None => status.to_string(),
    }
}

fn without_status(outcome: Outcome, error: &str) -> &'static str {
    let says = |word: &str| error.contains(word);
    match outcome {
        Outcome::SocketError if says("TLS") => "TLS handshake failed",
        Outcome::SocketError if says("refused") => "Connection refused",
        Outcome::SocketError if says("reset") => "Connection reset",
        Outcome::SocketError if says("closed") => "Connection closed",
        Outcome::SocketError => "Connection failed",
        Outcome::TimedOut => "No response in time",
        Outcome::ResolutionError => "Host not found",
        Outcome::Aborted => "Blocked by outbound rules",
        Outcome::TokenError => "No access token",
        Outcome::Probation => "Skipped on probation",
        Outcome::Delivered => "Completed by the receiver",
        Outcome::Released => "Released by the receiver",
        Outcome::Rejected => "Dead-lettered by the receiver",
        Outcome::Deferred => "Deferred by the receiver",
        Outcome::LockLost => "Lock expired",
        Outcome::BadRequest
        | Outcome::Unauthorized
        | Outcome::Forbidden
        | Outcome::NotFound
        | Outcome::PayloadTooLarge
        | Outcome::Busy
        | Outcome::GenericError => "Failed",
    }
}

/// Why a delivery was given up: `401 Unauthorized`, `All attempts failed`.
pub(crate) fn of_reason(reason: DeadLetterReason) -> String {
    match reason {
        DeadLetterReason::UndeliverableDueToHttpBadRequest => of_status(400),
        DeadLetterReason::UndeliverableDueToHttpUnauthorized => of_status(401),
        DeadLetterReason::UndeliverableDueToHttpForbidden => of_status(403),
        DeadLetterReason::UndeliverableDueToHttpRequestEntityTooLarge => of_status(413),
        DeadLetterReason::MaxDeliveryAttemptsExceeded
        | DeadLetterReason::TimeToLiveExceeded
        | DeadLetterReason::UndeliverableDueToProbationCausedByClientError
        | DeadLetterReason::UndeliverableDueToClientError
        | DeadLetterReason::SubscriptionDeleted
        | DeadLetterReason::EventUnreadable
        | DeadLetterReason::Manual
        | DeadLetterReason::Cancelled
        | DeadLetterReason::Application => super::hint::for_reason(reason).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_said_in_the_words_of_http_and_networks() {
        for (outcome, status, error, said) in [
            (Outcome::Busy, Some(503), None, "503 Service Unavailable"),
            (
                Outcome::GenericError,
                Some(500),
                None,
                "500 Internal Server Error",
            ),
            (Outcome::GenericError, Some(599), None, "599"),
            (
                Outcome::SocketError,
                None,
                Some("connection refused"),
                "Connection refused",
            ),
            (
                Outcome::SocketError,
                None,
                Some("TLS failed: expired"),
                "TLS handshake failed",
            ),
            (Outcome::SocketError, None, None, "Connection failed"),
            (
                Outcome::ResolutionError,
                None,
                Some("no address"),
                "Host not found",
            ),
        ] {
            assert_eq!(words(outcome, status, error), said);
        }
    }
}
