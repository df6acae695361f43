//! The page of settings: what is in force and by whom, what is kept, and which webhooks may be called.

use crate::admin::pages::url_trial::{self, UrlForm, badge};
use crate::admin::pages::*;
use crate::broker::StorageStatus;
use crate::broker::diagnostics::place;
use crate::model::retention::Pressure;
use crate::model::setting::{Setting, SettingKind, SettingOrigin, Settings};
use crate::outbound::evaluate::EgressVerdict;

/// Settings that belong together, by the beginnings of their names.
#[rustfmt::skip] // a table
pub(crate) const GROUPS: [(&str, &[&str]); 8] = [
    ("Server", &["data_dir", "listen", "public_url", "tls.", "http.", "provisioning.", "shutdown."]),
    ("Publishing", &["publish."]),
    ("Delivery", &["delivery.", "probation.", "replay.", "webhook.", "egress."]),
    ("Storage and retention", &["storage.", "retention.", "dead_letter.", "backup.", "master_key"]),
    ("Access", &["admin.", "sign_in.", "oidc.", "management.", "metrics."]),
    ("Log", &["log.", "tracing."]),
    ("Azure compatibility", &["azure.", "service_bus."]),
    ("Testing", &["time_scale"]),
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

impl Subject for Setting {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        Ok(site.diagnostics.setting(name_of(names, "setting"))?)
    }

    fn page(&self) -> String {
        "/admin/settings".to_owned()
    }

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn address(&self) -> String {
        format!("/admin/settings/{}", self.name)
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SettingForm {
    /// The value as in an environment variable, except that a list may also have one value a line.
    value: String,
}

pub(crate) async fn edit(call: Call<Setting>) -> PageResult {
    let values = call.of.values.clone().unwrap_or_default();
    let value = values.join("\n");
    draw_form(&call, Filled::with(SettingForm { value }))
}

pub(crate) async fn save(call: Call<Setting>) -> PageResult {
    let form = Filled::<SettingForm>::sent(&call.form);
    let lines = form.values.value.lines().map(str::trim);
    let value = Vec::from_iter(lines.filter(|line| !line.is_empty())).join(",");
    let (by, name) = (call.by(), call.of.name);
    let saved = call.diagnostics.save_setting(by, name, Some(value));
    match saved.await {
        Ok(()) => {
            let said = Flash::done(format!("{} is saved and in force.", call.of.name));
            call.visitor.leave(said, &call.of.page()).await
        }
        Err(error) => draw_form(&call, form.with_faults(PageError::from(error).in_form()?)),
    }
}

pub(crate) async fn reset(call: Call<Setting>) -> PageResult<Flash> {
    let name = call.of.name;
    call.diagnostics.save_setting(call.by(), name, None).await?;
    let said = format!("What was saved of {name} is not in force any more.");
    Ok(Flash::done(said))
}

fn draw_form(call: &Call<Setting>, form: Filled<SettingForm>) -> PageResult {
    let setting = &call.of;
    let command = format!("everpost config set {} VALUE", setting.name);
    answer!("pages/setting.html", &call.visitor, setting.title, {
        form: Filled<SettingForm> = form,
        setting: Setting = setting.clone(),
        recipe: Recipe = Recipe::everpost_alone(&command),
    }, form)
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
