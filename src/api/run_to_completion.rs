//! Middleware that completes a request once it has begun, even if its client hangs up.
//!
//! The HTTP server drops a handler as soon as its client hangs up. A handler that is dropped in the middle of a change
//! would leave the database and the in-memory registry inconsistent: a topic that is stored but not served, or a
//! deleted subscription that still gets events.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;

use crate::base::request_memory::RequestMemory;

/// Runs the handler in a task of its own, so that it completes even if the client hangs up. The memory of the request
/// counts until the handler has completed.
pub(super) async fn run_to_completion(request: Request, next: Next) -> Response {
    let memory = request.extensions().get::<RequestMemory>().cloned();
    let answering = next.run(request).map(move |answer| {
        drop(memory);
        answer
    });
    completed(answering).await
}

/// Runs `work` in a task of its own, so that it completes even if nobody waits for its result.
pub(super) async fn completed<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        // The task is never aborted, so it has panicked. The panic goes on to the layer that answers panics.
        Err(failure) => std::panic::resume_unwind(failure.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use tokio::sync::Notify;
    use tower::ServiceExt;

    use super::*;
    use crate::base::budget::Budget;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_hangs_up_does_not_stop_its_request_which_counts_until_it_ends() {
        let account = Budget::of(1_000).account([None, None], usize::MAX);
        let memory = RequestMemory::take(&account, 7).expect("memory");
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(memory);
        let (go_on, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (wait, tell) = (Arc::clone(&go_on), Arc::clone(&done));
        let change = async move || {
            wait.notified().await;
            tell.notify_one();
        };
        let router: Router = Router::new()
            .route("/", get(change))
            .layer(from_fn(run_to_completion));
        let answer = router.oneshot(request);
        let hung_up = tokio::time::timeout(Duration::from_millis(1), answer).await;
        assert!(hung_up.is_err(), "it waits");
        assert_eq!(account.taken(), 7);
        go_on.notify_one();
        let ended = tokio::time::timeout(Duration::from_secs(1), done.notified()).await;
        assert!(ended.is_ok(), "it went on");
        tokio::task::yield_now().await;
        assert_eq!(account.taken(), 0);
    }
}
