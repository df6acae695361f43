//! Files with objects of the configuration, and the secrets that they refer to. Problems name file, line and object.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use serde_json::{Map, Value};

use crate::app::{files, yaml};
use crate::base::visible;
use crate::model::limits::CONFIGURATION_BYTES_MAX;

/// An object with its secrets, and where it stands.
#[derive(Debug)]
pub(super) struct ConfiguredObject {
    pub(super) file: PathBuf,
    /// The file, and the line where that is known.
    pub(super) place: String,
    pub(super) value: Value,
}

/// The contents of files.
#[derive(Debug, Default)]
pub(super) struct FileContents {
    pub(super) objects: Vec<ConfiguredObject>,
    /// The files that say `prune: true`: objects that are removed from such a file are deleted with the messages that
    /// they hold.
    pub(super) pruning: BTreeSet<PathBuf>,
}

/// Returns all faults that a plan reports for objects, one per line.
pub(super) fn faults_of(plan: &Value, objects: &[ConfiguredObject]) -> Option<String> {
    let text = |of: &Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
    let line = |fault: &Value| {
        let object = object_of(fault, objects).map_or_else(String::new, |object| {
            let (kind, name) = (text(&object.value, "kind"), text(&object.value, "name"));
            format!("{}: {kind} {name}: ", object.place)
        });
        let path = text(fault, "path");
        let colon = if path.is_empty() { "" } else { ": " };
        let line = format!("{object}{path}{colon}{}", text(fault, "problem"));
        format!("\n  {}", visible(&line, &[]))
    };
    let faults = plan["faults"].as_array().into_iter().flatten();
    let lines: String = faults.map(line).collect();
    Some(lines).filter(|lines| !lines.is_empty())
}

/// The object that a step or a fault is about, if it is about one.
pub(super) fn object_of<'a>(
    of: &Value,
    objects: &'a [ConfiguredObject],
) -> Option<&'a ConfiguredObject> {
    objects.get(usize::try_from(of["object"].as_u64()?).ok()?)
}

/// Reads files one after the other. Notes the files that they refer to in `referred`.
pub(super) fn read(
    files: &[PathBuf],
    referred: &mut BTreeSet<PathBuf>,
) -> Result<FileContents, String> {
    let mut contents = FileContents::default();
    for file in files {
        read_file(file, referred, &mut contents)?;
    }
    Ok(contents)
}

/// Returns the error for a directory without files.
pub(super) fn no_files(dir: &Path) -> String {
    format!(
        "{} has no file that ends with .yaml, .yml or .json",
        dir.display()
    )
}

/// Returns the files of a directory that have the extension of a configuration file, ordered by name.
pub(super) fn files_of(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| format!("{} cannot be read: {error}", dir.display());
    let entries = fs::read_dir(dir).map_err(unreadable)?;
    let paths: io::Result<Vec<PathBuf>> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let ends = |path: &PathBuf| {
        let end = path.extension().and_then(|end| end.to_str());
        end.is_some_and(|end| ["yaml", "yml", "json"].contains(&end)) && path.is_file()
    };
    let mut found: Vec<PathBuf> = paths
        .map_err(unreadable)?
        .into_iter()
        .filter(ends)
        .collect();
    found.sort();
    Ok(found)
}

