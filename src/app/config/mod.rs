//! The configuration: where settings come from, what they mean, how they are shown.
//!
//! Raw settings ([`RawConfig`]) are gathered from flags, environment and file without checking them;
//! [`Config::resolve`] checks them all at once. Lower floors never see a `Config`: they get values of their
//! own at construction.

mod fault;
mod file;
mod flags;
mod keys;
mod listing;
mod raw;
mod settings;
#[cfg(test)]
mod tests;
mod values;

use crate::model::setting::SavedSettings;

pub use self::fault::{ConfigFault, ConfigFaults};
pub use self::flags::ConfigFlags;
pub use self::keys::SettingKey;
pub use self::listing::{sample, show};
pub use self::raw::{CONFIG_FILE, GivenOrigin, RawConfig};
pub use self::settings::{Config, KEYS, LogFormat};

impl Config {
    /// Checks the settings: all faults at once, those of gathering included.
    pub fn resolve(raw: &RawConfig) -> Result<Self, ConfigFaults> {
        let mut read = SettingsReader {
            raw,
            faults: raw.faults.clone(),
        };
        let config = read.config();
        read.check_pairs(&config);
        if read.faults.is_empty() {
            Ok(config)
        } else {
            Err(ConfigFaults(read.faults))
        }
    }
}

impl Config {
    /// Returns the configuration with the settings that are saved in the database. Saved settings that are wrong are
    /// left out and returned as faults.
    pub fn with_saved(&self, saved: &SavedSettings) -> (Self, Vec<ConfigFault>) {
        let mut raw = self.raw.with_saved(saved);
        let mut faults = std::mem::take(&mut raw.faults);
        let mut config = self.clone();
        match Self::resolve(&raw) {
            Ok(resolved) => config.take_live(resolved),
            Err(ConfigFaults(more)) => faults.extend(more),
        }
        (config, faults)
    }

    /// Returns the problem of `text` as the value of a setting that is saved while the appliance runs, written as in an
    /// environment variable.
    pub fn problem_of_saved(&self, name: &str, text: &str) -> Option<String> {
        let key = SettingKey::named(name);
        self.raw.problem_of_saved(key, &key.split(text))
    }
}

/// Reads settings and collects faults. A setting that is at fault gets its default.
struct SettingsReader<'a> {
    raw: &'a RawConfig,
    faults: Vec<ConfigFault>,
}

impl SettingsReader<'_> {
    /// Settings that are nothing without each other, and those that exclude each other.
    fn check_pairs(&mut self, config: &Config) {
        let is_given = |name| self.raw.given(SettingKey::named(name)).is_some();
        let pairs = [
            ("admin.user", "admin.password"),
            ("tls.cert", "tls.key"),
            ("oidc.issuer", "oidc.client_id"),
        ];
        let mut faults = Vec::new();
        for (one, other) in pairs {
            let (missing, present) = match (is_given(one), is_given(other)) {
                (true, false) => (other, one),
                (false, true) => (one, other),
                (true, true) | (false, false) => continue,
            };
            let problem = format!("is missing, but {present} is set; set both or none");
            faults.push(ConfigFault::of_absence(
                SettingKey::named(missing),
                &problem,
            ));
        }
        let both = SettingKey::named("tls.dev");
        if let Some(given) = self.raw.given(both)
            && config.tls_dev
            && is_given("tls.cert")
        {
            let problem = "cannot be on while tls.cert is set; choose one of them";
            faults.push(ConfigFault::of_value(both, &given.origin, problem));
        }
        let listen = SettingKey::named("listen");
        if self.raw.lookup(listen).0.is_empty() {
            let problem = "is empty; name an address with a port, like 127.0.0.1:8080";
            faults.push(ConfigFault::of_absence(listen, problem));
        }
        self.faults.extend(faults);
        self.check_sign_in(config);
    }

    /// Adds a fault for each missing setting without which nobody could sign in.
    fn check_sign_in(&mut self, config: &Config) {
        let is_given = |name| self.raw.given(SettingKey::named(name)).is_some();
        let by_proxy = is_given("sign_in.proxy_user_header");
        let is_external = by_proxy || is_given("oidc.issuer");
        let groups = [
            &config.sign_in_admin_groups,
            &config.sign_in_operator_groups,
            &config.sign_in_viewer_groups,
        ];
        let mut missing = |name, problem: &str| {
            let fault = ConfigFault::of_absence(SettingKey::named(name), problem);
            self.faults.push(fault);
        };
        if by_proxy && config.http_trusted_proxies.is_empty() {
            let problem = "is missing, but sign_in.proxy_user_header is set; name the networks of the proxies to believe";
            missing("http.trusted_proxies", problem);
        }
        if is_external && groups.iter().all(|groups| groups.is_empty()) {
            let problem = "is missing, and so are the groups of operators and viewers, so that nobody could sign in; name \
                           the groups of at least one role, or * for everybody";
            missing("sign_in.admin_groups", problem);
        }
        if !config.sign_in_password_form && !is_external {
            let problem = "is missing, but sign_in.password_form is off; set it, or sign_in.proxy_user_header, or leave the \
                           form on";
            missing("oidc.issuer", problem);
        }
    }

    fn value<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> T {
        let default = || {
            let default = SettingKey::named(name).default;
            parse(default.expect("only for settings with a default")).expect("defaults are valid")
        };
        self.optional(name, &parse).unwrap_or_else(default)
    }

    /// `None` if it is not given, or at fault.
    fn optional<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let key = SettingKey::named(name);
        let given = self.raw.given(key)?;
        let parsed = match given.values.as_slice() {
            [value] => parse(value),
            _ => Err("takes one value, not a list".to_owned()),
        };
        let fault = |problem: String| ConfigFault::of_value(key, &given.origin, &problem);
        parsed
            .map_err(|problem| self.faults.push(fault(problem)))
            .ok()
    }

    fn secret<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        self.optional(name, parse)
    }

    fn list<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        let key = SettingKey::named(name);
        let (values, origin) = self.raw.lookup(key);
        let mut parsed = Vec::new();
        for value in &values {
            match parse(value) {
                Ok(value) => parsed.push(value),
                Err(problem) => self
                    .faults
                    .push(ConfigFault::of_value(key, &origin, &problem)),
            }
        }
        parsed
    }
}
