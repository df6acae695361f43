//! Decodes AMQP values from bytes, with limits on their depth and number.

use std::fmt::Write;

use bytes::Bytes;
use uuid::Uuid;

use crate::model::limits::HEAD_BYTES_MAX;
use crate::wire::amqp::condition::{DECODE_ERROR, MESSAGE_SIZE_EXCEEDED, NOT_ALLOWED};
use crate::wire::amqp::decimal;
use crate::wire::amqp::descriptor::number;
use crate::wire::amqp::encode::element_type;
use crate::wire::amqp::value::{Array, ElementType, Map, Value};

/// The number of levels to which values may be nested. The clients for .NET and Python read up to this depth, and it is
/// small enough for any stack.
const DEPTH_MAX: usize = 64;

/// The number of values that a list, map or array of a message may have. Python's client reads no larger ones.
const COMPOUND_VALUES_MAX: usize = 65_536;

/// The number of values that the decoding of one message may create. The largest request, which settles or schedules
/// 4,500 messages, stays below this limit. The limit is needed because one encoded byte can become a value of forty
/// bytes in memory. A decoder also creates no more values than it has bytes, because the elements of an array may be
/// encoded in no bytes at all.
const VALUES_MAX: usize = 32_768;

/// The number of values that a frame may have in addition to its message. Anybody can send frames, and frames of real
/// clients have fewer than a hundred values.
const FRAME_VALUES_MAX: usize = 4_096;

/// The reason why bytes cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the bytes end in the middle of a value")]
    Truncated,
    #[error("0x{0:02x} is not the code of a type")]
    UnknownType(u8),
    #[error("a text is not UTF-8")]
    NotUtf8,
    #[error("a map has a key without a value")]
    OddMap,
    #[error("values are nested more than {DEPTH_MAX} deep")]
    TooDeep,
    #[error("there are more than {0} values")]
    TooMany(usize),
    #[error("a batch has at most {0} messages")]
    TooManyMessages(usize),
    #[error("the content of a list, map or array is not as long as it says")]
    WrongSize,
    #[error("{found} is not expected here; expected {expected}")]
    Unexpected {
        expected: &'static str,
        found: String,
    },
    #[error("{of} needs {field}")]
    Missing {
        of: &'static str,
        field: &'static str,
    },
    #[error("{field} of {of} must be {kind}")]
    WrongKind {
        of: &'static str,
        field: &'static str,
        kind: &'static str,
    },
    #[error("{field} of {of} has more than {max} characters")]
    TooLong {
        of: &'static str,
        field: &'static str,
        max: usize,
    },
    #[error("the property {name:?} {problem}")]
    WrongProperty { name: String, problem: &'static str },
    #[error("the body {0}")]
    WrongBody(&'static str),
    #[error(
        "header, annotations and properties have {0} bytes; at most {HEAD_BYTES_MAX} are allowed"
    )]
    HeadTooLarge(usize),
}

impl DecodeError {
    /// Returns the AMQP error condition for the sender. Clients do not retry after any of these conditions, since a
    /// retry never helps.
    pub fn condition(&self) -> &'static str {
        match self {
            Self::Truncated
            | Self::UnknownType(_)
            | Self::NotUtf8
            | Self::OddMap
            | Self::TooMany(_)
            | Self::WrongSize
            | Self::Unexpected { .. } => DECODE_ERROR,
            Self::TooDeep
            | Self::TooManyMessages(_)
            | Self::Missing { .. }
            | Self::WrongKind { .. }
            | Self::TooLong { .. }
            | Self::WrongProperty { .. }
            | Self::WrongBody(_) => NOT_ALLOWED,
            Self::HeadTooLarge(_) => MESSAGE_SIZE_EXCEEDED,
        }
    }
}

/// Reads values from bytes, one after the other. Binaries are slices of these bytes, not copies.
#[derive(Clone, Debug)]
pub struct Decoder {
    bytes: Bytes,
    values_left: usize,
    values_max: usize,
    /// A check has found something that [`Value::canonical`] changes or rejects.
    has_other_forms: bool,
}

impl Decoder {
    /// Reads from `bytes`.
    pub fn new(bytes: Bytes) -> Self {
        Self::within(bytes, VALUES_MAX)
    }

    /// Reads the body of a frame.
    pub(super) fn of_frame(bytes: Bytes) -> Self {
        Self::within(bytes, FRAME_VALUES_MAX)
    }

