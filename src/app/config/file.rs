//! The configuration file: TOML, flattened to dotted names.

use std::path::Path;

use toml::{Table, Value};

use crate::app::files;

/// Bytes of a configuration file.
const FILE_MAX: usize = 1_048_576;

/// One line of the file, so to speak.
pub(super) struct FileEntry {
    /// `log.level`, whether it was written so or under `[log]`.
    pub(super) name: String,
    /// The values as texts; a setting with one value has one. `Err` says why they are none.
    pub(super) values: Result<Vec<String>, &'static str>,
}

/// Reads the file. The error says what is wrong with it as a whole, and goes on from its name.
pub(super) fn read(path: &Path) -> Result<Vec<FileEntry>, String> {
    let text = files::text(path, FILE_MAX)?;
    let table: Table = toml::from_str(&text).map_err(|error| syntax_problem(&text, &error))?;
    let mut entries = Vec::new();
    flatten(table, "", &mut entries);
    Ok(entries)
}

/// The parser's own report quotes the line, and the line may hold a secret.
fn syntax_problem(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| {
        let before = text.get(..span.start).unwrap_or(text);
        before.matches('\n').count() + 1
    });
    match line {
        Some(line) => format!("is not valid TOML in line {line}: {}", error.message()),
        None => format!("is not valid TOML: {}", error.message()),
    }
}

fn flatten(table: Table, prefix: &str, entries: &mut Vec<FileEntry>) {
    for (name, value) in table {
        let name = format!("{prefix}{name}");
        if let Value::Table(inner) = value {
            flatten(inner, &format!("{name}."), entries);
            continue;
        }
        let values = match value.as_array() {
            Some(values) => values.iter().map(scalar).collect(),
            None => scalar(&value).map(|text| vec![text]),
        };
        entries.push(FileEntry { name, values });
    }
}

fn scalar(value: &Value) -> Result<String, &'static str> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None if value.is_array() || value.is_table() => {
            Err("holds lists or tables; write plain values")
        }
        None => Ok(value.to_string()),
    }
}
