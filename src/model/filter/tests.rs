use crate::model::event::{Attribute, Event, EventData};

use super::*;

/// Stands for a key that leads to nothing.
const MISSING: &str = "";

fn event(data: &str) -> Event {
    Event {
        id: "ID-1".to_owned(),
        source: None,
        event_type: "Order.Paid".to_owned(),
        subject: Some("/Orders/1".to_owned()),
        time: Some("2030-01-01T00:00:00Z".to_owned()),
        data_version: Some("2.0".to_owned()),
        attributes: Vec::new(),
        data: EventData::Json(data.to_owned()),
    }
}

fn cloud_event(data: &str) -> Event {
    let attributes = [
        ("dataschema", "\"#1\""),
        ("region", "\"North\""),
        ("priority", "5"),
        ("urgent", "true"),
    ];
    let attribute = |(name, value): (&str, &str)| Attribute {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    Event {
        source: Some("/Shops/7".to_owned()),
        data_version: None,
        attributes: attributes.map(attribute).to_vec(),
        ..event(data)
    }
}

/// Reads `NumberIn data.k 1 2`; ranges are written `1..2`.
fn clause(text: &str) -> Clause {
    let mut words = text.split_whitespace();
    let operator = words.next().and_then(Operator::from_name);
    let operator = operator.unwrap_or_else(|| panic!("{text}: no such operator"));
    let key = Key::parse(words.next().expect("a key")).expect("a valid key");
    let values: Vec<&str> = words.collect();
    let number = |text: &str| Decimal::parse(text).expect("a number");
    let range = |text: &str| {
        let (low, high) = text.split_once("..").expect("a range");
        (number(low), number(high))
    };
    let operand = match operator.row().takes {
        Takes::Nothing => Operand::Nothing,
        Takes::Number => Operand::Number(number(values[0])),
        Takes::Numbers => Operand::Numbers(values.into_iter().map(number).collect()),
        Takes::Ranges => Operand::Ranges(values.into_iter().map(range).collect()),
        Takes::Bool => Operand::Bool(values[0] == "true"),
        Takes::Texts => Operand::Texts(values.into_iter().map(Text::from).collect()),
    };
    Clause {
        key,
        operator,
        operand,
    }
}

fn filter(clause_text: &str, on_arrays: bool) -> Filter {
    let advanced = Conditions {
        clauses: vec![clause(clause_text)],
        on_arrays,
    };
    Filter {
        advanced,
        ..Filter::default()
    }
}

fn with_value(json: &str) -> Event {
    match json {
        MISSING => event("{}"),
        json => event(&format!("{{\"k\":{json}}}")),
    }
}

/// Compares `operator values` with values at a key, given as JSON text, with array filtering on.
fn check(comparison: &str, passing: &[&str], failing: &[&str]) {
    let (operator, values) = comparison.split_once(' ').unwrap_or((comparison, ""));
    let filter = filter(&format!("{operator} data.k {values}"), true);
    for (expected, values) in [(true, passing), (false, failing)] {
        for value in values {
            let event = with_value(value);
            let matched = filter.matches(&EventView::new(&event, "/topic"));
            assert_eq!(matched, expected, "{comparison}: {value:?}");
        }
    }
}

/// A comparison, the values that pass it, and those that fail it.
type ComparisonRow = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// The table of spec 4.2, row by row.
#[rustfmt::skip] // one operator, one paragraph of data
const COMPARISONS: &[ComparisonRow] = &[
    // Numbers. What is no number counts as missing; in arrays it is passed over.
    ("NumberIn 1 2.5",
        &["1", "1.00", "10e-1", "2.5", "[1]", "[7,2.5]", "[\"1\",null,{},[9],1]"],
        &["2", "1.0000000000000000000001", "[2]", "[]", "[[1]]", "[{\"k\":1}]",
          MISSING, "null", "\"1\"", "true", "{}", "{\"k\":1}"]),
    ("NumberNotIn 1 2.5",
        &["2", "1.0000000000000000000001", "[2]", "[]", "[[1]]", "[\"1\"]",
          MISSING, "null", "\"1\"", "true", "{}", "{\"k\":1}"],
        &["1", "1.00", "10e-1", "2.5", "[1]", "[7,2.5]", "[\"1\",null,{},1]"]),
    ("NumberLessThan 10",
        &["9", "9.999", "-1e9", "[11,9]"],
        &["10", "1e1", "11", "[10]", "[]", MISSING, "null", "\"9\"", "true", "{}"]),
    ("NumberGreaterThan 10",
        &["11", "10.0000000000000000000001", "1e400", "[9,11]"],
        &["10", "10.0", "9", "-11", "[10]", "[]", MISSING, "null", "\"11\"", "true", "{}"]),
    ("NumberLessThanOrEquals 10",
        &["10", "10.0", "-3", "[11,10]"],
        &["10.1", "[11]", "[]", MISSING, "null", "\"9\"", "false", "{}"]),
    ("NumberGreaterThanOrEquals 10",
        &["10", "1e1", "10.1", "[9,10]"],
        &["9.9", "[9]", "[]", MISSING, "null", "\"11\"", "true", "{}"]),
    ("NumberInRange 1..2 10..20",
        &["1", "1.5", "2", "10", "20.0", "[5,15]"],
        &["0.9", "2.1", "5", "21", "[5]", "[]", MISSING, "null", "\"1\"", "true", "{}"]),
    ("NumberNotInRange 1..2 10..20",
        &["0.9", "2.1", "5", "21", "[5,6]", "[]", "[\"1\"]", MISSING, "null", "\"1\"", "true", "{}"],
        &["1", "1.5", "2", "10", "20.0", "[5,15]"]),
    ("NumberIn 9007199254740993",
        &["9007199254740993", "[9007199254740993.0]"],
        &["9007199254740992", "9007199254740994"]),

    // Booleans.
    ("BoolEquals true",
        &["true", "[false,true]", "[1,true]"],
        &["false", "[false]", "[]", MISSING, "null", "1", "\"true\"", "{}"]),
    ("BoolEquals false",
        &["false", "[true,false]"],
        &["true", "[true]", "[]", MISSING, "null", "0", "\"false\"", "{}"]),

    // Strings, in any letter case.
    ("StringContains bc Ä",
        &["\"bc\"", "\"aBCd\"", "\"\\u0062c\"", "\"xäx\"", "\"x\\u00c4x\"", "[\"x\",\"abc\"]", "[1,\"abc\"]"],
        &["\"b c\"", "\"\"", "[\"x\"]", "[]", "[[\"bc\"]]", MISSING, "null", "1", "true", "{}", "{\"bc\":\"bc\"}"]),
    ("StringBeginsWith ab ΟΔΟΣ",
        &["\"ab\"", "\"ABc\"", "\"οδοσα\"", "[\"x\",\"Abc\"]"],
        &["\"xab\"", "\"a\"", "[\"xab\"]", "[]", MISSING, "null", "1", "true", "{}"]),
    ("StringEndsWith ab CD",
        &["\"ab\"", "\"xAB\"", "\"xcd\"", "[\"x\",\"Xab\"]"],
        &["\"abx\"", "\"b\"", "[\"abx\"]", "[]", MISSING, "null", "1", "true", "{}"]),
    ("StringIn ab CD",
        &["\"ab\"", "\"AB\"", "\"cd\"", "[\"x\",\"aB\"]"],
        &["\"abx\"", "\"xab\"", "\" ab\"", "\"\"", "[\"abx\"]", "[]", MISSING, "null", "1", "true", "{}"]),
    // Negated, and yet a missing key fails all but `StringNotIn`.
    ("StringNotContains bc Ä",
        &["\"b c\"", "\"\"", "[\"x\"]", "[]", "[1]", "[[\"bc\"]]"],
        &["\"bc\"", "\"aBCd\"", "\"xäx\"", "[\"x\",\"abc\"]", MISSING, "null", "1", "true", "{}"]),
    ("StringNotBeginsWith ab",
        &["\"xab\"", "\"\"", "[\"xab\"]", "[]", "[1]"],
        &["\"ab\"", "\"ABc\"", "[\"x\",\"Abc\"]", MISSING, "null", "1", "true", "{}"]),
    ("StringNotEndsWith ab",
        &["\"abx\"", "\"\"", "[\"abx\"]", "[]", "[1]"],
        &["\"ab\"", "\"xAB\"", "[\"x\",\"Xab\"]", MISSING, "null", "1", "true", "{}"]),
    ("StringNotIn ab CD",
        &["\"abx\"", "\"\"", "[\"abx\"]", "[]", "[1]", MISSING, "null", "1", "true", "{}"],
        &["\"ab\"", "\"AB\"", "\"cd\"", "[\"x\",\"aB\"]"]),

    // Presence.
    ("IsNullOrUndefined",
        &[MISSING, "null"],
        &["0", "false", "\"\"", "[]", "[null]", "{}"]),
    ("IsNotNull",
        &["0", "false", "\"\"", "[]", "[null]", "{}"],
        &[MISSING, "null"]),
];

#[test]
fn operators_compare_as_published() {
    for (comparison, passing, failing) in COMPARISONS {
        check(comparison, passing, failing);
    }
}

#[test]
fn every_operator_has_its_row() {
    let rows: Vec<&str> = COMPARISONS
        .iter()
        .filter_map(|(comparison, ..)| comparison.split(' ').next())
        .collect();
    for row in Operator::ALL {
        assert!(rows.contains(&row.name), "{} is not compared", row.name);
    }
}

#[test]
fn arrays_fail_unless_they_are_enabled() {
    for row in Operator::ALL {
        let values = match row.takes {
            Takes::Nothing => "",
            Takes::Ranges => "1..1",
            Takes::Number | Takes::Numbers | Takes::Texts => "1",
            Takes::Bool => "true",
        };
        let filter = filter(&format!("{} data.k {values}", row.name), false);
        for array in ["[]", "[1]", "[\"1\"]", "[0,1,2]", "[true]", "[\"x\"]"] {
            let event = with_value(array);
            let matched = filter.matches(&EventView::new(&event, "/topic"));
            // An array is there, whatever it holds.
            let expected = row.operator == Operator::IsNotNull;
            assert_eq!(matched, expected, "{} {array}", row.name);
        }
    }
}

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
        ("eventTime", "\"2030-01-01T00:00:00Z\""),
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
        data: EventData::Base64("AA==".to_owned()),
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
        let key = Key::parse(text);
        assert_eq!(
            key.as_ref().map(Key::as_str).map_err(|error| *error),
            expected,
            "{text}"
        );
    }
}

