//! Which events somebody looks for.

use crate::base::Timestamp;
use crate::model::delivery::DeliveryState;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;

/// Means the events to which everything applies that is said; the empty one means them all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    pub topic: Option<TopicId>,
    /// With a delivery to this event subscription.
    pub subscription: Option<SubscriptionId>,
    /// With a delivery that stands there; to `subscription`, where one is named.
    pub state: Option<DeliveryStage>,
    /// The publisher's id, exactly.
    pub id: Option<String>,
    /// Exactly, or its beginning when it ends in `*`.
    pub event_type: Option<String>,
    /// Exactly, or its beginning when it ends in `*`.
    pub subject: Option<String>,
    /// That no event subscription wanted.
    pub unmatched: bool,
    /// Received at this moment or later.
    pub from: Option<Timestamp>,
    /// Received before this moment.
    pub to: Option<Timestamp>,
    pub text: Option<TextSearch>,
}

/// What stands in an event's id, type, subject or data, in any case of ASCII letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSearch {
    pub text: String,
    /// Whether the data is gone through: not for whoever may not see it, since what is found tells what
    /// stands there.
    pub in_data: bool,
}

impl TextSearch {
    /// In all of the event.
    pub fn everywhere(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            in_data: true,
        }
    }
}

/// Where a delivery stands, as people ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStage {
    /// Pending, and an attempt has failed already.
    Retrying,
    In(DeliveryState),
}

impl DeliveryStage {
    /// All of them, in the order in which they are offered.
    pub const ALL: [DeliveryStage; 7] = [
        Self::In(DeliveryState::Pending),
        Self::Retrying,
        Self::In(DeliveryState::Delivered),
        Self::In(DeliveryState::DeadLettered),
        Self::In(DeliveryState::Dropped),
        Self::In(DeliveryState::Resubmitted),
        Self::In(DeliveryState::Removed),
    ];

    /// The word for it in addresses and commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retrying => "Retrying",
            Self::In(state) => state.name(),
        }
    }

    /// The one of that name, in any case of letters.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|each| each.name().eq_ignore_ascii_case(name))
    }

    /// The state that a delivery has which stands there.
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
