//! Aligned columns of text, safe to show on a terminal.

use std::fmt;

use crate::base::is_hidden;

/// Spaces between two columns.
const GAP: usize = 2;

/// Characters of a cell beside others; what is longer ends in `…`.
const CELL_MAX: usize = 100;

/// Rows of cells. Columns are as wide as their widest cell; the last one is not filled up.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    indent: usize,
    shortens: bool,
}

impl Table {
    /// A table without a head, of names and values; it shows values whole.
    pub(super) fn sheet() -> Self {
        Self::default()
    }

    /// A table whose first row names the columns.
    pub(super) fn headed<const N: usize>(head: [&str; N]) -> Self {
        Self {
            rows: vec![head.map(str::to_owned).to_vec()],
            indent: 0,
            shortens: true,
        }
    }

    /// The same table, this many columns to the right.
    pub(super) fn indented(mut self, indent: usize) -> Self {
        self.indent = indent;
        self
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        let cells = cells.map(|cell| match self.shortens {
            true => shortened(&printable(&cell)),
            false => printable(&cell),
        });
        self.rows.push(cells.to_vec());
    }

    /// A row of a sheet, unless there is nothing to say.
    pub(super) fn line(&mut self, name: &str, value: String) {
        if !value.is_empty() {
            self.row([name.to_owned(), value]);
        }
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell: &String| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        self.rows.iter().try_for_each(|row| {
            let cells = row.iter().zip(&widths);
            let mut line = " ".repeat(self.indent);
            for (cell, width) in cells {
                line.push_str(&format!("{cell:<width$}{:GAP$}", ""));
            }
            writeln!(f, "{}", line.trim_end())
        })
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(CELL_MAX) {
        Some(_) => text.chars().take(CELL_MAX - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// The text with control characters written out: what publishers and receivers send must not steer
/// the terminal of whoever looks at it, nor turn the direction of its text.
pub(super) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => printable.extend(c.escape_default()),
            false => printable.push(c),
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_without_spaces() {
        let mut table = Table::headed(["NAME", "SCHEMA", "URL"]).indented(2);
        table.row(["orders".to_owned(), "CloudEvents".to_owned(), String::new()]);
        table.row(["größe".to_owned(), String::new(), "http://x".to_owned()]);
        assert_eq!(
            table.to_string(),
            "  NAME    SCHEMA       URL\n  orders  CloudEvents\n  größe                http://x\n"
        );
    }

    #[test]
    fn what_others_wrote_cannot_steer_the_terminal() {
        for (text, expected) in [
            ("plain, größe, 注文", "plain, größe, 注文"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("two\nlines\t\r", "two\\nlines\\t\\r"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("txt.\u{202e}exe", "txt.\\u{202e}exe"),
        ] {
            assert_eq!(printable(text), expected);
        }
        let mut table = Table::headed(["A"]);
        table.row(["x".repeat(200)]);
        let expected = format!("A\n{}…\n", "x".repeat(CELL_MAX - 1));
        assert_eq!(table.to_string(), expected);
    }
}
