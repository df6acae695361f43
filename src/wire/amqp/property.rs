//! Values of message properties as rules see them.

use std::ops::RangeInclusive;

use url::Url;

use crate::base::Timestamp;
use crate::model::rule::{IntegerType, PreciseTime, PropertyValue};
use crate::wire::amqp::decimal;
use crate::wire::amqp::value::Value;

/// The descriptors with which .NET's client marks values of types that AMQP does not have.
const TIMESPAN: &str = "com.microsoft:timespan";
const DATE_TIME_OFFSET: &str = "com.microsoft:datetime-offset";
const URI: &str = "com.microsoft:uri";

/// Ticks from the beginning of the year 1, from which .NET counts, to that of 1970.
const EPOCH_TICKS: i128 = 621_355_968_000_000_000;

/// The ticks of the years 1 to 9999, which .NET's moments have.
const TICKS: RangeInclusive<i64> = 0..=3_155_378_975_999_999_999;

/// A described value that .NET's client sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Described<'a> {
    /// In ticks of 100 ns.
    Duration(i64),
    Moment(PreciseTime),
    Uri(&'a str),
}

impl<'a> Described<'a> {
    /// Returns the .NET value that a descriptor and its value represent; `None` for any other described value.
    pub(super) fn of((kind, value): &'a (Value, Value)) -> Option<Self> {
        match (kind.as_text()?, value) {
            (TIMESPAN, Value::Long(ticks)) => Some(Self::Duration(*ticks)),
            (DATE_TIME_OFFSET, Value::Long(ticks)) => {
                PreciseTime::of_ticks(i128::from(*ticks) - EPOCH_TICKS).map(Self::Moment)
            }
            (URI, Value::String(uri)) => Some(Self::Uri(uri)),
            _ => None,
        }
    }

    /// Returns whether all clients can read a described value. A value with the descriptor of a time span, a moment or
    /// a URI must be a valid one.
    pub(super) fn is_readable(described: &'a (Value, Value)) -> bool {
        let kind = described.0.as_text();
        match Self::of(described) {
            Some(Self::Uri(uri)) => Url::parse(uri).is_ok(),
            Some(Self::Duration(_)) => true,
            Some(Self::Moment(_)) => {
                matches!(described.1, Value::Long(ticks) if TICKS.contains(&ticks))
            }
            None => !kind.is_some_and(|kind| [TIMESPAN, DATE_TIME_OFFSET, URI].contains(&kind)),
        }
    }
}

impl From<&Value> for PropertyValue {
    fn from(value: &Value) -> Self {
        let integer = |width, number| Self::Integer(width, number);
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Ubyte(number) => integer(IntegerType::Ubyte, i128::from(*number)),
            Value::Ushort(number) => integer(IntegerType::Ushort, i128::from(*number)),
            Value::Uint(number) => integer(IntegerType::Uint, i128::from(*number)),
            Value::Ulong(number) => integer(IntegerType::Ulong, i128::from(*number)),
            Value::Byte(number) => integer(IntegerType::Byte, i128::from(*number)),
            Value::Short(number) => integer(IntegerType::Short, i128::from(*number)),
            Value::Int(number) => integer(IntegerType::Int, i128::from(*number)),
            Value::Long(number) => integer(IntegerType::Long, i128::from(*number)),
            Value::Float(number) => Self::Float(*number),
            Value::Double(number) => Self::Double(*number),
            Value::Timestamp(ms) => Self::Timestamp(Timestamp::from_ms(*ms).into()),
            Value::Uuid(uuid) => Self::Uuid(*uuid),
            Value::Binary(bytes) => Self::Binary(bytes.to_vec()),
            Value::String(text) | Value::Symbol(text) => Self::Text(text.clone()),
            Value::Char(code_point) => match char::from_u32(*code_point) {
                Some(c) => Self::Text(c.to_string()),
                None => Self::Other,
            },
            Value::Described(described) => match Described::of(described) {
                Some(Described::Duration(ticks)) => Self::Duration(ticks),
                Some(Described::Moment(at)) => Self::Timestamp(at),
                Some(Described::Uri(uri)) => Self::Text(uri.to_owned()),
                None => Self::Other,
            },
            Value::Decimal(bytes) => decimal::read(bytes).map_or(Self::Other, Self::Decimal),
            Value::List(_) | Value::Map(_) | Value::Array(_) => Self::Other,
        }
    }
}

impl From<&PropertyValue> for Value {
    fn from(value: &PropertyValue) -> Self {
        match value {
            PropertyValue::Null | PropertyValue::Other => Self::Null,
            PropertyValue::Bool(value) => Self::Bool(*value),
            PropertyValue::Integer(width, number) => integer(*width, *number),
            PropertyValue::Float(number) => Self::Float(*number),
            PropertyValue::Double(number) => Self::Double(*number),
            PropertyValue::Decimal(number) => decimal::write_rounded(*number)
                .map_or_else(|| Self::Double(number.to_float()), Self::Decimal),
            PropertyValue::Timestamp(at) | PropertyValue::ZonelessTime(at) => {
                Self::Timestamp(at.to_timestamp().as_ms())
            }
            PropertyValue::Duration(ticks) => {
                Self::Described(Box::new((Self::symbol(TIMESPAN), Self::Long(*ticks))))
            }
            PropertyValue::Uuid(uuid) => Self::Uuid(*uuid),
            PropertyValue::Binary(bytes) => Self::Binary(bytes.clone().into()),
            PropertyValue::Text(text) => Self::String(text.clone()),
        }
    }
}

/// Returns `number` as an AMQP integer of type `width`; null if it does not fit. A number that was read from a value
/// of this type always fits.
fn integer(width: IntegerType, number: i128) -> Value {
    let value = match width {
        IntegerType::Ubyte => number.try_into().ok().map(Value::Ubyte),
        IntegerType::Ushort => number.try_into().ok().map(Value::Ushort),
        IntegerType::Uint => number.try_into().ok().map(Value::Uint),
        IntegerType::Ulong => number.try_into().ok().map(Value::Ulong),
        IntegerType::Byte => number.try_into().ok().map(Value::Byte),
        IntegerType::Short => number.try_into().ok().map(Value::Short),
        IntegerType::Int => number.try_into().ok().map(Value::Int),
        IntegerType::Long => number.try_into().ok().map(Value::Long),
    };
    value.unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::rule::DecimalNumber;

    #[test]
    fn values_keep_their_types() {
        for value in [
            Value::Null,
            Value::Bool(true),
            Value::Ubyte(255),
            Value::Ushort(7),
            Value::Uint(7),
            Value::Ulong(u64::MAX),
            Value::Byte(-7),
            Value::Short(-7),
            Value::Int(-7),
            Value::Long(i64::MIN),
            Value::Float(0.5),
            Value::Double(0.25),
            Value::Timestamp(-1),
            Value::Uuid(Uuid::from_u128(7)),
            Value::Binary(vec![0, 1].into()),
            Value::Described(Box::new((Value::symbol(TIMESPAN), Value::Long(-7)))),
            Value::Decimal(decimal::write(DecimalNumber::new(1_250, -2)).expect("it fits")),
            "text".into(),
        ] {
            assert_eq!(Value::from(&PropertyValue::from(&value)), value);
        }
        let symbol = PropertyValue::from(&Value::symbol("s"));
        assert_eq!(symbol, PropertyValue::Text("s".to_owned()));
        assert_eq!(
            PropertyValue::from(&Value::List(Vec::new())),
            PropertyValue::Other
        );
    }
}
