//! What keys lead to in events of every schema.

use super::*;

/// Checks what filters find at `key`, as JSON.
fn check_key(view: &EventView<'_>, key: &str, expected: &str) {
    let key_in = filter(&format!("IsNullOrUndefined {key}"), false);
    let verdict = key_in.explain(view);
    let saw = verdict.first_failed().map_or("missing or null", |part| {
        part.saw.as_deref().expect("it is there")
    });
    assert_eq!(saw, expected, "{key}");
}

#[test]
fn keys_of_event_grid_events() {
    let event = event(r#" {"a":{"b":{"c":1}},"n":null,"id":"inner","l":[{"x":1}]} "#);
    let view = EventView::new(&event, "/default/topic");
    for (key, expected) in [
        ("ID", "\"ID-1\""),
        ("id", "\"ID-1\""),
        ("Topic", "\"/default/topic\""),
        ("Subject", "\"/Orders/1\""),
        ("eventType", "\"Order.Paid\""),
        ("EVENTTYPE", "\"Order.Paid\""),
        ("DataVersion", "\"2.0\""),
        // Azure has no such key.
        ("eventTime", "missing or null"),
        ("data.a.b.c", "1"),
        ("Data.a.b", "{\"c\":1}"),
        ("data.id", "\"inner\""),
        ("data.n", "missing or null"),
        ("data.n.x", "missing or null"),
        ("data.a.b.c.d", "missing or null"),
        ("data.l", "[{\"x\":1}]"),
        ("data.l.x", "missing or null"),
        ("data.l.0", "missing or null"),
        // Names of other schemas.
        ("source", "missing or null"),
        ("type", "missing or null"),
        ("specversion", "missing or null"),
        ("a", "missing or null"),
        ("a.b.c", "missing or null"),
        ("subject.x", "missing or null"),
    ] {
        check_key(&view, key, expected);
    }
    check_key(
        &view,
        "data",
        r#"{"a":{"b":{"c":1}},"n":null,"id":"inner","l":[{"x":1}]}"#,
    );
    let own_topic = Event {
        source: Some("/own".to_owned()),
        ..event.clone()
    };
    check_key(
        &EventView::new(&own_topic, "/default/topic"),
        "topic",
        "\"/own\"",
    );
}

#[test]
fn keys_of_cloud_events() {
    let event = cloud_event(r#"{"a":1}"#);
    let view = EventView::new(&event, "/default");
    for (key, expected) in [
        ("id", "\"ID-1\""),
        ("source", "\"/Shops/7\""),
        ("Type", "\"Order.Paid\""),
        ("specversion", "\"1.0\""),
        ("subject", "\"/Orders/1\""),
        ("time", "\"2030-01-01T00:00:00Z\""),
        ("EventId", "\"ID-1\""),
        ("eventType", "\"Order.Paid\""),
        ("EventTypeVersion", "\"#1\""),
        ("dataschema", "\"#1\""),
        ("Region", "\"North\""),
        ("priority", "5"),
        ("urgent", "true"),
        ("data.a", "1"),
        ("a", "missing or null"),
        ("topic", "missing or null"),
        ("dataversion", "missing or null"),
    ] {
        check_key(&view, key, expected);
    }
    let bare = Event {
        subject: None,
        data: EventData::Binary(vec![0].into()),
        ..event.clone()
    };
    let view = EventView::new(&bare, "/default");
    for key in ["subject", "data", "data.a"] {
        check_key(&view, key, "missing or null");
    }
    // An attribute of its own comes before an old name of another.
    let mut named = cloud_event("1");
    named.attributes[1].name = "eventtype".to_owned();
    check_key(
        &EventView::new(&named, "/default"),
        "eventType",
        "\"North\"",
    );
}

#[test]
fn keys_of_custom_events() {
    let event = event(r#"{"a":{"b":1},"Subject":"inner","data":{"a":2}}"#);
    let view = EventView::of_custom_input(&event, "/default/topic");
    for (key, expected) in [
        ("data.a.b", "1"),
        ("a.b", "1"),
        ("A.B", "1"),
        ("data.data.a", "2"),
        ("data.a", "{\"b\":1}"),
        // What the object has itself comes before what was mapped.
        ("subject", "\"inner\""),
        ("id", "\"ID-1\""),
        ("topic", "\"/default/topic\""),
        ("eventType", "\"Order.Paid\""),
        ("b", "missing or null"),
    ] {
        check_key(&view, key, expected);
    }
}

#[test]
fn data_is_read_as_it_was_written() {
    for (data, key, expected) in [
        // Exact names come before others, later members before earlier ones.
        (r#"{"k":1,"K":2}"#, "data.k", "1"),
        (r#"{"k":1,"K":2}"#, "data.K", "2"),
        (r#"{"Kk":1,"kK":2}"#, "data.kk", "2"),
        (r#"{"k":1,"k":2}"#, "data.k", "2"),
        (
            r#"{"k":{"x":1},"K":{"y":2}}"#,
            "data.k.y",
            "missing or null",
        ),
        // Escapes, also of what is no character, and letters beyond ASCII.
        (r#"{"\u006b":1}"#, "data.k", "1"),
        (r#"{"\ud800":0,"k":1}"#, "data.k", "1"),
        (r#"{"k":"\ud800"}"#, "data.k", r#""\ud800""#),
        (r#"{"GRÖSSE":1}"#, "data.größe", "missing or null"),
        (r#"{"Höhe":1}"#, "data.HÖHE", "1"),
        (r#"{"a.b":1}"#, "data.a.b", "missing or null"),
        (r#"{"":1}"#, "data.k", "missing or null"),
        ("{ \"k\" :\n 1.50 }", "data.k", "1.50"),
        ("\n\"text\"", "data", "\"text\""),
        ("5", "data.k", "missing or null"),
        ("null", "data", "missing or null"),
        // The doors let no such text in.
        ("{\"k\":", "data.k", "missing or null"),
        ("", "data.k", "missing or null"),
    ] {
        let event = event(data);
        check_key(&EventView::new(&event, "/topic"), key, expected);
    }
}

#[test]
fn deep_and_wide_data_is_no_burden() {
    let deep = format!("{}1{}", "{\"k\":".repeat(100_000), "}".repeat(100_000));
    let event = with_value(&deep);
    check_key(
        &EventView::new(&event, "/topic"),
        "data.k.k.k.x",
        "missing or null",
    );
    check(
        "NumberIn 7",
        &[&format!("[{}7]", "1,".repeat(100_000))],
        &[&"[".repeat(100_000)],
    );
}

#[test]
fn numbers_and_booleans_in_attributes_are_texts_as_well() {
    let event = cloud_event("{\"n\":5}");
    let view = EventView::new(&event, "/default");
    for (text, expected) in [
        ("StringBeginsWith priority 5", true),
        ("StringIn urgent TRUE", true),
        ("StringNotIn priority 5", false),
        ("StringNotContains priority 6", true),
        ("NumberGreaterThan priority 4", true),
        ("BoolEquals urgent true", true),
        ("BoolEquals priority true", false),
        ("NumberIn region 5", false),
        ("StringIn region north", true),
        // In data, a number is no text.
        ("StringIn data.n 5", false),
        ("NumberIn data.n 5", true),
    ] {
        assert_eq!(filter(text, false).matches(&view), expected, "{text}");
    }
}

#[test]
fn keys_are_checked() {
    for (text, expected) in [
        ("subject", Ok("subject")),
        ("Data.Größe", Ok("Data.Größe")),
        ("", Err(InvalidKey::Empty)),
        ("data.", Err(InvalidKey::EmptyPart)),
        (".a", Err(InvalidKey::EmptyPart)),
        ("data..a", Err(InvalidKey::EmptyPart)),
    ] {
        let key = FilterKey::parse(text);
        assert_eq!(
            key.as_ref().map(FilterKey::as_str).map_err(|error| *error),
            expected,
            "{text}"
        );
    }
}
