//! Plain-language descriptions of JSON syntax errors, for the author of the text.

use serde_json::Error;

/// Parts of serde_json's error messages, each with a description for the author of the text. The first part that a
/// message contains applies.
#[rustfmt::skip] // a table
const MEANINGS: [(&str, &str); 9] = [
    ("EOF", "it ends too early; a bracket, a brace or a quotation mark is still open"),
    ("expected `,`", "a comma is missing before this, or the wrong bracket closes here"),
    ("expected `:`", "a colon is expected between a name and its value"),
    ("key must be", "the name of a property is expected, in double quotation marks; behind the last one there is no comma"),
    ("trailing comma", "a comma has nothing behind it; take it out, or add what is missing"),
    ("trailing characters", "the text is complete before this; take out what follows, or put all into one list in brackets"),
    ("control character", "a text has a line break or a tab in it; write \\n or \\t"),
    ("invalid escape", "a backslash in a text is followed by something it cannot stand before; write \\\\ for a backslash"),
    ("expected", "a value is expected: a text in double quotation marks, a number, true, false, null, a list in \
        brackets or an object in braces"),
];

/// Returns where the parser stopped, and why, such as `line 1, column 7: it ends too early; …`.
pub fn words(error: &Error) -> String {
    let said = error.to_string();
    let meaning = MEANINGS
        .iter()
        .find(|(part, _)| said.contains(part))
        .map_or("this cannot be read", |(_, meaning)| meaning);
    let (line, column) = (error.line(), error.column());
    format!("line {line}, column {column}: {meaning}")
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::*;

    #[test]
    fn a_slip_is_told_by_its_place_and_in_plain_words() {
        for (text, place, meaning) in [
            ("{\"a\": 1", "line 1, column 7", "ends too early"),
            (
                "{\"a\": 1\n\"b\": 2}",
                "line 2, column 1",
                "a comma is missing",
            ),
            ("{\"a\" 1}", "column 6", "a colon is expected"),
            (
                "{\"a\": 1,\n}",
                "line 2, column 1",
                "the name of a property",
            ),
            ("{a: 1}", "column 2", "double quotation marks"),
            ("{} {}", "column 4", "complete before this"),
            ("[\"a\nb\"]", "line 1, column 3", "line break"),
            ("[\"\\x\"]", "column 4", "backslash"),
            ("[yes]", "column 2", "a value is expected"),
        ] {
            let error = serde_json::from_str::<IgnoredAny>(text).expect_err(text);
            let words = words(&error);
            assert!(
                words.contains(place) && words.contains(meaning),
                "{text}: {words}"
            );
            assert!(!words.contains('`'), "{words}");
        }
    }
}
