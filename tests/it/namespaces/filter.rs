//! Filters (table 4), by what a subscription gets.

use axum::http::Method;
use serde_json::{Value, json};

use super::{cloud_event, definition, get, grid, put, rejected, subscribed};

const EVENTS: &str = "/everpost/events?topic=shop/orders&limit=1";

/// Whether an event with these changes reaches a subscription with this configuration.
async fn check(configuration: Value, changes: Value, expected: bool) {
    let filters = json!({ "filtersConfiguration": configuration });
    let grid = subscribed("200", json!({}), filters).await;
    let mut event = cloud_event("e1");
    for (name, value) in changes.as_object().expect("an object") {
        event[name] = value.clone();
    }
    super::publish(&grid, json!([event])).await;
    let row = get(&grid, EVENTS).await["value"][0].clone();
    assert_eq!(
        row["matched"],
        u64::from(expected),
        "{configuration} {event}"
    );
    grid.run_for(super::SECOND).await;
}

fn one(operator: &str, key: &str, operand: Value) -> Value {
    let name = match operand.is_array() {
        true => "values",
        false => "value",
    };
    let mut filter = json!({"operatorType": operator, "key": key});
    if !operand.is_null() {
        filter[name] = operand;
    }
    json!({ "filters": [filter] })
}

#[tokio::test]
async fn table_4_types_match_in_any_letter_case() {
    check(json!({}), json!({}), true).await;
    check(json!({"includedEventTypes": null}), json!({}), true).await;
    check(
        json!({"includedEventTypes": ["a", "ORDER.paid"]}),
        json!({}),
        true,
    )
    .await;
    check(json!({"includedEventTypes": ["Order"]}), json!({}), false).await;
}

#[tokio::test]
async fn table_4_each_operator_compares_as_it_says() {
    let data = |value: Value| json!({"data": {"x": value}});
    for (operator, operand, passes, fails) in [
        ("NumberIn", json!([1, 2]), json!(2), json!(3)),
        ("NumberNotIn", json!([1, 2]), json!(3), json!(2)),
        ("NumberLessThan", json!(5), json!(4), json!(5)),
        ("NumberGreaterThan", json!(5), json!(6), json!(5)),
        ("NumberLessThanOrEquals", json!(5), json!(5), json!(5.1)),
        ("NumberGreaterThanOrEquals", json!(5), json!(5), json!(4.9)),
        ("NumberInRange", json!([[1, 2], [5, 6]]), json!(5), json!(3)),
        (
            "NumberNotInRange",
            json!([[1, 2], [5, 6]]),
            json!(3),
            json!(6),
        ),
        ("BoolEquals", json!(true), json!(true), json!(false)),
        ("StringIn", json!(["aB"]), json!("Ab"), json!("abc")),
        ("StringNotIn", json!(["aB"]), json!("abc"), json!("AB")),
        (
            "StringBeginsWith",
            json!(["aB"]),
            json!("ABc"),
            json!("cab"),
        ),
        ("StringEndsWith", json!(["aB"]), json!("cAb"), json!("abc")),
        ("StringContains", json!(["aB"]), json!("xABx"), json!("a-b")),
        (
            "StringNotBeginsWith",
            json!(["aB"]),
            json!("cab"),
            json!("ABc"),
        ),
        (
            "StringNotEndsWith",
            json!(["aB"]),
            json!("abc"),
            json!("cAb"),
        ),
        (
            "StringNotContains",
            json!(["aB"]),
            json!("a-b"),
            json!("xABx"),
        ),
        ("IsNullOrUndefined", Value::Null, Value::Null, json!(0)),
        ("IsNotNull", Value::Null, json!(0), Value::Null),
    ] {
        let filter = one(operator, "data.x", operand);
        check(filter.clone(), data(passes), true).await;
        check(filter, data(fails), false).await;
    }
}

#[tokio::test]
async fn table_4_a_missing_key_passes_three_operators_alone() {
    for (operator, operand, expected) in [
        ("NumberNotIn", json!([1]), true),
        ("StringNotIn", json!(["a"]), true),
        ("IsNullOrUndefined", Value::Null, true),
        ("NumberIn", json!([1]), false),
        ("NumberLessThan", json!(1), false),
        ("NumberInRange", json!([[1, 2]]), false),
        ("NumberNotInRange", json!([[1, 2]]), false),
        ("BoolEquals", json!(false), false),
        ("StringIn", json!(["a"]), false),
        ("StringBeginsWith", json!(["a"]), false),
        ("StringNotContains", json!(["a"]), false),
        ("StringNotBeginsWith", json!(["a"]), false),
        ("StringNotEndsWith", json!(["a"]), false),
        ("IsNotNull", Value::Null, false),
    ] {
        check(one(operator, "data.missing", operand), json!({}), expected).await;
    }
}

