//! Places of properties in documents of a kind, as its schema states them: for forms, whose fields are named by the
//! ends of these paths.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::names::{branches_of, properties_of, tag_of, word_of};

/// The path and the schema of the property that `name` ends the path of, the nearest to the top: `type`,
/// `authentication.type`, `headers[2].name`. The property `without` is passed over, and so are elements of lists from
/// `elements_max` on.
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

/// Returns the properties of an object, with those of all its kinds.
pub(crate) fn properties(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let kinds = branches_of(schema).iter();
    properties_of(schema).chain(kinds.flat_map(properties_of))
}

pub(crate) fn lookup<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let pointer = path.replace(['.', '['], "/").replace(']', "");
    document.pointer(&format!("/{pointer}"))
}

/// The place of what is to be at the path, which is made.
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

/// Takes out what objects of the kind do not have, and those that have no kind; false for one of these.
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
