//! Resubmission of dead letters and delivered events: the permitted targets and the life cycle of a replay job.
//!
//! A replay job covers the deliveries that exist and match its filter when the job starts. The job processes them in
//! the order of their ids. Deliveries that the job creates have higher ids, so the job never covers them.

use std::collections::BTreeMap;

use crate::base::Timestamp;
use crate::base::named::{ids, named_enum};
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::{DeliveryId, DeliveryState};
use crate::model::destination::EndpointUrl;
use crate::model::limits::REPLAY_ERRORS_KEPT_MAX;
use crate::model::pace::Rate;
use crate::model::topic::TopicId;

ids! {
    /// The id of a replay job: ascending, never reused.
    ReplayJobId,
}

/// Which deliveries are resubmitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaySource {
    pub of: Replayed,
    pub filter: DeadLetterFilter,
}

named_enum! {
    /// Which deliveries the filter chooses from.
    pub enum Replayed {
        DeadLetters,
        /// Deliveries that have succeeded, but whose events the receiver has lost.
        Delivered,
    }
}

impl Replayed {
    /// The state of the deliveries that the filter chooses from.
    pub fn state(self) -> DeliveryState {
        match self {
            Self::DeadLetters => DeliveryState::DeadLettered,
            Self::Delivered => DeliveryState::Delivered,
        }
    }
}

/// Where deliveries are resubmitted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayTarget {
    /// To their own subscription alone.
    Subscription,
    /// To the given topic, or for `None` to the topic of each delivery. The event is published as new and matched
    /// again.
    Topic(Option<TopicId>),
    /// To a URL that belongs to no subscription, in one request per delivery.
    Url(EndpointUrl),
}

impl ReplayTarget {
    /// The name in requests and responses.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Subscription => "Subscription",
            Self::Topic(_) => "Topic",
            Self::Url(_) => "Url",
        }
    }
}

named_enum! {
    /// Why a delivery is not resubmitted.
    #[derive(PartialOrd, Ord)]
    pub enum NotResubmitted {
        /// It is not a dead letter, or was resubmitted or attempted meanwhile.
        NotDeadLettered,
        /// It is locked.
        Locked,
        SubscriptionDeleted,
        TopicDeleted,
        /// The event has already been resubmitted too often (loop guard).
        ResubmittedTooOften,
        /// No event subscription of the topic matches it.
        Unmatched,
        /// The other topic has another input schema.
        OtherSchema,
        /// Its event is damaged.
        EventUnreadable,
        /// Only the appliance publishes to the topic.
        BuiltInTopic,
        /// The queue takes messages with a session id only.
        SessionIdMissing,
        /// The other topic is one of Service Bus, whose rules make copies.
        ServiceBusTopic,
    }
}

impl NotResubmitted {
    /// The reason, in plain words.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::NotDeadLettered => "it has been resubmitted or attempted meanwhile",
            Self::Locked => "a receiver holds it locked",
            Self::SubscriptionDeleted => "its event subscription has been deleted",
            Self::TopicDeleted => "the topic has been deleted",
            Self::ResubmittedTooOften => {
                "its event has been resubmitted as often as the setting replay.resubmissions_max \
                 allows, so something is going round in circles"
            }
            Self::Unmatched => "no event subscription of the topic wants it, so it would be lost",
            Self::OtherSchema => "the topic takes events of another schema",
            Self::EventUnreadable => "its event cannot be read any more",
            Self::BuiltInTopic => {
                "the topic is built in, and nobody but the appliance publishes to it"
            }
            Self::SessionIdMissing => "the queue takes messages with a session id only",
            Self::ServiceBusTopic => {
                "the topic is one of Service Bus, so it can be resubmitted to its subscription, or to a queue"
            }
        }
    }
}

/// Checks the loop guard: an event that has been resubmitted `resubmissions` times may be resubmitted once more only
/// if that number is below `resubmissions_max`.
pub fn check_loop_guard(resubmissions: u32, resubmissions_max: u32) -> Result<(), NotResubmitted> {
    if resubmissions < resubmissions_max {
        Ok(())
    } else {
        Err(NotResubmitted::ResubmittedTooOften)
    }
}

named_enum! {
    /// The state of a replay job. `Running` and `Paused` alternate until one of the others ends it.
    pub enum ReplayState {
        Running,
        Paused,
        Completed,
        Cancelled,
    }
}

/// A command to a replay job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayCommand {
    Pause,
    Resume,
    Cancel,
}

