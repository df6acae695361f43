//! Checks of messages that clients send. The clients of all languages must be able to read each message. A value that
//! some client cannot read is rejected with an error that names it, since the message would be redelivered for ever. A
//! value that all clients read in only one form is written in that form.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::model::limits::{MESSAGE_ID_MAX, SESSION_ID_MAX};
use crate::wire::amqp::decode::{DecodeError, Decoder, PROTO, unexpected};
use crate::wire::amqp::message::{
    APPLICATION_PROPERTIES, DATA, MESSAGE_ANNOTATIONS, PROPERTIES, SEQUENCE, VALUE, annotation,
    content, section,
};
use crate::wire::amqp::value::{Map, Value, get};

/// Characters of a property's name that an error repeats.
const NAME_SHOWN_MAX: usize = 80;

/// The properties of the application that Go's and Java's clients read as texts. A value of another type ends the
/// program in Go.
const TEXTS: [&str; 2] = ["DeadLetterReason", "DeadLetterErrorDescription"];

/// Application properties that Python's client reads as ASCII texts. Python's client cannot settle a message in which
/// one of them has another value.
const ASCII_TEXTS: [&str; 3] = ["Diagnostic-Id", "traceparent", "tracestate"];

/// The constructor of a boolean whose value is in a separate byte.
const TRUTH_BYTE: u8 = 0x56;

/// A binary without bytes.
const NO_BYTES: Bytes = Bytes::from_static(&[0xa0, 0]);

/// The first bytes of a section: a described value whose descriptor is a ulong in one byte.
const SECTION_HEAD: [u8; 2] = [0x00, 0x53];

/// The moments that all clients can read: those of the years 1 to 9999, in milliseconds since 1970.
const MOMENTS_MS: RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

/// The type of a property of a message.
#[derive(Clone, Copy)]
enum FieldKind {
    Id { max: usize },
    Bytes,
    Text { max: usize },
    Symbol,
    Moment,
    Number,
}

impl FieldKind {
    fn in_words(self) -> &'static str {
        match self {
            Self::Id { .. } => "a string, a UUID, a ulong or a binary",
            Self::Bytes => "a binary",
            Self::Text { .. } => "a string",
            Self::Symbol => "a symbol",
            Self::Moment => "a timestamp of the years 1 to 9999",
            Self::Number => "a uint",
        }
    }

    /// Returns the value in the type that the field requires; `None` for a value that cannot have that type. Clients
    /// mix up texts and symbols, and the widths of numbers. Python's client keeps texts as bytes, and writes them as
    /// binaries when it passes on a message that it has received.
    fn take(self, value: Value) -> Option<Value> {
        let whole = value.as_integer();
        let value = match (self, value) {
            (Self::Id { .. } | Self::Text { .. } | Self::Symbol, Value::Binary(bytes)) => {
                let is_id = matches!(self, Self::Id { .. });
                let text = std::str::from_utf8(&bytes)
                    .ok()
                    .filter(|text| !is_id || is_readable(text));
                text.map(Value::from).unwrap_or(Value::Binary(bytes))
            }
            (_, value) => value,
        };
        match (self, value) {
            (_, Value::Null) => Some(Value::Null),
            (Self::Id { .. }, id @ (Value::Uuid(_) | Value::Binary(_))) => Some(id),
            (Self::Id { .. } | Self::Text { .. }, Value::String(text) | Value::Symbol(text)) => {
                Some(Value::String(text))
            }
            (Self::Id { .. }, _) => u64::try_from(whole?).ok().map(Value::Ulong),
            (Self::Symbol, Value::String(text) | Value::Symbol(text)) => Some(Value::Symbol(text)),
            (Self::Bytes, bytes @ Value::Binary(_)) => Some(bytes),
            (Self::Moment, Value::Timestamp(at)) if MOMENTS_MS.contains(&at) => {
                Some(Value::Timestamp(at))
            }
            (Self::Number, _) => u32::try_from(whole?).ok().map(Value::Uint),
            _ => None,
        }
    }

    fn max(self) -> usize {
        match self {
            Self::Id { max } | Self::Text { max } => max,
            Self::Bytes | Self::Symbol | Self::Moment | Self::Number => usize::MAX,
        }
    }
}

