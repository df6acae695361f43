//! The content of WebSocket messages (RFC 6455) as one byte stream. AMQP frames may cross message boundaries, so
//! messages are not reassembled, and long messages take no extra memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::task::coop::poll_proceed;

/// The size of the buffer for reads from the network, in bytes.
const READ_BYTES: usize = 2 * 1_024;

/// Maximum content of a control frame, in bytes (RFC 6455, section 5.5).
const CONTROL_BYTES_MAX: u64 = 125;

/// The number of frames that consume one unit of the cooperative budget of a task, the cost of a network read. With
/// Tokio's budget of 128 units, a task that reads short frames yields after 128 times this number.
const FRAMES_AT_ONCE: usize = 16;

/// Maximum content of one message that is sent, in bytes.
const SENT_BYTES_MAX: usize = 64 * 1_024;

/// Maximum size of a frame header: 2 bytes, an 8-byte length and the 4-byte mask.
const HEAD_BYTES_MAX: usize = 14;

const CONTINUATION: u8 = 0x0;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;

/// The server's end of a WebSocket.
pub(super) struct WebSocketStream<S> {
    inner: BufReader<S>,
    /// The part of a frame header that was received so far.
    head: Vec<u8>,
    frame: Option<WebSocketFrame>,
    /// The number of frames that may begin before the next unit of the task budget is consumed.
    frames_left: usize,
    /// The part of a control frame's content that was received so far.
    control: Vec<u8>,
    /// The error of a read that had already returned bytes. The next read returns it.
    failed: Option<io::Error>,
    /// The bytes that are still to be sent.
    output: BytesMut,
    is_closed: bool,
}

/// A frame whose content is being read.
struct WebSocketFrame {
    opcode: u8,
    left: u64,
    mask: [u8; 4],
    /// The number of content bytes that were read.
    read: usize,
}

