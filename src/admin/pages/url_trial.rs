//! A URL that is tried: the form for it, and what the egress policy says of where it leads. How both are drawn is
//! told by `templates/url_trial.html`.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::admin::forms::filled::Filled;
use crate::admin::page::*;
use crate::outbound::egress::Denied;
use crate::outbound::evaluate::EgressVerdict;

/// What is typed.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UrlForm {
    url: String,
}

impl UrlForm {
    pub(crate) fn empty() -> Filled<Self> {
        Filled::with(Self::default())
    }
}

/// What a form has, and the URL in it unless it is none.
pub(crate) fn read(form: &Form) -> (Filled<UrlForm>, Option<Url>) {
    let form = Filled::<UrlForm>::sent(form);
    let url = Url::parse(form.values.url.trim()).ok();
    let problem = "This is no URL; write it whole, like https://hooks.example.com/in.";
    let fault = url.is_none().then(|| Refusal::of("url", problem));
    (form.with_faults(fault), url)
}

/// What is said of the policy alone.
pub(crate) fn badge(verdict: &EgressVerdict) -> Badge {
    match verdict {
        EgressVerdict::Allowed(_) | EgressVerdict::Inside => Badge::new(Tone::Good, "Allowed"),
        EgressVerdict::Denied(_) => Badge::new(Tone::Bad, "Blocked"),
        EgressVerdict::Unresolved(_) => Badge::new(Tone::Warn, "Leads nowhere"),
    }
}

/// Why an address may not be called, and what would open it.
pub(crate) fn denied_words(denied: &Denied) -> String {
    match denied {
        Denied::NotPublic { address, what, .. } => format!(
            "{address} is {what}, and only public addresses are called unless the appliance is told \
             otherwise. To allow it, start the appliance with --egress-allow {0} (the setting \
             egress.allow, or EVERPOST_EGRESS_ALLOW={0}).",
            IpNet::from(*address)
        ),
        Denied::ByOperator { .. }
        | Denied::PlainHttp
        | Denied::Scheme
        | Denied::NoHost
        | Denied::UserInfo => sentence(&denied.to_string()),
    }
}
