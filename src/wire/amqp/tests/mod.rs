//! The codec against bytes that are known, and against bytes that nobody meant.

mod messages;
mod requests;
mod sent;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use uuid::Uuid;

use super::batch;
use super::decode::{DecodeError, Decoder, unexpected};
use super::encode::element_type;
use super::frame::{FrameError, FrameKind, next_frame, write_frame};
use super::message::{Handout, Message};
use super::performative::{
    Attach, Disposition, Flow, LinkRole, Open, Performative, ReceiverSettles, SenderSettles,
    Transfer,
};
use super::state::{DeliveryState, Modified, Transactional};
use super::terminus::{LinkSource, LinkTarget};
use super::value::{Array, ElementType, FromValue, Map, Value};
use super::{AmqpError, sasl};
use crate::model::session::SessionSelection;

pub(super) fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|each| !each.is_ascii_whitespace())
        .collect();
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).expect("ASCII");
        u8::from_str_radix(pair, 16).expect("two digits")
    });
    pairs.collect()
}

pub(super) fn decoded(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut decoder = Decoder::new(Bytes::copy_from_slice(bytes));
    let value = decoder.value()?;
    assert!(decoder.is_empty(), "{value:?} leaves {:?}", decoder.rest());
    Ok(value)
}

#[test]
fn values_have_the_standards_encodings() {
    let text = |text: &str| Value::from(text);
    for (bytes, value) in [
        ("40", Value::Null),
        ("41", Value::Bool(true)),
        ("42", Value::Bool(false)),
        ("50ff", Value::Ubyte(255)),
        ("600100", Value::Ushort(256)),
        ("43", Value::Uint(0)),
        ("52ff", Value::Uint(255)),
        ("7000000100", Value::Uint(256)),
        ("44", Value::Ulong(0)),
        ("53 70", Value::Ulong(0x70)),
        ("80 0000013700000004", Value::Ulong(0x0000_0137_0000_0004)),
        ("51ff", Value::Byte(-1)),
        ("61fffe", Value::Short(-2)),
        ("54ff", Value::Int(-1)),
        ("7100000080", Value::Int(128)),
        ("5580", Value::Long(-128)),
        ("81ffffffffffffff7f", Value::Long(-129)),
        ("723f800000", Value::Float(1.0)),
        ("823ff0000000000000", Value::Double(1.0)),
        ("74aabbccdd", Value::Decimal(hex("aabbccdd"))),
        ("7300000041", Value::Char(0x41)),
        ("8300000000000003e8", Value::Timestamp(1_000)),
        (
            "98000102030405060708090a0b0c0d0e0f",
            Value::Uuid(Uuid::from_u128(0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f)),
        ),
        ("a002c0de", Value::Binary(hex("c0de"))),
        ("a103c3bc21", text("ü!")),
        ("a30161", Value::symbol("a")),
        ("45", Value::List(Vec::new())),
        (
            "c0 04 02 41 50 07",
            Value::List(vec![Value::Bool(true), Value::Ubyte(7)]),
        ),
        (
            "c1 05 02 a1 01 61 42",
            Value::Map(vec![(text("a"), Value::Bool(false))]),
        ),
        (
            "e0 0a 02 70 00000001 00000002",
            Value::array(ElementType(0x70), vec![Value::Uint(1), Value::Uint(2)]),
        ),
        ("00 53 24 45", Value::composite(0x24, Vec::new())),
    ] {
        let bytes = hex(bytes);
        assert_eq!(decoded(&bytes), Ok(value.clone()));
        assert_eq!(value.to_bytes(), bytes, "{value:?}");
    }
}

#[test]
fn longer_encodings_are_read_too() {
    for (bytes, value) in [
        ("5601", Value::Bool(true)),
        ("7000000007", Value::Uint(7)),
        ("800000000000000007", Value::Ulong(7)),
        ("7100000007", Value::Int(7)),
        ("810000000000000007", Value::Long(7)),
        ("b1 00000001 61", Value::from("a")),
        ("d0 00000004 00000000", Value::List(Vec::new())),
        ("c0 01 00", Value::List(Vec::new())),
        (
            "f0 00000007 00000002 50 01 02",
            Value::array(ElementType(0x50), vec![Value::Ubyte(1), Value::Ubyte(2)]),
        ),
        ("e0 02 00 40", Value::array(ElementType(0x40), Vec::new())),
        ("e0 02 00 81", Value::array(ElementType::LONG, Vec::new())),
        (
            "e0 05 01 00 53 24 45",
            Value::Array(Box::new(Array {
                descriptors: vec![Value::Ulong(0x24)],
                element: ElementType(0xd0),
                values: vec![Value::List(Vec::new())],
            })),
        ),
    ] {
        assert_eq!(decoded(&hex(bytes)), Ok(value), "{bytes}");
    }
}

