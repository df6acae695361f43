//! JSON laid out for reading, every value as it was written: to parse it and print it again would round
//! long numbers.

/// Spaces by which each level is indented.
const INDENT: usize = 2;

/// `json`, which must be valid, over several lines.
pub(super) fn laid_out(json: &str) -> String {
    let mut layout = Layout::default();
    let mut rest = json.trim_start();
    while !rest.is_empty() {
        let (token, after) = rest.split_at(token_length(rest));
        layout.add(token);
        rest = after.trim_start();
    }
    layout.text
}

#[derive(Default)]
struct Layout {
    text: String,
    level: usize,
    /// An array or object has just been opened: it may turn out to be empty.
    is_open: bool,
}

impl Layout {
    fn add(&mut self, token: &str) {
        match token {
            "{" | "[" => {
                self.begin();
                self.text.push_str(token);
                self.level += 1;
                self.is_open = true;
            }
            "}" | "]" => {
                self.level = self.level.saturating_sub(1);
                if !self.is_open {
                    self.break_line();
                }
                self.is_open = false;
                self.text.push_str(token);
            }
            "," => {
                self.text.push(',');
                self.break_line();
            }
            ":" => self.text.push_str(": "),
            value => {
                self.begin();
                self.text.push_str(value);
            }
        }
    }

    /// The first thing inside of brackets stands on a line of its own.
    fn begin(&mut self) {
        if self.is_open {
            self.break_line();
        }
        self.is_open = false;
    }

    fn break_line(&mut self) {
        self.text.push('\n');
        self.text.push_str(&" ".repeat(self.level * INDENT));
    }
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