    fn within(bytes: Bytes, values_max: usize) -> Self {
        let bounded_max = values_max.min(bytes.len());
        Self {
            bytes,
            values_left: bounded_max,
            values_max: bounded_max,
            has_other_forms: false,
        }
    }

    /// Reports whether every byte has been read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes that have not been read.
    pub fn rest(self) -> Bytes {
        self.bytes
    }

    /// Returns the next byte without reading it.
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    /// Returns a decoder for the keys and values of the next value, which must be a map.
    pub(super) fn inside_map(&mut self) -> Result<Self, DecodeError> {
        let code = self.byte()?;
        if !matches!(code, 0xc1 | 0xd1) {
            return Err(unexpected("a map", format_args!("another")));
        }
        let (inside, _) = self.compound(code)?;
        Ok(inside)
    }

    /// Reads a value.
    pub fn value(&mut self) -> Result<Value, DecodeError> {
        self.nested(0)
    }

    /// Skips a value and returns its bytes. The content of the value is not decoded, so the cost is the same for any
    /// value.
    pub fn raw(&mut self) -> Result<Bytes, DecodeError> {
        let mut at = 0;
        let mut open = 1; // values to step over; each descriptor adds one
        let mut descriptors = 0;
        while open > 0 {
            let code = *self.bytes.get(at).ok_or(DecodeError::Truncated)?;
            at += 1;
            if code == 0x00 {
                descriptors += 1;
                if descriptors > DEPTH_MAX {
                    return Err(DecodeError::TooDeep);
                }
                open += 1;
                continue;
            }
            let content = self.bytes.get(at..).ok_or(DecodeError::Truncated)?;
            at = at
                .checked_add(width(code, content)?)
                .ok_or(DecodeError::Truncated)?;
            open -= 1;
        }
        self.take(at)
    }

    /// Reads the descriptor of the next value, which must be a described value, and returns the descriptor's number.
    pub fn descriptor(&mut self) -> Result<u64, DecodeError> {
        if self.byte()? != 0x00 {
            return Err(unexpected("a described value", format_args!("another")));
        }
        let descriptor = self.nested(1)?;
        number(&descriptor).ok_or_else(|| unexpected("a known descriptor", &descriptor))
    }

    fn nested(&mut self, depth: usize) -> Result<Value, DecodeError> {
        if depth > DEPTH_MAX {
            return Err(DecodeError::TooDeep);
        }
        let code = self.byte()?;
        if code != 0x00 {
            return self.content(code, depth);
        }
        let descriptor = self.nested(depth + 1)?;
        let value = self.nested(depth + 1)?;
        Ok(Value::Described(Box::new((descriptor, value))))
    }

    /// Reads the content of a value whose constructor `code` has been read.
    fn content(&mut self, code: u8, depth: usize) -> Result<Value, DecodeError> {
        self.values_left = self
            .values_left
            .checked_sub(1)
            .ok_or(DecodeError::TooMany(self.values_max))?;
        Ok(match code {
            0x40 => Value::Null,
            0x41 => Value::Bool(true),
            0x42 => Value::Bool(false),
            0x56 => Value::Bool(self.byte()? != 0),
            0x50 => Value::Ubyte(self.byte()?),
            0x60 => Value::Ushort(u16::from_be_bytes(self.array()?)),
            0x43 => Value::Uint(0),
            0x52 => Value::Uint(u32::from(self.byte()?)),
            0x70 => Value::Uint(u32::from_be_bytes(self.array()?)),
            0x44 => Value::Ulong(0),
            0x53 => Value::Ulong(u64::from(self.byte()?)),
            0x80 => Value::Ulong(u64::from_be_bytes(self.array()?)),
            0x51 => Value::Byte(i8::from_be_bytes(self.array()?)),
            0x61 => Value::Short(i16::from_be_bytes(self.array()?)),
            0x54 => Value::Int(i32::from(i8::from_be_bytes(self.array()?))),
            0x71 => Value::Int(i32::from_be_bytes(self.array()?)),
            0x55 => Value::Long(i64::from(i8::from_be_bytes(self.array()?))),
            0x81 => Value::Long(i64::from_be_bytes(self.array()?)),
            0x72 => Value::Float(f32::from_be_bytes(self.array()?)),
            0x82 => Value::Double(f64::from_be_bytes(self.array()?)),
            0x74 => Value::Decimal(self.take(4)?),
            0x84 => Value::Decimal(self.take(8)?),
            0x94 => Value::Decimal(self.take(16)?),
            0x73 => Value::Char(u32::from_be_bytes(self.array()?)),
            0x83 => Value::Timestamp(i64::from_be_bytes(self.array()?)),
            0x98 => Value::Uuid(Uuid::from_bytes(self.array()?)),
            0xa0 | 0xb0 => Value::Binary(self.sized(code)?),
            0xa1 | 0xb1 => Value::String(self.text(code)?),
            0xa3 | 0xb3 => Value::Symbol(self.text(code)?),
            0x45 => Value::List(Vec::new()),
            0xc0 | 0xd0 => {
                let (mut inside, count) = self.compound(code)?;
                let values = inside.sequence(count, depth)?;
                self.leave(&inside)?;
                Value::List(values)
            }
            0xc1 | 0xd1 => {
                let (mut inside, count) = self.compound(code)?;
                if count % 2 != 0 {
                    return Err(DecodeError::OddMap);
                }
                let pairs = inside.pairs(count / 2, depth)?;
                self.leave(&inside)?;
                Value::Map(pairs)
            }
            0xe0 | 0xf0 => {
                let (mut inside, count) = self.compound(code)?;
                let array = inside.elements(count, depth + 1)?;
                self.leave(&inside)?;
                Value::Array(Box::new(array))
            }
            unknown => return Err(DecodeError::UnknownType(unknown)),
        })
    }

