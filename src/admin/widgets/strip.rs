//! Attempts as a row of bars, the oldest first. A success is short and a failure has the full height, so that
//! colour is not needed.

use super::*;
use crate::store::views::RecentAttempt;

#[derive(Clone, Debug, Template)]
#[template(path = "widgets/strip.html")]
pub(crate) struct Strip {
    slots: usize,
    /// The bars: whether the attempt succeeded, and its description, which is empty in a row of a list.
    bars: Vec<(bool, String)>,
    is_wide: bool,
}

part!(Strip);

pub(crate) fn succeeded(outcome: Outcome) -> bool {
    outcome == Outcome::Delivered
}

impl Strip {
    /// Makes the strip for a row of a list from the outcomes of the newest `slots` attempts, newest first.
    pub(crate) fn row(outcomes: &[Outcome], slots: usize) -> Self {
        let shown = outcomes.iter().take(slots).rev();
        let bars = shown.map(|each| (succeeded(*each), String::new()));
        Self {
            slots,
            bars: bars.collect(),
            is_wide: false,
        }
    }

    pub(crate) fn wide(attempts: &[RecentAttempt], slots: usize) -> Self {
        let bar = |RecentAttempt { attempt, .. }: &RecentAttempt| {
            let at = Time::seconds(attempt.started_at).text();
            let (came, took) = (response::of_attempt(attempt), print::span(attempt.duration));
            let said = format!("{at}  {came}, {took}");
            (succeeded(attempt.result.outcome), said)
        };
        let bars = attempts.iter().take(slots).rev().map(bar);
        Self {
            slots,
            bars: bars.collect(),
            is_wide: true,
        }
    }

    fn succeeded(&self) -> usize {
        self.bars.iter().filter(|(good, _)| *good).count()
    }

    fn failed(&self) -> usize {
        self.bars.len() - self.succeeded()
    }

    /// Where a bar stands; the newest one at the end.
    fn x(&self, index: &usize) -> usize {
        let slot = self.slots - self.bars.len() + index;
        if self.is_wide { slot * 9 } else { slot * 5 + 2 }
    }
}
