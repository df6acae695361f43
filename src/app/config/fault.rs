//! Faults of a configuration, in words that lead to the place and to the remedy.

use std::collections::BTreeSet;
use std::fmt;

use crate::app::config::keys::{SettingKey, VARIABLE_PREFIX};
use crate::app::config::raw::GivenOrigin;
use crate::app::config::settings::KEYS;

/// One thing that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// The name of the setting; the path of the file if it is about the file as a whole.
    pub subject: String,
    /// Origin of the setting and the problem. Never holds the value of a secret.
    pub problem: String,
}

/// Everything that is wrong with a configuration: at least one fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigFaults(pub Vec<ConfigFault>);

impl ConfigFault {
    pub(super) fn new(subject: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            problem: problem.into(),
        }
    }

    /// Makes the fault of a setting that was given.
    pub(super) fn of_value(key: &SettingKey, origin: &GivenOrigin, problem: &str) -> Self {
        let (variable, origin) = (key.variable(), origin.to_string());
        let place = if origin.starts_with(&variable) {
            format!("(set by {origin})")
        } else {
            format!("({variable}, set by {origin})")
        };
        Self::new(key.name, format!("{place} {problem}"))
    }

    /// Makes the fault of a setting that was not given.
    pub(super) fn of_absence(key: &SettingKey, problem: &str) -> Self {
        Self::new(key.name, format!("({}) {problem}", key.variable()))
    }

    /// Makes the fault of a name in the file that belongs to no setting.
    pub(super) fn unknown_key(name: &str, origin: &GivenOrigin) -> Self {
        let problem = format!("is no setting, but {origin} sets it; {}", advice(name));
        Self::new(name, problem)
    }

    /// Makes the fault of an environment variable that belongs to no setting.
    pub(super) fn unknown_variable(variable: &str) -> Self {
        let name = variable.strip_prefix(VARIABLE_PREFIX).unwrap_or(variable);
        let advice = match meant(name).as_slice() {
            [] => "`everpost config sample` lists them all".to_owned(),
            near => format!("did you mean {}?", near.join(" or ")),
        };
        Self::new(variable, format!("belongs to no setting; {advice}"))
    }
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.subject, self.problem)
    }
}

impl fmt::Display for ConfigFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("the configuration has a fault:")?,
            count => write!(f, "the configuration has {count} faults:")?,
        }
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

fn advice(name: &str) -> String {
    let group = format!("{name}.");
    let members: Vec<&str> = names().filter(|each| each.starts_with(&group)).collect();
    if !members.is_empty() {
        return format!("it is a group of settings: {}", members.join(", "));
    }
    match nearest(name, names().map(str::to_owned)) {
        Some(near) => {
            let variable = SettingKey::named(&near).variable();
            format!("did you mean {near:?} ({variable})?")
        }
        None => "`everpost config sample` lists them all".to_owned(),
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name)
}

/// Synonyms that people write for words in the names of settings.
const MEANT: [(&str, &str); 16] = [
    ("ADDRESS", "LISTEN"),
    ("API", "MANAGEMENT"),
    ("BASE", "PUBLIC"),
    ("BIND", "LISTEN"),
    ("CERTIFICATE", "CERT"),
    ("DATABASE", "DATA"),
    ("DB", "DATA"),
    ("DIRECTORY", "DIR"),
    ("EXTERNAL", "PUBLIC"),
    ("HOSTNAME", "HOSTS"),
    ("HTTPS", "TLS"),
    ("LOGGING", "LOG"),
    ("OPENID", "OIDC"),
    ("PATH", "DIR"),
    ("SSL", "TLS"),
    ("USERNAME", "USER"),
];

/// Maximum number of settings that are suggested at once.
const SUGGESTIONS_MAX: usize = 3;

/// Returns the variables of the settings that have all the words of `name`, or synonyms, and the fewest other words;
/// otherwise the variable with the smallest edit distance.
fn meant(name: &str) -> Vec<String> {
    let word = |word: &str| {
        let meant = MEANT.iter().find(|(each, _)| *each == word);
        meant.map_or(word, |(_, meant)| meant).to_owned()
    };
    let words: BTreeSet<String> = name.split('_').map(word).collect();
    let bare = |key: &SettingKey| key.variable()[VARIABLE_PREFIX.len()..].to_owned();
    let others = |key: &SettingKey| {
        let bare = bare(key);
        let own: BTreeSet<&str> = bare.split('_').collect();
        let has_all = words.iter().all(|word| own.contains(word.as_str()));
        has_all.then(|| own.len() - words.len())
    };
    let fewest = KEYS.iter().filter_map(others).min();
    let found = KEYS
        .iter()
        .filter(|key| fewest.is_some() && others(key) == fewest);
    let found: Vec<String> = found
        .take(SUGGESTIONS_MAX)
        .map(SettingKey::variable)
        .collect();
    if found.is_empty() {
        nearest(name, KEYS.iter().map(bare))
            .map(|near| format!("{VARIABLE_PREFIX}{near}"))
            .into_iter()
            .collect()
    } else {
        found
    }
}

/// Returns the candidate with the smallest edit distance, unless all are too far away to have been meant.
fn nearest(name: &str, candidates: impl Iterator<Item = String>) -> Option<String> {
    let folded = name.to_ascii_lowercase();
    let distance = |near: &str| strsim::damerau_levenshtein(&folded, &near.to_ascii_lowercase());
    candidates
        .map(|near| (distance(&near), near))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= folded.len().div_ceil(3))
        .map(|(_, near)| near)
}