#[test]
fn what_is_no_value_is_rejected() {
    for (bytes, error) in [
        ("", DecodeError::Truncated),
        ("70 0000", DecodeError::Truncated),
        ("a1 05 61", DecodeError::Truncated),
        ("b0 ffffffff 00", DecodeError::Truncated),
        ("3f", DecodeError::UnknownType(0x3f)),
        ("a1 01 ff", DecodeError::NotUtf8),
        ("c1 02 01 40", DecodeError::OddMap),
        ("c0 03 01 40 40", DecodeError::WrongSize),
        ("c0 02 02 40", DecodeError::Truncated),
        // Elements without bytes, and as many as there can be.
        ("f0 00000005 ffffffff 40", DecodeError::TooMany(10)),
        ("f0 00000005 ffffffff 45", DecodeError::TooMany(10)),
    ] {
        assert_eq!(decoded(&hex(bytes)), Err(error), "{bytes}");
    }
    let mut lists = vec![0x45];
    for _ in 0..20_000 {
        let mut outer = vec![0xd0];
        outer.extend(u32::try_from(lists.len() + 4).expect("small").to_be_bytes());
        outer.extend([0, 0, 0, 1]);
        outer.append(&mut lists);
        lists = outer;
    }
    for deep in [lists, vec![0x00; 100_000]] {
        assert_eq!(decoded(&deep), Err(DecodeError::TooDeep));
        let raw = Decoder::new(deep.into()).raw();
        assert!(matches!(raw, Ok(_) | Err(DecodeError::TooDeep)));
    }
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u16>().prop_map(Value::Ushort),
        any::<u32>().prop_map(Value::Uint),
        any::<u64>().prop_map(Value::Ulong),
        any::<i8>().prop_map(Value::Byte),
        any::<i16>().prop_map(Value::Short),
        any::<i32>().prop_map(Value::Int),
        any::<i64>().prop_map(Value::Long),
        any::<i32>().prop_map(|n| Value::Float(n as f32)),
        any::<i32>().prop_map(|n| Value::Double(f64::from(n) / 3.0)),
        any::<u32>().prop_map(Value::Char),
        any::<char>().prop_map(|each| Value::Char(each.into())),
        any::<i64>().prop_map(Value::Timestamp),
        any::<u128>().prop_map(|n| Value::Uuid(Uuid::from_u128(n))),
        any::<[u8; 4]>().prop_map(|bytes| Value::Decimal(Bytes::copy_from_slice(&bytes))),
        any::<[u8; 8]>().prop_map(|bytes| Value::Decimal(Bytes::copy_from_slice(&bytes))),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| Value::Binary(bytes.into())),
        "\\PC{0,100}".prop_map(Value::String),
        "[a-z:]{0,20}".prop_map(Value::Symbol),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 64, 8, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..8);
        let descriptors = prop::collection::vec(inner.clone(), 0..3);
        let array = (descriptors, inner.clone(), 0..40usize);
        let array = array.prop_map(|(mut descriptors, mut each, count)| {
            while let Value::Described(described) = each {
                descriptors.push(described.0);
                each = described.1;
            }
            // Those without a width cannot be more than the bytes.
            let has_width = !matches!(each, Value::Null);
            let element = element_type(&each);
            let values = if has_width {
                vec![each; count]
            } else {
                Vec::new()
            };
            Value::Array(Box::new(Array {
                descriptors,
                element,
                values,
            }))
        });
        let map = prop::collection::vec((inner.clone(), inner.clone()), 0..8);
        prop_oneof![
            list.prop_map(Value::List),
            array,
            map.prop_map(Value::Map),
            (any::<u64>(), inner).prop_map(|(code, value)| Value::described(code, value)),
        ]
    })
}

