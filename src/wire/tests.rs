use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use proptest::prelude::*;

use super::*;
use crate::model::event::{Attribute, EventData, EventKey};
use crate::model::limits::{JSON_DEPTH_MAX, PUBLISH_EVENTS_MAX};
use crate::model::topic::{InputMapping, MappedField};

fn read(schema: &InputSchema, headers: &HeaderMap, body: &[u8]) -> Result<Vec<Event>, BadInput> {
    decode(
        schema,
        "/t",
        headers,
        body,
        Timestamp::default(),
        &Entropy::seeded(1),
    )
}

fn with(name: HeaderName, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(name, http::HeaderValue::from_static(value))])
}

fn event_grid(data: &str) -> String {
    format!(
        r#"[{{"id":"1","subject":"/s","eventType":"T","eventTime":"2026-11-21T06:40:53Z","data":{data}}}]"#
    )
}

fn custom_schema() -> InputSchema {
    let fixed = |value: &str| MappedField {
        source_field: None,
        default_value: Some(value.to_owned()),
    };
    InputSchema::CustomEventSchema(Box::new(InputMapping {
        event_type: fixed("T"),
        subject: fixed("/s"),
        ..InputMapping::default()
    }))
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let event = br#"[{"id":"1","subject":"s","eventType":"t","eventTime":"2026-11-21T06:40:53Z","dataVersion":"1"}]"#;
    let body = [&b"\xef\xbb\xbf"[..], event].concat();
    let (schema, now) = (InputSchema::EventGridSchema, Timestamp::from_ms(0));
    let events = decode(
        &schema,
        "/t",
        &HeaderMap::new(),
        &body,
        now,
        &Entropy::seeded(1),
    );
    assert_eq!(events.expect("an event").len(), 1);
}

#[test]
fn bodies_are_rejected_by_their_form() {
    let none = HeaderMap::new();
    for (headers, body, kind, told) in [
        (
            with(CONTENT_ENCODING, "gzip"),
            &b"[]"[..],
            BadInputKind::UnsupportedEncoding,
            "field \"Content-Encoding\": compressed bodies are not taken; send the body as it is",
        ),
        (
            with(CONTENT_TYPE, "application/json; charset=utf-16"),
            b"[]",
            BadInputKind::UnsupportedEncoding,
            "field \"Content-Type\": the character set \"utf-16\" is not supported; send UTF-8",
        ),
        (
            none.clone(),
            b"[\"\xe4\"]",
            BadInputKind::Malformed,
            "the body is not UTF-8 from byte 2 on",
        ),
        (
            none.clone(),
            b"{}",
            BadInputKind::Malformed,
            "Unexpected token when reading JSON. Expected: StartArray, actual: StartObject",
        ),
        (
            none.clone(),
            b" ",
            BadInputKind::Malformed,
            "Unexpected token when reading JSON. Expected: StartArray, actual: nothing",
        ),
        (
            none.clone(),
            b"[{},]",
            BadInputKind::Malformed,
            "it is not valid JSON: line 1, column 5: a comma has nothing behind it; take it out, or add what is \
             missing",
        ),
        (
            none.clone(),
            b"hello",
            BadInputKind::Malformed,
            "it is not valid JSON: line 1, column 1: a value is expected: a text in double quotation marks, a \
             number, true, false, null, a list in brackets or an object in braces",
        ),
        (
            none,
            b"[\"x\"]",
            BadInputKind::Malformed,
            "event [0]: Unexpected token when reading JSON. Expected: StartObject, actual: String",
        ),
    ] {
        for schema in [InputSchema::EventGridSchema, custom_schema()] {
            let bad = read(&schema, &headers, body).expect_err(told);
            assert_eq!((bad.kind, bad.to_string().as_str()), (kind, told));
        }
    }
}

