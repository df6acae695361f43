//! The page of settings: what is in force and by whom, what is kept, and which webhooks may be called.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use crate::admin::bare::draw_with;
use crate::admin::error::{PageError, PageResult};
use crate::admin::frame::Frame;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::url_trial::{Judged, Typed, UrlForm, UrlTrial};
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::print;
use crate::admin::widgets::{Badge, Time, Tone};
use crate::broker::StorageStatus;
use crate::broker::diagnostics::place;
use crate::model::retention::{Pressure, RetentionRules};
use crate::model::setting::{Setting, SettingOrigin};
use crate::outbound::egress::EgressPolicy;

/// Where a URL is tried.
const TRY_URL: UrlTrial = UrlTrial {
    action: "/admin/settings/try-url",
    button: "Try it",
    hint: "Its host is looked up, and nothing is called. Path and query make no difference.",
};

/// Settings that belong together, by the beginnings of their names.
pub(crate) const GROUPS: [(&str, &[&str]); 8] = [
    (
        "Server",
        &["data_dir", "listen", "public_url", "http.", "shutdown."],
    ),
    ("Publishing", &["publish."]),
    (
        "Delivery",
        &["delivery.", "probation.", "replay.", "webhook.", "egress."],
    ),
    (
        "Storage and retention",
        &["storage.", "retention.", "dead_letter.", "master_key"],
    ),
    ("Access", &["admin.", "management.", "metrics."]),
    ("Log", &["log."]),
    ("Azure compatibility", &["azure."]),
    ("Testing", &["time_scale"]),
];

#[derive(Template)]
#[template(path = "pages/settings.html")]
struct SettingsPage {
    frame: Frame,
    file: String,
    file_was_read: bool,
    egress: Vec<String>,
    form: Option<UrlForm>,
    judged: Option<Judged>,
    kept: Kept,
    groups: Vec<Group>,
    recipe: Recipe,
}

/// What retention keeps, and the room that it has.
struct Kept {
    delivered: String,
    dead_letters: String,
    used: String,
    /// Bytes in use and the bound, if there is one.
    share: Option<(u64, u64)>,
    bound: String,
    disk: Option<String>,
    disk_min: String,
    oldest: Option<Time>,
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
pub(crate) async fn show(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    draw_page(&site, &visitor, Typed::default(), None).await
}

/// The page with what would become of a request to a URL.
pub(crate) async fn try_url(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let (typed, url) = Typed::read(form);
    let judged = match url {
        Some(url) => {
            let verdict = site.broker.check_url(&visitor.caller, &url).await?;
            Some(Judged::new(place(&url), &verdict))
        }
        None => None,
    };
    draw_page(&site, &visitor, typed, judged).await
}

async fn draw_page(
    site: &Site,
    visitor: &Visitor,
    typed: Typed,
    judged: Option<Judged>,
) -> Result<Response, PageError> {
    let status = typed.status();
    let standing = site.broker.storage_status().await?;
    let options = site.broker.options();
    let settings = site.diagnostics.settings();
    let page = SettingsPage {
        frame: Frame::new(visitor, "Settings"),
        file: settings.file.clone(),
        file_was_read: settings.file_was_read,
        egress: egress_words(&site.egress),
        form: TRY_URL.form(visitor, typed),
        judged,
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
        false => "Both https and http are called; egress.require_https would reject http.",
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

impl Kept {
    fn new(rules: &RetentionRules, disk_min: u64, standing: &StorageStatus) -> Self {
        let sizes = &standing.sizes;
        let pressure = match standing.pressure {
            None => Badge::new(Tone::Good, "Enough space"),
            Some(Pressure::Size) => Badge::new(
                Tone::Warn,
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
            disk: sizes.disk_free.map(print::bytes),
            disk_min: print::bytes(disk_min),
            oldest: standing.oldest.map(|(_, at)| Time::at(at)),
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

pub(crate) fn belongs(name: &str, beginnings: &[&str]) -> bool {
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
