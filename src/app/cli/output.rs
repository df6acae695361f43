//! What commands print: text for people, JSON for programs.

use std::io::{self, Write};

use clap::Args;
use serde_json::Value;

use crate::app::cli::moment::date;
use crate::app::cli::table::{Table, printable};
use crate::base::Timestamp;

/// The choice between the two.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Output {
    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    json: bool,
}

impl Output {
    /// Whether programs read it.
    pub(super) fn is_json(self) -> bool {
        self.json
    }

    /// Prints `value` itself, or what `text` makes of it.
    pub(super) fn show(self, value: &Value, text: impl FnOnce(&Value) -> String) -> io::Result<()> {
        match self.json {
            true => print(&format!("{value:#}\n")),
            false => print(&text(value)),
        }
    }

    /// Prints an answer as it came, or what `text` makes of it.
    pub(super) fn show_verbatim(
        self,
        answer: &str,
        text: impl FnOnce() -> String,
    ) -> io::Result<()> {
        match self.json {
            true => print(&format!("{answer}\n")),
            false => print(&text()),
        }
    }
}

/// Writes to standard output and sees to it that it gets there.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a line to standard error. When even that is closed, nobody is left to tell.
pub(super) fn tell(line: &str) {
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

/// Rows of JSON in columns of this head, each with the pointer to what stands there: a moment where the head
/// ends in `(UTC)`.
pub(super) fn columns<const N: usize>(rows: &[Value], columns: [(&str, &str); N]) -> Table {
    let mut table = Table::headed(columns.map(|(head, _)| head));
    for row in rows {
        table.row(
            columns.map(|(head, pointer)| match head.ends_with("(UTC)") {
                true => date(moment(row, pointer)),
                false => text(row, pointer),
            }),
        );
    }
    table
}

/// The moment at `pointer`.
pub(super) fn moment(value: &Value, pointer: &str) -> Option<Timestamp> {
    value.pointer(pointer)?.as_str()?.parse().ok()
}

/// The members of the array at `pointer`.
pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let array = value.pointer(pointer).and_then(Value::as_array);
    array.map_or(&[], Vec::as_slice)
}
