//! JSON for reading: laid out, coloured, and with the characters that stand behind escapes.

use askama::Template;

use crate::admin::widgets::{json_text, part, print};

/// A JSON text, ready to print.
#[derive(Clone, Debug, Template)]
#[template(
    ext = "html",
    source = "{% for line in lines %}{% if line.closes %}</details>{% endif %}\
              {% if line.opens %}<details open><summary>{% endif %}\
              {% for piece in line.pieces %}{% if piece.class.is_empty() %}{{ piece.text }}{% else %}\
              <span class=\"{{ piece.class }}\">{{ piece.text }}</span>{% endif %}{% endfor %}\
              {% if line.opens %}</summary>{% endif %}{% endfor %}"
)]
pub(crate) struct JsonCode {
    lines: Vec<Line>,
}

part!(JsonCode);

/// With the line break behind it, so that what is copied is the whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    pieces: Vec<Piece>,
    /// Whether an object or an array begins behind it, which can be folded.
    opens: bool,
    closes: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    /// A name `k`, a text `s`, another value `n`; empty for what stands between them.
    class: &'static str,
    text: String,
}

impl JsonCode {
    /// Of `text`, which must be JSON. Numbers and repeated names stay as they were written.
    pub(crate) fn new(text: &str) -> Self {
        let laid_out = json_text::laid_out(text);
        let lines = laid_out.split_inclusive('\n').map(Line::new);
        Self {
            lines: lines.collect(),
        }
    }

    /// The same as plain text.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        let pieces = self.lines.iter().flat_map(|line| &line.pieces);
        pieces.map(|piece| piece.text.as_str()).collect()
    }
}

impl Line {
    fn new(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (class, length) = piece(rest);
            let (text, after) = rest.split_at(length);
            pieces.push(Piece {
                class,
                text: match class {
                    "k" | "s" => readable(text),
                    _ => print::visible(text),
                },
            });
            rest = after;
        }
        Self {
            pieces,
            opens: text.trim_end().ends_with(['{', '[']),
            closes: text.trim_start().starts_with(['}', ']']),
        }
    }
}

/// What `text` begins with, and how long that is.
fn piece(text: &str) -> (&'static str, usize) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    match text.chars().next() {
        Some('"') => {
            let length = string_length(text);
            match text[length..].starts_with(':') {
                true => ("k", length),
                false => ("s", length),
            }
        }
        Some(c) if is_word(c) => ("n", text.find(|c| !is_word(c)).unwrap_or(text.len())),
        Some(_) | None => {
            let next = text.find(|c| c == '"' || is_word(c));
            ("", next.unwrap_or(text.len()).max(1))
        }
    }
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

/// A JSON string with no more escapes than it needs.
fn readable(text: &str) -> String {
    let decoded = serde_json::from_str::<String>(text).ok();
    let short = decoded.and_then(|decoded| serde_json::to_string(&decoded).ok());
    print::visible(short.as_deref().unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_and_values_coloured() {
        let code =
            JsonCode::new(r#"{"name":"Zo\u00eb M\u00fcller","n":1.50E+3,"ok":true,"q":"a\"b\\"}"#);
        let text = "{\n  \"name\": \"Zoë Müller\",\n  \"n\": 1.50E+3,\n  \"ok\": true,\n  \"q\": \"a\\\"b\\\\\"\n}";
        assert_eq!(code.text(), text);
        let seen: Vec<_> = code
            .lines
            .iter()
            .flat_map(|line| &line.pieces)
            .filter(|piece| !piece.class.is_empty())
            .collect();
        let classes: String = seen.iter().map(|piece| piece.class).collect();
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
    fn what_is_hidden_or_no_json_does_no_harm() {
        assert_eq!(JsonCode::new("\"\u{202e}x\"").text(), "\"\\u{202e}x\"");
        assert_eq!(
            JsonCode::new(r#""\ud800""#).text(),
            r#""\ud800""#,
            "half a character"
        );
        for text in ["", "\"", "\"\\", "}}}", "[[[", ",:", "ü"] {
            JsonCode::new(text);
        }
        let html = JsonCode::new(r#"{"<b>":"<script>"}"#).to_string();
        assert!(
            !html.contains("<b>") && !html.contains("<script>"),
            "{html}"
        );
    }
}
