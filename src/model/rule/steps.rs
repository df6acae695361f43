//! The limit on the work that it may take to evaluate rules for messages.
//!
//! Whoever may receive from a subscription may add rules to it, and every sender waits for them. So the rules of one
//! message share a number of steps, which is counted where they are evaluated.

use crate::model::limits::RULE_STEPS_MAX;
use crate::model::rule::property::PropertyValue;
use crate::model::rule::sql::EvaluationError;

/// Bytes of a text that one step compares or copies: about as much work as to look at one operator.
const STEP_BYTES: usize = 16;

/// Steps that it takes to copy one property, whatever it holds.
const PROPERTY_STEPS: usize = 8;

/// Steps that are left for the rules of one message. A step is an operator, a comparison of `LIKE`, or a few bytes of a
/// text that are compared or copied.
#[derive(Debug)]
pub struct Steps(usize);

impl Steps {
    /// Returns as many steps as the rules of one message may take.
    pub fn of_message() -> Self {
        Self(RULE_STEPS_MAX)
    }

    /// Returns `most` steps.
    pub fn of(most: usize) -> Self {
        Self(most)
    }

    /// Returns what it takes to copy so many properties with so many bytes.
    pub fn to_copy(properties: usize, bytes: usize) -> usize {
        properties * PROPERTY_STEPS + bytes / STEP_BYTES
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.0
    }

    /// Takes `steps`; what is left is gone if these are more.
    pub(super) fn take(&mut self, steps: usize) -> Result<(), EvaluationError> {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or(0);
        left.map(drop).ok_or(EvaluationError::TooManySteps)
    }

    /// Takes what it costs to compare or copy so many bytes of a text.
    pub(super) fn take_bytes(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        self.take(bytes / STEP_BYTES)
    }

    /// Takes what it costs to compare or copy a value.
    pub(super) fn take_value(&mut self, value: &PropertyValue) -> Result<(), EvaluationError> {
        self.take_bytes(value.bytes())
    }

    /// An equal part for each of so many that are still to come. What one of them leaves is for those behind it.
    pub(super) fn part(&mut self, of: usize) -> Self {
        let part = self.0 / of.max(1);
        self.0 -= part;
        Self(part)
    }

    /// Gives back what a part has left.
    pub(super) fn give_back(&mut self, part: &Self) {
        self.0 += part.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_equal_and_what_one_leaves_is_for_those_behind_it() {
        let mut steps = Steps::of(90);
        let mut one = steps.part(3);
        assert_eq!(one.left(), 30);
        assert_eq!(one.take(10), Ok(()));
        steps.give_back(&one);
        let mut two = steps.part(2);
        assert_eq!(two.left(), 40);
        assert_eq!(two.take(41), Err(EvaluationError::TooManySteps));
        assert_eq!(
            (two.left(), two.take(1)),
            (0, Err(EvaluationError::TooManySteps))
        );
        steps.give_back(&two);
        assert_eq!(steps.part(1).left(), 40);
        assert_eq!(steps.left(), 0);
    }
}
