//! The effective settings, for display. Other modules determine their sources and meaning.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::base::human;

/// The settings saved at run time: their values by name, written as in an environment variable.
pub type SavedSettings = BTreeMap<String, String>;

/// All settings, in the order in which they are shown.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub all: Vec<Setting>,
    /// The path of the configuration file, even if the file does not exist.
    pub file: String,
    /// Is true if the configuration file exists.
    pub file_was_read: bool,
}

/// One setting.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its dotted name.
    pub name: &'static str,
    /// A short title.
    pub title: &'static str,
    pub kind: SettingKind,
    /// The values: one for all kinds other than lists; `***` for a secret; `None` if the setting is not set.
    pub values: Option<Vec<String>>,
    pub origin: SettingOrigin,
    /// The configuration file, environment variable, flag or secret file that sets the value; empty for a default or a
    /// saved value.
    pub place: String,
    /// Is true if the setting can change while the appliance runs.
    pub is_live: bool,
    /// Meaning, unit and bounds.
    pub doc: &'static str,
    /// Its environment variable.
    pub variable: String,
    /// Its flag, with the dashes.
    pub flag: String,
}

/// How a setting is written in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// A text. Contains a placeholder for help texts, or the allowed words separated by `|`.
    Text(&'static str),
    Number,
    /// `true` or `false`.
    Switch,
    /// A list of texts. Contains a placeholder for one item. Items are separated by commas in an environment variable;
    /// the flag is repeated on the command line.
    List(&'static str),
}

/// Where a setting comes from, the weakest source first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    Default,
    File,
    /// Saved while the appliance ran, in its database.
    Saved,
    Environment,
    Flag,
}

impl Settings {
    /// The setting of that name.
    pub fn named(&self, name: &str) -> Option<&Setting> {
        self.all.iter().find(|each| each.name == name)
    }
}

impl Setting {
    /// Returns the value as JSON: a number, a boolean, a text or a list of texts; `null` where it is not set.
    pub fn json(&self) -> Value {
        let Some(values) = &self.values else {
            return Value::Null;
        };
        match (self.kind, values.as_slice()) {
            (SettingKind::List(_), values) => values.into(),
            (SettingKind::Text(_), values) => values.concat().into(),
            (SettingKind::Number | SettingKind::Switch, values) => {
                let written = values.concat();
                serde_json::from_str(&written).unwrap_or(Value::String(written))
            }
        }
    }

    /// The allowed words; empty if other values are allowed.
    pub fn words(&self) -> Vec<&'static str> {
        match self.kind {
            SettingKind::Text(words) if words.contains('|') => words.split('|').collect(),
            SettingKind::Switch => vec!["true", "false"],
            SettingKind::Text(_) | SettingKind::Number | SettingKind::List(_) => Vec::new(),
        }
    }

    /// The value in readable form: `10,000`, `30 s`, `On`; `None` if the setting is not set.
    pub fn said(&self) -> Option<String> {
        Some(match self.json() {
            Value::Bool(is_on) => (if is_on { "On" } else { "Off" }).to_owned(),
            Value::Number(number) => match number.as_u64() {
                Some(number) => self.with_unit(number),
                None => number.to_string(),
            },
            Value::String(word) if self.words().contains(&&*word) => word_title(&word),
            Value::String(text) => text,
            Value::Array(all) if all.is_empty() => "None".to_owned(),
            Value::Array(all) => Vec::from_iter(all.iter().flat_map(Value::as_str)).join(", "),
            Value::Null | Value::Object(_) => return None,
        })
    }

    /// The allowed words with their display names.
    pub fn choices(&self) -> Vec<(&'static str, String)> {
        let words = self.words().into_iter();
        words.map(|word| (word, word_title(word))).collect()
    }

    /// The title with the unit.
    pub fn label(&self) -> String {
        match self.unit() {
            "" => self.title.to_owned(),
            unit => format!("{} ({unit})", self.title),
        }
    }

    /// The unit, which is the last part of the name.
    fn unit(&self) -> &'static str {
        match self.name.rsplit(['_', '.']).next() {
            Some("s") => "seconds",
            Some("hours") => "hours",
            Some("mb") => "MiB",
            Some("max") if self.name.ends_with("bytes_max") => "bytes",
            _ => "",
        }
    }

    fn with_unit(&self, number: u64) -> String {
        let seconds = |each: u64| human::span(Duration::from_secs(number.saturating_mul(each)));
        match self.unit() {
            "seconds" => seconds(1),
            "hours" => seconds(3_600),
            "MiB" => human::bytes(number.saturating_mul(1 << 20)),
            "bytes" => human::bytes(number),
            _ => human::count(number),
        }
    }

    /// Returns whether a flag or an environment variable sets the setting. Both take precedence over a saved value.
    pub fn is_fixed(&self) -> bool {
        matches!(
            self.origin,
            SettingOrigin::Environment | SettingOrigin::Flag
        )
    }
}

fn word_title(word: &str) -> String {
    match word {
        "json" => "JSON".to_owned(),
        "true" => "On".to_owned(),
        "false" => "Off".to_owned(),
        word => word[..1].to_uppercase() + &word[1..],
    }
}

impl SettingOrigin {
    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Saved => "saved",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, kind: SettingKind, values: &[&str], expected: &str) {
        let setting = Setting {
            name,
            title: "",
            kind,
            values: Some(values.iter().copied().map(str::to_owned).collect()),
            origin: SettingOrigin::Default,
            place: String::new(),
            is_live: true,
            doc: "",
            variable: String::new(),
            flag: String::new(),
        };
        assert_eq!(setting.said().as_deref(), Some(expected), "{name}");
    }

    #[test]
    fn values_are_said_with_their_units() {
        use SettingKind::{List, Number, Switch, Text};
        check("delivery.response_deadline_s", Number, &["30"], "30 s");
        check("retention.hours", Number, &["168"], "7 d");
        check("storage.min_free_mb", Number, &["512"], "512 MiB");
        check("publish.bytes_max", Number, &["1048576"], "1 MiB");
        check("http.connections_max", Number, &["10000"], "10,000");
        check("admin.enabled", Switch, &["true"], "On");
        check("probation.mode", Text("hold|azure"), &["hold"], "Hold");
        check("log.level", Text("LEVEL"), &["info"], "info");
        let networks = ["10.0.0.0/8", "::1/128"];
        check(
            "egress.allow",
            List("NETWORK"),
            &networks,
            "10.0.0.0/8, ::1/128",
        );
        check("admin.hosts", List("HOST"), &[], "None");
    }
}