/// Asserts that reading `bytes` in each of the ways in which the bytes of a client are read, and showing what was read,
/// takes memory in proportion to them.
fn assert_bounded(bytes: &[u8]) {
    /// For errors, and the least that lists and texts take.
    const BASE: u64 = 8 * 1_024;
    /// A byte can stand for a null, which takes 40 bytes in a list that has just grown to the double, besides the old one.
    const FOR_EACH_BYTE: u64 = 160;
    let bytes = Bytes::copy_from_slice(bytes);
    let most = BASE + FOR_EACH_BYTE * bytes.len() as u64;
    let check = |what: &str, measured: allocation_counter::AllocationInfo| {
        let taken = measured.bytes_max;
        assert!(
            taken <= most,
            "{what} of {} bytes takes {taken}",
            bytes.len()
        );
    };
    let measure = |what, run: &dyn Fn()| check(what, allocation_counter::measure(run));
    measure("a value", &|| drop(Decoder::new(bytes.clone()).value()));
    measure("bytes", &|| drop(Decoder::new(bytes.clone()).raw()));
    measure("a frame", &|| drop(Performative::decode(bytes.clone())));
    measure("sasl-init", &|| drop(sasl::Init::decode(bytes.clone())));
    measure("a message", &|| drop(Message::parse(&bytes)));
    measure("a batch", &|| {
        drop(batch::messages(batch::BATCH_FORMAT, &bytes));
    });
    if let Ok(message) = Message::parse(&bytes) {
        measure("its body", &|| drop(message.plain_body()));
        measure("its way out", &|| {
            drop(message.hand_out(&Handout::default()));
        });
    }
    if let Ok(value) = Decoder::new(bytes.clone()).value() {
        measure("its text", &|| drop(value.plain()));
        measure("its encoding", &|| drop(value.to_bytes()));
        measure("an error with it", &|| drop(unexpected("another", &value)));
    }
}

/// An array of `count` elements of no width, with `descriptor` before their constructor.
fn described_array(descriptor: &[u8], count: u32, element: u8) -> Vec<u8> {
    let mut content = count.to_be_bytes().to_vec();
    content.push(0x00);
    content.extend_from_slice(descriptor);
    content.push(element);
    let mut array = vec![0xf0];
    array.extend(u32::try_from(content.len()).expect("small").to_be_bytes());
    array.extend(content);
    array
}

/// A map of one key and its value, as each of which it takes `inner` or a null.
fn map_around(inner: &[u8], as_key: bool) -> Vec<u8> {
    let mut content = vec![0, 0, 0, 2];
    if as_key {
        content.extend(inner);
        content.push(0x40);
    } else {
        content.push(0x40);
        content.extend(inner);
    }
    let mut map = vec![0xd1];
    map.extend(u32::try_from(content.len()).expect("small").to_be_bytes());
    map.extend(content);
    map
}

#[test]
fn few_bytes_stand_for_few_values() {
    let mut nested: Vec<Vec<u8>> = Vec::new();
    for element in [0x40, 0x41, 0x43, 0x44, 0x45] {
        for count in [7, 200, u32::MAX] {
            let mut array = vec![0x44];
            for _ in 0..6 {
                array = described_array(&array, count, element);
                nested.push(array.clone());
            }
        }
    }
    for as_key in [true, false] {
        let mut map = b"\xa1\x03\"\\\"".to_vec();
        for _ in 0..30 {
            map = map_around(&map, as_key);
        }
        nested.push(map);
    }
    for value in nested {
        assert_bounded(&value);
        // As a field of each frame, and as the content and the descriptor of each section of a message.
        for code in (0x10..=0x18).chain([0x41]).chain(0x70..=0x78) {
            let mut list = vec![0xd0];
            list.extend(
                u32::try_from(2 * value.len() + 5)
                    .expect("small")
                    .to_be_bytes(),
            );
            list.extend([0, 0, 0, 3, 0x40]);
            list.extend(value.repeat(2));
            assert_bounded(&[&[0x00, 0x53, code], list.as_slice()].concat());
            assert_bounded(&[&[0x00, 0x53, code], value.as_slice()].concat());
            assert_bounded(&[&[0x00], value.as_slice(), &[0x53, code]].concat());
        }
    }
}

#[test]
fn a_whole_frame_of_nulls_takes_less_than_a_megabyte() {
    let mut frame = vec![0x00, 0x53, 0x12, 0xd0];
    frame.extend(65_508_u32.to_be_bytes());
    frame.extend(65_504_u32.to_be_bytes());
    frame.resize(frame.len() + 65_504, 0x40);
    let measured = allocation_counter::measure(|| {
        let decoded = Performative::decode(frame.clone().into());
        assert_eq!(decoded, Err(DecodeError::TooMany(4_096)));
    });
    assert!(measured.bytes_max < 1_024 * 1_024, "{measured:?}");
}

