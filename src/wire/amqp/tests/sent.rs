//! What a message has to be that somebody sends, and the form in which all clients read it.

use super::super::batch::{self, BATCH_FORMAT};
use super::super::condition::{DECODE_ERROR, MESSAGE_SIZE_EXCEEDED, NOT_ALLOWED};
use super::super::message::{Handout, Message, MessageLife, MessageProperties, annotation};
use super::super::outcome::{ReceiverOutcome, encoded_changes};
use super::super::value::{ElementType, get};
use super::*;
use crate::base::Timestamp;
use crate::wire::amqp::condition::DEAD_LETTER;
use std::time::Duration;

/// A section with this content, and a body behind it.
fn with_section(code: u64, content: Value) -> Bytes {
    let mut bytes = Value::described(code, content).to_bytes();
    bytes.extend(hex("00 53 75 a0 01 61"));
    bytes.into()
}

/// The field at this place of the properties, and no others.
fn with_field(place: usize, value: Value) -> Bytes {
    let mut fields = vec![Value::Null; place];
    fields.push(value);
    with_section(0x73, Value::List(fields))
}

fn map(key: Value, value: Value) -> Value {
    Value::Map(vec![(key, value)])
}

/// A value of one of .NET's types.
fn of_dotnet(kind: &str, value: Value) -> Value {
    Value::Described(Box::new((Value::symbol(kind), value)))
}

fn own(value: Value) -> Bytes {
    with_section(0x74, map("p".into(), value))
}

/// A body of so many lists, each in the one before.
fn lists(depth: usize) -> Bytes {
    let around = |inner: Vec<u8>, _| {
        let size = u32::try_from(inner.len() + 4).expect("small");
        [&[0xd0], &size.to_be_bytes()[..], &[0, 0, 0, 1], &inner].concat()
    };
    let nested = (1..depth).fold(vec![0x45], around);
    [&[0x00, 0x53, 0x77], &nested[..]].concat().into()
}

/// A body of a list with so many nulls.
fn of_nulls(count: u32) -> Bytes {
    let nulls = vec![0x40; count as usize];
    let head = [(count + 4).to_be_bytes(), count.to_be_bytes()].concat();
    [&hex("00 53 77 d0")[..], &head, &nulls].concat().into()
}

