//! Access to values in JSON text without building a tree: only the requested values are parsed.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::de::Read;
use serde_json::value::RawValue;

/// Returns the value at `path` in the JSON text `json`, as JSON text. Each step is the name of a property. A property
/// with exactly this name takes precedence over one in another letter case (rule 4.3). If several properties have the
/// same name, the last one counts, as in most parsers.
pub fn value_at<'a>(json: &'a str, path: &[&str]) -> Option<&'a str> {
    path.iter()
        .try_fold(json, |json, name| JsonMembers::parse(json)?.find(name))
}

/// Returns a JSON string, number or boolean as plain text; `None` for any other value.
pub fn scalar_text(json: &str) -> Option<String> {
    match JsonKind::of(json) {
        JsonKind::String => string(json),
        JsonKind::Number | JsonKind::Boolean => Some(json.to_owned()),
        JsonKind::Object | JsonKind::Array | JsonKind::Null | JsonKind::Nothing => None,
    }
}

/// Returns the text of a JSON string. Returns `None` for any other value, and for a string with an unpaired surrogate.
/// `json` must be valid JSON.
pub(super) fn string(json: &str) -> Option<String> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(json).ok();
    }
    Some(inner.to_owned())
}

/// The kind of a JSON value, determined from the first byte of its text that is not white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonKind {
    Object,
    Array,
    String,
    Number,
    Boolean,
    Null,
    /// No JSON value at all.
    Nothing,
}

impl JsonKind {
    pub(super) fn of(json: &str) -> Self {
        match json.trim_ascii_start().bytes().next() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::String,
            Some(b'-' | b'0'..=b'9') => Self::Number,
            Some(b't' | b'f') => Self::Boolean,
            Some(b'n') => Self::Null,
            Some(_) | None => Self::Nothing,
        }
    }

    /// Returns the name of the kind with its article, for use in a sentence.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::String => "a string",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::Null => "null",
            Self::Nothing => "no JSON value",
        }
    }

    /// Returns a plain description of how a value of this kind is written in JSON.
    pub(super) fn in_plain_words(self) -> &'static str {
        match self {
            Self::Object => "an object in braces, { }",
            Self::Array => "a list in brackets, [ ]",
            Self::String => "a text in quotation marks",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::Null => "null",
            Self::Nothing => "nothing",
        }
    }

    /// Returns the name that Event Grid uses for the kind in its errors.
    pub(super) fn token(self) -> &'static str {
        match self {
            Self::Object => "StartObject",
            Self::Array => "StartArray",
            Self::String => "String",
            Self::Number => "Number",
            Self::Boolean => "Boolean",
            Self::Null => "Null",
            Self::Nothing => "nothing",
        }
    }
}

/// Reports whether arrays and objects are nested more than `depth_max` levels deep anywhere in the text. Counts only
/// brackets and braces outside of strings, so the text need not be valid JSON.
pub(super) fn is_deeper_than(json: &str, depth_max: usize) -> bool {
    let mut depth = 0usize;
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > depth_max {
            return true;
        }
    }
    false
}

fn skip_string(bytes: &mut std::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

/// The properties of a JSON object in their original order, with each value as JSON text.
#[derive(Debug)]
pub(super) struct JsonMembers<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> JsonMembers<'a> {
    fn parse(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Returns a name that more than one property has; `None` if all names are distinct.
    pub(super) fn duplicate(&self) -> Option<&str> {
        let mut names: Vec<&str> = self.0.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        names
            .windows(2)
            .find(|two| two[0] == two[1])
            .map(|two| two[0])
    }

    /// Returns the name and the value of each property, in order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (&**name, value.get()))
    }

    /// Returns the value of the property `name`, in exactly this spelling. If several properties have this name, the
    /// last one counts.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        let mut members = self.iter().rev();
        Some(members.find(|(each, _)| *each == name)?.1)
    }

    /// Returns the value of the property `name`. Ignores letter case if no property has exactly this spelling.
    pub(super) fn find(&self, name: &str) -> Option<&'a str> {
        let other_case =
            |(each, value): (&str, &'a str)| each.eq_ignore_ascii_case(name).then_some(value);
        self.get(name)
            .or_else(|| self.iter().rev().find_map(other_case))
    }
}

#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for JsonMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonObject;

        impl<'de> Visitor<'de> for JsonObject {
            type Value = JsonMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                // Few envelopes have more than ten properties.
                let mut members = Vec::with_capacity(10);
                while let Some((Name(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(JsonMembers(members))
            }
        }

        deserializer.deserialize_map(JsonObject)
    }
}

/// The values of a JSON array of at most `MAX` values. Deserialization of a longer array reads at most one value beyond
/// the maximum, and fails with an error that states the maximum.
#[derive(Debug)]
pub struct AtMost<T, const MAX: usize>(pub Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for AtMost<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let elements = Elements {
            max: MAX,
            are_more: &mut false,
            of: PhantomData::<T>,
        };
        deserializer.deserialize_seq(elements).map(Self)
    }
}

