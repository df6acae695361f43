//! The rules by which settings change while the appliance runs.

use crate::app::config::Config;
use crate::broker::diagnostics::{RunningSettings, SettingRules};
use crate::model::setting::{SavedSettings, Settings};

/// Puts a configuration in force, as far as it can change; fails with the reason.
type Apply = Box<dyn Fn(&Config) -> Result<(), String> + Send + Sync>;

struct ReloadRules {
    /// The configuration that the process was started with, without the saved settings.
    start: Config,
    apply: Apply,
}

/// The settings of an appliance that was started with `start` and has these saved.
pub(super) fn running_settings(
    start: Config,
    saved: SavedSettings,
    apply: Apply,
) -> RunningSettings {
    let rules = ReloadRules { start, apply };
    RunningSettings::new(rules.resolve(&saved), saved, rules)
}

impl SettingRules for ReloadRules {
    fn problem(&self, name: &'static str, value: &str) -> Option<String> {
        self.start.problem_of_saved(name, value)
    }

    fn resolve(&self, saved: &SavedSettings) -> Settings {
        let (config, _) = self.start.with_saved(saved);
        Settings::clone(&config.shown)
    }

    fn apply(&self, saved: &SavedSettings) -> Result<(), String> {
        let (config, _) = self.start.with_saved(saved);
        (self.apply)(&config)
    }
}