/// Reads a list of objects, a single object, or a mapping of `objects` and `prune`. An empty file is an error, since
/// a full disk or a killed editor can leave one.
fn read_file(
    path: &Path,
    referred: &mut BTreeSet<PathBuf>,
    contents: &mut FileContents,
) -> Result<(), String> {
    let shown = path.display().to_string();
    let misuse = |problem: String| format!("{shown}: {problem}");
    let text = files::text(path, CONFIGURATION_BYTES_MAX)
        .map_err(|problem| misuse(format!("it {problem}")))?;
    let is_json = path.extension().is_some_and(|end| end == "json");
    let read = parse(&text, is_json).map_err(misuse)?;
    let objects = match read {
        Value::Null => {
            let problem =
                "it is empty, or holds comments alone; to have no objects in it, write []";
            return Err(misuse(problem.to_owned()));
        }
        Value::Array(objects) => objects,
        Value::Object(members) if members.contains_key("objects") => {
            let (objects, prunes) = list(members).map_err(misuse)?;
            if prunes {
                contents.pruning.insert(path.to_owned());
            }
            objects
        }
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
    let place = |at: usize| {
        if lines.len() == objects.len() {
            format!("{shown}:{}", lines[at])
        } else {
            shown.clone()
        }
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    for (at, object) in objects.iter().enumerate() {
        let place = place(at);
        let value = resolve(object, folder, "", referred).map_err(|problem| {
            let (kind, name) = (object["kind"].as_str(), object["name"].as_str());
            format!(
                "{place}: {} {}: {problem}",
                kind.unwrap_or("object"),
                name.unwrap_or_default()
            )
        })?;
        let file = path.to_owned();
        contents
            .objects
            .push(ConfiguredObject { file, place, value });
    }
    Ok(())
}

/// Returns the objects of a file that is a mapping, and whether it prunes.
fn list(mut members: Map<String, Value>) -> Result<(Vec<Value>, bool), String> {
    let prunes = match members.remove("prune") {
        None => false,
        Some(Value::Bool(prunes)) => prunes,
        Some(_) => return Err("prune: it must be true or false".to_owned()),
    };
    let Some(Value::Array(objects)) = members.remove("objects") else {
        return Err("objects: it must be a list of objects with kind and name".to_owned());
    };
    match members.keys().next() {
        None => Ok((objects, prunes)),
        Some(other) => Err(format!("{other}: beside objects there may be prune alone")),
    }
}

/// Reads the text of a file. JSON is valid YAML, but is parsed as JSON so that its errors are JSON errors.
pub(super) fn parse(text: &str, is_json: bool) -> Result<Value, String> {
    // JSON is YAML, too.
    if is_json {
        serde_json::from_str(text).map_err(|error| error.to_string())
    } else {
        yaml::read(text)
    }
}

/// Replaces references with the values of the environment variables and files that they name.
fn resolve(
    value: &Value,
    folder: &Path,
    path: &str,
    referred: &mut BTreeSet<PathBuf>,
) -> Result<Value, String> {
    match value {
        Value::Object(members) => match reference(members) {
            Some(("fromEnvironment", name)) => {
                let found = env::var(name)
                    .map_err(|_| format!("{path}: the environment variable {name} is not set"));
                Ok(found?.into())
            }
            Some((_, file)) => {
                referred.insert(folder.join(file));
                let secret = files::secrets(&folder.join(file));
                let secret =
                    secret.map_err(|problem| format!("{path}: the file {file} {problem}"))?;
                Ok(secret.reveal().into())
            }
            None => {
                let resolved = members.iter().map(|(name, value)| {
                    let dot = if path.is_empty() { "" } else { "." };
                    let value = resolve(value, folder, &format!("{path}{dot}{name}"), referred)?;
                    Ok((name.clone(), value))
                });
                Ok(Value::Object(
                    resolved.collect::<Result<Map<_, _>, String>>()?,
                ))
            }
        },
        Value::Array(elements) => {
            let resolved = elements
                .iter()
                .enumerate()
                .map(|(at, value)| resolve(value, folder, &format!("{path}[{at}]"), referred));
            Ok(Value::Array(resolved.collect::<Result<_, _>>()?))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(value.clone()),
    }
}

/// Returns the kind and the name of the reference, if an object consists of a reference alone.
fn reference(members: &Map<String, Value>) -> Option<(&str, &str)> {
    let (name, value) = members.iter().next().filter(|_| members.len() == 1)?;
    let is_known = ["fromEnvironment", "fromFile"].contains(&name.as_str());
    Some((name.as_str(), value.as_str()?)).filter(|_| is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(name: &str, text: &str) -> Result<FileContents, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join(name);
        fs::write(&file, text).expect("a file");
        read(&[file], &mut BTreeSet::new())
    }

    #[test]
    fn only_an_explicit_list_has_no_objects() {
        for (name, text) in [
            ("a.yaml", ""),
            ("a.yaml", "\n\n"),
            ("a.yaml", "# - kind: Queue\n#   name: jobs\n"),
            ("a.yaml", "---\n"),
            ("a.yaml", "null\n"),
            ("a.json", "null"),
        ] {
            let problem = contents(name, text).expect_err(text);
            assert!(problem.contains("write []"), "{text:?}: {problem}");
        }
        assert!(contents("a.json", "").is_err());
        let none = contents("a.yaml", "[]\n").expect("a list");
        assert!(none.objects.is_empty() && none.pruning.is_empty());
    }

    #[test]
    fn a_file_says_whether_it_prunes() {
        let text = "prune: true\nobjects:\n- {kind: Queue, name: jobs}\n";
        let read = contents("a.yaml", text).expect("a mapping");
        assert_eq!((read.objects.len(), read.pruning.len()), (1, 1));
        let read = contents("a.yaml", &text.replace("true", "false")).expect("a mapping");
        assert_eq!((read.objects.len(), read.pruning.len()), (1, 0));
        for (text, problem) in [
            ("prune: 1\nobjects: []", "prune: it must be true or false"),
            ("objects: 7", "objects: it must be a list"),
            ("objects: []\nkind: Queue", "kind: beside objects"),
        ] {
            let said = contents("a.yaml", text).expect_err(text);
            assert!(said.contains(problem), "{said}");
        }
    }
}
