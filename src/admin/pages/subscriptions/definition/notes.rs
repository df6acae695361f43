//! Its labels, and when it ends.

use serde_json::Value;

use super::value::{joined, text, words};
use crate::admin::forms::field::Field;
use crate::admin::forms::form::Form;
use crate::admin::reader::Reader;

const LABELS: &str = "labels";
const ENDS_AT: &str = "expirationTimeUtc";

pub(crate) fn fill(form: &mut Form, properties: &Value) {
    form.set(LABELS, joined(&properties[LABELS], ", "));
    form.set(ENDS_AT, text(&properties[ENDS_AT]));
}

pub(crate) fn write(form: &Form, properties: &mut Value) {
    properties[LABELS] = words(form.text(LABELS), ',').into();
    properties[ENDS_AT] = form.filled(ENDS_AT).map(in_utc).into();
}

/// In a few words.
pub(crate) fn summary(form: &Form) -> String {
    let labels = match form.filled(LABELS) {
        None => "no labels".to_owned(),
        Some(labels) => format!("labels {labels}"),
    };
    match form.filled(ENDS_AT) {
        None => format!("{labels}, never expires"),
        Some(at) => {
            let zone = &Reader::current().zone;
            let at = zone.moment(at).map(|at| zone.typed(at).replace('T', " "));
            format!("{labels}, expires at {}", at.unwrap_or_default())
        }
    }
}

pub(crate) fn fields(form: &Form) -> Vec<Field> {
    vec![
        Field::line(LABELS, "Labels", form).hint("Separated by commas."),
        Field::moment(ENDS_AT, "Expires at", form),
    ]
}

/// What was typed by the clocks of the reader, in UTC; what is no moment stays as it is.
fn in_utc(text: &str) -> String {
    let at = Reader::current().zone.moment(text);
    at.map_or_else(|| text.to_owned(), |at| at.to_string())
}
