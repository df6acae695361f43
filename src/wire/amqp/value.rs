//! Values of AMQP's type system.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value as Json;
use uuid::Uuid;

use crate::base::Timestamp;
use crate::wire::amqp::decimal;
use crate::wire::amqp::encode::element_type;
use crate::wire::amqp::property::Described;
use crate::wire::duration;

/// An AMQP value. The encoding in which it was received is not kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Ubyte(u8),
    Ushort(u16),
    Uint(u32),
    Ulong(u64),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    /// A decimal of 4, 8 or 16 bytes, as they came.
    Decimal(Bytes),
    /// A code point, which may be invalid in Unicode.
    Char(u32),
    /// Milliseconds since the epoch.
    Timestamp(i64),
    Uuid(Uuid),
    Binary(Bytes),
    String(String),
    Symbol(String),
    List(Vec<Value>),
    Map(Map),
    Array(Box<Array>),
    /// Descriptor and value.
    Described(Box<(Value, Value)>),
}

/// Keys and values in their order.
pub type Map = Vec<(Value, Value)>;

/// An array: values of one type. The descriptors are stored once, as in the encoding. If each value had its own copy, a
/// few encoded bytes could expand to any number of descriptors.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The outermost one first.
    pub descriptors: Vec<Value>,
    pub element: ElementType,
    pub values: Vec<Value>,
}

/// The type of the values of an array. An empty array has a type as well, since .NET's client requires one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementType(pub(super) u8);

impl ElementType {
    pub const LONG: Self = Self(0x81);
    pub const TIMESTAMP: Self = Self(0x83);
    pub const UUID: Self = Self(0x98);
    pub const STRING: Self = Self(0xb1);
    pub const SYMBOL: Self = Self(0xb3);
}

impl Value {
    /// A symbol.
    pub fn symbol(text: &str) -> Self {
        Self::Symbol(text.to_owned())
    }

    /// A value with a numeric descriptor.
    pub fn described(descriptor: u64, value: Value) -> Self {
        Self::Described(Box::new((Self::Ulong(descriptor), value)))
    }

    /// A described list, without the nulls at its end.
    pub fn composite(descriptor: u64, mut fields: Vec<Value>) -> Self {
        while fields.last() == Some(&Value::Null) {
            fields.pop();
        }
        Self::described(descriptor, Self::List(fields))
    }

    /// An array of values of this type that are not described.
    pub fn array(element: ElementType, values: Vec<Value>) -> Self {
        let descriptors = Vec::new();
        Self::Array(Box::new(Array {
            descriptors,
            element,
            values,
        }))
    }

