//! Work that keeps a processor busy, away from the threads that serve everybody.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;

/// Messages and events that are held against costly rules and filters at once: half of the processors, so that the
/// others go on serving. Who waits gets a turn in the order of coming, for one message at a time.
pub(super) static MATCHING: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = available_parallelism().map_or(1, usize::from);
    Semaphore::new((processors / 2).max(1))
});

/// Does the work on a thread of its own, once there is a `place` for it.
pub(super) async fn in_background<T: Send + 'static>(
    places: &'static Semaphore,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let permit = places.acquire().await.expect("it is never closed");
    let work = move || {
        let _permit = permit; // held to the end even if the client goes away
        work()
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.expect("the work does not panic")
}
