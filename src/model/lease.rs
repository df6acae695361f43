//! Locks of receivers on deliveries: how long they last and what receivers may do.
//!
//! A lock is a unique token and a moment. The holder of the token renews or settles the lock before that
//! moment; afterwards the delivery is due again and the token is worthless. (The dispatcher leases in memory
//! instead. Its settlements count however late they are, because the delivery has happened and nobody else
//! can have taken it meanwhile.)

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::base::{Entropy, TimeScale, Timestamp};
use crate::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use crate::model::delivery::{AttemptResult, DeliveryAttempt, DeliveryId, Outcome, Settlement};
use crate::model::limits::RENEWAL_WINDOW;
use crate::model::subscription::{DeadLetterDestination, SubscriptionId};

/// When a deferred delivery falls due: never. The moment that Azure shows for "no end" (rule S2).
pub const NEVER: Timestamp = Timestamp::from_ms(253_402_300_799_999);

/// Identifies a lock: 16 random bytes, written as a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockToken(Uuid);

impl LockToken {
    /// A new unique token.
    pub fn generate(entropy: &Entropy) -> Self {
        Self(entropy.uuid())
    }

    /// The token of these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text is not a lock token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a lock token is a UUID as it was received")]
pub struct BadToken;

impl FromStr for LockToken {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        Uuid::parse_str(text).map(Self).map_err(|_| BadToken)
    }
}

/// The two queues of an event subscription. A delivery is in one of them at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubQueue {
    /// Pending deliveries.
    Pending,
    /// Dead letters.
    DeadLetters,
}

/// A lock as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub token: LockToken,
    pub delivery: DeliveryId,
    pub subscription: SubscriptionId,
    pub queue: SubQueue,
    pub until: Timestamp,
    /// When it was locked; renewals do not change this.
    pub locked_at: Timestamp,
    /// When the delivery entered its queue; for a pending one, when its time to live began.
    pub queued_at: Timestamp,
    /// The publisher's id of the event.
    pub event_id: String,
}

/// Whether a lock until that moment is still held.
pub fn is_held(until: Timestamp, now: Timestamp) -> bool {
    now < until
}

impl Lock {
    /// Whether a lock of a pull subscription can be renewed: within an hour of the first lock (rule N5).
    pub fn may_be_renewed(&self, now: Timestamp, scale: TimeScale) -> bool {
        now.since(self.locked_at) < scale.shrink(RENEWAL_WINDOW)
    }

    /// When a delivery that is released at `now` can be received again: after the delay, but not after the
    /// end of its time to live (rule N5).
    pub fn released_at(
        &self,
        delay: Duration,
        time_to_live: Duration,
        now: Timestamp,
        scale: TimeScale,
    ) -> Timestamp {
        let end_of_life = self.queued_at + scale.shrink(time_to_live);
        (now + scale.shrink(delay)).min(end_of_life).max(now)
    }
}

/// What a receiver of a pull subscription does with events (rule N5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverAction {
    Acknowledge,
    Release { delay: Duration },
    Reject,
    RenewLock,
}

/// What a receiver does with a locked delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Done with.
    Complete,
    /// Returns it to its place in the queue.
    Abandon,
    /// Returns it to the queue at this moment.
    Release { at: Timestamp },
    /// Defers it until it is received by its id.
    Defer,
    /// Dead-letters it.
    DeadLetter(Arc<DeadLetterDetails>),
}

/// What becomes of a locked delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockSettlement {
    Settle(Settlement),
    /// Returns to its place in the queue.
    Abandon,
    Defer,
}

/// Why a lock cannot be settled or renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    #[error("the lock has expired, was settled before, or never was")]
    LockLost,
    #[error("a dead letter cannot be dead-lettered again")]
    IsDeadLetter,
    #[error("an event can be held for an hour after it was received, and not for longer")]
    HeldLongEnough,
}

