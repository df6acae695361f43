//! The pages of Service Bus topics and of the rules of their subscriptions. The subscriptions have the pages of queues.

mod rules;
mod topic;

pub(crate) use {rules::*, topic::*};

use crate::admin::pages::queues::QueueName;
use crate::admin::pages::*;
