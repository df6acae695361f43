//! The configuration as text: what is in force, and a sample file with everything that could be.

use crate::app::config::keys::{KEYS, Key};
use crate::app::config::raw::RawConfig;

/// Columns of the sample file's comments.
const WIDTH: usize = 78;

/// The settings in force, as a valid file; secrets as `"***"`. With `origins` each says where it comes
/// from.
pub fn show(raw: &RawConfig, origins: bool) -> String {
    let lines: Vec<(String, String)> = KEYS.iter().map(|key| shown(raw, key)).collect();
    let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    lines
        .iter()
        .map(|(line, origin)| match origins {
            true => format!("{line:width$}  # {origin}\n"),
            false => format!("{line}\n"),
        })
        .collect()
}

fn shown(raw: &RawConfig, key: &Key) -> (String, String) {
    let (values, origin) = raw.lookup(key);
    let line = match (values.is_empty() && key.default.is_none(), key.secret) {
        (true, _) => format!("# {} is not set", key.name),
        (false, true) => format!("{} = \"***\"", key.name),
        (false, false) => format!("{} = {}", key.name, key.to_toml(&values)),
    };
    (line, origin.to_string())
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
