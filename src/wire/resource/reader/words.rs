//! Descriptions of the values that a schema expects, and of values that do not match it.

use std::fmt::Write;

use serde_json::Value;
use url::Url;

use crate::wire::bad_input::quoted;
pub(super) use crate::wire::bad_input::shortened;

/// Returns the words that a schema allows; `None` if the schema does not list any.
pub(super) fn of(schema: &Value) -> Option<Vec<&str>> {
    match (schema["const"].as_str(), schema["enum"].as_array()) {
        (Some(word), _) => Some(vec![word]),
        (None, Some(words)) => Some(words.iter().filter_map(Value::as_str).collect()),
        // A `oneOf` lists words that each have a description.
        (None, None) => {
            let words = schema["oneOf"].as_array()?.iter();
            words.map(|word| word["const"].as_str()).collect()
        }
    }
}

/// Describes the expected value, in words that follow "it must be".
pub(super) fn expected(schema: &Value) -> String {
    if let Some(words) = schema["x-expected"].as_str() {
        return words.to_owned();
    }
    if let Some(words) = of(schema) {
        return one_of(&words);
    }
    let (low, high) = (&schema["minimum"], &schema["maximum"]);
    match schema["type"].as_str() {
        Some("array") => "a list".to_owned(),
        Some("string") => "a string".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("integer") => format!("a whole number from {low} to {high}"),
        Some("number") => {
            let decimals = &schema["x-decimals"];
            format!("a number from {low} to {high} with up to {decimals} decimals")
        }
        _ => "an object".to_owned(),
    }
}

/// Describes the fault of a string, if there is one, without showing the string.
pub(super) fn text_problem(text: &str, schema: &Value) -> Option<String> {
    let limit = |keyword: &str| schema[keyword].as_u64();
    let is_more = |count: usize, most: &u64| count as u64 > *most;
    if text.is_empty() && limit("minLength").is_some() {
        return Some(format!("it is empty; it must be {}", expected(schema)));
    }
    let count = text.chars().count();
    if let Some(most) = limit("maxLength").filter(|most| is_more(count, most)) {
        return Some(format!(
            "its {count} characters are too many: at most {most}"
        ));
    }
    let count = text.len();
    if let Some(most) = limit("x-maxBytes").filter(|most| is_more(count, most)) {
        return Some(format!(
            "it must have at most {most} bytes, but it has {count}"
        ));
    }
    None
}

/// Describes the fault in the length of a list, if there is one.
pub(super) fn length_problem(count: usize, schema: &Value) -> Option<String> {
    let limit = |keyword: &str| {
        schema[keyword]
            .as_u64()
            .and_then(|limit| usize::try_from(limit).ok())
    };
    let most = limit("maxItems")?;
    let noun = schema["x-noun"].as_str().unwrap_or("elements");
    let problem = match limit("minItems") {
        Some(least) if !(least..=most).contains(&count) => {
            format!("it must have {least} to {most} {noun}, but it has {count}")
        }
        None if count > most => format!("at most {most} {noun} are allowed, but there are {count}"),
        Some(_) | None => return None,
    };
    Some(problem + &hint(schema))
}

/// Returns the hint that the schema adds to a problem, or nothing.
pub(super) fn hint(schema: &Value) -> String {
    schema["x-hint"]
        .as_str()
        .map(|hint| format!("; {hint}"))
        .unwrap_or_default()
}

/// Returns the words that a problem begins with, if the schema has any.
pub(super) fn prefix(schema: &Value) -> String {
    schema["x-prefix"].as_str().unwrap_or_default().to_owned()
}

/// Reports whether two values are the same. Differences in line endings are ignored, since forms change these.
/// Differences between spellings of the same URL are ignored, since the store keeps only one spelling.
pub(super) fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(Value::String(one)), Some(Value::String(other))) => {
            let url = |text: &str| Url::parse(text).ok();
            one.lines().eq(other.lines()) || url(one).is_some_and(|one| Some(one) == url(other))
        }
        (one, other) => one.unwrap_or(&Value::Null) == other.unwrap_or(&Value::Null),
    }
}

/// Reports whether a value is a number that the schema allows.
pub(super) fn is_number_of(schema: &Value, value: &Value) -> bool {
    let limit = |keyword: &str| schema[keyword].as_f64();
    let is_whole = value.is_u64() || value.is_i64();
    let Some(number) = value
        .as_f64()
        .filter(|_| is_whole || schema["type"] == "number")
    else {
        return false;
    };
    let is_within = limit("minimum").is_none_or(|least| number >= least)
        && limit("maximum").is_none_or(|most| number <= most);
    let decimals = schema["x-decimals"]
        .as_u64()
        .and_then(|decimals| decimals.try_into().ok());
    let is_exact = decimals.is_none_or(|decimals| {
        let shifted = number * 10_f64.powi(decimals);
        // Tolerance for the error of decimal fractions in binary floating point.
        (shifted - shifted.round()).abs() < 1e-6
    });
    is_within && is_exact
}

/// Returns the name of the type of a value, without the value.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Formats a value for an error message, shortened.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(_) | Value::Object(_) => kind(value).to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Joins quoted words: `"a"`, `"a" or "b"`, `"a", "b" or "c"`.
pub(in crate::wire::resource) fn one_of(words: &[&str]) -> String {
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        let joint = match at {
            0 => "",
            _ if at + 1 == words.len() => " or ",
            _ => ", ",
        };
        write!(text, "{joint}{word:?}").expect("a string takes everything");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_listed_in_a_sentence() {
        assert_eq!(one_of(&["a"]), "\"a\"");
        assert_eq!(one_of(&["a", "b", "c"]), "\"a\", \"b\" or \"c\"");
    }
}
