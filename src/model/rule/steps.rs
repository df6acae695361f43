//! The limit on the work of evaluating rules for a message.
//!
//! Every client that may receive from a subscription may add rules to it, and every sender waits for their evaluation.
//! Therefore, all rules evaluated for one message share a limited number of steps.

use crate::model::limits::RULE_STEPS_MAX;
use crate::model::rule::property::PropertyValue;
use crate::model::rule::sql::EvaluationError;

/// The bytes of a text that are compared or copied in one step. This takes about as long as one operator.
const STEP_BYTES: usize = 16;

/// The steps to copy one property, in addition to the steps for its bytes.
const PROPERTY_STEPS: usize = 8;

/// The remaining steps for the rules of one message. A step is an operator, a comparison of `LIKE`, or the comparison
/// or copying of a few bytes of a text.
#[derive(Debug)]
pub struct Steps(usize);

impl Steps {
    /// Creates the full number of steps for the rules of one message.
    pub fn of_message() -> Self {
        Self(RULE_STEPS_MAX)
    }

    /// Creates a limit of `most` steps.
    pub fn of(most: usize) -> Self {
        Self(most)
    }

    /// Returns the steps to copy `properties` properties that have `bytes` bytes in total.
    pub fn to_copy(properties: usize, bytes: usize) -> usize {
        properties * PROPERTY_STEPS + bytes / STEP_BYTES
    }

    /// The number of remaining steps.
    pub fn left(&self) -> usize {
        self.0
    }

    /// Takes `steps` steps. Fails and takes all remaining steps if there are fewer.
    pub(super) fn take(&mut self, steps: usize) -> Result<(), EvaluationError> {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or(0);
        left.map(drop).ok_or(EvaluationError::TooManySteps)
    }

    /// Takes the steps to compare or copy `bytes` bytes of a text.
    pub(super) fn take_bytes(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        self.take(bytes / STEP_BYTES)
    }

    /// Takes the steps to compare or copy a value.
    pub(super) fn take_value(&mut self, value: &PropertyValue) -> Result<(), EvaluationError> {
        self.take_bytes(value.bytes())
    }

    /// Takes one of `of` equal shares of the remaining steps. The unused steps of a share can be returned with
    /// [`Steps::give_back`] for later shares.
    pub(super) fn part(&mut self, of: usize) -> Self {
        let part = self.0 / of.max(1);
        self.0 -= part;
        Self(part)
    }

    /// Returns the unused steps of a share.
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