#[test]
fn messages_that_no_client_can_read_are_rejected_with_the_name_of_the_field() {
    let long = "ü".repeat(129);
    let text = Value::from(long.as_str());
    let scheduled = Value::symbol(annotation::SCHEDULED_ENQUEUE_TIME);
    let key = Value::symbol(annotation::PARTITION_KEY);
    let empty_list = || Value::List(Vec::new());
    for (bytes, problem) in [
        (
            with_field(0, empty_list()),
            "message-id of properties must be a string, a UUID, a ulong or a binary",
        ),
        (
            with_field(0, Value::Map(Map::new())),
            "message-id of properties must be",
        ),
        (
            with_field(0, Value::Int(-1)),
            "message-id of properties must be",
        ),
        (
            with_field(0, text.clone()),
            "message-id of properties has more than 128 characters",
        ),
        (
            with_field(2, Value::Int(1)),
            "to of properties must be a string",
        ),
        (
            with_field(13, Value::Int(1)),
            "Int(1) is not expected here; expected at most 13 properties",
        ),
        (
            with_field(3, empty_list()),
            "subject of properties must be a string",
        ),
        (
            with_field(5, empty_list()),
            "correlation-id of properties must be",
        ),
        (
            with_field(6, Value::Int(1)),
            "content-type of properties must be a symbol",
        ),
        (
            with_field(8, Value::Long(1)),
            "absolute-expiry-time of properties must be a timestamp",
        ),
        (
            with_field(10, text.clone()),
            "group-id of properties has more than 128 characters",
        ),
        (
            with_field(12, text.clone()),
            "reply-to-group-id of properties has more than 128 characters",
        ),
        (
            own(empty_list()),
            "the property \"p\" must be a simple value, and no map, list or array",
        ),
        (
            own(Value::Map(Map::new())),
            "the property \"p\" must be a simple value",
        ),
        (
            own(Value::array(ElementType::LONG, Vec::new())),
            "the property \"p\" must be a simple value",
        ),
        (
            own(Value::described(1, empty_list())),
            "the property \"p\" must be a simple value",
        ),
        (
            with_section(0x74, map(Value::Int(1), "x".into())),
            "each key of application-properties must be a string",
        ),
        (
            with_section(
                0x74,
                Value::Map(vec![
                    ("p".into(), Value::Null),
                    (Value::symbol("p"), Value::Null),
                ]),
            ),
            "the property \"p\" is there twice",
        ),
        (
            with_section(0x72, map(Value::Int(1), Value::Null)),
            "each key of message-annotations must be a symbol",
        ),
        (
            with_section(0x78, map(Value::Int(1), Value::Null)),
            "each key of footer must be a symbol",
        ),
        (
            with_section(0x72, map(scheduled, "soon".into())),
            "x-opt-scheduled-enqueue-time of message-annotations must be a timestamp",
        ),
        (
            with_section(0x72, map(key, text)),
            "x-opt-partition-key of message-annotations has more than 128 characters",
        ),
        (
            with_section(0x70, Value::List(vec![Value::Int(1)])),
            "durable of header must be true or false",
        ),
        (
            hex("00 53 75 a1 01 61"),
            "the content of data must be a binary",
        ),
        (
            hex("00 53 76 a1 01 61"),
            "the content of amqp-sequence must be a list",
        ),
        (hex("00 53 77 a1 01 ff"), "a text is not UTF-8"),
        (hex("00 53 77 5f 00"), "0x5f is not the code of a type"),
        (
            hex("00 53 76 c0 03 01 4f 00"),
            "0x4f is not the code of a type",
        ),
        (
            hex("00 53 77 f0 00000005 0000000e 40"),
            "there are more than 13 values",
        ),
        (
            hex("00 53 77 f0 00000005 00010001 40"),
            "there are more than 65536 values",
        ),
        (of_nulls(65_537), "there are more than 65536 values"),
        (
            own(Value::Char(0xd800)),
            "the property \"p\" has a character that Unicode does not have",
        ),
        (
            own(Value::Decimal(hex("30060000000000000000000000000001"))),
            "the property \"p\" has a decimal of more than 96 bits or 28 places",
        ),
        (
            own(Value::Decimal(hex("78000000000000000000000000000000"))),
            "the property \"p\" has a decimal of",
        ),
        (
            own(Value::Described(Box::new((empty_list(), Value::Null)))),
            "the property \"p\" has a descriptor that is neither a symbol nor a ulong above 255",
        ),
        (
            with_section(0x72, map(Value::symbol("k"), Value::Char(0x11_0000))),
            "the property \"k\" has a character that Unicode does not have",
        ),
        (
            with_section(
                0x78,
                map(Value::symbol("k"), Value::List(vec![Value::Char(0xdfff)])),
            ),
            "the property \"k\" has a character that Unicode does not have",
        ),
        (
            hex("00 53 77 73 0000d800"),
            "the body has a character that Unicode does not have",
        ),
        (
            hex("00 53 76 c0 12 01 94 30400001000000000000000000000000"),
            "the body has a decimal of more than 96 bits or 28 places",
        ),
        (
            hex("00 53 77 00 45 40"),
            "the body has a descriptor that is neither a symbol nor a ulong above 255",
        ),
        (
            hex("00 53 77 00 00 53 99 40 40"),
            "the body has a descriptor that is neither a symbol nor a ulong above 255",
        ),
        (
            hex("00 53 77 e0 06 01 00 45 a1 01 61"),
            "the body has a descriptor that is neither a symbol nor a ulong above 255",
        ),
        (
            hex("00 53 77 e0 0a 01 00 53 99 00 53 98 a1 01 61"),
            "the body has an array with several descriptors",
        ),
        (
            hex("00 53 77 e0 05 02 00 53 99 40"),
            "the body has a descriptor that is neither",
        ),
        (
            hex("00 53 77 00 40 40"),
            "the body has a descriptor that is neither",
        ),
        (
            hex("00 53 77 00 80 00000000000000ff 40"),
            "the body has a descriptor that is neither",
        ),
        (
            own(of_dotnet("com.microsoft:timespan", "PT1S".into())),
            "the property \"p\" has a duration, a time or a URI that is none",
        ),
        (
            own(of_dotnet("com.microsoft:datetime-offset", Value::Long(-1))),
            "the property \"p\" has a duration, a time or a URI that is none",
        ),
        (
            own(of_dotnet("com.microsoft:uri", Value::Null)),
            "the property \"p\" has a duration, a time or a URI that is none",
        ),
        (
            own(of_dotnet("com.microsoft:uri", "http://[ bad".into())),
            "the property \"p\" has a duration, a time or a URI that is none",
        ),
        (
            with_section(0x74, map("__proto__".into(), Value::Timestamp(1))),
            "each key of a map must be a simple value, not __proto__",
        ),
        (
            with_section(0x72, map(Value::symbol("__proto__"), Value::Null)),
            "each key of a map must be a simple value, not __proto__",
        ),
        (
            with_section(0x72, map(Value::Ulong(1), Value::Null)),
            "each key of message-annotations must be a symbol",
        ),
        (
            hex("00 53 77 e0 02 09 46"),
            "0x46 is not the code of a type",
        ),
        (
            hex("00 53 77 c1 03 02 45 40"),
            "each key of a map must be a simple value",
        ),
        (
            hex("00 53 77 c1 05 02 a0 01 ff 40"),
            "each key of a map must be a simple value, not __proto__, and UTF-8 if it is a binary",
        ),
        (
            hex("00 53 77 c1 0d 02 a0 09 5f5f70726f746f5f5f 40"),
            "each key of a map must be a simple value, not __proto__",
        ),
        (
            hex("00 53 77 c1 0d 02 a1 09 5f5f70726f746f5f5f 40"),
            "each key of a map must be a simple value, not __proto__",
        ),
        (
            with_section(
                0x72,
                map(
                    Value::symbol("k"),
                    map(map("a".into(), "b".into()), "c".into()),
                ),
            ),
            "each key of a map must be a simple value",
        ),
        (
            with_section(
                0x72,
                map(
                    Value::symbol(annotation::SCHEDULED_ENQUEUE_TIME),
                    Value::Timestamp(i64::MIN),
                ),
            ),
            "x-opt-scheduled-enqueue-time of message-annotations must be a timestamp of the years 1 to 9999",
        ),
        (
            with_section(
                0x72,
                map(Value::symbol(annotation::DELIVERY_TIME), "soon".into()),
            ),
            "x-opt-delivery-time of message-annotations must be a timestamp",
        ),
        (lists(65), "values are nested more than 64 deep"),
        (lists(66), "values are nested more than 64 deep"),
        (lists(3_000), "values are nested more than 64 deep"),
    ] {
        let found = Message::sent(&bytes).expect_err(problem).to_string();
        assert!(found.starts_with(problem), "{found} is not: {problem}");
    }
    let deep = Message::sent(&lists(64)).expect("as deep as may be");
    assert!(!deep.plain_body().is_empty());
    Message::sent(&of_nulls(65_536)).expect("as long as may be");
}

