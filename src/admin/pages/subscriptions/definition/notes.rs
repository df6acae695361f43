//! Its labels, and when it ends.

use serde_json::Value;

use super::value::{joined, text, words};
use crate::admin::forms::field::Field;
use crate::admin::forms::form::Form;

const LABELS: &str = "labels";
const ENDS_AT: &str = "expirationTimeUtc";

pub(crate) fn fill(form: &mut Form, properties: &Value) {
    form.set(LABELS, joined(&properties[LABELS], ", "));
    form.set(ENDS_AT, moment(&properties[ENDS_AT]));
}

pub(crate) fn write(form: &Form, properties: &mut Value) {
    properties[LABELS] = words(form.text(LABELS), ',').into();
    properties[ENDS_AT] = form.filled(ENDS_AT).map(with_seconds).into();
}

/// In a few words.
pub(crate) fn summary(form: &Form) -> String {
    let labels = match form.filled(LABELS) {
        None => "no labels".to_owned(),
        Some(labels) => format!("labels {labels}"),
    };
    match form.filled(ENDS_AT) {
        None => format!("{labels}, never ends"),
        Some(at) => format!("{labels}, ends at {} UTC", at.replace('T', " ")),
    }
}

pub(crate) fn fields(form: &Form) -> Vec<Field> {
    vec![
        Field::line(LABELS, "Labels", form).hint("Separated by commas."),
        Field::moment(ENDS_AT, "Ends at (UTC)", form)
            .hint("From then on it matches nothing. Empty means never."),
    ]
}

/// As an input for date and time wants it: `2026-11-21T06:40`.
fn moment(value: &Value) -> String {
    text(value).chars().take(16).collect()
}

/// Browsers leave the seconds out, and know no time zones here: it is UTC.
fn with_seconds(text: &str) -> String {
    match text.len() {
        16 => format!("{text}:00Z"),
        _ => text.to_owned(),
    }
}
