//! JSON for reading: laid out, coloured, and with the characters that stand behind escapes. Numbers and repeated
//! names stay as they were written, which a parser and a printer would not promise.

use super::*;

/// `text`, which must be JSON, with line breaks and indentation.
pub(crate) fn laid_out(text: &str) -> String {
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
fn tokens(text: &str) -> impl Iterator<Item = &str> {
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

/// A JSON text, ready to print: lines with the break behind each, so that what is copied is the whole text.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/json.html")]
pub(crate) struct JsonCode(Vec<Line>);

part!(JsonCode);

/// Whether something that can be folded ends before the line, and whether something begins behind it; then its parts,
/// each with its class: a name `k`, a text `s`, another value `n`, or nothing for what stands between them.
type Line = (bool, bool, Vec<(&'static str, String)>);

impl JsonCode {
    pub(crate) fn new(text: &str) -> Self {
        let laid_out = laid_out(text);
        Self(laid_out.split_inclusive('\n').map(line).collect())
    }
}

fn line(text: &str) -> Line {
    let mut tokens = tokens(text).peekable();
    let mut parts = Vec::new();
    while let Some(token) = tokens.next() {
        let is_value = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        parts.push(match tokens.peek() {
            Some(&":") if token.starts_with('"') => ("k", readable(token)),
            _ if token.starts_with('"') => ("s", readable(token)),
            _ if token.starts_with(is_value) => ("n", print::visible(token)),
            _ => ("", print::visible(token)),
        });
    }
    let closes = text.trim_start().starts_with(['}', ']']);
    (closes, text.trim_end().ends_with(['{', '[']), parts)
}

/// A JSON string with no more escapes than it needs.
fn readable(text: &str) -> String {
    let decoded = serde_json::from_str::<String>(text).ok();
    let short = decoded.and_then(|decoded| serde_json::to_string(&decoded).ok());
    print::visible(short.as_deref().unwrap_or(text))
}

#[cfg(test)]
impl JsonCode {
    /// The same as plain text.
    pub(crate) fn text(&self) -> String {
        let parts = self.0.iter().flat_map(|(_, _, parts)| parts);
        parts.map(|(_, text)| text.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(laid_out(text), expected, "{text}");
    }

    #[test]
    fn layout_changes_white_space_alone() {
        check("1", "1");
        check("{}", "{}");
        check(" [ ] ", "[]");
        check("{\"a\":1}", "{\n  \"a\": 1\n}");
        check("[1, [2],{}]", "[\n  1,\n  [\n    2\n  ],\n  {}\n]");
        check(r#""a,\"{[\\""#, r#""a,\"{[\\""#);
        check(
            "{\"n\":1.0E+400,\"n\":12345678901234567890}",
            "{\n  \"n\": 1.0E+400,\n  \"n\": 12345678901234567890\n}",
        );
    }

    #[test]
    fn what_is_no_json_does_no_harm() {
        for text in ["", "\"", "\"\\", "}}}", "[[[", ",:", "ü"] {
            laid_out(text);
            JsonCode::new(text);
        }
    }

    #[test]
    fn escapes_are_read_and_values_coloured() {
        let code =
            JsonCode::new(r#"{"name":"Zo\u00eb M\u00fcller","n":1.50E+3,"ok":true,"q":"a\"b\\"}"#);
        let text = "{\n  \"name\": \"Zoë Müller\",\n  \"n\": 1.50E+3,\n  \"ok\": true,\n  \"q\": \"a\\\"b\\\\\"\n}";
        assert_eq!(code.text(), text);
        let parts = code.0.iter().flat_map(|(_, _, parts)| parts);
        let classes: String = parts.map(|(class, _)| *class).collect();
        assert_eq!(classes, "ksknknks");
    }

    #[test]
    fn objects_and_arrays_can_be_folded() {
        let html = JsonCode::new(r#"{"a":[{},[1]],"b":"{"}"#).to_string();
        let parts = |part: &str| html.matches(part).count();
        assert_eq!(parts("<details open><summary>"), 3, "{html}");
        assert_eq!(parts("</summary>"), 3, "{html}");
        assert_eq!(parts("</details>"), 3, "{html}");
    }

    #[test]
    fn what_is_hidden_or_half_a_character_is_written_out() {
        assert_eq!(JsonCode::new("\"\u{202e}x\"").text(), "\"\\u{202e}x\"");
        assert_eq!(
            JsonCode::new(r#""\ud800""#).text(),
            r#""\ud800""#,
            "half a character"
        );
        let html = JsonCode::new(r#"{"<b>":"<script>"}"#).to_string();
        assert!(
            !html.contains("<b>") && !html.contains("<script>"),
            "{html}"
        );
    }
}