    /// Returns a decoder for the content of a list, map or array, and the number of its values.
    fn compound(&mut self, code: u8) -> Result<(Self, usize), DecodeError> {
        let mut inside = Self {
            bytes: self.sized(code)?,
            values_left: self.values_left,
            values_max: self.values_max,
            has_other_forms: false,
        };
        let count = inside.length(code)?;
        Ok((inside, count))
    }

    fn leave(&mut self, inside: &Self) -> Result<(), DecodeError> {
        self.values_left = inside.values_left;
        self.has_other_forms |= inside.has_other_forms;
        if inside.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::WrongSize)
        }
    }

    fn sequence(&mut self, count: usize, depth: usize) -> Result<Vec<Value>, DecodeError> {
        // No capacity is reserved, since the stated count may be larger than the real one.
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.nested(depth + 1)?);
        }
        Ok(values)
    }

    fn pairs(&mut self, count: usize, depth: usize) -> Result<Map, DecodeError> {
        let mut pairs = Vec::new();
        for _ in 0..count {
            pairs.push((self.nested(depth + 1)?, self.nested(depth + 1)?));
        }
        Ok(pairs)
    }

    /// Reads the content of an array: one constructor for all elements, then the elements.
    fn elements(&mut self, count: usize, depth: usize) -> Result<Array, DecodeError> {
        let mut descriptors = Vec::new();
        let code = loop {
            let depth = depth + descriptors.len();
            if depth > DEPTH_MAX {
                return Err(DecodeError::TooDeep);
            }
            match self.byte()? {
                0x00 => descriptors.push(self.nested(depth + 1)?),
                code => break code,
            }
        };
        let depth = depth + descriptors.len();
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.content(code, depth)?);
        }
        Ok(Array {
            descriptors,
            element: values.first().map_or(ElementType(code), element_type),
            values,
        })
    }

    /// Skips a value and checks everything inside without keeping any of it: its depth, its length, and whether its
    /// texts are UTF-8. Returns whether all of it is in the form that [`Value::canonical`] makes.
    pub(super) fn check(&mut self) -> Result<bool, DecodeError> {
        self.has_other_forms = false;
        self.check_nested(0)?;
        Ok(!self.has_other_forms)
    }

    fn check_nested(&mut self, depth: usize) -> Result<(), DecodeError> {
        let code = self.byte()?;
        check_depth(code, depth)?;
        if code != 0x00 {
            return self.check_content(code, depth);
        }
        self.has_other_forms = true; // not all are read by all
        self.check_nested(depth + 1)?;
        self.check_nested(depth + 1)
    }

    fn check_content(&mut self, code: u8, depth: usize) -> Result<(), DecodeError> {
        if !is_compound(code) {
            let length = width(code, &self.bytes)?;
            let content = self.take(length)?;
            self.has_other_forms |= match code {
                0x73 | 0x74 | 0x84 => true,
                0x94 => !decimal::is_written(&content),
                _ => false,
            };
            // The length of a text precedes the text, in one byte or four.
            let text = match code {
                0xa1 => content.get(1..),
                0xb1 => content.get(4..),
                _ => None,
            };
            return match text.map(std::str::from_utf8) {
                None | Some(Ok(_)) => Ok(()),
                Some(Err(_)) => Err(DecodeError::NotUtf8),
            };
        }
        let (mut inside, count) = self.compound(code)?;
        if count > COMPOUND_VALUES_MAX {
            return Err(DecodeError::TooMany(COMPOUND_VALUES_MAX));
        }
        match code {
            0xc0 | 0xd0 => {
                for _ in 0..count {
                    inside.check_nested(depth + 1)?;
                }
            }
            0xc1 | 0xd1 => inside.check_pairs(count, depth + 1)?,
            _ => inside.check_elements(count, depth + 1)?,
        }
        self.leave(&inside)
    }

    /// Checks the content of a map. Rejects keys that some client cannot read: Python's client cannot read lists, maps
    /// and described values as keys, and JavaScript's client cannot read the key `__proto__`. Go's client cannot read
    /// binaries as keys, but Python's client sends them for keys of the type bytes: if a binary is UTF-8, it becomes a
    /// text.
    fn check_pairs(&mut self, count: usize, depth: usize) -> Result<(), DecodeError> {
        if !count.is_multiple_of(2) {
            return Err(DecodeError::OddMap);
        }
        for _ in 0..count / 2 {
            let key = self.peek().ok_or(DecodeError::Truncated)?;
            let is_text = !is_binary(key) || begins_with_text(&self.bytes);
            if has_inside(key) || !is_text || begins_with_proto(&self.bytes) {
                return Err(DecodeError::WrongKind {
                    of: "a map",
                    field: "each key",
                    kind: "a simple value, not __proto__, and UTF-8 if it is a binary",
                });
            }
            self.has_other_forms |= is_binary(key);
            self.check_nested(depth)?;
            self.check_nested(depth)?;
        }
        Ok(())
    }

    fn check_elements(&mut self, count: usize, mut depth: usize) -> Result<(), DecodeError> {
        let begun_at = depth;
        let code = loop {
            let next = self.byte()?;
            check_depth(next, depth)?;
            if next != 0x00 {
                break next;
            }
            self.check_nested(depth + 1)?;
            depth += 1;
        };
        self.has_other_forms |= depth > begun_at || count == 0 || !is_element_of_all(code);
        if !is_constructor(code) {
            return Err(DecodeError::UnknownType(code));
        }
        if code >> 4 == 0x4 {
            // Elements that are encoded in no bytes still take memory in a client that reads them.
            let left = self.values_left.checked_sub(count);
            self.values_left = left.ok_or(DecodeError::TooMany(self.values_max))?;
            return Ok(());
        }
        for _ in 0..count {
            self.check_content(code, depth)?;
        }
        Ok(())
    }

    fn text(&mut self, code: u8) -> Result<String, DecodeError> {
        let bytes = self.sized(code)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| DecodeError::NotUtf8)?;
        Ok(text.to_owned())
    }

    fn sized(&mut self, code: u8) -> Result<Bytes, DecodeError> {
        let length = self.length(code)?;
        self.take(length)
    }

    /// Reads a size or a count: four bytes if bit 4 of `code` is set, otherwise one byte.
    fn length(&mut self, code: u8) -> Result<usize, DecodeError> {
        Ok(match code & 0x10 {
            0 => usize::from(self.byte()?),
            _ => u32::from_be_bytes(self.array()?) as usize,
        })
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (bytes, _) = self
            .bytes
            .split_first_chunk::<N>()
            .ok_or(DecodeError::Truncated)?;
        let bytes = *bytes;
        self.take(N)?;
        Ok(bytes)
    }

    fn take(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        if length > self.bytes.len() {
            return Err(DecodeError::Truncated);
        }
        Ok(self.bytes.split_to(length))
    }
}

