//! A TLS connection that bounds the memory for incomplete messages. The library assembles handshake messages of up to
//! 64 KiB, both during the handshake and after it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use crate::base::watched_stream::{StreamWatch, WatchedStream};

/// Maximum number of bytes that a client may send until its handshake is done. A TLS connection counts as this much
/// memory. Clients are not asked for certificates, so a handshake is a `ClientHello`, below 2 KiB with post-quantum key
/// shares, and a few hundred bytes after it. Data sent right after the handshake may arrive with these bytes.
pub(in crate::app) const HANDSHAKE_BYTES_MAX: usize = 16 * 1_024;

/// Maximum number of bytes that may arrive after the handshake without application data. A record with its header and
/// overhead has up to 18,437 bytes, and up to 4,096 bytes are read at once.
const RECORD_BYTES_MAX: usize = 24 * 1_024;

/// The stream below TLS. It fails when more bytes arrive without a complete message or data than its watch allows.
pub(super) type BoundedStream<S> = WatchedStream<S, RecordWatch>;

/// Counts the bytes that arrive without a complete message or data, and limits their number.
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
    /// Creates the watch for a connection whose handshake begins.
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
    /// An error that followed data; returned by the next read.
    error: Option<io::Error>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> SecureStream<S> {
    pub(super) fn new(inner: TlsStream<BoundedStream<S>>) -> Self {
        let mut stream = Self { inner, error: None };
        stream.begin_record();
        stream
    }

    /// Reads a record, or as much of it as fits into the buffer. Returns the number of bytes read.
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
