//! Which events it wants.

use serde_json::{Value, json};

use super::clauses::{self, ADVANCED, ClauseFields};
use super::value::{joined, text, ticked, words};
use crate::admin::forms::field::Field;
use crate::admin::forms::form::{Form, Refusal};

const TYPES: &str = "includedEventTypes";
const BEGINS: &str = "subjectBeginsWith";
const ENDS: &str = "subjectEndsWith";
const CASE: &str = "isSubjectCaseSensitive";
const ON_ARRAYS: &str = "enableAdvancedFilteringOnArrays";

/// The fields, in their order.
pub(crate) struct FilterFields {
    pub(crate) basic: Vec<Field>,
    pub(crate) clauses: ClauseFields,
    /// Namespaces know no such thing.
    pub(crate) on_arrays: Option<Field>,
}

pub(crate) fn fill(form: &mut Form, properties: &Value) {
    let filter = &properties["filter"];
    form.set(TYPES, joined(&filter[TYPES], "\n"));
    form.set(BEGINS, text(&filter[BEGINS]));
    form.set(ENDS, text(&filter[ENDS]));
    form.set(CASE, ticked(&filter[CASE]));
    clauses::fill(form, &filter[ADVANCED]);
    form.set(ON_ARRAYS, ticked(&filter[ON_ARRAYS]));
}

/// The `filter` of the document.
pub(crate) fn document(form: &Form) -> Result<Value, Refusal> {
    let types = words(form.text(TYPES), '\n');
    let mut filter = json!({
        TYPES: (!types.is_empty()).then_some(types),
        BEGINS: form.text(BEGINS),
        ENDS: form.text(ENDS),
        CASE: form.is_on(CASE),
    });
    let advanced = clauses::document(form)?;
    if !advanced.is_null() {
        filter[ADVANCED] = advanced;
        filter[ON_ARRAYS] = form.is_on(ON_ARRAYS).into();
    }
    Ok(filter)
}

pub(crate) fn fields(form: &Form) -> FilterFields {
    FilterFields {
        basic: vec![
            Field::area(TYPES, "Event types", 3, form)
                .hint("One per line, in their exact spelling. Empty takes every type."),
            Field::line(BEGINS, "Subject begins with", form).mono(),
            Field::line(ENDS, "Subject ends with", form).mono(),
            Field::tick(CASE, "Case-sensitive subject", form),
        ],
        clauses: clauses::fields(form),
        on_arrays: Some(Field::tick(
            ON_ARRAYS,
            "Advanced filters look into arrays",
            form,
        )),
    }
}
