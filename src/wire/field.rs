//! Checks of fields that all schemas share, such as text, required text, and date and time.

use crate::base::Timestamp;
use crate::wire::bad_input::{BadInput, quoted};
use crate::wire::json::{self, JsonKind};
use crate::wire::{media_type, moment, uri_reference};

/// Reads an optional string; `null` counts as absent.
pub(super) fn optional_text(field: &str, json: &str) -> Result<Option<String>, BadInput> {
    match JsonKind::of(json) {
        JsonKind::Null => Ok(None),
        JsonKind::String => string(field, json).map(Some),
        kind @ (JsonKind::Object
        | JsonKind::Array
        | JsonKind::Number
        | JsonKind::Boolean
        | JsonKind::Nothing) => {
            let found = kind.noun();
            let problem = format!("it is {found}; expected a string");
            Err(BadInput::in_field(field, problem))
        }
    }
}

/// Returns the text of `json`, which must be a JSON string.
pub(super) fn string(field: &str, json: &str) -> Result<String, BadInput> {
    json::string(json)
        .ok_or_else(|| BadInput::in_field(field, "its escapes do not make up valid Unicode text"))
}

/// Returns a required text, which must be present and not blank.
pub(super) fn required(field: &str, text: Option<String>) -> Result<String, BadInput> {
    match text {
        Some(text) if text.trim().is_empty() => Err(BadInput::in_field(field, "it is blank")),
        Some(text) => Ok(text),
        None => Err(BadInput::in_field(field, "it is missing")),
    }
}

/// Checks that a text is a URI reference.
pub(super) fn uri_reference(field: &str, text: String) -> Result<String, BadInput> {
    match uri_reference::problem(&text) {
        None => Ok(text),
        Some(problem) => {
            let problem = format!("{} is not a URI reference: {problem}", quoted(&text));
            Err(BadInput::in_field(field, problem))
        }
    }
}

/// Checks that a text is a media type, such as `application/json; charset=utf-8`.
pub(super) fn media_type(field: &str, text: String) -> Result<String, BadInput> {
    if media_type::is_media_type(&text) {
        return Ok(text);
    }
    let problem = format!(
        "{} is not a media type such as application/json",
        quoted(&text)
    );
    Err(BadInput::in_field(field, problem))
}

/// Returns a date and time with its zone in the format of RFC 3339. Other common forms of ISO 8601 (`+0000` from
/// `date`, a space for the `T`) are converted, so that every receiver can read them.
pub(super) fn date_time(field: &str, text: String) -> Result<String, BadInput> {
    // Requires a `T`: the parser accepts other separators of date and time, which strict receivers reject.
    if text.as_bytes().get(10) == Some(&b'T') && text.parse::<Timestamp>().is_ok() {
        return Ok(text);
    }
    match moment::respelled(&text) {
        Some(text) => Ok(text),
        None => Err(BadInput::in_field(
            field,
            format!(
                "{} is not a date and time with its zone; expected RFC 3339 such as {}",
                quoted(&text),
                "2026-11-21T06:40:53Z"
            ),
        )),
    }
}
