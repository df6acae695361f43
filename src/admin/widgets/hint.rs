//! What went wrong, and what to look at.

use askama::Template;

use crate::admin::widgets::part;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{AttemptResult, Outcome};

/// What a failed attempt means, in plain language, and what to look at.
#[derive(Clone, Copy, Debug, Template)]
#[template(path = "widgets/hint.html")]
pub(crate) struct Hint {
    outcome: Outcome,
    status: Option<u16>,
    is_tls: bool,
}

part!(Hint);

/// The hint for an attempt with this answer; `None` when nothing went wrong.
pub(crate) fn for_answer(answer: &AttemptResult) -> Option<Hint> {
    for_attempt(answer.outcome, answer.status(), answer.error.as_deref())
}

fn for_attempt(outcome: Outcome, status: Option<u16>, error: Option<&str>) -> Option<Hint> {
    let is_tls = error.is_some_and(|error| error.contains("TLS"));
    (outcome != Outcome::Delivered).then_some(Hint {
        outcome,
        status,
        is_tls,
    })
}

impl Hint {
    fn is_status(&self, from: u16, to: u16) -> bool {
        self.status
            .is_some_and(|status| (from..=to).contains(&status))
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
        DeadLetterReason::Cancelled => "Cancelled before its time",
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
        DeadLetterReason::EventUnreadable | DeadLetterReason::Cancelled => {
            "They cannot be sent any more."
        }
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
            let says_nothing = hint.is_none_or(|hint| hint.to_string().is_empty());
            assert_eq!(says_nothing, outcome == Outcome::Delivered, "{outcome:?}");
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
            let hint = for_attempt(outcome, status, error)
                .expect("a hint")
                .to_string();
            assert!(hint.contains(word), "{outcome:?} {status:?}: {hint}");
        }
    }
}
