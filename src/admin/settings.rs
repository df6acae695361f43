//! The page of settings: what is in force and by whom, what is kept, and which webhooks may be called.

use std::net::IpAddr;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use url::{Origin, Url};

use crate::admin::error::{PageError, PageResult, sentence};
use crate::admin::field::{Field, Problem, mark};
use crate::admin::form::{Form, Refusal, Submitted};
use crate::admin::recipe::Recipe;
use crate::admin::session::Visitor;
use crate::admin::view::{Badge, Frame, Moment, Tone, draw_with};
use crate::admin::{Site, print};
use crate::broker::StorageStanding;
use crate::model::retention::{Pressure, RetentionRules};
use crate::model::setting::{Setting, SettingOrigin};
use crate::outbound::egress::{EgressPolicy, Permit};
use crate::outbound::judge::Verdict;

/// Where a URL is tried, which looks its host up.
const TRY_URL: &str = "/admin/settings/try-url";

/// Settings that belong together, by the beginnings of their names.
pub(super) const GROUPS: [(&str, &[&str]); 8] = [
    (
        "Where it lives and how it is reached",
        &["data_dir", "listen", "public_url", "http.", "shutdown."],
    ),
    ("Taking events", &["publish."]),
    (
        "Delivering",
        &["delivery.", "probation.", "replay.", "webhook.", "egress."],
    ),
    (
        "Keeping",
        &["storage.", "retention.", "dead_letter.", "master_key"],
    ),
    (
        "People and programs",
        &["admin.", "management.", "metrics."],
    ),
    ("The log", &["log."]),
    ("Compatibility with Azure", &["azure."]),
    ("For tests and demonstrations", &["time_scale"]),
];

#[derive(Template)]
#[template(path = "admin/settings.html")]
struct SettingsPage {
    frame: Frame,
    file: String,
    file_was_read: bool,
    egress: Vec<String>,
    trial: Option<Trial>,
    kept: Kept,
    groups: Vec<Group>,
    recipe: Recipe,
}

/// A URL that is tried against the egress policy.
struct Trial {
    problem: Option<Problem>,
    field: [Field; 1],
    judged: Option<Judged>,
}

/// What came of it.
struct Judged {
    url: String,
    badge: Badge,
    why: Vec<String>,
}

/// What retention keeps, and the room that it has.
struct Kept {
    delivered: String,
    dead_letters: String,
    used: String,
    /// Bytes in use and the bound, if there is one.
    share: Option<(u64, u64)>,
    bound: String,
    file: String,
    disk: Option<String>,
    disk_min: String,
    oldest: Option<Moment>,
    pruned: String,
    pressure: Badge,
}

struct Group {
    title: &'static str,
    rows: Vec<Row>,
}

struct Row {
    name: &'static str,
    doc: &'static str,
    value: Option<String>,
    is_set: bool,
    origin: &'static str,
    place: String,
    variable: String,
    flag: String,
}

/// The page.
pub(super) async fn show(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    let trial = visitor
        .may_send(TRY_URL)
        .then(|| Trial::of(&Form::default(), None, None));
    draw_page(&site, &visitor, trial, StatusCode::OK).await
}

/// The page with what would become of a request to a URL.
pub(super) async fn try_url(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let (status, trial) = match parse(form.text("url")) {
        Ok(url) => {
            let judged = Judged::new(&url, site.broker.judge_url(&url).await);
            (StatusCode::OK, Trial::of(&form, None, Some(judged)))
        }
        Err(refusal) => {
            let trial = Trial::of(&form, Some(refusal), None);
            (StatusCode::UNPROCESSABLE_ENTITY, trial)
        }
    };
    draw_page(&site, &visitor, Some(trial), status).await
}

fn parse(text: &str) -> Result<Url, Refusal> {
    Url::parse(text).map_err(|_| {
        let problem = "This is no URL; write it whole, like https://hooks.example.com/in.";
        Refusal::of("url", problem)
    })
}

async fn draw_page(
    site: &Site,
    visitor: &Visitor,
    trial: Option<Trial>,
    status: StatusCode,
) -> Result<Response, PageError> {
    let standing = site.broker.storage_standing().await?;
    let options = site.broker.options();
    let settings = site.diagnostics.settings();
    let page = SettingsPage {
        frame: Frame::new(visitor, "Settings"),
        file: settings.file.clone(),
        file_was_read: settings.file_was_read,
        egress: egress_words(&site.egress),
        trial,
        kept: Kept::new(&options.retention, options.free_bytes_min, &standing),
        groups: groups(&settings.all),
        recipe: Recipe::everpost_alone("everpost config show --origin")
            .everpost("everpost storage"),
    };
    Ok(draw_with(status, &page))
}

