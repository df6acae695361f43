//! Settings that can change while the appliance runs. A change is checked, stored and put in force before the request
//! is answered.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Mutex;

use crate::base::Live;
use crate::broker::diagnostics::Diagnostics;
use crate::model::audit::{AuditAction, Caller, Change, TargetKind};
use crate::model::setting::{SavedSettings, Setting, Settings};
use crate::store::StoreError;

/// The settings in force, with the rules for changing them. Clones share one state.
#[derive(Clone, Default)]
pub struct RunningSettings(Arc<SettingsState>);

#[derive(Default)]
struct SettingsState {
    shown: Live<Settings>,
    /// The saved settings. The lock is held during a change, so that each change is based on the one before.
    saved: Mutex<SavedSettings>,
    /// The rules for changes; `None` if no setting can change.
    rules: Option<Box<dyn SettingRules>>,
}

/// The rules by which settings are checked, resolved and applied.
pub trait SettingRules: Send + Sync {
    /// Returns the problem with a value, worded to follow the name of the setting; `None` if the value is valid.
    /// `value` is written as in an environment variable.
    fn problem(&self, name: &'static str, value: &str) -> Option<String>;

    /// Returns the settings that result from the saved settings, all of which are valid.
    fn resolve(&self, saved: &SavedSettings) -> Settings;

    /// Puts the saved settings in force. Returns the reason if that fails.
    fn apply(&self, saved: &SavedSettings) -> Result<(), String>;
}

/// The reason why a setting cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    #[error("there is no setting {0}")]
    NotFound(String),
    #[error(
        "{name} cannot be changed while the server runs: set it in the configuration file, with {variable} or with {flag}, and \
         restart"
    )]
    AtStart {
        name: &'static str,
        variable: String,
        flag: String,
    },
    #[error("{name} is set by {place}, and cannot be changed here")]
    Fixed { name: &'static str, place: String },
    #[error("{name} {problem}")]
    Invalid { name: &'static str, problem: String },
    #[error("{name} is saved, but takes effect after a restart: {reason}")]
    Failed { name: &'static str, reason: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RunningSettings {
    /// Creates the settings in force at the start. `shown` holds all settings, including the values in `saved`.
    pub fn new(shown: Settings, saved: SavedSettings, rules: impl SettingRules + 'static) -> Self {
        Self(Arc::new(SettingsState {
            shown: Live::new(shown),
            saved: Mutex::new(saved),
            rules: Some(Box::new(rules)),
        }))
    }
}

impl fmt::Debug for RunningSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.shown.fmt(f)
    }
}

impl Diagnostics {
    /// Returns the settings in force, without secrets.
    pub fn settings(&self) -> Arc<Settings> {
        self.running().shown.get()
    }

    /// Returns the setting with the given name.
    pub fn setting(&self, name: &str) -> Result<Setting, SettingError> {
        let found = self.settings().named(name).cloned();
        found.ok_or_else(|| SettingError::NotFound(name.to_owned()))
    }

    /// Saves the value of a setting, written as in an environment variable, and puts it in force. `None` removes the
    /// saved value.
    pub async fn save_setting(
        &self,
        by: &Caller,
        name: &str,
        value: Option<String>,
    ) -> Result<(), SettingError> {
        let running = self.running();
        let mut saved = running.saved.lock().await;
        let before = changeable(self.setting(name)?)?;
        if value.is_none() && !saved.contains_key(name) {
            return Ok(());
        }
        let missing = || SettingError::NotFound(name.to_owned());
        let rules = running.rules.as_ref().ok_or_else(missing)?;
        let name = before.name;
        if let Some(value) = &value
            && let Some(problem) = rules.problem(name, value)
        {
            return Err(SettingError::Invalid { name, problem });
        }
        let mut wanted = saved.clone();
        match &value {
            Some(value) => wanted.insert(name.to_owned(), value.clone()),
            None => wanted.remove(name),
        };
        let shown = rules.resolve(&wanted);
        let after = shown.named(name).map_or(Value::Null, Setting::json);
        let mut changes = vec![Change {
            property: "value".to_owned(),
            before: before.json(),
            after,
        }];
        changes.retain(|change| change.before != change.after);
        let entry = by.did(
            AuditAction::Update { changes },
            TargetKind::Setting.named(name),
        );
        let settings = &self.0.broker.store().settings;
        settings.save(name, value, entry).await?;
        running.shown.set(shown);
        let applied = rules.apply(&wanted);
        *saved = wanted;
        applied.map_err(|reason| SettingError::Failed { name, reason })
    }

    fn running(&self) -> &SettingsState {
        &self.0.runtime_info.settings.0
    }
}

/// Returns `setting` if it can change while the server runs, or the error that says why not.
fn changeable(setting: Setting) -> Result<Setting, SettingError> {
    let Setting { name, .. } = setting;
    if !setting.is_live {
        let (variable, flag) = (setting.variable, setting.flag);
        return Err(SettingError::AtStart {
            name,
            variable,
            flag,
        });
    }
    if setting.is_fixed() {
        return Err(SettingError::Fixed {
            name,
            place: setting.place,
        });
    }
    Ok(setting)
}
