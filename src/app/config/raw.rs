//! Settings as they were given, with their origins: flags win over the environment, the environment
//! over the file, the file over the defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::app::config::fault::ConfigFault;
use crate::app::config::file::{self, FileEntry};
use crate::app::config::flags::ConfigFlags;
use crate::app::config::keys::{CLIENT_VARIABLES, CONFIG_VARIABLE, KEYS, Key, VARIABLE_PREFIX};
use crate::model::setting::SettingOrigin;

/// The configuration file inside of the data directory, read if it is there.
pub const CONFIG_FILE: &str = "everpost.toml";

/// Bytes of a file that holds a secret.
const SECRET_FILE_MAX: u64 = 65_536;

/// What was given, before anybody judged the values.
#[derive(Default)]
pub struct RawConfig {
    settings: BTreeMap<&'static str, Given>,
    /// The configuration file; `None` if it would be the data directory's own and is not there.
    file: Option<PathBuf>,
    pub(super) faults: Vec<ConfigFault>,
}

/// One setting as it was given.
pub(super) struct Given {
    pub(super) values: Vec<String>,
    pub(super) origin: Origin,
}

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    layer: Layer,
    /// The file that a secret was read from.
    secret_file: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Layer {
    Default,
    File(PathBuf),
    /// The name of the variable.
    Environment(String),
    /// With its dashes.
    Flag(String),
}

impl RawConfig {
    /// Collects what the flags, the environment (its other variables are passed over) and the
    /// configuration file say.
    pub fn gather(
        flags: ConfigFlags,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let mut raw = Self::default();
        raw.add_flags(flags.settings);
        let named_by_variable = raw.add_environment(environment);
        match flags.config_file.or(named_by_variable) {
            Some(path) => raw.add_named_file(&path),
            None => raw.add_own_file(),
        }
        raw
    }

    /// The same from the environment of this process.
    pub fn of_process(flags: ConfigFlags) -> Self {
        Self::gather(flags, std::env::vars_os())
    }

    /// The values of a setting, its default included, and where they come from.
    pub fn lookup(&self, key: &Key) -> (Vec<String>, Origin) {
        match self.given(key) {
            Some(given) => (given.values.clone(), given.origin.clone()),
            None => {
                let default = key.default.map(|text| key.split(text));
                (default.unwrap_or_default(), Origin::of(Layer::Default))
            }
        }
    }

