//! Request bodies with a minimum receive rate.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::api::BODY_RATE_MIN;
use crate::app::heads::HeadsProgress;

/// Maximum time by which a body may lag behind the minimum rate. Credit for bytes that arrive early is capped at this
/// time, too: otherwise a client could pause for minutes while its body holds the memory of the topic.
const GRACE: Duration = Duration::from_secs(15);

/// A request body that fails if the client sends too slowly, because it occupies memory and a place while it arrives.
pub(super) struct PacedBody<B> {
    inner: B,
    /// Progress of the connection, which is told of the bytes of this body.
    progress: Arc<HeadsProgress>,
    /// Cancelled when the server no longer waits for the body.
    end: CancellationToken,
    is_over: bool,
    /// The deadline of the body; set when the client is first waited for.
    late: Option<Late>,
}

struct Late {
    until: Instant,
    sleep: Pin<Box<Sleep>>,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
}

#[derive(Debug, thiserror::Error)]
#[error("it came too slowly")]
struct TooSlow;

#[derive(Debug, thiserror::Error)]
#[error("it had not come when the server stopped")]
struct Stopped;

impl<B: Body> PacedBody<B> {
    pub(super) fn new(inner: B, progress: Arc<HeadsProgress>, end: CancellationToken) -> Self {
        let is_over = inner.is_end_stream();
        Self {
            inner,
            progress,
            end,
            is_over,
            late: None,
        }
    }
}

impl<B> Drop for PacedBody<B> {
    fn drop(&mut self) {
        if !self.is_over {
            self.progress.note_left_body();
        }
    }
}

impl Late {
    fn new(end: CancellationToken) -> Self {
        let sleep = Box::pin(sleep(GRACE));
        Self {
            until: sleep.deadline(),
            sleep,
            end: Box::pin(end.cancelled_owned()),
        }
    }

    fn note(&mut self, bytes: u32) {
        let later = self.until + Duration::from_secs(1) * bytes / BODY_RATE_MIN;
        self.until = later.min(sleep(GRACE).deadline()); // in so long from now
    }

    /// Returns `Ready` once the deadline of the body has passed.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.until > self.sleep.deadline() {
            self.sleep.as_mut().reset(self.until);
        }
        self.sleep.as_mut().poll(context)
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for PacedBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) {
            let data = frame
                .as_ref()
                .and_then(|frame| frame.as_ref().ok()?.data_ref());
            let bytes = data.map_or(0, Bytes::len);
            if let Some(late) = &mut this.late {
                late.note(u32::try_from(bytes).unwrap_or(u32::MAX));
            }
            this.progress.note_body(bytes);
            this.is_over = frame.is_none() || this.inner.is_end_stream();
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let late = this.late.get_or_insert_with(|| Late::new(this.end.clone()));
        if late.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(Stopped.into())));
        }
        ready!(late.poll(context));
        Poll::Ready(Some(Err(TooSlow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    #[tokio::test]
    async fn it_is_noted_that_a_body_is_left() {
        for (read, is_left) in [(0, true), (1, true), (2, true), (3, false)] {
            let progress = Arc::<HeadsProgress>::default();
            let frames =
                ["ab", "c"].map(|piece| Ok::<_, BoxError>(Frame::data(Bytes::from(piece))));
            let body = StreamBody::new(stream::iter(frames));
            let mut paced = PacedBody::new(body, Arc::clone(&progress), CancellationToken::new());
            for _ in 0..read {
                paced.frame().await.transpose().expect("a piece or the end");
            }
            drop(paced);
            assert_eq!(progress.has_left_body(), is_left, "{read}");
            assert!(!progress.has_left_body(), "it is told once");
        }
        let progress = Arc::<HeadsProgress>::default();
        let nothing = Full::new(Bytes::new());
        drop(PacedBody::new(
            nothing,
            Arc::clone(&progress),
            CancellationToken::new(),
        ));
        assert!(!progress.has_left_body(), "there was none");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_not_waited_for_once_the_server_has_stopped() {
        let end = CancellationToken::new();
        let pieces = stream::pending::<Result<Frame<Bytes>, BoxError>>();
        let mut body = PacedBody::new(StreamBody::new(pieces), Arc::default(), end.clone());
        let begun = Instant::now();
        let (frame, ()) = tokio::join!(body.frame(), async {
            sleep(Duration::from_secs(1)).await;
            end.cancel();
        });
        let error = frame.expect("an end").expect_err("it has not come");
        assert_eq!(error.to_string(), "it had not come when the server stopped");
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
    }

    /// The bytes that arrive of a body of so many pieces, one a second.
    async fn arrives(pieces: usize, bytes: usize) -> Result<usize, BoxError> {
        arrives_after(pieces, bytes, |_| 1).await
    }

    /// The bytes that arrive of a body of so many pieces, each after so many seconds.
    async fn arrives_after(
        pieces: usize,
        bytes: usize,
        seconds: impl Fn(usize) -> u64 + Copy,
    ) -> Result<usize, BoxError> {
        let pieces = stream::unfold(0, move |sent| async move {
            tokio::time::sleep(Duration::from_secs(seconds(sent))).await;
            let piece = Frame::data(Bytes::from(vec![0; bytes]));
            (sent < pieces).then_some((Ok::<_, BoxError>(piece), sent + 1))
        });
        let body = PacedBody::new(
            StreamBody::new(Box::pin(pieces)),
            Arc::default(),
            CancellationToken::new(),
        );
        Ok(body.collect().await?.to_bytes().len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_be_slow_and_must_not_trickle() {
        assert_eq!(arrives(10, 1).await.expect("a short one"), 10);
        let steady = BODY_RATE_MIN as usize;
        assert_eq!(
            arrives(120, steady).await.expect("it keeps coming"),
            120 * steady
        );
        let trickle = arrives(60, 100).await.expect_err("too slow");
        assert_eq!(trickle.to_string(), "it came too slowly");
        for (silence, comes) in [(14, true), (16, false)] {
            let after = |sent| if sent == 1 { silence } else { 1 };
            let arrived = arrives_after(2, 100 * steady, after).await;
            assert_eq!(arrived.is_ok(), comes, "much comes, and then nothing");
        }
    }
}
