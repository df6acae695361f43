//! What is kept of a message, and what is written anew.

use std::sync::Arc;

use super::super::address::Address;
use super::super::batch::{self, BATCH_FORMAT};
use super::super::message::{Handout, Message, MessageProperties, annotation, encoded, merged};
use super::super::outcome::{Changes, DeadLettering, ReceiverOutcome};
use super::*;
use crate::model::lease::SubQueue;
use crate::wire::service_bus::entity::EntityAddress;
use serde_json::json;

/// Header (durable, ttl 1000), delivery annotations, annotations, properties, application properties, two data
/// sections and a footer.
const SECTIONS: [&str; 8] = [
    "00 53 70 c0 08 03 41 40 70 000003e8",
    "00 53 71 c1 06 02 a3 01 78 52 01",
    "00 53 72 c1 06 02 a3 01 61 52 02",
    "00 53 73 c0 06 02 a1 02 6d 31 40",
    "00 80 0000000000000074 c1 06 02 a1 01 6b 54 07",
    "00 53 75 a0 02 c0 de",
    "00 53 75 b0 00000001 ff",
    "00 53 78 c1 06 02 a3 01 66 52 03",
];

fn whole() -> Bytes {
    hex(&SECTIONS.concat())
}

#[test]
fn sections_are_kept_byte_for_byte() {
    let message = Message::parse(&whole()).expect("a message");
    let header = message.header().expect("a header");
    assert_eq!(header.ttl, Some(std::time::Duration::from_secs(1)));
    assert_eq!(message.body(), &hex(&SECTIONS[5..7].concat()));
    let handed = message
        .hand_out(&Handout {
            delivery_count: 0,
            lock_token: Some(uuid::Uuid::from_u128(7)),
            annotations: vec![(annotation::SEQUENCE_NUMBER, Value::Long(9))],
            properties: Vec::new(),
            set: Bytes::new(),
            life: None,
        })
        .expect("a message");
    // The delivery count is there although it is the default.
    let header = "00 53 70 c0 0a 05 41 40 70 000003e8 40 43";
    let of_delivery = "00 53 71 c1 29 04 a3 01 78 52 01 a3 10 782d6f70742d6c6f636b2d746f6b656e 98 00000000000000000000000000000007";
    let annotations =
        "00 53 72 c1 1f 04 a3 01 61 52 02 a3 15 782d6f70742d73657175656e63652d6e756d626572 55 09";
    let expected = [
        hex(header),
        hex(of_delivery),
        hex(annotations),
        hex(&SECTIONS[3..].concat()),
    ];
    assert_eq!(Bytes::from(handed), Bytes::from(expected.concat()));
}

#[test]
fn what_nobody_has_changed_is_not_written_anew() {
    // In longer forms than are written here.
    let (tenant, note) = ("b1 00000001 6b 71 00000007", "a1 04 6e6f7465 71 00000008");
    let annotations = "00 53 72 c1 09 02 a3 01 61 70 00000002";
    let body = "00 53 77 a1 01 61";
    let own = format!("00 53 74 c1 11 04 {tenant} a1 01 6e 54 01");
    let message = Message::parse(&hex(&[annotations, &own, body].concat())).expect("a message");
    let handed = message.hand_out(&Handout {
        properties: vec![("n".to_owned(), Some(Value::Int(2)))],
        set: hex(&format!("c1 11 04 a1 01 6e 54 03 {note}")),
        ..Handout::default()
    });
    let expected = [
        "00 53 70 c0 06 05 40 40 40 40 43 00 53 71 c1 01 00",
        annotations,
        &format!("00 53 74 c1 1c 06 {tenant} a1 01 6e 54 02 {note}"),
        body,
    ];
    assert_eq!(handed.map(Bytes::from), Ok(hex(&expected.concat())));
}

#[test]
fn what_another_broker_said_of_a_message_is_not_passed_on() {
    let message = Message::parse(&whole()).expect("a message");
    let received = Handout {
        lock_token: Some(uuid::Uuid::from_u128(7)),
        annotations: vec![(annotation::MESSAGE_STATE, Value::Int(2))],
        ..Handout::default()
    };
    let sent_again = message.hand_out(&received).expect("a message");
    let sent_again = Message::parse(&sent_again.into()).expect("a message");
    let handed = sent_again.hand_out(&Handout::default());
    assert_eq!(handed, message.hand_out(&Handout::default()));
}

