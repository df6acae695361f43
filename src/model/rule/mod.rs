//! Rules of Service Bus topic subscriptions. They select the messages that a subscription gets, and may change the
//! properties of its copy (rule S7).
//!
//! All matching rules without an action together make one copy. Each matching rule with an action makes a separate
//! copy. Rules see the sections before the body of a message, never the body.

mod book;
mod correlation;
mod decimal;
mod index;
mod message;
mod precise_time;
mod property;
mod sql;
mod steps;

pub use book::{ChangedCopy, Copies, RuleBook};
pub use correlation::CorrelationFilter;
pub use decimal::DecimalNumber;
pub use message::{MessageView, PropertyRef, PropertyScope, SystemProperty};
pub use precise_time::PreciseTime;
pub use property::{IntegerType, InvalidRuleValue, PropertyValue, RuleValue};
pub use sql::{Changes, EvaluationError, Parameters, SqlAction, SqlError, SqlFilter};
pub use steps::Steps;

use crate::base::{Entropy, Timestamp};
use crate::model::name::RuleName;

/// A rule of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub name: RuleName,
    pub filter: RuleFilter,
    pub action: Option<SqlAction>,
    /// When it was created; `None` before it is stored.
    pub created_at: Option<Timestamp>,
}

/// Which messages match a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleFilter {
    All,
    None,
    Sql(SqlFilter),
    Correlation(CorrelationFilter),
}

impl Rule {
    /// Creates the default rule of a new subscription, which matches all messages.
    pub fn default_rule() -> Self {
        Self {
            name: RuleName::default_rule(),
            filter: RuleFilter::All,
            action: None,
            created_at: None,
        }
    }

    /// Returns the approximate memory use of the rule, in bytes.
    pub fn bytes(&self) -> usize {
        let filter = match &self.filter {
            RuleFilter::All | RuleFilter::None => 0,
            RuleFilter::Sql(filter) => filter.bytes(),
            RuleFilter::Correlation(filter) => filter.bytes(),
        };
        size_of::<Self>() + filter + self.action.as_ref().map_or(0, SqlAction::bytes)
    }

    fn problem(&self, error: &EvaluationError) -> String {
        format!("The rule {}: {error}.", self.name)
    }
}

impl RuleFilter {
    /// Explains in a sentence why a message does not match; `None` if the message matches.
    pub fn mismatch(
        &self,
        message: &dyn MessageView,
        entropy: &Entropy,
        steps: &mut Steps,
    ) -> Option<String> {
        match self {
            Self::All => None,
            Self::None => Some("The filter matches nothing.".to_owned()),
            Self::Sql(filter) => match filter.truth(message, entropy, steps) {
                Ok(Some(true)) => None,
                Ok(Some(false)) => Some("The condition is false.".to_owned()),
                Ok(None) => Some(
                    "The condition is unknown: a property is missing, or of another type."
                        .to_owned(),
                ),
                Err(error) => Some(format!("The condition cannot be evaluated: {error}.")),
            },
            Self::Correlation(filter) => filter.difference(message),
        }
    }

    /// Returns whether a message matches.
    pub fn matches(
        &self,
        message: &dyn MessageView,
        entropy: &Entropy,
        steps: &mut Steps,
    ) -> Result<bool, EvaluationError> {
        steps.take(1)?;
        match self {
            Self::All => Ok(true),
            Self::None => Ok(false),
            Self::Sql(filter) => filter.matches(message, entropy, steps),
            Self::Correlation(filter) => filter.matches(message, steps),
        }
    }
}
