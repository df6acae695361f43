//! Locks of receivers on deliveries: how long they last and what receivers may do.
//!
//! A lock has a unique token and an end. The holder of the token renews or settles the lock before the end. Afterwards
//! the delivery is due again and the token is invalid. (The dispatcher uses leases in memory instead. Its settlements
//! count even after the lease has ended, because the delivery has happened and no other receiver can have taken it.)

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::base::{Entropy, Timestamp};
use crate::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use crate::model::delivery::{
    AttemptResult, DeliveryAttempt, DeliveryId, DeliveryState, Outcome, Settlement,
};
use crate::model::limits::RECEIVER_PROPERTY_BYTES_MAX;
use crate::model::subscription::SubscriptionId;

/// The due time of a deferred delivery, which is never due: the time that Azure shows for "no end" (rule S2).
pub const NEVER: Timestamp = Timestamp::from_ms(253_402_300_799_999);

/// The random part of the token of a lock on a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockSeed([u8; 8]);

impl LockSeed {
    /// Returns a new random seed.
    pub fn generate(entropy: &Entropy) -> Self {
        let mut bytes = [0; 8];
        entropy.fill(&mut bytes);
        bytes[VERSION_BYTE] = bytes[VERSION_BYTE] & 0x0f | 0x40; // version 4 of UUIDs, as RFC 9562 writes it
        Self(bytes)
    }
}

/// The byte of a UUID whose upper half is the version.
const VERSION_BYTE: usize = 6;

/// The bits of the second half of a UUID that say how it is laid out, and their value in version 4.
const VARIANT_BITS: u64 = 0b11 << 62;
const VARIANT: u64 = 0b10 << 62;

/// Identifies a lock: a random UUID for a session. For a delivery, the second half of the UUID is the id of the delivery,
/// covered by the random first half, so that the delivery of a token is found by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockToken(Uuid);

impl LockToken {
    /// Returns a new token for a session.
    pub fn generate(entropy: &Entropy) -> Self {
        Self(entropy.uuid())
    }

    /// Returns the token of the lock with this seed on a delivery.
    pub fn of_delivery(seed: LockSeed, delivery: DeliveryId) -> Self {
        let covered = delivery.0.cast_unsigned() ^ u64::from_be_bytes(seed.0);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&seed.0);
        bytes[8..].copy_from_slice(&(covered & !VARIANT_BITS | VARIANT).to_be_bytes());
        Self::from_bytes(bytes)
    }

    /// Returns the id of the only delivery that a lock with this token can be on.
    pub fn delivery(self) -> DeliveryId {
        let (seed, covered) = self.0.as_u64_pair();
        DeliveryId(((seed ^ covered) & !VARIANT_BITS).cast_signed())
    }

    /// The token of these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Returns the bytes of the token.
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
    Active,
    /// Dead letters.
    DeadLetter,
}

impl SubQueue {
    /// Returns the state of the deliveries in the queue.
    pub fn state(self) -> DeliveryState {
        match self {
            Self::Active => DeliveryState::Pending,
            Self::DeadLetter => DeliveryState::DeadLettered,
        }
    }
}

/// A queue of an event subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueRef {
    pub subscription: SubscriptionId,
    pub queue: SubQueue,
}

impl QueueRef {
    /// The pending deliveries of a subscription.
    pub fn pending(subscription: SubscriptionId) -> Self {
        let queue = SubQueue::Active;
        Self {
            subscription,
            queue,
        }
    }

    /// Returns the dead-letter queue of a subscription.
    pub fn dead_letters(subscription: SubscriptionId) -> Self {
        let queue = SubQueue::DeadLetter;
        Self {
            subscription,
            queue,
        }
    }
}