/// Returns whether an id is a text: an id may also be a binary, such as a counter of some bytes.
fn is_readable(id: &str) -> bool {
    !id.is_empty() && !id.contains(char::is_control)
}

const ID: FieldKind = FieldKind::Id { max: usize::MAX };
const TEXT: FieldKind = FieldKind::Text { max: usize::MAX };
const SESSION: FieldKind = FieldKind::Text {
    max: SESSION_ID_MAX,
};

/// The fields of the properties, in their order.
const FIELDS: [(&str, FieldKind); 13] = [
    (
        "message-id",
        FieldKind::Id {
            max: MESSAGE_ID_MAX,
        },
    ),
    ("user-id", FieldKind::Bytes),
    ("to", TEXT),
    ("subject", TEXT),
    ("reply-to", TEXT),
    ("correlation-id", ID),
    ("content-type", FieldKind::Symbol),
    ("content-encoding", FieldKind::Symbol),
    ("absolute-expiry-time", FieldKind::Moment),
    ("creation-time", FieldKind::Moment),
    ("group-id", SESSION),
    ("group-sequence", FieldKind::Number),
    ("reply-to-group-id", SESSION),
];

/// The annotations that Service Bus reads.
const ANNOTATIONS: [(&str, FieldKind); 3] = [
    (annotation::SCHEDULED_ENQUEUE_TIME, FieldKind::Moment),
    (annotation::PARTITION_KEY, SESSION),
    (annotation::VIA_PARTITION_KEY, SESSION),
];

/// Returns the section with the properties.
pub(super) fn properties(given: Bytes) -> Result<Bytes, DecodeError> {
    const OF: &str = "properties";
    let Some(value) = content(&given)? else {
        return Ok(given);
    };
    let Value::List(fields) = value else {
        return Err(unexpected("a list of properties", value));
    };
    // A null field is equivalent to an absent field.
    if let Some(field) = fields
        .iter()
        .skip(FIELDS.len())
        .find(|&field| *field != Value::Null)
    {
        return Err(unexpected("at most 13 properties", field));
    }
    let mut taken = Vec::with_capacity(fields.len());
    // Python's client reads no section with a field that the standard does not have.
    let mut is_same = has_short_head(&given) && fields.len() <= FIELDS.len();
    for ((name, kind), value) in FIELDS.into_iter().zip(fields) {
        let is = std::mem::discriminant(&value);
        let value = taken_as(OF, name, kind, value)?;
        is_same &= std::mem::discriminant(&value) == is;
        taken.push(value);
    }
    Ok(if is_same {
        given
    } else {
        section(PROPERTIES, Value::List(taken))
    })
}

fn taken_as(
    of: &'static str,
    field: &'static str,
    kind: FieldKind,
    value: Value,
) -> Result<Value, DecodeError> {
    let value = kind.take(value).ok_or(DecodeError::WrongKind {
        of,
        field,
        kind: kind.in_words(),
    })?;
    let max = kind.max();
    let text = value.as_text().unwrap_or_default();
    // Counts bytes first: most texts have fewer bytes than the maximum number of characters.
    if text.len() > max && text.chars().count() > max {
        Err(DecodeError::TooLong { of, field, max })
    } else {
        Ok(value)
    }
}

