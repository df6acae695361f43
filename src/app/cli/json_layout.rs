//! JSON laid out for reading, every value as it was written: to parse it and print it again would round
//! long numbers.

/// `json`, which must be valid, over several lines.
pub(super) fn laid_out(json: &str) -> String {
    let mut text = String::new();
    let mut level = 0_usize;
    let mut rest = json.trim_start();
    while !rest.is_empty() {
        let (token, after) = rest.split_at(token_length(rest));
        rest = after.trim_start();
        match token {
            "{" | "[" => {
                text.push_str(token);
                level += 1;
                // Nothing stands between the brackets of an empty array or object.
                if !rest.starts_with(['}', ']']) {
                    break_line(&mut text, level);
                }
            }
            "}" | "]" => {
                level = level.saturating_sub(1);
                if !text.ends_with(['{', '[']) {
                    break_line(&mut text, level);
                }
                text.push_str(token);
            }
            "," => {
                text.push(',');
                break_line(&mut text, level);
            }
            ":" => text.push_str(": "),
            value => text.push_str(value),
        }
    }
    text
}

fn break_line(text: &mut String, level: usize) {
    text.push('\n');
    text.push_str(&"  ".repeat(level));
}

/// Bytes of the token that `json` starts with: a punctuation mark, a string, or a number or word.
fn token_length(json: &str) -> usize {
    let is_end = |c: char| c.is_whitespace() || "{}[]:,\"".contains(c);
    match json.chars().next() {
        Some('"') => string_length(json),
        Some(first) if is_end(first) => first.len_utf8(),
        _ => json.find(is_end).unwrap_or(json.len()),
    }
}

fn string_length(json: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in json.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn values_keep_their_spelling() {
        for (json, expected) in [
            ("1.10", "1.10"),
            ("12345678901234567890123", "12345678901234567890123"),
            (" null ", "null"),
            ("{ }", "{}"),
            ("[[ ],{}]", "[\n  [],\n  {}\n]"),
            (
                r#"{"a":"b, \"c\": [\\","d":[1e400,true]}"#,
                "{\n  \"a\": \"b, \\\"c\\\": [\\\\\",\n  \"d\": [\n    1e400,\n    true\n  ]\n}",
            ),
        ] {
            assert_eq!(laid_out(json), expected);
        }
    }

    #[test]
    fn the_layout_is_that_of_a_parser_where_both_can_read() {
        for value in [
            json!({ "a": [1, [], {}, { "b": "  : , \" \\" }], "ü": null }),
            json!([[[1]], "x", { "y": [{}] }]),
            json!("text"),
        ] {
            let laid_out = laid_out(&value.to_string());
            assert_eq!(laid_out, format!("{value:#}"));
            let again: Value = serde_json::from_str(&laid_out).expect("JSON");
            assert_eq!(again, value);
        }
    }
}