#[test]
fn a_delivery_time_of_jms_schedules_a_message() {
    let name = || Value::symbol(annotation::DELIVERY_TIME);
    let scheduled = (
        Value::symbol(annotation::SCHEDULED_ENQUEUE_TIME),
        Value::Timestamp(7),
    );
    for (annotations, expected) in [
        (vec![(name(), Value::Long(1_000))], 1_000),
        (vec![(name(), Value::Timestamp(1_000))], 1_000),
        (vec![(name(), Value::Long(1_000)), scheduled], 7),
    ] {
        let sent = Message::sent(&with_section(0x72, Value::Map(annotations)));
        let sent = sent.expect("a message");
        assert_eq!(sent.scheduled_enqueue_ms(), Ok(Some(expected)));
    }
}

#[test]
fn a_message_of_a_batch_is_held_to_the_same() {
    let wrong = with_field(0, Value::List(Vec::new()));
    let batch = Value::described(0x75, Value::Binary(wrong.clone())).to_bytes();
    for (format, bytes) in [(BATCH_FORMAT, batch.into()), (0, wrong)] {
        let error = batch::messages(format, &bytes).expect_err("no message");
        assert!(error.to_string().starts_with("message-id"), "{error}");
    }
}

#[test]
fn texts_symbols_and_binaries_are_exchanged_and_numbers_widened() {
    let text = |text: &str| Value::from(text);
    let binary = |text: &str| Value::Binary(Bytes::copy_from_slice(text.as_bytes()));
    let no_text = || Value::Binary(vec![0xff; 200].into());
    for (place, given, expected) in [
        (0, Value::symbol("m"), text("m")),
        (0, binary("größe"), text("größe")),
        (0, no_text(), no_text()),
        (0, binary("\0\0\0\u{1}"), binary("\0\0\0\u{1}")),
        (5, binary(""), binary("")),
        (0, Value::Uint(7), Value::Ulong(7)),
        (1, binary("user"), binary("user")),
        (3, Value::symbol("s"), text("s")),
        (3, binary("s"), text("s")),
        (5, binary("c"), text("c")),
        (6, binary("text/plain"), Value::symbol("text/plain")),
        (10, binary("group"), text("group")),
        (6, text("text/plain"), Value::symbol("text/plain")),
        (7, text("gzip"), Value::symbol("gzip")),
        (11, Value::Int(7), Value::Uint(7)),
    ] {
        let message = Message::sent(&with_field(place, given)).expect("a message");
        let expected = with_field(place, expected);
        assert_eq!(Bytes::from(message.to_bytes()), expected, "{place}");
    }
    for code in [0x71, 0x72, 0x78] {
        let message =
            Message::sent(&with_section(code, map(text("k"), text("v")))).expect("a message");
        let expected = Message::sent(&with_section(code, map(Value::symbol("k"), text("v"))));
        assert_eq!(Ok(message), expected, "{code:x}");
    }
    for name in [annotation::PARTITION_KEY, annotation::VIA_PARTITION_KEY] {
        let annotated = |value| with_section(0x72, map(Value::symbol(name), value));
        for given in [binary("key"), Value::symbol("key")] {
            let message = Message::sent(&annotated(given)).expect("a message");
            let expected = annotated(text("key"));
            assert_eq!(Bytes::from(message.to_bytes()), expected, "{name}");
        }
        let error = Message::sent(&annotated(no_text())).expect_err("no text");
        assert!(error.to_string().starts_with(name), "{error}");
    }
    let message = Message::sent(&with_section(0x74, map(Value::symbol("k"), text("v"))));
    let expected = vec![(text("k"), text("v"))];
    assert_eq!(
        message.expect("a message").application_properties(),
        Ok(expected)
    );
}

