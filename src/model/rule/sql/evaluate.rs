//! The evaluation of expressions for a message, in three-valued logic: `None` is unknown.

use std::cmp::Ordering;

use crate::base::Entropy;
use crate::model::limits::RULE_STEPS_MAX;
use crate::model::rule::decimal::{DecimalNumber, TooFarApart};
use crate::model::rule::message::{MessageView, PropertyRef, PropertyScope, SystemProperty};
use crate::model::rule::property::PropertyValue;
use crate::model::rule::sql::Statement;
use crate::model::rule::sql::expression::{Arithmetic, ComparisonOperator, Expression, Like};
use crate::model::rule::sql::like::like;
use crate::model::rule::steps::Steps;

/// The steps that `newid()` costs, because it uses the random number generator of the system.
const NEW_ID_STEPS: usize = 64;

/// The maximum size in bytes of a text that an expression produces. It exceeds the maximum size of a property.
const TEXT_BYTES_MAX: usize = 64 * 1_024;

/// Why a filter or an action cannot be evaluated for a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    #[error("there is no system property {0}")]
    NoSuchSystemProperty(String),
    #[error("the system property {0} cannot be changed")]
    NotSettable(&'static str),
    #[error("a number was divided by zero")]
    DivisionByZero,
    #[error("the result of a calculation does not fit into 64 bits")]
    Overflow,
    #[error("the result of a calculation is too large for a decimal")]
    DecimalOverflow,
    #[error("the pattern of LIKE has an escape character that escapes nothing")]
    BadEscape,
    #[error(
        "the rules take too long: those of all subscriptions may take {RULE_STEPS_MAX} steps for one message together"
    )]
    TooManySteps,
    #[error("a text has more than {TEXT_BYTES_MAX} bytes")]
    TextTooLong,
}

/// The changes that an action makes to a message, each property once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// `None` removes.
    pub system: Vec<(SystemProperty, Option<PropertyValue>)>,
    /// `None` removes.
    pub user: Vec<(String, Option<PropertyValue>)>,
}

type Evaluated<T> = Result<Option<T>, EvaluationError>;

/// The evaluation of one filter or statement for one message.
pub(super) struct Evaluation<'a> {
    message: &'a dyn MessageView,
    entropy: &'a Entropy,
    steps: &'a mut Steps,
}

impl<'a> Evaluation<'a> {
    pub(super) fn of(
        message: &'a dyn MessageView,
        entropy: &'a Entropy,
        steps: &'a mut Steps,
    ) -> Self {
        Self {
            message,
            entropy,
            steps,
        }
    }

