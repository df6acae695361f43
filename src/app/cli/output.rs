//! The output of commands: text for people, JSON for programs.

use std::io::{self, Write};

use clap::Args;
use console::{Term, colors_enabled};
use serde_json::Value;

use crate::app::cli::server::GLOBAL;
use crate::base::{Timestamp, visible, visible_json};

/// The choice between text and JSON.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(super) struct Output {
    /// Print the server's answer as JSON
    #[arg(long, global = true, help_heading = GLOBAL)]
    json: bool,
}

/// The terminal that text is laid out for. The default is none: full width, no colours.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Screen {
    /// Characters of a line; what is longer is shortened.
    pub(super) width: Option<u16>,
    pub(super) is_colored: bool,
}

/// Makes text of an answer.
pub(super) trait View {
    fn text(self, answer: &Value, screen: Screen) -> String;
}

impl<F: FnOnce(&Value, Screen) -> String> View for F {
    fn text(self, answer: &Value, screen: Screen) -> String {
        self(answer, screen)
    }
}

impl Output {
    /// Returns whether the output is JSON, for programs.
    pub(super) fn is_json(self) -> bool {
        self.json
    }

    /// Prints `value` itself, or what `view` makes of it.
    pub(super) fn show(self, value: &Value, view: impl View) -> io::Result<()> {
        if self.json {
            print_exactly(&json_for_stdout(format!("{value:#}\n")))
        } else {
            print(&view.text(value, Screen::of_stdout()))
        }
    }
}

impl Screen {
    pub(super) fn of_stdout() -> Self {
        let size = Term::stdout().size_checked();
        Self {
            width: size.map(|(_, columns)| columns),
            is_colored: colors_enabled(),
        }
    }

    /// The text with what would steer the terminal written out, but for lines and, where there are any, colours.
    fn shown(self, text: &str) -> String {
        let mut parts = text.split(COLOR);
        let mut shown = lines(parts.next().unwrap_or_default());
        for part in parts {
            let end = part.find(|c: char| !(c.is_ascii_digit() || c == ';'));
            let is_color = end.is_some_and(|end| part[end..].starts_with('m'));
            if self.is_colored && is_color {
                shown.push_str(COLOR);
            } else {
                shown.push_str(&printable(COLOR));
            }
            shown.push_str(&lines(part));
        }
        shown
    }
}

/// The beginning of every escape sequence that sets a colour; digits and `m` follow (ECMA-48, SGR).
const COLOR: &str = "\u{1b}[";

/// The text with what would steer the terminal written out, but for what parts lines and columns.
fn lines(text: &str) -> String {
    visible(text, &['\n', '\t'])
}

/// Writes text for people to standard output. What may have come from others cannot steer the terminal.
pub(super) fn print(text: &str) -> io::Result<()> {
    print_exactly(&Screen::of_stdout().shown(text))
}

/// Writes what a file would hold to standard output: as it is, unless it is for people to read.
pub(super) fn print_file(text: &str) -> io::Result<()> {
    if Term::stdout().is_term() {
        print(text)
    } else {
        print_exactly(text)
    }
}

/// Writes text for programs to standard output, and sees to it that it gets there.
pub(super) fn print_exactly(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// JSON to be printed. For a terminal, what would steer it is escaped as JSON has it; programs get it as it is.
pub(super) fn json_for_stdout(json: String) -> String {
    if Term::stdout().is_term() {
        visible_json(&json)
    } else {
        json
    }
}

/// Writes lines for people to standard error. Nobody reads them when even that is closed.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", lines(text));
}

/// The member at `pointer` (RFC 6901) as text without quotes; `""` for `null` and where there is none.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => printable(text),
        Some(other) => printable(&other.to_string()),
    }
}

/// The moment at `pointer`.
pub(super) fn moment(value: &Value, pointer: &str) -> Option<Timestamp> {
    value.pointer(pointer)?.as_str()?.parse().ok()
}

/// The number at `pointer`, 0 where there is none.
pub(super) fn number(value: &Value, pointer: &str) -> u64 {
    let number = value.pointer(pointer).and_then(Value::as_u64);
    number.unwrap_or_default()
}

/// The members of the array at `pointer`.
pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let array = value.pointer(pointer).and_then(Value::as_array);
    array.map_or(&[], Vec::as_slice)
}

/// Returns text of publishers or receivers so that it can neither control the terminal nor break the line.
pub(super) fn printable(text: &str) -> String {
    visible(text, &[])
}

/// `1 event`, `2 events`.
pub(super) fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_a_terminal_is_the_same_json_and_steers_nothing() {
        let json =
            "{\n\t\"subject\": \"\u{202e}gpj.\u{9b}31m\u{7f}\u{e0041} größe 👩\u{200d}🚀\"\r\n}";
        let shown = visible_json(json);
        assert_eq!(
            shown,
            "{\n\t\"subject\": \"\\u202egpj.\\u009b31m\\u007f\\udb40\\udc41 größe 👩\u{200d}🚀\"\r\n}"
        );
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        assert_eq!(read(&shown), read(json));
    }

    #[test]
    fn nothing_steers_a_terminal_but_our_own_colours() {
        let text = "a\tb\n\u{1b}[1mhead\u{1b}[0m \u{1b}[2J\u{1b}]0;title\u{7} \u{202e}x\r\u{1b}[";
        let colored = Screen {
            width: None,
            is_colored: true,
        };
        let rest = "\\u{1b}[2J\\u{1b}]0;title\\u{7} \\u{202e}x\\r\\u{1b}[";
        let expected = format!("a\tb\n\u{1b}[1mhead\u{1b}[0m {rest}");
        assert_eq!(colored.shown(text), expected);
        let expected = format!("a\tb\n\\u{{1b}}[1mhead\\u{{1b}}[0m {rest}");
        assert_eq!(Screen::default().shown(text), expected);
        assert_eq!(lines(text), expected);
    }
}