#[test]
fn sections_come_in_any_order() {
    let mut sections: Vec<&str> = SECTIONS.to_vec();
    let of_delivery = sections.remove(1);
    sections.push(of_delivery);
    let message = Message::parse(&hex(&sections.concat())).expect("a message");
    assert_eq!(Message::parse(&whole()), Ok(message));
    let footer = sections.remove(6);
    sections.insert(3, footer);
    let message = Message::parse(&hex(&sections.concat())).expect("a message");
    assert_eq!(Message::parse(&whole()), Ok(message));
    sections.pop();
    sections.insert(6, of_delivery); // between the two sections of the body
    assert!(Message::parse(&hex(&sections.concat())).is_err());
}

#[test]
fn a_message_of_a_body_alone_gets_a_header() {
    let message = Message::parse(&hex("00 53 77 a1 01 61")).expect("a message");
    let handed = message.hand_out(&Handout::default()).expect("a message");
    let expected =
        "00 53 70 c0 06 05 40 40 40 40 43 00 53 71 c1 01 00 00 53 72 c1 01 00 00 53 77 a1 01 61";
    assert_eq!(Bytes::from(handed), hex(expected));
    assert_eq!(message.to_bytes(), hex("00 53 77 a1 01 61"));
    assert_eq!(message.body_value(), Ok(Some("a".into())));
}

#[test]
fn a_body_is_what_its_sections_hold() {
    let message = Message::parse(&whole()).expect("a message");
    let binary = |bytes| Value::Binary(hex(bytes));
    assert_eq!(
        message.body_values(),
        Ok(vec![binary("c0 de"), binary("ff")])
    );
    let message = Message::parse(&hex("00 53 77 a1 01 61")).expect("a message");
    assert_eq!(message.body_values(), Ok(vec!["a".into()]));
    assert_eq!(Message::default().body_values(), Ok(Vec::new()));
}

#[test]
fn a_message_is_given_a_life_and_a_moment() {
    let life = std::time::Duration::from_secs(600);
    let message = Message::of(&MessageProperties::default(), Vec::new(), "a".into());
    let message = message.with_ttl(life).scheduled(1_000);
    let message = Message::parse(&message.to_bytes().into()).expect("a message");
    assert_eq!(message.header().expect("a header").ttl, Some(life));
    assert_eq!(message.scheduled_enqueue_ms(), Ok(Some(1_000)));
}

/// A value of .NET in ticks.
fn dot_net(kind: &str, ticks: i64) -> Value {
    Value::Described(Box::new((Value::symbol(kind), Value::Long(ticks))))
}

#[test]
fn values_are_read_as_json() {
    let map = vec![
        ("id".into(), Value::Uuid(uuid::Uuid::nil())),
        (Value::Int(7), Value::Timestamp(0)),
    ];
    let values = [
        (Value::Null, json!(null)),
        (Value::Ubyte(7), json!(7)),
        (Value::Double(0.5), json!(0.5)),
        (Value::Float(0.1), json!(0.1)),
        (
            Value::Decimal(hex("0c3c 0000 00000000 00000000 000004e2")),
            json!("12.50"),
        ),
        (
            dot_net("com.microsoft:timespan", 36_000_000_000),
            json!("PT1H"),
        ),
        (
            dot_net("com.microsoft:datetime-offset", 621_355_968_000_000_001),
            json!("1970-01-01T00:00:00.0000001Z"),
        ),
        (Value::Char(0x61), json!("a")),
        (Value::Binary(hex("00 ff")), json!("AP8=")),
        (Value::described(1, Value::symbol("s")), json!("s")),
        (
            Value::array(ElementType::LONG, vec![Value::Long(7)]),
            json!([7]),
        ),
        (
            Value::Map(map),
            json!({ "id": "00000000-0000-0000-0000-000000000000", "7": "1970-01-01T00:00:00.000Z" }),
        ),
    ];
    for (value, expected) in values {
        assert_eq!(serde_json::Value::from(&value), expected, "{value:?}");
    }
}

#[test]
fn a_batch_that_is_too_large_is_told_how_large_it_may_be() {
    let batch = hex("00 53 75 a0 06 00 53 77 a1 01 61");
    let messages = |count| batch::messages(BATCH_FORMAT, &Bytes::from(batch.repeat(count)));
    assert_eq!(messages(4_500).expect("messages").len(), 4_500);
    let error = messages(4_501).expect_err("too many").to_string();
    assert_eq!(error, "a batch has at most 4500 messages");
}