/// Returns the text of an encoded string or symbol, which clients mix up; `None` for any other value.
pub(super) fn text_in(encoded: &[u8]) -> Option<&[u8]> {
    match encoded.first()? {
        0xa1 | 0xa3 => encoded.get(2..),
        0xb1 | 0xb3 => encoded.get(5..),
        _ => None,
    }
}

/// Reports whether the constructor `code` is that of a list, a map or an array that states its size.
fn is_compound(code: u8) -> bool {
    matches!(code, 0xc0 | 0xc1 | 0xd0 | 0xd1 | 0xe0 | 0xf0)
}

/// Reports whether the value after the constructor `code` contains other values, or could contain some.
fn has_inside(code: u8) -> bool {
    is_compound(code) || matches!(code, 0x00 | 0x45)
}

/// Returns whether a value with the constructor `code` is a binary.
fn is_binary(code: u8) -> bool {
    matches!(code, 0xa0 | 0xb0)
}

/// Returns whether `bytes` begin with a binary whose content is UTF-8.
fn begins_with_text(bytes: &[u8]) -> bool {
    let content = match bytes {
        [0xa0, length, rest @ ..] => rest.get(..usize::from(*length)),
        [0xb0, a, b, c, d, rest @ ..] => {
            let length = u32::from_be_bytes([*a, *b, *c, *d]);
            rest.get(..length as usize)
        }
        _ => None,
    };
    content.is_none_or(|content| std::str::from_utf8(content).is_ok())
}

