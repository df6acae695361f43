//! The SQL language of filters and actions (rule S7.2): a filter is a condition, an action a list of `SET` and
//! `REMOVE`.
//!
//! Conditions are true, false or unknown. What is asked of a property that a message does not have is unknown,
//! and so is what compares different kinds of values; a filter matches what is true alone.

mod evaluate;
mod expression;
mod like;
mod parser;
#[cfg(test)]
pub(super) mod tests;
mod token;

pub use evaluate::{Changes, EvaluationError};

use std::collections::BTreeMap;

use crate::base::Entropy;
use crate::model::rule::message::{MessageView, PropertyRef};
use crate::model::rule::property::RuleValue;
use crate::model::rule::sql::evaluate::Evaluation;
use crate::model::rule::sql::expression::Expression;
use crate::model::rule::steps::Steps;

/// Characters of a filter or action: Service Bus' own limit.
const TEXT_MAX: usize = 1_024;

/// Bytes of the values of parameters, each as often as it is named: expressions have copies of them.
const NAMED_BYTES_MAX: usize = 64 * 1_024;

/// Statements of an action: Service Bus' own limit.
const STATEMENTS_MAX: usize = 32;

/// Why a text is no filter or action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {problem}")]
pub struct SqlError {
    /// In characters, the first of which is 1.
    pub column: usize,
    pub problem: String,
}

/// Values of the names behind `@`.
pub type Parameters = BTreeMap<String, RuleValue>;

/// A condition on messages.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlFilter {
    text: String,
    parameters: Parameters,
    condition: Expression,
    bytes: usize,
}

/// Changes of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlAction {
    text: String,
    parameters: Parameters,
    statements: Vec<Statement>,
    bytes: usize,
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
enum Statement {
    Set(PropertyRef, Expression),
    Remove(PropertyRef),
}

impl Statement {
    fn bytes(&self) -> usize {
        match self {
            Self::Set(property, expression) => property.name.len() + expression.bytes(),
            Self::Remove(property) => size_of::<Self>() + property.name.len(),
        }
    }
}

/// Returns about how many bytes of memory a text and its parameters take as they were written.
fn written_bytes(text: &str, parameters: &Parameters) -> usize {
    let each = parameters.iter().map(|(name, value)| {
        size_of::<(String, RuleValue)>() + name.len() + value.as_value().bytes()
    });
    text.len() + each.sum::<usize>()
}

impl SqlFilter {
    /// Reads a filter.
    pub fn parse(text: &str, parameters: Parameters) -> Result<Self, SqlError> {
        let condition = parser::filter(text, &parameters)?;
        Ok(Self {
            bytes: written_bytes(text, &parameters) + condition.bytes(),
            condition,
            text: text.to_owned(),
            parameters,
        })
    }

    /// The filter as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The parameters that came with it.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns about how many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the condition is true of `message`; `None` if that is unknown.
    pub fn truth(
        &self,
        message: &dyn MessageView,
        entropy: &Entropy,
        steps: &mut Steps,
    ) -> Result<Option<bool>, EvaluationError> {
        Evaluation::of(message, entropy, steps).condition(&self.condition)
    }

    /// Returns whether `message` matches. An error is what Service Bus calls a filter exception.
    pub fn matches(
        &self,
        message: &dyn MessageView,
        entropy: &Entropy,
        steps: &mut Steps,
    ) -> Result<bool, EvaluationError> {
        Ok(self.truth(message, entropy, steps)? == Some(true))
    }
}

impl SqlAction {
    /// Reads an action.
    pub fn parse(text: &str, parameters: Parameters) -> Result<Self, SqlError> {
        let statements = parser::action(text, &parameters)?;
        let parsed = statements.iter().map(Statement::bytes);
        Ok(Self {
            bytes: written_bytes(text, &parameters) + parsed.sum::<usize>(),
            statements,
            text: text.to_owned(),
            parameters,
        })
    }

    /// The action as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The parameters that came with it.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns about how many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the changes to a copy of `message`. Each statement sees the changes of those before it.
    pub fn apply(
        &self,
        message: &dyn MessageView,
        entropy: &Entropy,
        steps: &mut Steps,
    ) -> Result<Changes, EvaluationError> {
        evaluate::apply(&self.statements, message, entropy, steps)
    }
}
