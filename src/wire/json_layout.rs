//! JSON laid out for reading, every value as it was written: to parse it and print it again would round long numbers,
//! and drop names that are repeated.

/// `text`, which must be JSON, with line breaks and indentation. What is no JSON does no harm.
pub fn laid_out(text: &str) -> String {
    let (mut out, mut depth, mut is_opened) = (String::new(), 0_usize, false);
    let break_line = |depth: usize| format!("\n{}", "  ".repeat(depth));
    for token in tokens(text).filter(|token| !token.trim_ascii().is_empty()) {
        let closes = token.starts_with(['}', ']']);
        // What has nothing in it stays on its line.
        if is_opened != closes {
            depth = depth.saturating_add_signed(if closes { -1 } else { 1 });
            out.push_str(&break_line(depth));
        }
        out.push_str(token);
        match token {
            "," => out.push_str(&break_line(depth)),
            ":" => out.push(' '),
            _ => {}
        }
        is_opened = token.starts_with(['{', '[']);
    }
    out
}

/// Strings, words and numbers, and every other character by itself.
pub fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_other = |c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c);
        let length = match rest.chars().next()? {
            '"' => string_length(rest),
            c if is_other(c) => c.len_utf8(),
            _ => rest.find(is_other).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        Some(token)
    })
}

/// Up to and with the quote that ends it.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
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
            (r#""a,\"{[\\""#, r#""a,\"{[\\""#),
            (
                r#"{"n":1.0E+400,"n":12345678901234567890}"#,
                "{\n  \"n\": 1.0E+400,\n  \"n\": 12345678901234567890\n}",
            ),
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

    #[test]
    fn what_is_no_json_does_no_harm() {
        for text in ["", "\"", "\"\\", "}}}", "[[[", ",:", "ü"] {
            laid_out(text);
        }
    }
}
