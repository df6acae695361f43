//! The configuration as text: what is in force, and a sample file with everything that could be.

use crate::app::config::keys::{KEYS, Key};
use crate::app::config::raw::RawConfig;
use crate::model::setting::{Setting, SettingOrigin, Settings};

/// Columns of the sample file's comments.
const WIDTH: usize = 78;

/// What stands in place of a secret.
const MASK: &str = "***";

/// The settings in force, without secrets.
pub(super) fn in_force(raw: &RawConfig) -> Settings {
    let file = raw.file();
    let file = std::path::absolute(&file).unwrap_or(file);
    Settings {
        all: KEYS.iter().map(|key| setting(raw, key)).collect(),
        file: file.display().to_string(),
        file_was_read: raw.file_was_read(),
    }
}

fn setting(raw: &RawConfig, key: &Key) -> Setting {
    let (values, origin) = raw.lookup(key);
    let values = match key.secret {
        true if !values.is_empty() => vec![MASK.to_owned()],
        _ => values,
    };
    let is_set = !values.is_empty() || key.default.is_some();
    Setting {
        name: key.name,
        value: is_set.then(|| key.to_toml(&values)),
        origin: origin.kind(),
        place: match origin.kind() {
            SettingOrigin::Default => String::new(),
            SettingOrigin::File | SettingOrigin::Environment | SettingOrigin::Flag => {
                origin.to_string()
            }
        },
        doc: key.doc,
        variable: key.variable(),
        flag: format!("--{}", key.flag()),
    }
}

/// The settings in force, as a valid file; secrets as `"***"`. With `origins` each says where it comes
/// from.
pub fn show(settings: &Settings, origins: bool) -> String {
    let lines: Vec<(String, &str)> = settings.all.iter().map(line).collect();
    let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    lines
        .iter()
        .map(|(line, origin)| match origins {
            true => format!("{line:width$}  # {origin}\n"),
            false => format!("{line}\n"),
        })
        .collect()
}

/// What sets it, and where that stands.
fn line(setting: &Setting) -> (String, &str) {
    let line = match &setting.value {
        None => format!("# {} is not set", setting.name),
        Some(value) => format!("{} = {value}", setting.name),
    };
    let place = match setting.place.as_str() {
        "" => setting.origin.name(),
        place => place,
    };
    (line, place)
}

/// A file with every setting, its meaning, its variable and its default, all commented out.
pub fn sample() -> String {
    let head = wrapped(
        "Everpost reads this file if it is named by --config or by EVERPOST_CONFIG, or lies as \
         everpost.toml in the data directory. Flags win over variables of the environment, those \
         over this file. Every line below shows the default or an example; take off the # to \
         change it.",
    );
    let entries: String = KEYS.iter().map(entry).collect();
    format!("{head}{entries}")
}

fn entry(key: &Key) -> String {
    let doc = wrapped(key.doc);
    let sources = sources(key);
    let example = key.to_toml(&key.split(key.example));
    match key.secret {
        true => format!(
            "\n{doc}{sources}#{} = \"\"\n#{}_file = \"\"\n",
            key.name, key.name
        ),
        false => format!("\n{doc}{sources}#{} = {example}\n", key.name),
    }
}

fn sources(key: &Key) -> String {
    let (variable, flag) = (key.variable(), key.flag());
    match key.secret {
        true => format!("# {variable}, {variable}_FILE, --{flag}\n"),
        false => format!("# {variable}, --{flag}\n"),
    }
}

/// As a comment, broken into lines.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("it starts with one");
        match line.len() + 1 + word.len() > WIDTH {
            true => lines.push(format!("# {word}")),
            false => {
                line.push(' ');
                line.push_str(word);
            }
        }
    }
    lines.join("\n") + "\n"
}