#[test]
fn any_other_content_type_passes_where_there_is_one_form() {
    for content_type in [
        "application/json",
        "application/json; charset=\"UTF-8\"",
        "application/x-www-form-urlencoded",
        "text/plain; charset=us-ascii",
    ] {
        let headers = with(CONTENT_TYPE, content_type);
        for schema in [InputSchema::EventGridSchema, custom_schema()] {
            assert_eq!(read(&schema, &headers, b" [ ] "), Ok(Vec::new()));
        }
    }
    let identity = with(CONTENT_ENCODING, "identity");
    assert_eq!(
        read(&InputSchema::EventGridSchema, &identity, b"[]"),
        Ok(Vec::new())
    );
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| event_grid(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    let schema = InputSchema::EventGridSchema;
    let none = HeaderMap::new();
    // The array and the event are two levels themselves.
    assert!(read(&schema, &none, nested(JSON_DEPTH_MAX - 2).as_bytes()).is_ok());
    let bad = read(&schema, &none, nested(JSON_DEPTH_MAX - 1).as_bytes()).expect_err("too deep");
    assert_eq!(
        bad.to_string(),
        "the JSON is nested more than 64 levels deep"
    );
    assert!(read(&schema, &none, nested(500_000).as_bytes()).is_err());
}

#[test]
fn events_of_one_request_are_limited() {
    let body = |events: usize| format!("[{}{{}}]", "{},".repeat(events - 1));
    let none = HeaderMap::new();
    let events = read(&custom_schema(), &none, body(PUBLISH_EVENTS_MAX).as_bytes());
    assert_eq!(events.map(|events| events.len()), Ok(PUBLISH_EVENTS_MAX));
    let bad = read(
        &custom_schema(),
        &none,
        body(PUBLISH_EVENTS_MAX + 1).as_bytes(),
    );
    let bad = bad.expect_err("one too many");
    assert_eq!(bad.kind, BadInputKind::TooLarge);
    assert_eq!(
        bad.to_string(),
        "the request holds too many events; at most 5000 are taken at once"
    );
    // What stands behind them is not read.
    let unfinished = format!("[{}no JSON", "{},".repeat(PUBLISH_EVENTS_MAX + 1));
    let told = read(&custom_schema(), &none, unfinished.as_bytes());
    assert_eq!(told, Err(bad));
}

#[test]
fn sizes_of_written_events_are_known_beforehand() {
    let grid = Event {
        id: "1234".to_owned(),
        source: None,
        event_type: "Order.Paid".to_owned(),
        subject: Some("/orders/1".to_owned()),
        time: Some("2026-11-21T06:40:53Z".to_owned()),
        data_version: Some("2.1".to_owned()),
        attributes: Vec::new(),
        data: EventData::Json(r#"{"a": [1, 2, "three"]}"#.to_owned()),
    };
    let mut cloud = grid.clone();
    cloud.data_version = None;
    cloud.source = Some("/shop".to_owned());
    cloud.attributes = vec![Attribute {
        name: "tenant".to_owned(),
        value: r#""north""#.to_owned(),
    }];
    for (schema, event) in [
        (DeliverySchema::EventGridSchema, &grid),
        (DeliverySchema::CloudEventSchemaV1_0, &grid),
        (DeliverySchema::CloudEventSchemaV1_0, &cloud),
        (DeliverySchema::CustomInputSchema, &grid),
    ] {
        let stored = stored(event.clone());
        let body = encode(schema, "/the/topic", &[&stored], true).body;
        let size = encoded_size(schema, "/the/topic", &stored);
        // The brackets of the array are not the event's.
        assert_eq!(size + 2, body.len(), "{schema:?}");
    }
}

#[test]
fn examples_are_taken_by_their_own_schema() {
    let from = |path: &str| MappedField {
        source_field: Some(path.to_owned()),
        default_value: None,
    };
    let mapping = InputMapping {
        id: Some("meta.id".to_owned()),
        event_time: Some("meta.at".to_owned()),
        event_type: from("kind"),
        subject: from("meta.what"),
        data_version: from("version"),
        ..InputMapping::default()
    };
    let now = Timestamp::from_ms(1_800_000_000_000);
    for schema in [
        InputSchema::EventGridSchema,
        InputSchema::CloudEventSchemaV1_0,
        InputSchema::CustomEventSchema(Box::new(mapping)),
    ] {
        let example = example(&schema, &Entropy::seeded(1), now);
        let headers = with(CONTENT_TYPE, content_type(&schema, example.is_array()));
        let text = example.to_string();
        let events = read(&schema, &headers, text.as_bytes());
        let events = events.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(events.len(), 1, "{text}");
        assert_eq!(events[0].event_type, "Example.Created", "{text}");
    }
}

fn stored(event: Event) -> StoredEvent {
    StoredEvent {
        key: EventKey(1),
        received_at: Timestamp::default(),
        event,
    }
}

/// JSON text as people and programs write it: any whitespace, any escapes, any spelling of numbers.
fn json_text() -> impl Strategy<Value = String> {
    let string = prop::collection::vec(
        prop_oneof![
            "[^\"\\\\\\p{Cc}]".boxed(),
            prop::sample::select(vec![
                "\\n",
                "\\\"",
                "\\\\",
                "\\/",
                "\\u00e4",
                "\\ud83d\\ude00"
            ])
            .prop_map(str::to_owned)
            .boxed(),
        ],
        0..8,
    )
    .prop_map(|parts| format!("\"{}\"", parts.concat()));
    let number = "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?";
    let word = prop::sample::select(vec!["null", "true", "false"]).prop_map(str::to_owned);
    let leaf = prop_oneof![string.clone(), number, word];
    let space = "[ \\t\\r\\n]{0,2}";
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let element =
            (space, inner.clone(), space).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
        let member = (string.clone(), space, element.clone())
            .prop_map(|(name, space, value)| format!("{name}{space}:{value}"));
        prop_oneof![
            prop::collection::vec(element, 0..5).prop_map(|all| format!("[{}]", all.join(","))),
            prop::collection::vec(member, 0..5).prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
}

proptest! {
    #[test]
    fn the_bytes_of_data_leave_as_they_came(data in json_text()) {
        let none = HeaderMap::new();
        let body = event_grid(&data);
        let event = read(&InputSchema::EventGridSchema, &none, body.as_bytes())
            .expect("a valid event")
            .remove(0);
        prop_assert_eq!(&event.data, &EventData::Json(data.clone()));

        let event = stored(event);
        let needle = format!("\"data\":{data}");
        for schema in [DeliverySchema::EventGridSchema, DeliverySchema::CloudEventSchemaV1_0] {
            let payload = encode(schema, "/t", &[&event], false);
            let text = String::from_utf8(payload.body).expect("UTF-8");
            prop_assert!(text.contains(&needle), "{}", text);
            prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok());
        }
    }

    #[test]
    fn a_cloud_event_is_read_back_as_it_was(data in json_text()) {
        let structured = with(CONTENT_TYPE, "application/cloudevents+json");
        let batch = with(CONTENT_TYPE, "application/cloudevents-batch+json");
        let schema = InputSchema::CloudEventSchemaV1_0;
        let body =
            format!(r#"{{"specversion":"1.0","id":"1","source":"/s","type":"T","data":{data}}}"#);
        let events = read(&schema, &structured, body.as_bytes()).expect("a valid event");
        let event = stored(events[0].clone());

        let one = encode(DeliverySchema::CloudEventSchemaV1_0, "/t", &[&event], false);
        prop_assert_eq!(read(&schema, &structured, &one.body), Ok(events.clone()));
        let both = encode(DeliverySchema::CloudEventSchemaV1_0, "/t", &[&event, &event], true);
        let twice = [events.clone(), events].concat();
        prop_assert_eq!(read(&schema, &batch, &both.body), Ok(twice));
    }

    #[test]
    fn a_custom_event_leaves_whole(data in json_text()) {
        let original = format!("{{ \"any\" : {data} }}");
        let body = format!(" [ {original} , {original} ] ");
        let events = read(&custom_schema(), &HeaderMap::new(), body.as_bytes());
        let events: Vec<StoredEvent> =
            events.expect("valid events").into_iter().map(stored).collect();
        let references: Vec<&StoredEvent> = events.iter().collect();
        let payload = encode(DeliverySchema::CustomInputSchema, "/t", &references, true);
        prop_assert_eq!(
            String::from_utf8(payload.body).expect("UTF-8"),
            format!("[{original},{original}]")
        );
        let needle = format!("\"data\":{original}");
        for schema in [DeliverySchema::EventGridSchema, DeliverySchema::CloudEventSchemaV1_0] {
            let text = String::from_utf8(encode(schema, "/t", &references, true).body).expect("UTF-8");
            prop_assert_eq!(text.matches(&needle).count(), 2, "{}", text);
        }
    }

    #[test]
    fn no_body_makes_reading_panic(
        body in prop::collection::vec(
            prop::sample::select(&b"[]{}\":,\\ \xc3\xa4\xff0-1.5e\"idtrue\"null"[..]),
            0..60,
        ),
    ) {
        for content_type in ["application/cloudevents+json", "application/cloudevents-batch+json"] {
            let headers = with(CONTENT_TYPE, content_type);
            let _ = read(&InputSchema::CloudEventSchemaV1_0, &headers, &body);
            let _ = read(&InputSchema::EventGridSchema, &headers, &body);
            let _ = read(&custom_schema(), &headers, &body);
        }
    }
}
