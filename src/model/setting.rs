//! Settings as they are in force, for whoever wants to see them. Where they come from and what they mean
//! is decided elsewhere.

/// All settings, in the order in which they are shown.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub all: Vec<Setting>,
    /// The configuration file: the one that was read, or the one that would have been.
    pub file: String,
    /// Whether it was there.
    pub file_was_read: bool,
}

/// One setting.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its dotted name.
    pub name: &'static str,
    /// In the notation of the file; `***` for a secret, `None` where it is not set.
    pub value: Option<String>,
    pub origin: SettingOrigin,
    /// The file, the variable or the flag, and the file of a secret; empty for a default.
    pub place: String,
    /// Meaning, unit and bounds.
    pub doc: &'static str,
    /// What sets it in the environment.
    pub variable: String,
    /// What sets it on the command line, with its dashes.
    pub flag: String,
}

/// The kind of place that a setting comes from, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    Default,
    File,
    Environment,
    Flag,
}

impl SettingOrigin {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}
