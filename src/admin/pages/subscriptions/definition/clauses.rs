//! Advanced filters, in rows of fields or as JSON.
//!
//! There is one of the two in a form at a time, and what is there is what counts: with a field for JSON there
//! are no rows. Rows can always be turned into JSON; JSON into rows if it is a filter that they can say.

use serde_json::{Value, json};

use super::rows::Rows;
use super::value::{list, text, words};
use crate::admin::forms::field::Field;
use crate::admin::forms::form::{Form, Refusal};
use crate::model::filter::{Dialect, Operator, OperatorRow, Takes};
use crate::model::limits::FILTERS_MAX;
use crate::wire::resource::{parse_filter, render_filter};

/// The list of filters, and the field that has it as JSON.
pub(crate) const ADVANCED: &str = "advancedFilters";

const OPERATOR: &str = "operatorType";
const KEY: &str = "key";
const VALUES: &str = "values";

const ROWS: Rows = Rows {
    list: ADVANCED,
    parts: &[OPERATOR, KEY, VALUES],
};

/// The id of the list of keys to choose from.
pub(crate) const KEYS_ID: &str = "filter-keys";

/// What the buttons say that change the rows.
pub(crate) const ADD: &str = "add";
pub(crate) const TO_JSON: &str = "to-json";
pub(crate) const TO_ROWS: &str = "to-rows";
/// The index of a row follows.
pub(crate) const REMOVE: &str = "remove-";

/// Advanced filters as fields.
pub(crate) enum ClauseFields {
    Json(Field),
    Rows(Vec<ClauseRow>),
}

/// One advanced filter as fields.
pub(crate) struct ClauseRow {
    pub(crate) title: String,
    /// What the button says that removes it.
    pub(crate) remove: String,
    pub(crate) fields: [Field; 3],
}

/// Puts these filters into the form: as rows if those can say them.
pub(crate) fn fill(form: &mut Form, clauses: &Value) {
    clear(form);
    for (index, clause) in clauses.as_array().into_iter().flatten().enumerate() {
        put(form, index, clause);
    }
    let clauses = clauses.as_array().map(Vec::as_slice).unwrap_or_default();
    if rows(form) != clauses {
        clear(form);
        form.set(ADVANCED, list(&clauses.into()));
    }
}

/// The filters of the document; `null` for none.
pub(crate) fn document(form: &Form) -> Result<Value, Refusal> {
    match (form.has(ADVANCED), rows(form)) {
        (true, _) => form.json(ADVANCED),
        (false, rows) if rows.is_empty() => Ok(Value::Null),
        (false, rows) => Ok(rows.into()),
    }
}

/// Where a fault is seen in the form: by the field of its row, or with its path before it in JSON.
pub(crate) fn place(form: &Form, refusal: Refusal) -> Refusal {
    let Some((_, inside)) = refusal.target.split_once(ADVANCED) else {
        return refusal;
    };
    // What marks code in other places stands as it is in a page.
    let problem = refusal.problem.replace('`', "");
    if form.has(ADVANCED) {
        let problem = format!("{ADVANCED}{inside}: {problem}");
        return Refusal::of(ADVANCED, problem);
    }
    let target = match inside.strip_suffix(".value") {
        // Rows have one field for both.
        Some(row) => format!("{ADVANCED}{row}.{VALUES}"),
        // Too many of them are told by the last one.
        None if inside.is_empty() => ROWS.name(ROWS.count(form).saturating_sub(1), VALUES),
        None => format!("{ADVANCED}{inside}"),
    };
    Refusal { target, problem }
}

/// Fills in every row that there can be with a filter that passes everything.
pub(crate) fn set_examples(form: &mut Form) {
    let example = json!({ OPERATOR: "IsNotNull", KEY: "id", VALUES: [] });
    (0..FILTERS_MAX).for_each(|index| put(form, index, &example));
}