fn broken(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

impl WebSocketFrame {
    /// Parses a frame header. Returns `None` if it is incomplete.
    fn of(head: &[u8]) -> io::Result<Option<Self>> {
        let &[first, second, ref rest @ ..] = head else {
            return Ok(None);
        };
        let (opcode, is_control) = (first & 0x0f, first & 0x08 != 0);
        if first & 0x70 != 0 {
            return Err(broken(
                "a WebSocket frame uses an extension that was not agreed",
            ));
        }
        if !matches!(opcode, CONTINUATION | BINARY | CLOSE | PING | PONG) {
            return Err(broken("a WebSocket frame is neither binary nor control"));
        }
        if second & MASKED == 0 {
            return Err(broken("a WebSocket frame of a client is not masked"));
        }
        let short = u64::from(second & !MASKED);
        let (left, rest) = match short {
            126 => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest),
                None => return Ok(None),
            },
            127 => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from_be_bytes(*length), rest),
                None => return Ok(None),
            },
            short => (short, rest),
        };
        if is_control && (left > CONTROL_BYTES_MAX || first & FINAL == 0) {
            return Err(broken("a control frame of a WebSocket is too long or cut"));
        }
        Ok(rest.first_chunk().map(|mask| Self {
            opcode,
            left,
            mask: *mask,
            read: 0,
        }))
    }

    fn is_data(&self) -> bool {
        matches!(self.opcode, CONTINUATION | BINARY)
    }

    /// Unmasks the next bytes of the content.
    fn unmask(&mut self, bytes: &mut [u8]) {
        for byte in &mut *bytes {
            *byte ^= self.mask[self.read % 4];
            self.read += 1;
        }
        self.left -= bytes.len() as u64;
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocketStream<S> {
    pub(super) fn new(inner: S) -> Self {
        Self {
            inner: BufReader::with_capacity(READ_BYTES, inner),
            head: Vec::with_capacity(HEAD_BYTES_MAX),
            frame: None,
            frames_left: FRAMES_AT_ONCE,
            control: Vec::new(),
            failed: None,
            output: BytesMut::new(),
            is_closed: false,
        }
    }

    /// Reads up to the next data frame that has content, and answers control frames. Returns `false` at the end of the
    /// stream.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            if let Some(frame) = &self.frame {
                match (frame.is_data(), frame.left) {
                    (true, 0) => self.frame = None,
                    (true, _) => return Poll::Ready(Ok(true)),
                    (false, 0) => {
                        let opcode = frame.opcode;
                        self.frame = None;
                        let content = std::mem::take(&mut self.control);
                        self.answer(opcode, &content);
                        // Sends as much as possible now; the rest is sent with the next output.
                        let _ = self.poll_send(context)?;
                    }
                    (false, _) => {
                        let mut byte = [0];
                        if ready!(self.poll_bytes(context, &mut byte))? == 0 {
                            return Poll::Ready(Ok(false));
                        }
                        if let Some(frame) = &mut self.frame {
                            frame.unmask(&mut byte);
                        }
                        self.control.extend(byte);
                    }
                }
                continue;
            }
            if self.is_closed {
                return Poll::Ready(Ok(false));
            }
            if self.frames_left == 0 {
                ready!(poll_proceed(context)).made_progress();
                self.frames_left = FRAMES_AT_ONCE;
            }
            let mut byte = [0];
            if ready!(self.poll_bytes(context, &mut byte))? == 0 {
                return Poll::Ready(Ok(false));
            }
            self.head.extend(byte);
            self.frame = WebSocketFrame::of(&self.head)?;
            if self.frame.is_some() {
                self.head.clear();
                self.frames_left -= 1;
            }
        }
    }

    /// Reads some content of one data frame. Returns `false` at the end of the stream.
    fn poll_content(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        if !ready!(self.poll_frame(context))? {
            return Poll::Ready(Ok(false));
        }
        let left = self.frame.as_ref().map_or(0, |frame| frame.left);
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let part = buffer.initialize_unfilled_to(most.min(buffer.remaining()));
        let count = ready!(self.poll_bytes(context, part))?;
        if let Some(frame) = &mut self.frame {
            frame.unmask(&mut part[..count]);
        }
        buffer.advance(count);
        Poll::Ready(Ok(count > 0))
    }

    /// Reads raw bytes from the connection.
    fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let available = ready!(Pin::new(&mut self.inner).poll_fill_buf(context))?;
        let count = available.len().min(bytes.len());
        bytes[..count].copy_from_slice(&available[..count]);
        Pin::new(&mut self.inner).consume(count);
        Poll::Ready(Ok(count))
    }

    /// Queues the response to a control frame: pong for ping, close for close.
    fn answer(&mut self, opcode: u8, content: &[u8]) {
        // A ping is ignored while output is pending: a peer that pings without reading needs only one pong.
        if opcode == PING && self.output.is_empty() {
            self.put(PONG, content);
        }
        if opcode == CLOSE {
            self.is_closed = true;
            self.put(CLOSE, content);
        }
    }

    fn put(&mut self, opcode: u8, content: &[u8]) {
        self.output.extend([FINAL | opcode]);
        match (u8::try_from(content.len()), u16::try_from(content.len())) {
            (Ok(short), _) if short < 126 => self.output.extend([short]),
            (_, Ok(length)) => {
                self.output.extend([126]);
                self.output.extend(length.to_be_bytes());
            }
            (_, Err(_)) => {
                self.output.extend([127]);
                self.output.extend((content.len() as u64).to_be_bytes());
            }
        }
        self.output.extend_from_slice(content);
    }

    /// Sends the pending output.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let inner = Pin::new(self.inner.get_mut());
            match ready!(inner.poll_write(context, &self.output))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.output.advance(count),
            }
        }
        self.output = BytesMut::new();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocketStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        let before = buffer.filled().len();
        // A read costs the caller the same for one byte as for many, so frames that have arrived are read together.
        while buffer.remaining() > 0 {
            let read = self.poll_content(context, buffer);
            if matches!(read, Poll::Ready(Ok(true))) {
                continue;
            }
            if buffer.filled().len() == before {
                return read.map_ok(|_| ());
            }
            if let Poll::Ready(Err(error)) = read {
                self.failed = Some(error);
            }
            break;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocketStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        ready!(self.poll_send(context))?;
        let part = &bytes[..bytes.len().min(SENT_BYTES_MAX)];
        self.put(BINARY, part);
        // The part counts as written. Bytes that cannot be sent now are sent with the flush.
        let _ = self.poll_send(context)?;
        Poll::Ready(Ok(part.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(self.inner.get_mut()).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.put(CLOSE, &[]);
        }
        ready!(self.poll_send(context))?;
        Pin::new(self.inner.get_mut()).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A frame as a client sends it.
    fn masked(first: u8, content: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match content.len() {
            length @ 0..126 => frame.push(MASKED | u8::try_from(length).expect("short")),
            length => {
                frame.push(MASKED | 126);
                frame.extend(u16::try_from(length).expect("small").to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 250];
        frame.extend(mask);
        frame.extend(
            content
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        frame
    }

    #[tokio::test]
    async fn messages_are_one_stream_wherever_they_are_cut() {
        let long = vec![7; 300];
        let mut bytes = masked(BINARY, b"a"); // not its last frame
        bytes.extend(masked(FINAL | PING, b"there?"));
        bytes.extend(masked(FINAL | CONTINUATION, b"bc"));
        bytes.extend(masked(FINAL | BINARY, b""));
        bytes.extend(masked(FINAL | BINARY, &long));
        bytes.extend(masked(FINAL | PONG, b"ignored"));
        bytes.extend(masked(FINAL | CLOSE, &[3, 232]));
        for pipe_bytes in [1, 3, 1_000] {
            let (mut client, theirs) = tokio::io::duplex(pipe_bytes);
            let mut stream = WebSocketStream::new(theirs);
            let sent = bytes.clone();
            let (read, answers) = tokio::join!(
                async {
                    let mut read = Vec::new();
                    stream.write_all(&[9; 200]).await.expect("written");
                    stream.flush().await.expect("sent");
                    stream.read_to_end(&mut read).await.expect("an end");
                    assert!(stream.write_all(&[9]).await.is_err());
                    stream.shutdown().await.expect("closed");
                    drop(stream);
                    read
                },
                async {
                    let (mut reader, mut writer) = tokio::io::split(&mut client);
                    let mut answers = Vec::new();
                    let (_, _) = tokio::join!(
                        async { writer.write_all(&sent).await.expect("sent") },
                        reader.read_to_end(&mut answers)
                    );
                    answers
                },
            );
            assert_eq!(read, [b"abc", long.as_slice()].concat(), "{pipe_bytes}");
            let mut expected = vec![FINAL | BINARY, 126, 0, 200];
            expected.extend([9; 200]);
            expected.extend([FINAL | PONG, 6]);
            expected.extend(b"there?");
            expected.extend([FINAL | CLOSE, 2, 3, 232]);
            assert_eq!(answers, expected, "{pipe_bytes}");
        }
    }

    #[tokio::test]
    async fn one_read_takes_what_has_come_of_many_frames_and_then_the_error() {
        let mut bytes = masked(BINARY, b"x").repeat(1_000);
        bytes.extend([FINAL | BINARY, 0]); // not masked
        let mut stream = WebSocketStream::new(tokio::io::join(&bytes[..], tokio::io::sink()));
        let mut buffer = [0; 2_000];
        for (most, expected) in [(600, 600), (2_000, 400)] {
            let count = stream.read(&mut buffer[..most]).await.expect("bytes");
            assert_eq!(buffer[..count], [b'x'; 2_000][..expected]);
        }
        let kind = stream.read(&mut buffer).await.expect_err("broken").kind();
        assert_eq!(kind, io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn others_have_their_turn_after_so_many_frames_however_short_they_are() {
        const TURNS: usize = 10;
        for frame in [
            masked(BINARY, b""),
            masked(BINARY, b"x"),
            masked(FINAL | PING, b""),
            masked(FINAL | PONG, b"x"),
        ] {
            let bytes = frame.repeat(TURNS * 128 * FRAMES_AT_ONCE);
            let mut stream = WebSocketStream::new(tokio::io::join(&bytes[..], tokio::io::sink()));
            let (mut read, mut polls) = (Vec::new(), 0);
            let mut reading = pin!(stream.read_to_end(&mut read));
            let counted = poll_fn(|context| {
                polls += 1;
                reading.as_mut().poll(context)
            });
            counted.await.expect("an end");
            assert!(polls >= TURNS, "{polls} for {frame:?}");
        }
    }

    #[tokio::test]
    async fn what_is_no_frame_of_a_client_ends_the_stream() {
        for bytes in [
            &[FINAL | BINARY, 1, b'x'][..],               // not masked
            &[FINAL | 0x1, MASKED, 0, 0, 0, 0],           // text
            &[FINAL | 0x40 | BINARY, MASKED, 0, 0, 0, 0], // an extension
            &[FINAL | PING, MASKED | 126, 0, 126, 0, 0, 0, 0],
            &[PING, MASKED, 0, 0, 0, 0],
        ] {
            let mut stream = WebSocketStream::new(tokio::io::join(bytes, tokio::io::sink()));
            let read = stream.read_to_end(&mut Vec::new()).await;
            let kind = read.expect_err("broken").kind();
            assert_eq!(kind, io::ErrorKind::InvalidData, "{bytes:?}");
        }
    }
}
