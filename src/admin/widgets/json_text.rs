//! JSON text laid out for reading. Numbers, escapes and repeated names stay as they were written, which
//! a parser and a printer would not promise.

/// `text`, which must be JSON, with line breaks and indentation.
pub(crate) fn laid_out(text: &str) -> String {
    let mut layout = Layout::default();
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' => layout.string(&mut characters),
            '{' | '[' => layout.open(c, &mut characters),
            '}' | ']' => layout.close(c),
            ',' => layout.separate(),
            ':' => layout.out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => layout.out.push(c),
        }
    }
    layout.out
}

type Characters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

#[derive(Default)]
struct Layout {
    out: String,
    depth: usize,
}

impl Layout {
    /// The rest of a string whose quote has been read.
    fn string(&mut self, characters: &mut Characters<'_>) {
        self.out.push('"');
        while let Some(c) = characters.next() {
            self.out.push(c);
            match c {
                '"' => return,
                '\\' => self.out.extend(characters.next()),
                _ => {}
            }
        }
    }

    fn open(&mut self, bracket: char, characters: &mut Characters<'_>) {
        self.out.push(bracket);
        while characters.next_if(char::is_ascii_whitespace).is_some() {}
        match characters.next_if(|c| matches!(c, '}' | ']')) {
            Some(end) => self.out.push(end), // nothing in it: it stays on its line
            None => {
                self.depth += 1;
                self.new_line();
            }
        }
    }

    fn close(&mut self, bracket: char) {
        self.depth = self.depth.saturating_sub(1);
        self.new_line();
        self.out.push(bracket);
    }

    fn separate(&mut self) {
        self.out.push(',');
        self.new_line();
    }

    fn new_line(&mut self) {
        self.out.push('\n');
        self.out.push_str(&"  ".repeat(self.depth));
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
        for text in ["", "\"", "\"\\", "}}}", "[[[", ",:"] {
            laid_out(text);
        }
    }
}