/// Checks types and subject parts, separated by spaces, `-` standing for nothing.
fn check_basic(types: &str, start: &str, end: &str, exact: bool, expected: bool) {
    let part = |text: &str| Text::from(text.trim_start_matches('-'));
    let filter = Filter {
        dialect: Dialect::Basic,
        included_event_types: (types != "-").then(|| types.split(' ').map(str::to_owned).collect()),
        subject_begins_with: part(start),
        subject_ends_with: part(end),
        subject_case_sensitive: exact,
        advanced: Conditions::default(),
    };
    let event = event("{}");
    let matched = filter.matches(&EventView::new(&event, "/topic"));
    assert_eq!(matched, expected, "{types} {start} {end} {exact}");
}

#[test]
fn types_and_subjects_are_compared() {
    check_basic("-", "-", "-", false, true);
    check_basic("Order.Paid", "-", "-", false, true);
    check_basic("Order.Sent Order.Paid", "-", "-", false, true);
    // Ordinal, and never by parts.
    check_basic("order.paid", "-", "-", false, false);
    check_basic("Order", "-", "-", false, false);
    check_basic("-", "/orders", "-", false, true);
    check_basic("-", "/orders", "-", true, false);
    check_basic("-", "/Orders", "-", true, true);
    check_basic("-", "/Orders/2", "-", false, false);
    check_basic("-", "-", "S/1", false, true);
    check_basic("-", "-", "S/1", true, false);
    check_basic("-", "-", "s/1", true, true);
    check_basic("-", "-", "/2", false, false);
    check_basic("-", "/*", "-", false, false);
    // The two parts may overlap.
    check_basic("-", "/orders/1", "/orders/1", false, true);
    check_basic("Order.Paid", "/orders", "/2", false, false);
}

