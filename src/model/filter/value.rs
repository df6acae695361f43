//! Values of an event, parsed from its JSON text only where a filter needs them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::model::filter::number::Decimal;
use crate::model::filter::text::{Text, fold};

/// Bytes of a text that count as one step: roughly the work to compare a number.
const STEP_BYTES: usize = 16;

/// Characters of a value that an explanation shows.
const SHOWN_MAX: usize = 200;

/// A value that is parsed on first use.
pub(super) struct Node<'a> {
    written: WrittenNumber<'a>,
    value: OnceCell<FilterValue<'a>>,
}

#[derive(Clone, Copy)]
enum WrittenNumber<'a> {
    Text(&'a str),
    Json(&'a str),
    Attribute(&'a str),
}

pub(super) enum FilterValue<'a> {
    Null,
    Scalar(Scalar),
    /// The scalars among the elements; nothing else in an array can be filtered on (rule 4.2).
    Array(Vec<Scalar>),
    Object(FoldedMembers<'a>),
}

pub(super) enum Scalar {
    Bool(bool),
    Number(Decimal),
    /// In folded form.
    Text(String),
    /// A number or boolean in a CloudEvents attribute, which is a text as well (rule A).
    Attribute {
        typed: Box<Scalar>,
        text: String,
    },
}

/// The members of an object, sorted by folded name. Among members with one folded name, the last one in the JSON text
/// comes last. The others are sorted by name, and members with one name keep the order of the text.
pub(super) struct FoldedMembers<'a>(Vec<Member<'a>>);

struct Member<'a> {
    name: Cow<'a, str>,
    folded: String,
    node: Node<'a>,
}

impl<'a> Node<'a> {
    /// A plain text.
    pub(super) fn text(text: &'a str) -> Self {
        Self::new(WrittenNumber::Text(text))
    }

    /// Takes JSON text. Invalid JSON counts as `null`; no input of the appliance accepts such text.
    pub(super) fn json(text: &'a str) -> Self {
        Self::new(WrittenNumber::Json(text.trim_ascii()))
    }

    /// The JSON text of a CloudEvents attribute.
    pub(super) fn attribute(text: &'a str) -> Self {
        Self::new(WrittenNumber::Attribute(text.trim_ascii()))
    }

    fn new(written: WrittenNumber<'a>) -> Self {
        let value = OnceCell::new();
        Self { written, value }
    }

    pub(super) fn value(&self) -> &FilterValue<'a> {
        self.value.get_or_init(|| match self.written {
            WrittenNumber::Text(text) => FilterValue::Scalar(Scalar::Text(fold(text))),
            WrittenNumber::Json(text) => read(text).unwrap_or(FilterValue::Null),
            WrittenNumber::Attribute(text) => {
                read_attribute(text).map_or(FilterValue::Null, FilterValue::Scalar)
            }
        })
    }

    /// The value at the end of a path through objects.
    pub(super) fn at(&self, path: &[Text]) -> Option<&Self> {
        path.iter().try_fold(self, |node, name| match node.value() {
            FilterValue::Object(members) => members.get(name),
            FilterValue::Null | FilterValue::Scalar(_) | FilterValue::Array(_) => None,
        })
    }

    /// The value as JSON, cut off where it is long.
    pub(super) fn shown(&self) -> String {
        match self.written {
            WrittenNumber::Json(text) | WrittenNumber::Attribute(text) => shorten(text),
            WrittenNumber::Text(text) => show_text(text),
        }
    }
}

/// A plain text as JSON, cut off where it is long.
pub(super) fn show_text(text: &str) -> String {
    shorten(&serde_json::Value::from(text).to_string())
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl FilterValue<'_> {
    /// Returns the number of steps that it takes to compare the value once.
    pub(super) fn steps(&self) -> usize {
        match self {
            Self::Null | Self::Object(_) => 1,
            Self::Scalar(value) => value.steps(),
            Self::Array(elements) => 1 + elements.iter().map(Scalar::steps).sum::<usize>(),
        }
    }
}