#[test]
fn sections_are_kept_as_python_reads_them() {
    let nulls = |count: usize| "40".repeat(count);
    for (given, expected) in [
        (
            "00 80 0000000000000074 c1 05 02 a1 01 70 40".to_owned(),
            "00 53 74 c1 05 02 a1 01 70 40".to_owned(),
        ),
        (
            "00 80 0000000000000078 c1 05 02 a3 01 6b 40".to_owned(),
            "00 53 78 c1 05 02 a3 01 6b 40".to_owned(),
        ),
        (
            "00 80 0000000000000073 c0 03 01 a1 00".to_owned(),
            "00 53 73 c0 03 01 a1 00".to_owned(),
        ),
        (
            format!("00 53 73 c0 0f 0e {}", nulls(14)),
            format!("00 53 73 c0 0e 0d {}", nulls(13)),
        ),
    ] {
        let message = Message::sent(&hex(&given)).expect("a message");
        assert_eq!(Bytes::from(message.to_bytes()), hex(&expected), "{given}");
    }
}

#[test]
fn sections_of_a_body_are_kept_under_the_shortest_descriptor() {
    let data = "a0 01 61";
    for descriptor in [
        "80 0000000000000075",
        "a3 10 616d71703a646174613a62696e617279",
        "53 75",
    ] {
        let given = hex(&format!("00 {descriptor} {data} 00 53 75 a0 01 62"));
        let message = Message::sent(&given).expect("a message");
        let expected = hex("00 53 75 a0 01 61 00 53 75 a0 01 62");
        assert_eq!(Bytes::from(message.to_bytes()), expected, "{descriptor}");
    }
}