/// A lock as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub token: LockToken,
    pub delivery: DeliveryId,
    pub of: QueueRef,
    pub until: Timestamp,
    /// The time when the delivery was locked; renewals do not change it.
    pub locked_at: Timestamp,
    /// The time when the delivery entered its queue. For a pending delivery, its time to live began then.
    pub queued_at: Timestamp,
    /// Attempts of a pending delivery, this lock included.
    pub attempts: u32,
    /// Is true if the delivery was deferred when it was locked. Releasing or abandoning it defers it again.
    pub deferred: bool,
    /// The publisher's id of the event.
    pub event_id: String,
    /// See [`Delivery::number`](crate::model::delivery::Delivery::number).
    pub number: i64,
}

/// The expected queue and message of a token's lock. A lock that does not match counts as lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockOf {
    /// `None` for any.
    pub queue: Option<QueueRef>,
    /// The number of the delivery, or the publisher's id of its event; `None` for any.
    pub message: Option<String>,
}

impl LockOf {
    /// Any lock of a queue.
    pub fn any_of(queue: QueueRef) -> Self {
        Self {
            queue: Some(queue),
            message: None,
        }
    }
}

/// Returns whether a lock that ends at `until` is still held at `now`.
pub fn is_held(until: Timestamp, now: Timestamp) -> bool {
    now < until
}

/// An operation of a receiver of a pull subscription on events (rule N5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverAction {
    Acknowledge,
    Release { delay: Duration },
    Reject,
    RenewLock,
}

/// The way in which a receiver changes a locked delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Completes the delivery.
    Complete,
    /// Returns the delivery to its place in the queue.
    Abandon,
    /// Returns the delivery to its place in the queue without counting the lock as an attempt.
    Uncount,
    /// Returns the delivery to the queue after a delay, but not later than `lifetime` after it was queued (rule N5).
    /// Dead-letters it if this was the last of `attempts_max` attempts.
    Release {
        after: Duration,
        lifetime: Duration,
        attempts_max: u32,
    },
    /// Defers the delivery until a receiver asks for it by its id.
    Defer,
    /// Dead-letters the delivery.
    DeadLetter(Arc<DeadLetterDetails>),
    /// Settles the delivery as given, without counting the lock as an attempt, because no receiver gets it.
    GiveUp(Settlement),
    /// Renews the lock for `lock_for` from now on. If `within` is set, this is possible only for that time after the
    /// delivery was locked.
    Renew {
        lock_for: Duration,
        within: Option<Duration>,
    },
}

/// A change that a receiver makes to one of its locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockChange {
    pub token: LockToken,
    pub of: LockOf,
    pub disposition: Disposition,
    /// Application properties to set: an encoded map of AMQP (rule S10.7); empty for none. The bytes are shared, since
    /// one disposition can cover thousands of locks.
    pub properties: Arc<[u8]>,
}

impl LockChange {
    /// Returns whether the change adds bytes to the message.
    pub fn adds(&self) -> bool {
        let tells =
            matches!(&self.disposition, Disposition::DeadLetter(details) if details.bytes() > 0);
        tells || !self.properties.is_empty()
    }
}

/// The result of a change of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEnd {
    Settled(Settlement),
    Renewed { until: Timestamp },
}

/// Why a lock cannot be settled or renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    #[error(
        "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the \
         queue, or was settled before"
    )]
    LockLost,
    #[error("a dead letter cannot be dead-lettered again")]
    IsDeadLetter,
    #[error(
        "receivers may set up to {RECEIVER_PROPERTY_BYTES_MAX} bytes of properties of a message"
    )]
    TooManyProperties,
    #[error(
        "the queue is full: with what is set, its messages would have more bytes than its maxSizeInMegabytes; set \
         less, receive some messages, or raise it"
    )]
    QuotaExceeded,
    #[error("an event can be held for an hour after it was received, and not for longer")]
    HeldLongEnough,
}

