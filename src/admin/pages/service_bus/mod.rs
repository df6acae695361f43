//! The pages of Service Bus topics and of the rules of their subscriptions. The subscriptions have the pages of queues.

mod rules;
mod topic;

pub(crate) use rules::{BusRule, COMPARED, RuleForm, try_rule};
pub(crate) use topic::{BusTopic, BusTopicForm, list, show};