#[test]
fn properties_are_kept_in_the_form_that_all_clients_read() {
    for (given, kept) in [
        // True and false in a byte of their own, and decimals in the standard's form.
        ("56 01", "41"),
        ("56 00", "42"),
        (
            "94 30380000000000000000000000003039",
            "94 0c380000000000000000000000003039",
        ),
        (
            "94 0c380000000000000000000000003039",
            "94 0c380000000000000000000000003039",
        ),
        ("74 32000001", "94 0c3e0000000000000000000000000001"),
        ("84 b1a000000000007d", "94 8c3e000000000000000000000000007d"),
        // Characters as texts.
        ("73 00000061", "a1 01 61"),
        ("73 0001f600", "a1 04 f09f9880"),
        // Other long forms are read by everybody.
        ("70 00000007", "70 00000007"),
        ("b1 00000001 61", "b1 00000001 61"),
    ] {
        for code in ["72", "74"] {
            let section = |value: &str| {
                let key = if code == "74" { "a1 01 70" } else { "a3 01 70" };
                let pair = hex(&format!("{key} {value}"));
                let size = u8::try_from(pair.len() + 1).expect("small");
                Bytes::from(
                    [
                        &hex(&format!("00 53 {code} c1"))[..],
                        &[size, 2],
                        &pair,
                        &hex("00 53 75 a0 00"),
                    ]
                    .concat(),
                )
            };
            let message = Message::sent(&section(given)).expect("a message");
            assert_eq!(
                Bytes::from(message.to_bytes()),
                section(kept),
                "{code} {given}"
            );
        }
    }
}

/// A list, map or array of so many values, which have these bytes.
fn around(code: u8, count: u8, values: &[u8]) -> Vec<u8> {
    let size = u8::try_from(values.len() + 1).expect("small");
    [&[code, size, count], values].concat()
}

/// A message with this value in its body, in an annotation and in the footer.
fn with_value(value: &str) -> [Bytes; 4] {
    let bytes = hex(value);
    let list = around(0xc0, 1, &bytes);
    let inside = around(0xc1, 2, &[&hex("a3 01 6b")[..], &list].concat());
    let body = hex("00 53 75 a0 00");
    [
        [&hex("00 53 77")[..], &bytes].concat(),
        [&hex("00 53 76")[..], &list].concat(),
        [&hex("00 53 72")[..], &inside, &body].concat(),
        [&body[..], &hex("00 53 78"), &inside].concat(),
    ]
    .map(Bytes::from)
}

#[test]
fn what_some_client_could_not_read_is_written_in_another_form_wherever_it_stands() {
    for (given, kept) in [
        ("73 00000061", "a1 01 61"),
        ("74 32000001", "94 0c3e0000000000000000000000000001"),
        ("84 b1a000000000007d", "94 8c3e000000000000000000000000007d"),
        (
            "94 30380000000000000000000000003039",
            "94 0c380000000000000000000000003039",
        ),
        // An array of nothing is a list of nothing.
        ("e0 02 00 a1", "45"),
        ("f0 00000005 00000000 b1", "45"),
        ("e0 05 00 00 53 24 d0", "45"),
        // So is one in an array, which then is a list.
        (
            "e0 0a 02 e0 02 00 a1 04 01 a1 01 61",
            "c0 0b 02 45 e0 07 01 b1 00000001 61",
        ),
        ("e0 02 03 40", "c0 04 03 40 40 40"),
        (
            "e0 0a 02 73 00000061 00000062",
            "e0 0c 02 b1 00000001 61 00000001 62",
        ),
        (
            "e0 06 01 74 32000001",
            "c0 12 01 94 0c3e0000000000000000000000000001",
        ),
        (
            "e0 12 01 94 0c3e0000000000000000000000000001",
            "c0 12 01 94 0c3e0000000000000000000000000001",
        ),
        // So is one whose elements have no bytes, lists or arrays inside, or a descriptor.
        ("e0 02 02 41", "e0 04 02 56 01 01"),
        ("e0 02 01 43", "e0 06 01 70 00000000"),
        ("e0 02 02 45", "c0 03 02 45 45"),
        (
            "e0 08 02 00 a3 01 64 54 01 02",
            "c0 0d 02 00 a3 01 64 54 01 00 a3 01 64 54 02",
        ),
        // As key, value, descriptor, and behind one.
        (
            "c1 0b 02 73 00000061 73 00000062",
            "c1 07 02 a1 01 61 a1 01 62",
        ),
        ("00 a3 01 64 73 00000061", "00 a3 01 64 a1 01 61"),
        // A binary is a text where it is a key.
        ("c1 07 02 a0 01 6b a0 01 76", "c1 07 02 a1 01 6b a0 01 76"),
        (
            "c1 0a 02 b0 00000001 6b a1 01 76",
            "c1 07 02 a1 01 6b a1 01 76",
        ),
        // What everybody reads keeps its bytes.
        ("56 01", "56 01"),
        ("b1 00000001 61", "b1 00000001 61"),
        ("e0 03 01 54 07", "e0 03 01 54 07"),
        (
            "00 80 0000000000000100 a1 01 61",
            "00 80 0000000000000100 a1 01 61",
        ),
    ] {
        for (sent, expected) in with_value(given).into_iter().zip(with_value(kept)) {
            let message = Message::sent(&sent).unwrap_or_else(|error| panic!("{given}: {error}"));
            assert_eq!(Bytes::from(message.to_bytes()), expected, "{given}");
        }
    }
}

