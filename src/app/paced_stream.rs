//! A connection whose client has to take what is sent to it.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::app::unread::PATIENCE;

/// Ends with an error when its client takes nothing for as long as an answer over HTTP/2 may wait. What waits for it may be an
/// answer over HTTP/1, for which there is no other deadline.
pub(super) struct PacedStream<S> {
    inner: S,
    /// When the client is too slow; `None` while it takes all.
    late: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug, thiserror::Error)]
#[error("the client takes nothing of what is sent to it")]
struct NothingTaken;

impl<S> PacedStream<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, late: None }
    }

    fn noted(
        &mut self,
        written: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.late = None;
            return written;
        }
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(late.as_mut().poll(cx));
        let kind = io::ErrorKind::TimedOut;
        Poll::Ready(Err(io::Error::new(kind, NothingTaken)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PacedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PacedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.noted(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.noted(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// Whether a client gets all that is sent which takes a byte of it after each pause.
    async fn is_taken(pause: Duration) -> bool {
        let (stream, mut client) = duplex(1);
        tokio::spawn(async move {
            sleep(pause).await;
            while client.read_u8().await.is_ok() {
                sleep(pause).await;
            }
        });
        let mut stream = PacedStream::new(stream);
        let sent = tokio::time::timeout(10 * PATIENCE, stream.write_all(&[0; 5])).await;
        sent.is_ok_and(|sent| sent.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_client_takes_nothing_ends() {
        assert!(is_taken(Duration::ZERO).await);
        assert!(is_taken(PATIENCE - Duration::from_secs(1)).await);
        assert!(!is_taken(PATIENCE + Duration::from_secs(1)).await);
    }
}
