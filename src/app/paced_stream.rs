//! A connection whose client has to take what is sent to it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Sleep, sleep};

use crate::app::unread::PATIENCE;
use crate::base::watched_stream::{StreamWatch, WatchedStream};

/// Ends with an error when its client takes nothing for as long as an answer over HTTP/2 may wait. What waits for it may be an
/// answer over HTTP/1, for which there is no other deadline.
pub(super) type PacedStream<S> = WatchedStream<S, PaceWatch>;

/// Looks whether a client takes what is sent to it.
#[derive(Default)]
pub(super) struct PaceWatch {
    /// When the client is too slow; `None` while it takes all.
    late: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug, thiserror::Error)]
#[error("the client takes nothing of what is sent to it")]
struct NothingTaken;

impl StreamWatch for PaceWatch {
    fn on_written(
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
        let mut stream = PacedStream::new(stream, PaceWatch::default());
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