proptest! {
    #[test]
    fn values_are_written_and_read_back(value in value()) {
        let bytes = value.to_bytes();
        prop_assert_eq!(decoded(&bytes), Ok(value));
        let mut twice = Decoder::new(bytes.repeat(2).into());
        let whole = Bytes::from(bytes);
        prop_assert_eq!(twice.raw(), Ok(whole.clone()));
        prop_assert_eq!(twice.raw(), Ok(whole));
        prop_assert!(twice.is_empty());
    }

    #[test]
    fn no_bytes_are_too_much(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_bounded(&bytes);
    }

    /// Bytes that look like AMQP more often than chance lets them.
    #[test]
    fn no_codes_are_too_much(
        bytes in prop::collection::vec(
            prop::sample::select(vec![
                0x00, 0x00, 0x01, 0x02, 0x04, 0x08, 0x10, 0x14, 0x24, 0x40, 0x41, 0x43, 0x45, 0x50,
                0x53, 0x56, 0x70, 0x73, 0x80, 0xa0, 0xa1, 0xa3, 0xc0, 0xc1, 0xd0, 0xd1, 0xe0, 0xf0,
                0xff,
            ]),
            0..200,
        ),
    ) {
        assert_bounded(&bytes);
    }

    #[test]
    fn mutated_performatives_are_no_danger(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let all = performatives();
        let mut bytes = Vec::new();
        which.get(&all).encode(&mut bytes);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        assert_bounded(&bytes);
    }

    /// Values of every type in every other, as fields of each frame and sections of messages.
    #[test]
    fn no_value_in_a_frame_is_too_much(
        values in prop::collection::vec(value(), 1..6),
        code in prop::sample::select(Vec::from_iter((0x10..=0x18).chain([0x41]).chain(0x70..=0x78))),
    ) {
        for value in &values {
            assert_bounded(&Value::described(code, value.clone()).to_bytes());
            let described = Value::Described(Box::new((value.clone(), Value::Null)));
            assert_bounded(&described.to_bytes());
        }
        assert_bounded(&Value::described(code, Value::List(values)).to_bytes());
    }

    #[test]
    fn frames_are_cut_where_they_end(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        for (channel, body) in (0..).zip(&bodies) {
            write_frame(&mut bytes, FrameKind::Amqp, channel, |out| out.extend_from_slice(body));
        }
        let cut = cut.index(bytes.len() + 1);
        let (mut buffer, mut found) = (BytesMut::new(), Vec::new());
        for part in [&bytes[..cut], &bytes[cut..]] {
            buffer.extend_from_slice(part);
            while let Some(frame) = next_frame(&mut buffer, 512).expect("frames") {
                prop_assert_eq!(usize::from(frame.channel), found.len());
                found.push(frame.body.to_vec());
            }
        }
        prop_assert_eq!(found, bodies);
        prop_assert!(buffer.is_empty());
    }
}

#[test]
fn what_is_no_frame_is_rejected() {
    for (bytes, error) in [
        (
            "00000201 02 00 0000",
            FrameError::TooLarge {
                size: 513,
                max: 512,
            },
        ),
        (
            "00000008 01 00 0000",
            FrameError::BadStart { size: 8, start: 4 },
        ),
        (
            "00000008 03 00 0000",
            FrameError::BadStart { size: 8, start: 12 },
        ),
        (
            "00000000 02 00 0000",
            FrameError::BadStart { size: 0, start: 8 },
        ),
        ("00000008 02 07 0000", FrameError::UnknownType(7)),
    ] {
        let mut buffer = BytesMut::from(hex(bytes).as_ref());
        assert_eq!(next_frame(&mut buffer, 512), Err(error), "{bytes}");
    }
    let mut extended = BytesMut::from(hex("0000000d 03 00 0002 ffffffff 40").as_ref());
    let frame = next_frame(&mut extended, 512)
        .expect("a frame")
        .expect("whole");
    assert_eq!((frame.channel, frame.body), (2, hex("40")));
}

