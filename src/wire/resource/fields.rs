//! The properties of one JSON object of a request, read one at a time, with errors that name the
//! path.
//!
//! Names are found in any letter case, and `null` counts as absent, because that is how Azure's
//! clients and servers treat them. Unknown names are passed over, since every version of the SDKs
//! brings new ones; only a name that is a slip of the pen away from a known one is refused, because
//! the setting that its author meant would be lost without a word.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{INVALID_REQUEST, InvalidResource};
use crate::wire::bad_input::quoted;

/// What stands for an object that is absent where all of its properties have defaults.
static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// One object, and where it stands.
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    path: String,
    from: Origin,
}

/// Who wrote the document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A client; its slips of the pen are pointed out.
    Request,
    /// The appliance itself, perhaps an older version.
    Store,
}

impl<'a> Fields<'a> {
    /// The document itself.
    pub(super) fn root(body: &'a Value, from: Origin) -> Result<Self, InvalidResource> {
        Self::open(body, String::new(), from)
    }

    fn open(value: &'a Value, path: String, from: Origin) -> Result<Self, InvalidResource> {
        let Value::Object(object) = value else {
            return Err(wrong_kind(path, "an object", value));
        };
        Ok(Self { object, path, from })
    }

    /// The object's raw properties.
    pub(super) fn raw(&self) -> &'a Map<String, Value> {
        self.object
    }

    /// The path to the property `name` of this object.
    pub(super) fn path_of(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    /// An error at the property `name`.
    pub(super) fn invalid(&self, name: &str, problem: impl Into<String>) -> InvalidResource {
        InvalidResource {
            code: INVALID_REQUEST,
            target: self.path_of(name),
            problem: problem.into(),
        }
    }

    /// The error for a property that must be there.
    pub(super) fn missing(&self, name: &str, expected: &str) -> InvalidResource {
        self.invalid(name, format!("it is missing; it must be {expected}"))
    }

    /// Whether the property is not mentioned at all, not even as `null`.
    pub(super) fn is_absent(&self, name: &str) -> bool {
        self.find(name).is_none()
    }

    /// What an update makes of a property: untouched where it is not mentioned, else what `read` finds.
    pub(super) fn updated<T: Clone>(
        &self,
        name: &str,
        current: Option<&T>,
        read: impl FnOnce(&Self) -> Result<T, InvalidResource>,
    ) -> Result<T, InvalidResource> {
        match current {
            Some(current) if self.is_absent(name) => Ok(current.clone()),
            Some(_) | None => read(self),
        }
    }

    /// The property's value.
    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        self.find(name).filter(|value| !value.is_null())
    }

    fn find(&self, name: &str) -> Option<&'a Value> {
        let in_any_case = || {
            let mut all = self.object.iter();
            let found = all.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
            Some(found.1)
        };
        self.object.get(name).or_else(in_any_case)
    }

    /// A string.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, InvalidResource> {
        self.value(name)
            .map(|value| text(value, || self.path_of(name)))
            .transpose()
    }

    /// A string that is neither missing nor empty.
    pub(super) fn required_text(
        &self,
        name: &str,
        expected: &str,
    ) -> Result<&'a str, InvalidResource> {
        match self.text(name)? {
            None => Err(self.missing(name, expected)),
            Some("") => Err(self.invalid(name, format!("it is empty; it must be {expected}"))),
            Some(text) => Ok(text),
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, InvalidResource> {
        let read = |value: &Value| {
            let wrong = || wrong_kind(self.path_of(name), "true or false", value);
            value.as_bool().ok_or_else(wrong)
        };
        self.value(name).map(read).transpose()
    }

    /// A whole number within `range`.
    pub(super) fn number(
        &self,
        name: &str,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, InvalidResource> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let number = value.as_u64().and_then(|number| number.try_into().ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (low, high) = range.into_inner();
                let expected = format!("it must be a whole number from {low} to {high}");
                Err(self.invalid(name, format!("{expected}, but it is {}", shown(value))))
            }
        }
    }

    /// A number with up to three decimals within `range`, both in thousandths.
    pub(super) fn thousandths(
        &self,
        name: &str,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, InvalidResource> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let found = value.as_f64().and_then(in_thousandths);
        match found.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (low, high) = range.into_inner();
                let (low, high) = (f64::from(low) / 1_000.0, f64::from(high) / 1_000.0);
                let expected =
                    format!("it must be a number from {low} to {high} with up to three decimals");
                Err(self.invalid(name, format!("{expected}, but it is {}", shown(value))))
            }
        }
    }

    /// One of a few words, in any letter case.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &str,
        options: &[(&str, T)],
    ) -> Result<Option<T>, InvalidResource> {
        let Some(word) = self.text(name)? else {
            return Ok(None);
        };
        let mut all = options.iter();
        match all.find(|(known, _)| known.eq_ignore_ascii_case(word)) {
            Some((_, meant)) => Ok(Some(*meant)),
            None => {
                let known: Vec<&str> = options.iter().map(|(known, _)| *known).collect();
                let known = one_of(&known);
                Err(self.invalid(
                    name,
                    format!("it must be {known}, but it is {}", quoted(word)),
                ))
            }
        }
    }

    /// An object.
    pub(super) fn object(&self, name: &str) -> Result<Option<Fields<'a>>, InvalidResource> {
        self.value(name)
            .map(|value| Self::open(value, self.path_of(name), self.from))
            .transpose()
    }

    /// An object whose properties all have defaults, so that it may be absent.
    pub(super) fn object_or_empty(&self, name: &str) -> Result<Fields<'a>, InvalidResource> {
        let nothing = || Fields {
            object: &NOTHING,
            path: self.path_of(name),
            from: self.from,
        };
        Ok(self.object(name)?.unwrap_or_else(nothing))
    }

    /// An object of strings under names of the client's choice.
    pub(super) fn text_map(&self, name: &str) -> Result<BTreeMap<String, String>, InvalidResource> {
        let map = self.object_or_empty(name)?;
        let read = |(key, value): (&String, &Value)| {
            let text = text(value, || map.path_of(key))?;
            Ok((key.clone(), text.to_owned()))
        };
        map.object.iter().map(read).collect()
    }

    /// A list of objects.
    pub(super) fn objects(&self, name: &str) -> Result<Option<Vec<Fields<'a>>>, InvalidResource> {
        let open = |(path, value)| Self::open(value, path, self.from);
        self.list(name)?
            .map(|elements| elements.into_iter().map(open).collect())
            .transpose()
    }

    /// A list of strings.
    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, InvalidResource> {
        let read = |(path, value)| text(value, || path).map(str::to_owned);
        self.list(name)?
            .map(|elements| elements.into_iter().map(read).collect())
            .transpose()
    }

    fn list(&self, name: &str) -> Result<Option<Vec<(String, &'a Value)>>, InvalidResource> {
        let path = self.path_of(name);
        match self.value(name) {
            None => Ok(None),
            Some(Value::Array(elements)) => {
                let elements = elements.iter().enumerate();
                let with_path = elements.map(|(at, each)| (format!("{path}[{at}]"), each));
                Ok(Some(with_path.collect()))
            }
            Some(other) => Err(wrong_kind(path, "a list", other)),
        }
    }

    /// Whether the appliance itself wrote the document.
    pub(super) fn is_stored(&self) -> bool {
        self.from == Origin::Store
    }

    /// Refuses names that look like misspellings of `known` ones.
    pub(super) fn expect_names(&self, known: &[&str]) -> Result<(), InvalidResource> {
        if self.from == Origin::Store {
            return Ok(());
        }
        for name in self.object.keys() {
            if let Some(meant) = misspelt(name, known) {
                return Err(self.invalid(
                    name,
                    format!("there is no such property; it is probably meant to be {meant:?}"),
                ));
            }
        }
        Ok(())
    }

    /// Refuses `names` on this level, because they would be passed over: they belong into the object
    /// `inner`.
    pub(super) fn expect_inside(&self, inner: &str, names: &[&str]) -> Result<(), InvalidResource> {
        match names.iter().find(|name| !self.is_absent(name)) {
            Some(name) if self.from == Origin::Request => {
                let place = self.path_of(inner);
                Err(self.invalid(name, format!("it belongs into {place:?}, one level deeper")))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// `None` for what has more decimals, or does not fit.
fn in_thousandths(number: f64) -> Option<u32> {
    let thousandths = number * 1_000.0;
    let whole = thousandths.round();
    // What a decimal fraction can be off by in binary.
    let is_whole = (thousandths - whole).abs() < 1e-6;
    let fits = (0.0..=f64::from(u32::MAX)).contains(&whole);
    (is_whole && fits).then_some(whole as u32)
}

fn text(value: &Value, path: impl FnOnce() -> String) -> Result<&str, InvalidResource> {
    value
        .as_str()
        .ok_or_else(|| wrong_kind(path(), "a string", value))
}

/// Names the kind of what came instead, not the value: it may be a secret.
fn wrong_kind(target: String, expected: &str, value: &Value) -> InvalidResource {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    let what = if target.is_empty() { "the body" } else { "it" };
    InvalidResource {
        code: INVALID_REQUEST,
        problem: format!("{what} must be {expected}, but it is {found}"),
        target,
    }
}

/// A value for an error text, shortened.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// `"a"`, `"a" or "b"`, `"a", "b" or "c"`.
pub(super) fn one_of(words: &[&str]) -> String {
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        let joint = match at {
            0 => "",
            _ if at + 1 == words.len() => " or ",
            _ => ", ",
        };
        write!(text, "{joint}{word:?}").expect("a string takes everything");
    }
    text
}

/// The name among `known` that `name` is probably meant to be; `None` where it is one of them, or
/// like none of them.
fn misspelt<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    if known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return None;
    }
    known
        .iter()
        .copied()
        .find(|known| is_near(&name.to_ascii_lowercase(), &known.to_ascii_lowercase()))
}

