//! The syntax tree of a text in the SQL language of rules.

use crate::model::rule::message::PropertyRef;
use crate::model::rule::property::PropertyValue;

/// Bytes that each part of an expression takes in allocations, beside what is in them.
const ALLOCATION_BYTES: usize = 32;

/// A value or a condition, made of others.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Constant(PropertyValue),
    Property(PropertyRef),
    /// The application's property whose name this is.
    PropertyNamed(Box<Expression>),
    NewId,
    Negative(Box<Expression>),
    Arithmetic(Box<Expression>, Arithmetic, Box<Expression>),
    Comparison(Box<Expression>, Comparison, Box<Expression>),
    In(Box<Expression>, Vec<Expression>),
    Like(Box<Like>),
    IsNull(PropertyRef),
    Exists(PropertyRef),
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Like {
    pub(super) text: Expression,
    pub(super) pattern: Expression,
    pub(super) escape: Option<Expression>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The ways in which an expression can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Value,
    Condition,
    /// A property may hold either.
    Both,
}

impl Expression {
    /// Returns about how many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let below = match self {
            Self::Constant(value) => value.bytes(),
            Self::Property(property) | Self::IsNull(property) | Self::Exists(property) => {
                property.name.len()
            }
            Self::NewId => 0,
            Self::PropertyNamed(inner) | Self::Negative(inner) | Self::Not(inner) => inner.bytes(),
            Self::Arithmetic(left, _, right)
            | Self::Comparison(left, _, right)
            | Self::And(left, right)
            | Self::Or(left, right) => left.bytes() + right.bytes(),
            Self::In(left, list) => left.bytes() + list.iter().map(Self::bytes).sum::<usize>(),
            Self::Like(like) => {
                let escape = like.escape.as_ref().map_or(0, Self::bytes);
                like.text.bytes() + like.pattern.bytes() + escape
            }
        };
        size_of::<Self>() + ALLOCATION_BYTES + below
    }

    pub(super) fn usable_as(&self) -> Use {
        match self {
            Self::Constant(PropertyValue::Bool(_) | PropertyValue::Null)
            | Self::Property(_)
            | Self::PropertyNamed(_) => Use::Both,
            Self::Constant(_) | Self::NewId | Self::Negative(_) | Self::Arithmetic(..) => {
                Use::Value
            }
            Self::Comparison(..)
            | Self::In(..)
            | Self::Like(_)
            | Self::IsNull(_)
            | Self::Exists(_)
            | Self::Not(_)
            | Self::And(..)
            | Self::Or(..) => Use::Condition,
        }
    }
}
