//! Work that keeps a processor busy, away from the threads that serve everybody.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use crate::base::places::Places;
use crate::broker::publish::STEPS_AT_ONCE_MAX;
use crate::model::topic::TopicId;

/// Messages and events that are held against costly rules and filters at once: half of the processors, so that the
/// others go on serving. Topics get a turn each, for one message at a time, and so do all trials together, which are of no
/// topic.
pub(super) static MATCHING: LazyLock<Places<Option<TopicId>>> = LazyLock::new(|| {
    let processors = available_parallelism().map_or(1, usize::from);
    Places::of((processors / 2).max(1))
});

/// Does the work on a thread of its own, in a place that is there for it.
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

/// Does work for a topic, or a trial, that may take so many steps. If they would keep the thread busy, it is done in the
/// background.
pub(super) async fn by_steps<T: Send + 'static>(
    topic: Option<TopicId>,
    steps: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if steps <= STEPS_AT_ONCE_MAX {
        return work();
    }
    in_background(MATCHING.take(topic).await, work).await
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{STEPS_AT_ONCE_MAX, by_steps};
    use crate::model::topic::TopicId;

    #[tokio::test]
    async fn many_steps_are_taken_on_another_thread() {
        let here = thread::current().id();
        let thread_of =
            async |steps| by_steps(Some(TopicId(1)), steps, || thread::current().id()).await;
        assert_eq!(thread_of(STEPS_AT_ONCE_MAX).await, here);
        assert_ne!(thread_of(STEPS_AT_ONCE_MAX + 1).await, here);
    }
}