impl Scalar {
    fn steps(&self) -> usize {
        1 + self.text().map_or(0, str::len) / STEP_BYTES
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Attribute { typed, .. } => typed.boolean(),
            Self::Number(_) | Self::Text(_) => None,
        }
    }

    pub(super) fn number(&self) -> Option<&Decimal> {
        match self {
            Self::Number(value) => Some(value),
            Self::Attribute { typed, .. } => typed.number(),
            Self::Bool(_) | Self::Text(_) => None,
        }
    }

    /// In folded form.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Attribute { text, .. } => Some(text),
            Self::Bool(_) | Self::Number(_) => None,
        }
    }
}

impl<'a> FoldedMembers<'a> {
    /// Returns all members with their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Node<'a>)> {
        self.0.iter().map(|member| (&*member.name, &member.node))
    }

    /// Returns the member with exactly this name, else one that differs only in letter case (rule 4.3). If there are
    /// several, the last one counts.
    fn get(&self, name: &Text) -> Option<&Node<'a>> {
        let start = self
            .0
            .partition_point(|member| *member.folded < *name.folded());
        let rest = &self.0[start..];
        let alike = &rest[..rest.partition_point(|member| member.folded == name.folded())];
        let (last, others) = alike.split_last()?;
        let is_exact = |member: &&Member<'_>| member.name == name.as_str();
        let up_to = others.partition_point(|member| *member.name <= *name.as_str());
        let exact = others[..up_to].last().filter(is_exact);
        let found = exact.filter(|_| !is_exact(&last)).unwrap_or(last);
        Some(&found.node)
    }
}

/// Parses one level of the JSON text; nested values remain text.
fn read(json: &str) -> Option<FilterValue<'_>> {
    match json.as_bytes().first()? {
        b'n' => Some(FilterValue::Null),
        b'{' => serde_json::from_str(json).ok().map(FilterValue::Object),
        b'[' => read_array(json).map(FilterValue::Array),
        _ => read_scalar(json).map(FilterValue::Scalar),
    }
}

fn read_array(json: &str) -> Option<Vec<Scalar>> {
    let elements: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    let scalars = elements.iter().filter_map(|each| read_scalar(each.get()));
    Some(scalars.collect())
}

fn read_scalar(json: &str) -> Option<Scalar> {
    match json.as_bytes().first()? {
        b't' => Some(Scalar::Bool(true)),
        b'f' => Some(Scalar::Bool(false)),
        b'"' => {
            let text: JsonText<'_> = serde_json::from_str(json).ok()?;
            Some(Scalar::Text(fold(&text.0)))
        }
        _ => Decimal::parse(json).map(Scalar::Number),
    }
}

fn read_attribute(json: &str) -> Option<Scalar> {
    match read_scalar(json)? {
        text @ (Scalar::Text(_) | Scalar::Attribute { .. }) => Some(text),
        typed @ (Scalar::Bool(_) | Scalar::Number(_)) => Some(Scalar::Attribute {
            typed: Box::new(typed),
            text: fold(json),
        }),
    }
}

/// A JSON string, with a replacement character for an escape that is half of a surrogate pair. One invalid name must
/// not make the other members unreadable.
struct JsonText<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for JsonText<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(JsonTextVisitor)
    }
}

struct JsonTextVisitor;

impl<'de> Visitor<'de> for JsonTextVisitor {
    type Value = JsonText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(JsonText(String::from_utf8_lossy(bytes)))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(JsonText(String::from_utf8_lossy(bytes).into_owned().into()))
    }
}

impl<'de> Deserialize<'de> for FoldedMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = FoldedMembers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut members = Vec::new();
        while let Some((JsonText(name), value)) = map.next_entry::<_, &'de RawValue>()? {
            let folded = fold(&name);
            let node = Node::json(value.get());
            members.push(Member { name, folded, node });
        }
        // The sort is stable: members with equal folded names keep the order of the text.
        members.sort_by(|one, other| one.folded.cmp(&other.folded));
        for alike in members.chunk_by_mut(|one, other| one.folded == other.folded) {
            if let [others @ .., _] = alike {
                others.sort_by(|one, other| one.name.cmp(&other.name));
            }
        }
        Ok(FoldedMembers(members))
    }
}
