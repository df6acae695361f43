//! Settings as they were given, with their origins: flags win over the environment, the environment over what is saved
//! in the database, that over the file, the file over the defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::app::config::fault::ConfigFault;
use crate::app::config::file::{self, FileEntry};
use crate::app::config::flags::ConfigFlags;
use crate::app::config::keys::{
    CLIENT_VARIABLES, CONFIG_VARIABLE, OTLP_VARIABLE, SettingKey, VARIABLE_PREFIX,
};
use crate::app::config::settings::{KEYS, problem_of};
use crate::app::files;
use crate::broker::is_backup_place_allowed;
use crate::model::backup::BackupPlace;
use crate::model::setting::{SavedSettings, SettingOrigin};

/// The configuration file inside of the data directory, read if it is there.
pub const CONFIG_FILE: &str = "everpost.toml";

/// The settings as they were given, before their values are checked.
#[derive(Clone, Default)]
pub struct RawConfig {
    settings: BTreeMap<&'static str, GivenSetting>,
    /// The configuration file; `None` if it would be the data directory's own and is not there.
    file: Option<PathBuf>,
    pub(super) faults: Vec<ConfigFault>,
}

/// One setting as it was given.
#[derive(Clone)]
pub(super) struct GivenSetting {
    pub(super) values: Vec<String>,
    pub(super) origin: GivenOrigin,
}

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenOrigin {
    pub(super) kind: SettingOrigin,
    /// The path of the file, the variable, the flag with its dashes; behind ` = ` the file of a secret. Empty
    /// for a default.
    pub(super) place: String,
}

impl RawConfig {
    /// Collects the settings from the flags, the environment and the configuration file. Other environment variables
    /// are ignored.
    pub fn gather(
        flags: ConfigFlags,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let mut raw = Self::default();
        raw.add_flags(flags.settings);
        let named_by_variable = raw.add_environment(environment);
        let own_file = raw.own_file();
        match flags.config_file.or(named_by_variable) {
            Some(path) => raw.add_file(&path, false),
            None if own_file.exists() => raw.add_file(&own_file, true),
            None => {}
        }
        raw
    }

    /// Gathers the settings from `flags`, the environment of this process and the configuration file.
    pub fn of_process(flags: ConfigFlags) -> Self {
        Self::gather(flags, std::env::vars_os())
    }

    /// Adds the settings that are saved in the database: names and values, as in an environment variable. An entry is
    /// left out and becomes a fault unless it is a valid value of a setting that can change while the appliance runs.
    pub(super) fn with_saved(&self, saved: &SavedSettings) -> Self {
        let mut raw = self.clone();
        for (name, text) in saved {
            let origin = GivenOrigin::new(SettingOrigin::Saved, "");
            let Some(key) = KEYS.iter().find(|key| key.is_live && key.name == name) else {
                raw.faults.push(ConfigFault::unknown_key(name, &origin));
                continue;
            };
            let values = key.split(text);
            if let Some(problem) = self.problem_of_saved(key, &values) {
                let fault = ConfigFault::of_value(key, &origin, &problem);
                raw.faults.push(fault);
                continue;
            }
            let given = raw.settings.entry(key.name);
            given
                .and_modify(|given| {
                    if given.origin.kind == SettingOrigin::File {
                        *given = GivenSetting {
                            values: values.clone(),
                            origin: origin.clone(),
                        };
                    }
                })
                .or_insert_with(|| GivenSetting {
                    values: values.clone(),
                    origin: origin.clone(),
                });
        }
        raw
    }

