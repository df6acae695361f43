//! Filters of events in searches.

use crate::base::Timestamp;
use crate::model::delivery::DeliveryState;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;

/// Matches the events that meet all conditions. The empty filter matches all events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    pub topic: Option<TopicId>,
    /// Events with a delivery to this event subscription.
    pub subscription: Option<SubscriptionId>,
    /// Events with a delivery in this state. If `subscription` is set, the delivery must be to that event subscription.
    pub state: Option<DeliveryStage>,
    /// Events with exactly this id, which the publisher set.
    pub id: Option<String>,
    /// Exact, or a prefix if it ends in `*`.
    pub event_type: Option<String>,
    /// Exact, or a prefix if it ends in `*`.
    pub subject: Option<String>,
    /// Only events that no event subscription matched.
    pub unmatched: bool,
    /// Events received at this time or later.
    pub from: Option<Timestamp>,
    /// Events received before this time.
    pub to: Option<Timestamp>,
    pub text: Option<TextSearch>,
}

/// A text in an event's id, type, subject or data, in any ASCII letter case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSearch {
    pub text: String,
    /// Is true if the data is searched, too. It is false for users who may not see data, since results would reveal it.
    pub in_data: bool,
}

impl TextSearch {
    /// Creates a search in id, type, subject and data.
    pub fn everywhere(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            in_data: true,
        }
    }
}

/// The state of a delivery in searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStage {
    /// A pending delivery with at least one failed attempt.
    Retrying,
    In(DeliveryState),
}

impl DeliveryStage {
    /// All stages in display order.
    pub const ALL: [DeliveryStage; 7] = [
        Self::In(DeliveryState::Pending),
        Self::Retrying,
        Self::In(DeliveryState::Delivered),
        Self::In(DeliveryState::DeadLettered),
        Self::In(DeliveryState::Dropped),
        Self::In(DeliveryState::Resubmitted),
        Self::In(DeliveryState::Removed),
    ];

    /// Returns the name of the stage in URLs and commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retrying => "Retrying",
            Self::In(state) => state.name(),
        }
    }

    /// Returns the stage with the given name, in any letter case.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|each| each.name().eq_ignore_ascii_case(name))
    }

    /// Returns the delivery state of the stage.
    pub fn state(self) -> DeliveryState {
        match self {
            Self::Retrying => DeliveryState::Pending,
            Self::In(state) => state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_can_be_asked_for_by_its_name() {
        for state in DeliveryState::ALL {
            let name = state.name().to_lowercase();
            assert_eq!(
                DeliveryStage::from_name(&name),
                Some(DeliveryStage::In(state))
            );
        }
        assert_eq!(
            DeliveryStage::from_name("Retrying"),
            Some(DeliveryStage::Retrying)
        );
        assert_eq!(DeliveryStage::Retrying.state(), DeliveryState::Pending);
        assert_eq!(DeliveryStage::from_name("Sent"), None);
    }
}
