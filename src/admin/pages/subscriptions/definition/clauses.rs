//! Advanced filters, in rows of fields or as JSON.
//!
//! There is one of the two in a form at a time, and what is there is what counts: with a field for JSON there
//! are no rows. Rows can always be turned into JSON; JSON into rows if it is a filter that they can say.

use serde_json::{Value, json};

use super::properties::CLAUSES;
use crate::admin::forms::field::Field;
use crate::admin::forms::json_fault;
use crate::admin::forms::rows::{ListElement, set, text, words};
use crate::admin::page::*;
use crate::model::filter::{Dialect, Operator, OperatorRow, Takes};
use crate::wire::resource::{parse_filter, render_filter};

/// The field that has them as JSON.
pub(crate) const ADVANCED: &str = CLAUSES.name;

const OPERATOR: &str = "operatorType";
const KEY: &str = "key";
const VALUES: &str = "values";

/// What the buttons say that change from the one to the other.
pub(crate) const TO_JSON: &str = "to-json";
pub(crate) const TO_ROWS: &str = "to-rows";

/// Advanced filters as fields.
pub(crate) enum ClauseFields {
    Json(Box<Field>),
    Rows(Vec<ListElement>),
}

/// Puts these filters into the form: as rows if those can say them.
pub(crate) fn fill(form: &mut Form, clauses: &Value) {
    clear(form);
    for (index, clause) in clauses.as_array().into_iter().flatten().enumerate() {
        let values = match (&clause["value"], clause[VALUES].as_array()) {
            (_, Some(values)) => values.iter().map(line).collect(),
            (value, None) => json!([line(value)]),
        };
        let row = json!({ OPERATOR: clause[OPERATOR], KEY: clause[KEY], VALUES: values });
        CLAUSES.put(form, index, &row);
    }
    let clauses = clauses.as_array().map(Vec::as_slice).unwrap_or_default();
    if rows(form) != clauses {
        clear(form);
        form.set(ADVANCED, text(&clauses.into()));
    }
}

/// Puts the filters into the document; `null` for none.
pub(crate) fn write(form: &Form, path: &str, document: &mut Value) -> Result<(), Refusal> {
    let rows = rows(form);
    let clauses = match form.filled(ADVANCED) {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| Refusal::of(path, json_fault::words(&error)))?,
        None => json!((!rows.is_empty()).then_some(rows)),
    };
    set(document, path, clauses);
    Ok(())
}

/// Where a fault of the document is in the form: in its row, or with its path before it in JSON. The document has the
/// filters at `path`.
pub(crate) fn place(form: &Form, path: &str, refusal: Refusal) -> Refusal {
    let Some(inside) = refusal.target.strip_prefix(path) else {
        return refusal;
    };
    // What marks code in other places stands as it is in a page.
    let problem = refusal.problem.replace('`', "");
    if form.has(ADVANCED) {
        return Refusal::of(path, format!("{ADVANCED}{inside}: {problem}"));
    }
    // Rows have one field for both.
    let row = inside.strip_suffix(".value");
    let target = row.map_or(refusal.target.clone(), |row| {
        format!("{path}{row}.{VALUES}")
    });
    Refusal { target, problem }
}

/// Does what a button of the rows says; `None` if there is no such button.
pub(crate) fn press(button: &str, path: &str, form: &mut Form) -> Option<Result<(), Refusal>> {
    match button {
        TO_JSON => to_json(form),
        TO_ROWS => return Some(to_rows(form, path)),
        other => CLAUSES.press(other, form)?,
    }
    Some(Ok(()))
}

fn to_json(form: &mut Form) {
    if !form.has(ADVANCED) {
        let json = text(&rows(form).into());
        clear(form);
        form.set(ADVANCED, json);
    }
}

fn to_rows(form: &mut Form, path: &str) -> Result<(), Refusal> {
    let mut given = json!({});
    write(form, ADVANCED, &mut given)
        .map_err(|Refusal { problem, .. }| Refusal::of(path, problem))?;
    let parsed = parse_filter(Dialect::Basic, &given).map_err(|invalid| {
        let fault = invalid.first();
        let inside = fault.path.strip_prefix(ADVANCED).unwrap_or_default();
        place(
            form,
            path,
            Refusal::of(&format!("{path}{inside}"), sentence(&fault.problem)),
        )
    })?;
    let typed = form.raw(ADVANCED).to_owned();
    fill(form, &render_filter(&parsed)[ADVANCED]);
    if !form.has(ADVANCED) {
        return Ok(());
    }
    form.set(ADVANCED, typed);
    let problem =
        "Rows cannot say this: a value is empty, has a line break, or white space at an end.";
    Err(Refusal::of(path, problem))
}

fn clear(form: &mut Form) {
    form.remove(ADVANCED);
    CLAUSES.clear(form);
}

/// A value as a line.
fn line(value: &Value) -> String {
    match value.as_array() {
        Some(ends) => ends.iter().map(text).collect::<Vec<_>>().join(", "),
        None => text(value),
    }
}

