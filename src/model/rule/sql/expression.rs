//! What a text means.

use crate::model::rule::message::PropertyRef;
use crate::model::rule::property::PropertyValue;

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

/// What an expression can be used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Value,
    Condition,
    /// A property may hold either.
    Both,
}

impl Expression {
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