    /// Returns the value, including nested values, in the form that all of Azure's clients read. The error states the
    /// problem with a value that some client cannot read in any form.
    pub fn canonical(self) -> Result<Self, &'static str> {
        Ok(match self {
            Self::Char(point) => {
                let text = char::from_u32(point).map(String::from);
                Self::String(text.ok_or("has a character that Unicode does not have")?)
            }
            Self::Decimal(bytes) => {
                let number = decimal::read(&bytes).and_then(decimal::write);
                Self::Decimal(number.ok_or("has a decimal of more than 96 bits or 28 places")?)
            }
            Self::List(values) => Self::List(all_canonical(values)?),
            Self::Map(map) => {
                let pair = |(key, value): (Self, Self)| -> Result<_, &'static str> {
                    Ok((key.canonical_key()?, value.canonical()?))
                };
                Self::Map(map.into_iter().map(pair).collect::<Result<_, _>>()?)
            }
            Self::Array(array) => array.canonical()?,
            Self::Described(described) => canonical_described(*described)?,
            simple @ (Self::Null
            | Self::Bool(_)
            | Self::Ubyte(_)
            | Self::Ushort(_)
            | Self::Uint(_)
            | Self::Ulong(_)
            | Self::Byte(_)
            | Self::Short(_)
            | Self::Int(_)
            | Self::Long(_)
            | Self::Float(_)
            | Self::Double(_)
            | Self::Timestamp(_)
            | Self::Uuid(_)
            | Self::Binary(_)
            | Self::String(_)
            | Self::Symbol(_)) => simple,
        })
    }

    /// Returns a key of a map in the form that all clients read. Go's client does not support binary keys.
    fn canonical_key(self) -> Result<Self, &'static str> {
        let Self::Binary(bytes) = self else {
            return self.canonical();
        };
        let text = std::str::from_utf8(&bytes).map(str::to_owned);
        text.map(Self::String)
            .map_err(|_| "has a key that is a binary, but not UTF-8")
    }

    /// A text without quotes; anything else as JSON.
    pub fn plain(&self) -> String {
        let json = Json::from(self);
        let text = json.as_str().map(str::to_owned);
        text.unwrap_or_else(|| json.to_string())
    }

    /// The text of a string or a symbol: clients mix them up.
    pub fn as_text(&self) -> Option<&str> {
        let (Self::String(text) | Self::Symbol(text)) = self else {
            return None;
        };
        Some(text)
    }

    /// Returns the number of bytes that the value takes in memory.
    pub fn bytes(&self) -> usize {
        let each = |values: &[Self]| values.iter().map(Self::bytes).sum::<usize>();
        let content = match self {
            Self::Decimal(bytes) | Self::Binary(bytes) => bytes.len(),
            Self::String(text) | Self::Symbol(text) => text.len(),
            Self::List(values) => each(values),
            Self::Map(map) => map
                .iter()
                .map(|(key, value)| key.bytes() + value.bytes())
                .sum(),
            Self::Array(array) => each(&array.descriptors) + each(&array.values),
            Self::Described(described) => described.0.bytes() + described.1.bytes(),
            Self::Null
            | Self::Bool(_)
            | Self::Ubyte(_)
            | Self::Ushort(_)
            | Self::Uint(_)
            | Self::Ulong(_)
            | Self::Byte(_)
            | Self::Short(_)
            | Self::Int(_)
            | Self::Long(_)
            | Self::Float(_)
            | Self::Double(_)
            | Self::Char(_)
            | Self::Timestamp(_)
            | Self::Uuid(_) => 0,
        };
        size_of::<Self>() + content
    }

    /// Reports whether the value contains other values. The value of an application property must not.
    pub fn is_compound(&self) -> bool {
        match self {
            Self::Described(described) => described.1.is_compound(),
            Self::List(_) | Self::Map(_) | Self::Array(_) => true,
            Self::Null
            | Self::Bool(_)
            | Self::Ubyte(_)
            | Self::Ushort(_)
            | Self::Uint(_)
            | Self::Ulong(_)
            | Self::Byte(_)
            | Self::Short(_)
            | Self::Int(_)
            | Self::Long(_)
            | Self::Float(_)
            | Self::Double(_)
            | Self::Decimal(_)
            | Self::Char(_)
            | Self::Timestamp(_)
            | Self::Uuid(_)
            | Self::Binary(_)
            | Self::String(_)
            | Self::Symbol(_) => false,
        }
    }

    /// An integer of any width.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the others are no integers, and a new one would not be either"
    )]
    pub fn as_integer(&self) -> Option<i128> {
        Some(match self {
            Self::Ubyte(number) => i128::from(*number),
            Self::Ushort(number) => i128::from(*number),
            Self::Uint(number) => i128::from(*number),
            Self::Ulong(number) => i128::from(*number),
            Self::Byte(number) => i128::from(*number),
            Self::Short(number) => i128::from(*number),
            Self::Int(number) => i128::from(*number),
            Self::Long(number) => i128::from(*number),
            _ => return None,
        })
    }
}

/// The largest number with which AMQP itself describes a value.
const DESCRIPTOR_OF_AMQP_MAX: u64 = 255;

impl Array {
    /// Returns the array, or a list of its values if some client cannot read the array. Python's client misreads the
    /// bytes after an empty array, .NET's client does not support arrays of nulls, and Go's client supports arrays of
    /// only a few simple types.
    fn canonical(self) -> Result<Value, &'static str> {
        if self.descriptors.len() > 1 {
            return Err("has an array with several descriptors");
        }
        if let Some(descriptor) = self.descriptors.into_iter().next() {
            let each = |value| Value::Described(Box::new((descriptor.clone(), value)));
            return Ok(Value::List(all_canonical(
                self.values.into_iter().map(each),
            )?));
        }
        let values = all_canonical(self.values)?;
        let mut types = values.iter().map(element_type);
        let is_array = types.next().is_some_and(|first| {
            !values[0].is_compound()
                && !matches!(
                    values[0],
                    Value::Null | Value::Decimal(_) | Value::Described(_)
                )
                && types.all(|each| each == first)
        });
        Ok(
            match values.first().map(element_type).filter(|_| is_array) {
                Some(element) => Value::array(element, values),
                None => Value::List(values),
            },
        )
    }
}

fn all_canonical(values: impl IntoIterator<Item = Value>) -> Result<Vec<Value>, &'static str> {
    values.into_iter().map(Value::canonical).collect()
}

/// Returns a described value if all clients read it. Go's client interprets small numeric descriptors as parts of the
/// protocol. Java's client requires a descriptor, and Python's client looks up the descriptor in a dictionary. All
/// clients convert Azure's described types to native types.
fn canonical_described((descriptor, value): (Value, Value)) -> Result<Value, &'static str> {
    let is_good = match descriptor.as_integer() {
        Some(_) => matches!(descriptor, Value::Ulong(number) if number > DESCRIPTOR_OF_AMQP_MAX),
        None => descriptor.as_text().is_some(),
    };
    if !is_good {
        return Err("has a descriptor that is neither a symbol nor a ulong above 255");
    }
    let described = (descriptor, value.canonical()?);
    if !Described::is_readable(&described) {
        return Err("has a duration, a time or a URI that is none");
    }
    Ok(Value::Described(Box::new(described)))
}