/// The rows as the document has them, whether or not they are right.
fn rows(form: &Form) -> Vec<Value> {
    (0..CLAUSES.count(form))
        .map(|index| clause(form, index))
        .collect()
}

fn clause(form: &Form, index: usize) -> Value {
    let operator = form.filled(&CLAUSES.name(index, OPERATOR));
    let takes = operator.and_then(Operator::from_name);
    let takes = takes.map(|operator| operator.row().takes);
    let mut clause = json!({ OPERATOR: operator, KEY: form.filled(&CLAUSES.name(index, KEY)) });
    let lines = words(form.raw(&CLAUSES.name(index, VALUES)), '\n');
    match (takes, lines.as_slice()) {
        (_, []) => {}
        (Some(Takes::Number | Takes::Bool), [line]) => clause["value"] = scalar(line),
        (Some(Takes::Number | Takes::Numbers | Takes::Bool), lines) => {
            clause[VALUES] = lines.iter().map(|line| scalar(line)).collect();
        }
        (Some(Takes::Ranges), lines) => {
            clause[VALUES] = lines.iter().map(|line| range(line)).collect();
        }
        (Some(Takes::Texts | Takes::Nothing) | None, lines) => clause[VALUES] = json!(lines),
    }
    clause
}

/// A number, `true` or `false`; anything else stays a text, to be refused as what it is.
fn scalar(line: &str) -> Value {
    match serde_json::from_str(line) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => line.into(),
    }
}

fn range(line: &str) -> Value {
    line.split(',').map(|end| scalar(end.trim())).collect()
}

/// The fields for the filters in the form. The document has them at `path`.
pub(crate) fn fields(form: &Form, path: &str) -> ClauseFields {
    if form.has(ADVANCED) {
        let field = Field::area(ADVANCED, "Advanced filters as JSON", 8, form).at(path);
        return ClauseFields::Json(Box::new(field.hint(
            "A list in Azure's form, such as \
             [{\"operatorType\": \"NumberGreaterThan\", \"key\": \"data.total\", \"value\": 100}]. While \
             it is here it is all there is: rows come back with the button below.",
        )));
    }
    let mut elements = CLAUSES.elements(form, path);
    for field in elements
        .iter_mut()
        .filter_map(|clause| clause.fields.get_mut(1))
    {
        field.offer(operators(), form);
    }
    ClauseFields::Rows(elements)
}

/// All operators in plain words, beside Azure's.
fn operators() -> Vec<(&'static str, Vec<(String, String)>)> {
    let option = |row: &OperatorRow| {
        let text = format!("{} ({})", row.meaning, row.name);
        (row.name.to_owned(), text)
    };
    let taking = |takes: &[Takes]| {
        let rows = Operator::ALL
            .iter()
            .filter(|row| takes.contains(&row.takes));
        rows.map(option).collect()
    };
    let none = (String::new(), "Choose what the value must be".to_owned());
    vec![
        ("", vec![none]),
        ("Text", taking(&[Takes::Texts])),
        (
            "Number",
            taking(&[Takes::Number, Takes::Numbers, Takes::Ranges]),
        ),
        ("True or false", taking(&[Takes::Bool])),
        ("There or not", taking(&[Takes::Nothing])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "filter.advancedFilters";

    fn document(form: &Form) -> Value {
        let mut document = json!({});
        write(form, ADVANCED, &mut document).expect("JSON");
        document[ADVANCED].take()
    }

    fn press(button: &str, form: &mut Form) -> Option<Result<(), Refusal>> {
        super::press(button, PATH, form)
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

        press(TO_JSON, &mut form).expect("a button").expect("done");
        assert_eq!((form.has(ADVANCED), CLAUSES.count(&form)), (true, 0));
        assert_eq!(document(&form), clauses);
        press(TO_ROWS, &mut form).expect("a button").expect("done");
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
        assert_eq!(form.raw(&CLAUSES.name(1, VALUES)), "1, 2\n3.5, 10");
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
            let refusal = press(TO_ROWS, &mut form).expect("a button");
            assert_eq!(refusal.expect_err("no rows").target, PATH);
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
            form.set(CLAUSES.name(0, OPERATOR), "IsNotNull");
            form.set(CLAUSES.name(0, KEY), "id");
            form.set(CLAUSES.name(1, OPERATOR), operator);
            form.set(CLAUSES.name(1, KEY), key);
            form.set(CLAUSES.name(1, VALUES), values);
            let error = parse_filter(Dialect::Basic, &json!({ ADVANCED: document(&form) }));
            let error = error.expect_err(values);
            let target = format!("filter.{}", error.first().path);
            let refusal = place(&form, PATH, Refusal::of(&target, "no"));
            let closeness = refusal.closeness(&format!("{PATH}[1].{fault}"));
            assert!(closeness > 1, "{operator} {key} {values}: {refusal:?}");
        }
        let mut form = Form::default();
        form.set(ADVANCED, "[{}]");
        let refusal = Refusal::of("filter.advancedFilters[0].key", "no");
        let refusal = place(&form, PATH, refusal);
        assert_eq!(refusal, Refusal::of(PATH, "advancedFilters[0].key: no"));
    }
}
