//! A delivery of one event to one subscription, the results of its attempts, and its settlement.

use std::sync::Arc;
use std::time::Duration;

use crate::base::named::{ids, named_enum};
use crate::base::{TimeScale, Timestamp};
use crate::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use crate::model::event::EventKey;
use crate::model::limits::RESPONSE_CUT_MAX;
use crate::model::probation::is_client_error;
use crate::model::retry::RetryPolicy;
use crate::model::subscription::{DeadLetterDestination, SubscriptionDefinition};

ids! {
    /// The id of a delivery: ascending, never reused.
    DeliveryId,
}

named_enum! {
    /// The state of a delivery.
    ///
    /// `Pending` until its last settlement; then exactly one of the others, for good, except that a dead-lettered
    /// delivery becomes `Resubmitted` when a new delivery replaces it, and `Removed` when a receiver completes it,
    /// somebody purges it, or it is a message whose queue is deleted.
    pub enum DeliveryState {
        Pending,
        Delivered,
        DeadLettered,
        /// Ended without being kept as a dead letter, by the subscription's own definition.
        Dropped,
        Resubmitted,
        /// Removed from the dead-letter queue for good.
        Removed,
    }
}

named_enum! {
    /// The outcome of an attempt; Azure's `lastDeliveryOutcome` (rule 9.3).
    #[derive(Hash)]
    pub enum Outcome {
        Delivered,
        BadRequest,
        Unauthorized,
        Forbidden,
        NotFound,
        PayloadTooLarge,
        /// 503 and 429.
        Busy,
        /// No response within the deadline, or 408.
        TimedOut,
        /// No connection, a broken one, or a failure of TLS.
        SocketError,
        /// The host name has no address.
        ResolutionError,
        /// The egress policy denied the address.
        Aborted,
        /// Any other status.
        GenericError,
        /// Not sent: no access token could be fetched (an extension).
        TokenError,
        /// Not sent: the subscription was on probation.
        Probation,
        /// A receiver released it.
        Released,
        /// A receiver dead-lettered it.
        Rejected,
        /// A receiver deferred it.
        Deferred,
        /// A receiver let its lock lapse.
        LockLost,
        /// The status of a queue or a topic of Service Bus does not allow sending to it.
        Disabled,
        /// There is no room for a message.
        Full,
        /// A queue of Service Bus takes messages of sessions alone, and the event has none.
        SessionQueueNotSupported,
    }
}

impl Outcome {
    /// Names the result of an attempt without a response in a few words; `error` says what went wrong.
    pub fn title(self, error: &str) -> &'static str {
        let says = |word: &str| error.contains(word);
        match self {
            Self::SocketError if says("TLS") => "TLS handshake failed",
            Self::SocketError if says("refused") => "Connection refused",
            Self::SocketError if says("reset") => "Connection reset",
            Self::SocketError if says("closed") => "Connection closed",
            Self::SocketError => "Connection failed",
            Self::TimedOut => "No response in time",
            Self::ResolutionError => "Host not found",
            Self::Aborted => "Blocked by outbound rules",
            Self::TokenError => "No access token",
            Self::Probation => "Skipped on probation",
            Self::Delivered => "Completed by the receiver",
            Self::Released => "Released by the receiver",
            Self::Rejected => "Dead-lettered by the receiver",
            Self::Deferred => "Deferred by the receiver",
            Self::LockLost => "Lock expired",
            Self::Disabled => "Sending disabled",
            Self::Full => "No room for a message",
            Self::SessionQueueNotSupported => "No session id",
            Self::BadRequest
            | Self::Unauthorized
            | Self::Forbidden
            | Self::NotFound
            | Self::PayloadTooLarge
            | Self::Busy
            | Self::GenericError => "Failed",
        }
    }

    /// Returns the outcome for the HTTP status of a webhook (rule 6.5: only 200 to 204 are a success).
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
}

/// The HTTP status with which a receiver reports that it is permanently gone.
const GONE: u16 = 410;

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptResult {
    pub outcome: Outcome,
    /// The response, if the destination speaks HTTP and has answered.
    pub response: Option<HttpResponse>,
    /// A description of the failure in plain words; `None` if there was a response.
    pub error: Option<String>,
    /// A description of what the request lacked, in whole sentences; `None` if it lacked nothing.
    pub warning: Option<String>,
    /// The delay that the destination requests before the next attempt.
    pub retry_after: Option<Duration>,
    /// The address of the receiver.
    pub remote_address: Option<String>,
    /// The details that the receiver gave if it dead-lettered the event itself.
    pub dead_letter: Option<Arc<DeadLetterDetails>>,
}

