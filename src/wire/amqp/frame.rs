//! Frames and protocol headers of a connection.

use bytes::{Buf, Bytes, BytesMut};

/// The protocol that a protocol header announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Amqp,
    Sasl,
}

impl Protocol {
    /// The length of a protocol header in bytes.
    pub const LENGTH: usize = 8;

    /// Returns the header of the protocol.
    pub fn header(self) -> [u8; Self::LENGTH] {
        match self {
            Self::Amqp => *b"AMQP\x00\x01\x00\x00",
            Self::Sasl => *b"AMQP\x03\x01\x00\x00",
        }
    }

    /// Returns the protocol that `header` announces; `None` for a protocol that is not supported.
    pub fn of(header: &[u8]) -> Option<Self> {
        let mut spoken = [Self::Amqp, Self::Sasl].into_iter();
        spoken.find(|each| each.header() == header)
    }
}

/// The layer that a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Amqp,
    Sasl,
}

/// A whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    pub channel: u16,
    /// The content of the frame; empty in a heartbeat.
    pub body: Bytes,
}

/// The reason why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame has {size} bytes; at most {max} were agreed")]
    TooLarge { size: u32, max: u32 },
    #[error("a frame of {size} bytes says that its body begins at byte {start}")]
    BadStart { size: u32, start: usize },
    #[error("{0} is not a type of frames")]
    UnknownType(u8),
}

/// The length of a frame header in bytes.
const HEAD: usize = 8;

/// Takes the first frame out of `buffer`; `None` until the whole frame has arrived.
pub fn next_frame(buffer: &mut BytesMut, size_max: u32) -> Result<Option<Frame>, FrameError> {
    let Some(head) = buffer.first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let [s0, s1, s2, s3, offset, kind, c0, c1] = *head;
    let size = u32::from_be_bytes([s0, s1, s2, s3]);
    if size > size_max {
        let max = size_max;
        return Err(FrameError::TooLarge { size, max });
    }
    let start = 4 * usize::from(offset);
    if start < HEAD || start > size as usize {
        return Err(FrameError::BadStart { size, start });
    }
    let kind = match kind {
        0 => FrameKind::Amqp,
        1 => FrameKind::Sasl,
        unknown => return Err(FrameError::UnknownType(unknown)),
    };
    if buffer.len() < size as usize {
        return Ok(None);
    }
    let mut body = buffer.split_to(size as usize).freeze();
    body.advance(start);
    Ok(Some(Frame {
        kind,
        channel: u16::from_be_bytes([c0, c1]),
        body,
    }))
}

/// Appends a frame whose body `write` appends.
pub fn write_frame(
    out: &mut Vec<u8>,
    kind: FrameKind,
    channel: u16,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    let code = match kind {
        FrameKind::Amqp => 0,
        FrameKind::Sasl => 1,
    };
    out.extend([0, 0, 0, 0, 2, code]);
    out.extend(channel.to_be_bytes());
    write(out);
    let size = u32::try_from(out.len() - start).expect("frames are cut to far less than 4 GiB");
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}
