//! Answers over HTTP/2 that their clients do not take: a client that opens no window for them would keep them in
//! memory for as long as it likes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::Executor;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::api::RequestMemory;
use crate::base::budget::TakenBytes;

/// How long a client may take nothing of an answer; then its stream is reset.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of an answer that are handed over at once. What is handed over waits in buffers where nobody watches it.
const PIECE: usize = 4 * 1_024;

tokio::task_local! {
    /// Of the stream that the task serves.
    static WATCH: Arc<Watch>;
}

/// Runs streams of HTTP/2, each until its answer is handed over or its client takes nothing of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams;

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let watch = Arc::new(Watch::default());
        let given_up = Arc::clone(&watch);
        tokio::spawn(WATCH.scope(watch, async move {
            tokio::select! {
                _ = stream => {}
                () = given_up.given_up() => {}
            }
        }));
    }
}

#[derive(Debug, Default)]
struct Watch {
    /// Whether there is something that the client has not taken.
    is_clients_turn: AtomicBool,
    turned: Notify,
}

impl Watch {
    fn set(&self, is_clients_turn: bool) {
        self.is_clients_turn
            .store(is_clients_turn, Ordering::Relaxed);
        self.turned.notify_one();
    }

    async fn given_up(self: Arc<Self>) {
        loop {
            let turned = self.turned.notified();
            if !self.is_clients_turn.load(Ordering::Relaxed) {
                turned.await;
            } else if timeout(PATIENCE, turned).await.is_err() {
                return;
            }
        }
    }
}

/// Returns the body of an answer, which counts for `taken` until it is handed over, as its request does, and is watched if a
/// stream of HTTP/2 carries it.
pub(super) fn watched(body: Body, taken: (RequestMemory, TakenBytes)) -> Body {
    if body.is_end_stream() {
        return body;
    }
    let watch = WATCH.try_with(Arc::clone).ok();
    let watched = Watched {
        inner: body,
        rest: Bytes::new(),
        watch,
        _taken: taken,
    };
    watched.is_clients_turn(true);
    Body::new(watched)
}

struct Watched {
    inner: Body,
    /// Of the last frame.
    rest: Bytes,
    /// `None` over HTTP/1, where the deadline for the next head is enough.
    watch: Option<Arc<Watch>>,
    /// Held until it is gone.
    _taken: (RequestMemory, TakenBytes),
}

impl Watched {
    fn is_clients_turn(&self, is_it: bool) {
        if let Some(watch) = &self.watch {
            watch.set(is_it);
        }
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            self.is_clients_turn(false);
            let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        self.is_clients_turn(true);
        let length = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::sync::oneshot;
    use tokio::time::sleep;

    use super::*;
    use crate::base::budget::Budget;

    /// Whether somebody gets an answer who waits for so long before each piece.
    async fn is_taken(pause: Duration) -> bool {
        let (sender, taken) = oneshot::channel();
        Streams.execute(async move {
            sleep(PATIENCE * 10).await; // whoever makes the answer may take long
            let account = Budget::of(0).account([None, None], 0);
            let request = RequestMemory::take(&account, 0).expect("nothing");
            let taken = (request, account.nothing());
            let mut body = watched(Body::from(vec![b'x'; PIECE * 2 + 1]), taken);
            assert_eq!(body.size_hint().exact(), Some(PIECE as u64 * 2 + 1));
            let mut bytes = 0;
            loop {
                sleep(pause).await;
                let Some(frame) = body.frame().await else {
                    break;
                };
                let data = frame.expect("a frame").into_data().expect("data");
                assert!(data.len() <= PIECE);
                bytes += data.len();
            }
            let _ = sender.send(bytes);
        });
        taken.await == Ok(PIECE * 2 + 1)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_takes_is_given_up() {
        assert!(is_taken(Duration::ZERO).await);
        assert!(is_taken(PATIENCE - Duration::from_secs(1)).await);
        assert!(!is_taken(PATIENCE + Duration::from_secs(1)).await);
    }
}