/// A response to an attempt, as it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// The first bytes of the body (at most [`crate::model::limits::RESPONSE_KEPT_MAX`]).
    pub body: Vec<u8>,
    /// Is true if the response was cut: its headers and the rest of its body are not kept.
    pub is_cut: bool,
}

impl HttpResponse {
    /// Returns a response with a status only.
    pub fn bare(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    /// Reports whether the response has neither headers nor a body.
    pub fn is_bare(&self) -> bool {
        self.headers.is_empty() && self.body.is_empty()
    }

    /// Returns a small response unchanged. A larger response keeps only its status and the beginning of its body.
    #[must_use]
    pub fn cut(mut self) -> Self {
        let pairs = self.headers.iter();
        let headers: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
        if headers + self.body.len() > RESPONSE_CUT_MAX {
            self.headers.clear();
            self.body.truncate(RESPONSE_CUT_MAX);
            self.is_cut = true;
        }
        self
    }
}

impl AttemptResult {
    /// Cuts the response, if there is one.
    #[must_use]
    pub fn cut(self) -> Self {
        let response = self.response.map(HttpResponse::cut);
        Self { response, ..self }
    }

    /// The HTTP status, if there was a response.
    pub fn status(&self) -> Option<u16> {
        self.response.as_ref().map(|response| response.status)
    }

    /// Reports whether the receiver responded that it is permanently gone (section A); `None` without a response.
    pub fn is_gone(&self) -> Option<bool> {
        self.status().map(|status| status == GONE)
    }

    /// Returns the result of an attempt that is counted but not made because of a probation; `cause` is its cause.
    pub fn skipped(cause: Outcome) -> Self {
        Self {
            error: Some(format!(
                "not tried: on probation because of {}",
                cause.name()
            )),
            ..Self::of(Outcome::Probation)
        }
    }

    /// Returns the result for a response of a webhook.
    pub fn answered(response: HttpResponse) -> Self {
        Self {
            outcome: Outcome::of_status(response.status),
            response: Some(response),
            ..Self::of(Outcome::Delivered)
        }
    }

    /// Returns a result without a response.
    pub fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            response: None,
            error: None,
            retry_after: None,
            warning: None,
            remote_address: None,
            dead_letter: None,
        }
    }
}

/// One attempt of one delivery, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryAttempt {
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
    pub started_at: Timestamp,
    pub duration: Duration,
    pub result: AttemptResult,
    /// A response that came after the deadline.
    pub late: Option<LateResponse>,
}

impl DeliveryAttempt {
    /// Returns the time at which the attempt ended.
    pub fn ended_at(&self) -> Timestamp {
        self.started_at + self.duration
    }
}

/// A response that came after the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateResponse {
    pub outcome: Outcome,
    /// The HTTP status, if the destination speaks HTTP.
    pub status: Option<u16>,
    /// The time from the start of the attempt to the response.
    pub after: Duration,
}

/// A leased delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    /// The sequence number that receivers see. For a message, it is the position among all messages that were ever in
    /// the queue. For any other delivery, it is the id of the delivery.
    pub number: i64,
    pub event: EventKey,
    /// Attempts made so far.
    pub attempts: u32,
    /// The start of the time to live: the time of publishing or of resubmission.
    pub published_at: Timestamp,
    /// The start of the first attempt.
    pub first_attempt_at: Option<Timestamp>,
    /// The maximum number of events in the delivery's next request after a larger request was split; `None` for the
    /// subscription's batch setting.
    pub batch_max: Option<u32>,
}

/// The settlement of a delivery at the end of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    Complete,
    Retry {
        at: Timestamp,
    },
    DeadLetter(DeadLetterReason),
    /// Ended without being kept as a dead letter.
    Drop(DeadLetterReason),
    /// Keeps the delivery due, in a request with at most `events_max` events. The rejected request does not count as an
    /// attempt.
    Split {
        events_max: u32,
    },
}

impl Settlement {
    /// Returns the settlement of a delivery without further attempts.
    pub fn for_exhausted(reason: DeadLetterReason, by: &SubscriptionDefinition) -> Self {
        let pulled = by.destination.pull_queue();
        let drops_expired = pulled.is_some_and(|pulled| !pulled.receiving.keeps_expired);
        if reason == DeadLetterReason::TimeToLiveExceeded && drops_expired {
            Self::Drop(reason)
        } else {
            Self::DeadLetter(reason).for_destination(&by.dead_letter)
        }
    }

