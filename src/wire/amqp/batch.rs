//! Batches: a message whose data sections are messages (rule S10.4).

use bytes::Bytes;

use crate::model::limits::{BATCH_MESSAGES_MAX, HEAD_BYTES_MAX};
use crate::wire::amqp::decode::{DecodeError, Decoder, unexpected};
use crate::wire::amqp::message::{DATA, Message};
use crate::wire::amqp::value::Value;

/// The message format that marks a batch.
pub const BATCH_FORMAT: u32 = 0x8001_3700;

/// Bytes that a batch may have around its messages. Clients that fill one to the limit of its link do not count the
/// properties of the batch itself, which say what its messages do.
pub const BATCH_ENVELOPE_MAX: usize = HEAD_BYTES_MAX;

/// Bytes of a transfer of `format` that count against the limit of its link: of a batch those of its messages.
pub fn counted_bytes(format: u32, payload: &[u8]) -> usize {
    if format != BATCH_FORMAT {
        return payload.len();
    }
    let envelope = Message::parse(&Bytes::copy_from_slice(payload));
    envelope.map_or(payload.len(), |envelope| envelope.body().len())
}

/// Counts the messages in a transfer of `format` before they are read, up to as many as a batch may have.
pub fn count(format: u32, payload: &Bytes) -> usize {
    if format != BATCH_FORMAT {
        return 1;
    }
    let body = Message::split(payload).map(|envelope| envelope.body().clone());
    let mut sections = Decoder::new(body.unwrap_or_default());
    let mut found = 0;
    while found < BATCH_MESSAGES_MAX && !sections.is_empty() && sections.raw().is_ok() {
        found += 1;
    }
    found.max(1)
}

/// The messages in a transfer of `format`.
pub fn messages(format: u32, payload: &Bytes) -> Result<Vec<Message>, DecodeError> {
    if format != BATCH_FORMAT {
        return Ok(vec![Message::sent(payload)?]);
    }
    let envelope = Message::parse(payload)?;
    let mut sections = Decoder::new(envelope.body().clone());
    let mut messages = Vec::new();
    while !sections.is_empty() {
        if messages.len() == BATCH_MESSAGES_MAX {
            return Err(DecodeError::TooManyMessages(BATCH_MESSAGES_MAX));
        }
        let mut section = Decoder::new(sections.raw()?);
        let code = section.descriptor()?;
        let value = section.value()?;
        let (Value::Binary(message), DATA) = (&value, code) else {
            return Err(unexpected("data sections in a batch", value));
        };
        messages.push(Message::sent(message)?);
    }
    if messages.is_empty() {
        Err(unexpected("messages in a batch", "none"))
    } else {
        Ok(messages)
    }
}