    /// Returns the problem with values of a setting that a user saves at run time. The user need not have permission
    /// to write to every path on this machine.
    pub(super) fn problem_of_saved(&self, key: &SettingKey, values: &[String]) -> Option<String> {
        let problem = problem_of(key, values);
        if problem.is_some() || key.name != "backup.dir" {
            return problem;
        }
        let places = |values: &[String]| -> Vec<BackupPlace> {
            let places = values.iter().map(|text| BackupPlace::parse(text));
            places.filter_map(Result::ok).collect()
        };
        let allowed =
            ["backup.dir", "backup.allow"].map(|name| self.lookup(SettingKey::named(name)).0);
        let allowed = places(&allowed.concat());
        let is_allowed = |place: &BackupPlace| is_backup_place_allowed(allowed.iter(), place);
        (!places(values).iter().all(is_allowed)).then(|| {
            "is neither in nor below a place that backup.allow names; set that, or backup.dir, in the configuration file"
                .to_owned()
        })
    }

    /// The values of a setting, its default included, and where they come from.
    pub fn lookup(&self, key: &SettingKey) -> (Vec<String>, GivenOrigin) {
        match self.given(key) {
            Some(given) => (given.values.clone(), given.origin.clone()),
            None => {
                let default = key.default.map(|text| key.split(text));
                let origin = GivenOrigin::new(SettingOrigin::Default, "");
                (default.unwrap_or_default(), origin)
            }
        }
    }

    /// Returns the path of the configuration file that was read, or that would have been read.
    pub fn file(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| self.own_file())
    }

    /// Returns whether there was a configuration file.
    pub fn file_was_read(&self) -> bool {
        self.file.is_some()
    }

    fn own_file(&self) -> PathBuf {
        let (data_dir, _) = self.lookup(SettingKey::named("data_dir"));
        Path::new(&data_dir.concat()).join(CONFIG_FILE)
    }

    pub(super) fn given(&self, key: &SettingKey) -> Option<&GivenSetting> {
        self.settings.get(key.name)
    }

    fn add_flags(&mut self, flags: Vec<(&'static SettingKey, Vec<String>)>) {
        for (key, values) in flags {
            let origin = GivenOrigin::new(SettingOrigin::Flag, format!("--{}", key.flag()));
            self.set(key, key.secret, &values, origin);
        }
    }

    /// Adds the settings of the environment and returns the path of the configuration file that it names.
    fn add_environment(
        &mut self,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Option<PathBuf> {
        let is_ours = |name: &str| name.starts_with(VARIABLE_PREFIX);
        let (mut config_file, mut collector) = (None, None);
        for (variable, value) in environment {
            if variable == OTLP_VARIABLE && !value.is_empty() {
                collector = value.into_string().ok();
                continue;
            }
            match variable.to_str().filter(|name| is_ours(name)) {
                None => {}
                Some(_) if value.is_empty() => {}
                Some(CONFIG_VARIABLE) => config_file = Some(PathBuf::from(value)),
                Some(variable) => self.add_variable(variable, value),
            }
        }
        let key = SettingKey::named("tracing.otlp_endpoint");
        if let Some(url) = collector.filter(|_| self.given(key).is_none()) {
            let origin = GivenOrigin::new(SettingOrigin::Environment, OTLP_VARIABLE);
            self.set(key, false, &[url], origin);
        }
        config_file
    }

    /// Adds the setting of a variable. Empty variables count as unset and are removed before this call: compose files
    /// pass them on for values that nobody set.
    fn add_variable(&mut self, variable: &str, value: OsString) {
        let Some((key, is_file)) = find(variable, "_FILE", SettingKey::variable) else {
            if !is_foreign(variable) {
                self.faults.push(ConfigFault::unknown_variable(variable));
            }
            return;
        };
        let origin = GivenOrigin::new(SettingOrigin::Environment, variable);
        let Ok(value) = value.into_string() else {
            let fault = ConfigFault::of_value(key, &origin, "is not UTF-8 text");
            return self.faults.push(fault);
        };
        self.set(key, is_file, &[value], origin);
    }

    fn add_file(&mut self, path: &Path, is_own: bool) {
        let entries = file::read(path).and_then(|entries| {
            let finds_itself = is_own && entries.iter().any(|entry| entry.name == "data_dir");
            if finds_itself {
                Err(
                    "sets data_dir, by which it was found itself; name the file with --config or \
                             leave the setting out"
                        .to_owned(),
                )
            } else {
                Ok(entries)
            }
        });
        match entries {
            Ok(entries) => {
                self.file = Some(path.to_owned());
                for entry in entries {
                    self.add_entry(entry, path);
                }
            }
            Err(problem) => {
                let fault = ConfigFault::new(path.display().to_string(), problem);
                self.faults.push(fault);
            }
        }
    }

    fn add_entry(&mut self, entry: FileEntry, path: &Path) {
        let origin = GivenOrigin::new(SettingOrigin::File, path.display().to_string());
        let name = |key: &SettingKey| key.name.to_owned();
        match (find(&entry.name, "_file", name), entry.values) {
            (None, _) => {
                let fault = ConfigFault::unknown_key(&entry.name, &origin);
                self.faults.push(fault);
            }
            (Some((key, _)), Err(problem)) => {
                self.faults
                    .push(ConfigFault::of_value(key, &origin, problem));
            }
            (Some((key, is_file)), Ok(values)) => self.set(key, is_file, &values, origin),
        }
    }

    /// Sets a value unless one is set already: the origins are read in order of precedence. With `is_file` the value
    /// is the path of a file that holds a secret.
    fn set(
        &mut self,
        key: &'static SettingKey,
        is_file: bool,
        values: &[String],
        mut origin: GivenOrigin,
    ) {
        let values = if is_file {
            let path = values.concat();
            origin.place = format!("{} = {path}", origin.place);
            let secrets =
                files::secrets(Path::new(&path)).map(|secrets| vec![secrets.reveal().to_owned()]);
            secrets.map_err(|problem| format!("names {path}, which {problem}"))
        } else {
            Ok(values.iter().flat_map(|value| key.split(value)).collect())
        };
        let values = match (values, self.settings.get(key.name)) {
            (Ok(values), None) => values,
            (Ok(_), Some(given)) if given.origin.kind != origin.kind => return,
            (Ok(_), Some(given)) => {
                let problem = format!("is set by {} as well; leave one of them out", given.origin);
                let fault = ConfigFault::of_value(key, &origin, &problem);
                return self.faults.push(fault);
            }
            (Err(problem), _) => {
                let fault = ConfigFault::of_value(key, &origin, &problem);
                return self.faults.push(fault);
            }
        };
        self.settings
            .insert(key.name, GivenSetting { values, origin });
    }
}

/// Prints only the names of settings, since their values may be secrets.
impl fmt::Debug for RawConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.settings.keys()).finish()
    }
}

