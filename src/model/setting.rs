//! The settings in force, to show them. Where they come from and what they mean is decided elsewhere.

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
    /// In the notation of the file; `***` for a secret, `None` where it is not set.
    pub value: Option<String>,
    pub origin: SettingOrigin,
    /// The file, the variable or the flag, and the file of a secret; empty for a default.
    pub place: String,
    /// Meaning, unit and bounds.
    pub doc: &'static str,
    /// Its environment variable.
    pub variable: String,
    /// Its flag, with the dashes.
    pub flag: String,
}

/// Where a setting comes from, the weakest source first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    Default,
    File,
    Environment,
    Flag,
}

impl SettingOrigin {
    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}
