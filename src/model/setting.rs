//! The settings in force, to show them. Where they come from and what they mean is decided elsewhere.

use std::collections::BTreeMap;

use serde_json::Value;

/// Settings that were saved while the appliance ran: their names, and their values as in an environment variable.
pub type SavedSettings = BTreeMap<String, String>;

/// All settings, in the order in which they are shown.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub all: Vec<Setting>,
    /// The configuration file: the one that was read, or would have been.
    pub file: String,
    /// Whether it exists.
    pub file_was_read: bool,
}

/// One setting.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its dotted name.
    pub name: &'static str,
    /// In a few words.
    pub title: &'static str,
    pub kind: SettingKind,
    /// Its values, one of each kind but for lists; `***` for a secret, `None` where it is not set.
    pub values: Option<Vec<String>>,
    pub origin: SettingOrigin,
    /// The file, the variable or the flag, and the file of a secret; empty for a default and what is saved.
    pub place: String,
    /// Whether it can change while the appliance runs.
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
    /// With a word for it in help texts, or the words that it can be, with `|` between them.
    Text(&'static str),
    Number,
    /// `true` or `false`.
    Switch,
    /// Texts, with a word for one of them; separated by commas in the environment, repeated on the
    /// command line.
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
    /// As JSON: a number, a boolean, a text or a list of texts; `null` where it is not set.
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

    /// The words that it can be; empty where it can be something else.
    pub fn words(&self) -> Vec<&'static str> {
        match self.kind {
            SettingKind::Text(words) if words.contains('|') => words.split('|').collect(),
            SettingKind::Switch => vec!["true", "false"],
            SettingKind::Text(_) | SettingKind::Number | SettingKind::List(_) => Vec::new(),
        }
    }

    /// Whether a flag or a variable sets it, which wins over what is saved.
    pub fn is_fixed(&self) -> bool {
        matches!(
            self.origin,
            SettingOrigin::Environment | SettingOrigin::Flag
        )
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
