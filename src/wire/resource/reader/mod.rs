//! Validates documents of clients against the schema of the target type. Property names are case-insensitive. All
//! faults are reported at once, each with its path. The result is in the schema's spelling, as serde expects it.
//!
//! The schema comes from the type (`schemars`) and is also what the OpenAPI document publishes. The
//! keywords that begin with `x-` are for the reader alone:
//!
//! - `x-answered`: responses include the property even if it was not set, as Azure's do
//! - `x-check`, `x-rule`: the name of the function in `rules` that validates a string or an object
//! - `x-closed`: unknown property names are rejected; otherwise they are ignored, since a later version of an SDK may
//!   send new ones
//! - `x-decimals`: the maximum number of decimals of a number
//! - `x-expected`: a description of the valid values
//! - `x-inert`: the property has no effect; it is kept only in the author's document, and responses show it from there
//! - `x-formerly`: an older name of the property
//! - `x-hint`: a hint that is appended to the message of a fault
//! - `x-keepsQuery`: a URL that is given without its query, as responses show it, keeps the stored query
//! - `x-kept`: a secret that may be left out as long as the listed sibling properties stay the same
//! - `x-key`: the property that identifies the elements of a list
//! - `x-maxBytes`: the maximum length of a string in bytes
//! - `x-noun`: the name for the elements of a list in messages
//! - `x-null`: the value may be `null`; set by [`take_out_null`]
//! - `x-prefix`: the beginning of the message of every fault of the property
//! - `x-rejected`: names of properties that are rejected, with the reasons
//! - `x-unsupported`: values that Azure supports and this server does not

mod names;
pub(crate) mod places;
mod words;

use std::any::TypeId;
use std::collections::{BTreeSet, HashMap};
use std::sync::{LazyLock, Mutex, PoisonError};

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Number, Value, json};

use super::rules::{self, Judged, RuleContext};
use crate::model::destination::EndpointUrl;
pub(super) use names::property_of;
use names::{KnownProperties, find};
pub(super) use words::one_of;
use words::{expected, kind, shown};

/// The maximum number of faults that are listed for one document.
const FAULTS_MAX: usize = 100;

/// One thing that is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The path of the property, for example `properties.destination.properties.endpointUrl`; empty for
    /// the document as a whole.
    pub path: String,
    /// A description of the fault and of the valid values, without secrets.
    pub problem: String,
}

/// The stored document that a request replaces or updates.
#[derive(Clone, Copy)]
pub(super) enum StoredDocument<'a> {
    Nothing,
    /// A document that is replaced. Secrets that the request leaves out are kept.
    Replaced(&'a Value),
    /// A document that is updated. In the objects at these paths, single properties are replaced and `null` restores
    /// the default. Properties that the request leaves out there are not validated again.
    Updated(&'a Value, &'a [&'a str]),
}

/// Reads a document by the schema of `T`.
pub(super) fn read<T: JsonSchema + 'static>(
    document: &Value,
    before: StoredDocument<'_>,
    context: &RuleContext<'_>,
) -> Result<Value, Vec<Fault>> {
    let (known, merged) = match before {
        StoredDocument::Nothing => (None, &[][..]),
        StoredDocument::Replaced(known) => (Some(known), &[][..]),
        StoredDocument::Updated(known, merged) => (Some(known), merged),
    };
    let is_update = matches!(before, StoredDocument::Updated(..));
    let mut reader = DocumentReader {
        merged,
        is_update,
        context,
        faults: Vec::new(),
    };
    let read = reader.value("", document, schema_of::<T>(), known);
    reader.faults.truncate(FAULTS_MAX);
    match read.filter(|_| reader.faults.is_empty()) {
        Some(read) => Ok(read),
        None => Err(reader.faults),
    }
}

/// Returns the schema of a type, without references. Each schema is made once and cached.
pub(crate) fn schema_of<T: JsonSchema + 'static>() -> &'static Value {
    static SCHEMAS: LazyLock<Mutex<HashMap<TypeId, &'static Value>>> =
        LazyLock::new(Mutex::default);
    let mut schemas = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    schemas.entry(TypeId::of::<T>()).or_insert_with(|| {
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.inline_subschemas = true)
            .with_transform(RecursiveTransform(take_out_null));
        let schema = settings
            .into_generator()
            .into_root_schema_for::<T>()
            .to_value();
        #[cfg(test)]
        tests::check_keywords(&schema);
        Box::leak(Box::new(schema))
    })
}

