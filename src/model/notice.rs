//! Notices of the appliance: the events of the built-in topic `everpost-system`.
//!
//! The event subscriptions of built-in topics cause no notices, so that no notice can lead to another one.

use crate::base::Timestamp;
use crate::base::named::named_enum;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{DeliveryId, Outcome};
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::replay::{ReplayJobId, ReplayProgress, ReplayState};
use crate::model::retention::Pressure;

/// A notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    DeadLettersAdded(DeadLettersAdded),
    ProbationBegun {
        of: Subscribed,
        cause: Outcome,
        until: Timestamp,
    },
    ProbationEnded {
        of: Subscribed,
        since: Timestamp,
    },
    SubscriptionDisabled {
        of: Subscribed,
        by: DisabledBy,
    },
    ValidationFailed {
        of: Subscribed,
        reason: String,
    },
    DiskPressureBegun(DiskPressure),
    DiskPressureEnded(DiskPressure),
    ReplayFinished(ReplayFinished),
}

/// The topic and name of an event subscription, which stay valid after its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribed {
    pub topic: TopicName,
    pub name: SubscriptionName,
}

/// New dead letters of one subscription with one reason since the last notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLettersAdded {
    pub of: Subscribed,
    pub reason: DeadLetterReason,
    pub count: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    pub last_delivery: DeliveryId,
}

named_enum! {
    /// Who disabled a subscription.
    pub enum DisabledBy {
        Operator,
        /// The receiver of the subscription answered 410.
        Gone,
    }
}

/// A lack of space in the database or on the disk, and its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskPressure {
    /// Delivered events are pruned early.
    Early(Pressure),
    /// The disk is so full that publish requests are rejected.
    PublishersRejected,
}

/// The end of a replay job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayFinished {
    pub job: ReplayJobId,
    pub state: ReplayState,
    /// Number of deliveries in the replay job.
    pub total: u64,
    pub progress: ReplayProgress,
}

impl Notice {
    /// Returns the event type of the notice.
    pub fn event_type(&self) -> &'static str {
        match self {
            Self::DeadLettersAdded(_) => "Everpost.System.DeadLettersAdded",
            Self::ProbationBegun { .. } => "Everpost.System.ProbationBegun",
            Self::ProbationEnded { .. } => "Everpost.System.ProbationEnded",
            Self::SubscriptionDisabled { .. } => "Everpost.System.SubscriptionDisabled",
            Self::ValidationFailed { .. } => "Everpost.System.ValidationFailed",
            Self::DiskPressureBegun(_) => "Everpost.System.DiskPressureBegun",
            Self::DiskPressureEnded(_) => "Everpost.System.DiskPressureEnded",
            Self::ReplayFinished(_) => "Everpost.System.ReplayFinished",
        }
    }
}

impl DiskPressure {
    /// Names the kind of space that is scarce.
    pub fn cause(self) -> &'static str {
        match self {
            Self::Early(Pressure::Size) => "DatabaseSize",
            Self::Early(Pressure::Disk) | Self::PublishersRejected => "DiskSpace",
        }
    }

    /// Names the effect.
    pub fn effect(self) -> &'static str {
        match self {
            Self::Early(_) => "DeliveredEventsGoEarly",
            Self::PublishersRejected => "PublishersRefused",
        }
    }
}
