//! States of deliveries.

use bytes::Bytes;

use crate::wire::amqp::condition::AmqpError;
use crate::wire::amqp::descriptor::described;
use crate::wire::amqp::fields::UnreadFields;
use crate::wire::amqp::value::{FromValue, Map, Value};

/// Bytes of the id of a transaction (AMQP 1.0, 4.5.1).
const TRANSACTION_ID_BYTES_MAX: usize = 32;

const RECEIVED: u64 = 0x23;
const ACCEPTED: u64 = 0x24;
const REJECTED: u64 = 0x25;
const RELEASED: u64 = 0x26;
const MODIFIED: u64 = 0x27;
const DECLARED: u64 = 0x33;
const TRANSACTIONAL: u64 = 0x34;

/// The state of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum DeliveryState {
    /// The delivery has no outcome yet.
    Received,
    Accepted,
    Rejected(Option<AmqpError>),
    Released,
    Modified(Modified),
    /// A transaction has begun, with this id.
    Declared(Bytes),
    /// The state of a delivery or an outcome in a transaction.
    Transactional(Transactional),
}

/// The outcome that a delivery gets when its transaction is committed.
#[derive(Clone, Debug, PartialEq)]
pub struct Transactional {
    pub transaction: Bytes,
    /// The outcome, which a message that is sent does not have.
    pub outcome: Option<Box<DeliveryState>>,
}

/// A delivery that comes back changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Modified {
    pub delivery_failed: Option<bool>,
    pub undeliverable_here: Option<bool>,
    pub annotations: Map,
}

impl FromValue for DeliveryState {
    const KIND: &'static str =
        "accepted, rejected, released, modified, received, declared or transactional-state";

    fn from_value(value: Value) -> Option<Self> {
        let (descriptor, content) = described(value)?;
        let mut fields = UnreadFields::of("a delivery state", content).ok()?;
        Some(match descriptor {
            RECEIVED => Self::Received,
            ACCEPTED => Self::Accepted,
            REJECTED => Self::Rejected(fields.optional("error").ok()?),
            RELEASED => Self::Released,
            MODIFIED => Self::Modified(Modified {
                delivery_failed: fields.optional("delivery-failed").ok()?,
                undeliverable_here: fields.optional("undeliverable-here").ok()?,
                annotations: fields.or("message-annotations", Map::new()).ok()?,
            }),
            DECLARED => Self::Declared(transaction_id(&mut fields)?),
            TRANSACTIONAL => Self::Transactional(Transactional {
                transaction: transaction_id(&mut fields)?,
                outcome: fields.optional("outcome").ok()?.map(Box::new),
            }),
            _ => return None,
        })
    }
}

impl From<&DeliveryState> for Value {
    fn from(state: &DeliveryState) -> Self {
        let (descriptor, fields) = match state {
            DeliveryState::Received => (RECEIVED, vec![Value::Uint(0), Value::Ulong(0)]),
            DeliveryState::Accepted => (ACCEPTED, Vec::new()),
            DeliveryState::Rejected(error) => (REJECTED, vec![error.as_ref().into()]),
            DeliveryState::Released => (RELEASED, Vec::new()),
            DeliveryState::Modified(modified) => {
                let annotations = &modified.annotations;
                let annotations = (!annotations.is_empty()).then(|| annotations.clone());
                let fields = vec![
                    modified.delivery_failed.into(),
                    modified.undeliverable_here.into(),
                    annotations.into(),
                ];
                (MODIFIED, fields)
            }
            DeliveryState::Declared(id) => (DECLARED, vec![id.clone().into()]),
            DeliveryState::Transactional(part) => {
                let fields = vec![
                    part.transaction.clone().into(),
                    part.outcome.as_deref().into(),
                ];
                (TRANSACTIONAL, fields)
            }
        };
        Value::composite(descriptor, fields)
    }
}

/// Reads the id of a transaction; `None` if it is missing, or longer than AMQP allows. Code that stores an id for a
/// client relies on its maximum length.
fn transaction_id(fields: &mut UnreadFields) -> Option<Bytes> {
    let id: Bytes = fields.required("txn-id").ok()?;
    (id.len() <= TRANSACTION_ID_BYTES_MAX).then_some(id)
}
