//! Attempts as a row of bars, the oldest first. A success is short and a failure has the full height, so that
//! colour is not needed.

use std::fmt::Write as _;

use askama::Template;

use crate::admin::widgets::{Time, part, print, response};
use crate::model::delivery::Outcome;
use crate::store::views::RecentAttempt;

/// The bars of one subscription.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/strip.html")]
pub(crate) struct Strip {
    slots: usize,
    /// What is said of each, with whether it succeeded. In a list they are only drawn.
    said: Vec<(bool, String)>,
    succeeded: usize,
    failed: usize,
    good: String,
    bad: String,
}

part!(Strip);

pub(crate) fn succeeded(outcome: Outcome) -> bool {
    outcome == Outcome::Delivered
}

impl Strip {
    /// Of what came of the newest `slots` attempts, newest first, for a row of a list.
    pub(crate) fn row(outcomes: &[Outcome], slots: usize) -> Self {
        let shown: Vec<Outcome> = outcomes.iter().copied().take(slots).rev().collect();
        let free = slots - shown.len();
        let (mut good, mut bad) = (String::new(), String::new());
        for (index, each) in shown.iter().enumerate() {
            let x = (free + index) * 5 + 2;
            let _ = match succeeded(*each) {
                true => write!(good, "M{x} 7v11"),
                false => write!(bad, "M{x} 0v18"),
            };
        }
        let failed = shown.iter().filter(|each| !succeeded(**each)).count();
        Self {
            slots,
            said: Vec::new(),
            succeeded: shown.len() - failed,
            failed,
            good,
            bad,
        }
    }

    /// The same over the width of a page, with every attempt in words.
    pub(crate) fn wide(attempts: &[RecentAttempt], slots: usize) -> Self {
        let said = attempts.iter().take(slots).rev().map(|each| {
            let at = Time::by("%H:%M:%S", each.attempt.started_at).text();
            let (came, took) = (
                response::of_attempt(&each.attempt),
                print::span(each.attempt.duration),
            );
            let outcome = each.attempt.result.outcome;
            (succeeded(outcome), format!("{at}  {came}, {took}"))
        });
        let outcomes: Vec<Outcome> = attempts
            .iter()
            .map(|each| each.attempt.result.outcome)
            .collect();
        Self {
            said: said.collect(),
            ..Self::row(&outcomes, slots)
        }
    }

    fn is_wide(&self) -> bool {
        !self.said.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.succeeded + self.failed == 0
    }

    /// Where a bar stands over the width of a page.
    fn x(&self, index: &usize) -> usize {
        (self.slots - self.said.len() + index) * 9
    }

    fn width(&self) -> usize {
        self.slots * if self.is_wide() { 9 } else { 5 }
    }
}
