//! The results of attempts in the words of HTTP and of networks. Azure's words stand beside them.

use super::*;

/// Describes the result of an attempt: `503 Service Unavailable`, `Connection refused`, `No response within 30 s`.
pub(crate) fn of_attempt(attempt: &DeliveryAttempt) -> String {
    let (answer, took) = (&attempt.result, attempt.duration);
    match (answer.outcome, answer.status()) {
        (Outcome::TimedOut, None) => format!("No response within {}", print::span(took)),
        (outcome, status) => words(outcome, status, answer.error.as_deref()),
    }
}

/// Describes an outcome when the duration of its attempt is not known; `error` says what went wrong where there was no
/// response.
pub(crate) fn words(outcome: Outcome, status: Option<u16>, error: Option<&str>) -> String {
    let without = || outcome.title(error.unwrap_or_default()).to_owned();
    status.map_or_else(without, of_status)
}

pub(crate) fn of_status(status: u16) -> String {
    let known = StatusCode::from_u16(status).ok();
    let reason = known.and_then(|known| known.canonical_reason());
    reason.map_or_else(|| status.to_string(), |reason| format!("{status} {reason}"))
}

/// Why a delivery was given up: `401 Unauthorized`, `All attempts failed`.
pub(crate) fn of_reason(reason: DeadLetterReason) -> String {
    let words = || reason.title().to_owned();
    reason.status().map_or_else(words, of_status)
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
