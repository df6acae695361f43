//! Heads of requests that are not whole yet: they are kept, and count.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::base::budget::TakenBytes;

/// Bytes that a connection has for heads. It grows when a client sends more than `least` between two requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadBytes {
    pub(super) least: usize,
    pub(super) most: usize,
}

/// A connection of HTTP that counts for what it reads heads into.
pub(super) struct HeadStream<S> {
    inner: S,
    bytes: HeadBytes,
    /// Bytes that were read since the last request began.
    read: usize,
    /// Set when a request has begun since then.
    has_begun: Arc<AtomicBool>,
    taken: TakenBytes,
}

impl<S> HeadStream<S> {
    /// A connection whose requests set `has_begun`.
    pub(super) fn new(
        inner: S,
        bytes: HeadBytes,
        has_begun: Arc<AtomicBool>,
        mut taken: TakenBytes,
    ) -> Self {
        taken.resize_anyway(bytes.least);
        Self {
            inner,
            bytes,
            read: 0,
            has_begun,
            taken,
        }
    }

    fn note(&mut self, read: usize) {
        if self.has_begun.swap(false, Ordering::Relaxed) {
            self.read = 0;
        }
        self.read = self.read.saturating_add(read);
        let bytes = match self.read > self.bytes.least {
            true => self.bytes.most,
            false => self.bytes.least,
        };
        self.taken.resize_anyway(bytes);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, buffer));
        self.note(buffer.filled().len() - before);
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
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
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::base::budget::Budget;

    #[tokio::test]
    async fn a_head_counts_while_it_is_not_whole() {
        let budget = Budget::of(1_024);
        let has_begun = Arc::new(AtomicBool::new(false));
        let taken = budget.account([None, None], 1_024).nothing();
        let bytes = HeadBytes { least: 8, most: 16 };
        let sent = [0; 20].as_slice();
        let mut stream = HeadStream::new(sent, bytes, Arc::clone(&has_begun), taken);
        assert_eq!(budget.taken(), 8);
        stream.read_exact(&mut [0; 8]).await.expect("read");
        assert_eq!(budget.taken(), 8);
        stream.read_exact(&mut [0; 4]).await.expect("read");
        assert_eq!(budget.taken(), 16);
        has_begun.store(true, Ordering::Relaxed);
        stream.read_exact(&mut [0; 4]).await.expect("read");
        assert_eq!(budget.taken(), 8, "the next head has begun");
        drop(stream);
        assert_eq!(budget.taken(), 0);
    }
}
