//! The way out as the page of the system shows it: what became of the last trial, step by step, and what is to
//! be done about a clock that is wrong.

use crate::admin::page::*;
use crate::admin::pages::url_trial::{Judged, UrlTrial};
use crate::admin::widgets::facts::Facts;
use crate::broker::diagnostics::OutboundCheck;
use crate::model::clock_skew::ClockSkew;
use crate::outbound::connectivity::{Call, Connectivity, Reached};

/// Where it is tried.
pub(crate) const TRIAL: UrlTrial = UrlTrial {
    action: "/admin/system/try-way-out",
    button: "Test connection",
    hint: "Its host is looked up, and one HEAD request is made to it, as the rules for webhooks allow. Nothing \
           of the answer but its status and its time is shown.",
};

/// What became of the last trial.
#[derive(Template)]
#[template(path = "widgets/way_out.html")]
pub(crate) struct Tried {
    at: Time,
    judged: Judged,
    steps: Facts,
    /// What is to be done about the clock; empty for nothing.
    clock: String,
}

part!(Tried);

impl Tried {
    pub(crate) fn new(tried: &OutboundCheck) -> Self {
        let connectivity = &tried.connectivity;
        let judged = Judged::new(tried.place.clone(), &connectivity.verdict);
        let skew = skew(connectivity).filter(|skew| skew.is_too_much());
        Self {
            at: Time::at(tried.at),
            judged: match &connectivity.call {
                Some(call) => judged.with_badge(ended(call)),
                None => judged,
            },
            steps: steps(connectivity),
            clock: skew.map(advice).unwrap_or_default(),
        }
    }
}

fn ended(call: &Call) -> Badge {
    match &call.response {
        Ok(reached) => Badge::new(Tone::Good, format!("Answered {}", reached.status)),
        Err(_) => Badge::new(Tone::Bad, "No answer"),
    }
}

/// What came of it, in half a sentence.
pub(crate) fn reached(tried: &OutboundCheck) -> Badge {
    let place = &tried.place;
    match &tried.connectivity.call {
        None => Judged::badge_of(&tried.connectivity.verdict),
        Some(call) => {
            let ended = ended(call);
            let word = format!("{} by {place}.", ended.word);
            ended.saying(word)
        }
    }
}

/// The same about the clock.
pub(crate) fn clock(tried: &OutboundCheck) -> Badge {
    let other = &tried.place;
    match skew(&tried.connectivity) {
        None => Badge::new(Tone::Rest, format!("Not told by {other}.")),
        Some(ClockSkew::None) => Badge::new(Tone::Good, format!("The same as that of {other}.")),
        Some(skew @ (ClockSkew::Ahead(by) | ClockSkew::Behind(by))) => {
            let tone = match skew.is_too_much() {
                true => Tone::Bad,
                false => Tone::Good,
            };
            Badge::new(
                tone,
                format!("Differs by {} from that of {other}.", print::span(by)),
            )
        }
    }
}

fn skew(connectivity: &Connectivity) -> Option<ClockSkew> {
    connectivity
        .call
        .as_ref()?
        .response
        .as_ref()
        .ok()?
        .clock_skew
}

fn steps(connectivity: &Connectivity) -> Facts {
    let mut steps = Facts::default();
    if let Some(lookup) = connectivity.lookup {
        steps = steps.text("Look-up of the host", print::lap(lookup));
    }
    let Some(call) = &connectivity.call else {
        return steps;
    };
    if let Some(connect) = call.connect {
        steps = steps.text("Connecting, with TLS if it is https", print::lap(connect));
    }
    match &call.response {
        Ok(reached) => answered(steps, reached),
        Err(error) => steps.text("What ended it", sentence(&error.to_string())),
    }
}

fn answered(steps: Facts, reached: &Reached) -> Facts {
    let steps = steps.text("Until the answer began", print::lap(reached.wait));
    let steps = match reached.remote_address {
        Some(address) => steps.text("Answered by", address.to_string()),
        None => steps,
    };
    let clock = match reached.clock_skew {
        None => "The answer does not tell the time.".to_owned(),
        Some(ClockSkew::None) => "The same as there, as far as whole seconds tell.".to_owned(),
        Some(ClockSkew::Ahead(by)) => format!("{} ahead of the one there.", print::span(by)),
        Some(ClockSkew::Behind(by)) => format!("{} behind the one there.", print::span(by)),
    };
    steps.text("Clock of this appliance", clock)
}

/// What to do about a clock that is wrong.
fn advice(skew: ClockSkew) -> String {
    let (by, way) = match skew {
        ClockSkew::None => (Duration::ZERO, "off"),
        ClockSkew::Ahead(by) => (by, "ahead"),
        ClockSkew::Behind(by) => (by, "behind"),
    };
    format!(
        "The clock of this appliance is {} {way}, unless the other one is wrong: try a second URL to be sure. \
         Have the machine set its clock by NTP, and look with timedatectl whether it does. Shared access \
         signatures end by this clock, and receivers reject signed requests whose time is some minutes off.",
        print::span(by)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;
    use crate::outbound::egress::{Denied, Permit};
    use crate::outbound::evaluate::EgressVerdict;
    use crate::outbound::transport::TransportError;

    #[track_caller]
    fn check(verdict: EgressVerdict, call: Option<Call>, expected: &[&str]) -> String {
        let tried = Tried::new(&OutboundCheck {
            at: Timestamp::from_ms(1_795_243_253_138),
            place: "https://hooks.example.com".to_owned(),
            connectivity: Connectivity {
                verdict,
                lookup: Some(Duration::from_micros(1_300)),
                call,
            },
        });
        let text = tried.to_string();
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
