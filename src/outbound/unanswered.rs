//! Counts the bytes that a receiver sends without completing a response. A connection with too many is closed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Extensions;
use hyper_util::client::legacy::connect::{Connected, Connection};

use crate::base::watched_stream::{StreamWatch, WatchedStream};

/// The maximum number of bytes that a connection may receive during the TLS handshake. With HTTP/1 it is also the
/// maximum before the head of a response is complete, including informational responses, and between two parts of its
/// body.
pub(super) const UNANSWERED_MAX: usize = 64 * 1_024;

/// The maximum number of bytes for an HTTP/2 connection. It is larger because the heads of many responses, and parts of
/// bodies within the flow-control windows, may arrive at once.
pub(super) const UNANSWERED_MAX_HTTP2: usize = 512 * 1_024;

/// Counts the bytes that a connection has received since the last head or body part of a response. Clones share the
/// count.
#[derive(Clone, Debug, Default)]
pub(super) struct UnansweredBytes(Arc<Bounded>);

#[derive(Debug, Default)]
struct Bounded {
    count: AtomicUsize,
    most: AtomicUsize,
}

/// Too much came without an answer.
#[derive(Debug, thiserror::Error)]
#[error("more than {0} bytes came without an answer")]
struct TooMuchUnanswered(usize);

impl UnansweredBytes {
    /// Returns the counter of a connection, if it has one.
    pub(super) fn of(connected: &Connected) -> Option<Self> {
        let mut extensions = Extensions::new();
        connected.get_extras(&mut extensions);
        extensions.remove()
    }

    /// Returns a counter for a new connection, with a maximum of `most` bytes.
    pub(super) fn up_to(most: usize) -> Self {
        let unanswered = Self::default();
        unanswered.begin(most);
        unanswered
    }

    /// Resets the count, when the head of a response or a part of a body has arrived.
    pub(super) fn forget(&self) {
        self.0.count.store(0, Ordering::Relaxed);
    }

    /// Resets the count and sets a new maximum.
    pub(super) fn begin(&self, most: usize) {
        self.0.most.store(most, Ordering::Relaxed);
        self.forget();
    }

    fn add(&self, read: usize) -> io::Result<()> {
        let most = self.0.most.load(Ordering::Relaxed);
        let before = self.0.count.fetch_add(read, Ordering::Relaxed);
        if before.saturating_add(read) > most {
            return Err(io::Error::other(TooMuchUnanswered(most)));
        }
        Ok(())
    }
}

/// A connection that fails after too many bytes without a response. Its HTTP responses carry the counter.
pub(super) type AnsweringStream<S> = WatchedStream<S, UnansweredBytes>;

impl StreamWatch for UnansweredBytes {
    fn on_read(&mut self, came: &[u8]) -> io::Result<()> {
        self.add(came.len())
    }
}

impl<S: Connection> Connection for AnsweringStream<S> {
    fn connected(&self) -> Connected {
        self.inner().connected().extra(self.watch().clone())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn what_comes_without_an_answer_counts_until_there_is_one() {
        let sent = [0; 32].as_slice();
        let unanswered = UnansweredBytes::up_to(8);
        let mut stream = AnsweringStream::new(sent, unanswered.clone());
        stream.read_exact(&mut [0; 5]).await.expect("read");
        stream.read_exact(&mut [0; 3]).await.expect("read");
        unanswered.forget();
        stream.read_exact(&mut [0; 8]).await.expect("read");
        let failure = stream.read_exact(&mut [0; 1]).await.expect_err("too much");
        let expected = "more than 8 bytes came without an answer";
        assert_eq!(failure.to_string(), expected);
        unanswered.begin(4);
        stream.read_exact(&mut [0; 4]).await.expect("read");
        stream.read_exact(&mut [0; 1]).await.expect_err("too much");
    }
}