/// Returns a section with annotations, or the footer: a map whose keys are symbols.
pub(super) fn annotations(of: &'static str, code: u64, given: Bytes) -> Result<Bytes, DecodeError> {
    let Some(value) = content(&given)? else {
        return Ok(given);
    };
    let Value::Map(map) = value else {
        return Err(unexpected("a map of annotations", value));
    };
    let mut taken = Map::with_capacity(map.len());
    let has_other_forms = !is_canonical(&given)?;
    let mut is_same = !has_other_forms;
    for (key, value) in map {
        let is = std::mem::discriminant(&value);
        is_same &= !matches!(key, Value::String(_));
        let key = if let Value::String(name) | Value::Symbol(name) = key {
            Value::Symbol(name)
        } else {
            let (field, kind) = ("each key", "a symbol");
            return Err(DecodeError::WrongKind { of, field, kind });
        };
        let name = key.as_text().unwrap_or_default();
        let known = ANNOTATIONS.into_iter().find(|(each, _)| *each == name);
        let is_read = known.is_some() || name == annotation::DELIVERY_TIME;
        if is_read && value == Value::Null {
            is_same = false; // Go's and Java's clients read it as what it is not
            continue;
        }
        let value = match known {
            Some((name, kind)) => taken_as(of, name, kind, value)?,
            None if has_other_forms => value
                .canonical()
                .map_err(|problem| wrong_property(&key.plain(), problem))?,
            None => value,
        };
        is_same &= std::mem::discriminant(&value) == is;
        taken.push((key, value));
    }
    check_unique(&taken)?;
    if code == MESSAGE_ANNOTATIONS
        && let Some(scheduled) = scheduled_by_delivery_time(of, &taken)?
    {
        taken.push(scheduled);
        is_same = false;
    }
    Ok(if is_same {
        given
    } else {
        section(code, Value::Map(taken))
    })
}

/// Returns the annotation that schedules a message whose sender set the delivery time of JMS instead.
fn scheduled_by_delivery_time(
    of: &'static str,
    annotations: &Map,
) -> Result<Option<(Value, Value)>, DecodeError> {
    let name = annotation::SCHEDULED_ENQUEUE_TIME;
    let Some(at) = get(annotations, annotation::DELIVERY_TIME) else {
        return Ok(None);
    };
    if get(annotations, name).is_some() {
        return Ok(None);
    }
    let whole = at.as_integer().and_then(|ms| i64::try_from(ms).ok());
    let at = whole.map_or_else(|| at.clone(), Value::Timestamp);
    let at = taken_as(of, annotation::DELIVERY_TIME, FieldKind::Moment, at)?;
    Ok(Some((Value::symbol(name), at)))
}

/// Returns the section with the application's properties: simple values under names that are strings.
pub(super) fn application_properties(given: Bytes) -> Result<Bytes, DecodeError> {
    let Some(value) = content(&given)? else {
        return Ok(given);
    };
    let Value::Map(map) = value else {
        return Err(unexpected("a map of application properties", value));
    };
    let mut taken = Map::with_capacity(map.len());
    let mut is_same = is_canonical(&given)?;
    for (key, value) in map {
        is_same &= matches!(key, Value::String(_));
        let (Value::String(name) | Value::Symbol(name)) = key else {
            return Err(DecodeError::WrongKind {
                of: "application-properties",
                field: "each key",
                kind: "a string",
            });
        };
        let is = std::mem::discriminant(&value);
        let length = value.as_text().map(str::len);
        let Some(value) = property(&name, value)? else {
            is_same = false;
            continue;
        };
        is_same &= std::mem::discriminant(&value) == is && value.as_text().map(str::len) == length;
        taken.push((Value::String(name), value));
    }
    check_unique(&taken)?;
    Ok(if is_same {
        given
    } else {
        section(APPLICATION_PROPERTIES, Value::Map(taken))
    })
}

/// Returns the value of a property of the application as all clients read it; `None` for one that is left out.
pub(super) fn property(name: &str, value: Value) -> Result<Option<Value>, DecodeError> {
    if value.is_compound() {
        let problem = "must be a simple value, and no map, list or array";
        return Err(wrong_property(name, problem));
    }
    if name == PROTO {
        return Err(wrong_property(name, "has a name of JavaScript's own"));
    }
    let canonical = value
        .canonical()
        .map_err(|problem| wrong_property(name, problem))?;
    Ok(under_name(name, canonical))
}

