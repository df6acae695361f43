//! What a failed attempt means, in plain language, and what to look at.

use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{AttemptResult, Outcome};

/// The hint for an attempt with this answer; `None` when nothing went wrong.
pub(crate) fn for_answer(answer: &AttemptResult) -> Option<&'static str> {
    for_attempt(answer.outcome, answer.status(), answer.error.as_deref())
}

fn for_attempt(outcome: Outcome, status: Option<u16>, error: Option<&str>) -> Option<&'static str> {
    let is_tls = error.is_some_and(|error| error.contains("TLS"));
    match (outcome, status) {
        (Outcome::Delivered, _) => None,
        (Outcome::SocketError, _) if is_tls => Some(
            "The receiver's certificate was not accepted, or there was no common version of TLS. \
             Look at its date, its host name and who issued it.",
        ),
        (Outcome::GenericError, Some(410)) => Some(
            "The receiver says that this address is gone for good. Change the subscription's URL, \
             or delete the subscription.",
        ),
        (Outcome::GenericError, Some(300..=399)) => Some(
            "The receiver redirects. Redirects are not followed: give the subscription the URL that \
             the Location header names.",
        ),
        (Outcome::GenericError, Some(201..=299)) => {
            Some("Only the statuses 200 to 204 count as delivered. Have the receiver answer 200.")
        }
        (Outcome::Busy, Some(429)) => Some(
            "The receiver takes fewer requests than it gets. Deliveries go on after a wait; batches \
             make fewer requests of the same events.",
        ),
        (outcome, _) => for_outcome(outcome),
    }
}

fn for_outcome(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Delivered => None,
        Outcome::BadRequest => Some(
            "The receiver did not understand the request. Look at what it answered, if it said more, and \
             whether it expects another delivery schema. A 400 is never retried.",
        ),
        Outcome::Unauthorized => Some(
            "The receiver asks for credentials: a key in the query of the URL, or a header of the \
             subscription. A 401 is never retried.",
        ),
        Outcome::Forbidden => Some(
            "The receiver knows the request but does not allow it: look at its firewall and at the \
             credentials that the subscription sends. A 403 is never retried.",
        ),
        Outcome::NotFound => Some(
            "The receiver runs, but has nothing at this path. Compare the URL with its routes. The \
             next attempt is held for at least five minutes.",
        ),
        Outcome::PayloadTooLarge => Some(
            "The receiver rejects bodies of this size. Raise its limit, or make batches smaller. A \
             413 is never retried.",
        ),
        Outcome::Busy => Some("The receiver says that it is not available right now."),
        Outcome::TimedOut => Some(
            "There was no answer in time. A receiver should answer as soon as it has stored the \
             event, and do the work afterwards.",
        ),
        Outcome::SocketError => Some(
            "There was no connection, or it broke. Is the receiver running, on this host and port, \
             and may this machine reach it?",
        ),
        Outcome::ResolutionError => {
            Some("The host's name has no address. Look for a slip in the URL, and at DNS.")
        }
        Outcome::Aborted => Some(
            "This address may not be called: it is not public. If it is yours, allow its network \
             with the setting egress.allow.",
        ),
        Outcome::TokenError => Some(
            "The authorization server gave no access token, so the receiver was not called. Look at \
             the token URL, the client id and its secret.",
        ),
        Outcome::Probation => Some(
            "It was not tried: the receiver has failed many times in a row. The attempt counts \
             nevertheless, because the setting probation.mode is azure.",
        ),
        Outcome::Released => Some("The receiver gave the event back without a word."),
        Outcome::Rejected => Some(
            "The receiver dead-lettered the event itself; its reason is shown with the delivery.",
        ),
        Outcome::Deferred => Some(
            "The receiver put the event aside. Nobody gets it before asking for it by its number.",
        ),
        Outcome::LockLost => Some(
            "The receiver took the event and did not say what became of it before its lock lapsed. It \
             should renew the lock while it works, or take a longer one.",
        ),
        Outcome::GenericError => {
            Some("The receiver failed on its side. Its answer and its own log may say more.")
        }
    }
}

/// Why a delivery was given up, in few words.
pub(crate) fn for_reason(reason: DeadLetterReason) -> &'static str {
    match reason {
        DeadLetterReason::MaxDeliveryAttemptsExceeded => "All attempts failed",
        DeadLetterReason::TimeToLiveExceeded => "Its time to live was over",
        DeadLetterReason::UndeliverableDueToHttpBadRequest => "Rejected as a bad request",
        DeadLetterReason::UndeliverableDueToHttpUnauthorized => "Rejected as unauthorized",
        DeadLetterReason::UndeliverableDueToHttpForbidden => "Rejected as forbidden",
        DeadLetterReason::UndeliverableDueToHttpRequestEntityTooLarge => "Rejected as too large",
        DeadLetterReason::UndeliverableDueToProbationCausedByClientError => {
            "Not sent to a failing webhook"
        }
        DeadLetterReason::UndeliverableDueToClientError => "Rejected by the webhook",
        DeadLetterReason::SubscriptionDeleted => "The subscription was deleted",
        DeadLetterReason::EventUnreadable => "The stored event is damaged",
        DeadLetterReason::Manual => "Dead-lettered by hand",
        DeadLetterReason::Application => "Dead-lettered by the receiver",
    }
}

/// What to mend before dead letters with this reason are sent again.
pub(crate) fn before_resubmitting(reason: DeadLetterReason) -> &'static str {
    match reason {
        DeadLetterReason::MaxDeliveryAttemptsExceeded | DeadLetterReason::TimeToLiveExceeded => {
            "Have the endpoint answer again, then resubmit."
        }
        DeadLetterReason::UndeliverableDueToHttpBadRequest => {
            "The receiver rejected the content. Compare it with the delivery schema."
        }
        DeadLetterReason::UndeliverableDueToHttpUnauthorized
        | DeadLetterReason::UndeliverableDueToHttpForbidden => {
            "Check the credentials of the subscription, then resubmit."
        }
        DeadLetterReason::UndeliverableDueToHttpRequestEntityTooLarge => {
            "Make batches smaller, or raise the receiver's limit."
        }
        DeadLetterReason::UndeliverableDueToProbationCausedByClientError
        | DeadLetterReason::UndeliverableDueToClientError => {
            "See what the receiver answered, mend that, then resubmit."
        }
        DeadLetterReason::SubscriptionDeleted => "Nobody gets them any more.",
        DeadLetterReason::EventUnreadable => "They cannot be sent any more.",
        DeadLetterReason::Manual | DeadLetterReason::Application => {
            "The receiver may have given a reason of its own."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_hint_and_success_none() {
        for outcome in Outcome::ALL {
            let hint = for_attempt(outcome, None, None);
            assert_eq!(hint.is_none(), outcome == Outcome::Delivered, "{outcome:?}");
        }
    }

    #[test]
    fn hints_look_at_status_and_error() {
        for (outcome, status, error, word) in [
            (Outcome::GenericError, Some(302), None, "Redirects"),
            (Outcome::GenericError, Some(410), None, "gone"),
            (Outcome::GenericError, Some(206), None, "200 to 204"),
            (Outcome::GenericError, Some(500), None, "on its side"),
            (Outcome::Busy, Some(429), None, "batches"),
            (
                Outcome::SocketError,
                None,
                Some("TLS failed: expired"),
                "certificate",
            ),
            (
                Outcome::SocketError,
                None,
                Some("connection refused"),
                "running",
            ),
        ] {
            let hint = for_attempt(outcome, status, error).expect("a hint");
            assert!(hint.contains(word), "{outcome:?} {status:?}: {hint}");
        }
    }
}
