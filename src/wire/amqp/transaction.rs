//! Requests of clients to the coordinator of transactions (AMQP 1.0, part 4).

use bytes::Bytes;

use crate::wire::amqp::condition::{AmqpError, DECODE_ERROR};
use crate::wire::amqp::descriptor::described;
use crate::wire::amqp::fields::UnreadFields;
use crate::wire::amqp::message::Message;

const DECLARE: u64 = 0x31;
const DISCHARGE: u64 = 0x32;

/// A request of a client to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorRequest {
    /// Begins a transaction.
    Declare,
    /// Ends a transaction: its changes are made, or forgotten if it is to `fail`.
    Discharge { transaction: Bytes, fail: bool },
}

impl CoordinatorRequest {
    /// Reads the body of a message.
    pub fn parse(message: &Message) -> Result<Self, AmqpError> {
        Self::read(message).ok_or_else(|| {
            let problem = "the coordinator of transactions takes a declare or a discharge";
            AmqpError::new(DECODE_ERROR, problem)
        })
    }

    fn read(message: &Message) -> Option<Self> {
        let (descriptor, content) = described(message.body_value().ok()??)?;
        let mut fields = match descriptor {
            DECLARE => return Some(Self::Declare),
            DISCHARGE => UnreadFields::of("a discharge", content).ok()?,
            _ => return None,
        };
        Some(Self::Discharge {
            transaction: fields.required("txn-id").ok()?,
            fail: fields.or("fail", false).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::amqp::message::MessageProperties;
    use crate::wire::amqp::value::{Map, Value};

    fn asked(descriptor: Value, fields: Vec<Value>) -> Option<CoordinatorRequest> {
        let body = Value::Described(Box::new((descriptor, Value::List(fields))));
        let message = Message::of(&MessageProperties::default(), Map::new(), body);
        CoordinatorRequest::parse(&message).ok()
    }

    #[test]
    fn requests_are_named_by_number_or_name() {
        let id = Bytes::from_static(b"7");
        let fields = || vec![id.clone().into(), Value::Bool(true)];
        let ended = CoordinatorRequest::Discharge {
            transaction: id.clone(),
            fail: true,
        };
        for (descriptor, fields, expected) in [
            (
                Value::Ulong(0x31),
                vec![Value::Null],
                Some(CoordinatorRequest::Declare),
            ),
            (
                Value::symbol("amqp:declare:list"),
                vec![],
                Some(CoordinatorRequest::Declare),
            ),
            (Value::Ulong(0x32), fields(), Some(ended.clone())),
            (Value::symbol("amqp:discharge:list"), fields(), Some(ended)),
            (Value::Ulong(0x32), vec![], None),
            (Value::Ulong(0x33), fields(), None),
        ] {
            assert_eq!(asked(descriptor, fields), expected);
        }
    }
}