#[test]
fn little_is_kept_of_what_a_link_says_about_transactions() {
    let of = |length| {
        DeliveryState::Transactional(Transactional {
            transaction: vec![7; length].into(),
            outcome: Some(Box::new(DeliveryState::Accepted)),
        })
    };
    let read = |state: &DeliveryState| DeliveryState::from_value(Value::from(state));
    assert_eq!(read(&of(32)), Some(of(32)));
    assert_eq!(read(&of(33)), None);
    assert_eq!(read(&DeliveryState::Declared(vec![7; 33].into())), None);
    for (said, kept) in [
        (of(8), None),
        (DeliveryState::Declared(vec![7; 8].into()), None),
        (DeliveryState::Received, None),
        (DeliveryState::Released, Some(DeliveryState::Released)),
    ] {
        let source = LinkSource {
            address: None,
            dynamic: false,
            not_offered: None,
            default_outcome: Some(Box::new(said)),
            filter: Map::new(),
        };
        let read = LinkSource::from_value(Value::from(&source)).expect("a source");
        assert_eq!(read.default_outcome.as_deref(), kept.as_ref());
    }
}

fn performatives() -> Vec<Performative> {
    let source = LinkSource {
        address: Some("orders".to_owned()),
        dynamic: false,
        not_offered: None,
        default_outcome: None,
        filter: vec![(Value::symbol("com.microsoft:session-filter"), Value::Null)],
    };
    let attach = Attach {
        name: "link".to_owned(),
        handle: 3,
        role: LinkRole::Receiver,
        sender_settles: SenderSettles::Unsettled,
        receiver_settles: ReceiverSettles::Second,
        source: Some(source),
        target: Some(LinkTarget::Node {
            address: Some("here".to_owned()),
            dynamic: false,
        }),
        initial_delivery_count: Some(0),
        max_message_size: Some(1_048_576),
        properties: vec![(Value::symbol("com.microsoft:timeout"), Value::Uint(5_000))],
    };
    let rejected = AmqpError {
        info: vec![("DeadLetterReason".into(), "broken".into())],
        ..AmqpError::new("com.microsoft:dead-letter", "")
    };
    let disposition = |state| {
        Performative::Disposition(Disposition {
            role: LinkRole::Receiver,
            first: 1,
            last: Some(7),
            settled: false,
            state: Some(state),
        })
    };
    vec![
        Performative::Open(Open {
            container_id: "c".to_owned(),
            hostname: Some("h".to_owned()),
            max_frame_size: 65_536,
            channel_max: 7,
            idle_timeout_ms: Some(60_000),
            properties: vec![(Value::symbol("product"), "p".into())],
        }),
        Performative::Attach(Box::new(attach)),
        Performative::Flow(Flow {
            next_incoming_id: Some(1),
            incoming_window: 2_048,
            next_outgoing_id: 4,
            outgoing_window: 2_048,
            handle: Some(3),
            delivery_count: Some(9),
            link_credit: Some(100),
            available: Some(0),
            drain: true,
            echo: true,
        }),
        Performative::Transfer(Transfer {
            handle: 3,
            delivery_id: Some(5),
            delivery_tag: Some(hex("0102")),
            message_format: Some(0),
            settled: Some(false),
            more: true,
            state: Some(in_transaction(None)),
            aborted: false,
            payload: hex("005377a10161"),
        }),
        disposition(DeliveryState::Accepted),
        disposition(DeliveryState::Rejected(Some(rejected))),
        disposition(DeliveryState::Released),
        disposition(DeliveryState::Received),
        disposition(DeliveryState::Declared(hex("07"))),
        disposition(in_transaction(Some(DeliveryState::Accepted))),
        disposition(DeliveryState::Modified(Modified {
            delivery_failed: None,
            undeliverable_here: Some(true),
            annotations: vec![(Value::symbol("a"), Value::Int(1))],
        })),
        Performative::End(None),
        Performative::Close(Some(AmqpError::new("amqp:connection:forced", "over"))),
    ]
}

#[test]
fn performatives_are_written_and_read_back() {
    for performative in performatives() {
        let mut bytes = Vec::new();
        performative.encode(&mut bytes);
        assert_eq!(Performative::decode(bytes.into()), Ok(performative));
    }
}

/// Clients of JMS send with a delay only where that is offered.
#[test]
fn an_open_offers_the_delay_of_deliveries() {
    let mut offered = Vec::new();
    for open in performatives() {
        if !matches!(open, Performative::Open(_)) {
            continue;
        }
        let mut bytes = Vec::new();
        open.encode(&mut bytes);
        let Ok(Value::Described(described)) = decoded(&bytes) else {
            panic!("an open");
        };
        let Value::List(fields) = described.1 else {
            panic!("fields");
        };
        offered.push(fields[7].clone());
    }
    assert_eq!(offered, [Value::symbol("DELAYED_DELIVERY")]);
}

