//! Errors in JSON that somebody typed, in plain words.

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
    let mut told = bad.clone();
    if let Some((expected, found)) = bad.misfit {
        told.problem = format!("{expected} is expected here, and this is {found}");
    }
    counted(&told.to_string())
}

/// A reason of the publish API as a sentence, with the events counted from 1.
pub(crate) fn counted(reason: &str) -> String {
    let reason = reason.replacen("it is not valid JSON: ", "not valid JSON, ", 1);
    let event = reason.strip_prefix("event [");
    let event = event.and_then(|event| event.split_once(']'));
    let number = event.and_then(|(index, rest)| Some((index.parse::<usize>().ok()? + 1, rest)));
    let told = number.map(|(number, rest)| {
        let missing = rest.strip_prefix(", field ");
        match missing.and_then(|rest| rest.strip_suffix(": it is missing")) {
            Some(field) => format!("Event {number} has no {field}"),
            None => format!(
                "Event {number}{}",
                rest.replacen(", field ", ", property ", 1)
            ),
        }
    });
    print::sentence(&told.unwrap_or(reason))
}
