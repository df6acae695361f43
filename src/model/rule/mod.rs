//! Rules of Service Bus' topic subscriptions: which messages a subscription gets, and what a rule changes in
//! its copy (rule S7).
//!
//! All matching rules without an action make one copy together; each matching rule with an action makes one of
//! its own. Rules see what stands in front of a message's body, never the body.

mod correlation;
mod index;
mod message;
mod property;
pub mod sql;

pub use correlation::CorrelationFilter;
pub use index::CorrelationIndex;
pub use message::{MessageView, PropertyRef, Scope, SystemProperty};
pub use property::{IntegerType, PropertyValue};
pub use sql::{SqlAction, SqlError, SqlFilter};

/// A rule of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub name: String,
    pub filter: RuleFilter,
    pub action: Option<SqlAction>,
}

/// Which messages match a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleFilter {
    All,
    None,
    Sql(SqlFilter),
    Correlation(CorrelationFilter),
}