#[test]
fn the_messages_of_a_batch_are_counted_before_they_are_read() {
    let batch = |count| Bytes::from(hex("00 53 75 a0 02 ff ff").repeat(count));
    for (format, payload, expected) in [
        (BATCH_FORMAT, batch(3), 3),
        (BATCH_FORMAT, batch(5_000), 4_500),
        (BATCH_FORMAT, hex("ff"), 1),
        (BATCH_FORMAT, Bytes::new(), 1),
        (0, batch(3), 1),
    ] {
        assert_eq!(batch::count(format, &payload), expected, "{payload:?}");
    }
}

#[test]
fn properties_are_changed_by_name() {
    let message = Message::parse(&whole()).expect("a message");
    let handout = Handout {
        properties: vec![
            ("k".to_owned(), Some(Value::Int(8))),
            ("new".to_owned(), Some("x".into())),
            ("missing".to_owned(), None),
        ],
        ..Handout::default()
    };
    let handed = message.hand_out(&handout).expect("a message");
    let handed = Message::parse(&handed.into()).expect("a message");
    let expected: Map = vec![("k".into(), Value::Int(8)), ("new".into(), "x".into())];
    assert_eq!(handed.application_properties(), Ok(expected));
    let removing = Handout {
        properties: vec![("k".to_owned(), None)],
        ..Handout::default()
    };
    let handed = message.hand_out(&removing).expect("a message");
    let handed = Message::parse(&handed.into()).expect("a message");
    assert_eq!(handed.application_properties(), Ok(Map::new()));
}

#[test]
fn only_messages_without_an_id_get_one() {
    let message = Message::parse(&whole()).expect("a message");
    let same = message.clone().with_id(|| unreachable!("it has one"));
    assert_eq!(same.expect("a message").0, message);
    let without = Message::parse(&hex("00 53 77 a1 01 61")).expect("a message");
    let (with, told) = without.with_id(|| "new".to_owned()).expect("a message");
    assert_eq!(Ok(told), with.properties());
    let id = with.properties().expect("properties").message_id;
    assert_eq!(id, Some("new".into()));
    assert_eq!(with.body(), &hex("00 53 77 a1 01 61"));
}

#[test]
fn maps_are_merged_by_name() {
    let map = |entries: &[(&str, i32)]| {
        let entries = entries.iter();
        encoded(
            entries
                .map(|(name, value)| ((*name).into(), Value::Int(*value)))
                .collect(),
        )
    };
    let all = merged(&map(&[("a", 1), ("b", 2)]), &map(&[("a", 3)])).expect("maps");
    assert_eq!(all, map(&[("b", 2), ("a", 3)]));
    assert!(merged(b"\x40", &all).is_err(), "null is no map");
}

#[test]
fn what_is_no_message_is_rejected() {
    for bytes in [
        "41",
        "00 53 70",
        "00 53 79 45",
        // A section twice, and two bodies.
        "00 53 77 a1 01 61 00 53 77 a1 01 61",
        "00 53 77 a1 01 61 00 53 75 a0 01 61",
        // Sections that are looked into have to hold what they should.
        "00 53 70 a1 01 61",
        "00 53 72 45",
        "00 53 74 c1 02 01 40",
        "00 53 73 c0 04 01 c0 02 05",
    ] {
        assert!(Message::parse(&hex(bytes)).is_err(), "{bytes}");
    }
    // No section at all is a message without a body.
    assert_eq!(Message::parse(&Bytes::new()), Ok(Message::default()));
}

