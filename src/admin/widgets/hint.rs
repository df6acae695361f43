//! The likely causes of failed attempts, and where to look.

use super::*;
use crate::model::delivery::AttemptResult;

/// A hint for a failed attempt: the meaning of its result in plain language, and where to look.
#[derive(Clone, Copy, Debug, Template)]
#[template(path = "widgets/hint.html")]
pub(crate) struct Hint<'a>(&'a AttemptResult);

part!(Hint<'_>);

pub(crate) fn for_answer(answer: &AttemptResult) -> Option<Hint<'_>> {
    (answer.outcome != Outcome::Delivered).then_some(Hint(answer))
}

impl Hint<'_> {
    fn has_said(&self) -> bool {
        let response = self.0.response.as_ref();
        response.is_some_and(|said| !said.is_bare())
    }

    fn is(&self, outcome: Outcome, from: u16, to: u16) -> bool {
        let status = self.0.status().unwrap_or(0);
        self.0.outcome == outcome && (from..=to).contains(&status)
    }
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
