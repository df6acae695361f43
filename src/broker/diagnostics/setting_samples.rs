//! Settings for tests: one of each kind, and rules that take nearly everything.

use crate::broker::diagnostics::{RunningSettings, SettingRules};
use crate::model::setting::{SavedSettings, Setting, SettingKind, SettingOrigin, Settings};

/// Settings of which one is saved.
pub(crate) fn running() -> RunningSettings {
    let saved = [("probation.mode".to_owned(), "azure".to_owned())];
    let saved = SavedSettings::from(saved);
    RunningSettings::new(TakesAll.resolve(&saved), saved, TakesAll)
}

/// One of each kind.
fn settings() -> Settings {
    use SettingKind::{List, Number, Text};
    use SettingOrigin::{Default, Environment, Flag};
    let setting = |name, kind, value: Option<&str>, origin, place: &str| Setting {
        name,
        title: "In words",
        kind,
        values: value.map(|value| vec![value.to_owned()]),
        origin,
        place: place.to_owned(),
        is_live: name != "public_url",
        doc: "What it means.",
        variable: "EVERPOST_X".to_owned(),
        flag: "--x".to_owned(),
    };
    Settings {
        all: vec![
            setting(
                "listen",
                Text("ADDRESS:PORT"),
                Some("<b>"),
                Flag,
                "--listen",
            ),
            setting("publish.bytes_max", Number, Some("7"), Default, ""),
            setting("public_url", Text("URL"), None, Default, ""),
            setting(
                "management.token",
                Text("TEXT"),
                Some("***"),
                Environment,
                "EVERPOST_MANAGEMENT_TOKEN",
            ),
            setting("egress.allow", List("NETWORK"), None, Default, ""),
            setting(
                "probation.mode",
                Text("hold|azure"),
                Some("hold"),
                Default,
                "",
            ),
        ],
        file: "/srv/everpost.toml".to_owned(),
        file_was_read: false,
    }
}

/// Takes everything but `never`.
struct TakesAll;

impl SettingRules for TakesAll {
    fn problem(&self, _: &'static str, value: &str) -> Option<String> {
        (value == "never").then(|| format!("is {value:?}; write something else"))
    }

    fn resolve(&self, saved: &SavedSettings) -> Settings {
        let mut settings = settings();
        for setting in &mut settings.all {
            if let Some(value) = saved.get(setting.name) {
                setting.values = Some(vec![value.clone()]);
                setting.origin = SettingOrigin::Saved;
            }
        }
        settings
    }

    fn apply(&self, _: &SavedSettings) -> Result<(), String> {
        Ok(())
    }
}
