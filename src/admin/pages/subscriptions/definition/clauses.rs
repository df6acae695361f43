//! Advanced filters, in rows of fields or as JSON.
//!
//! A form has either rows or the JSON field. If the JSON field is present, there are no rows. Rows can always be
//! converted to JSON. JSON can be converted to rows only if rows can express the filter.

use serde_json::{Value, json};

use super::CLAUSES;
use crate::admin::forms::document::words;
use crate::admin::forms::form::{Form, FormError};
use crate::admin::forms::json_fault;
use crate::admin::widgets::print::sentence;
use crate::model::filter::{Dialect, Operator, Takes};
use crate::wire::resource::{parse_filter, render_filter};

/// The form field that holds the advanced filters as JSON.
const ADVANCED: &str = CLAUSES.list;

const OPERATOR: &str = "operatorType";
const KEY: &str = "key";
const VALUES: &str = "values";

fn name(index: usize, part: &str) -> String {
    format!("{ADVANCED}[{index}].{part}")
}

/// Puts the filters `clauses` into the form, as rows if rows can express them.
pub(crate) fn fill(form: &mut Form, clauses: &Value) {
    clear(form);
    let elements = clauses.as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, clause) in elements.iter().enumerate() {
        let lines: Vec<String> = match clause[VALUES].as_array() {
            Some(values) => values.iter().map(line).collect(),
            None => vec![line(&clause["value"])],
        };
        form.set(name(index, KEY), line(&clause[KEY]));
        form.set(name(index, OPERATOR), line(&clause[OPERATOR]));
        form.set(name(index, VALUES), lines.join("\n"));
    }
    if rows(form) != elements {
        clear(form);
        form.set(ADVANCED, format!("{:#}", json!(elements)));
    }
}

/// Returns the filters in the form, if any, or the error in the JSON.
pub(crate) fn read(form: &Form) -> Result<Option<Value>, String> {
    let rows = rows(form);
    match form.filled(ADVANCED) {
        Some(text) => serde_json::from_str(text)
            .map(Some)
            .map_err(|error| json_fault::words(&error)),
        None => Ok((!rows.is_empty()).then(|| rows.into())),
    }
}

/// Returns the error for a problem at the path `inside` the list. The error belongs to the row of the clause, or to the
/// JSON field, where the text includes the path.
pub(crate) fn place(form: &Form, inside: &str, problem: &str) -> FormError {
    // Backticks, which mark code elsewhere, would be shown literally on a page.
    let is_empty = form.filled(&format!("{ADVANCED}{inside}")).is_none();
    let problem = match (form.has(ADVANCED), inside.rsplit('.').next()) {
        (false, Some(OPERATOR)) if is_empty => "Choose an operator.".into(),
        (false, Some(KEY)) if is_empty => "Enter a key, such as data.total.".into(),
        _ => problem.replace('`', ""),
    };
    if form.has(ADVANCED) {
        FormError::of(ADVANCED, format!("{ADVANCED}{inside}: {problem}"))
    } else {
        // A row has a single field for both `value` and `values`.
        match inside.strip_suffix(".value") {
            Some(row) => FormError::of(&format!("{ADVANCED}{row}.{VALUES}"), problem),
            None => FormError::of(&format!("{ADVANCED}{inside}"), problem),
        }
    }
}

/// Runs the action of a button of the rows; `None` if there is no such button.
pub(crate) fn press(button: &str, form: &mut Form) -> Option<Result<(), FormError>> {
    match button {
        "to-json" => {
            let json = format!("{:#}", json!(rows(form)));
            if !form.has(ADVANCED) {
                clear(form);
                form.set(ADVANCED, if json == "[]" { String::new() } else { json });
            }
        }
        "to-rows" => return Some(to_rows(form)),
        other => CLAUSES.press(other, form)?,
    }
    Some(Ok(()))
}

fn to_rows(form: &mut Form) -> Result<(), FormError> {
    let given = read(form).map_err(|problem| FormError::of(ADVANCED, problem))?;
    let parsed = parse_filter(Dialect::Basic, &json!({ ADVANCED: given })).map_err(|invalid| {
        let fault = invalid.first();
        let inside = fault.path.strip_prefix(ADVANCED).unwrap_or_default();
        place(form, inside, &sentence(&fault.problem))
    })?;
    let typed = form.raw(ADVANCED).to_owned();
    fill(form, &render_filter(&parsed)[ADVANCED]);
    if !form.has(ADVANCED) {
        return Ok(());
    }
    form.set(ADVANCED, typed);
    let problem =
        "Rows cannot say this: a value is empty, has a line break, or white space at an end.";
    Err(FormError::of(ADVANCED, problem))
}

fn clear(form: &mut Form) {
    form.remove(ADVANCED);
    while CLAUSES.count(form) > 0 {
        form.remove_element(ADVANCED, 0);
    }
}

