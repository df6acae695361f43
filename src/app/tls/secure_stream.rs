//! A connection with TLS that bounds what is kept of a message that is not whole. The library joins the parts of messages of
//! the handshake up to 64 KiB, before the handshake is done and after it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use crate::base::watched_stream::{StreamWatch, WatchedStream};

/// Bytes that a client may send until its handshake is done: what a connection with TLS counts for. Clients are not asked for
/// certificates, so that this is a `ClientHello`, below 2 KiB with the key shares that withstand quantum computers, and a few
/// hundred bytes after it. What is sent right behind it may come with them.
pub(in crate::app) const HANDSHAKE_BYTES_MAX: usize = 16 * 1_024;

/// Bytes that may come after it until there is data among them: a record with what surrounds it has up to 18,437, and up
/// to 4,096 are read at once.
const RECORD_BYTES_MAX: usize = 24 * 1_024;

/// The stream below TLS. It ends when more bytes come without any use than its watch lets in.
pub(super) type BoundedStream<S> = WatchedStream<S, RecordWatch>;

/// Counts the bytes that have come without any use, and lets in so many at most.
pub(super) struct RecordWatch {
    came: usize,
    most: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("it brought {came} bytes without a whole message or data")]
struct NothingWhole {
    came: usize,
}

impl RecordWatch {
    /// Counts for a connection whose handshake begins.
    pub(super) fn of_handshake() -> Self {
        Self {
            came: 0,
            most: HANDSHAKE_BYTES_MAX,
        }
    }

    /// Says that what came was of use.
    fn begin_record(&mut self) {
        (self.came, self.most) = (0, RECORD_BYTES_MAX);
    }
}

impl StreamWatch for RecordWatch {
    fn on_read(&mut self, came: &[u8]) -> io::Result<()> {
        self.came += came.len();
        if self.came > self.most {
            return Err(io::Error::other(NothingWhole { came: self.came }));
        }
        Ok(())
    }
}

/// A connection whose handshake is done.
pub(in crate::app) struct SecureStream<S> {
    inner: TlsStream<BoundedStream<S>>,
    /// Came behind data, and is told next.
    error: Option<io::Error>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> SecureStream<S> {
    pub(super) fn new(inner: TlsStream<BoundedStream<S>>) -> Self {
        let mut stream = Self { inner, error: None };
        stream.begin_record();
        stream
    }

    /// Reads a record, or what fits of it. Returns how many bytes that was.
    fn poll_record(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Err(error));
        }
        let data = ready!(Pin::new(&mut self.inner).poll_fill_buf(cx))?;
        let length = data.len().min(buffer.remaining());
        buffer.put_slice(&data[..length]);
        Pin::new(&mut self.inner).consume(length);
        if length > 0 {
            self.begin_record();
        }
        Poll::Ready(Ok(length))
    }

    /// Says that what came was of use.
    fn begin_record(&mut self) {
        let (bounded, _) = self.inner.get_mut();
        bounded.watch_mut().begin_record();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for SecureStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut length = ready!(self.poll_record(cx, buffer))?;
        while length > 0 && buffer.remaining() > 0 {
            match self.poll_record(cx, buffer) {
                Poll::Ready(Ok(more)) => length = more,
                Poll::Ready(Err(error)) => {
                    self.error = Some(error);
                    break;
                }
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for SecureStream<S> {
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

    /// Bytes that are read of a client whose messages are never whole, a page at once.
    async fn read_of(stream: &mut BoundedStream<tokio::io::Repeat>) -> usize {
        let mut read = 0;
        while stream.read_exact(&mut [0; 1_024]).await.is_ok() {
            read += 1_024;
        }
        read
    }

    #[tokio::test]
    async fn what_is_never_whole_is_bounded_before_the_handshake_is_done_and_after_it() {
        let mut stream = BoundedStream::new(tokio::io::repeat(0), RecordWatch::of_handshake());
        assert_eq!(read_of(&mut stream).await, HANDSHAKE_BYTES_MAX);
        for _ in 0..3 {
            stream.watch_mut().begin_record();
            assert_eq!(read_of(&mut stream).await, RECORD_BYTES_MAX);
        }
    }
}
