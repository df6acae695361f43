//! CPU-intensive work, run on blocking threads so that it does not delay the threads that serve requests.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use crate::base::places::{Places, TakenPlace};
use crate::broker::publish::{STEPS_AT_ONCE_MAX, STEPS_IN_A_ROW_MAX};
use crate::model::topic::TopicId;

/// Places for evaluating costly rules and filters in the background, one for every two processors. The other
/// processors go on serving requests. A turn is for one message.
pub(super) static MATCHING: LazyLock<Places<MatchingFor>> = LazyLock::new(|| {
    let processors = available_parallelism().map_or(1, usize::from);
    Places::of((processors / 2).max(1))
});

/// The keys by which the places of [`MATCHING`] are shared in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum MatchingFor {
    /// All clients that publish or send to a topic.
    Topic(TopicId),
    /// The forwarder. It forwards the messages of all entities, so it does not wait behind messages sent to a topic.
    Forwarder,
    /// All clients that try something out, such as a filter on a sample event.
    Trials,
}

/// A run of messages or events that are evaluated against rules and filters one after the other.
pub(super) struct MatchingRun {
    of: MatchingFor,
    /// The number of evaluation steps taken so far, including steps taken in the background.
    steps: usize,
    /// The number of steps at the last yield to other tasks on the thread.
    rested_at: usize,
}

impl MatchingRun {
    pub(super) fn of(of: MatchingFor) -> Self {
        Self {
            of,
            steps: 0,
            rested_at: 0,
        }
    }

    /// Returns the number of evaluation steps taken so far.
    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    /// Counts evaluation steps, and yields to other tasks after `STEPS_IN_A_ROW_MAX` steps without a yield.
    pub(super) async fn add(&mut self, steps: usize) {
        self.steps = self.steps.saturating_add(steps);
        if self.steps - self.rested_at >= STEPS_IN_A_ROW_MAX {
            tokio::task::yield_now().await;
            self.rested_at = self.steps;
        }
    }

    /// Waits for one of the places of [`MATCHING`].
    pub(super) async fn place(&self) -> TakenPlace<MatchingFor> {
        MATCHING.take(self.of).await
    }
}

/// Runs `work` on a blocking thread, and holds `place` until it has finished.
pub(super) async fn in_background<T: Send + 'static>(
    place: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let work = move || {
        let _place = place; // held to the end even if the client goes away
        work()
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.expect("the work does not panic")
}

/// Runs work that may take up to `steps` steps. Above `STEPS_AT_ONCE_MAX` steps the work runs in the background.
pub(super) async fn by_steps<T: Send + 'static>(
    of: MatchingFor,
    steps: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if steps <= STEPS_AT_ONCE_MAX {
        return work();
    }
    in_background(MATCHING.take(of).await, work).await
}

#[cfg(test)]
mod tests {
    use std::thread;

    use futures_util::FutureExt;

    use super::{MatchingFor, MatchingRun, STEPS_AT_ONCE_MAX, STEPS_IN_A_ROW_MAX, by_steps};
    use crate::model::topic::TopicId;

    #[test]
    fn others_have_their_turn_after_so_many_steps_in_a_row() {
        let mut run = MatchingRun::of(MatchingFor::Trials);
        for (steps, goes_on) in [(1, true), (STEPS_IN_A_ROW_MAX - 2, true), (1, false)] {
            assert_eq!(run.add(steps).now_or_never().is_some(), goes_on, "{steps}");
        }
        assert_eq!(run.steps(), STEPS_IN_A_ROW_MAX);
    }

    #[tokio::test]
    async fn many_steps_are_taken_on_another_thread() {
        let here = thread::current().id();
        let of = MatchingFor::Topic(TopicId(1));
        let thread_of = async |steps| by_steps(of, steps, || thread::current().id()).await;
        assert_eq!(thread_of(STEPS_AT_ONCE_MAX).await, here);
        assert_ne!(thread_of(STEPS_AT_ONCE_MAX + 1).await, here);
    }
}