/// Whether a slip or two lead from `known` to `name`: one in names of 4 to 7 letters, two in longer
/// ones. Shorter names are too close to each other to tell.
fn is_near(name: &str, known: &str) -> bool {
    let slips_max = match known.len() {
        0..4 => return false,
        4..8 => 1,
        8.. => 2,
    };
    name.len().abs_diff(known.len()) <= slips_max && slips(name, known) <= slips_max
}

/// How many letters must be added, left out, replaced or swapped with their neighbour to turn `from`
/// into `to` (the distance "optimal string alignment").
fn slips(from: &str, to: &str) -> usize {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    let mut before_last = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for i in 0..from.len() {
        let mut row = vec![i + 1];
        for j in 0..to.len() {
            let replaced = last[j] + usize::from(from[i] != to[j]);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from[i] == to[j - 1] && from[i - 1] == to[j] {
                least = least.min(before_last[j - 1] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_told_from_new_names() {
        let known = ["endpointUrl", "filter", "tags", "id", "maxEventsPerBatch"];
        for (name, meant) in [
            ("endpointUrl", None),
            ("ENDPOINTURL", None),
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
            assert_eq!(misspelt(name, &known), meant, "{name}");
        }
    }

    #[test]
    fn words_are_listed_in_a_sentence() {
        assert_eq!(one_of(&["a"]), "\"a\"");
        assert_eq!(one_of(&["a", "b", "c"]), "\"a\", \"b\" or \"c\"");
    }
}