/// Does what a button of the rows says; `None` if there is no such button.
pub(crate) fn apply(button: &str, form: &mut Form) -> Option<Result<(), Refusal>> {
    match button {
        ADD => add(form),
        TO_JSON => to_json(form),
        TO_ROWS => return Some(to_rows(form)),
        other => ROWS.remove(form, other.strip_prefix(REMOVE)?.parse().ok()?),
    }
    Some(Ok(()))
}

fn add(form: &mut Form) {
    let index = ROWS.count(form);
    if index < FILTERS_MAX && !form.has(ADVANCED) {
        put(form, index, &Value::Null);
    }
}

fn to_json(form: &mut Form) {
    if !form.has(ADVANCED) {
        let json = list(&rows(form).into());
        clear(form);
        form.set(ADVANCED, json);
    }
}

fn to_rows(form: &mut Form) -> Result<(), Refusal> {
    let given = json!({ ADVANCED: document(form)? });
    let parsed = parse_filter(Dialect::Basic, &given);
    let parsed = parsed.map_err(|error| place(form, error.into()))?;
    let typed = form.raw(ADVANCED).to_owned();
    fill(form, &render_filter(&parsed)[ADVANCED]);
    if !form.has(ADVANCED) {
        return Ok(());
    }
    form.set(ADVANCED, typed);
    let problem =
        "Rows cannot say this: a value is empty, has a line break, or white space at an end.";
    Err(Refusal::of(ADVANCED, problem))
}

fn clear(form: &mut Form) {
    form.remove(ADVANCED);
    ROWS.clear(form);
}

fn put(form: &mut Form, index: usize, clause: &Value) {
    form.set(ROWS.name(index, OPERATOR), text(&clause[OPERATOR]));
    form.set(ROWS.name(index, KEY), text(&clause[KEY]));
    let values = match (&clause["value"], clause[VALUES].as_array()) {
        (_, Some(values)) => values.iter().map(line).collect(),
        (value, None) => vec![line(value)],
    };
    form.set(ROWS.name(index, VALUES), values.join("\n"));
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
    (0..ROWS.count(form))
        .map(|index| clause(form, index))
        .collect()
}

