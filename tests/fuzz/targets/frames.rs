//! Frames of AMQP and SASL, one behind the other as they come from a peer.

#![no_main]

use bytes::BytesMut;
use everpost::wire::amqp::frame::{FrameKind, next_frame};
use everpost::wire::amqp::performative::Performative;
use everpost::wire::amqp::sasl::Init;
use libfuzzer_sys::fuzz_target;

/// Bytes of a frame, as connections take them.
const FRAME_BYTES_MAX: u32 = 65_536;

fuzz_target!(|bytes: &[u8]| {
    let mut input = BytesMut::from(bytes);
    while let Ok(Some(frame)) = next_frame(&mut input, FRAME_BYTES_MAX) {
        match frame.kind {
            FrameKind::Sasl => drop(Init::decode(frame.body).map(|init| init.plain())),
            FrameKind::Amqp => {
                if let Ok(performative) = Performative::decode(frame.body) {
                    let mut encoded = Vec::new();
                    performative.encode(&mut encoded);
                    let again = Performative::decode(encoded.into());
                    assert!(again.is_ok(), "what is written is read: {performative:?}");
                }
            }
        }
    }
});