impl GivenOrigin {
    fn new(kind: SettingOrigin, place: impl Into<String>) -> Self {
        Self {
            kind,
            place: place.into(),
        }
    }
}

/// Writes the origin as it follows "set by" and stands in comments: `--listen`, `EVERPOST_LISTEN`, `etc/everpost.toml`.
impl fmt::Display for GivenOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.place.as_str() {
            "" => self.kind.name(),
            place => place,
        })
    }
}

/// Returns the setting with this name, and whether the name ends in `suffix` and so stands for a file with a secret.
fn find(
    name: &str,
    suffix: &str,
    name_of: fn(&SettingKey) -> String,
) -> Option<(&'static SettingKey, bool)> {
    let named = |name: &str| KEYS.iter().find(|key| name_of(key) == name);
    let by_file = || named(name.strip_suffix(suffix)?).filter(|key| key.secret);
    match named(name) {
        Some(key) => Some((key, false)),
        None => by_file().map(|key| (key, true)),
    }
}

/// Returns whether a variable does not belong to the configuration: it is for other commands, or Kubernetes sets it
/// in every container of a namespace that has a service named "everpost".
fn is_foreign(variable: &str) -> bool {
    let rest = variable.strip_prefix(VARIABLE_PREFIX).unwrap_or(variable);
    CLIENT_VARIABLES.contains(&variable)
        || rest == "PORT"
        || rest.starts_with("PORT_")
        || rest.starts_with("SERVICE_")
}