#[tokio::test]
async fn table_4_arrays_pass_by_any_element_and_fail_by_any_when_negated() {
    let data = || json!({"data": {"x": ["a", 7, "b"]}});
    check(one("StringIn", "data.x", json!(["b"])), data(), true).await;
    check(one("StringIn", "data.x", json!(["c"])), data(), false).await;
    check(one("StringNotIn", "data.x", json!(["b"])), data(), false).await;
    check(one("StringNotIn", "data.x", json!(["c"])), data(), true).await;
    check(
        one("StringNotContains", "data.x", json!(["a"])),
        data(),
        false,
    )
    .await;
    check(one("NumberIn", "data.x", json!([7])), data(), true).await;
    check(one("NumberNotIn", "data.x", json!([7])), data(), false).await;
}

#[tokio::test]
async fn table_4_keys_are_attributes_aliases_extensions_and_paths() {
    for (key, value) in [
        ("id", "E1"),
        ("eventid", "e1"),
        ("source", "/shop"),
        ("type", "order.paid"),
        ("eventtype", "order.paid"),
        ("eventtypeversion", "#2"),
        ("dataschema", "#2"),
        ("subject", "/orders/7"),
        ("tenant", "NORTH"),
        ("data.a.b", "deep"),
    ] {
        let changes = json!({"tenant": "north", "dataschema": "#2", "data": {"a": {"b": "deep"}}});
        check(one("StringIn", key, json!([value])), changes, true).await;
    }
}

#[tokio::test]
async fn table_4_filters_must_all_agree_and_are_limited() {
    let both = |second: &str| {
        json!({"filters": [
            {"operatorType": "StringBeginsWith", "key": "subject", "values": ["/nothing", "/ORDERS"]},
            {"operatorType": "StringEndsWith", "key": "subject", "values": [second]}]})
    };
    check(both("7"), json!({}), true).await;
    check(both("8"), json!({}), false).await;
    let grid = grid().await;
    let filter = |values: usize, text: &str| {
        let values = vec![text; values];
        json!({"operatorType": "StringIn", "key": "subject", "values": values})
    };
    let of = |filters: Vec<Value>| {
        definition(
            json!({}),
            json!({"filtersConfiguration": {"filters": filters}}),
        )
    };
    let at = "properties.filtersConfiguration.filters";
    for (body, target) in [
        (of(vec![filter(1, "a"); 26]), at.to_owned()),
        (of(vec![filter(13, "a"), filter(13, "a")]), at.to_owned()),
        (
            of(vec![filter(1, &"x".repeat(513))]),
            format!("{at}[0].values[0]"),
        ),
        (
            of(vec![json!({"operatorType": "Like", "key": "id"})]),
            format!("{at}[0].operatorType"),
        ),
    ] {
        assert_eq!(rejected(&grid, body).await.0, target);
    }
    put(
        &grid,
        super::SUBSCRIPTION,
        of(vec![filter(25, &"x".repeat(512))]),
    )
    .await;
}

#[tokio::test]
async fn filters_are_explained_and_tried_under_their_own_names() {
    let filters = json!({"filtersConfiguration": {"includedEventTypes": ["order.PAID"], "filters":
        [{"operatorType": "NumberNotInRange", "key": "data.missing", "values": [[1, 2]]}]}});
    let grid = subscribed("200", json!({}), filters).await;
    super::publish(&grid, json!([cloud_event("e1")])).await;
    let path = format!("{}/explain", super::SUBSCRIPTION);
    let asked = json!({"event": cloud_event("e2")});
    let explained = grid.manage(Method::POST, &path, asked).await.json();
    let clauses = &explained["clauses"];
    assert_eq!(explained["matched"], false, "{explained}");
    assert_eq!(
        (
            &clauses[0]["held"],
            &clauses[1]["held"],
            &clauses[1]["clause"]
        ),
        (&json!(true), &json!(false), &json!("filters[0]"))
    );
    let path = format!("{}/tryFilter", super::TOPIC);
    let tried = json!({"filter": {"includedEventTypes": ["ORDER.paid"]}});
    let tried = grid.manage(Method::POST, &path, tried).await.json();
    assert_eq!(tried["matched"]["count"], 1, "{tried}");
    let foreign = json!({"filter": {"subjectBeginsWith": "/"}});
    let rejected = grid.manage(Method::POST, &path, foreign).await;
    rejected.error(400, "InvalidRequest");
}
