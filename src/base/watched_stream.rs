//! A stream wrapper that reports reads and writes to an observer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Observes the reads and writes of a stream.
pub trait StreamWatch: Unpin {
    /// Returns `Ready` when the next bytes may be read. Until then other tasks can run.
    fn poll_turn(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Called with the bytes that were read; empty at the end of the stream. An error is passed to the reader instead.
    fn on_read(&mut self, _came: &[u8]) -> io::Result<()> {
        Ok(())
    }

    /// Called with the result of a write. Returns the result that the writer gets.
    fn on_written(
        &mut self,
        written: Poll<io::Result<usize>>,
        _cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        written
    }
}

/// Forwards reads and writes to the inner stream, observed by `W`.
pub struct WatchedStream<S, W> {
    inner: S,
    watch: W,
}

impl<S, W> WatchedStream<S, W> {
    /// Returns the stream that is watched from now on.
    pub fn new(inner: S, watch: W) -> Self {
        Self { inner, watch }
    }

    /// Returns the stream within.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns who watches.
    pub fn watch(&self) -> &W {
        &self.watch
    }

    /// Returns who watches, to be told something else.
    pub fn watch_mut(&mut self) -> &mut W {
        &mut self.watch
    }
}

impl<S: AsyncRead + Unpin, W: StreamWatch> AsyncRead for WatchedStream<S, W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.watch.poll_turn(cx));
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        Poll::Ready(self.watch.on_read(&buffer.filled()[before..]))
    }
}

impl<S: AsyncWrite + Unpin, W: StreamWatch> AsyncWrite for WatchedStream<S, W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch.on_written(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.watch.on_written(written, cx)
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
