//! Values of message properties, with the types that clients gave them.

use uuid::Uuid;

use crate::base::named::named_enum;
use crate::model::rule::decimal::DecimalNumber;
use crate::model::rule::precise_time::PreciseTime;

/// The value of a property.
#[derive(Clone, Debug, PartialEq)]
pub enum PropertyValue {
    Null,
    Bool(bool),
    Integer(IntegerType, i128),
    Float(f32),
    Double(f64),
    Decimal(DecimalNumber),
    Timestamp(PreciseTime),
    /// A time without a time zone, interpreted as UTC.
    ZonelessTime(PreciseTime),
    /// A duration in .NET ticks of 100 ns.
    Duration(i64),
    Uuid(Uuid),
    Binary(Vec<u8>),
    Text(String),
    /// A value of a type that cannot be compared.
    Other,
}

/// A value in a rule. Unlike a value in a message, its text form can always be parsed back to an equal value.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleValue(PropertyValue);

/// The reason why a value is not allowed in a rule, as a clause about the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRuleValue(&'static str);

impl RuleValue {
    /// Accepts a value that is allowed in rules.
    pub fn new(value: PropertyValue) -> Result<Self, InvalidRuleValue> {
        let problem = match &value {
            PropertyValue::Null | PropertyValue::Other => Some("nothing is equal to it"),
            PropertyValue::Float(number) => not_finite(f64::from(*number)),
            PropertyValue::Double(number) => not_finite(*number),
            PropertyValue::Integer(width, number) => {
                (!width.holds(*number)).then_some("it is too large for its type")
            }
            PropertyValue::Decimal(number) => {
                let again: Result<DecimalNumber, _> = number.to_string().parse();
                let is_same = again.is_ok_and(|again| again.normal() == number.normal());
                (!is_same).then_some("it has more digits than a decimal may have")
            }
            PropertyValue::Timestamp(at) | PropertyValue::ZonelessTime(at) => {
                let again: Result<PreciseTime, _> = at.to_string().parse();
                let is_same = again.is_ok_and(|again| again == *at);
                (!is_same).then_some("it must lie in the years 0 to 9999")
            }
            // The minimum has no positive counterpart, which its text form requires.
            PropertyValue::Duration(ticks) => (*ticks == i64::MIN).then_some("it is too long"),
            PropertyValue::Bool(_)
            | PropertyValue::Uuid(_)
            | PropertyValue::Binary(_)
            | PropertyValue::Text(_) => None,
        };
        problem.map_or(Ok(Self(value)), |problem| Err(InvalidRuleValue(problem)))
    }

    /// Returns the value as a property value, for comparison.
    pub fn as_value(&self) -> &PropertyValue {
        &self.0
    }
}

fn not_finite(number: f64) -> Option<&'static str> {
    (!number.is_finite()).then_some("it must be a finite number")
}

named_enum! {
    /// The width of an integer, by its name in AMQP.
    pub enum IntegerType {
        Ubyte,
        Ushort,
        Uint,
        Ulong,
        Byte,
        Short,
        Int,
        Long,
    }
}

impl IntegerType {
    /// Returns whether `number` is in the range of this type.
    pub fn holds(self, number: i128) -> bool {
        let (min, max) = match self {
            Self::Ubyte => (0, i128::from(u8::MAX)),
            Self::Ushort => (0, i128::from(u16::MAX)),
            Self::Uint => (0, i128::from(u32::MAX)),
            Self::Ulong => (0, i128::from(u64::MAX)),
            Self::Byte => (i128::from(i8::MIN), i128::from(i8::MAX)),
            Self::Short => (i128::from(i16::MIN), i128::from(i16::MAX)),
            Self::Int => (i128::from(i32::MIN), i128::from(i32::MAX)),
            Self::Long => (i128::from(i64::MIN), i128::from(i64::MAX)),
        };
        (min..=max).contains(&number)
    }
}

impl PropertyValue {
    /// Creates a 64-bit integer, the type of whole numbers in SQL expressions.
    pub fn long(number: i64) -> Self {
        Self::Integer(IntegerType::Long, i128::from(number))
    }

