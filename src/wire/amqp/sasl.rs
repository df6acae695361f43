//! SASL frames, with which the peer of a connection authenticates.

use bytes::Bytes;

use crate::base::named::named_enum;
use crate::model::access::Secret;
use crate::wire::amqp::decode::{DecodeError, Decoder, unexpected};
use crate::wire::amqp::fields::UnreadFields;
use crate::wire::amqp::frame::{FrameKind, write_frame};
use crate::wire::amqp::value::{ElementType, Value};

const MECHANISMS: u64 = 0x40;
const INIT: u64 = 0x41;
const OUTCOME: u64 = 0x44;

named_enum! {
    /// SASL mechanisms, in the order in which they are offered.
    pub enum Mechanism {
        /// Service Bus' own mechanism: the client sends tokens once it is connected.
        Mssbcbs = "MSSBCBS",
        /// The mechanism for clients that do not know `MSSBCBS`. These clients also send tokens after they connect.
        Anonymous = "ANONYMOUS",
        /// The name of an access rule and its key, as user name and password.
        Plain = "PLAIN",
        /// The mechanism for authentication by the connection itself. The server accepts no such proof, so tokens
        /// follow.
        External = "EXTERNAL",
    }
}

/// The answer of a peer to the offered mechanisms.
#[derive(Clone, Debug)]
pub struct Init {
    /// The name of the mechanism as the peer wrote it.
    pub mechanism: String,
    response: Option<Bytes>,
}

/// A rule and its key.
#[derive(Clone, Debug)]
pub struct Plain {
    pub rule: String,
    pub key: Secret,
}

/// The outcome of the SASL exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslOutcome {
    Ok = 0,
    Denied = 1,
}

impl Init {
    /// Reads the body of a frame.
    pub fn decode(body: Bytes) -> Result<Self, DecodeError> {
        let mut decoder = Decoder::of_frame(body);
        let descriptor = decoder.descriptor()?;
        if descriptor != INIT {
            return Err(unexpected("sasl-init", descriptor));
        }
        let mut fields = UnreadFields::of("sasl-init", decoder.value()?)?;
        Ok(Self {
            mechanism: fields.required("mechanism")?,
            response: fields.optional("initial-response")?,
        })
    }

    /// The credentials of [`Mechanism::Plain`]: the rule as identity, the key as password.
    pub fn plain(&self) -> Option<Plain> {
        let text = std::str::from_utf8(self.response.as_ref()?).ok()?;
        let (_authorized_as, rest) = text.split_once('\0')?;
        let (rule, key) = rest.split_once('\0')?;
        Some(Plain {
            rule: rule.to_owned(),
            key: Secret::new(key),
        })
    }
}

/// Appends the offer of all mechanisms.
pub fn write_mechanisms(out: &mut Vec<u8>) {
    let names = Mechanism::ALL.map(|each| Value::symbol(each.name()));
    write(
        out,
        MECHANISMS,
        Value::array(ElementType::SYMBOL, names.to_vec()),
    );
}

/// Appends the outcome frame, which ends the SASL exchange.
pub fn write_outcome(out: &mut Vec<u8>, outcome: SaslOutcome) {
    write(out, OUTCOME, Value::Ubyte(outcome as u8));
}

fn write(out: &mut Vec<u8>, descriptor: u64, field: Value) {
    let value = Value::composite(descriptor, vec![field]);
    write_frame(out, FrameKind::Sasl, 0, |out| {
        out.extend(value.to_bytes());
    });
}
