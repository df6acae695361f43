//! A delivery: one event on its way to one subscription. What the world said to an attempt, and what is
//! done about it.

use std::fmt;
use std::time::Duration;

use crate::base::{TimeScale, Timestamp};
use crate::model::dead_letter::DeadLetterReason;
use crate::model::event::EventKey;
use crate::model::retry::{RetryPolicy, wait_after};
use crate::model::subscription::DeadLetterDestination;

/// The appliance's own number of a delivery: ascending, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub i64);

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a delivery stands.
///
/// `Pending` until its last settlement; then exactly one of the others, for good, except that a
/// dead-lettered delivery becomes `Resubmitted` when a new delivery takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    Pending,
    Delivered,
    DeadLettered,
    /// Given up with nowhere to keep it: dropped by the subscription's own wish.
    Dropped,
    Resubmitted,
}

impl DeliveryState {
    /// All states, in the order of the numbers that the store knows them by.
    pub const ALL: [DeliveryState; 5] = [
        Self::Pending,
        Self::Delivered,
        Self::DeadLettered,
        Self::Dropped,
        Self::Resubmitted,
    ];

    /// The word for it in answers and pages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Delivered => "Delivered",
            Self::DeadLettered => "DeadLettered",
            Self::Dropped => "Dropped",
            Self::Resubmitted => "Resubmitted",
        }
    }
}

/// What became of an attempt; Azure's `lastDeliveryOutcome` (spec 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    Delivered,
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    PayloadTooLarge,
    /// 503 and 429.
    Busy,
    /// No answer within the deadline, or 408.
    TimedOut,
    /// No connection, a broken one, or no agreement on TLS.
    SocketError,
    /// The host has no address.
    ResolutionError,
    /// The address may not be called (egress policy).
    Aborted,
    /// Any other status.
    GenericError,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Outcome; 12] = [
        Self::Delivered,
        Self::BadRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::PayloadTooLarge,
        Self::Busy,
        Self::TimedOut,
        Self::SocketError,
        Self::ResolutionError,
        Self::Aborted,
        Self::GenericError,
    ];

    /// Azure's spelling.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delivered => "Delivered",
            Self::BadRequest => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::PayloadTooLarge => "PayloadTooLarge",
            Self::Busy => "Busy",
            Self::TimedOut => "TimedOut",
            Self::SocketError => "SocketError",
            Self::ResolutionError => "ResolutionError",
            Self::Aborted => "Aborted",
            Self::GenericError => "GenericError",
        }
    }

    /// The outcome of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// What a webhook's status means (spec 6.5: success is 200 to 204 and nothing else).
    pub fn of_status(status: u16) -> Self {
        match status {
            200..=204 => Self::Delivered,
            400 => Self::BadRequest,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            408 => Self::TimedOut,
            413 => Self::PayloadTooLarge,
            429 | 503 => Self::Busy,
            _ => Self::GenericError,
        }
    }

    /// The reason with which a delivery is given up at once; `None` means that it may be tried again
    /// (spec 6.5).
    pub fn rejection(self) -> Option<DeadLetterReason> {
        match self {
            Self::BadRequest => Some(DeadLetterReason::UndeliverableDueToHttpBadRequest),
            Self::Unauthorized => Some(DeadLetterReason::UndeliverableDueToHttpUnauthorized),
            Self::Forbidden => Some(DeadLetterReason::UndeliverableDueToHttpForbidden),
            Self::PayloadTooLarge => {
                Some(DeadLetterReason::UndeliverableDueToHttpRequestEntityTooLarge)
            }
            Self::Delivered
            | Self::NotFound
            | Self::Busy
            | Self::TimedOut
            | Self::SocketError
            | Self::ResolutionError
            | Self::Aborted
            | Self::GenericError => None,
        }
    }
}

/// What an attempt brought back from the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub outcome: Outcome,
    /// The HTTP status, if there was an answer at all.
    pub status: Option<u16>,
    /// What went wrong, in plain words; `None` when there was an answer.
    pub error: Option<String>,
    /// What the receiver asked for with a 429 or 503.
    pub retry_after: Option<Duration>,
    pub headers: Vec<(String, String)>,
    /// The first bytes of the body (at most [`crate::model::limits::RESPONSE_KEPT_MAX`]).
    pub body: Vec<u8>,
    /// The address that was spoken to.
    pub remote_address: Option<String>,
}

/// One try of one delivery, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryAttempt {
    /// From 1.
    pub attempt: u32,
    pub started_at: Timestamp,
    pub duration: Duration,
    pub answer: Answer,
}

/// A delivery that is due, as the dispatcher holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub event: EventKey,
    /// Attempts made so far.
    pub attempts: u32,
    /// When its time to live began: at publishing, or at resubmission.
    pub published_at: Timestamp,
}

/// What is done about a delivery at the end of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    Complete,
    Retry {
        at: Timestamp,
    },
    DeadLetter(DeadLetterReason),
    /// Given up with nowhere to keep it, by the subscription's own wish.
    Drop(DeadLetterReason),
}

impl Settlement {
    /// The same, with dead letters dropped where the subscription keeps none.
    pub fn kept_by(self, destination: &DeadLetterDestination) -> Self {
        match (self, destination) {
            (Self::DeadLetter(reason), DeadLetterDestination::Drop) => Self::Drop(reason),
            (settlement, _) => settlement,
        }
    }
}

/// Whether a delivery that is due may be attempted: expiry is looked at here and nowhere else
/// (spec 7.3: only when the next attempt falls due).
pub fn admit(
    delivery: &Delivery,
    policy: &RetryPolicy,
    now: Timestamp,
    scale: TimeScale,
) -> Result<(), DeadLetterReason> {
    // The policy may have been tightened since the last attempt.
    if delivery.attempts >= policy.attempts_max {
        return Err(DeadLetterReason::MaxDeliveryAttemptsExceeded);
    }
    if now.since(delivery.published_at) >= scale.shrink(policy.time_to_live) {
        return Err(DeadLetterReason::TimeToLiveExceeded);
    }
    Ok(())
}

/// Decides what follows from an attempt. `attempt` counts from 1; `jitter` lies in `0..1`.
pub fn settle(
    attempt: u32,
    answer: &Answer,
    policy: &RetryPolicy,
    now: Timestamp,
    scale: TimeScale,
    jitter: f64,
) -> Settlement {
    assert!(attempt >= 1, "an outcome needs an attempt");
    if answer.outcome == Outcome::Delivered {
        return Settlement::Complete;
    }
    if let Some(reason) = answer.outcome.rejection() {
        return Settlement::DeadLetter(reason);
    }
    if attempt >= policy.attempts_max {
        return Settlement::DeadLetter(DeadLetterReason::MaxDeliveryAttemptsExceeded);
    }
    let wait = wait_after(attempt, answer.status, answer.retry_after, jitter);
    Settlement::Retry {
        at: now + scale.shrink(wait),
    }
}
