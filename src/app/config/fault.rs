//! What is wrong with a configuration, in words that lead to the place and to the cure.

use std::fmt;

use crate::app::config::keys::Key;
use crate::app::config::raw::Origin;
use crate::app::config::settings::KEYS;

/// One thing that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// The name of the setting; the path of the file if it is about the file as a whole.
    pub subject: String,
    /// Where it comes from and what is wrong. Never holds the value of a secret.
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

    /// About a setting that was given.
    pub(super) fn of_value(key: &Key, origin: &Origin, problem: &str) -> Self {
        let (variable, origin) = (key.variable(), origin.to_string());
        let place = match origin.starts_with(&variable) {
            true => format!("(set by {origin})"),
            false => format!("({variable}, set by {origin})"),
        };
        Self::new(key.name, format!("{place} {problem}"))
    }

    /// About a setting that was not given.
    pub(super) fn of_absence(key: &Key, problem: &str) -> Self {
        Self::new(key.name, format!("({}) {problem}", key.variable()))
    }

    /// About a name in the file that belongs to no setting.
    pub(super) fn unknown_key(name: &str, origin: &Origin) -> Self {
        let problem = format!("is no setting, but {origin} sets it; {}", advice(name));
        Self::new(name, problem)
    }

    /// About a variable that belongs to no setting.
    pub(super) fn unknown_variable(variable: &str) -> Self {
        let problem = match nearest(variable, KEYS.iter().map(Key::variable)) {
            Some(near) => format!("belongs to no setting; did you mean {near}?"),
            None => "belongs to no setting; `everpost config sample` lists them all".to_owned(),
        };
        Self::new(variable, problem)
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
            let variable = Key::named(&near).variable();
            format!("did you mean {near:?} ({variable})?")
        }
        None => "`everpost config sample` lists them all".to_owned(),
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name)
}

/// The candidate that is fewest keystrokes away, unless all are too far to have been meant.
fn nearest(name: &str, candidates: impl Iterator<Item = String>) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let distance = |near: &str| strsim::damerau_levenshtein(&name, &near.to_ascii_lowercase());
    candidates
        .map(|near| (distance(&near), near))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= name.len().div_ceil(3))
        .map(|(_, near)| near)
}