/// Replaces a schema that permits `null` with the schema of the other values and the keyword `x-null`.
fn take_out_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    let null = json!("null");
    if let Some(Value::Array(types)) = object.get("type")
        && let Some(other) = types.iter().find(|each| **each != null).cloned()
    {
        object.insert("type".to_owned(), other);
        object.insert("x-null".to_owned(), true.into());
    }
    let is_null = |schema: &Value| schema["type"] == null;
    if let Some(Value::Array(either)) = object.get("anyOf")
        && either.iter().any(is_null)
        && let Some(Value::Object(other)) = either.iter().find(|each| !is_null(each)).cloned()
    {
        object.remove("anyOf");
        for (keyword, value) in other {
            // Keywords of the property take precedence over those of its type.
            object.entry(keyword).or_insert(value);
        }
        object.insert("x-null".to_owned(), true.into());
    }
}

struct DocumentReader<'a> {
    merged: &'a [&'a str],
    is_update: bool,
    context: &'a RuleContext<'a>,
    faults: Vec<Fault>,
}

impl DocumentReader<'_> {
    /// Returns the value as serde expects it; `None` if the value has a fault.
    fn value(
        &mut self,
        path: &str,
        value: &Value,
        schema: &Value,
        before: Option<&Value>,
    ) -> Option<Value> {
        if let Some(words) = words::of(schema) {
            return self.word(path, value, schema, &words);
        }
        match schema["type"].as_str() {
            _ if schema.get("oneOf").is_some() => self.object(path, value, schema, before),
            Some("object") => self.object(path, value, schema, before),
            Some("array") => self.list(path, value, schema, before),
            Some("string") => self.text(path, value, schema),
            Some("boolean") => self.flag(path, value),
            Some("integer" | "number") => self.number(path, value, schema),
            _ => Some(value.clone()),
        }
    }

    fn object(
        &mut self,
        path: &str,
        value: &Value,
        schema: &Value,
        before: Option<&Value>,
    ) -> Option<Value> {
        let Value::Object(given) = value else {
            return self.wrong_kind(path, "an object", value);
        };
        let open = schema.get("additionalProperties");
        if let Some(of_each) = open.filter(|each| **each != false) {
            return self.map(path, given, of_each);
        }
        let is_merged = self.merged.contains(&path);
        let stays = before.filter(|_| is_merged);
        let branch = self.branch(path, given, schema, stays);
        // Properties of a stored object of another kind are not kept.
        let kept = before.filter(|before| is_same_kind(schema, branch, before));
        // In an object of an unknown kind, only the names and the properties that all kinds share are validated.
        let all = || names::branches_of(schema).iter().collect();
        let kinds = branch.map_or_else(|()| all(), Vec::from_iter);
        let hinted = self.names(path, given, &KnownProperties::new(schema, &kinds));
        let known = KnownProperties::new(schema, &Vec::from_iter(branch.ok().flatten()));
        let mut read = match kept {
            Some(Value::Object(kept)) if is_merged => kept.clone(),
            Some(_) | None => Map::new(),
        };
        for (name, property) in &known.properties {
            if is_merged && self.is_reset(path, given, &known, name, property) {
                read.remove(*name);
                continue;
            }
            let before = kept.and_then(|kept| kept.get(name));
            let value = self.property(path, given, &known, name, property, before);
            read.extend(value.map(|value| ((*name).to_owned(), value)));
        }
        keep(&mut read, &known, kept);
        for name in known
            .required
            .iter()
            .filter(|name| !read.contains_key(**name))
        {
            if !hinted.contains(name) && !self.has_fault(&join(path, name)) {
                let (_, property) = known.properties.iter().find(|(known, _)| known == name)?;
                self.missing(&join(path, name), property);
            }
        }
        branch.ok()?;
        if let Some(rule) = schema["x-rule"].as_str() {
            self.judge(path, &mut read, kept, rule);
        }
        Some(Value::Object(read))
    }

    fn property(
        &mut self,
        object: &str,
        given: &Map<String, Value>,
        known: &KnownProperties<'_>,
        name: &str,
        schema: &Value,
        before: Option<&Value>,
    ) -> Option<Value> {
        if known.tag == Some(name) {
            return Some(schema["const"].clone());
        }
        if schema["readOnly"] == true {
            return None;
        }
        let path = join(object, name);
        let is_merged = self.merged.contains(&object);
        let former = || find(given, schema["x-formerly"].as_str()?);
        let given = find(given, name).or_else(former);
        match given.map(|value| none_if_empty(value, schema)) {
            Some(Value::Null) if schema["x-null"] == true => Some(Value::Null),
            Some(value) if !value.is_null() => self.value(&path, value, schema, before),
            // An object that is left out is read as empty, so that its missing properties are reported.
            _ if is_plain_object(schema) && !is_merged => {
                self.value(&path, &json!({}), schema, before)
            }
            _ => None,
        }
    }

    /// Reports whether an update sets a property to `null`, which restores the default.
    fn is_reset(
        &self,
        object: &str,
        given: &Map<String, Value>,
        known: &KnownProperties<'_>,
        name: &str,
        schema: &Value,
    ) -> bool {
        let path = join(object, name);
        find(given, name) == Some(&Value::Null)
            && schema["x-null"] != true
            && !known.required.contains(name)
            && !self.merged.contains(&path.as_str())
    }

    /// Applies the rule of an object. The rule fills in values that follow from the stored object, and reports faults
    /// that involve more than one property.
    fn judge(
        &mut self,
        path: &str,
        object: &mut Map<String, Value>,
        before: Option<&Value>,
        rule: &str,
    ) {
        let faults = self
            .faults
            .iter()
            .filter_map(|fault| fault.path.strip_prefix(path));
        let faulty = faults
            .map(|rest| rest.trim_start_matches('.').to_owned())
            .collect();
        let mut judged = Judged {
            object,
            before,
            is_update: self.is_update,
            context: self.context,
            faulty,
            faults: Vec::new(),
        };
        rules::rule(rule)(&mut judged);
        for (name, problem) in judged.faults {
            let path = join(path, &name);
            if !name.is_empty() {
                if self.faults.iter().any(|fault| fault.path == path) {
                    continue;
                }
                // The fault of the property replaces the faults inside the property.
                self.faults.retain(|fault| !is_within(&fault.path, &path));
            }
            self.fault::<()>(&path, problem);
        }
    }

    /// Reports whether there is a fault at `path` or below it.
    fn has_fault(&self, path: &str) -> bool {
        self.faults.iter().any(|fault| is_within(&fault.path, path))
    }

    /// Reads an object whose property names the client chooses.
    fn map(&mut self, path: &str, given: &Map<String, Value>, of_each: &Value) -> Option<Value> {
        let read = given.iter().filter_map(|(name, value)| {
            let value = self.value(&join(path, name), value, of_each, None)?;
            Some((name.clone(), value))
        });
        Some(Value::Object(read.collect()))
    }

    /// Returns the alternative that the tag of the object selects; `None` for an object without alternatives. The tag
    /// may be left out in an object that `stays`.
    fn branch<'s>(
        &mut self,
        path: &str,
        given: &Map<String, Value>,
        schema: &'s Value,
        stays: Option<&Value>,
    ) -> Result<Option<&'s Value>, ()> {
        let branches = names::branches_of(schema);
        let Some(tag) = names::tag_of(branches) else {
            return Ok(None);
        };
        let words: Vec<&str> = branches
            .iter()
            .filter_map(|each| names::word_of(each, tag))
            .collect();
        let path = join(path, tag);
        let given = find(given, tag).filter(|value| !value.is_null());
        let word = match given.or_else(|| stays?.get(tag)) {
            Some(value) => self.word(&path, value, schema, &words),
            None => self.fault(
                &path,
                format!("it is missing; it must be {}", one_of(&words)),
            ),
        }
        .ok_or(())?;
        Ok(branches
            .iter()
            .find(|each| names::word_of(each, tag) == word.as_str()))
    }

    /// Reads one of the listed words, in any letter case.
    fn word(&mut self, path: &str, value: &Value, schema: &Value, words: &[&str]) -> Option<Value> {
        let Value::String(text) = value else {
            return self.wrong_kind(path, "a string", value);
        };
        let is_meant = |word: &&&str| word.eq_ignore_ascii_case(text);
        if let Some(word) = words.iter().find(is_meant) {
            return self.check(path, word, schema);
        }
        let expected = one_of(words);
        let others = schema["x-unsupported"].as_array().into_iter().flatten();
        let others: Vec<&str> = others.filter_map(Value::as_str).collect();
        let problem = match others.iter().find(is_meant) {
            Some(other) => {
                let hint = words::hint(schema);
                format!("{other:?} is not supported here, only {expected}{hint}")
            }
            None if text.is_empty() => format!("it is empty; it must be {expected}"),
            None => format!("it must be {expected}, but it is {}", shown(value)),
        };
        self.fault(path, problem)
    }

    fn list(
        &mut self,
        path: &str,
        value: &Value,
        schema: &Value,
        before: Option<&Value>,
    ) -> Option<Value> {
        let Value::Array(elements) = value else {
            return self.wrong_kind(path, "a list", value);
        };
        if let Some(problem) = words::length_problem(elements.len(), schema) {
            return self.fault(path, problem);
        }
        let read = elements.iter().enumerate().filter_map(|(at, each)| {
            let before = names::same_element(each, schema, before);
            self.value(&format!("{path}[{at}]"), each, &schema["items"], before)
        });
        Some(read.collect())
    }

    fn text(&mut self, path: &str, value: &Value, schema: &Value) -> Option<Value> {
        let Value::String(text) = value else {
            return self.wrong_kind(path, "a string", value);
        };
        match words::text_problem(text, schema) {
            None => self.check(path, text, schema),
            Some(problem) => self.fault(path, words::prefix(schema) + &problem),
        }
    }

    /// Applies the check that the schema names for a string, if there is one.
    fn check(&mut self, path: &str, text: &str, schema: &Value) -> Option<Value> {
        let check = schema["x-check"].as_str().map(rules::check);
        match check.map_or(Ok(()), |check| check(text, self.context)) {
            Ok(()) => Some(json!(text)),
            Err(problem) => self.fault(path, words::prefix(schema) + &problem),
        }
    }

    fn flag(&mut self, path: &str, value: &Value) -> Option<Value> {
        let text = value.as_str();
        let written = text.and_then(|text| text.to_ascii_lowercase().parse().ok());
        match value.as_bool().or(written) {
            Some(flag) => Some(flag.into()),
            None => self.wrong_kind(path, "true or false", value),
        }
    }

    /// Reads a number, or a string that holds a number, which templates and Azure's command line send.
    fn number(&mut self, path: &str, value: &Value, schema: &Value) -> Option<Value> {
        let text = value.as_str();
        let written = text.and_then(|text| serde_json::from_str::<Number>(text).ok());
        let number = written.map_or_else(|| value.clone(), Value::Number);
        if words::is_number_of(schema, &number) {
            return Some(number);
        }
        let problem = format!(
            "it must be {}, but it is {}",
            expected(schema),
            shown(value)
        );
        self.fault(path, problem)
    }

    fn missing(&mut self, path: &str, schema: &Value) {
        let prefix = words::prefix(schema);
        let problem = format!("{prefix}it is missing; it must be {}", expected(schema));
        self.fault::<()>(path, problem);
    }

    /// Reports a value of the wrong type. The message names the type and not the value, which may be a secret.
    fn wrong_kind<T>(&mut self, path: &str, expected: &str, value: &Value) -> Option<T> {
        let what = if path.is_empty() { "the body" } else { "it" };
        self.fault(
            path,
            format!("{what} must be {expected}, but it is {}", kind(value)),
        )
    }

    fn fault<T>(&mut self, path: &str, problem: String) -> Option<T> {
        self.faults.push(Fault {
            path: path.to_owned(),
            problem,
        });
        None
    }

    /// Checks the property names of an object. Returns the known names that were probably meant by unknown ones.
    fn names<'s>(
        &mut self,
        path: &str,
        given: &Map<String, Value>,
        known: &KnownProperties<'s>,
    ) -> BTreeSet<&'s str> {
        let (mut seen, mut hinted) = (BTreeSet::new(), BTreeSet::new());
        for (written, value) in given {
            if let Some(name) = known.name_of(written) {
                if !value.is_null() && !seen.insert(name) {
                    self.fault::<()>(&join(path, name), "it is given twice".to_owned());
                }
            } else if let Some(problem) = known.problem_of(written, value, path) {
                self.fault::<()>(&join(path, &words::shortened(written)), problem);
                hinted.extend(known.meant_by(written));
            }
        }
        hinted
    }
}

