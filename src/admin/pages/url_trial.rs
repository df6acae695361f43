//! A URL that is tried: the form for it, and what the egress policy says of where it leads.

use std::net::IpAddr;

use http::StatusCode;
use ipnet::IpNet;
use url::Url;

use crate::admin::forms::field::{Field, Problem, mark};
use crate::admin::page::*;
use crate::outbound::egress::{Denied, Permit};
use crate::outbound::evaluate::EgressVerdict;

const FIELD: &str = "url";

/// The form with the URL.
#[derive(Template)]
#[template(path = "widgets/url_form.html")]
pub(crate) struct UrlForm {
    action: &'static str,
    csrf: String,
    problem: Option<Problem>,
    field: [Field; 1],
    button: &'static str,
}

/// What the policy says.
#[derive(Template)]
#[template(path = "widgets/judged.html")]
pub(crate) struct Judged {
    place: String,
    badge: Badge,
    why: Vec<String>,
}

part!(UrlForm, Judged);

/// Where a URL is tried.
pub(crate) struct UrlTrial {
    pub(crate) action: &'static str,
    pub(crate) button: &'static str,
    pub(crate) hint: &'static str,
}

/// What was typed, and what is wrong with it.
#[derive(Default)]
pub(crate) struct Typed {
    form: Form,
    refusal: Option<Refusal>,
}

impl UrlTrial {
    /// The form, for whoever may send it.
    pub(crate) fn form(&self, visitor: &Visitor, typed: Typed) -> Option<UrlForm> {
        let field = Field::url(FIELD, "URL to test", &typed.form);
        let mut field = [field.required().hint(self.hint)];
        visitor.may_send(self.action).then(|| UrlForm {
            action: self.action,
            csrf: visitor.csrf.clone(),
            problem: mark(field.iter_mut(), typed.refusal),
            field,
            button: self.button,
        })
    }
}

impl Typed {
    /// What a form has, and the URL in it unless it is none.
    pub(crate) fn read(form: Form) -> (Self, Option<Url>) {
        let url = Url::parse(form.text(FIELD)).ok();
        let problem = "This is no URL; write it whole, like https://hooks.example.com/in.";
        let refusal = url.is_none().then(|| Refusal::of(FIELD, problem));
        (Self { form, refusal }, url)
    }

    /// What the page is answered with.
    pub(crate) fn status(&self) -> StatusCode {
        match self.refusal {
            Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
            None => StatusCode::OK,
        }
    }
}

impl Judged {
    /// What is said of the policy alone.
    pub(crate) fn badge_of(verdict: &EgressVerdict) -> Badge {
        Self::new(String::new(), verdict).badge
    }

    /// Of a URL that leads to `place`.
    pub(crate) fn new(place: String, verdict: &EgressVerdict) -> Self {
        let (tone, word, why) = match verdict {
            EgressVerdict::Allowed(permits) => {
                let why = permits.iter().map(permit_words).collect();
                (Tone::Good, "Allowed", why)
            }
            EgressVerdict::Inside => {
                let why = "It is answered within the appliance, and nothing leaves it.";
                (Tone::Good, "Allowed", vec![why.to_owned()])
            }
            EgressVerdict::Denied(denied) => (Tone::Bad, "Blocked", vec![denied_words(denied)]),
            EgressVerdict::Unresolved(why) => {
                let then = "What it leads to is judged once it does.".to_owned();
                (Tone::Warn, "Leads nowhere", vec![sentence(why), then])
            }
        };
        Self {
            place,
            badge: Badge::new(tone, word),
            why,
        }
    }

    /// The same under another heading.
    pub(crate) fn with_badge(self, badge: Badge) -> Self {
        Self { badge, ..self }
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

/// Which rule lets an address be called.
fn permit_words((address, permit): &(IpAddr, Permit)) -> String {
    match permit {
        Permit::Public => format!("{address} is a public address."),
        Permit::Opened { what, by } => {
            format!("{address} is {what}, which egress.allow opens by {by}.")
        }
    }
}