/// Returns the value of an application property as clients read it under `name`. Some names require a text: other
/// values are converted to text, and a null is left out.
pub(super) fn under_name(name: &str, value: Value) -> Option<Value> {
    let is_ascii = ASCII_TEXTS.contains(&name);
    if !is_ascii && !TEXTS.contains(&name) {
        return Some(value);
    }
    if value == Value::Null {
        return None;
    }
    let text = value.plain();
    let ascii = |each: char| if each.is_ascii() { each } else { '?' };
    Some(Value::String(if is_ascii && !text.is_ascii() {
        text.chars().map(ascii).collect()
    } else {
        text
    }))
}

fn wrong_property(name: &str, problem: &'static str) -> DecodeError {
    DecodeError::WrongProperty {
        name: name.chars().take(NAME_SHOWN_MAX).collect(),
        problem,
    }
}

/// Rejects a map with a duplicate key, which .NET's client cannot read.
fn check_unique(map: &Map) -> Result<(), DecodeError> {
    let mut seen = HashSet::with_capacity(map.len());
    let mut names = map.iter().filter_map(|(key, _)| key.as_text());
    let twice = names.find(|name| !seen.insert(*name));
    twice.map_or(Ok(()), |name| Err(wrong_property(name, "is there twice")))
}

/// Returns whether all clients can read a section with a map as it is.
fn is_canonical(section: &Bytes) -> Result<bool, DecodeError> {
    let mut decoder = Decoder::new(section.clone());
    decoder.descriptor()?;
    let mut inside = decoder.clone().inside_map()?;
    let mut is_same = decoder.check()? && has_short_head(section);
    while is_same && !inside.is_empty() {
        inside.raw()?;
        is_same = inside.peek() != Some(TRUTH_BYTE);
        inside.raw()?;
    }
    Ok(is_same)
}

/// Returns whether a section begins with the shortest form of a descriptor, the only form that Python's client reads.
fn has_short_head(section: &[u8]) -> bool {
    section.starts_with(&SECTION_HEAD)
}

/// Returns the sections of a body in a form that all clients read. The bytes in data sections are not parsed.
pub(super) fn body(given: Bytes) -> Result<Bytes, DecodeError> {
    let mut sections = Decoder::new(given.clone());
    let mut written = Vec::new();
    let mut is_same = true;
    while !sections.is_empty() {
        is_same &= has_short_head(&sections.clone().rest());
        let code = sections.descriptor()?;
        let start = sections.peek();
        let content = sections.clone().rest();
        match code {
            DATA if !matches!(start, Some(0xa0 | 0xb0)) => {
                return Err(wrong_body("data", "a binary"));
            }
            SEQUENCE if !matches!(start, Some(0x45 | 0xc0 | 0xd0)) => {
                return Err(wrong_body("amqp-sequence", "a list"));
            }
            VALUE if start == Some(0x40) => {
                sections.check()?;
                written.push((DATA, NO_BYTES)); // a null ends Java's receivers
                is_same = false;
                continue;
            }
            _ => {}
        }
        if sections.check()? {
            let length = content.len() - sections.clone().rest().len();
            written.push((code, content.slice(..length)));
        } else {
            written.push((code, canonical(content)?));
            is_same = false;
        }
    }
    Ok(if is_same {
        given
    } else {
        let sections = written.into_iter();
        let bytes: Vec<u8> = sections
            .flat_map(|(code, content)| {
                let head = [0x00, 0x53, code as u8];
                head.into_iter().chain(content).collect::<Vec<u8>>()
            })
            .collect();
        bytes.into()
    })
}

/// Returns the first value of these bytes as all clients read it.
fn canonical(bytes: Bytes) -> Result<Bytes, DecodeError> {
    let value = Decoder::new(bytes)
        .value()?
        .canonical()
        .map_err(DecodeError::WrongBody)?;
    Ok(value.to_bytes().into())
}

fn wrong_body(of: &'static str, kind: &'static str) -> DecodeError {
    let field = "the content";
    DecodeError::WrongKind { of, field, kind }
}
