//! The page of settings: what is in force and by whom, what is kept, and which webhooks may be called.

use crate::admin::pages::url_trial::{self, UrlForm, badge};
use crate::admin::pages::*;
use crate::broker::StorageStatus;
use crate::broker::diagnostics::place;
use crate::model::retention::Pressure;
use crate::model::setting::{Setting, SettingOrigin, Settings};
use crate::outbound::evaluate::EgressVerdict;

/// Settings that belong together, by the beginnings of their names.
#[rustfmt::skip] // a table
pub(crate) const GROUPS: [(&str, &[&str]); 8] = [
    ("Server", &["data_dir", "listen", "public_url", "tls.", "http.", "shutdown."]),
    ("Publishing", &["publish."]),
    ("Delivery", &["delivery.", "probation.", "replay.", "webhook.", "egress."]),
    ("Storage and retention", &["storage.", "retention.", "dead_letter.", "backup.", "master_key"]),
    ("Access", &["admin.", "sign_in.", "oidc.", "management.", "metrics."]),
    ("Log", &["log."]),
    ("Azure compatibility", &["azure."]),
    ("Testing", &["time_scale"]),
];

/// Settings whose values are words to choose from.
const WORDS: [&str; 4] = [
    "probation.mode",
    "log.format",
    "log.level",
    "dead_letter.unavailable",
];

pub(crate) async fn show(Query(asked): Query<Names>, call: Call) -> PageResult {
    let only_changed = name_of(&asked, "show") == "changed";
    draw_page(&call, only_changed, UrlForm::empty(), None).await
}

/// The page with what would become of a request to a URL.
pub(crate) async fn try_url(call: Call) -> PageResult {
    let (form, url) = url_trial::read(&call.form);
    let judged = match url {
        Some(url) => Some((place(&url), call.broker.check_url(call.by(), &url).await?)),
        None => None,
    };
    draw_page(&call, false, form, judged).await
}

async fn draw_page(
    call: &Call,
    only_changed: bool,
    form: Filled<UrlForm>,
    judged: Option<(String, EgressVerdict)>,
) -> PageResult {
    let recipe = Recipe::everpost_alone("everpost config show --origin");
    answer!("pages/settings.html", &call.visitor, "Settings", {
        form: Filled<UrlForm> = form,
        // Where the URL leads, and what the policy says of it.
        judged: Option<(String, EgressVerdict)> = judged,
        storage: StorageStatus = call.broker.storage_status().await?,
        // Whether only those are shown that differ from their defaults.
        only_changed: bool = only_changed,
        recipe: Recipe = recipe.everpost("everpost storage"),
        site: Arc<Site> = Arc::clone(&call.site),
    }, form)
}

/// The settings to show, under the titles of their groups.
fn groups(settings: &Settings, only_changed: bool) -> Vec<(&'static str, Vec<&Setting>)> {
    let groups = GROUPS.iter().map(|(title, beginnings)| {
        let all = settings.all.iter();
        let own = all.filter(|each| belongs(each.name, beginnings));
        let shown = own.filter(|each| !only_changed || is_set(each));
        (*title, shown.collect::<Vec<_>>())
    });
    groups.filter(|(_, shown)| !shown.is_empty()).collect()
}

fn changed(settings: &Settings) -> usize {
    settings.all.iter().filter(|each| is_set(each)).count()
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
    match serde_json::from_str(written).unwrap_or_default() {
        Value::Bool(is_on) => (if is_on { "On" } else { "Off" }).to_owned(),
        Value::Number(number) => number
            .as_u64()
            .map_or(written.to_owned(), |it| with_unit(name, it)),
        Value::String(word) if WORDS.contains(&name) => match word.as_str() {
            "json" => "JSON".to_owned(),
            word => word[..1].to_uppercase() + &word[1..],
        },
        Value::String(text) => text,
        Value::Array(all) if all.is_empty() => "None".to_owned(),
        Value::Array(all) => Vec::from_iter(all.iter().flat_map(Value::as_str)).join(", "),
        Value::Null | Value::Object(_) => written.to_owned(),
    }
}

/// The unit stands last in the name.
fn with_unit(name: &str, number: u64) -> String {
    let seconds = |each: u64| print::span(Duration::from_secs(number.saturating_mul(each)));
    match name.rsplit(['_', '.']).next() {
        Some("s") => seconds(1),
        Some("hours") => seconds(3_600),
        Some("mb") => print::bytes(number.saturating_mul(1 << 20)),
        Some("max") if name.ends_with("bytes_max") => print::bytes(number),
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
            ("storage.min_free_mb", "512", "512 MiB"),
            ("publish.bytes_max", "1048576", "1 MiB"),
            ("http.connections_max", "10000", "10,000"),
            ("admin.enabled", "true", "On"),
            ("probation.mode", "\"hold\"", "Hold"),
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
