//! What filters decide, and how they explain it.

mod against_the_table;
mod keys;

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
    let key = FilterKey::parse(words.next().expect("a key")).expect("a valid key");
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

/// The table of rule 4.2, row by row.
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
fn an_explanation_takes_as_many_steps_as_its_filter() {
    let event = event(r#"{"list":[1,2,3,4]}"#);
    let filter = filter("NumberNotIn data.list 7 8", true);
    let steps_of = |ask: &dyn Fn(&EventView<'_>)| {
        let view = EventView::new(&event, "/topic");
        ask(&view);
        view.steps()
    };
    let matching = steps_of(&|view| assert!(filter.matches(view)));
    let explaining = steps_of(&|view| assert!(filter.explain(view).matched()));
    assert_eq!(explaining, matching);
    assert!(explaining > FILTER_STEPS + 8, "{explaining}");
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
            "+ advancedFilters[0]: data.total exists and is not null <- 99.50",
            "- advancedFilters[1]: total is greater than 1 <- missing; its data has one of that \
             name: write `data.` before the key",
            "- advancedFilters[2]: data.total is greater than 100 <- 99.50",
            r#"- advancedFilters[3]: data.country is none of "DE", "\"x\"" <- "DE""#,
            "- advancedFilters[4]: data.totals is in one of [1,2], [3,4.5] <- missing",
            "+ advancedFilters[5]: data.total is one of 99.5 <- 99.50",
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
            &format!("- advancedFilters[0]: data.long is true <- \"xyz\"; {other_type}"),
            &format!("+ advancedFilters[1]: data.long is none of 1 <- \"xyz\"; {other_type}"),
            "- advancedFilters[2]: data.list is one of 1 <- [1]; an array fails unless \
             enableAdvancedFilteringOnArrays is true",
            "- advancedFilters[3]: data.list is null or missing <- [1]",
            "+ advancedFilters[4]: data.gone is null or missing <- null",
            r#"- advancedFilters[5]: data.gone is one of "x" <- null; null counts as missing"#,
        ],
    );
    filter.advanced = Conditions::default();
    filter.subject_ends_with = "/2".into();
    filter.subject_begins_with = "/orders".into();
    filter.included_event_types = Some(vec!["A".to_owned(), "B".to_owned()]);
    check(
        &filter,
        &[
            r#"- includedEventTypes: eventType is one of "A", "B" <- "Order.Paid""#,
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
    filter = Filter {
        subject_begins_with: "/orders/*".into(),
        subject_ends_with: "*/1".into(),
        advanced: clauses(&["StringIn subject /orders/*", "StringNotIn subject *"]),
        ..Filter::default()
    };
    let star = "* is an ordinary character and no wildcard";
    check(
        &filter,
        &[
            &format!(
                r#"- subjectBeginsWith: subject begins with "/orders/*" <- "/Orders/1"; {star}"#
            ),
            &format!(r#"- subjectEndsWith: subject ends with "*/1" <- "/Orders/1"; {star}"#),
            &format!(
                r#"- advancedFilters[0]: subject is one of "/orders/*" <- "/Orders/1"; {star}"#
            ),
            r#"+ advancedFilters[1]: subject is none of "*" <- "/Orders/1""#,
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
