//! What is wrong with JSON that somebody typed, in words for whoever did.

use serde_json::Error;

use crate::admin::outside::*;
use crate::admin::widgets::print;
use crate::wire::{self, BadInput};

pub(crate) fn words(error: &Error) -> String {
    let found = wire::json_fault::words(error);
    format!("This is not JSON. {}", print::sentence(&found))
}

pub(crate) fn of_events(text: &str, bad: &BadInput) -> String {
    if text.trim_ascii().is_empty() {
        return "Nothing is typed here; an event is expected, as JSON.".to_owned();
    }
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        return words(&error);
    }
    let place = match (bad.index, &bad.field) {
        (Some(index), Some(field)) => format!("Event {}, property {field}: ", index + 1),
        (Some(index), None) => format!("Event {}: ", index + 1),
        (None, Some(field)) => format!("Property {field}: "),
        (None, None) => String::new(),
    };
    match bad.misfit {
        Some((expected, found)) => {
            format!("{place}{expected} is expected here, and this is {found}.")
        }
        None => format!("{place}{}.", bad.problem.trim_end_matches('.')),
    }
}