    /// Replaces dead-lettering by dropping if the subscription keeps no dead letters.
    pub fn for_destination(self, destination: &DeadLetterDestination) -> Self {
        match (self, destination) {
            (Self::DeadLetter(reason), DeadLetterDestination::Drop) => Self::Drop(reason),
            (settlement, _) => settlement,
        }
    }
}

/// Checks whether a due delivery may be attempted. The error is the dead-letter reason. Expiration is checked only
/// here, because a delivery becomes due at its next attempt or at its expiration.
pub fn admit(
    delivery: &Delivery,
    policy: &RetryPolicy,
    now: Timestamp,
    scale: TimeScale,
) -> Result<(), DeadLetterReason> {
    // The policy may have changed since the last attempt.
    if delivery.attempts >= policy.attempts_max {
        return Err(DeadLetterReason::MaxDeliveryAttemptsExceeded);
    }
    if now >= policy.expires_at(delivery.published_at, scale) {
        return Err(DeadLetterReason::TimeToLiveExceeded);
    }
    Ok(())
}

/// Returns the settlement after an attempt; `jitter` is in `-1..1`.
pub fn settle(
    delivery: &Delivery,
    attempt: &DeliveryAttempt,
    policy: &RetryPolicy,
    scale: TimeScale,
    jitter: f64,
) -> Settlement {
    let result = &attempt.result;
    if result.outcome == Outcome::Delivered {
        return Settlement::Complete;
    }
    if result.dead_letter.is_some() {
        return Settlement::DeadLetter(DeadLetterReason::Application);
    }
    if let Some(reason) = policy.profile.rejection(result) {
        return Settlement::DeadLetter(reason);
    }
    if attempt.attempt >= policy.attempts_max {
        return Settlement::DeadLetter(DeadLetterReason::MaxDeliveryAttemptsExceeded);
    }
    let next = policy.next_attempt_at(delivery, attempt, scale, jitter);
    // A delivery that expires before its next attempt becomes due when it expires.
    let at = next.min(policy.expires_at(delivery.published_at, scale));
    Settlement::Retry { at }
}

