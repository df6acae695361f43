//! The names of an object's properties: the known names, and corrections of misspelled ones.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::words::one_of;

/// The properties that an object may have.
pub(super) struct KnownProperties<'s> {
    pub(super) properties: Vec<(&'s str, &'s Value)>,
    pub(super) required: BTreeSet<&'s str>,
    /// The property that says which kind of object it is.
    pub(super) tag: Option<&'s str>,
    rejected: Option<&'s Map<String, Value>>,
    /// Is true if other names are rejected instead of passed over.
    is_closed: bool,
}

impl<'s> KnownProperties<'s> {
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

    /// Returns the known name that equals `written` in any letter case.
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

    /// Describes the fault of an unknown name; `None` for a name that is ignored, since new versions of the SDKs add
    /// names. `path` is the path of the object.
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

    /// Returns the known name that differs from `written` by one or two typing errors.
    pub(super) fn meant_by(&self, written: &str) -> Option<&'s str> {
        nearest(written, self.properties.iter().map(|(name, _)| *name))
    }

    /// Reports whether the inner object `properties` has a property with this name.
    fn is_deeper(&self, written: &str) -> bool {
        let inner = self.properties.iter().filter(|(name, _)| *name == INNER);
        let mut names = inner.flat_map(|(_, schema)| properties_of(schema));
        names.any(|(name, _)| name.eq_ignore_ascii_case(written))
    }
}

/// The inner object that holds the properties of a resource in Azure's documents.
const INNER: &str = "properties";

/// Returns the alternatives in the schema of an object.
pub(super) fn branches_of(schema: &Value) -> &[Value] {
    schema["oneOf"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the name of the tag, the property whose value selects an alternative.
pub(super) fn tag_of(branches: &[Value]) -> Option<&str> {
    let mut properties = properties_of(branches.first()?);
    properties.find_map(|(name, schema)| schema.get("const").map(|_| name))
}

/// Returns the value of the tag that selects an alternative.
pub(super) fn word_of<'s>(branch: &'s Value, tag: &str) -> Option<&'s str> {
    branch["properties"][tag]["const"].as_str()
}

/// Returns the property with exactly this name, or else one whose name differs only in letter case.
pub(super) fn find<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let in_any_case = || {
        let mut all = object.iter();
        let found = all.find(|(written, _)| written.eq_ignore_ascii_case(name))?;
        Some(found.1)
    };
    object.get(name).or_else(in_any_case)
}

/// Returns the element of the stored list that has the same key as `element`.
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

/// Returns the schema of a property of an object. The tag of the object selects the alternative.
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

/// Returns the nearest of `names` within one typing error for names of 4 to 7 letters, or two for longer names. Shorter
/// names are too similar to each other for corrections.
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
