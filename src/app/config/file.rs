//! The configuration file: TOML, flattened to dotted names.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use toml::{Table, Value};

/// Bytes of a configuration file.
const FILE_MAX: u64 = 1_048_576;

/// One line of the file, so to speak.
pub(super) struct FileEntry {
    /// `log.level`, whether it was written so or under `[log]`.
    pub(super) name: String,
    /// The values as texts; a setting with one value has one. `Err` says why they are none.
    pub(super) values: Result<Vec<String>, &'static str>,
}

/// Reads the file. The error says what is wrong with it as a whole, and goes on from its name.
pub(super) fn read(path: &Path) -> Result<Vec<FileEntry>, String> {
    let text = read_text(path, FILE_MAX)?;
    let table: Table = toml::from_str(&text).map_err(|error| syntax_problem(&text, &error))?;
    let mut entries = Vec::new();
    flatten(table, "", &mut entries);
    Ok(entries)
}

/// Reads a text of at most `bytes_max` bytes. The error goes on from the name of the file.
pub(super) fn read_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    let cannot = |error| format!("cannot be read: {error}");
    let mut text = String::new();
    let file = File::open(path).map_err(cannot)?;
    let read = file.take(bytes_max + 1).read_to_string(&mut text);
    let read = read.map_err(cannot)?;
    match read as u64 > bytes_max {
        true => Err(format!("is longer than {bytes_max} bytes")),
        false => Ok(text),
    }
}

/// The parser's own report quotes the line, and the line may hold a secret.
fn syntax_problem(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| {
        let before = text.get(..span.start).unwrap_or(text);
        before.matches('\n').count() + 1
    });
    match line {
        Some(line) => format!("is no TOML in line {line}: {}", error.message()),
        None => format!("is no TOML: {}", error.message()),
    }
}

fn flatten(table: Table, prefix: &str, entries: &mut Vec<FileEntry>) {
    for (name, value) in table {
        let name = format!("{prefix}{name}");
        match value {
            Value::Table(inner) => flatten(inner, &format!("{name}."), entries),
            Value::Array(values) => entries.push(FileEntry {
                name,
                values: values.into_iter().map(scalar).collect(),
            }),
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_) => entries.push(FileEntry {
                name,
                values: scalar(value).map(|text| vec![text]),
            }),
        }
    }
}

fn scalar(value: Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
            Ok(value.to_string())
        }
        Value::Array(_) | Value::Table(_) => Err("holds lists or tables; write plain values"),
    }
}
