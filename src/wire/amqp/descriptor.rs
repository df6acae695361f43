//! Descriptors of types: each has a number and a symbol, and senders may write either (AMQP 1.0, 1.2).

use crate::wire::amqp::value::Value;

/// The symbols of all described types that are read here.
const SYMBOLS: [(&str, u64); 32] = [
    ("amqp:open:list", 0x10),
    ("amqp:begin:list", 0x11),
    ("amqp:attach:list", 0x12),
    ("amqp:flow:list", 0x13),
    ("amqp:transfer:list", 0x14),
    ("amqp:disposition:list", 0x15),
    ("amqp:detach:list", 0x16),
    ("amqp:end:list", 0x17),
    ("amqp:close:list", 0x18),
    ("amqp:error:list", 0x1d),
    ("amqp:received:list", 0x23),
    ("amqp:accepted:list", 0x24),
    ("amqp:rejected:list", 0x25),
    ("amqp:released:list", 0x26),
    ("amqp:modified:list", 0x27),
    ("amqp:source:list", 0x28),
    ("amqp:target:list", 0x29),
    ("amqp:coordinator:list", 0x30),
    ("amqp:declare:list", 0x31),
    ("amqp:discharge:list", 0x32),
    ("amqp:declared:list", 0x33),
    ("amqp:transactional-state:list", 0x34),
    ("amqp:sasl-init:list", 0x41),
    ("amqp:header:list", 0x70),
    ("amqp:delivery-annotations:map", 0x71),
    ("amqp:message-annotations:map", 0x72),
    ("amqp:properties:list", 0x73),
    ("amqp:application-properties:map", 0x74),
    ("amqp:data:binary", 0x75),
    ("amqp:amqp-sequence:list", 0x76),
    ("amqp:amqp-value:*", 0x77),
    ("amqp:footer:map", 0x78),
];

/// Returns the number of a descriptor, which may be the symbol of a type that is read here.
pub(super) fn number(descriptor: &Value) -> Option<u64> {
    if let Some(symbol) = descriptor.as_text() {
        let known = SYMBOLS.iter().find(|(each, _)| *each == symbol);
        return known.map(|(_, number)| *number);
    }
    u64::try_from(descriptor.as_integer()?).ok()
}

/// Takes a described value apart: the number of its descriptor, and what is described.
pub(super) fn described(value: Value) -> Option<(u64, Value)> {
    let Value::Described(described) = value else {
        return None;
    };
    let (descriptor, content) = *described;
    Some((number(&descriptor)?, content))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::amqp::condition::AmqpError;
    use crate::wire::amqp::decode::Decoder;
    use crate::wire::amqp::performative::{
        Attach, Begin, Detach, Disposition, Flow, LinkRole, Open, Performative, ReceiverSettles,
        SenderSettles, Transfer,
    };
    use crate::wire::amqp::state::{DeliveryState, Modified, Transactional};
    use crate::wire::amqp::terminus::{LinkSource, LinkTarget};
    use crate::wire::amqp::value::Map;

    /// Writes every numeric descriptor in a value as its symbol.
    fn with_symbols(value: Value) -> Value {
        if let Value::List(values) = value {
            return Value::List(values.into_iter().map(with_symbols).collect());
        }
        let Value::Described(described) = value else {
            return value;
        };
        let (descriptor, content) = *described;
        let number = number(&descriptor).expect("a number");
        let symbol = SYMBOLS.iter().find(|(_, each)| *each == number);
        let (symbol, _) = symbol.expect("a symbol");
        let content = with_symbols(content);
        Value::Described(Box::new((Value::symbol(symbol), content)))
    }

    fn states() -> Vec<DeliveryState> {
        let error = AmqpError::new("amqp:not-found", "nothing");
        vec![
            DeliveryState::Received,
            DeliveryState::Accepted,
            DeliveryState::Rejected(Some(error)),
            DeliveryState::Released,
            DeliveryState::Modified(Modified::default()),
            DeliveryState::Declared(Bytes::from_static(b"1")),
            DeliveryState::Transactional(Transactional {
                transaction: Bytes::from_static(b"1"),
                outcome: Some(Box::new(DeliveryState::Accepted)),
            }),
        ]
    }

    fn performatives() -> Vec<Performative> {
        let attach = |target| {
            Performative::Attach(Box::new(Attach {
                name: "link".to_owned(),
                handle: 0,
                role: LinkRole::Sender,
                sender_settles: SenderSettles::Mixed,
                receiver_settles: ReceiverSettles::First,
                source: Some(LinkSource {
                    default_outcome: Some(Box::new(DeliveryState::Released)),
                    ..LinkSource::default()
                }),
                target: Some(target),
                initial_delivery_count: Some(0),
                max_message_size: None,
                properties: Map::new(),
            }))
        };
        let node = LinkTarget::Node {
            address: Some("jobs".to_owned()),
            dynamic: false,
        };
        let disposition = |state| {
            Performative::Disposition(Disposition {
                role: LinkRole::Receiver,
                first: 1,
                last: None,
                settled: true,
                state: Some(state),
            })
        };
        let mut all = vec![
            Performative::Open(Open {
                container_id: "peer".to_owned(),
                hostname: None,
                max_frame_size: 512,
                channel_max: 0,
                idle_timeout_ms: None,
                properties: Map::new(),
            }),
            Performative::Begin(Begin {
                remote_channel: None,
                next_outgoing_id: 0,
                incoming_window: 1,
                outgoing_window: 1,
                handle_max: 1,
            }),
            attach(node),
            attach(LinkTarget::Coordinator),
            Performative::Flow(Flow::default()),
            Performative::Transfer(Transfer {
                handle: 0,
                delivery_id: Some(0),
                delivery_tag: None,
                message_format: None,
                settled: None,
                more: false,
                state: Some(DeliveryState::Accepted),
                aborted: false,
                payload: Bytes::new(),
            }),
            Performative::Detach(Detach {
                handle: 0,
                closed: true,
                error: None,
            }),
            Performative::End(None),
            Performative::Close(Some(AmqpError::new("amqp:not-found", "nothing"))),
        ];
        all.extend(states().into_iter().map(disposition));
        all
    }

    #[test]
    fn what_is_described_by_symbols_is_read_as_if_by_numbers() {
        for performative in performatives() {
            let mut bytes = Vec::new();
            performative.encode(&mut bytes);
            let value = Decoder::new(bytes.into()).value().expect("a value");
            let symbolic = with_symbols(value.clone());
            assert_ne!(symbolic, value);
            let read = Performative::decode(symbolic.to_bytes().into());
            assert_eq!(read.as_ref(), Ok(&performative));
        }
    }
}