#[test]
fn what_go_reads_as_a_text_is_one() {
    for name in ["DeadLetterReason", "DeadLetterErrorDescription"] {
        for (given, kept) in [
            (Value::Int(5), "5"),
            (Value::symbol("late"), "late"),
            (
                of_dotnet("com.microsoft:timespan", Value::Long(10_000_000)),
                "PT1S",
            ),
        ] {
            let sent = Message::sent(&with_section(0x74, map(name.into(), given.clone())));
            let own = sent.expect("a message").application_properties();
            assert_eq!(own, Ok(vec![(name.into(), kept.into())]), "{given:?}");
            let set = encoded_changes(&[(name.to_owned(), given)]).expect("readable");
            assert_eq!(decoded(&set), Ok(map(name.into(), kept.into())));
        }
    }
    for name in ["Diagnostic-Id", "traceparent", "tracestate"] {
        for (given, kept) in [
            (Value::from("00-ü€"), "00-??"),
            (Value::Int(5), "5"),
            (Value::from("00-1"), "00-1"),
        ] {
            let sent = Message::sent(&with_section(0x74, map(name.into(), given)));
            let own = sent.expect("a message").application_properties();
            assert_eq!(own, Ok(vec![(name.into(), kept.into())]));
        }
    }
    let nulls = [("DeadLetterReason".to_owned(), Value::Null)];
    assert_eq!(
        decoded(&encoded_changes(&nulls).expect("nothing")),
        Ok(Value::Map(Map::new()))
    );
    let sent = Message::sent(&with_section(0x74, map("traceparent".into(), Value::Null)));
    assert_eq!(
        sent.expect("a message").application_properties(),
        Ok(Map::new())
    );
    assert!(encoded_changes(&[("__proto__".to_owned(), Value::Null)]).is_err());
    let mut parts = Message::default().parts().expect("none");
    parts.application_properties = vec![("DeadLetterReason".into(), Value::Int(5))];
    let own = Message::default()
        .with_parts(&parts)
        .application_properties();
    assert_eq!(
        own,
        Ok(vec![("DeadLetterReason".into(), "5".into())]),
        "as a rule sets it"
    );
}

#[test]
fn nulls_that_clients_read_as_what_they_are_not_are_left_out() {
    for name in [
        annotation::SCHEDULED_ENQUEUE_TIME,
        annotation::PARTITION_KEY,
        annotation::DELIVERY_TIME,
    ] {
        let annotations = vec![
            (Value::symbol(name), Value::Null),
            (Value::symbol("own"), Value::Null),
        ];
        let sent = Message::sent(&with_section(0x72, Value::Map(annotations)));
        let kept = vec![(Value::symbol("own"), Value::Null)];
        assert_eq!(sent.expect("a message").annotations(), Ok(kept), "{name}");
    }
    let sent = Message::sent(&hex("00 53 77 40")).expect("a message");
    assert_eq!(Bytes::from(sent.to_bytes()), hex("00 53 75 a0 00"));
}

