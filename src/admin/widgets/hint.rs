//! What went wrong, and what to look at.

use super::*;
use crate::model::dead_letter::DeadLetterReason as Reason;
use crate::model::delivery::AttemptResult;

/// What a failed attempt with this answer means, in plain language, and what to look at.
#[derive(Clone, Copy, Debug, Template)]
#[template(path = "widgets/hint.html")]
pub(crate) struct Hint<'a>(&'a AttemptResult);

part!(Hint<'_>);

pub(crate) fn for_answer(answer: &AttemptResult) -> Option<Hint<'_>> {
    (answer.outcome != Outcome::Delivered).then_some(Hint(answer))
}

impl Hint<'_> {
    fn is(&self, outcome: Outcome, from: u16, to: u16) -> bool {
        let status = self.0.status().unwrap_or(0);
        self.0.outcome == outcome && (from..=to).contains(&status)
    }
}

/// A reason in few words, what to mend before what was given up for it is sent again, and the status that it stands for.
#[rustfmt::skip] // a table
fn row(reason: Reason) -> (&'static str, &'static str, Option<u16>) {
    const CREDENTIALS: &str = "Check the credentials of the subscription.";
    const WAIT: &str = "Have the endpoint answer again.";
    const MEND: &str = "Look at the response.";
    const ASK: &str = "The receiver may have given a reason of its own.";
    const CONTENT: &str = "Compare the event with the delivery schema.";
    const SIZE: &str = "Make batches smaller, or raise the receiver's limit.";
    match reason {
        Reason::MaxDeliveryAttemptsExceeded => ("All attempts failed", WAIT, None),
        Reason::TimeToLiveExceeded => ("Its time to live was over", WAIT, None),
        Reason::UndeliverableDueToHttpBadRequest => ("Rejected as a bad request", CONTENT, Some(400)),
        Reason::UndeliverableDueToHttpUnauthorized => ("Rejected as unauthorized", CREDENTIALS, Some(401)),
        Reason::UndeliverableDueToHttpForbidden => ("Rejected as forbidden", CREDENTIALS, Some(403)),
        Reason::UndeliverableDueToHttpRequestEntityTooLarge => ("Rejected as too large", SIZE, Some(413)),
        Reason::UndeliverableDueToProbationCausedByClientError => ("Not sent to a failing webhook", MEND, None),
        Reason::UndeliverableDueToClientError => ("Rejected by the webhook", MEND, None),
        Reason::SubscriptionDeleted => ("The subscription was deleted", "Nobody gets them any more.", None),
        Reason::EventUnreadable => ("The stored event is damaged", "They cannot be sent any more.", None),
        Reason::Manual => ("Dead-lettered by hand", ASK, None),
        Reason::Cancelled => ("Cancelled before its time", "They cannot be sent any more.", None),
        Reason::SessionIdMissing => ("It has no session id", "Its queue takes messages with a session id only.", None),
        Reason::FilterEvaluationFailed => ("A rule could not be evaluated", "Correct the rule.", None),
        Reason::MaxTransferHopCountExceeded => ("Forwarded too often", "Check which queues forward to each other.", None),
        Reason::ForwardTargetFull => ("The queue or topic that it goes on to is full", "Receive messages there, or raise its maximum size.", None),
        Reason::ForwardTargetMissing => ("Where it was to be forwarded is gone", "Have the queue forward to one that exists.", None),
        Reason::Application => ("Dead-lettered by the receiver", ASK, None),
    }
}

pub(crate) fn for_reason(reason: Reason) -> &'static str {
    row(reason).0
}

pub(crate) fn before_resubmitting(reason: Reason) -> &'static str {
    row(reason).1
}

pub(crate) fn status_of(reason: Reason) -> Option<u16> {
    row(reason).2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::delivery::HttpResponse;

    #[test]
    fn every_failure_has_a_hint_and_success_none() {
        for outcome in Outcome::ALL {
            let answer = AttemptResult::of(outcome);
            let hint = for_answer(&answer);
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
            let answer = AttemptResult {
                response: status.map(HttpResponse::bare),
                error: error.map(str::to_owned),
                ..AttemptResult::of(outcome)
            };
            let hint = for_answer(&answer).expect("a hint").to_string();
            assert!(hint.contains(word), "{outcome:?} {status:?}: {hint}");
        }
    }
}
