//! Messages as clients send them and the store keeps them, and the requests among them.

#![no_main]

use bytes::Bytes;
use everpost::wire::amqp::cbs::PutToken;
use everpost::wire::amqp::management;
use everpost::wire::amqp::message::Message;
use everpost::wire::amqp::transaction;
use everpost::wire::service_bus::message::to_event;
use everpost::wire::service_bus::readable::readable;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = Message::parse(&Bytes::copy_from_slice(bytes)) else {
        return;
    };
    let _ = (message.header(), message.annotations(), message.properties());
    let _ = (message.application_properties(), message.parts());
    let _ = (message.body_value(), message.body_values(), message.plain_body());
    let _ = management::EntityOperation::parse(&message);
    let _ = (PutToken::parse(&message), transaction::CoordinatorRequest::parse(&message));
    let again = Message::parse(&message.to_bytes().into());
    assert!(again.is_ok(), "what is written is read");
    if let Ok(event) = to_event(message, || "id".to_owned()) {
        readable(&event);
    }
});
