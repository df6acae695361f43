//! The page of settings: what is in force and by whom, what is kept, and which webhooks may be called.

use serde::Deserialize;
use serde_json::Value;

use crate::admin::bare::draw_with;
use crate::admin::forms::filled::Filled;
use crate::admin::page::*;
use crate::admin::pages::url_trial::{self, UrlForm, badge};
use crate::broker::diagnostics::place;
use crate::broker::{BrokerOptions, StorageStatus};
use crate::model::retention::Pressure;
use crate::model::setting::{Setting, SettingOrigin, Settings};
use crate::outbound::egress::EgressPolicy;
use crate::outbound::evaluate::EgressVerdict;

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
struct SettingsPage<'a> {
    frame: Frame,
    settings: &'a Settings,
    started_at: Timestamp,
    policy: &'a EgressPolicy,
    form: Filled<UrlForm>,
    /// Where the URL leads, and what the policy says of it.
    judged: Option<(String, EgressVerdict)>,
    options: &'a BrokerOptions,
    storage: StorageStatus,
    /// Whether only those are shown that differ from their defaults.
    only_changed: bool,
    recipe: Recipe,
}

/// What the address asks for: `changed`, or nothing for all.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Shown {
    show: String,
}

/// The page.
pub(crate) async fn show(Query(shown): Query<Shown>, call: Call) -> PageResult {
    draw_page(&call, &shown, UrlForm::empty(), None).await
}

/// The page with what would become of a request to a URL.
pub(crate) async fn try_url(call: Call) -> PageResult {
    let (form, url) = url_trial::read(&call.form);
    let judged = match url {
        Some(url) => Some((place(&url), call.broker.check_url(call.by(), &url).await?)),
        None => None,
    };
    draw_page(&call, &Shown::default(), form, judged).await
}

async fn draw_page(
    call: &Call,
    shown: &Shown,
    form: Filled<UrlForm>,
    judged: Option<(String, EgressVerdict)>,
) -> PageResult {
    let page = SettingsPage {
        frame: Frame::new(&call.visitor, "Settings"),
        settings: call.diagnostics.settings(),
        started_at: call.diagnostics.facts().started_at,
        policy: &call.egress,
        form,
        judged,
        options: call.broker.options(),
        storage: call.broker.storage_status().await?,
        only_changed: shown.show == "changed",
        recipe: Recipe::everpost_alone("everpost config show --origin")
            .everpost("everpost storage"),
    };
    Ok(draw_with(page.form.status(), &page))
}

impl SettingsPage<'_> {
    fn changed(&self) -> usize {
        self.settings.all.iter().filter(|each| is_set(each)).count()
    }

    /// The settings to show, under the titles of their groups.
    fn groups(&self) -> Vec<(&'static str, Vec<&Setting>)> {
        let groups = GROUPS.iter().map(|(title, beginnings)| {
            let all = self.settings.all.iter();
            let group = all.filter(|each| belongs(each.name, beginnings));
            let shown = group.filter(|each| !self.only_changed || is_set(each));
            (*title, shown.collect::<Vec<_>>())
        });
        groups.filter(|(_, shown)| !shown.is_empty()).collect()
    }
}

fn is_set(setting: &Setting) -> bool {
    setting.origin != SettingOrigin::Default
}

pub(crate) fn belongs(name: &str, beginnings: &[&str]) -> bool {
    let mut beginnings = beginnings.iter();
    beginnings.any(|beginning| name.starts_with(beginning))
}

/// A value in the notation of the file as people write it: `10,000`, `30 s`, `On`.
fn said(name: &str, written: &str) -> String {
    match serde_json::from_str(written) {
        Ok(Value::Bool(is_on)) => (if is_on { "On" } else { "Off" }).to_owned(),
        Ok(Value::Number(number)) => {
            let whole = number.as_u64();
            whole.map_or_else(|| written.to_owned(), |number| with_unit(name, number))
        }
        Ok(Value::String(text)) => text,
        Ok(Value::Array(all)) if all.is_empty() => "None".to_owned(),
        Ok(Value::Array(all)) => {
            let all = all.iter().flat_map(Value::as_str);
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