impl Lock {
    /// Returns the end of the lock at `now`, and the result to record as an attempt; `None` if the lock does not count
    /// as one. `drops` is true if the subscription keeps no dead letters.
    pub fn dispose(
        &self,
        disposition: Disposition,
        drops: bool,
        now: Timestamp,
    ) -> Result<(LockEnd, Option<AttemptResult>), LockError> {
        let of = |outcome| Some(AttemptResult::of(outcome));
        let back = |at| Settlement::Retry {
            at: if self.deferred { NEVER } else { at },
        };
        let dead_letter = |reason| {
            if drops {
                Settlement::Drop(reason)
            } else {
                Settlement::DeadLetter(reason)
            }
        };
        let is_dead_letter = self.of.queue == SubQueue::DeadLetter;
        let (settlement, result) = match disposition {
            Disposition::Complete => (Settlement::Complete, of(Outcome::Delivered)),
            Disposition::Abandon => (back(self.queued_at), of(Outcome::Released)),
            Disposition::Uncount => (back(self.queued_at), None),
            Disposition::Release { attempts_max, .. }
                if !is_dead_letter && self.attempts >= attempts_max =>
            {
                let reason = DeadLetterReason::MaxDeliveryAttemptsExceeded;
                (dead_letter(reason), of(Outcome::Released))
            }
            Disposition::Release {
                after, lifetime, ..
            } => {
                let at = (now + after).min(self.queued_at + lifetime).max(now);
                (back(at), of(Outcome::Released))
            }
            Disposition::Defer => (Settlement::Retry { at: NEVER }, of(Outcome::Deferred)),
            Disposition::DeadLetter(_) | Disposition::GiveUp(_) if is_dead_letter => {
                return Err(LockError::IsDeadLetter);
            }
            Disposition::DeadLetter(details) => {
                let settlement = dead_letter(DeadLetterReason::Application);
                let result = AttemptResult {
                    dead_letter: Some(details),
                    ..AttemptResult::of(Outcome::Rejected)
                };
                (settlement, Some(result))
            }
            Disposition::GiveUp(settlement) => (settlement, None),
            Disposition::Renew { lock_for, within } => {
                if within.is_some_and(|within| now.since(self.locked_at) >= within) {
                    return Err(LockError::HeldLongEnough);
                }
                let until = now + lock_for;
                return Ok((LockEnd::Renewed { until }, None));
            }
        };
        Ok((LockEnd::Settled(settlement), result))
    }

    /// Returns whether this is the lock that `of` describes.
    pub fn is(&self, of: &LockOf) -> bool {
        let is_named = |name: &String| *name == self.number.to_string() || *name == self.event_id;
        of.queue.is_none_or(|queue| queue == self.of) && of.message.as_ref().is_none_or(is_named)
    }