#[test]
fn batches_are_whole_messages_in_data_sections() {
    let one = Message::parse(&hex("00 53 77 a1 01 61")).expect("a message");
    let batch = hex("00 53 75 a0 06 00 53 77 a1 01 61 00 53 75 a0 06 00 53 77 a1 01 61");
    assert_eq!(
        batch::messages(BATCH_FORMAT, &batch),
        Ok(vec![one.clone(), one.clone()])
    );
    let single = hex("00 53 77 a1 01 61");
    assert_eq!(batch::messages(0, &single), Ok(vec![one]));
    for wrong in [
        "00 53 77 a1 01 61",
        "00 53 75 a0 01 41",
        "00 53 70 45",
        "00 53 75 a0 06 00 53 77 a1 01 61 00 53 75 a0 02 00 53",
    ] {
        assert!(
            batch::messages(BATCH_FORMAT, &hex(wrong)).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn dispositions_are_settlements() {
    let changes = vec![(Value::symbol("a"), Value::Int(1))];
    let wanted: Changes = Arc::new([("a".to_owned(), Value::Int(1))]);
    let modified = |undeliverable_here, annotations: &Map| {
        DeliveryState::Modified(Modified {
            delivery_failed: None,
            undeliverable_here,
            annotations: annotations.clone(),
        })
    };
    let info: Map = vec![
        ("DeadLetterReason".into(), "broken".into()),
        (Value::symbol("DeadLetterErrorDescription"), "why".into()),
        ("a".into(), Value::Int(1)),
    ];
    let rejected = |condition, info: &Map| {
        let error = AmqpError::new(condition, "text");
        let info = info.clone();
        DeliveryState::Rejected(Some(AmqpError { info, ..error }))
    };
    let dead = |reason: &str, description: &str, properties| {
        ReceiverOutcome::DeadLetter(Arc::new(DeadLettering {
            reason: Some(reason.to_owned()),
            description: Some(description.to_owned()),
            properties,
        }))
    };
    let empty = Map::new();
    for (state, expected) in [
        (DeliveryState::Received, None),
        (DeliveryState::Accepted, Some(ReceiverOutcome::Complete)),
        (DeliveryState::Released, Some(ReceiverOutcome::Release)),
        (
            modified(None, &changes),
            Some(ReceiverOutcome::Abandon(wanted.clone())),
        ),
        (
            modified(Some(false), &empty),
            Some(ReceiverOutcome::Abandon(Changes::default())),
        ),
        (
            modified(Some(true), &changes),
            Some(ReceiverOutcome::Defer(wanted.clone())),
        ),
        (
            rejected("com.microsoft:dead-letter", &info),
            Some(dead("broken", "why", wanted.clone())),
        ),
        (
            rejected("own:condition", &empty),
            Some(dead("own:condition", "text", Changes::default())),
        ),
        (
            DeliveryState::Rejected(None),
            Some(ReceiverOutcome::DeadLetter(Arc::default())),
        ),
    ] {
        let outcome = ReceiverOutcome::of(&state);
        assert_eq!(outcome, expected, "{state:?}");
        // Confirmed by the same outcome, and never with an error.
        if let Some(outcome) = outcome {
            let confirmed = outcome.confirmation();
            let same_kind = std::mem::discriminant(&confirmed) == std::mem::discriminant(&state);
            assert!(same_kind, "{state:?} {confirmed:?}");
            assert!(!matches!(confirmed, DeliveryState::Rejected(Some(_))));
        }
    }
}

#[test]
fn addresses_are_read_in_all_their_forms() {
    let entity = |path: &str, sub_queue| EntityAddress {
        sub_queue,
        ..EntityAddress::of_parts(path.split('/')).expect("an address")
    };
    let active = |path| entity(path, SubQueue::Active);
    let dead = |path| entity(path, SubQueue::DeadLetter);
    for (text, expected) in [
        ("$cbs", Some(Address::Tokens)),
        ("amqps://host/$CBS", Some(Address::Tokens)),
        ("orders", Some(Address::Messages(active("orders")))),
        (
            "amqps://host:5671/a/b/",
            Some(Address::Messages(active("a/b"))),
        ),
        (
            "/Orders/$management",
            Some(Address::Management(active("Orders"))),
        ),
        ("q/$deadletterqueue", Some(Address::Messages(dead("q")))),
        (
            "t/Subscriptions/s/$DeadLetterQueue/$management",
            Some(Address::Management(dead("t/Subscriptions/s"))),
        ),
        (
            "q/$Transfer/$DeadLetterQueue",
            Some(Address::Messages(EntityAddress {
                is_transfer: true,
                ..dead("q")
            })),
        ),
        ("", None),
        ("amqps://host", None),
        ("$management", None),
    ] {
        let address = Address::parse(text);
        assert_eq!(address, expected, "{text}");
        if let Some(address) = address {
            assert_eq!(Address::parse(&address.to_string()), Some(address));
        }
    }
}

proptest! {
    #[test]
    fn mutated_messages_are_no_danger(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        format in prop::sample::select(vec![0, BATCH_FORMAT]),
    ) {
        let mut bytes = whole().to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        for message in batch::messages(format, &bytes.into()).unwrap_or_default() {
            let handed = message.hand_out(&Handout::default()).expect("it was read before");
            let again = Message::parse(&handed.into()).expect("what is handed out can be read");
            prop_assert_eq!(again.body(), message.body());
        }
    }
}