/// Keeps the stored queries of URLs that are given without a query, as responses show them.
fn keep_queries(
    read: &mut Map<String, Value>,
    known: &KnownProperties<'_>,
    before: Option<&Value>,
) {
    let properties = known.properties.iter();
    for (name, _) in properties.filter(|(_, property)| property["x-keepsQuery"] == true) {
        let url = |value: Option<&Value>| EndpointUrl::parse(value?.as_str()?).ok();
        let stored = before.and_then(|before| before.get(name));
        let (Some(given), Some(known)) = (url(read.get(*name)), url(stored)) else {
            continue;
        };
        if given.is_base_of(&known) {
            read.extend(stored.map(|stored| ((*name).to_owned(), stored.clone())));
        }
    }
}

/// Keeps the stored secrets that are left out, if the sibling properties in `x-kept` stay the same.
fn keep(read: &mut Map<String, Value>, known: &KnownProperties<'_>, before: Option<&Value>) {
    keep_queries(read, known, before);
    for (name, property) in &known.properties {
        let (Some(Value::Array(company)), Some(before)) = (property.get("x-kept"), before) else {
            continue;
        };
        let is_same = |name: &Value| {
            let given_name = name.as_str().unwrap_or_default();
            words::is_same(read.get(given_name), before.get(given_name))
        };
        let is_left_out = read.get(*name).is_none_or(Value::is_null);
        if is_left_out && company.iter().all(is_same) {
            read.extend(
                before
                    .get(name)
                    .map(|value| ((*name).to_owned(), value.clone())),
            );
        }
    }
}