    pub(super) fn condition(&mut self, expression: &Expression) -> Evaluated<bool> {
        self.steps.take(1)?;
        Ok(match expression {
            Expression::Or(left, right) => match self.condition(left)? {
                Some(true) => Some(true),
                left => match (left, self.condition(right)?) {
                    (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                },
            },
            Expression::And(left, right) => match self.condition(left)? {
                Some(false) => Some(false),
                left => match (left, self.condition(right)?) {
                    (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                },
            },
            Expression::Not(inner) => self.condition(inner)?.map(|truth| !truth),
            Expression::Exists(property) => {
                let found = self.property(property)?;
                Some(found.is_some())
            }
            Expression::IsNull(property) => {
                let found = self.property(property)?;
                Some(matches!(found, None | Some(PropertyValue::Null)))
            }
            Expression::Comparison(left, comparison, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                match (left, right) {
                    (Some(left), Some(right)) => compare(&left, *comparison, &right),
                    _ => None,
                }
            }
            Expression::In(left, list) => self.is_in(left, list)?,
            Expression::Like(like) => self.is_like(like)?,
            Expression::Constant(_)
            | Expression::Property(_)
            | Expression::PropertyNamed(_)
            | Expression::NewId
            | Expression::Negative(_)
            | Expression::Arithmetic(..) => match self.value(expression)? {
                Some(PropertyValue::Bool(truth)) => Some(truth),
                _ => None,
            },
        })
    }

    /// Evaluates an expression to a value; `None` if the value is null or unknown.
    fn value(&mut self, expression: &Expression) -> Evaluated<PropertyValue> {
        self.steps.take(1)?;
        let value = match expression {
            Expression::Constant(value) => Some(value.clone()),
            Expression::Property(property) => self.property(property)?,
            Expression::PropertyNamed(name) => match self.value(name)? {
                Some(PropertyValue::Text(name)) => self.message.user(&name),
                _ => None,
            },
            Expression::NewId => {
                self.steps.take(NEW_ID_STEPS)?;
                Some(PropertyValue::Uuid(self.entropy.uuid()))
            }
            Expression::Negative(inner) => match self.value(inner)? {
                Some(value) => calculate(&PropertyValue::long(0), Arithmetic::Subtract, &value)?,
                None => None,
            },
            Expression::Arithmetic(left, sign, right) => {
                match (self.value(left)?, self.value(right)?) {
                    (Some(left), Some(right)) => calculate(&left, *sign, &right)?,
                    _ => None,
                }
            }
            Expression::Comparison(..)
            | Expression::In(..)
            | Expression::Like(_)
            | Expression::IsNull(_)
            | Expression::Exists(_)
            | Expression::Not(_)
            | Expression::And(..)
            | Expression::Or(..) => self.condition(expression)?.map(PropertyValue::Bool),
        };
        if let Some(value) = &value {
            self.steps.take_value(value)?;
        }
        Ok(value.filter(|value| *value != PropertyValue::Null))
    }

    fn property(&mut self, property: &PropertyRef) -> Evaluated<PropertyValue> {
        self.steps.take_bytes(property.name.len())?;
        Ok(match property.scope {
            PropertyScope::User => self.message.user(&property.name),
            PropertyScope::System => self.message.system(system(&property.name)?),
        })
    }

    fn is_in(&mut self, left: &Expression, list: &[Expression]) -> Evaluated<bool> {
        let Some(left) = self.value(left)? else {
            return Ok(None);
        };
        for each in list {
            let found = self.value(each)?;
            self.steps.take_value(&left)?;
            let is_equal = found.and_then(|each| compare(&left, ComparisonOperator::Equal, &each));
            if is_equal == Some(true) {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }

    fn is_like(&mut self, like_of: &Like) -> Evaluated<bool> {
        let text = self.value(&like_of.text)?;
        let pattern = self.value(&like_of.pattern)?;
        let escape = match &like_of.escape {
            None => None,
            Some(escape) => match self.value(escape)? {
                Some(PropertyValue::Text(escape)) => {
                    let mut characters = escape.chars();
                    match (characters.next(), characters.next()) {
                        (Some(escape), None) => Some(escape),
                        _ => return Err(EvaluationError::BadEscape),
                    }
                }
                _ => return Ok(None),
            },
        };
        let (Some(PropertyValue::Text(text)), Some(PropertyValue::Text(pattern))) = (text, pattern)
        else {
            return Ok(None);
        };
        like(&text, &pattern, escape, self.steps).map(Some)
    }
}

/// Returns the changes that `statements` make to a copy of `message`.
pub(super) fn apply(
    statements: &[Statement],
    message: &dyn MessageView,
    entropy: &Entropy,
    steps: &mut Steps,
) -> Result<Changes, EvaluationError> {
    let mut copy = Copy {
        of: message,
        changes: Changes::default(),
    };
    for statement in statements {
        match statement {
            Statement::Set(property, expression) => {
                let value = Evaluation::of(&copy, entropy, steps).value(expression)?;
                if let Some(value) = &value {
                    steps.take_value(value)?;
                }
                copy.set(property, value.unwrap_or(PropertyValue::Null))?;
            }
            Statement::Remove(property) => {
                steps.take(1)?;
                copy.remove(property)?;
            }
        }
    }
    Ok(copy.changes)
}

/// A message with the changes that an action has made so far.
struct Copy<'a> {
    of: &'a dyn MessageView,
    changes: Changes,
}

impl Copy<'_> {
    fn set(&mut self, property: &PropertyRef, value: PropertyValue) -> Result<(), EvaluationError> {
        match property.scope {
            PropertyScope::User => {
                let value = match self.user(&property.name) {
                    Some(old) => value.in_type_of(&old),
                    None => value,
                };
                self.change_user(&property.name, Some(value));
            }
            PropertyScope::System => {
                let system = settable(&property.name)?;
                let value = match self.system(system) {
                    Some(old) => value.in_type_of(&old),
                    None => value,
                };
                let value = (value != PropertyValue::Null).then_some(value);
                self.change_system(system, value);
            }
        }
        Ok(())
    }

    fn remove(&mut self, property: &PropertyRef) -> Result<(), EvaluationError> {
        match property.scope {
            PropertyScope::User if self.user(&property.name).is_some() => {
                self.change_user(&property.name, None);
            }
            PropertyScope::User => {}
            PropertyScope::System => self.change_system(settable(&property.name)?, None),
        }
        Ok(())
    }

    fn change_user(&mut self, name: &str, value: Option<PropertyValue>) {
        let mut changes = self.changes.user.iter_mut();
        match changes.find(|(each, _)| is_same(each, name)) {
            Some((_, change)) => *change = value,
            None => self.changes.user.push((name.to_owned(), value)),
        }
    }

    fn change_system(&mut self, property: SystemProperty, value: Option<PropertyValue>) {
        let mut changes = self.changes.system.iter_mut();
        match changes.find(|(each, _)| *each == property) {
            Some((_, change)) => *change = value,
            None => self.changes.system.push((property, value)),
        }
    }
}

impl MessageView for Copy<'_> {
    fn system(&self, property: SystemProperty) -> Option<PropertyValue> {
        let mut changes = self.changes.system.iter();
        match changes.find(|(each, _)| *each == property) {
            Some((_, change)) => change.clone(),
            None => self.of.system(property),
        }
    }

    fn user(&self, name: &str) -> Option<PropertyValue> {
        let mut changes = self.changes.user.iter();
        match changes.find(|(each, _)| is_same(each, name)) {
            Some((_, change)) => change.clone(),
            None => self.of.user(name),
        }
    }

    fn user_properties(&self) -> Vec<(String, PropertyValue)> {
        let is_changed = |name: &str| {
            let mut changes = self.changes.user.iter();
            changes.any(|(each, _)| is_same(each, name))
        };
        let mut properties = self.of.user_properties();
        properties.retain(|(name, _)| !is_changed(name));
        let changed = self.changes.user.iter();
        let set = changed.filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        properties.extend(set);
        properties
    }
}

fn is_same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

fn system(name: &str) -> Result<SystemProperty, EvaluationError> {
    let found = SystemProperty::find(name);
    found.ok_or_else(|| EvaluationError::NoSuchSystemProperty(name.to_owned()))
}

fn settable(name: &str) -> Result<SystemProperty, EvaluationError> {
    let property = system(name)?;
    if property.is_settable() {
        Ok(property)
    } else {
        Err(EvaluationError::NotSettable(property.name()))
    }
}

/// Compares two values; `None` if their types cannot be compared.
fn compare(
    left: &PropertyValue,
    comparison: ComparisonOperator,
    right: &PropertyValue,
) -> Option<bool> {
    let ordering = match (left, right) {
        (PropertyValue::Integer(_, left), PropertyValue::Integer(_, right)) => {
            Some(left.cmp(right))
        }
        (PropertyValue::Text(left), PropertyValue::Text(right)) => Some(left.cmp(right)),
        (
            PropertyValue::Timestamp(left) | PropertyValue::ZonelessTime(left),
            PropertyValue::Timestamp(right) | PropertyValue::ZonelessTime(right),
        ) => Some(left.cmp(right)),
        (PropertyValue::Duration(left), PropertyValue::Duration(right)) => Some(left.cmp(right)),
        (PropertyValue::Uuid(left), PropertyValue::Uuid(right)) => Some(left.cmp(right)),
        (PropertyValue::Binary(left), PropertyValue::Binary(right)) => Some(left.cmp(right)),
        (PropertyValue::Bool(left), PropertyValue::Bool(right)) => {
            return match comparison {
                ComparisonOperator::Equal => Some(left == right),
                ComparisonOperator::NotEqual => Some(left != right),
                ComparisonOperator::Less
                | ComparisonOperator::LessOrEqual
                | ComparisonOperator::Greater
                | ComparisonOperator::GreaterOrEqual => None,
            };
        }
        _ => match decimals(left, right) {
            Some((left, right)) => Some(left.compare(right)),
            None => double(left)?.partial_cmp(&double(right)?),
        },
    }?;
    Some(match comparison {
        ComparisonOperator::Equal => ordering == Ordering::Equal,
        ComparisonOperator::NotEqual => ordering != Ordering::Equal,
        ComparisonOperator::Less => ordering == Ordering::Less,
        ComparisonOperator::LessOrEqual => ordering != Ordering::Greater,
        ComparisonOperator::Greater => ordering == Ordering::Greater,
        ComparisonOperator::GreaterOrEqual => ordering != Ordering::Less,
    })
}

/// Applies an arithmetic operator. Two integers give an integer, a decimal and any number give a decimal, and all other
/// numbers give a double. Two texts can be concatenated with `+`.
fn calculate(
    left: &PropertyValue,
    sign: Arithmetic,
    right: &PropertyValue,
) -> Evaluated<PropertyValue> {
    if let (PropertyValue::Integer(_, left), PropertyValue::Integer(_, right)) = (left, right) {
        return calculate_whole(*left, sign, *right).map(Some);
    }
    if let (PropertyValue::Text(left), Arithmetic::Add, PropertyValue::Text(right)) =
        (left, sign, right)
    {
        let joined = format!("{left}{right}");
        return if joined.len() <= TEXT_BYTES_MAX {
            Ok(Some(PropertyValue::Text(joined)))
        } else {
            Err(EvaluationError::TextTooLong)
        };
    }
    if let Some((left, right)) = decimals(left, right) {
        return calculate_decimal(left, sign, right).map(Some);
    }
    let (Some(left), Some(right)) = (double(left), double(right)) else {
        return Ok(None);
    };
    Ok(Some(PropertyValue::Double(match sign {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Remainder => left % right,
    })))
}

/// Applies an operator to two integers. Both operands have 64 bits, so that `i128` holds every result.
fn calculate_whole(
    left: i128,
    sign: Arithmetic,
    right: i128,
) -> Result<PropertyValue, EvaluationError> {
    let number = match sign {
        Arithmetic::Divide | Arithmetic::Remainder if right == 0 => {
            return Err(EvaluationError::DivisionByZero);
        }
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left.checked_mul(right).ok_or(EvaluationError::Overflow)?,
        Arithmetic::Divide => left / right,
        Arithmetic::Remainder => left % right,
    };
    let number = i64::try_from(number).map_err(|_| EvaluationError::Overflow)?;
    Ok(PropertyValue::long(number))
}

/// Converts both values to decimals if at least one of them is a decimal and the other is a number.
fn decimals(left: &PropertyValue, right: &PropertyValue) -> Option<(DecimalNumber, DecimalNumber)> {
    let is_decimal = |value: &PropertyValue| matches!(value, PropertyValue::Decimal(_));
    if !is_decimal(left) && !is_decimal(right) {
        return None;
    }
    Some((left.as_decimal()?, right.as_decimal()?))
}

fn calculate_decimal(
    left: DecimalNumber,
    sign: Arithmetic,
    right: DecimalNumber,
) -> Result<PropertyValue, EvaluationError> {
    let result = match sign {
        Arithmetic::Divide | Arithmetic::Remainder if right.coefficient() == 0 => {
            return Err(EvaluationError::DivisionByZero);
        }
        Arithmetic::Add => left.add(right),
        Arithmetic::Subtract => left.subtract(right),
        Arithmetic::Multiply => left.multiply(right),
        Arithmetic::Divide => left.divide(right),
        Arithmetic::Remainder => left.remainder(right),
    };
    let number = result.map_err(|TooFarApart| EvaluationError::DecimalOverflow)?;
    Ok(PropertyValue::Decimal(number))
}

fn double(value: &PropertyValue) -> Option<f64> {
    if let PropertyValue::Integer(_, number) = value {
        return Some(*number as f64);
    }
    if let PropertyValue::Decimal(number) = value {
        return Some(number.to_float());
    }
    value.as_double()
}