impl ReplayState {
    /// Returns whether the job has ended.
    pub fn is_ended(self) -> bool {
        match self {
            Self::Running | Self::Paused => false,
            Self::Completed | Self::Cancelled => true,
        }
    }

    /// The state after a command; `None` for a job that has ended. Pausing a paused job changes nothing.
    pub fn after(self, command: ReplayCommand) -> Option<Self> {
        let next = match command {
            ReplayCommand::Pause => Self::Paused,
            ReplayCommand::Resume => Self::Running,
            ReplayCommand::Cancel => Self::Cancelled,
        };
        (!self.is_ended()).then_some(next)
    }
}

/// A replay job to start.
#[derive(Clone, Debug)]
pub struct NewReplayJob {
    pub source: ReplaySource,
    pub target: ReplayTarget,
    /// Events per second; `None` for no limit other than the speed of the receivers.
    pub rate: Option<Rate>,
    /// The newest delivery that it covers.
    pub until: DeliveryId,
    /// Deliveries that it covers, counted at the start.
    pub total: u64,
}

/// A replay job.
#[derive(Clone, Debug)]
pub struct ReplayJob {
    pub id: ReplayJobId,
    pub request: NewReplayJob,
    pub state: ReplayState,
    pub created_at: Timestamp,
    /// The time at which the job last advanced, or was paused or resumed.
    pub updated_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// The last delivery processed. All deliveries up to this id are done.
    pub cursor: DeliveryId,
    pub progress: ReplayProgress,
}

/// The progress of a replay job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayProgress {
    pub resubmitted: u64,
    /// The number of deliveries sent to the URL and not accepted.
    pub failed: u64,
    pub skipped: BTreeMap<NotResubmitted, u64>,
    /// The first errors, in words.
    pub errors: Vec<(DeliveryId, String)>,
}

impl ReplayProgress {
    /// Deliveries that are done.
    pub fn done(&self) -> u64 {
        self.resubmitted + self.failed + self.skipped.values().sum::<u64>()
    }

    /// Counts a delivery that is not resubmitted.
    pub fn skip(&mut self, delivery: DeliveryId, rejection: NotResubmitted) {
        *self.skipped.entry(rejection).or_default() += 1;
        self.note(delivery, rejection.explanation());
    }

    /// Counts a delivery that the URL did not accept.
    pub fn fail(&mut self, delivery: DeliveryId, error: &str) {
        self.failed += 1;
        self.note(delivery, error);
    }

    fn note(&mut self, delivery: DeliveryId, error: &str) {
        if self.errors.len() < REPLAY_ERRORS_KEPT_MAX {
            self.errors.push((delivery, error.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_guard_counts_what_leads_to_a_delivery() {
        assert_eq!(check_loop_guard(0, 1), Ok(()));
        assert_eq!(check_loop_guard(9, 10), Ok(()));
        assert_eq!(
            check_loop_guard(10, 10),
            Err(NotResubmitted::ResubmittedTooOften)
        );
        assert_eq!(
            check_loop_guard(11, 10),
            Err(NotResubmitted::ResubmittedTooOften)
        );
    }

    #[test]
    fn what_is_over_stays_over() {
        use ReplayCommand::{Cancel, Pause, Resume};
        for (state, commands) in [
            (
                ReplayState::Running,
                [Some("Paused"), Some("Running"), Some("Cancelled")],
            ),
            (
                ReplayState::Paused,
                [Some("Paused"), Some("Running"), Some("Cancelled")],
            ),
            (ReplayState::Completed, [None; 3]),
            (ReplayState::Cancelled, [None; 3]),
        ] {
            let after = [Pause, Resume, Cancel].map(|command| state.after(command));
            assert_eq!(
                after.map(|next| next.map(ReplayState::name)),
                commands,
                "{state:?}"
            );
        }
    }

    #[test]
    fn only_the_first_errors_are_kept() {
        let mut progress = ReplayProgress::default();
        for number in 0..100 {
            progress.skip(DeliveryId(number), NotResubmitted::Unmatched);
            progress.fail(DeliveryId(number), "no");
        }
        assert_eq!(progress.done(), 200);
        assert_eq!(progress.errors.len(), REPLAY_ERRORS_KEPT_MAX);
        assert_eq!(progress.errors[1], (DeliveryId(0), "no".to_owned()));
    }

    #[test]
    fn names_lead_back() {
        for rejection in NotResubmitted::ALL {
            assert_eq!(NotResubmitted::from_name(rejection.name()), Some(rejection));
        }
    }
}