/// Decides what becomes of a delivery of `queue`, and the result for its record.
pub fn dispose(
    queue: SubQueue,
    disposition: Disposition,
    destination: &DeadLetterDestination,
) -> Result<(LockSettlement, AttemptResult), LockError> {
    let settle = LockSettlement::Settle;
    Ok(match (disposition, queue) {
        (Disposition::Complete, _) => (
            settle(Settlement::Complete),
            AttemptResult::of(Outcome::Delivered),
        ),
        (Disposition::Abandon, _) => (
            LockSettlement::Abandon,
            AttemptResult::of(Outcome::Released),
        ),
        (Disposition::Release { at }, _) => (
            settle(Settlement::Retry { at }),
            AttemptResult::of(Outcome::Released),
        ),
        (Disposition::Defer, _) => (LockSettlement::Defer, AttemptResult::of(Outcome::Deferred)),
        (Disposition::DeadLetter(_), SubQueue::DeadLetters) => {
            return Err(LockError::IsDeadLetter);
        }
        (Disposition::DeadLetter(details), SubQueue::Pending) => {
            let settlement = Settlement::DeadLetter(DeadLetterReason::Application);
            let result = AttemptResult {
                dead_letter: Some(details),
                ..AttemptResult::of(Outcome::Rejected)
            };
            (settle(settlement.for_destination(destination)), result)
        }
    })
}

/// The record of a lock: from its beginning to its end.
pub fn attempt(
    number: u32,
    locked_at: Timestamp,
    ended_at: Timestamp,
    result: AttemptResult,
) -> DeliveryAttempt {
    DeliveryAttempt {
        attempt: number,
        started_at: locked_at,
        duration: ended_at.since(locked_at),
        result,
        late: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_at_its_moment() {
        let at = Timestamp::from_ms;
        assert!(is_held(at(10), at(9)));
        assert!(!is_held(at(10), at(10)));
    }

    #[test]
    fn renewals_end_an_hour_after_the_receiving_and_releases_with_the_life_of_the_event() {
        let at = Timestamp::from_ms;
        let lock = Lock {
            token: LockToken::generate(&Entropy::seeded(1)),
            delivery: DeliveryId(1),
            subscription: SubscriptionId(1),
            queue: SubQueue::Pending,
            until: at(60_000),
            locked_at: at(1_000),
            queued_at: at(0),
            event_id: String::new(),
        };
        let real = TimeScale::REAL;
        assert!(lock.may_be_renewed(at(3_600_999), real));
        assert!(!lock.may_be_renewed(at(3_601_000), real));
        let live = Duration::from_secs(100);
        let released = |delay_s: u64, now_s: i64| {
            let delay = Duration::from_secs(delay_s);
            let at = lock.released_at(delay, live, at(now_s * 1_000), real);
            at.as_ms() / 1_000
        };
        assert_eq!(released(0, 5), 5);
        assert_eq!(released(60, 5), 65);
        assert_eq!(released(600, 5), 100);
        assert_eq!(released(10, 105), 105);
    }

    #[test]
    fn tokens_are_read_as_they_are_written_and_in_capitals() {
        let token = LockToken::generate(&Entropy::seeded(1));
        let text = token.to_string();
        assert_eq!(text.parse(), Ok(token));
        assert_eq!(text.to_uppercase().parse(), Ok(token));
        assert_eq!(LockToken::from_bytes(*token.as_bytes()), token);
        for text in ["", "1", &text[1..], "not-a-token"] {
            assert_eq!(text.parse::<LockToken>(), Err(BadToken), "{text}");
        }
    }

    #[test]
    fn dead_letters_are_not_dead_lettered_again() {
        let details = Arc::new(DeadLetterDetails::default());
        let dead_letter = || Disposition::DeadLetter(Arc::clone(&details));
        let kept = DeadLetterDestination::BuiltInQueue;
        let refused = dispose(SubQueue::DeadLetters, dead_letter(), &kept);
        assert_eq!(refused, Err(LockError::IsDeadLetter));
        for (destination, expected) in [
            (kept, Settlement::DeadLetter(DeadLetterReason::Application)),
            (
                DeadLetterDestination::Drop,
                Settlement::Drop(DeadLetterReason::Application),
            ),
        ] {
            let (settlement, result) =
                dispose(SubQueue::Pending, dead_letter(), &destination).expect("it may");
            assert_eq!(settlement, LockSettlement::Settle(expected));
            assert_eq!(result.dead_letter.as_ref(), Some(&details));
        }
    }
}