fn line(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(ends) => ends.iter().map(line).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// Returns the rows in the format of the document, valid or not.
fn rows(form: &Form) -> Vec<Value> {
    let rows = 0..CLAUSES.count(form);
    rows.map(|index| clause(form, index)).collect()
}

fn clause(form: &Form, index: usize) -> Value {
    let operator = form.filled(&name(index, OPERATOR));
    let takes = operator
        .and_then(Operator::from_name)
        .map(|operator| operator.row().takes);
    let mut clause = json!({ OPERATOR: operator, KEY: form.filled(&name(index, KEY)) });
    let lines = words(form.raw(&name(index, VALUES)), '\n');
    match (takes, lines.as_slice()) {
        (_, []) => {}
        (Some(Takes::Number | Takes::Bool), [line]) => clause["value"] = scalar(line),
        (Some(Takes::Number | Takes::Numbers | Takes::Bool), lines) => {
            clause[VALUES] = lines.iter().map(|line| scalar(line)).collect();
        }
        (Some(Takes::Ranges), lines) => {
            let range =
                |line: &&str| -> Value { line.split(',').map(|end| scalar(end.trim())).collect() };
            clause[VALUES] = lines.iter().map(range).collect();
        }
        (Some(Takes::Texts | Takes::Nothing) | None, lines) => clause[VALUES] = json!(lines),
    }
    clause
}

/// Returns a number, `true` or `false`; any other text stays a string, which validation then rejects.
fn scalar(line: &str) -> Value {
    match serde_json::from_str(line) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::filter::OperatorRow;

    fn document(form: &Form) -> Value {
        read(form).expect("JSON").unwrap_or_default()
    }

    /// One clause with each operator, as it is rendered.
    fn every_operator() -> Value {
        let clause = |row: &OperatorRow| {
            let mut clause = json!({ OPERATOR: row.name, KEY: "data.total" });
            match row.takes {
                Takes::Nothing => {}
                Takes::Number => clause["value"] = json!(1.5),
                Takes::Numbers => clause[VALUES] = json!([1, 1e300]),
                Takes::Ranges => clause[VALUES] = json!([[-0.5, 10]]),
                Takes::Bool => clause["value"] = json!(true),
                Takes::Texts => clause[VALUES] = json!(["1"]),
            }
            clause
        };
        Operator::ALL.iter().map(clause).collect()
    }

    #[test]
    fn every_operator_survives_rows_and_json() {
        let clauses = every_operator();
        let mut form = Form::default();
        fill(&mut form, &clauses);
        assert!(!form.has(ADVANCED));
        assert_eq!(CLAUSES.count(&form), Operator::ALL.len());
        assert_eq!(document(&form), clauses);
        let known = json!({ ADVANCED: clauses });
        parse_filter(Dialect::Basic, &known).expect("a filter");

        press("to-json", &mut form)
            .expect("a button")
            .expect("done");
        assert_eq!((form.has(ADVANCED), CLAUSES.count(&form)), (true, 0));
        assert_eq!(document(&form), clauses);
        press("to-rows", &mut form)
            .expect("a button")
            .expect("done");
        assert_eq!((form.has(ADVANCED), CLAUSES.count(&form)), (false, 19));
        assert_eq!(document(&form), clauses);
    }

    #[test]
    fn every_line_is_a_value_of_its_own() {
        let clauses = json!([
            { OPERATOR: "StringIn", KEY: "subject", VALUES: ["1", "true", "a, b", "[\"c\"]"] },
            { OPERATOR: "NumberNotInRange", KEY: "data.n", VALUES: [[1, 2], [3.5, 10]] },
        ]);
        let mut form = Form::default();
        fill(&mut form, &clauses);
        assert_eq!(form.raw(&name(1, VALUES)), "1, 2\n3.5, 10");
        assert_eq!(document(&form), clauses);
    }

    #[test]
    fn what_rows_cannot_say_stays_json() {
        for value in ["", " x", "x\ny"] {
            let clauses = json!([{ OPERATOR: "StringIn", KEY: "subject", VALUES: [value] }]);
            let mut form = Form::default();
            fill(&mut form, &clauses);
            assert_eq!(
                (form.has(ADVANCED), CLAUSES.count(&form)),
                (true, 0),
                "{value:?}"
            );
            assert_eq!(document(&form), clauses);
            let typed = form.raw(ADVANCED).to_owned();
            let form_error = press("to-rows", &mut form).expect("a button");
            assert_eq!(form_error.expect_err("no rows").target, ADVANCED);
            assert_eq!(form.raw(ADVANCED), typed);
        }
    }

    #[test]
    fn there_is_no_other_button() {
        let mut form = Form::default();
        press("add-clause", &mut form)
            .expect("a button")
            .expect("done");
        assert_eq!(CLAUSES.count(&form), 1);
        assert!(press("dance", &mut form).is_none());
    }

    #[test]
    fn faults_are_told_by_the_field_of_the_row() {
        for (operator, key, values, fault) in [
            ("", "data.n", "1", OPERATOR),
            ("NumberIn", "", "1", KEY),
            ("NumberIn", "data..n", "1", KEY),
            ("NumberIn", "data.n", "1\nmany", VALUES),
            ("NumberIn", "data.n", "", VALUES),
            ("NumberLessThan", "data.n", "", VALUES),
            ("NumberLessThan", "data.n", "1\n2", VALUES),
            ("NumberInRange", "data.n", "1", VALUES),
            ("NumberInRange", "data.n", "2, 1", VALUES),
            ("BoolEquals", "data.b", "yes", VALUES),
            ("IsNotNull", "data.b", "1", VALUES),
        ] {
            let mut form = Form::default();
            form.set(name(0, OPERATOR), "IsNotNull");
            form.set(name(0, KEY), "id");
            form.set(name(1, OPERATOR), operator);
            form.set(name(1, KEY), key);
            form.set(name(1, VALUES), values);
            let error = parse_filter(Dialect::Basic, &json!({ ADVANCED: document(&form) }));
            let error = error.expect_err(values);
            let inside = error
                .first()
                .path
                .strip_prefix(ADVANCED)
                .expect("in the list");
            let form_error = place(&form, inside, "no");
            let fits = form_error.fits(&name(1, fault));
            assert!(fits, "{operator} {key} {values}: {form_error:?}");
        }
        let mut form = Form::default();
        form.set(ADVANCED, "[{}]");
        let form_error = place(&form, "[0].key", "no");
        assert_eq!(
            form_error,
            FormError::of(ADVANCED, "advancedFilters[0].key: no")
        );
    }
}