/// Returns the settlement after an attempt that is counted but not made because of a probation (section A, `azure`).
pub fn settle_skipped(
    delivery: &Delivery,
    skipped: &DeliveryAttempt,
    cause: Outcome,
    policy: &RetryPolicy,
    scale: TimeScale,
    jitter: f64,
) -> Settlement {
    if is_client_error(cause) {
        let reason = DeadLetterReason::UndeliverableDueToProbationCausedByClientError;
        return Settlement::DeadLetter(reason);
    }
    settle(delivery, skipped, policy, scale, jitter)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::retry::DeliveryProfile;

    /// Plays attempts with these results, without jitter, if the first is made so many seconds after
    /// publishing. Returns the offset of each attempt after the first in seconds, and the end.
    fn fate(late_s: u64, answers: &str, policy: &RetryPolicy) -> String {
        let published_at = Timestamp::from_ms(0);
        let start = published_at + Duration::from_secs(late_s);
        let (mut now, mut attempts, mut fate) = (start, 0, Vec::new());
        let mut answers = answers.split(' ');
        let mut status = 0;
        loop {
            let delivery = Delivery {
                id: DeliveryId(1),
                number: 1,
                event: EventKey(1),
                attempts,
                published_at,
                first_attempt_at: (attempts > 0).then_some(start),
                batch_max: None,
            };
            if let Err(reason) = admit(&delivery, policy, now, TimeScale::REAL) {
                fate.push(format!(
                    "+{}s expired:{}",
                    now.since(start).as_secs(),
                    reason.name()
                ));
                return fate.join(" ");
            }
            if attempts > 0 {
                fate.push(format!("+{}s", now.since(start).as_secs()));
            }
            attempts += 1;
            // The last result repeats.
            status = answers
                .next()
                .map_or(status, |word| word.parse().expect("a status"));
            let attempt = attempt(attempts, now, result(status));
            match settle(&delivery, &attempt, policy, TimeScale::REAL, 0.0) {
                Settlement::Retry { at } => now = at,
                Settlement::Complete => fate.push("done".to_owned()),
                Settlement::DeadLetter(reason) | Settlement::Drop(reason) => {
                    fate.push(format!("dead:{}", reason.name()));
                }
                Settlement::Split { .. } => panic!("a single event is not split"),
            }
            if fate.last().is_some_and(|last| !last.starts_with('+')) {
                return fate.join(" ");
            }
        }
    }

    fn result(status: u16) -> AttemptResult {
        AttemptResult::answered(HttpResponse::bare(status))
    }

    /// An attempt that takes no time.
    fn attempt(attempt: u32, at: Timestamp, result: AttemptResult) -> DeliveryAttempt {
        DeliveryAttempt {
            attempt,
            started_at: at,
            duration: Duration::ZERO,
            result,
            late: None,
        }
    }

    fn policy(attempts_max: u32, minutes: u64) -> RetryPolicy {
        RetryPolicy {
            attempts_max,
            time_to_live: Duration::from_secs(minutes * 60),
            ..RetryPolicy::default()
        }
    }

    fn namespace() -> RetryPolicy {
        RetryPolicy::of(DeliveryProfile::Namespace)
    }

    #[test]
    fn deliveries_end_as_the_specification_says() {
        for (answers, policy, expected) in [
            ("200", policy(30, 1_440), "done"),
            ("503 500 200", policy(30, 1_440), "+30s +60s done"),
            ("404 200", policy(30, 1_440), "+300s done"),
            ("408 200", policy(30, 1_440), "+120s done"),
            (
                "413",
                policy(30, 1_440),
                "dead:UndeliverableDueToHttpRequestEntityTooLarge",
            ),
            ("500", policy(1, 1_440), "dead:MaxDeliveryAttemptsExceeded"),
            (
                "500",
                policy(4, 1_440),
                "+10s +40s +100s dead:MaxDeliveryAttemptsExceeded",
            ),
            // Spec 7.1: a time to live of 30 min and at most ten attempts give six.
            (
                "500",
                policy(10, 30),
                "+10s +40s +100s +400s +1000s +1800s expired:TimeToLiveExceeded",
            ),
            // Unlike Azure, where the defaults can mean 34 h 46 min, what has expired does not wait for an attempt.
            (
                "500",
                policy(30, 1_440),
                "+10s +40s +100s +400s +1000s +2800s +6400s +17200s +38800s +82000s \
                 +86400s expired:TimeToLiveExceeded",
            ),
            // Namespaces 6.3: offsets, ten attempts, the last at minute 30; 404 is final.
            (
                "500",
                namespace(),
                "+10s +30s +60s +300s +600s +900s +1200s +1500s +1800s \
                 dead:MaxDeliveryAttemptsExceeded",
            ),
            ("503 408 200", namespace(), "+30s +150s done"),
            ("404", namespace(), "dead:UndeliverableDueToClientError"),
            ("414", namespace(), "dead:UndeliverableDueToClientError"),
        ] {
            assert_eq!(fate(0, answers, &policy), expected, "{answers} {policy:?}");
        }
    }

    /// Namespaces 6.3: the offsets count from the first attempt, however late it comes, and the time to live
    /// from the publishing.
    #[test]
    fn a_late_first_attempt_moves_the_offsets_of_a_namespace_and_not_the_end_of_its_life() {
        let twenty_minutes = RetryPolicy {
            time_to_live: Duration::from_secs(20 * 60),
            ..namespace()
        };
        for (late_s, policy, expected) in [
            (
                0,
                &twenty_minutes,
                "+10s +30s +60s +300s +600s +900s +1200s expired:TimeToLiveExceeded",
            ),
            (
                400,
                &twenty_minutes,
                "+10s +30s +60s +300s +600s +800s expired:TimeToLiveExceeded",
            ),
            (
                7_200,
                &namespace(),
                "+10s +30s +60s +300s +600s +900s +1200s +1500s +1800s \
                 dead:MaxDeliveryAttemptsExceeded",
            ),
        ] {
            assert_eq!(fate(late_s, "500", policy), expected, "{late_s} s late");
        }
    }

    #[test]
    fn offsets_count_from_the_beginning_of_an_attempt_and_waits_from_its_end() {
        let start = Timestamp::from_ms(0);
        let delivery = Delivery {
            id: DeliveryId(1),
            number: 1,
            event: EventKey(1),
            attempts: 2,
            published_at: start,
            first_attempt_at: Some(start + Duration::from_secs(7)),
            batch_max: None,
        };
        let slow = DeliveryAttempt {
            duration: Duration::from_secs(30),
            ..attempt(3, start + Duration::from_secs(40), result(500))
        };
        for (policy, expected_s) in [(namespace(), 80), (policy(30, 1_440), 130)] {
            let settled = settle(&delivery, &slow, &policy, TimeScale::REAL, 0.0);
            let at = start + Duration::from_secs(expected_s);
            assert_eq!(settled, Settlement::Retry { at }, "{:?}", policy.profile);
        }
    }

    #[test]
    fn waits_shrink_with_the_time_scale() {
        let scale = TimeScale::new(10).expect("a factor");
        let now = Timestamp::from_ms(1_000);
        let first = Delivery {
            id: DeliveryId(1),
            number: 1,
            event: EventKey(1),
            attempts: 0,
            published_at: now,
            first_attempt_at: None,
            batch_max: None,
        };
        let failed = attempt(1, now, result(500));
        let settlement = settle(&first, &failed, &policy(30, 1_440), scale, 0.0);
        assert_eq!(
            settlement,
            Settlement::Retry {
                at: Timestamp::from_ms(2_000)
            }
        );
        let delivery = Delivery {
            id: DeliveryId(1),
            number: 1,
            event: EventKey(1),
            attempts: 1,
            published_at: Timestamp::from_ms(0),
            first_attempt_at: Some(Timestamp::from_ms(0)),
            batch_max: None,
        };
        let at = |minutes: u64| Timestamp::from_ms(0) + Duration::from_secs(minutes * 60);
        assert!(admit(&delivery, &policy(30, 30), at(2), scale).is_ok());
        assert!(admit(&delivery, &policy(30, 30), at(3), scale).is_err());
    }

    #[test]
    fn a_skipped_attempt_is_retried_or_given_up_by_its_cause() {
        let now = Timestamp::from_ms(0);
        let delivery = |attempts| Delivery {
            id: DeliveryId(1),
            number: 1,
            event: EventKey(1),
            attempts,
            published_at: now,
            first_attempt_at: Some(now),
            batch_max: None,
        };
        let reason = DeadLetterReason::UndeliverableDueToProbationCausedByClientError;
        let exceeded = DeadLetterReason::MaxDeliveryAttemptsExceeded;
        let at = now + Duration::from_secs(30);
        for (attempts, cause, expected) in [
            (1, Outcome::Busy, Settlement::Retry { at }),
            (1, Outcome::TimedOut, Settlement::Retry { at }),
            (29, Outcome::Busy, Settlement::DeadLetter(exceeded)),
            (1, Outcome::NotFound, Settlement::DeadLetter(reason)),
            (1, Outcome::Unauthorized, Settlement::DeadLetter(reason)),
            (1, Outcome::Forbidden, Settlement::DeadLetter(reason)),
        ] {
            let (delivery, policy) = (delivery(attempts), RetryPolicy::default());
            let skipped = attempt(attempts + 1, now, AttemptResult::skipped(cause));
            let scale = TimeScale::REAL;
            let settled = settle_skipped(&delivery, &skipped, cause, &policy, scale, 0.0);
            assert_eq!(settled, expected, "{attempts} {cause:?}");
        }
    }

    #[test]
    fn only_200_to_204_are_success() {
        for status in 100..600 {
            let success = Outcome::of_status(status) == Outcome::Delivered;
            assert_eq!(success, (200..=204).contains(&status), "{status}");
        }
    }

    #[test]
    fn a_subscription_without_a_dead_letter_destination_drops() {
        let dead = Settlement::DeadLetter(DeadLetterReason::TimeToLiveExceeded);
        assert_eq!(
            dead.for_destination(&DeadLetterDestination::BuiltInQueue),
            dead
        );
        let dropped = Settlement::Drop(DeadLetterReason::TimeToLiveExceeded);
        assert_eq!(dead.for_destination(&DeadLetterDestination::Drop), dropped);
        assert_eq!(
            Settlement::Complete.for_destination(&DeadLetterDestination::Drop),
            Settlement::Complete
        );
    }

    proptest! {
        /// Whatever has used up its policy is never attempted, and everything else is.
        #[test]
        fn nothing_is_admitted_beyond_its_policy(
            attempts in 0..40_u32,
            attempts_max in 1..30_u32,
            minutes in 1..1_440_u64,
            age_ms in 0..100_000_000_i64,
        ) {
            let policy = RetryPolicy {
                attempts_max,
                time_to_live: Duration::from_secs(minutes * 60),
                ..RetryPolicy::default()
            };
            let delivery = Delivery {
                id: DeliveryId(1),
                number: 1,
                event: EventKey(1),
                attempts,
                published_at: Timestamp::from_ms(0),
                first_attempt_at: None,
                batch_max: None,
            };
            let admitted = admit(&delivery, &policy, Timestamp::from_ms(age_ms), TimeScale::REAL);
            let expired = age_ms.unsigned_abs() >= minutes * 60_000;
            let expected = match (attempts >= attempts_max, expired) {
                (true, _) => Err(DeadLetterReason::MaxDeliveryAttemptsExceeded),
                (false, true) => Err(DeadLetterReason::TimeToLiveExceeded),
                (false, false) => Ok(()),
            };
            prop_assert_eq!(admitted, expected);
        }
    }
}