/// Converts a value to JSON for display: bytes in base64, moments in RFC 3339, durations in ISO 8601, decimals as
/// texts, and without descriptors. A map with a compound key becomes a list of pairs. If nested compound keys were
/// property names, each level would escape them again and double their length.
impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        let list = |values: &[Value]| values.iter().map(Self::from).collect();
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::from(*value),
            Value::Ubyte(number) => Self::from(*number),
            Value::Ushort(number) => Self::from(*number),
            Value::Uint(number) => Self::from(*number),
            Value::Ulong(number) => Self::from(*number),
            Value::Byte(number) => Self::from(*number),
            Value::Short(number) => Self::from(*number),
            Value::Int(number) => Self::from(*number),
            Value::Long(number) => Self::from(*number),
            // Writes the shortest digits that identify the number as a float, not as a double.
            Value::Float(number) => Self::from(number.to_string().parse::<f64>().ok()),
            Value::Double(number) => Self::from(*number),
            Value::Decimal(bytes) => match decimal::read(bytes) {
                Some(number) => Self::from(number.to_string()),
                None => Self::from(STANDARD.encode(bytes)),
            },
            Value::Binary(bytes) => Self::from(STANDARD.encode(bytes)),
            Value::Char(point) => Self::from(char::from_u32(*point).map(String::from)),
            Value::Timestamp(ms) => Self::from(Timestamp::from_ms(*ms).to_string()),
            Value::Uuid(id) => Self::from(id.to_string()),
            Value::String(text) | Value::Symbol(text) => Self::from(text.as_str()),
            Value::List(values) => list(values),
            Value::Array(array) => list(&array.values),
            Value::Map(map) if map.iter().any(|(key, _)| key.is_compound()) => {
                let pair = |(key, value): &(Value, Value)| [Self::from(key), Self::from(value)];
                map.iter().map(pair).map(Self::from).collect()
            }
            Value::Map(map) => {
                let pair = |(name, value): &(Value, Value)| (name.plain(), Self::from(value));
                Self::Object(map.iter().map(pair).collect())
            }
            Value::Described(described) => match Described::of(described) {
                Some(Described::Duration(ticks)) => Self::from(duration::of_ticks(ticks)),
                Some(Described::Moment(at)) => Self::from(at.to_string()),
                Some(Described::Uri(uri)) => Self::from(uri),
                None => Self::from(&described.1),
            },
        }
    }
}

/// Returns the value under `key`, which is a string or a symbol in the map.
pub fn get<'a>(map: &'a Map, key: &str) -> Option<&'a Value> {
    map.iter()
        .find(|(each, _)| each.as_text() == Some(key))
        .map(|(_, value)| value)
}

/// A type that a value can be read as. Callers handle a null before.
pub trait FromValue: Sized {
    /// For messages: what was expected.
    const KIND: &'static str;

    /// The value, unless it is of another type.
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ident $kind:literal,)+) => {$(
        impl FromValue for $type {
            const KIND: &'static str = $kind;

            fn from_value(value: Value) -> Option<Self> {
                $type::try_from(value.as_integer()?).ok()
            }
        }
    )+};
}

integers! {
    u8 "a number from 0 to 255",
    u16 "a number from 0 to 65535",
    u32 "a number of 32 bits",
    u64 "a number of 64 bits",
    i32 "a signed number of 32 bits",
    i64 "a signed number of 64 bits",
}

macro_rules! variants {
    ($($type:ty, $variant:ident, $kind:literal,)+) => {$(
        impl FromValue for $type {
            const KIND: &'static str = $kind;

            fn from_value(value: Value) -> Option<Self> {
                let Value::$variant(value) = value else {
                    return None;
                };
                Some(value)
            }
        }
    )+};
}

variants! {
    bool, Bool, "true or false",
    Uuid, Uuid, "a UUID",
    Map, Map, "a map",
}

impl FromValue for String {
    const KIND: &'static str = "a text";

    fn from_value(value: Value) -> Option<Self> {
        let (Value::String(text) | Value::Symbol(text)) = value else {
            return None;
        };
        Some(text)
    }
}

impl FromValue for Bytes {
    const KIND: &'static str = "bytes";

    fn from_value(value: Value) -> Option<Self> {
        let Value::Binary(bytes) = value else {
            return None;
        };
        Some(bytes)
    }
}

impl FromValue for Value {
    const KIND: &'static str = "a value";

    fn from_value(value: Value) -> Option<Self> {
        Some(value)
    }
}

/// A list or array, or a single value that stands for a list of one.
impl FromValue for Vec<Value> {
    const KIND: &'static str = "a list";

    fn from_value(value: Value) -> Option<Self> {
        if let Value::List(values) = value {
            return Some(values);
        }
        let Value::Array(array) = value else {
            return Some(vec![value]);
        };
        array.descriptors.is_empty().then_some(array.values)
    }
}

macro_rules! into_value {
    ($($type:ty => $variant:ident,)+) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
    )+};
}

into_value! {
    bool => Bool,
    u8 => Ubyte,
    u16 => Ushort,
    u32 => Uint,
    u64 => Ulong,
    i32 => Int,
    i64 => Long,
    Uuid => Uuid,
    Bytes => Binary,
    String => String,
    Map => Map,
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