/// Reads a JSON array of at most `max` values. Returns `None` for a longer array, after reading at most one value
/// beyond the maximum.
pub(super) fn at_most<'a, T: Deserialize<'a>>(
    mut text: serde_json::Deserializer<impl Read<'a>>,
    max: usize,
) -> serde_json::Result<Option<Vec<T>>> {
    let mut are_more = false;
    let elements = Elements {
        max,
        are_more: &mut are_more,
        of: PhantomData::<T>,
    };
    let read = Deserializer::deserialize_seq(&mut text, elements);
    if are_more {
        return Ok(None);
    }
    let values = read?;
    text.end()?;
    Ok(Some(values))
}

/// A visitor that reads the values of an array up to a maximum number.
struct Elements<'a, T> {
    max: usize,
    /// Becomes true if the array has more than `max` values.
    are_more: &'a mut bool,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = array.next_element()? {
            if values.len() == self.max {
                *self.are_more = true;
                return Err(A::Error::custom(format_args!(
                    "a list that may have at most {} elements has more",
                    self.max
                )));
            }
            values.push(value);
        }
        Ok(values)
    }
}

/// Writes one JSON object, property by property, directly to the output.
pub(super) struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> ObjectWriter<'a> {
    pub(super) fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out }
    }

    /// Writes a property whose value is a string.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        write_string(self.out, value);
    }

    /// Writes a property whose value is already JSON text.
    pub(super) fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
        self.out.extend_from_slice(json.as_bytes());
    }

    pub(super) fn close(self) {
        self.out.push(b'}');
    }

    fn name(&mut self, name: &str) {
        // No value ends with an opening brace, so a brace at the end means that the object has no properties yet.
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        write_string(self.out, name);
        self.out.push(b':');
    }
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string is written to memory");
}

/// Returns `text` as a JSON string.
pub(super) fn to_string(text: &str) -> String {
    serde_json::to_string(text).expect("a string is written to memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_values_in_place() {
        let json = r#"{"a":{"b": [1, 2] ,"B":"capital","n":null},"s":"x","s":"last"}"#;
        for (path, expected) in [
            ("a.b", Some("[1, 2]")),
            ("a.B", Some("\"capital\"")),
            ("A.N", Some("null")),
            ("s", Some("\"last\"")),
            ("a.c", None),
            ("s.x", None),
            ("", None),
        ] {
            let path: Vec<&str> = path.split('.').collect();
            assert_eq!(value_at(json, &path), expected, "{path:?}");
        }
        assert_eq!(value_at("[1]", &[]), Some("[1]"));
    }

    #[test]
    fn scalars_read_as_text() {
        for (json, expected) in [
            (r#""plain""#, Some("plain")),
            (r#""a\u00e4\"\/""#, Some("aä\"/")),
            (r#""""#, Some("")),
            ("-1.50e3", Some("-1.50e3")),
            ("true", Some("true")),
            ("null", None),
            ("[]", None),
            ("{}", None),
            (r#""\ud800""#, None),
        ] {
            assert_eq!(scalar_text(json).as_deref(), expected, "{json}");
        }
    }

    #[test]
    fn depth_is_counted_outside_of_strings() {
        for (json, depth) in [
            ("1", 0),
            ("[]", 1),
            (r#"[{"a":[]},{"a":[]}]"#, 3),
            (r#"["[[[[", "\"[[[["]"#, 1),
            (r#"["\\",[]]"#, 2),
            ("]]][", 1),
            ("\"[[[", 0),
        ] {
            assert!(!is_deeper_than(json, depth), "{json}");
            assert!(depth == 0 || is_deeper_than(json, depth - 1), "{json}");
        }
    }

    #[test]
    fn arrays_are_read_as_far_as_they_may_be_long() {
        // Whoever read on would stumble over what stands behind the third number.
        let read = |text| at_most::<u8>(serde_json::Deserializer::from_str(text), 2);
        for (text, expected) in [
            ("[]", Some(vec![])),
            (" [1, 2] ", Some(vec![1, 2])),
            ("[1,2,3]", None),
            ("[1,2,3,x", None),
        ] {
            assert_eq!(read(text).expect(text), expected, "{text}");
        }
        for text in ["", "[", "[1,2", "[1,x", "[1,2] 3", "{}", "[300]"] {
            assert!(read(text).is_err(), "{text}");
        }
        let named = |text| serde_json::from_str::<AtMost<u8, 2>>(text).map(|read| read.0);
        assert_eq!(named("[1,2]").expect("two"), [1, 2]);
        let said = named("[1,2,3,x").expect_err("too many").to_string();
        assert!(said.contains("at most 2 elements"), "{said}");
    }

    #[test]
    fn objects_are_written_property_by_property() {
        let mut out = Vec::new();
        let mut object = ObjectWriter::open(&mut out);
        object.text("a\"b", "line\nbreak");
        object.raw("n", " [1] ");
        object.close();
        ObjectWriter::open(&mut out).close();
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text, r#"{"a\"b":"line\nbreak","n": [1] }{}"#);
    }
}
