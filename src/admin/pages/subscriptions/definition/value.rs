//! Values of the document as fields hold them, and the other way round.

use serde_json::Value;

pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// For a box to tick.
pub(crate) fn ticked(value: &Value) -> String {
    let on = value.as_bool().unwrap_or(false);
    if on { "on".to_owned() } else { String::new() }
}

/// A list of texts, joined.
pub(crate) fn joined(value: &Value, separator: &str) -> String {
    let texts = value.as_array().into_iter().flatten();
    let texts: Vec<&str> = texts.filter_map(Value::as_str).collect();
    texts.join(separator)
}

/// A list as JSON; nothing for an empty one.
pub(crate) fn list(value: &Value) -> String {
    match value.as_array().map(Vec::as_slice) {
        None | Some([]) => String::new(),
        Some(_) => format!("{value:#}"),
    }
}

/// The texts between separators, without white space around them.
pub(crate) fn words(text: &str, separator: char) -> Vec<&str> {
    let words = text.split(separator).map(str::trim);
    words.filter(|word| !word.is_empty()).collect()
}