#[test]
fn what_a_receiver_sets_is_in_the_same_form() {
    let decimal = |bytes| Value::Decimal(hex(bytes));
    let outcomes = |value: Value| {
        let set = vec![(Value::symbol("p"), value)];
        let modified = |undeliverable_here| {
            DeliveryState::Modified(Modified {
                delivery_failed: None,
                undeliverable_here,
                annotations: set.clone(),
            })
        };
        let error = AmqpError {
            info: set.clone(),
            ..AmqpError::new(DEAD_LETTER, "")
        };
        let states = [
            modified(None),
            modified(Some(true)),
            DeliveryState::Rejected(Some(error)),
        ];
        states.map(|state| match ReceiverOutcome::of(&state) {
            Some(ReceiverOutcome::Abandon(set) | ReceiverOutcome::Defer(set)) => {
                encoded_changes(&set)
            }
            Some(ReceiverOutcome::DeadLetter(dead)) => encoded_changes(&dead.properties),
            other @ (Some(ReceiverOutcome::Complete | ReceiverOutcome::Release) | None) => {
                panic!("{other:?}")
            }
        })
    };
    for (given, kept) in [
        (
            decimal("30380000000000000000000000003039"),
            decimal("0c380000000000000000000000003039"),
        ),
        (
            decimal("32000001"),
            decimal("0c3e0000000000000000000000000001"),
        ),
        (Value::Char(0x61), "a".into()),
        (Value::Int(7), Value::Int(7)),
    ] {
        for set in outcomes(given) {
            let set = set.expect("it can be read");
            assert_eq!(decoded(&set), Ok(map("p".into(), kept.clone())));
        }
    }
    for wrong in [
        Value::Map(Map::new()),
        Value::array(ElementType::LONG, Vec::new()),
        Value::Char(0xd800),
        decimal("78000000"),
        Value::Described(Box::new((Value::List(Vec::new()), Value::Null))),
    ] {
        for set in outcomes(wrong) {
            let error = set.expect_err("no client could read it").to_string();
            assert!(error.starts_with("the property \"p\""), "{error}");
        }
    }
    assert_eq!(encoded_changes(&[]), Ok(Vec::new()));
}

#[test]
fn a_reason_that_is_no_text_stays_a_property() {
    let error = AmqpError {
        info: vec![
            ("DeadLetterReason".into(), Value::Int(7)),
            ("DeadLetterErrorDescription".into(), "late".into()),
        ],
        ..AmqpError::new(DEAD_LETTER, "")
    };
    let Some(ReceiverOutcome::DeadLetter(dead)) =
        ReceiverOutcome::of(&DeliveryState::Rejected(Some(error)))
    else {
        panic!("a dead letter");
    };
    assert_eq!(
        (&dead.reason, dead.description.as_deref()),
        (&None, Some("late"))
    );
    assert_eq!(
        dead.properties[..],
        [("DeadLetterReason".to_owned(), Value::Int(7))]
    );
}

#[test]
fn headers_and_properties_have_at_most_64_kib() {
    let sized = |bytes: usize| own(Value::Binary(vec![0; bytes].into()));
    let overhead = sized(60_000).len() - 60_000 - 6; // without the body
    let largest = Message::sent(&sized(65_536 - overhead)).expect("as large as may be");
    assert_eq!(largest.head_bytes(), 65_536);
    let error = Message::sent(&sized(65_537 - overhead)).expect_err("too large");
    assert_eq!(
        error.to_string(),
        "header, annotations and properties have 65537 bytes; at most 65536 are allowed"
    );
}

#[test]
fn clients_are_told_in_conditions_that_they_know() {
    for (error, condition) in [
        (DecodeError::Truncated, DECODE_ERROR),
        (DecodeError::TooManyMessages(1), NOT_ALLOWED),
        (DecodeError::HeadTooLarge(1), MESSAGE_SIZE_EXCEEDED),
        (
            Message::sent(&own(Value::List(Vec::new()))).expect_err("a list"),
            NOT_ALLOWED,
        ),
    ] {
        assert_eq!(error.condition(), condition, "{error}");
    }
}

#[test]
fn the_life_that_a_message_really_has_is_told() {
    let at = Timestamp::from_ms(1_000);
    let (hour, day) = (Duration::from_secs(3_600), Duration::from_secs(86_400));
    for (own, longest, expected) in [
        (Some(day), Some(hour), Some(hour)),
        (Some(hour), Some(day), Some(hour)),
        (None, Some(hour), Some(hour)),
        (Some(hour), None, Some(hour)),
        (None, None, None),
    ] {
        let properties = MessageProperties {
            absolute_expiry_ms: Some(7),
            subject: Some("s".to_owned()),
            ..MessageProperties::default()
        };
        let message = Message::of(&properties, Map::new(), Value::Null);
        let message = own.map_or(message.clone(), |own| message.with_ttl(own));
        let life = Some(MessageLife { from: at, longest });
        let handed = message.hand_out(&Handout {
            life,
            ..Handout::default()
        });
        let handed = Message::parse(&handed.expect("a message").into()).expect("a message");
        assert_eq!(handed.header().expect("a header").ttl, expected);
        let told = handed.properties().expect("properties");
        assert_eq!(told.subject.as_deref(), Some("s"));
        if let Some(life) = expected {
            assert_eq!(told.creation_ms, Some(1_000));
            assert_eq!(told.absolute_expiry_ms, Some((at + life).as_ms()));
        }
    }
}

