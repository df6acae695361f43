//! Files with objects of the configuration, and the secrets that they refer to.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, anyhow, bail};
use serde_json::{Map, Value, json};

use crate::app::cli::confirm::Misuse;
use crate::app::files;
use crate::model::audit::TargetKind;
use crate::model::limits::CONFIGURATION_BYTES_MAX;
use crate::wire::resource::configuration::is_flat;

/// An object with its secrets, and where it stands.
#[derive(Debug)]
pub(super) struct Object {
    /// The file, and the line where that is known.
    pub(super) place: String,
    pub(super) value: Value,
}

impl Object {
    /// The body of its PUT.
    pub(super) fn body(&self) -> Value {
        let kind: Option<TargetKind> = serde_json::from_value(self.value["kind"].clone()).ok();
        let mut body = self.value.clone();
        match &mut body {
            Value::Object(members) if kind.is_some_and(is_flat) => {
                members.remove("properties").unwrap_or_else(|| json!({}))
            }
            Value::Object(members) => {
                members.remove("kind");
                members.remove("name");
                members.entry("properties").or_insert_with(|| json!({}));
                body
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => body,
        }
    }
}

/// Reads a file, or all files of a directory that end as such files do.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Object>> {
    let mut objects = Vec::new();
    for file in files_of(path)? {
        objects.extend(read_file(&file)?);
    }
    Ok(objects)
}

fn files_of(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries =
        fs::read_dir(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let paths: Result<Vec<PathBuf>, _> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let ends = |path: &PathBuf| {
        let end = path.extension().and_then(|end| end.to_str());
        end.is_some_and(|end| ["yaml", "yml", "json"].contains(&end)) && path.is_file()
    };
    let mut found: Vec<PathBuf> = paths?.into_iter().filter(ends).collect();
    found.sort();
    match found.is_empty() {
        true => bail!(Misuse(format!(
            "{} has no file that ends with .yaml, .yml or .json",
            path.display()
        ))),
        false => Ok(found),
    }
}

fn read_file(path: &Path) -> anyhow::Result<Vec<Object>> {
    let shown = path.display().to_string();
    let misuse = |problem: String| anyhow!(Misuse(format!("{shown}: {problem}")));
    let text = files::text(path, CONFIGURATION_BYTES_MAX)
        .map_err(|problem| misuse(format!("it {problem}")))?;
    // JSON is YAML, too.
    let read: Value = match path.extension().is_some_and(|end| end == "json") {
        true => serde_json::from_str(&text).map_err(|error| misuse(error.to_string()))?,
        false => serde_norway::from_str(&text).map_err(|error| misuse(error.to_string()))?,
    };
    let objects = match read {
        Value::Null => Vec::new(),
        Value::Array(objects) => objects,
        Value::Object(_) => vec![read],
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err(misuse(
                "it must be a list of objects with kind and name".to_owned(),
            ));
        }
    };
    let lines: Vec<usize> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.starts_with("- "))
        .map(|(at, _)| at)
        .collect();
    let place = |at: usize| match lines.len() == objects.len() {
        true => format!("{shown}:{}", lines[at]),
        false => shown.clone(),
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let objects = objects.iter().enumerate().map(|(at, object)| {
        let place = place(at);
        let value = resolve(object, folder, "").map_err(|problem| {
            let (kind, name) = (object["kind"].as_str(), object["name"].as_str());
            anyhow!(Misuse(format!(
                "{place}: {} {}: {problem}",
                kind.unwrap_or("object"),
                name.unwrap_or_default()
            )))
        })?;
        Ok(Object { place, value })
    });
    objects.collect()
}

/// Puts what environment and files say in place of references to them.
fn resolve(value: &Value, folder: &Path, path: &str) -> Result<Value, String> {
    match value {
        Value::Object(members) => match reference(members) {
            Some(("fromEnvironment", name)) => {
                let found = env::var(name);
                let found = found
                    .map_err(|_| format!("{path}: the environment variable {name} is not set"));
                Ok(found?.into())
            }
            Some((_, file)) => {
                let secret = files::secrets(&folder.join(file));
                let secret =
                    secret.map_err(|problem| format!("{path}: the file {file} {problem}"))?;
                Ok(secret.reveal().into())
            }
            None => {
                let resolved = members.iter().map(|(name, value)| {
                    let dot = if path.is_empty() { "" } else { "." };
                    let value = resolve(value, folder, &format!("{path}{dot}{name}"))?;
                    Ok((name.clone(), value))
                });
                Ok(Value::Object(
                    resolved.collect::<Result<Map<_, _>, String>>()?,
                ))
            }
        },
        Value::Array(elements) => {
            let resolved = elements.iter().enumerate();
            let resolved =
                resolved.map(|(at, value)| resolve(value, folder, &format!("{path}[{at}]")));
            Ok(Value::Array(resolved.collect::<Result<_, _>>()?))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(value.clone()),
    }
}

/// What an object refers to, if it is nothing but a reference.
fn reference(members: &Map<String, Value>) -> Option<(&str, &str)> {
    let (name, value) = members.iter().next().filter(|_| members.len() == 1)?;
    let is_known = ["fromEnvironment", "fromFile"].contains(&name.as_str());
    Some((name.as_str(), value.as_str()?)).filter(|_| is_known)
}