    /// Returns the record of the lock as an attempt, from its beginning to `ended_at`.
    pub fn attempt(&self, ended_at: Timestamp, result: AttemptResult) -> DeliveryAttempt {
        DeliveryAttempt {
            attempt: self.attempts,
            started_at: self.locked_at,
            duration: ended_at.since(self.locked_at),
            result,
            late: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_ms(seconds * 1_000)
    }

    /// Queued at 0 and locked at 1 s.
    fn lock(queue: SubQueue) -> Lock {
        let subscription = SubscriptionId(1);
        Lock {
            token: LockToken::generate(&Entropy::seeded(1)),
            delivery: DeliveryId(7),
            of: QueueRef {
                subscription,
                queue,
            },
            until: at(60),
            locked_at: at(1),
            queued_at: at(0),
            attempts: 3,
            deferred: false,
            event_id: "order-1".to_owned(),
            number: 7,
        }
    }

    #[test]
    fn a_lock_ends_at_its_moment() {
        assert!(is_held(at(10), at(9)));
        assert!(!is_held(at(10), at(10)));
    }

    #[test]
    fn renewals_end_an_hour_after_the_locking_and_releases_with_the_life_of_the_event() {
        let lock = lock(SubQueue::Active);
        let hour = Duration::from_secs(3_600);
        let renew = |within, now| {
            let lock_for = Duration::from_secs(60);
            let ended = lock.dispose(Disposition::Renew { lock_for, within }, false, now);
            ended.map(|(end, _)| end)
        };
        let until = at(3_660);
        assert_eq!(renew(Some(hour), at(3_600)), Ok(LockEnd::Renewed { until }));
        assert_eq!(renew(Some(hour), at(3_601)), Err(LockError::HeldLongEnough));
        let until = at(3_661);
        assert_eq!(renew(None, at(3_601)), Ok(LockEnd::Renewed { until }));
        for (after_s, now_s, released_s) in [(0, 5, 5), (60, 5, 65), (600, 5, 100), (10, 105, 105)]
        {
            let release = Disposition::Release {
                after: Duration::from_secs(after_s),
                lifetime: Duration::from_secs(100),
                attempts_max: 4,
            };
            let (end, _) = lock.dispose(release, false, at(now_s)).expect("released");
            let settlement = Settlement::Retry { at: at(released_s) };
            assert_eq!(end, LockEnd::Settled(settlement));
        }
    }

    #[test]
    fn the_last_release_dead_letters_at_once() {
        let release = Disposition::Release {
            after: Duration::from_secs(60),
            lifetime: Duration::from_secs(100),
            attempts_max: 3,
        };
        let reason = DeadLetterReason::MaxDeliveryAttemptsExceeded;
        for (drops, expected) in [
            (false, Settlement::DeadLetter(reason)),
            (true, Settlement::Drop(reason)),
        ] {
            let ended = lock(SubQueue::Active).dispose(release.clone(), drops, at(5));
            let (end, result) = ended.expect("it may");
            assert_eq!(end, LockEnd::Settled(expected));
            assert_eq!(result, Some(AttemptResult::of(Outcome::Released)));
        }
    }

    #[test]
    fn a_deferred_delivery_is_deferred_again_until_it_ends() {
        let deferred = Lock {
            deferred: true,
            ..lock(SubQueue::Active)
        };
        let never = LockEnd::Settled(Settlement::Retry { at: NEVER });
        for (lock, disposition) in [
            (&deferred, Disposition::Abandon),
            (&lock(SubQueue::Active), Disposition::Defer),
        ] {
            let (end, result) = lock.dispose(disposition, false, at(5)).expect("deferred");
            assert_eq!(end, never);
            assert!(result.is_some());
        }
    }

    #[test]
    fn a_token_can_be_expected_to_lock_a_certain_message() {
        let lock = lock(SubQueue::DeadLetter);
        let of = |queue, message: Option<&str>| LockOf {
            queue,
            message: message.map(str::to_owned),
        };
        let here = Some(QueueRef::dead_letters(SubscriptionId(1)));
        assert!(lock.is(&LockOf::default()));
        assert!(lock.is(&of(here, Some("7"))) && lock.is(&of(here, Some("order-1"))));
        assert!(!lock.is(&of(here, Some("8"))));
        assert!(!lock.is(&of(Some(QueueRef::pending(SubscriptionId(1))), None)));
        assert!(!lock.is(&of(Some(QueueRef::dead_letters(SubscriptionId(2))), None)));
    }

    #[test]
    fn a_token_knows_its_delivery_and_is_a_random_uuid() {
        let entropy = Entropy::seeded(1);
        for id in [0, 1, 7_000_000_000, i64::MAX >> 1] {
            let token = LockToken::of_delivery(LockSeed::generate(&entropy), DeliveryId(id));
            assert_eq!(token.delivery(), DeliveryId(id));
            assert_eq!(token.0.get_version_num(), 4);
            assert_eq!(token.0.get_variant(), uuid::Variant::RFC4122);
            let other = LockToken::of_delivery(LockSeed::generate(&entropy), DeliveryId(id));
            assert_ne!(token, other);
        }
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
        let rejected = lock(SubQueue::DeadLetter).dispose(dead_letter(), false, at(5));
        assert_eq!(rejected, Err(LockError::IsDeadLetter));
        for (drops, expected) in [
            (false, Settlement::DeadLetter(DeadLetterReason::Application)),
            (true, Settlement::Drop(DeadLetterReason::Application)),
        ] {
            let ended = lock(SubQueue::Active).dispose(dead_letter(), drops, at(5));
            let (end, result) = ended.expect("it may");
            assert_eq!(end, LockEnd::Settled(expected));
            assert_eq!(
                result.expect("a record").dead_letter,
                Some(Arc::clone(&details))
            );
        }
    }
}