/// The policy as sentences.
fn egress_words(policy: &EgressPolicy) -> Vec<String> {
    let networks = |nets: &[ipnet::IpNet]| {
        let texts: Vec<String> = nets.iter().map(ToString::to_string).collect();
        texts.join(", ")
    };
    let schemes = match policy.require_https {
        true => "Only https is called (egress.require_https).",
        false => "Both https and http are called; egress.require_https would refuse http.",
    };
    let opened = match policy.allow.as_slice() {
        [] => "Private networks, this machine and cloud metadata are not called. The setting \
               egress.allow opens networks, such as 10.0.0.0/8."
            .to_owned(),
        nets => format!(
            "Of private networks and this machine, only what egress.allow opens is called: {}.",
            networks(nets)
        ),
    };
    vec![
        "Public addresses are called.".to_owned(),
        opened,
        schemes.to_owned(),
        "Every address of a host name must be allowed, and is looked at again for every request. \
         Redirects are not followed."
            .to_owned(),
    ]
}

impl Trial {
    fn of(form: &Form, refusal: Option<Refusal>, judged: Option<Judged>) -> Self {
        let hint =
            "Its host is looked up, and nothing is called. Path and query make no difference.";
        let mut field = [Field::url("url", "URL to try", form).required().hint(hint)];
        Self {
            problem: mark(field.iter_mut(), refusal),
            field,
            judged,
        }
    }
}

impl Judged {
    fn new(url: &Url, verdict: Verdict) -> Self {
        let (tone, word, why) = match verdict {
            Verdict::Allowed(permits) => {
                let why = permits.iter().map(permit_words).collect();
                (Tone::Good, "Allowed", why)
            }
            Verdict::Inside => {
                let why = "It is answered within the appliance, and nothing leaves it.";
                (Tone::Good, "Allowed", vec![why.to_owned()])
            }
            Verdict::Denied(denied) => (Tone::Bad, "Blocked", vec![sentence(&denied.to_string())]),
            Verdict::Unresolved(why) => {
                let then = "What it leads to is judged once it does.".to_owned();
                (Tone::Waiting, "Leads nowhere", vec![sentence(&why), then])
            }
        };
        Self {
            url: place(url),
            badge: Badge::new(tone, word),
            why,
        }
    }
}

/// What of a URL is judged.
fn place(url: &Url) -> String {
    match matches!(url.origin(), Origin::Tuple(..)) {
        true => url.origin().ascii_serialization(),
        false => format!("{}:", url.scheme()),
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

impl Kept {
    fn new(rules: &RetentionRules, disk_min: u64, standing: &StorageStanding) -> Self {
        let sizes = &standing.sizes;
        let pressure = match standing.pressure {
            None => Badge::new(Tone::Good, "There is room"),
            Some(Pressure::Size) => Badge::new(
                Tone::Waiting,
                "Delivered events go early: the bound is reached",
            ),
            Some(Pressure::Disk) => Badge::new(
                Tone::Bad,
                "Delivered events go early: the disk is nearly full",
            ),
        };
        Self {
            delivered: print::span(rules.delivered),
            dead_letters: match rules.dead_letters {
                Some(age) => print::span(age),
                None => "until they are resubmitted, completed or purged".to_owned(),
            },
            used: print::bytes(sizes.used()),
            share: rules.bytes_max.map(|most| (sizes.used(), most)),
            bound: rules.bytes_max.map_or("any size".to_owned(), print::bytes),
            file: print::bytes(sizes.file),
            disk: sizes.disk_free.map(print::bytes),
            disk_min: print::bytes(disk_min),
            oldest: standing.oldest.map(|(_, at)| Moment::at(at)),
            pruned: print::plural(standing.pruned.events, "event", "events"),
            pressure,
        }
    }
}

fn groups(settings: &[Setting]) -> Vec<Group> {
    let groups = GROUPS.iter().map(|(title, beginnings)| {
        let rows = settings
            .iter()
            .filter(|setting| belongs(setting.name, beginnings));
        Group {
            title,
            rows: rows.map(Row::new).collect(),
        }
    });
    groups.filter(|group| !group.rows.is_empty()).collect()
}

pub(super) fn belongs(name: &str, beginnings: &[&str]) -> bool {
    beginnings
        .iter()
        .any(|beginning| name.starts_with(beginning))
}

impl Row {
    fn new(setting: &Setting) -> Self {
        Self {
            name: setting.name,
            doc: setting.doc,
            value: setting.value.clone(),
            is_set: setting.origin != SettingOrigin::Default,
            origin: setting.origin.name(),
            place: setting.place.clone(),
            variable: setting.variable.clone(),
            flag: setting.flag.clone(),
        }
    }
}