#[test]
fn a_message_without_its_body_says_how_large_that_is() {
    let message = Message::sent(&own(Value::Null)).expect("a message");
    let without = message.without_body().expect("a message");
    assert!(without.body().is_empty());
    let again = Message::parse(&without.to_bytes().into()).expect("a message");
    assert_eq!(again, without);
    let handed = Value::described(
        0x71,
        map(Value::symbol("omitted-message-body-size"), Value::Ulong(6)),
    );
    let expected = [handed.to_bytes(), own(Value::Null)[..].to_vec()].concat();
    assert_eq!(without.to_bytes(), expected[..expected.len() - 6]);
}

#[test]
fn a_property_that_is_set_twice_is_there_once() {
    let handout = Handout {
        properties: vec![
            ("p".to_owned(), Some("first".into())),
            ("p".to_owned(), Some("second".into())),
        ],
        ..Handout::default()
    };
    let handed = Message::default().hand_out(&handout).expect("a message");
    let handed = Message::parse(&handed.into()).expect("a message");
    let own = handed.application_properties().expect("properties");
    assert_eq!((own.len(), get(&own, "p")), (1, Some(&"first".into())));
}

#[test]
fn an_array_of_nothing_says_of_what() {
    let longs = Value::array(ElementType::LONG, Vec::new());
    assert_eq!(longs.to_bytes(), hex("e0 02 00 81"));
    let described = Value::Array(Box::new(Array {
        descriptors: vec![Value::Ulong(0x24)],
        element: ElementType(0xd0),
        values: Vec::new(),
    }));
    assert_eq!(described.to_bytes(), hex("e0 05 00 00 53 24 d0"));
    assert_eq!(decoded(&described.to_bytes()), Ok(described));
}

/// Returns whether the clients of all languages read a value.
fn is_readable(value: &Value) -> bool {
    let is_simple = |value: &Value| {
        let is_special = matches!(value, Value::Null | Value::Decimal(_) | Value::Described(_));
        !value.is_compound() && !is_special && is_readable(value)
    };
    if let Value::Decimal(bytes) = value {
        bytes.len() == 16 && bytes[0] & 0x7f == 0x0c
    } else if let Value::List(values) = value {
        values.iter().all(is_readable)
    } else if let Value::Map(map) = value {
        map.iter().all(|(key, value)| {
            !key.is_compound() && !matches!(key, Value::Binary(_)) && is_readable(value)
        })
    } else if let Value::Array(array) = value {
        let is_plain = array.descriptors.is_empty() && !array.values.is_empty();
        is_plain && array.values.iter().all(is_simple)
    } else if let Value::Described(described) = value {
        let kind = &described.0;
        let is_number = matches!(kind, Value::Ulong(number) if *number > 255);
        (is_number || kind.as_text().is_some()) && is_readable(&described.1)
    } else {
        !matches!(value, Value::Char(_))
    }
}

proptest! {
    #[test]
    fn what_is_taken_is_in_its_only_form(value in value(), key in scalar()) {
        for (code, content) in [
            (0x71, map(key.clone(), value.clone())),
            (0x72, map(key.clone(), value.clone())),
            (0x73, Value::List(vec![value.clone(), Value::Null, key.clone()])),
            (0x74, map(key.clone(), value.clone())),
            (0x77, value.clone()),
            (0x78, map(key, value)),
        ] {
            if let Ok(message) = Message::sent(&Value::described(code, content).to_bytes().into()) {
                let mut sections = Decoder::new(message.to_bytes().into());
                while !sections.is_empty() {
                    let Value::Described(section) = sections.value().expect("a section") else {
                        panic!("a section is described");
                    };
                    prop_assert!(is_readable(&section.1), "{section:?}");
                }
                let again = Message::sent(&message.to_bytes().into());
                prop_assert_eq!(again, Ok(message));
            }
        }
    }
}
