//! A setting as text: its names in file, environment and command line, and how its values are written.

use crate::app::config::settings::KEYS;
use crate::model::setting::SettingKind;

/// One setting.
#[derive(Debug)]
pub struct SettingKey {
    /// Its dotted name in the file.
    pub name: &'static str,
    /// In a few words, for people.
    pub title: &'static str,
    pub kind: SettingKind,
    /// Is true if the setting can change while the appliance runs.
    pub is_live: bool,
    /// In the form of the environment; `None` for settings that may stay unset.
    pub default: Option<&'static str>,
    /// The value that the sample file shows.
    pub example: &'static str,
    /// Hidden wherever settings are shown. It can also come from a file, named by `…_FILE`, and only
    /// so from the command line, whose arguments every process of the machine can read.
    pub secret: bool,
    /// Meaning, unit and bounds, in a few sentences.
    pub doc: &'static str,
}

/// The prefix of every environment variable for a setting.
pub(super) const VARIABLE_PREFIX: &str = "EVERPOST_";

/// The variable that names the configuration file.
pub(super) const CONFIG_VARIABLE: &str = "EVERPOST_CONFIG";

/// Variable of OpenTelemetry that sets `tracing.otlp_endpoint` if the `EVERPOST_` variable is not set.
pub(super) const OTLP_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Variables that are not settings: the client commands use them.
pub(super) const CLIENT_VARIABLES: [&str; 3] =
    ["EVERPOST_URL", "EVERPOST_KEY", "EVERPOST_KEY_FILE"];

impl SettingKey {
    /// Returns the setting with this name. A name that does not exist is a bug in the program.
    pub fn named(name: &str) -> &'static SettingKey {
        let found = KEYS.iter().find(|key| key.name == name);
        found.expect("settings are asked for by names of the registry")
    }

    /// Its variable in the environment: `EVERPOST_LOG_LEVEL`.
    pub fn variable(&self) -> String {
        let name = self.name.replace('.', "_").to_ascii_uppercase();
        format!("{VARIABLE_PREFIX}{name}")
    }

    /// Its flag without the dashes: `log-level`; for a secret, that of its file: `admin-password-file`.
    pub fn flag(&self) -> String {
        let flag = self.name.replace(['.', '_'], "-");
        if self.secret {
            format!("{flag}-file")
        } else {
            flag
        }
    }

    /// Values in the notation of the file.
    pub fn to_toml(&self, values: &[String]) -> String {
        match (self.kind, values) {
            (SettingKind::Number | SettingKind::Switch, [value]) => value.clone(),
            (SettingKind::Text(_), [value]) => quoted(value),
            (SettingKind::List(_), values) => {
                let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
                format!("[{}]", values.join(", "))
            }
            (SettingKind::Text(_) | SettingKind::Number | SettingKind::Switch, values) => {
                quoted(&values.join(","))
            }
        }
    }

    /// The single values of a text in the form of the environment.
    pub fn split(&self, text: &str) -> Vec<String> {
        match self.kind {
            SettingKind::List(_) => {
                let values = text.split(',').map(str::trim);
                values
                    .filter(|value| !value.is_empty())
                    .map(str::to_owned)
                    .collect()
            }
            SettingKind::Text(_) | SettingKind::Number | SettingKind::Switch => {
                vec![text.to_owned()]
            }
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
