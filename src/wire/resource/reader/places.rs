//! Paths of properties in documents, determined from a schema. Fields of forms are named by the last segments of these
//! paths.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::names::{branches_of, properties_of, tag_of, word_of};

/// Finds the property closest to the root whose path ends with `name`, for example `type`, `authentication.type` or
/// `headers[2].name`. Returns its path and its schema. The property `without` and elements of lists from the index
/// `elements_max` on are ignored.
pub(crate) fn find<'s>(
    schema: &'s Value,
    name: &str,
    without: &str,
    elements_max: usize,
) -> Option<(String, &'s Value)> {
    let (pattern, index) = match name.split_once('[') {
        None => (name.to_owned(), String::new()),
        Some((list, rest)) => {
            let (index, rest) = rest.split_once(']')?;
            let at: usize = index.parse().ok()?;
            (at < elements_max).then(|| (format!("{list}[]{rest}"), format!("[{at}]")))?
        }
    };
    let end = format!(".{pattern}");
    let mut next = VecDeque::from([(String::new(), schema)]);
    while let Some((path, schema)) = next.pop_front() {
        if path.ends_with(&end) && path.contains("[]") == end.contains("[]") {
            return Some((path[1..].replace("[]", &index), schema));
        }
        let inner = properties(schema).filter(|(name, _)| *name != without);
        next.extend(inner.map(|(name, schema)| (format!("{path}.{name}"), schema)));
        let items = schema.get("items");
        next.extend(items.map(|items| (format!("{path}[]"), items)));
    }
    None
}

/// Returns the properties of an object, including the properties of all its alternatives.
pub(crate) fn properties(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let kinds = branches_of(schema).iter();
    properties_of(schema).chain(kinds.flat_map(properties_of))
}

pub(crate) fn lookup<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let pointer = path.replace(['.', '['], "/").replace(']', "");
    document.pointer(&format!("/{pointer}"))
}

/// Returns a reference to the value at `path`. Missing objects, lists and elements on the path are created.
pub(crate) fn slot<'a>(document: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(document, |object, name| {
        let Some((list, at)) = name.trim_end_matches(']').split_once('[') else {
            return &mut object[name];
        };
        let list = &mut object[list];
        let at: usize = at.parse().unwrap_or_default();
        if !list.is_array() {
            *list = json!([]);
        }
        let elements = list.as_array_mut().expect("it is one");
        if elements.len() <= at {
            elements.resize(at + 1, json!({}));
        }
        &mut elements[at]
    })
}

/// Removes properties that the kind of an object does not have, and objects without the tag that selects their kind.
/// Returns false if `value` itself is to be removed.
pub(crate) fn prune(value: &mut Value, schema: &Value) -> bool {
    for each in value.as_array_mut().into_iter().flatten() {
        prune(each, &schema["items"]);
    }
    let Some(object) = value.as_object_mut() else {
        return true;
    };
    let (branches, mut kind) = (branches_of(schema), None);
    if let Some(tag) = tag_of(branches) {
        let Some(word) = object.get(tag) else {
            return false;
        };
        let mut kinds = branches.iter();
        kind = kinds.find(|each| word_of(each, tag) == word.as_str());
        if kind.is_none() {
            return true; // the reader says which words there are
        }
    }
    let was_empty = object.is_empty();
    object.retain(|name, inner| {
        let mut parts = [Some(schema), kind].into_iter().flatten();
        let known = parts.find_map(|part| part["properties"].get(name));
        known.is_some_and(|schema| prune(inner, schema))
    });
    was_empty || !object.is_empty()
}
