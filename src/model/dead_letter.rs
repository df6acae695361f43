//! Deliveries that were given up, and why.

/// Why a delivery was given up; Azure's spelling on the wire (spec A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterReason {
    MaxDeliveryAttemptsExceeded,
    TimeToLiveExceeded,
    UndeliverableDueToHttpBadRequest,
    UndeliverableDueToHttpUnauthorized,
    UndeliverableDueToHttpForbidden,
    UndeliverableDueToHttpRequestEntityTooLarge,
    UndeliverableDueToProbationCausedByClientError,
    /// Of deliveries by the rules of namespace topics, which have one reason for all final statuses.
    UndeliverableDueToClientError,
    SubscriptionDeleted,
    /// What is stored of the event cannot be read any more (an extension).
    EventUnreadable,
    Manual,
}

impl DeadLetterReason {
    /// All reasons.
    pub const ALL: [DeadLetterReason; 11] = [
        Self::MaxDeliveryAttemptsExceeded,
        Self::TimeToLiveExceeded,
        Self::UndeliverableDueToHttpBadRequest,
        Self::UndeliverableDueToHttpUnauthorized,
        Self::UndeliverableDueToHttpForbidden,
        Self::UndeliverableDueToHttpRequestEntityTooLarge,
        Self::UndeliverableDueToProbationCausedByClientError,
        Self::UndeliverableDueToClientError,
        Self::SubscriptionDeleted,
        Self::EventUnreadable,
        Self::Manual,
    ];

    /// Azure's spelling.
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxDeliveryAttemptsExceeded => "MaxDeliveryAttemptsExceeded",
            Self::TimeToLiveExceeded => "TimeToLiveExceeded",
            Self::UndeliverableDueToHttpBadRequest => "UndeliverableDueToHttpBadRequest",
            Self::UndeliverableDueToHttpUnauthorized => "UndeliverableDueToHttpUnauthorized",
            Self::UndeliverableDueToHttpForbidden => "UndeliverableDueToHttpForbidden",
            Self::UndeliverableDueToHttpRequestEntityTooLarge => {
                "UndeliverableDueToHttpRequestEntityTooLarge"
            }
            Self::UndeliverableDueToProbationCausedByClientError => {
                "UndeliverableDueToProbationCausedByClientError"
            }
            Self::UndeliverableDueToClientError => "UndeliverableDueToClientError",
            Self::SubscriptionDeleted => "SubscriptionDeleted",
            Self::EventUnreadable => "EventUnreadable",
            Self::Manual => "Manual",
        }
    }

    /// The reason of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}
