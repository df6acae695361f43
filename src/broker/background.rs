//! Work that keeps a processor busy, away from the threads that serve everybody.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use crate::base::places::Places;
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
