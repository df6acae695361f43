//! The page of settings: what is in force and by whom, what is kept, and which webhooks may be called.

use serde::Deserialize;
use serde_json::Value;

use crate::admin::bare::draw_with;
use crate::admin::page::*;
use crate::admin::pages::url_trial::{Judged, Typed, UrlForm, UrlTrial};
use crate::broker::StorageStatus;
use crate::broker::diagnostics::place;
use crate::model::retention::{Pressure, RetentionRules};
use crate::model::setting::{Setting, SettingOrigin};
use crate::outbound::egress::EgressPolicy;

/// The value of the address that shows only what differs from its default.
const CHANGED: &str = "changed";

/// Where a URL is tried.
const TRY_URL: UrlTrial = UrlTrial {
    action: "/admin/settings/try-url",
    button: "Check URL",
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
    started_at: Timestamp,
    egress: Vec<(String, Badge)>,
    form: Option<UrlForm>,
    judged: Option<Judged>,
    kept: Kept,
    /// Whether only those are shown that differ from their defaults.
    only_changed: bool,
    all: usize,
    changed: usize,
    groups: Vec<Group>,
    recipe: Recipe,
}

/// What retention keeps, and the room that it has.
struct Kept {
    delivered: String,
    dead_letters: String,
    used: u64,
    /// The bound, if there is one.
    bound: Option<u64>,
    disk: Option<String>,
    disk_min: String,
    oldest: Option<Timestamp>,
    pruned: String,
    pressure: Badge,
}

struct Group {
    title: &'static str,
    rows: Vec<Row>,
}

struct Row {
    of: Setting,
    /// `None` where it is not set.
    value: Option<String>,
    is_set: bool,
}

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Shown {
    /// `changed`, or nothing for all.
    show: String,
}

/// The page.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(shown): Query<Shown>,
) -> PageResult {
    draw_page(&site, &visitor, &shown, Typed::default(), None).await
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
    draw_page(&site, &visitor, &Shown::default(), typed, judged).await
}

async fn draw_page(
    site: &Site,
    visitor: &Visitor,
    shown: &Shown,
    typed: Typed,
    judged: Option<Judged>,
) -> Result<Response, PageError> {
    let status = typed.status();
    let standing = site.broker.storage_status().await?;
    let options = site.broker.options();
    let settings = site.diagnostics.settings();
    let only_changed = shown.show == CHANGED;
    let changed = settings.all.iter().filter(|each| is_set(each));
    let page = SettingsPage {
        frame: Frame::new(visitor, "Settings"),
        file: settings.file.clone(),
        file_was_read: settings.file_was_read,
        started_at: site.diagnostics.facts().started_at,
        egress: egress_rules(&site.egress),
        form: TRY_URL.form(visitor, typed),
        judged,
        kept: Kept::new(&options.retention, options.free_bytes_min, &standing),
        all: settings.all.len(),
        changed: changed.count(),
        groups: groups(&settings.all, only_changed),
        only_changed,
        recipe: Recipe::everpost_alone("everpost config show --origin")
            .everpost("everpost storage"),
    };
    Ok(draw_with(status, &page))
}

/// The policy as rules: of what, and whether it is called.
fn egress_rules(policy: &EgressPolicy) -> Vec<(String, Badge)> {
    let allowed = policy
        .allow
        .iter()
        .map(|net| (format!("Network {net}"), true));
    let rules = std::iter::once(("Public addresses".to_owned(), true))
        .chain(allowed)
        .chain([
            ("Other private and local addresses".to_owned(), false),
            ("Plain http".to_owned(), !policy.require_https),
            ("Redirects".to_owned(), false),
        ]);
    let badge = |is_allowed| match is_allowed {
        true => Badge::new(Tone::Good, "Allowed"),
        false => Badge::new(Tone::Rest, "Blocked"),
    };
    rules
        .map(|(of, is_allowed)| (of, badge(is_allowed).bare()))
        .collect()
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
            used: sizes.used(),
            bound: rules.bytes_max,
            disk: sizes.disk_free.map(print::bytes),
            disk_min: print::bytes(disk_min),
            oldest: standing.oldest.map(|(_, at)| at),
            pruned: print::plural(standing.pruned.events, "event", "events"),
            pressure,
        }
    }
}

fn is_set(setting: &Setting) -> bool {
    setting.origin != SettingOrigin::Default
}

fn groups(settings: &[Setting], only_changed: bool) -> Vec<Group> {
    let groups = GROUPS.iter().map(|(title, beginnings)| {
        let rows = settings
            .iter()
            .filter(|setting| belongs(setting.name, beginnings))
            .filter(|setting| !only_changed || is_set(setting));
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
            value: setting
                .value
                .as_ref()
                .map(|value| said(setting.name, value)),
            is_set: is_set(setting),
            of: setting.clone(),
        }
    }

    /// What it was set by.
    fn origin(&self) -> &'static str {
        match self.of.origin {
            SettingOrigin::Default => "Default",
            SettingOrigin::File => "File",
            SettingOrigin::Environment => "Variable",
            SettingOrigin::Flag => "Flag",
        }
    }
}

/// A value in the notation of the file as people write it: `10,000`, `30 s`, `On`.
fn said(name: &str, written: &str) -> String {
    match serde_json::from_str(written) {
        Ok(Value::Bool(true)) => "On".to_owned(),
        Ok(Value::Bool(false)) => "Off".to_owned(),
        Ok(Value::Number(number)) => match number.as_u64() {
            Some(number) => with_unit(name, number),
            None => written.to_owned(),
        },
        Ok(Value::String(text)) => text,
        Ok(Value::Array(all)) if all.is_empty() => "None".to_owned(),
        Ok(Value::Array(all)) => {
            let all = all.iter().map(|each| each.as_str().unwrap_or_default());
            all.collect::<Vec<_>>().join(", ")
        }
        Ok(Value::Null | Value::Object(_)) | Err(_) => written.to_owned(),
    }
}

/// The unit stands last in the name.
fn with_unit(name: &str, number: u64) -> String {
    let seconds = |each: u64| print::span(Duration::from_secs(number.saturating_mul(each)));
    match name {
        name if name.ends_with("_s") => seconds(1),
        name if name.ends_with("hours") => seconds(3_600),
        name if name.ends_with("_mb") => print::bytes(number.saturating_mul(1 << 20)),
        name if name.ends_with("bytes_max") => print::bytes(number),
        _ => print::count(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_said_with_their_units() {
        for (name, written, expected) in [
            ("delivery.response_deadline_s", "30", "30 s"),
            ("retention.hours", "168", "7 d"),
            ("storage.min_free_mb", "512", "512.0 MiB"),
            ("publish.bytes_max", "1048576", "1.0 MiB"),
            ("http.connections_max", "10000", "10,000"),
            ("admin.enabled", "true", "On"),
            ("probation.mode", "\"hold\"", "hold"),
            (
                "egress.allow",
                "[\"10.0.0.0/8\", \"::1/128\"]",
                "10.0.0.0/8, ::1/128",
            ),
            ("admin.hosts", "[]", "None"),
            ("time_scale", "0.5", "0.5"),
        ] {
            assert_eq!(said(name, written), expected, "{name}");
        }
    }
}
