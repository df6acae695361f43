//! The configuration as text: the settings in force, and a sample file with every setting.

use textwrap::{Options, fill};

use crate::app::config::keys::SettingKey;
use crate::app::config::raw::RawConfig;
use crate::app::config::settings::KEYS;
use crate::model::setting::{Setting, Settings};

/// Columns of the sample file's comments.
const WIDTH: usize = 78;

/// The text that is shown in place of a secret.
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

fn setting(raw: &RawConfig, key: &SettingKey) -> Setting {
    let (mut values, origin) = raw.lookup(key);
    if key.secret && !values.is_empty() {
        values = vec![MASK.to_owned()];
    }
    let is_set = !values.is_empty() || key.default.is_some();
    Setting {
        name: key.name,
        title: key.title,
        kind: key.kind,
        values: is_set.then_some(values),
        origin: origin.kind,
        place: origin.place,
        is_live: key.is_live,
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
        .map(|(line, origin)| {
            if origins {
                format!("{line:width$}  # {origin}\n")
            } else {
                format!("{line}\n")
            }
        })
        .collect()
}

/// Returns the line that sets a setting in the configuration file, and the origin of its value.
fn line(setting: &Setting) -> (String, &str) {
    let name = setting.name;
    let line = match &setting.values {
        None => format!("# {name} is not set"),
        Some(values) => format!("{name} = {}", SettingKey::named(name).to_toml(values)),
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
         over what is saved on the settings page, and that over this file. Every line below shows \
         the default or an example; take off the # to change it. In place of tls.cert = … there may \
         be a table [tls] with cert = …, at the end of the file.",
    );
    let entries: String = KEYS.iter().map(entry).collect();
    format!("{head}{entries}")
}

fn entry(key: &SettingKey) -> String {
    let (name, variable, flag) = (key.name, key.variable(), key.flag());
    let doc = wrapped(key.doc);
    if key.secret {
        format!(
            "\n{doc}# {variable}, {variable}_FILE,\n# --{flag}\n#{name} = \"\"\n#{name}_file = \"\"\n"
        )
    } else {
        let example = key.to_toml(&key.split(key.example));
        format!("\n{doc}# {variable}, --{flag}\n#{name} = {example}\n")
    }
}

/// Returns text as a comment, broken into lines.
fn wrapped(text: &str) -> String {
    let options = Options::new(WIDTH)
        .initial_indent("# ")
        .subsequent_indent("# ");
    fill(text, options) + "\n"
}