#[test]
fn an_absent_subject_is_empty() {
    let bare = Event {
        subject: None,
        ..cloud_event("{}")
    };
    let view = EventView::new(&bare, "/default");
    let mut filter = Filter::default();
    assert!(filter.matches(&view));
    for exact in [false, true] {
        filter.subject_case_sensitive = exact;
        filter.subject_begins_with = "/".into();
        assert!(!filter.matches(&view));
    }
}

#[test]
fn explanations_name_every_part_and_what_it_saw() {
    let event = event(r#"{"total":99.50,"long":"xyz","country":"DE","list":[1],"gone":null}"#);
    let view = EventView::new(&event, "/topic");
    let check = |filter: &Filter, expected: &[&str]| {
        let verdict = filter.explain(&view);
        let shown: Vec<String> = verdict
            .parts
            .iter()
            .map(|each| {
                let holds = if each.holds { "+" } else { "-" };
                let remark = each.remark.map(|remark| format!("; {remark}"));
                let (part, wanted) = (&each.part, &each.wanted);
                let (saw, remark) = (
                    each.saw.as_deref().unwrap_or("missing"),
                    remark.unwrap_or_default(),
                );
                format!("{holds} {part}: {wanted} <- {saw}{remark}")
            })
            .collect();
        assert_eq!(shown, expected);
        assert_eq!(verdict.matched(), filter.matches(&view));
    };
    let clauses = |texts: &[&str]| Conditions {
        clauses: texts.iter().map(|text| clause(text)).collect(),
        on_arrays: false,
    };
    let mut filter = Filter::default();
    check(&filter, &[]);
    filter.advanced = clauses(&[
        "IsNotNull data.total",
        "NumberGreaterThan total 1",
        "NumberGreaterThan data.total 1e2",
        "StringNotIn data.country DE \"x\"",
        "NumberInRange data.totals 1..2 3..4.5",
        "NumberIn data.total 99.5",
    ]);
    check(
        &filter,
        &[
            "+ advancedFilters[0]: IsNotNull data.total <- 99.50",
            "- advancedFilters[1]: NumberGreaterThan total 1 <- missing; its data has one of that \
             name: write `data.` before the key",
            "- advancedFilters[2]: NumberGreaterThan data.total 100 <- 99.50",
            r#"- advancedFilters[3]: StringNotIn data.country ["DE","\"x\""] <- "DE""#,
            "- advancedFilters[4]: NumberInRange data.totals [[1,2],[3,4.5]] <- missing",
            "+ advancedFilters[5]: NumberIn data.total [99.5] <- 99.50",
        ],
    );
    filter.advanced = clauses(&[
        "BoolEquals data.long true",
        "NumberNotIn data.long 1",
        "NumberIn data.list 1",
        "IsNullOrUndefined data.list",
        "IsNullOrUndefined data.gone",
        "StringIn data.gone x",
    ]);
    let other_type = "a value of another type than the operator takes counts as missing";
    check(
        &filter,
        &[
            &format!("- advancedFilters[0]: BoolEquals data.long true <- \"xyz\"; {other_type}"),
            &format!("+ advancedFilters[1]: NumberNotIn data.long [1] <- \"xyz\"; {other_type}"),
            "- advancedFilters[2]: NumberIn data.list [1] <- [1]; an array fails unless \
             enableAdvancedFilteringOnArrays is true",
            "- advancedFilters[3]: IsNullOrUndefined data.list <- [1]",
            "+ advancedFilters[4]: IsNullOrUndefined data.gone <- null",
            r#"- advancedFilters[5]: StringIn data.gone ["x"] <- null; null counts as missing"#,
        ],
    );
    filter.advanced = Conditions::default();
    filter.subject_ends_with = "/2".into();
    filter.subject_begins_with = "/orders".into();
    filter.included_event_types = Some(vec!["A".to_owned(), "B".to_owned()]);
    check(
        &filter,
        &[
            r#"- includedEventTypes: eventType in ["A","B"] <- "Order.Paid""#,
            r#"+ subjectBeginsWith: subject begins with "/orders" <- "/Orders/1""#,
            r#"- subjectEndsWith: subject ends with "/2" <- "/Orders/1""#,
        ],
    );
    filter = Filter {
        subject_begins_with: "/orders".into(),
        subject_case_sensitive: true,
        ..Filter::default()
    };
    check(
        &filter,
        &[
            r#"- subjectBeginsWith: subject begins with "/orders" in this letter case <- "/Orders/1""#,
        ],
    );
}

#[test]
fn explanations_stay_short() {
    let event = with_value(&format!("\"{}\"", "ä".repeat(100_000)));
    let view = EventView::new(&event, "/topic");
    let verdict = filter("StringIn data.k x", false).explain(&view);
    let saw = verdict.first_failed().expect("it does not match");
    let saw = saw.saw.as_deref().unwrap_or("missing");
    assert_eq!(saw.chars().count(), 201);
    assert!(saw.starts_with("\"ää") && saw.ends_with("ä…"), "{saw}");
}

/// The same decisions made naively, from the table of spec 4.2.
mod against_the_table {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Json {
        Null,
        Bool(bool),
        /// Hundredths, and one of the ways to write them.
        Number(i32, u8),
        Text(String),
        Array(Vec<Json>),
        Object(Vec<(String, Json)>),
    }

    #[derive(Clone, Debug)]
    struct Case {
        row: OperatorRow,
        key: String,
        numbers: Vec<i32>,
        ranges: Vec<(i32, i32)>,
        boolean: bool,
        texts: Vec<String>,
        on_arrays: bool,
    }

    impl Json {
        fn written(&self) -> String {
            match self {
                Self::Null => "null".to_owned(),
                Self::Bool(value) => value.to_string(),
                Self::Number(value, style) => write_number(*value, *style),
                Self::Text(text) => format!("\"{text}\""),
                Self::Array(elements) => {
                    let elements: Vec<String> = elements.iter().map(Self::written).collect();
                    format!("[{}]", elements.join(", "))
                }
                Self::Object(members) => {
                    let member = |(name, value): &(String, Self)| {
                        format!("\"{name}\" : {}", value.written())
                    };
                    let members: Vec<String> = members.iter().map(member).collect();
                    format!("{{{}}}", members.join(","))
                }
            }
        }

        fn member(&self, name: &str) -> Option<&Self> {
            let Self::Object(members) = self else {
                return None;
            };
            let mut latest = members.iter().rev();
            let exact = latest.clone().find(|(each, _)| each == name);
            let found = exact.or_else(|| latest.find(|(each, _)| each.eq_ignore_ascii_case(name)));
            found.map(|(_, value)| value)
        }
    }

    fn write_number(hundredths: i32, style: u8) -> String {
        let sign = if hundredths < 0 { "-" } else { "" };
        let n = hundredths.unsigned_abs();
        match style {
            0 => format!("{sign}{}.{:02}", n / 100, n % 100),
            1 => format!("{hundredths}e-2"),
            2 => format!("{sign}0.{n:05}E+3"),
            _ => format!("{}.0e-0005", hundredths * 1_000),
        }
    }

    impl Case {
        /// Whether a value of the operator's type is among those that the table describes, the `Not`
        /// aside; `None` for a value of another type.
        fn hit(&self, value: &Json) -> Option<bool> {
            let name = self.row.name.replace("Not", "");
            match (value, name.as_str()) {
                (Json::Number(n, _), "NumberIn") => Some(self.numbers.contains(n)),
                (Json::Number(n, _), "NumberLessThan") => Some(*n < self.numbers[0]),
                (Json::Number(n, _), "NumberGreaterThan") => Some(*n > self.numbers[0]),
                (Json::Number(n, _), "NumberLessThanOrEquals") => Some(*n <= self.numbers[0]),
                (Json::Number(n, _), "NumberGreaterThanOrEquals") => Some(*n >= self.numbers[0]),
                (Json::Number(n, _), "NumberInRange") => Some(
                    self.ranges
                        .iter()
                        .any(|(low, high)| (*low..=*high).contains(n)),
                ),
                (Json::Bool(b), "BoolEquals") => Some(*b == self.boolean),
                (Json::Text(text), _) if name.starts_with("String") => {
                    let text = text.to_lowercase();
                    Some(self.texts.iter().any(|each| {
                        let each = each.to_lowercase();
                        match name.as_str() {
                            "StringContains" => text.contains(&each),
                            "StringBeginsWith" => text.starts_with(&each),
                            "StringEndsWith" => text.ends_with(&each),
                            _ => text == each,
                        }
                    }))
                }
                _ => None,
            }
        }

        fn expected(&self, data: &Json) -> bool {
            let value = self.key.split('.').skip(1).try_fold(data, Json::member);
            let value = value.filter(|value| !matches!(value, Json::Null));
            match self.row.name {
                "IsNullOrUndefined" => return value.is_none(),
                "IsNotNull" => return value.is_some(),
                _ => {}
            }
            let negated = self.row.name.contains("Not");
            if let Some(Json::Array(elements)) = value {
                let any = elements.iter().any(|each| self.hit(each) == Some(true));
                return self.on_arrays && any != negated;
            }
            let passes_missing = matches!(
                self.row.name,
                "NumberNotIn" | "NumberNotInRange" | "StringNotIn"
            );
            let hit = value.and_then(|value| self.hit(value));
            hit.map_or(passes_missing, |hit| hit != negated)
        }

        fn filter(&self) -> Filter {
            let number = |n: &i32| Decimal::parse(&write_number(*n, 0)).expect("a number");
            let operand = match self.row.takes {
                Takes::Nothing => Operand::Nothing,
                Takes::Number => Operand::Number(number(&self.numbers[0])),
                Takes::Numbers => Operand::Numbers(self.numbers.iter().map(number).collect()),
                Takes::Ranges => {
                    let ranges = self.ranges.iter();
                    Operand::Ranges(
                        ranges
                            .map(|(low, high)| (number(low), number(high)))
                            .collect(),
                    )
                }
                Takes::Bool => Operand::Bool(self.boolean),
                Takes::Texts => {
                    Operand::Texts(self.texts.iter().map(|t| t.as_str().into()).collect())
                }
            };
            let clause = Clause {
                key: Key::parse(&self.key).expect("a valid key"),
                operator: self.row.operator,
                operand,
            };
            Filter {
                advanced: Conditions {
                    clauses: vec![clause],
                    on_arrays: self.on_arrays,
                },
                ..Filter::default()
            }
        }
    }

    fn json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            1 => Just(Json::Null),
            1 => any::<bool>().prop_map(Json::Bool),
            4 => (-3..4_i32, 0..4_u8).prop_map(|(n, style)| Json::Number(n * 50, style)),
            4 => "[abAB]{0,3}".prop_map(Json::Text),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
                object(inner),
            ]
        })
    }

    fn object(value: impl Strategy<Value = Json>) -> impl Strategy<Value = Json> {
        prop::collection::vec(("[abAB]", value), 0..4).prop_map(Json::Object)
    }

    fn case() -> impl Strategy<Value = Case> {
        let number = || (-3..4_i32).prop_map(|n| n * 50);
        (
            prop::sample::select(Operator::ALL.as_slice()),
            "data(\\.[abAB]){0,2}",
            prop::collection::vec(number(), 1..4),
            prop::collection::vec((number(), number()), 1..3),
            any::<bool>(),
            prop::collection::vec("[abAB]{0,2}", 1..4),
            any::<bool>(),
        )
            .prop_map(
                |(row, key, numbers, ranges, boolean, texts, on_arrays)| Case {
                    row,
                    key,
                    numbers,
                    ranges,
                    boolean,
                    texts,
                    on_arrays,
                },
            )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn filters_decide_as_the_table_does(data in object(json()), cases in prop::collection::vec(case(), 1..4)) {
            let event = event(&data.written());
            // One view for all, as in a publish: what one filter has read must serve the next.
            let view = EventView::new(&event, "/topic");
            for case in cases {
                let filter = case.filter();
                let matched = filter.matches(&view);
                prop_assert_eq!(matched, case.expected(&data), "{:?} {}", case, data.written());
                prop_assert_eq!(filter.explain(&view).matched(), matched, "{:?}", case);
            }
        }

        #[test]
        fn whole_filters_and_explanations_decide_alike(
            cases in prop::collection::vec(case(), 0..3),
            data in object(json()),
            types in prop::option::of(prop::collection::vec("Order.(Paid|Sent)", 1..3)),
            start in "(/[oO]rders?)?", end in "([sS]?/[12])?", exact: bool,
        ) {
            let clauses = cases.iter().map(|case| case.filter().advanced.clauses.remove(0));
            let fold = |text: &str| if exact { text.to_owned() } else { text.to_lowercase() };
            let subject = fold("/Orders/1");
            let on_arrays = |case: &Case| Case { on_arrays: true, ..case.clone() };
            let expected = types.as_ref().is_none_or(|types| types.contains(&"Order.Paid".to_owned()))
                && subject.starts_with(&fold(&start))
                && subject.ends_with(&fold(&end))
                && cases.iter().all(|case| on_arrays(case).expected(&data));
            let filter = Filter {
                dialect: Dialect::Basic,
                included_event_types: types,
                subject_begins_with: start.into(),
                subject_ends_with: end.into(),
                subject_case_sensitive: exact,
                advanced: Conditions { clauses: clauses.collect(), on_arrays: true },
            };
            let event = event(&data.written());
            let view = EventView::new(&event, "/topic");
            prop_assert_eq!(filter.matches(&view), expected);
            prop_assert_eq!(filter.explain(&view).matched(), expected);
        }
    }
}