fn clause(form: &Form, index: usize) -> Value {
    let operator = form.filled(&ROWS.name(index, OPERATOR));
    let takes = operator.and_then(Operator::from_name);
    let takes = takes.map(|operator| operator.row().takes);
    let mut clause = json!({ OPERATOR: operator, KEY: form.filled(&ROWS.name(index, KEY)) });
    let lines = words(form.raw(&ROWS.name(index, VALUES)), '\n');
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

/// The fields for the filters in the form.
pub(crate) fn fields(form: &Form) -> ClauseFields {
    if form.has(ADVANCED) {
        return ClauseFields::Json(Field::area(ADVANCED, "Advanced filters as JSON", 8, form).hint(
            "A list in Azure's form, such as \
             [{\"operatorType\": \"NumberGreaterThan\", \"key\": \"data.total\", \"value\": 100}]. While \
             it is here it is all there is: rows come back with the button below.",
        ));
    }
    ClauseFields::Rows(
        (0..ROWS.count(form))
            .map(|index| row(form, index))
            .collect(),
    )
}

fn row(form: &Form, index: usize) -> ClauseRow {
    let title = format!("Clause {}", index + 1);
    let fields = [
        Field::line(&ROWS.name(index, KEY), "Key", form)
            .mono()
            .suggesting(KEYS_ID),
        Field::grouped_choice(&ROWS.name(index, OPERATOR), "Operator", operators(), form),
        Field::area(&ROWS.name(index, VALUES), "Values", 2, form),
    ];
    ClauseRow {
        remove: format!("{REMOVE}{index}"),
        fields: fields.map(|field| field.within(title.as_str())),
        title,
    }
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
        assert_eq!(ROWS.count(&form), Operator::ALL.len());
        assert_eq!(document(&form), Ok(clauses.clone()));
        let known = json!({ ADVANCED: clauses });
        parse_filter(Dialect::Basic, &known).expect("a filter");

        apply(TO_JSON, &mut form).expect("a button").expect("done");
        assert_eq!((form.has(ADVANCED), ROWS.count(&form)), (true, 0));
        assert_eq!(document(&form), Ok(clauses.clone()));
        apply(TO_ROWS, &mut form).expect("a button").expect("done");
        assert_eq!((form.has(ADVANCED), ROWS.count(&form)), (false, 19));
        assert_eq!(document(&form), Ok(clauses));
    }

    #[test]
    fn every_line_is_a_value_of_its_own() {
        let clauses = json!([
            { OPERATOR: "StringIn", KEY: "subject", VALUES: ["1", "true", "a, b", "[\"c\"]"] },
            { OPERATOR: "NumberNotInRange", KEY: "data.n", VALUES: [[1, 2], [3.5, 10]] },
        ]);
        let mut form = Form::default();
        fill(&mut form, &clauses);
        assert_eq!(form.raw(&ROWS.name(1, VALUES)), "1, 2\n3.5, 10");
        assert_eq!(document(&form), Ok(clauses));
    }

    #[test]
    fn what_rows_cannot_say_stays_json() {
        for value in ["", " x", "x\ny"] {
            let clauses = json!([{ OPERATOR: "StringIn", KEY: "subject", VALUES: [value] }]);
            let mut form = Form::default();
            fill(&mut form, &clauses);
            assert_eq!(
                (form.has(ADVANCED), ROWS.count(&form)),
                (true, 0),
                "{value:?}"
            );
            assert_eq!(document(&form), Ok(clauses));
            let typed = form.raw(ADVANCED).to_owned();
            let refusal = apply(TO_ROWS, &mut form).expect("a button");
            assert!(refusal.expect_err("no rows").is_about(ADVANCED));
            assert_eq!(form.raw(ADVANCED), typed);
        }
    }

    #[test]
    fn rows_are_added_and_removed_with_what_is_typed_in_others() {
        let mut form = Form::default();
        for key in ["a", "b", "c"] {
            apply(ADD, &mut form).expect("a button").expect("done");
            form.set(ROWS.name(ROWS.count(&form) - 1, KEY), key);
        }
        apply("remove-1", &mut form)
            .expect("a button")
            .expect("done");
        let keys = [0, 1].map(|index| form.text(&ROWS.name(index, KEY)).to_owned());
        assert_eq!(keys, ["a", "c"]);
        assert_eq!(ROWS.count(&form), 2);
        apply("remove-7", &mut form)
            .expect("a button")
            .expect("nothing to do");
        assert_eq!(ROWS.count(&form), 2);
        assert!(apply("remove-x", &mut form).is_none());
        assert!(apply("dance", &mut form).is_none());
        for _ in 0..2 * FILTERS_MAX {
            apply(ADD, &mut form).expect("a button").expect("done");
        }
        assert_eq!(ROWS.count(&form), FILTERS_MAX);
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
            put(&mut form, 0, &json!({ OPERATOR: "IsNotNull", KEY: "id" }));
            form.set(ROWS.name(1, OPERATOR), operator);
            form.set(ROWS.name(1, KEY), key);
            form.set(ROWS.name(1, VALUES), values);
            let given = json!({ ADVANCED: document(&form).expect("a list") });
            let error = parse_filter(Dialect::Basic, &given).expect_err(values);
            let refusal = place(&form, error.into());
            let closeness = refusal.closeness(&ROWS.name(1, fault));
            assert_eq!(closeness, 2, "{operator} {key} {values}: {refusal:?}");
        }
        let mut form = Form::default();
        form.set(ADVANCED, "[{}]");
        let refusal = place(&form, Refusal::of("filter.advancedFilters[0].key", "no"));
        assert_eq!(refusal, Refusal::of(ADVANCED, "advancedFilters[0].key: no"));
    }
}
