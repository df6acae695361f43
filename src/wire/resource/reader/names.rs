//! The names of an object's properties: which there are, and which was probably meant.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::words::one_of;

/// The properties that an object may have.
pub(super) struct Known<'s> {
    pub(super) properties: Vec<(&'s str, &'s Value)>,
    pub(super) required: BTreeSet<&'s str>,
    /// The property that says which kind of object it is.
    pub(super) tag: Option<&'s str>,
    rejected: Option<&'s Map<String, Value>>,
    /// Is true if other names are rejected instead of passed over.
    is_closed: bool,
}

impl<'s> Known<'s> {
    /// Collects the properties that an object of these `kinds` may have.
    pub(super) fn new(schema: &'s Value, kinds: &[&'s Value]) -> Self {
        let parts = || [schema].into_iter().chain(kinds.iter().copied());
        let required = parts()
            .filter_map(|part| part["required"].as_array())
            .flatten();
        Self {
            properties: parts().flat_map(properties_of).collect(),
            required: required.filter_map(Value::as_str).collect(),
            tag: kinds.first().and_then(|_| tag_of(branches_of(schema))),
            rejected: parts().find_map(|part| part["x-rejected"].as_object()),
            is_closed: parts()
                .any(|part| part["additionalProperties"] == false || part["x-closed"] == true),
        }
    }

    /// The known name that is written in this or another letter case.
    pub(super) fn name_of(&self, written: &str) -> Option<&'s str> {
        let is_name = |name: &str| name.eq_ignore_ascii_case(written);
        let is_written = |(name, schema): &&(&str, &Value)| {
            is_name(name) || schema["x-formerly"].as_str().is_some_and(is_name)
        };
        self.properties
            .iter()
            .find(is_written)
            .map(|(name, _)| *name)
    }

    /// Describes what is wrong with a name that is not known; `None` for one that is passed over, since every version
    /// of the SDKs brings new ones. `path` is that of the object.
    pub(super) fn problem_of(&self, written: &str, value: &Value, path: &str) -> Option<String> {
        if self.is_closed && value.is_null() {
            return None;
        }
        let rejected = self.rejected.into_iter().flatten();
        if let Some((_, problem)) = rejected
            .clone()
            .find(|(name, _)| name.eq_ignore_ascii_case(written))
        {
            return problem
                .as_str()
                .filter(|_| !value.is_null())
                .map(str::to_owned);
        }
        if self.is_deeper(written) {
            let place = super::join(path, INNER);
            return Some(format!("it belongs into {place:?}, one level deeper"));
        }
        let rejected_names = rejected.map(|(name, _)| name.as_str());
        if let Some(meant) = self
            .meant_by(written)
            .or_else(|| nearest(written, rejected_names))
        {
            return Some(format!(
                "there is no such property; it is probably meant to be {meant:?}"
            ));
        }
        let names: Vec<&str> = self.properties.iter().map(|(name, _)| *name).collect();
        let problem = || format!("there is no such property; there is {}", one_of(&names));
        self.is_closed.then(problem)
    }

    /// The known name that is a slip or two away.
    pub(super) fn meant_by(&self, written: &str) -> Option<&'s str> {
        nearest(written, self.properties.iter().map(|(name, _)| *name))
    }

    /// Reports whether the name is one of the inner object `properties`.
    fn is_deeper(&self, written: &str) -> bool {
        let inner = self.properties.iter().filter(|(name, _)| *name == INNER);
        let mut names = inner.flat_map(|(_, schema)| properties_of(schema));
        names.any(|(name, _)| name.eq_ignore_ascii_case(written))
    }
}

/// The object in which Azure's documents hold what matters.
const INNER: &str = "properties";

/// The alternatives of an object.
pub(super) fn branches_of(schema: &Value) -> &[Value] {
    schema["oneOf"].as_array().map_or(&[], Vec::as_slice)
}

/// The property by whose value alternatives are told apart.
pub(super) fn tag_of(branches: &[Value]) -> Option<&str> {
    let mut properties = properties_of(branches.first()?);
    properties.find_map(|(name, schema)| schema.get("const").map(|_| name))
}

/// The value of the tag of an alternative.
pub(super) fn word_of<'s>(branch: &'s Value, tag: &str) -> Option<&'s str> {
    branch["properties"][tag]["const"].as_str()
}

/// A property in this spelling, or else in another letter case.
pub(super) fn find<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let in_any_case = || {
        let mut all = object.iter();
        let found = all.find(|(written, _)| written.eq_ignore_ascii_case(name))?;
        Some(found.1)
    };
    object.get(name).or_else(in_any_case)
}

/// The element of a list as it was before that has the same key.
pub(super) fn same_element<'v>(
    element: &Value,
    schema: &Value,
    before: Option<&'v Value>,
) -> Option<&'v Value> {
    let key = schema["x-key"].as_str()?;
    let name = find(element.as_object()?, key)?.as_str()?;
    let mut known = before?.as_array()?.iter();
    known.find(|known| {
        known[key]
            .as_str()
            .is_some_and(|known| known.eq_ignore_ascii_case(name))
    })
}

/// The schema of a property of an object, whose tag says which alternative it is.
pub(in crate::wire::resource) fn property_of<'s>(
    schema: &'s Value,
    object: &Map<String, Value>,
    name: &str,
) -> Option<&'s Value> {
    let branches = branches_of(schema);
    let word = |tag: &str| object.get(tag).and_then(Value::as_str);
    let is_kind = |tag: &str, branch: &&Value| word_of(branch, tag) == word(tag);
    let kind = tag_of(branches).and_then(|tag| branches.iter().find(|branch| is_kind(tag, branch)));
    let mut parts = [Some(schema), kind].into_iter().flatten();
    parts.find_map(|part| part["properties"].get(name))
}

pub(super) fn properties_of(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.map(|(name, schema)| (name.as_str(), schema))
}

/// The nearest of `names` that is a slip or two away: one in names of 4 to 7 letters, two in longer ones.
/// Shorter names are too close to each other to tell.
fn nearest<'n>(written: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = names.filter_map(|name| {
        let slips_max = match name.len() {
            0..4 => return None,
            4..8 => 1,
            8.. => 2,
        };
        let slips = strsim::osa_distance(&written.to_ascii_lowercase(), &name.to_ascii_lowercase());
        (slips <= slips_max).then_some((slips, name))
    });
    near.min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_told_from_new_names() {
        let known = ["endpointUrl", "filter", "tags", "id", "maxEventsPerBatch"];
        for (name, meant) in [
            ("endpointUri", Some("endpointUrl")),
            ("endpiontUrl", Some("endpointUrl")),
            ("endpontUr", Some("endpointUrl")),
            ("endpointAddress", None),
            ("Filters", Some("filter")),
            ("fitler", Some("filter")),
            ("folders", None),
            ("tag", Some("tags")),
            ("tagged", None),
            ("ip", None),
            ("ids", None),
            ("maxEventPerBatsh", Some("maxEventsPerBatch")),
            ("maxBytesPerBatch", None),
            ("größe", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known.into_iter()), meant, "{name}");
        }
    }
}