/// Returns whether `bytes` begin with the text `__proto__`, or with a binary that becomes this text.
fn begins_with_proto(bytes: &[u8]) -> bool {
    match bytes {
        [0xa0 | 0xa1 | 0xa3, 9, text @ ..] | [0xb0 | 0xb1 | 0xb3, 0, 0, 0, 9, text @ ..] => {
            text.starts_with(PROTO.as_bytes())
        }
        _ => false,
    }
}

/// Reports whether all clients read arrays of values with the constructor `code`. Go's client reads no arrays of
/// elements that have no bytes or contain other values, and none of decimals.
fn is_element_of_all(code: u8) -> bool {
    !is_compound(code) && code >> 4 != 0x4 && !matches!(code, 0x73 | 0x74 | 0x84 | 0x94)
}

/// Rejects a list, map, array or described value at the largest depth, even if it is empty. Python's client rejects it,
/// too.
fn check_depth(code: u8, depth: usize) -> Result<(), DecodeError> {
    if depth >= DEPTH_MAX && has_inside(code) {
        return Err(DecodeError::TooDeep);
    }
    Ok(())
}

/// Returns whether the standard has a type with the constructor `code`.
fn is_constructor(code: u8) -> bool {
    match code >> 4 {
        0x4 => code <= 0x45,
        0x5 => code <= 0x56,
        0x6 => code <= 0x61,
        0x7 => code <= 0x74,
        0x8 => code <= 0x84,
        0x9 => matches!(code, 0x94 | 0x98),
        0xa | 0xb => matches!(code & 0x0f, 0x0 | 0x1 | 0x3),
        _ => is_compound(code),
    }
}

/// Returns the number of bytes that follow the constructor `code`. By the standard, the first hexadecimal digit of the
/// code determines this number.
fn width(code: u8, content: &[u8]) -> Result<usize, DecodeError> {
    if !is_constructor(code) {
        return Err(DecodeError::UnknownType(code));
    }
    Ok(match code >> 4 {
        0x4 => 0,
        0x5 => 1,
        0x6 => 2,
        0x7 => 4,
        0x8 => 8,
        0x9 => 16,
        0xa | 0xc | 0xe => 1 + usize::from(*content.first().ok_or(DecodeError::Truncated)?),
        0xb | 0xd | 0xf => {
            let size = content.first_chunk().ok_or(DecodeError::Truncated)?;
            4 + u32::from_be_bytes(*size) as usize
        }
        _ => return Err(DecodeError::UnknownType(code)),
    })
}

/// Returns the error for `found` in the place of `expected`.
pub(super) fn unexpected(expected: &'static str, found: impl std::fmt::Debug) -> DecodeError {
    let mut start = FoundStart::default();
    // The write fails when the text is full, so that a large value is not written to its end.
    let _ = write!(start, "{found:?}");
    let found = start.0;
    DecodeError::Unexpected { expected, found }
}

/// The property of a JavaScript object that refers to its prototype.
pub(super) const PROTO: &str = "__proto__";

/// The number of characters of an unexpected value that an error message repeats.
const FOUND_MAX: usize = 80;

/// The beginning of a text that is being written.
#[derive(Default)]
struct FoundStart(String);

impl std::fmt::Write for FoundStart {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let left = FOUND_MAX.saturating_sub(self.0.chars().count());
        match text.char_indices().nth(left) {
            None => {
                self.0.push_str(text);
                Ok(())
            }
            Some((end, _)) => {
                self.0.push_str(&text[..end]);
                Err(std::fmt::Error)
            }
        }
    }
}
