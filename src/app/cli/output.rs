//! What commands print: text for people, JSON for programs.

use std::io::{self, Write};

use clap::Args;
use console::{Term, colors_enabled};
use serde_json::Value;

use crate::app::cli::server::GLOBAL;
use crate::base::{Timestamp, is_hidden, visible};

/// The choice between the two.
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
    /// Whether programs read it.
    pub(super) fn is_json(self) -> bool {
        self.json
    }

    /// Prints `value` itself, or what `view` makes of it.
    pub(super) fn show(self, value: &Value, view: impl View) -> io::Result<()> {
        match self.json {
            true => print(&json_for_stdout(format!("{value:#}\n"))),
            false => print(&view.text(value, Screen::of_stdout())),
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
}

/// Writes to standard output and sees to it that it gets there.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// JSON to be printed. For a terminal, what would steer it is escaped as JSON has it; programs get it as it is.
pub(super) fn json_for_stdout(json: String) -> String {
    match Term::stdout().is_term() {
        true => escaped(&json),
        false => json,
    }
}

/// The same JSON with its hidden characters escaped, but for those that lay it out.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match is_hidden(c) && !matches!(c, '\n' | '\r' | '\t') {
            true => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => text.push(c),
        }
    }
    text
}

/// Writes a line to standard error. Nobody reads it when even that is closed.
pub(super) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
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

/// What publishers and receivers send must not steer the terminal, nor break the line.
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
        let json = "{\n\t\"subject\": \"\u{202e}gpj.\u{9b}31m\u{7f} größe 👩\u{200d}🚀\"\r\n}";
        let shown = escaped(json);
        assert_eq!(
            shown,
            "{\n\t\"subject\": \"\\u202egpj.\\u009b31m\\u007f größe 👩\u{200d}🚀\"\r\n}"
        );
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        assert_eq!(read(&shown), read(json));
    }
}
