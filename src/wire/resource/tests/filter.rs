//! Filters of rule 4.

use proptest::prelude::*;
use serde_json::{Map, Number};

use super::*;
use crate::model::filter::{
    Clause, Conditions, Decimal, Dialect, Filter, FilterKey, Operand, Operator, Takes, Text,
};

fn read(filter: &str) -> Result<Filter, InvalidResource> {
    parse_filter(
        Dialect::Basic,
        &serde_json::from_str(filter).expect("test JSON"),
    )
}

/// Compares the filter that is written back with `expected`, given without what is at rest.
fn check(filter: &str, expected: &str) {
    let mut whole = render_filter(&Filter::default());
    let expected: Map<String, Value> = serde_json::from_str(expected).expect("test JSON");
    for (name, value) in expected {
        whole[name] = value;
    }
    let parsed = read(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
    assert_eq!(render_filter(&parsed), whole, "{filter}");
}

/// The same for the only advanced filter.
fn check_advanced(clause: &str, expected: &str) {
    check(
        &format!("{{\"advancedFilters\":[{clause}]}}"),
        &format!("{{\"advancedFilters\":[{expected}]}}"),
    );
}

#[test]
fn a_filter_at_rest_is_written_in_full() {
    let expected = json!({
        "includedEventTypes": null,
        "subjectBeginsWith": "",
        "subjectEndsWith": "",
        "isSubjectCaseSensitive": false,
        "enableAdvancedFilteringOnArrays": false,
        "advancedFilters": [],
    });
    assert_eq!(render_filter(&Filter::default()), expected);
}

#[test]
fn basic_parts_are_read_and_written() {
    check("{}", "{}");
    check(r#"{"subjectBeginsWith":null,"advancedFilters":null}"#, "{}");
    check(
        r#"{"includedEventTypes":["A","All"],"advancedFilters":[]}"#,
        r#"{"includedEventTypes":["A","All"]}"#,
    );
    check(r#"{"includedEventTypes":[]}"#, "{}");
    check(
        r#"{"IncludedEventTypes":["A","a"]}"#,
        r#"{"includedEventTypes":["A","a"]}"#,
    );
    check(
        r#"{"subjectbeginswith":"/X"}"#,
        r#"{"subjectBeginsWith":"/X"}"#,
    );
    check(
        r#"{"SubjectEndsWith":".jpg"}"#,
        r#"{"subjectEndsWith":".jpg"}"#,
    );
    for yes in ["true", "\"true\"", "\"True\""] {
        for name in ["isSubjectCaseSensitive", "enableAdvancedFilteringOnArrays"] {
            check(
                &format!("{{\"{name}\":{yes}}}"),
                &format!("{{\"{name}\":true}}"),
            );
        }
    }
    check(r#"{"isSubjectCaseSensitive":"FALSE"}"#, "{}");
}

#[test]
fn every_operator_is_read_and_written() {
    for row in Operator::ALL {
        let values = match row.takes {
            Takes::Nothing => "",
            Takes::Number => r#","value":1.5"#,
            Takes::Numbers => r#","values":[1,-2.5,1e300]"#,
            Takes::Ranges => r#","values":[[1,2],[-3,-2.5]]"#,
            Takes::Bool => r#","value":false"#,
            Takes::Texts => r#","values":["a","Ä",""]"#,
        };
        let clause = format!(
            r#"{{"operatorType":"{}","key":"data.a"{values}}}"#,
            row.name
        );
        check_advanced(&clause, &clause);
    }
}

#[test]
fn older_and_sloppier_spellings_are_read() {
    check_advanced(
        r#"{"Operator":"stringin","Key":"Subject","Values":["A"]}"#,
        r#"{"operatorType":"StringIn","key":"Subject","values":["A"]}"#,
    );
    check_advanced(
        r#"{"OperatorType":"NumberLessThan","Key":"Data.K","Value":5,"values":null}"#,
        r#"{"operatorType":"NumberLessThan","key":"Data.K","value":5}"#,
    );
    // One value where a list belongs.
    check_advanced(
        r#"{"operatorType":"StringBeginsWith","key":"subject","value":"/a"}"#,
        r#"{"operatorType":"StringBeginsWith","key":"subject","values":["/a"]}"#,
    );
    check_advanced(
        r#"{"operatorType":"NumberNotIn","key":"data.k","value":1.0}"#,
        r#"{"operatorType":"NumberNotIn","key":"data.k","values":[1]}"#,
    );
    check_advanced(
        r#"{"operatorType":"NumberInRange","key":"data.k","value":[1,1]}"#,
        r#"{"operatorType":"NumberInRange","key":"data.k","values":[[1,1]]}"#,
    );
    check_advanced(
        r#"{"operatorType":"IsNotNull","key":"data.k","values":null}"#,
        r#"{"operatorType":"IsNotNull","key":"data.k"}"#,
    );
    // Identifiers beyond what a double holds.
    check_advanced(
        r#"{"operatorType":"NumberIn","key":"data.k","values":[9007199254740993,18446744073709551615]}"#,
        r#"{"operatorType":"NumberIn","key":"data.k","values":[9007199254740993,18446744073709551615]}"#,
    );
}

/// Checks where a filter is wrong, and that the explanation says `problem`.
fn check_invalid(filter: &str, path: &str, problem: &str) {
    let Err(error) = read(filter) else {
        panic!("{filter} is valid");
    };
    let mut faults = error.faults.iter();
    let is_told = faults.any(|fault| fault.path == path && fault.problem.contains(problem));
    assert!(
        is_told,
        "{filter}: expected {path}: {problem}, not {error:?}"
    );
}

/// The same for the only advanced filter; `path` within it.
fn check_invalid_advanced(clause: &str, path: &str, problem: &str) {
    let path = format!("advancedFilters[0]{path}");
    check_invalid(
        &format!("{{\"advancedFilters\":[{clause}]}}"),
        &path,
        problem,
    );
}

#[test]
fn what_is_wrong_is_named() {
    check_invalid(
        r#"{"includedEventTypes":"A"}"#,
        "includedEventTypes",
        "a list",
    );
    check_invalid(
        r#"{"includedEventTypes":["A",1]}"#,
        "includedEventTypes[1]",
        "a string",
    );
    check_invalid(r#"{"subjectEndsWith":1}"#, "subjectEndsWith", "a string");
    check_invalid(
        r#"{"isSubjectCaseSensitive":"yes"}"#,
        "isSubjectCaseSensitive",
        "true or",
    );
    check_invalid(
        r#"{"subjectBeginWith":"/a"}"#,
        "subjectBeginWith",
        "no such property",
    );
    check_invalid(r#"{"key":"a","Key":"b"}"#, "Key", "no such property");
    check_invalid(
        r#"{"subjectEndsWith":"a","SubjectEndsWith":"b"}"#,
        "subjectEndsWith",
        "twice",
    );
    check_invalid(r#"{"advancedFilters":{}}"#, "advancedFilters", "a list");

    check_invalid_advanced("[]", "", "an object");
    check_invalid_advanced("null", "", "an object");
    check_invalid_advanced("{}", ".operatorType", "missing");
    let is_not_null = r#""operatorType":"IsNotNull""#;
    check_invalid_advanced(&format!("{{{is_not_null}}}"), ".key", "missing");
    for (key, problem) in [
        ("1", "a string"),
        ("\"\"", "name a property"),
        ("\"data.\"", "empty"),
        ("\"a..b\"", "empty"),
    ] {
        check_invalid_advanced(&format!("{{{is_not_null},\"key\":{key}}}"), ".key", problem);
    }
    for (operator, path, problem) in [
        (
            r#""operatorType":"Equals""#,
            ".operatorType",
            "StringNotEndsWith",
        ),
        (r#""operatorType":7"#, ".operatorType", "a string"),
        (
            r#""operatorType":"IsNotNull","operator":"IsNotNull""#,
            ".operatorType",
            "twice",
        ),
        (
            r#""operatorType":"IsNotNull","unit":"m""#,
            ".unit",
            "no such property",
        ),
        (
            r#""operatorType":"IsNotNull","value":1"#,
            ".value",
            "takes no value",
        ),
        (
            r#""operatorType":"IsNotNull","values":[]"#,
            ".values",
            "takes no value",
        ),
        (r#""operatorType":"NumberLessThan""#, ".value", "missing"),
        (
            r#""operatorType":"NumberLessThan","value":"1""#,
            ".value",
            "a number",
        ),
        (
            r#""operatorType":"NumberLessThan","values":[1]"#,
            ".values",
            "one `value`",
        ),
        (
            r#""operatorType":"BoolEquals","value":"true""#,
            ".value",
            "true or false",
        ),
        (r#""operatorType":"NumberIn""#, ".values", "at least one"),
        (
            r#""operatorType":"NumberIn","values":[]"#,
            ".values",
            "at least one",
        ),
        (
            r#""operatorType":"NumberIn","values":1"#,
            ".values",
            "a list",
        ),
        (
            r#""operatorType":"NumberIn","values":[1,"2"]"#,
            ".values[1]",
            "a number",
        ),
        (
            r#""operatorType":"NumberIn","values":[1],"value":2"#,
            ".values",
            "either",
        ),
        (
            r#""operatorType":"NumberInRange","values":[1,2]"#,
            ".values[0]",
            "a range",
        ),
        (
            r#""operatorType":"NumberInRange","values":[[1,2,3]]"#,
            ".values[0]",
            "a range",
        ),
        (
            r#""operatorType":"NumberInRange","values":[[1,"2"]]"#,
            ".values[0][1]",
            "a number",
        ),
        (
            r#""operatorType":"NumberInRange","values":[[2,1]]"#,
            ".values[0]",
            "above",
        ),
        (
            r#""operatorType":"StringIn","values":["a",null]"#,
            ".values[1]",
            "a string",
        ),
        (
            r#""operatorType":"StringIn","value":["a"]"#,
            ".value",
            "a string",
        ),
    ] {
        check_invalid_advanced(&format!("{{{operator},\"key\":\"data.k\"}}"), path, problem);
    }
}

/// A filter of `filters` times `StringIn` with `values` values of `length` characters each.
fn sized(filters: usize, values: usize, length: usize) -> Result<(), String> {
    let values = vec!["ä".repeat(length); values];
    let clause = json!({ "operatorType": "StringIn", "key": "data.k", "values": values });
    let filter = json!({ "advancedFilters": vec![clause; filters] });
    read(&filter.to_string())
        .map(drop)
        .map_err(|error| error.first().path.clone())
}

#[test]
fn limits_are_kept() {
    assert_eq!(sized(25, 1, 512), Ok(()));
    assert_eq!(sized(1, 25, 1), Ok(()));
    assert_eq!(sized(26, 1, 1), Err("advancedFilters".to_owned()));
    assert_eq!(sized(2, 13, 1), Err("advancedFilters".to_owned()));
    assert_eq!(sized(1, 26, 1), Err("advancedFilters".to_owned()));
    assert_eq!(
        sized(1, 2, 513),
        Err("advancedFilters[0].values[0]".to_owned())
    );
    // A range is one value; an operator without a value has none.
    let ranges = json!({ "operatorType": "NumberInRange", "key": "k", "values": vec![[1, 2]; 25] });
    let presence = vec![json!({ "operatorType": "IsNotNull", "key": "k" }); 24];
    let clauses: Vec<Value> = [vec![ranges], presence].concat();
    assert!(read(&json!({ "advancedFilters": clauses }).to_string()).is_ok());
    let key = json!({ "operatorType": "IsNotNull", "key": "k".repeat(513) });
    check_invalid_advanced(&key.to_string(), ".key", "at most 512");
}

fn decimal() -> impl Strategy<Value = Decimal> {
    let number = prop_oneof![
        any::<i64>().prop_map(Number::from),
        any::<u64>().prop_map(Number::from),
        any::<f64>().prop_filter_map("finite", Number::from_f64),
    ];
    number.prop_map(|number| Decimal::parse(&number.to_string()).expect("a number"))
}

fn operand(takes: Takes) -> BoxedStrategy<Operand> {
    let range = |(a, b): (Decimal, Decimal)| if a <= b { (a, b) } else { (b, a) };
    match takes {
        Takes::Nothing => Just(Operand::Nothing).boxed(),
        Takes::Number => decimal().prop_map(Operand::Number).boxed(),
        Takes::Numbers => prop::collection::vec(decimal(), 1..4)
            .prop_map(Operand::Numbers)
            .boxed(),
        Takes::Ranges => prop::collection::vec((decimal(), decimal()).prop_map(range), 1..4)
            .prop_map(Operand::Ranges)
            .boxed(),
        Takes::Bool => any::<bool>().prop_map(Operand::Bool).boxed(),
        Takes::Texts => prop::collection::vec(any::<String>(), 1..4)
            .prop_map(|texts| Operand::Texts(texts.into_iter().map(Text::from).collect()))
            .boxed(),
    }
}

fn any_clause() -> impl Strategy<Value = Clause> {
    let row = prop::sample::select(Operator::ALL.as_slice());
    row.prop_flat_map(|row| {
        (
            Just(row.operator),
            "[a-zÄ]{1,9}(\\.[^.]{1,5}){0,2}",
            operand(row.takes),
        )
    })
    .prop_map(|(operator, key, operand)| Clause {
        key: FilterKey::parse(&key).expect("a valid key"),
        operator,
        operand,
    })
}

proptest! {
    #[test]
    fn reading_what_was_written_gives_the_same_filter(
        types in prop::option::of(prop::collection::vec("[A-Z]\\PC{0,9}", 1..4)),
        start: String,
        end: String,
        subject_case_sensitive: bool,
        on_arrays: bool,
        clauses in prop::collection::vec(any_clause(), 0..6),
    ) {
        let filter = Filter {
            dialect: Dialect::Basic,
            included_event_types: types,
            subject_begins_with: start.into(),
            subject_ends_with: end.into(),
            subject_case_sensitive,
            advanced: Conditions { clauses, on_arrays },
        };
        // By way of text, as the store keeps it.
        prop_assert_eq!(read(&render_filter(&filter).to_string()), Ok(filter));
    }
}