#[test]
fn real_clients_are_understood() {
    // .NET leaves out initial-delivery-count. The numbers are wider than they have to be.
    let attach = "00 80 0000000000000012 d0 00000019 00000007 a1 01 6c 70 00000000 42 50 00 50 00 \
                  00 53 28 45 00 53 29 45";
    let Ok(Performative::Attach(attach)) = Performative::decode(hex(attach)) else {
        panic!("an attach");
    };
    assert_eq!(attach.initial_delivery_count, None);
    assert_eq!(
        (attach.role, attach.target),
        (
            LinkRole::Sender,
            Some(LinkTarget::Node {
                address: None,
                dynamic: false
            })
        )
    );
    // JavaScript writes strings where the standard has symbols: keys of info, and here the condition, too.
    let info: Map = vec![("DeadLetterReason".into(), "broken".into())];
    let error = Value::composite(
        0x1d,
        vec!["com.microsoft:dead-letter".into(), Value::Null, info.into()],
    );
    let state = Value::composite(0x25, vec![error]);
    let fields = vec![true.into(), 5u32.into(), Value::Null, false.into(), state];
    let bytes = Value::composite(0x15, fields).to_bytes();
    let Ok(Performative::Disposition(disposition)) = Performative::decode(bytes.into()) else {
        panic!("a disposition");
    };
    let Some(DeliveryState::Rejected(Some(error))) = disposition.state else {
        panic!("a rejection");
    };
    assert_eq!(error.condition, "com.microsoft:dead-letter");
}

#[test]
fn sessions_are_asked_for_in_two_ways() {
    let source = |value| LinkSource {
        filter: vec![(Value::symbol("com.microsoft:session-filter"), value)],
        ..LinkSource::default()
    };
    let described = |value| Value::described(0x0000_0013_7000_000c, value);
    let named = Some(SessionSelection::Named("s".to_owned()));
    for (value, expected) in [
        (Value::Null, Some(SessionSelection::Next)),
        (described(Value::Null), Some(SessionSelection::Next)),
        ("s".into(), named.clone()),
        (described("s".into()), named.clone()),
    ] {
        let source = source(value);
        assert_eq!(source.session(), expected, "{source:?}");
        // The answer has the form of the question.
        let answer = source.with_session("s");
        assert_eq!(answer.session(), named);
        let is_described = |source: &LinkSource| matches!(source.filter[0].1, Value::Described(_));
        assert_eq!(is_described(&answer), is_described(&source));
    }
    assert_eq!(LinkSource::default().session(), None);
    // A number is no session id, as with Azure.
    assert_eq!(source(Value::Int(1)).session(), None);
}

#[test]
fn what_a_source_asks_for_and_is_not_offered_is_said() {
    let source = |mode: Value, filter: Map| {
        let mut fields = vec![Value::Null; 8];
        fields[0] = "orders".into();
        fields[6] = mode;
        fields[7] = Value::Map(filter);
        LinkSource::from_value(Value::composite(0x28, fields)).expect("a source")
    };
    let copied = source(Value::symbol("copy"), Map::new());
    let problem = copied.not_offered.expect("browsing is not offered");
    assert!(problem.contains("copy"), "{problem}");
    let moved = source(Value::symbol("move"), Map::new());
    assert_eq!(moved.not_offered, None);
    let described =
        |name: &str, value: Value| Value::Described(Box::new((Value::symbol(name), value)));
    let selector = "apache.org:selector-filter:string";
    let unknown = "com.microsoft:non-exclusive-session-filter";
    for (key, value, expected) in [
        (
            "s",
            described(selector, "a = 1".into()),
            Some("selectors (s)"),
        ),
        ("f", described(unknown, Value::Null), Some(unknown)),
        (unknown, Value::Null, Some(unknown)),
        (
            "l",
            described("apache.org:no-local-filter:list", Value::Null),
            None,
        ),
    ] {
        let found = source(Value::Null, vec![(Value::symbol(key), value)]);
        assert_eq!(found.filter, Map::new(), "{key}");
        let Some(expected) = expected else {
            assert_eq!(found.not_offered, None, "{key}");
            continue;
        };
        let problem = found.not_offered.expect(expected);
        assert!(problem.contains(expected), "{problem}");
    }
}

fn in_transaction(outcome: Option<DeliveryState>) -> DeliveryState {
    DeliveryState::Transactional(Transactional {
        transaction: hex("07"),
        outcome: outcome.map(Box::new),
    })
}