    /// The number of bytes of a text or binary value; 0 for other types.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
            Self::Null
            | Self::Bool(_)
            | Self::Integer(..)
            | Self::Float(_)
            | Self::Double(_)
            | Self::Decimal(_)
            | Self::Timestamp(_)
            | Self::ZonelessTime(_)
            | Self::Duration(_)
            | Self::Uuid(_)
            | Self::Other => 0,
        }
    }

    /// The value of a float or double; `None` for other types.
    pub fn as_double(&self) -> Option<f64> {
        if let Self::Float(number) = self {
            return Some(f64::from(*number));
        }
        let Self::Double(number) = self else {
            return None;
        };
        Some(*number)
    }

    /// The number as a decimal; `None` for infinity, NaN and values that are not numbers.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the others are no numbers, and a new one would have to be thought of where it is compared"
    )]
    pub(super) fn as_decimal(&self) -> Option<DecimalNumber> {
        match self {
            Self::Integer(_, number) => Some(DecimalNumber::from(*number)),
            Self::Float(number) => DecimalNumber::of_float(f64::from(*number)),
            Self::Double(number) => DecimalNumber::of_float(*number),
            Self::Decimal(number) => Some(*number),
            _ => None,
        }
    }

    /// Converts `self` to the type of `other` if that type can hold the value; otherwise returns `self` unchanged.
    pub fn in_type_of(self, other: &Self) -> Self {
        let converted = match (&self, other) {
            (Self::Integer(_, number), Self::Integer(width, _)) => width
                .holds(*number)
                .then_some(Self::Integer(*width, *number)),
            (Self::Integer(_, number), Self::Double(_)) => Some(Self::Double(*number as f64)),
            (Self::Integer(_, number), Self::Float(_)) => Some(Self::Float(*number as f32)),
            (Self::Double(number), Self::Float(_)) => Some(Self::Float(*number as f32)),
            (Self::Double(number), Self::Integer(width, _)) => {
                // Do not convert a number with a fraction, which would be lost.
                let whole = (number.fract() == 0.0).then_some(*number as i128);
                let fitting = whole.filter(|number| width.holds(*number));
                fitting.map(|number| Self::Integer(*width, number))
            }
            (Self::Integer(..) | Self::Float(_) | Self::Double(_), Self::Decimal(_)) => {
                self.as_decimal().map(Self::Decimal)
            }
            (Self::Decimal(number), Self::Integer(width, _)) => {
                let whole = number.to_whole().filter(|whole| width.holds(*whole));
                whole.map(|whole| Self::Integer(*width, whole))
            }
            (Self::Decimal(number), Self::Float(_)) => Some(Self::Float(number.to_float() as f32)),
            (Self::Decimal(number), Self::Double(_)) => Some(Self::Double(number.to_float())),
            (_, Self::Text(_)) => self.as_text().map(Self::Text),
            (Self::Text(text), _) => other.parse_like(text),
            _ => None,
        };
        converted.unwrap_or(self)
    }

    /// Parses `text` as a value of the type of `self`.
    fn parse_like(&self, text: &str) -> Option<Self> {
        match self {
            Self::Bool(_) => text.to_ascii_lowercase().parse().ok().map(Self::Bool),
            Self::Integer(width, _) => {
                let number = text.parse().ok()?;
                width.holds(number).then_some(Self::Integer(*width, number))
            }
            Self::Float(_) => text.parse().ok().map(Self::Float),
            Self::Double(_) => text.parse().ok().map(Self::Double),
            Self::Decimal(_) => text.parse().ok().map(Self::Decimal),
            Self::Timestamp(_) | Self::ZonelessTime(_) => text.parse().ok().map(Self::Timestamp),
            Self::Uuid(_) => text.parse().ok().map(Self::Uuid),
            Self::Null | Self::Duration(_) | Self::Binary(_) | Self::Text(_) | Self::Other => None,
        }
    }

    /// The value written as text, where that is unambiguous.
    fn as_text(&self) -> Option<String> {
        Some(match self {
            Self::Bool(value) => value.to_string(),
            Self::Integer(_, number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Double(number) => number.to_string(),
            Self::Decimal(number) => number.to_string(),
            Self::Timestamp(at) | Self::ZonelessTime(at) => at.to_string(),
            Self::Uuid(uuid) => uuid.to_string(),
            Self::Text(text) => text.clone(),
            Self::Null | Self::Duration(_) | Self::Binary(_) | Self::Other => return None,
        })
    }
}
