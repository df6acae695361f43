//! Responses that clients do not read. A client that opens no flow-control window, or does not read, would otherwise
//! keep its response in memory for as long as it likes. A response counts against the memory limit until none of it is
//! left in any buffer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::Executor;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Maximum time for which a client may read nothing of a response. After that its HTTP/2 stream, or its HTTP/1
/// connection, is reset.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Maximum number of response bytes that are passed to hyper at once. Bytes in its buffers still count as memory, but
/// are not watched.
const PIECE: usize = 4 * 1_024;

tokio::task_local! {
    /// The watch over the stream that the task serves.
    static WATCH: Arc<UnreadWatch>;
}

/// Runs the streams of one HTTP/2 connection, each until its response is passed on or its client stops reading it.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    /// True if the response to the next stream is already available.
    is_answered: Arc<AtomicBool>,
}

impl Streams {
    /// Notes that the response to the next stream is already available. That response is passed on before another
    /// request is read, so that responses never pile up for a client that reads them.
    pub(super) fn next_is_answered(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let watch = Arc::new(UnreadWatch::default());
        let given_up = Arc::clone(&watch);
        let mut stream = Box::pin(WATCH.scope(watch, async move {
            tokio::select! {
                _ = stream => {}
                () = given_up.given_up() => {}
            }
        }));
        let is_answered = self.is_answered.swap(false, Ordering::Relaxed);
        if is_answered && stream.as_mut().now_or_never().is_some() {
            return;
        }
        tokio::spawn(stream);
    }
}

#[derive(Debug, Default)]
struct UnreadWatch {
    /// True while the client has not read all bytes that were passed on.
    is_clients_turn: AtomicBool,
    turned: Notify,
}

impl UnreadWatch {
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

/// Returns a response body that holds `kept` until none of its bytes are left in any buffer. The body is watched if an
/// HTTP/2 stream carries it. Over HTTP/2 even an empty body ends with a piece, because the response head waits in front
/// of that piece.
pub(super) fn watched(body: Body, kept: impl Send + Sync + 'static) -> Body {
    let watch = WATCH.try_with(Arc::clone).ok();
    if watch.is_none() && body.is_end_stream() {
        return body;
    }
    let watched = Watched {
        inner: body,
        rest: Bytes::new(),
        is_over: false,
        watch,
        kept: Arc::new(kept),
    };
    watched.is_clients_turn(true);
    Body::new(watched)
}

struct Watched<K> {
    inner: Body,
    /// The bytes of the last frame that have not been handed over.
    rest: Bytes,
    is_over: bool,
    /// `None` over HTTP/1, where the connection itself is watched.
    watch: Option<Arc<UnreadWatch>>,
    /// Held by the body and by each of its pieces until they are dropped.
    kept: Arc<K>,
}

/// A piece of an answer.
struct AnswerPiece<K> {
    bytes: Bytes,
    _kept: Arc<K>,
}

impl<K> AsRef<[u8]> for AnswerPiece<K> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<K: Send + Sync + 'static> Watched<K> {
    fn is_clients_turn(&self, is_it: bool) {
        if let Some(watch) = &self.watch {
            watch.set(is_it);
        }
    }

    /// The next piece, which may be empty.
    fn piece(&mut self) -> Frame<Bytes> {
        self.is_clients_turn(true);
        let length = self.rest.len().min(PIECE);
        Frame::data(Bytes::from_owner(AnswerPiece {
            bytes: self.rest.split_to(length),
            _kept: Arc::clone(&self.kept),
        }))
    }
}

impl<K: Send + Sync + 'static> HttpBody for Watched<K> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() && !self.is_over {
            self.is_clients_turn(false);
            let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.is_over = true;
                    let last = self.watch.is_some().then(|| Ok(self.piece()));
                    return Poll::Ready(last);
                }
            }
        } else if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let piece = self.piece();
        self.is_over = self.rest.is_empty() && self.inner.is_end_stream();
        Poll::Ready(Some(Ok(piece)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over && self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        // An empty response may have a status that forbids Content-Length, such as 204.
        if let Some(upper) = inner
            .upper()
            .filter(|upper| self.watch.is_none() || upper + rest > 0)
        {
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

    /// Whether somebody gets an answer who waits for so long before each piece.
    async fn is_taken(pause: Duration) -> bool {
        let (sender, taken) = oneshot::channel();
        Streams::default().execute(async move {
            sleep(PATIENCE * 10).await; // whoever makes the answer may take long
            let mut body = watched(Body::from(vec![b'x'; PIECE * 2 + 1]), ());
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

    /// Who still holds what an answer keeps: the body, pieces of it, and the test.
    async fn holders(body: Body, kept: &Arc<()>) -> [usize; 3] {
        let mut body = watched(body, Arc::clone(kept));
        let waiting = Arc::strong_count(kept) - 1;
        let piece = body.frame().await.expect("a piece").expect("data");
        assert!(body.is_end_stream());
        drop(body);
        let handed_over = Arc::strong_count(kept) - 1;
        drop(piece);
        [waiting, handed_over, Arc::strong_count(kept) - 1]
    }

    #[tokio::test]
    async fn an_answer_counts_until_nothing_of_it_is_left() {
        let kept = Arc::new(());
        assert_eq!(holders(Body::from("text"), &kept).await, [1, 1, 0]);
        let over_http2 = WATCH.scope(Arc::default(), async {
            assert_eq!(watched(Body::empty(), ()).size_hint().exact(), None);
            [
                holders(Body::from("text"), &kept).await,
                holders(Body::empty(), &kept).await,
            ]
        });
        assert_eq!(over_http2.await, [[1, 1, 0]; 2]);
    }

    #[tokio::test]
    async fn an_answer_that_is_there_is_handed_over_at_once() {
        let kept = Arc::new(());
        let streams = Streams::default();
        let stream = || {
            let kept = Arc::clone(&kept);
            async move { drop(kept) }
        };
        streams.execute(stream());
        assert_eq!(Arc::strong_count(&kept), 2, "it has a task");
        streams.next_is_answered();
        streams.execute(stream());
        assert_eq!(Arc::strong_count(&kept), 2, "it is over");
    }
}