    /// The configuration file that was read, or would have been.
    pub(super) fn file(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| self.own_file())
    }

    /// Whether there was a configuration file.
    pub(super) fn file_was_read(&self) -> bool {
        self.file.is_some()
    }

    fn own_file(&self) -> PathBuf {
        let (data_dir, _) = self.lookup(Key::named("data_dir"));
        Path::new(&data_dir.concat()).join(CONFIG_FILE)
    }

    pub(super) fn given(&self, key: &Key) -> Option<&Given> {
        self.settings.get(key.name)
    }

    fn add_flags(&mut self, flags: Vec<(&'static Key, Vec<String>)>) {
        for (key, values) in flags {
            let origin = Origin::of(Layer::Flag(format!("--{}", key.flag())));
            match key.secret {
                true => self.set_from_file(key, &values.concat(), origin),
                false => {
                    let values = values.iter().flat_map(|value| key.split(value)).collect();
                    self.set(key, values, origin);
                }
            }
        }
    }

    /// Returns the configuration file that it names.
    fn add_environment(
        &mut self,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Option<PathBuf> {
        let is_ours = |name: &str| name.starts_with(VARIABLE_PREFIX);
        let mut config_file = None;
        for (variable, value) in environment {
            match variable.to_str().filter(|name| is_ours(name)) {
                None => {}
                Some(_) if value.is_empty() => {}
                Some(CONFIG_VARIABLE) => config_file = Some(PathBuf::from(value)),
                Some(variable) => self.add_variable(variable, value),
            }
        }
        config_file
    }

    /// An empty variable counts as unset before it comes here: that is how compose files pass on what
    /// nobody set.
    fn add_variable(&mut self, variable: &str, value: OsString) {
        let Some((key, is_file)) = key_of_variable(variable) else {
            if !is_foreign(variable) {
                self.faults.push(ConfigFault::unknown_variable(variable));
            }
            return;
        };
        let origin = Origin::of(Layer::Environment(variable.to_owned()));
        let Ok(value) = value.into_string() else {
            let fault = ConfigFault::of_value(key, &origin, "is no text in UTF-8");
            return self.faults.push(fault);
        };
        match is_file {
            true => self.set_from_file(key, &value, origin),
            false => self.set(key, key.split(&value), origin),
        }
    }

    fn add_named_file(&mut self, path: &Path) {
        match file::read(path) {
            Ok(entries) => self.add_entries(path, entries),
            Err(problem) => self.add_file_fault(path, problem),
        }
    }

    fn add_own_file(&mut self) {
        let path = self.own_file();
        if !path.exists() {
            return;
        }
        match file::read(&path) {
            Ok(entries) if entries.iter().any(|entry| entry.name == "data_dir") => {
                let problem = "sets data_dir, by which it was found itself; name the file with \
                               --config or leave the setting out";
                self.add_file_fault(&path, problem.to_owned());
            }
            Ok(entries) => self.add_entries(&path, entries),
            Err(problem) => self.add_file_fault(&path, problem),
        }
    }

    fn add_file_fault(&mut self, path: &Path, problem: String) {
        let subject = path.display().to_string();
        self.faults.push(ConfigFault::new(subject, problem));
    }

    fn add_entries(&mut self, path: &Path, entries: Vec<FileEntry>) {
        self.file = Some(path.to_owned());
        let origin = Origin::of(Layer::File(path.to_owned()));
        for entry in entries {
            self.add_entry(entry, origin.clone());
        }
    }

    fn add_entry(&mut self, entry: FileEntry, origin: Origin) {
        let Some((key, is_file)) = key_of_name(&entry.name) else {
            let fault = ConfigFault::unknown_key(&entry.name, &origin);
            return self.faults.push(fault);
        };
        match entry.values {
            Err(problem) => self
                .faults
                .push(ConfigFault::of_value(key, &origin, problem)),
            Ok(values) if is_file => self.set_from_file(key, &values.concat(), origin),
            Ok(values) => {
                let values = values.iter().flat_map(|value| key.split(value)).collect();
                self.set(key, values, origin);
            }
        }
    }

    fn set_from_file(&mut self, key: &'static Key, path: &str, mut origin: Origin) {
        origin.secret_file = Some(PathBuf::from(path));
        match read_secret(Path::new(path)) {
            Ok(secret) => self.set(key, vec![secret], origin),
            Err(problem) => self
                .faults
                .push(ConfigFault::of_value(key, &origin, &problem)),
        }
    }

    /// The first to set something wins: layers come in the order of their precedence.
    fn set(&mut self, key: &'static Key, values: Vec<String>, origin: Origin) {
        match self.settings.get(key.name) {
            None => {
                self.settings.insert(key.name, Given { values, origin });
            }
            Some(given) if given.origin.is_beside(&origin) => {
                let problem = format!("is set by {} as well; leave one of them out", given.origin);
                self.faults
                    .push(ConfigFault::of_value(key, &origin, &problem));
            }
            Some(_) => {}
        }
    }
}

impl Origin {
    fn of(layer: Layer) -> Self {
        Self {
            layer,
            secret_file: None,
        }
    }

    pub(super) fn kind(&self) -> SettingOrigin {
        match &self.layer {
            Layer::Default => SettingOrigin::Default,
            Layer::File(_) => SettingOrigin::File,
            Layer::Environment(_) => SettingOrigin::Environment,
            Layer::Flag(_) => SettingOrigin::Flag,
        }
    }

    /// Whether neither of the two has precedence.
    fn is_beside(&self, other: &Origin) -> bool {
        std::mem::discriminant(&self.layer) == std::mem::discriminant(&other.layer)
    }
}

/// As it stands after "set by" and in comments: `--listen`, `EVERPOST_LISTEN`, `etc/everpost.toml`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.layer {
            Layer::Default => f.write_str("default")?,
            Layer::File(path) => write!(f, "{}", path.display())?,
            Layer::Environment(name) | Layer::Flag(name) => f.write_str(name)?,
        }
        match &self.secret_file {
            Some(path) => write!(f, " = {}", path.display()),
            None => Ok(()),
        }
    }
}

/// The setting of that name, and whether the name is that of its file.
fn key_of_name(name: &str) -> Option<(&'static Key, bool)> {
    let exact = KEYS.iter().find(|key| key.name == name);
    let by_file = || {
        let name = name.strip_suffix("_file")?;
        KEYS.iter().find(|key| key.secret && key.name == name)
    };
    match exact {
        Some(key) => Some((key, false)),
        None => by_file().map(|key| (key, true)),
    }
}

/// The setting of that variable, and whether the variable is that of its file.
fn key_of_variable(variable: &str) -> Option<(&'static Key, bool)> {
    let exact = KEYS.iter().find(|key| key.variable() == variable);
    let by_file = || {
        let variable = variable.strip_suffix("_FILE")?;
        KEYS.iter()
            .find(|key| key.secret && key.variable() == variable)
    };
    match exact {
        Some(key) => Some((key, false)),
        None => by_file().map(|key| (key, true)),
    }
}

/// Variables that are none of the configuration's business: those for other commands, and what
/// Kubernetes puts into every container of a namespace that has a service named "everpost".
fn is_foreign(variable: &str) -> bool {
    let rest = variable.strip_prefix(VARIABLE_PREFIX).unwrap_or(variable);
    CLIENT_VARIABLES.contains(&variable)
        || rest == "PORT"
        || rest.starts_with("PORT_")
        || rest.starts_with("SERVICE_")
}

fn read_secret(path: &Path) -> Result<String, String> {
    let problem = |problem| format!("names {}, which {problem}", path.display());
    let text = file::read_text(path, SECRET_FILE_MAX).map_err(problem)?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(problem("is empty".to_owned())),
        secret => Ok(secret.to_owned()),
    }
}
