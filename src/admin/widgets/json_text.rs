//! JSON for reading: laid out, coloured, and with the characters that stand behind escapes.

use super::*;
pub(crate) use crate::wire::json_layout::laid_out;
use crate::wire::json_layout::tokens;

/// A JSON text, ready to print: lines with the break behind each, so that what is copied is the whole text.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/json.html")]
pub(crate) struct JsonCode(Vec<Line>);

part!(JsonCode);

/// A line of JSON: whether a part that can be folded ends before it, whether one begins behind it, and its tokens, each
/// with its class: `k` for a name, `s` for a string, `n` for another value, and none for the signs between them.
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
mod tests {
    use super::*;

    impl JsonCode {
        /// The same as plain text.
        pub(crate) fn text(&self) -> String {
            let parts = self.0.iter().flat_map(|(_, _, parts)| parts);
            parts.map(|(_, text)| text.as_str()).collect()
        }
    }

    #[test]
    fn what_is_no_json_does_no_harm() {
        for text in ["", "\"", "\"\\", "}}}", "[[[", ",:", "ü"] {
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
