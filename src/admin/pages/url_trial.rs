//! The test of a URL: the form, the decision of the egress policy, and the steps of the last connection test. The
//! template is `templates/url_trial.html`.

use askama::Template;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::{Form, FormError};
use crate::admin::widgets::print::sentence;
use crate::admin::widgets::{Badge, Tone, filters, part, print};
use crate::broker::diagnostics::OutboundCheck;
use crate::model::clock_skew::ClockSkew;
use crate::outbound::egress::{EgressDenied, METADATA};
use crate::outbound::evaluate::EgressVerdict;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UrlForm {
    url: String,
}

impl UrlForm {
    pub(crate) fn empty() -> FilledForm<Self> {
        FilledForm::with(Self::default())
    }
}

/// Returns the form and its URL. If the text is not a URL, returns `None` and adds an error to the form.
pub(crate) fn read(form: &Form) -> (FilledForm<UrlForm>, Option<Url>) {
    let form = FilledForm::<UrlForm>::sent(form);
    let url = Url::parse(form.values.url.trim()).ok();
    let problem = "Enter a whole URL, such as https://hooks.example.com/in.";
    let fault = url.is_none().then(|| FormError::of("url", problem));
    (form.with_faults(fault), url)
}

/// Shows the decision of the egress policy alone.
pub(crate) fn badge(verdict: &EgressVerdict) -> Badge {
    match verdict {
        EgressVerdict::Allowed(_) | EgressVerdict::Inside => Badge::new(Tone::Good, "Allowed"),
        EgressVerdict::Denied(_) => Badge::new(Tone::Rest, "Blocked by rule"),
        EgressVerdict::Unresolved(_) => Badge::new(Tone::Warn, "Leads nowhere"),
    }
}

/// Explains why an address may not be called, and which setting would allow it.
pub(crate) fn denied_words(denied: &EgressDenied) -> String {
    let EgressDenied::NotPublic { address, what, .. } = denied else {
        return sentence(&denied.to_string());
    };
    if *what == METADATA {
        let net = IpNet::from(*address);
        return format!("{address} is {what}. To allow it, add {net} to the setting egress.allow.");
    }
    format!(
        "{address} is {what}, and only public addresses are called unless the appliance is told \
         otherwise. To allow it, add {0} to the setting egress.allow on the page Settings, or start \
         the appliance with --egress-allow {0} (EVERPOST_EGRESS_ALLOW={0}).",
        IpNet::from(*address)
    )
}

/// The result of the last connection test.
#[derive(Template)]
#[template(path = "widgets/outbound_check.html")]
pub(crate) struct UrlTrialResult<'a>(pub(crate) &'a OutboundCheck);

part!(UrlTrialResult<'_>);

impl UrlTrialResult<'_> {
    fn badge(&self) -> Badge {
        let call = self.0.connectivity.call.as_ref();
        match call.map(|call| &call.response) {
            Some(Ok(reached)) => Badge::new(Tone::Good, format!("Answered {}", reached.status)),
            Some(Err(_)) => Badge::new(Tone::Bad, "No answer"),
            None => badge(&self.0.connectivity.verdict),
        }
    }

    /// Returns a short result of the call.
    pub(crate) fn reached(&self) -> Badge {
        let badge = self.badge();
        let by = self.0.connectivity.call.as_ref().map_or(":", |_| " by");
        Badge::new(badge.tone, format!("{}{by} {}.", badge.word, self.0.place))
    }

    /// Returns a short result of the clock comparison.
    pub(crate) fn clock(&self) -> Badge {
        let place = &self.0.place;
        let skew = self.skew();
        let said = match skew {
            None if self.0.connectivity.call.is_none() => {
                "Not compared: no server was reached.".to_owned()
            }
            None => format!("Not told by {place}."),
            Some(ClockSkew::None) => format!("Matches that of {place}."),
            Some(ClockSkew::Ahead(by) | ClockSkew::Behind(by)) => {
                format!("Differs by {} from that of {place}.", print::span(by))
            }
        };
        let tone = match skew.map(ClockSkew::is_too_much) {
            None => Tone::Rest,
            Some(true) => Tone::Bad,
            Some(false) => Tone::Good,
        };
        Badge::new(tone, said)
    }

    fn skew(&self) -> Option<ClockSkew> {
        let call = self.0.connectivity.call.as_ref()?;
        call.response.as_ref().ok()?.clock_skew
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;
    use crate::outbound::connectivity::{Connectivity, ProbeRequest, Reached};
    use crate::outbound::egress::{EgressDenied, Permit};
    use crate::outbound::evaluate::EgressVerdict;
    use crate::outbound::transport::TransportError;
    use std::time::Duration;

    #[track_caller]
    fn check(verdict: EgressVerdict, call: Option<ProbeRequest>, expected: &[&str]) -> String {
        let tried = OutboundCheck {
            at: Timestamp::from_ms(1_795_243_253_138),
            place: "https://hooks.example.com".to_owned(),
            connectivity: Connectivity {
                verdict,
                lookup: Some(Duration::from_micros(1_300)),
                call,
            },
        };
        let text = UrlTrialResult(&tried).to_string();
        for words in expected {
            assert!(text.contains(words), "{words}: {text}");
        }
        text
    }

    fn answered(skew: Option<ClockSkew>) -> Option<ProbeRequest> {
        Some(ProbeRequest {
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
        let rejected = TransportError::Socket("the connection was refused".to_owned());
        let call = ProbeRequest {
            connect: None,
            response: Err(rejected),
        };
        check(
            allowed(),
            Some(call),
            &["No answer", "The connection was refused."],
        );
        check(
            EgressVerdict::Denied(EgressDenied::PlainHttp),
            None,
            &["Blocked"],
        );
    }
}
