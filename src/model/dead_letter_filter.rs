//! Which dead letters somebody means.

use crate::base::Timestamp;
use crate::model::delivery::Outcome;
use crate::model::event_filter::TextSearch;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;

/// Means the dead letters to which everything applies that is said; the empty one means them all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    pub topic: Option<TopicId>,
    pub subscription: Option<SubscriptionId>,
    /// Azure's reason or a receiver's own, exactly.
    pub reason: Option<String>,
    /// Of the last attempt.
    pub outcome: Option<Outcome>,
    /// HTTP status of the last attempt.
    pub status: Option<u16>,
    /// Exactly, or its beginning when it ends in `*`.
    pub event_type: Option<String>,
    /// Exactly, or its beginning when it ends in `*`.
    pub subject: Option<String>,
    /// Ended at this moment or later.
    pub from: Option<Timestamp>,
    /// Ended before this moment.
    pub to: Option<Timestamp>,
    pub text: Option<TextSearch>,
}
