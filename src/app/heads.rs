//! Byte counts of an HTTP connection: incomplete request heads are buffered and counted; frames that carry no request
//! or body end the connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::task::coop;

use crate::base::budget::{NothingLeft, TakenBytes};
use crate::base::watched_stream::{StreamWatch, WatchedStream};

/// The beginning of a connection of HTTP/2 (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Maximum number of HTTP/2 bytes without a request or a piece of a body: more than the flow-control window of a
/// connection, which bodies may fill while their requests wait.
const IDLE_BYTES_MAX: usize = 2 * 1_024 * 1_024;

/// Buffer bytes of a connection. The buffer grows when a client sends more between two requests than the initial size
/// can hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadBytes {
    pub(super) least: usize,
    pub(super) most: usize,
}

/// Bytes that a connection has for its buffers, by the version of HTTP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers {
    /// Bytes that there is room for at first.
    pub(super) small: usize,
    pub(super) http1: HeadBytes,
    pub(super) http2: HeadBytes,
}

/// Bytes of frames that each request may bring besides its head: window updates and pings.
const REQUEST_FRAMES_BYTES: usize = 64 * 1_024;

/// Number of read bytes that cost one unit of a task's budget. After 128 units other tasks run: one read may bring
/// thousands of frames.
const TURN_BYTES: usize = 1_024;

/// Progress of the requests of a connection since the last query.
#[derive(Debug, Default)]
pub(super) struct HeadsProgress {
    heads: AtomicUsize,
    body_bytes: AtomicUsize,
    /// Is true if a body was left before its end.
    left_body: AtomicBool,
}

