//! Outbound connectivity on the system page: the last test, step by step, and what to do about a clock that is
//! wrong.

use crate::admin::page::*;
use crate::admin::pages::url_trial;
use crate::broker::diagnostics::OutboundCheck;
use crate::model::clock_skew::ClockSkew;
use crate::outbound::connectivity::Call;

/// What became of the last trial.
#[derive(Template)]
#[template(path = "widgets/way_out.html")]
pub(crate) struct Tried<'a>(pub(crate) &'a OutboundCheck);

part!(Tried<'_>);

impl Tried<'_> {
    fn badge(&self) -> Badge {
        match &self.0.connectivity.call {
            Some(call) => ended(call),
            None => url_trial::badge(&self.0.connectivity.verdict),
        }
    }

    /// What came of it, in half a sentence.
    pub(crate) fn reached(&self) -> Badge {
        let badge = self.badge();
        match &self.0.connectivity.call {
            None => badge,
            Some(_) => {
                let word = format!("{} by {}.", badge.word, self.0.place);
                badge.saying(word)
            }
        }
    }

    /// The same about the clock.
    pub(crate) fn clock(&self) -> Badge {
        let other = &self.0.place;
        match self.skew() {
            None => Badge::new(Tone::Rest, format!("Not told by {other}.")),
            Some(ClockSkew::None) => {
                Badge::new(Tone::Good, format!("The same as that of {other}."))
            }
            Some(skew @ (ClockSkew::Ahead(by) | ClockSkew::Behind(by))) => Badge::new(
                if skew.is_too_much() {
                    Tone::Bad
                } else {
                    Tone::Good
                },
                format!("Differs by {} from that of {other}.", print::span(by)),
            ),
        }
    }

    fn skew(&self) -> Option<ClockSkew> {
        let call = self.0.connectivity.call.as_ref()?;
        call.response.as_ref().ok()?.clock_skew
    }
}

fn ended(call: &Call) -> Badge {
    match &call.response {
        Ok(reached) => Badge::new(Tone::Good, format!("Answered {}", reached.status)),
        Err(_) => Badge::new(Tone::Bad, "No answer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;
    use crate::outbound::connectivity::{Connectivity, Reached};
    use crate::outbound::egress::{Denied, Permit};
    use crate::outbound::evaluate::EgressVerdict;
    use crate::outbound::transport::TransportError;

    #[track_caller]
    fn check(verdict: EgressVerdict, call: Option<Call>, expected: &[&str]) -> String {
        let tried = OutboundCheck {
            at: Timestamp::from_ms(1_795_243_253_138),
            place: "https://hooks.example.com".to_owned(),
            connectivity: Connectivity {
                verdict,
                lookup: Some(Duration::from_micros(1_300)),
                call,
            },
        };
        let text = Tried(&tried).to_string();
        for words in expected {
            assert!(text.contains(words), "{words}: {text}");
        }
        text
    }

    fn answered(skew: Option<ClockSkew>) -> Option<Call> {
        Some(Call {
            connect: Some(Duration::from_millis(30)),
            response: Ok(Reached {
                status: 405,
                remote_address: Some(([8, 8, 8, 8], 443).into()),
                wait: Duration::from_millis(210),
                clock_skew: skew,
            }),
        })
    }

    fn allowed() -> EgressVerdict {
        EgressVerdict::Allowed(vec![([8, 8, 8, 8].into(), Permit::Public)])
    }

    #[test]
    fn every_step_is_told_with_its_time() {
        let steps = [
            "2026-11-21 06:40:53",
            "Answered 405",
            "<code>https://hooks.example.com</code>",
            "8.8.8.8 is a public address.",
            "1.3 ms",
            "30 ms",
            "210 ms",
            "8.8.8.8:443",
        ];
        let text = check(allowed(), answered(Some(ClockSkew::None)), &steps);
        assert!(!text.contains("NTP"), "{text}");
        check(allowed(), answered(None), &["does not tell the time"]);
    }

    #[test]
    fn a_clock_that_is_wrong_says_what_to_do() {
        let by = Duration::from_secs;
        let text = check(
            allowed(),
            answered(Some(ClockSkew::Ahead(by(60)))),
            &["1 min ahead"],
        );
        assert!(!text.contains("NTP"), "{text}");
        check(
            allowed(),
            answered(Some(ClockSkew::Behind(by(90)))),
            &["1 min 30 s behind the one there", "NTP", "try a second URL"],
        );
    }

    #[test]
    fn a_way_that_ends_early_says_why() {
        let refused = TransportError::Socket("the connection was refused".to_owned());
        let call = Call {
            connect: None,
            response: Err(refused),
        };
        check(
            allowed(),
            Some(call),
            &["No answer", "The connection was refused."],
        );
        check(EgressVerdict::Denied(Denied::PlainHttp), None, &["Blocked"]);
    }
}
