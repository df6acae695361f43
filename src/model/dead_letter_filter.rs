//! Filters of dead letters.

use crate::base::Timestamp;
use crate::model::delivery::Outcome;
use crate::model::event_filter::TextSearch;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;

/// Matches the dead letters that meet all conditions; the empty filter matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    pub topic: Option<TopicId>,
    pub subscription: Option<SubscriptionId>,
    /// The exact dead-letter reason, either Azure's or one that a receiver gave.
    pub reason: Option<String>,
    /// Outcome of the last attempt.
    pub outcome: Option<Outcome>,
    /// HTTP status of the last attempt.
    pub status: Option<u16>,
    /// Exact, or a prefix if it ends in `*`.
    pub event_type: Option<String>,
    /// Exact, or a prefix if it ends in `*`.
    pub subject: Option<String>,
    /// Ended at this moment or later.
    pub from: Option<Timestamp>,
    /// Ended before this moment.
    pub to: Option<Timestamp>,
    pub text: Option<TextSearch>,
}