impl HeadsProgress {
    /// Notes that the head of a request is complete.
    pub(super) fn note_head(&self) {
        self.heads.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a piece of a body is read.
    pub(super) fn note_body(&self, bytes: usize) {
        self.body_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that a body was left before its end.
    pub(super) fn note_left_body(&self) {
        self.left_body.store(true, Ordering::Relaxed);
    }

    /// Returns whether a body was left since the last call.
    pub(super) fn has_left_body(&self) -> bool {
        self.left_body.swap(false, Ordering::Relaxed)
    }
}

/// HTTP version of a client.
#[derive(Clone, Copy, Debug)]
enum HttpVersion {
    /// Number of bytes of the HTTP/2 preface that have been received.
    Unknown(usize),
    Http1,
    Http2,
}

impl HttpVersion {
    fn after(self, came: &[u8]) -> Self {
        let Self::Unknown(matched) = self else {
            return self;
        };
        let wanted = &PREFACE[matched..];
        let length = wanted.len().min(came.len());
        if wanted[..length] != came[..length] {
            Self::Http1
        } else if length == wanted.len() {
            Self::Http2
        } else {
            Self::Unknown(matched + length)
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("frames came without a request or a body")]
struct NothingButFrames;

/// HTTP connection that counts the bytes of its read buffer for heads.
pub(super) type HeadStream<S> = WatchedStream<S, HeadWatch>;

/// Counters for the reads of an HTTP connection.
pub(super) struct HeadWatch {
    buffers: Buffers,
    version: HttpVersion,
    /// Bytes that were read since the last request began.
    read: usize,
    /// Bytes that were read, less the bytes that requests may bring, less twice the bodies that were taken (since
    /// bodies come in frames), and less half of the bytes that were written: a client acknowledges a large answer in
    /// small frames, and the answers to a flood are as large as the flood.
    idle: usize,
    /// Bytes that were read for which other tasks have not yet had their turn.
    owed: usize,
    progress: Arc<HeadsProgress>,
    /// Bytes that the underlying stream counts for.
    beneath: usize,
    taken: TakenBytes,
}

impl HeadWatch {
    /// Makes the counters of a connection whose requests note their `progress`. The bytes already `taken` for the
    /// underlying stream count as well.
    pub(super) fn new(
        buffers: Buffers,
        progress: Arc<HeadsProgress>,
        mut taken: TakenBytes,
    ) -> Result<Self, NothingLeft> {
        let beneath = taken.bytes();
        taken.add(buffers.http1.least)?;
        Ok(Self {
            buffers,
            version: HttpVersion::Unknown(0),
            read: 0,
            idle: 0,
            owed: 0,
            progress,
            beneath,
            taken,
        })
    }

    fn note(&mut self, came: &[u8]) -> io::Result<()> {
        self.version = self.version.after(came);
        let heads = self.progress.heads.swap(0, Ordering::Relaxed);
        let body_bytes = self.progress.body_bytes.swap(0, Ordering::Relaxed);
        if heads > 0 {
            self.read = 0;
        }
        let of_use = heads * REQUEST_FRAMES_BYTES + 2 * body_bytes;
        self.idle = self.idle.saturating_sub(of_use) + came.len();
        self.read = self.read.saturating_add(came.len());
        self.owed += came.len();
        let (bytes, idle_max) = match self.version {
            HttpVersion::Unknown(_) | HttpVersion::Http1 => (self.buffers.http1, usize::MAX),
            HttpVersion::Http2 => (self.buffers.http2, IDLE_BYTES_MAX),
        };
        let has_more = self.read > self.buffers.small;
        let bytes = if has_more { bytes.most } else { bytes.least };
        let resized = self.taken.resize(self.beneath + bytes);
        resized.map_err(io::Error::other)?;
        if self.idle > idle_max {
            Err(io::Error::other(NothingButFrames))
        } else {
            Ok(())
        }
    }
}

impl StreamWatch for HeadWatch {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.owed >= TURN_BYTES {
            ready!(coop::poll_proceed(cx)).made_progress();
            self.owed -= TURN_BYTES;
        }
        Poll::Ready(())
    }

    fn on_read(&mut self, came: &[u8]) -> io::Result<()> {
        self.note(came)
    }

    fn on_written(
        &mut self,
        written: Poll<io::Result<usize>>,
        _: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.idle = self.idle.saturating_sub(bytes / 2);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::base::budget::Budget;

    const BUFFERS: Buffers = Buffers {
        small: 8,
        http1: HeadBytes { least: 8, most: 16 },
        http2: HeadBytes {
            least: 100,
            most: 200,
        },
    };

    #[tokio::test]
    async fn a_head_counts_while_it_is_not_whole() {
        let budget = Budget::of(1_024);
        let progress = Arc::new(HeadsProgress::default());
        let beneath = budget.account([None, None], 1_024).take(100).expect("room");
        let sent = [0; 20].as_slice();
        let watch = HeadWatch::new(BUFFERS, Arc::clone(&progress), beneath);
        let mut stream = HeadStream::new(sent, watch.expect("room"));
        assert_eq!(budget.taken(), 108, "what is beneath counts as well");
        stream.read_exact(&mut [0; 8]).await.expect("read");
        assert_eq!(budget.taken(), 108);
        stream.read_exact(&mut [0; 4]).await.expect("read");
        assert_eq!(budget.taken(), 116);
        progress.note_head();
        stream.read_exact(&mut [0; 4]).await.expect("read");
        assert_eq!(budget.taken(), 108, "the next head has begun");
        drop(stream);
        assert_eq!(budget.taken(), 0);
    }

    #[tokio::test]
    async fn a_connection_needs_room_for_its_buffers_and_for_a_head_that_is_not_small() {
        let budget = Budget::of(1_024);
        let with = |bytes_max| {
            let taken = budget.account([None, None], bytes_max).nothing();
            let watch = HeadWatch::new(BUFFERS, Arc::default(), taken)?;
            Ok::<_, NothingLeft>(HeadStream::new([0_u8; 20].as_slice(), watch))
        };
        assert!(with(7).is_err());
        let mut stream = with(15).expect("room");
        stream.read_exact(&mut [0; 8]).await.expect("read");
        assert!(stream.read_exact(&mut [0; 4]).await.is_err());
        assert_eq!(budget.taken(), 8);
    }

    /// What a connection counts for that has read so much, in pieces of 5.
    async fn counted(sent: &[u8]) -> usize {
        let budget = Budget::of(1_024);
        let taken = budget.account([None, None], 1_024).nothing();
        let watch = HeadWatch::new(BUFFERS, Arc::default(), taken);
        let mut stream = HeadStream::new(sent, watch.expect("room"));
        for piece in sent.chunks(5) {
            let read = stream.read_exact(&mut vec![0; piece.len()]).await;
            read.expect("read");
        }
        budget.taken()
    }

    #[tokio::test]
    async fn the_buffers_of_http2_count_from_its_preface_on() {
        assert_eq!(counted(PREFACE).await, 200);
        assert_eq!(counted(&PREFACE[..23]).await, 16);
        assert_eq!(counted(b"PRI / HTTP/1.1\r\n\r\nSM\r\n\r\n").await, 16);
    }

    /// Bytes of frames that a connection takes of a client that sends `preface`, until it ends it; at most 10 MiB.
    async fn taken_of(preface: &[u8], each: impl Fn(&HeadsProgress) -> usize) -> usize {
        let taken = Budget::of(1_024).account([None, None], 1_024).nothing();
        let progress = Arc::new(HeadsProgress::default());
        let sent = preface.chain(tokio::io::repeat(0));
        let stream = tokio::io::join(sent, tokio::io::sink());
        let watch = HeadWatch::new(BUFFERS, Arc::clone(&progress), taken);
        let mut stream = HeadStream::new(stream, watch.expect("room"));
        let mut frames = [0; 1_024];
        for piece in 0..10 * 1_024 {
            if stream.read(&mut frames).await.is_err() {
                return piece * frames.len();
            }
            let written = vec![0; each(&progress)];
            stream.write_all(&written).await.expect("written");
        }
        10 * 1_024 * 1_024
    }

    #[tokio::test]
    async fn frames_that_bring_nothing_end_a_connection_of_http2() {
        let all = 10 * 1_024 * 1_024;
        let ends = taken_of(PREFACE, |_| 0).await;
        assert!(ends.abs_diff(IDLE_BYTES_MAX) < 4_096, "{ends}");
        let ends = taken_of(PREFACE, |_| 1_024).await;
        assert!(
            ends.abs_diff(2 * IDLE_BYTES_MAX) < 4_096,
            "answers to a flood: {ends}"
        );
        let with_bodies = |progress: &HeadsProgress| {
            progress.note_body(512);
            0
        };
        assert_eq!(taken_of(PREFACE, with_bodies).await, all);
        let with_request_every = |frames: usize| {
            let read = Cell::new(0_usize);
            move |progress: &HeadsProgress| {
                read.set(read.get() + 1);
                if read.get().is_multiple_of(frames) {
                    progress.note_head();
                }
                0
            }
        };
        assert_eq!(taken_of(PREFACE, with_request_every(64)).await, all);
        let ends = taken_of(PREFACE, with_request_every(128)).await;
        assert!(
            ends.abs_diff(2 * IDLE_BYTES_MAX) < 128 * 1_024,
            "now and then a request: {ends}"
        );
        assert_eq!(taken_of(PREFACE, |_| 2_048).await, all, "a large answer");
        assert_eq!(taken_of(b"POST ", |_| 0).await, all, "a body of HTTP/1");
    }

    #[tokio::test]
    async fn others_have_their_turn_after_so_many_bytes() {
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&turns);
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let sent = |reads: usize| async move {
            let taken = Budget::of(1_024).account([None, None], 1_024).nothing();
            let watch = HeadWatch::new(BUFFERS, Arc::default(), taken);
            let endless = b"POST ".chain(tokio::io::repeat(0));
            let mut stream = HeadStream::new(endless, watch.expect("room"));
            for _ in 0..reads {
                stream.read_exact(&mut [0; 16 * 1_024]).await.expect("read");
            }
        };
        tokio::spawn(sent(256)).await.expect("read"); // 4 MiB
        other.abort();
        assert!(turns.load(Ordering::Relaxed) >= 30, "{turns:?} of 32");
    }
}
