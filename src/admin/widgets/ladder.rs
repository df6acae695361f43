//! The attempts that a retry policy makes: how long it waits before each of them, if all of them fail.

use super::*;
use crate::base::TimeScale;
use crate::model::retry::RetryPolicy;

/// Steps that are drawn; of more, the first and the number of the others.
const STEPS_SHOWN: usize = 14;

/// When attempts are made since the publishing, of which the last is the end, and the reason for it.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/ladder.html")]
pub(crate) struct RetryLadder(Vec<Duration>, DeadLetterReason);

part!(RetryLadder);

impl RetryLadder {
    pub(crate) fn new(policy: &RetryPolicy, scale: TimeScale) -> Self {
        let (times, reason) = policy.played_through(scale);
        Self(times, reason)
    }

    fn waits(&self) -> impl Iterator<Item = Duration> {
        let before = std::iter::once(&Duration::ZERO).chain(&self.0);
        let steps = self.0.iter().zip(before);
        steps.map(|(at, before)| at.saturating_sub(*before))
    }
}