/// Reports whether the path `inner` is `path` or below it.
fn is_within(inner: &str, path: &str) -> bool {
    let rest = inner.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the path of a property of the object at `path`.
pub(super) fn join(path: &str, name: &str) -> String {
    let dot = if path.is_empty() || name.is_empty() {
        ""
    } else {
        "."
    };
    format!("{path}{dot}{name}")
}

/// Reads an empty string as `null` where a property is optional and an empty string would have no meaning. Templates,
/// and clients that always send every property, send an empty string for no value.
fn none_if_empty<'v>(value: &'v Value, schema: &Value) -> &'v Value {
    const NONE: &Value = &Value::Null;
    let is_optional = schema["x-null"] == true && schema.get("x-kept").is_none();
    let is_checked = ["x-check", "enum", "oneOf", "format", "minLength"]
        .iter()
        .any(|keyword| schema.get(keyword).is_some());
    // An empty string for a property that responses do not show is a mistake of the client.
    let is_hidden = schema["writeOnly"] == true || schema["x-check"] == "headerValue";
    if value.as_str() == Some("") && is_optional && is_checked && !is_hidden {
        NONE
    } else {
        value
    }
}

/// Reports whether `before` is of the kind `branch`; true for a schema without alternatives.
fn is_same_kind(schema: &Value, branch: Result<Option<&Value>, ()>, before: &Value) -> bool {
    let Some(tag) = names::tag_of(names::branches_of(schema)) else {
        return true;
    };
    branch.is_ok_and(|branch| {
        branch.and_then(|each| names::word_of(each, tag)) == before[tag].as_str()
    })
}

/// Reports whether an object that is left out may be read as empty.
fn is_plain_object(schema: &Value) -> bool {
    schema["type"] == "object"
        && schema.get("x-expected").is_none()
        && schema.get("x-null").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A misspelt keyword would mean nothing, and so would the name of a check that is not there.
    pub(super) fn check_keywords(schema: &Value) {
        match schema {
            Value::Object(object) => object.iter().for_each(|(keyword, value)| {
                let name = value.as_str().unwrap_or_default();
                match keyword.as_str() {
                    "x-check" => drop(rules::check(name)),
                    "x-rule" => drop(rules::rule(name)),
                    "x-answered" | "x-closed" | "x-decimals" | "x-expected" | "x-formerly"
                    | "x-hint" | "x-inert" | "x-keepsQuery" | "x-kept" | "x-key" | "x-maxBytes"
                    | "x-noun" | "x-null" | "x-prefix" | "x-rejected" | "x-unsupported" => {}
                    other => assert!(!other.starts_with("x-"), "there is no keyword {other}"),
                }
                check_keywords(value);
            }),
            Value::Array(list) => list.iter().for_each(check_keywords),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}
