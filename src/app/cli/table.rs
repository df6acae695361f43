//! Lists and records of JSON as aligned text.

use std::fmt;

use comfy_table::{
    Attribute, Cell as TableCell, Color, ColumnConstraint, ContentArrangement, Row, presets,
};
use serde_json::Value;

use crate::app::cli::output::{Screen, View, items, moment, printable, text};
use crate::base::human::{date_time, date_time_ms};

/// Spaces between two columns.
const GAP: u16 = 2;

/// Column of a list or line of a record: its name and its content.
pub(super) type Field = (&'static str, Cell);

/// Source of a field's text.
pub(super) enum Cell {
    /// The member at this pointer (RFC 6901).
    Text(&'static str),
    /// The member at this pointer, never shortened: a number, or one of a few words.
    Word(&'static str),
    /// The moment at this pointer.
    Time(&'static str),
    /// A word for the truth value at this pointer.
    Choice {
        at: &'static str,
        yes: &'static str,
        no: &'static str,
    },
    /// The result of this function of the whole value.
    Of(fn(&Value) -> String),
}

impl Cell {
    pub(super) fn text(&self, value: &Value) -> String {
        match self {
            Self::Text(pointer) | Self::Word(pointer) => text(value, pointer),
            Self::Time(pointer) => moment(value, pointer).map_or_else(String::new, date_time),
            Self::Choice { at, yes, no } => {
                let is_on = value.pointer(at).and_then(Value::as_bool);
                let word = is_on.map(|is_on| if is_on { *yes } else { *no });
                word.unwrap_or_default().to_owned()
            }
            Self::Of(text) => text(value),
        }
    }
}

/// Format of a list: its columns, and the text for an empty list.
pub(super) struct ListFormat {
    pub(super) none: &'static str,
    pub(super) columns: &'static [Field],
}

impl View for ListFormat {
    fn text(self, page: &Value, screen: Screen) -> String {
        let rows = match items(page, "/value") {
            [] => format!("{}\n", self.none),
            rows => rows_of(rows, self.columns, 0).text(screen),
        };
        rows + &more(page)
    }
}

/// Returns the hint for the rest of a list, if there is one. A search may end before its page is full.
fn more(page: &Value) -> String {
    let before = text(page, "/nextBefore");
    match (before.as_str(), text(page, "/lookedBack/events").as_str()) {
        ("", _) => String::new(),
        (_, "") => format!("there is more: add --before {before}\n"),
        (_, events) => {
            let to = moment(page, "/lookedBack/to").map_or_else(String::new, date_time);
            format!("searched {events} events, back to {to}; to go on add --before {before}\n")
        }
    }
}

/// Arranges the rows in columns, indented by `indent` spaces.
pub(super) fn rows_of(rows: &[Value], columns: &[Field], indent: u16) -> TextTable {
    let mut table = TextTable::new(columns.iter().map(|(name, _)| *name), indent);
    for (column, (_, cell)) in table.0.column_iter_mut().zip(columns) {
        if matches!(cell, Cell::Word(_) | Cell::Time(_)) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    for row in rows {
        table.row(columns.iter().map(|(_, cell)| cell.text(row)));
    }
    table
}

/// A kind of record: its lines.
pub(super) struct Details(pub(super) &'static [Field]);

impl View for Details {
    fn text(self, value: &Value, _: Screen) -> String {
        let mut lines = NamedValues::default();
        for (name, cell) in self.0 {
            match cell {
                Cell::Time(pointer) => lines.time(name, value, pointer),
                Cell::Text(_) | Cell::Word(_) | Cell::Choice { .. } | Cell::Of(_) => {
                    lines.add(*name, cell.text(value));
                }
            }
        }
        lines.to_string()
    }
}

/// Names with their values, which are shown whole.
#[derive(Default)]
pub(super) struct NamedValues(Vec<(String, String)>);

impl NamedValues {
    /// Adds a line, unless the value is empty.
    pub(super) fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.0.push((name.into(), printable(&value)));
        }
    }

    /// Adds a moment to the millisecond.
    pub(super) fn time(&mut self, name: &str, value: &Value, pointer: &str) {
        self.add(
            name,
            moment(value, pointer).map_or_else(String::new, date_time_ms),
        );
    }
}

impl fmt::Display for NamedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.0.iter().map(|(name, _)| name.chars().count());
        let width = widths.max().unwrap_or(0) + usize::from(GAP);
        let mut lines = self.0.iter();
        lines.try_for_each(|(name, value)| writeln!(f, "{name:width$}{value}"))
    }
}

/// Table with a header. On a terminal each row takes one line: longer text is shortened.
pub(super) struct TextTable(comfy_table::Table);

impl TextTable {
    pub(super) fn new<'a>(head: impl IntoIterator<Item = &'a str>, indent: u16) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_truncation_indicator("…");
        let head: Vec<&str> = head.into_iter().collect();
        let cells = head
            .iter()
            .map(|name| TableCell::new(name).add_attribute(Attribute::Bold));
        table.set_header(one_line(cells.collect()));
        for column in table.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        if let Some(first) = table.column_mut(0) {
            first.set_padding((indent, GAP));
        }
        Self(table)
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let colored = cells.into_iter().map(|cell| {
            let text = TableCell::new(printable(&cell));
            match tone(&cell) {
                Some(color) => text.fg(color),
                None => text,
            }
        });
        self.0.add_row(one_line(colored.collect()));
    }

    pub(super) fn text(mut self, screen: Screen) -> String {
        match screen.width {
            Some(width) => self
                .0
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width),
            None => &mut self.0,
        };
        if screen.is_colored {
            self.0.enforce_styling();
        } else {
            self.0.force_no_tty();
        }
        self.0.trim_fmt() + "\n"
    }
}

fn one_line(cells: Vec<TableCell>) -> Row {
    let mut row = Row::from(cells);
    row.max_height(1);
    row
}

/// Returns the colour of a cell that holds only a state.
fn tone(cell: &str) -> Option<Color> {
    match cell {
        "Active" | "Delivered" | "Completed" | "active" | "yes" => Some(Color::Green),
        "Pending" | "Paused" | "OnProbation" | "Running" | "Dropped" | "invited" => {
            Some(Color::Yellow)
        }
        "DeadLettered" | "Failed" | "Gone" | "Disabled" | "disabled" | "no" => Some(Color::Red),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIST: ListFormat = ListFormat {
        none: "no topics yet",
        columns: &[
            ("NAME", Cell::Text("/name")),
            ("RECEIVED (UTC)", Cell::Time("/at")),
            ("URL", Cell::Of(|row| text(row, "/url"))),
        ],
    };

    fn page() -> Value {
        json!({ "value": [
            { "name": "orders", "at": "2026-11-21T06:40:53.138Z", "url": "" },
            { "name": "größe", "url": format!("http://x/{}", "y".repeat(100)) },
        ], "nextBefore": null })
    }

    #[test]
    fn columns_are_aligned_and_lines_end_without_spaces() {
        let long = "y".repeat(100);
        let expected = format!(
            "NAME    RECEIVED (UTC)       URL\n\
             orders  2026-11-21 06:40:53\n\
             größe                        http://x/{long}\n"
        );
        assert_eq!(LIST.text(&page(), Screen::default()), expected);
        let none = json!({ "value": [] });
        assert_eq!(LIST.text(&none, Screen::default()), "no topics yet\n");
    }

    #[test]
    fn a_list_fits_into_the_terminal_one_line_for_each_row() {
        for width in [60, 120] {
            let screen = Screen {
                width: Some(width),
                is_colored: false,
            };
            let text = LIST.text(&page(), screen);
            assert_eq!(text.lines().count(), 3, "{text}");
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width.into()), "{widest:?} {text}");
            assert!(text.contains("2026-11-21 06:40:53"), "{text}");
            assert!(text.contains("yyy…"), "{text}");
        }
        let colored = Screen {
            width: None,
            is_colored: true,
        };
        let mut table = TextTable::new(["STATE"], 0);
        table.row(["Failed".to_owned()]);
        assert!(table.text(colored).contains("\u{1b}["));
    }

    #[test]
    fn a_list_says_that_there_is_more() {
        let mut page = json!({ "value": [], "nextBefore": 12 });
        let more = "no topics yet\nthere is more: add --before 12\n";
        assert_eq!(LIST.text(&page, Screen::default()), more);
        page["lookedBack"] = json!({ "events": 20_000, "to": "2026-11-21T06:40:53.138Z" });
        let searched = "no topics yet\nsearched 20000 events, back to 2026-11-21 06:40:53; to go on add --before 12\n";
        assert_eq!(LIST.text(&page, Screen::default()), searched);
    }

    #[test]
    fn a_record_has_a_line_for_each_value_that_there_is() {
        let details = Details(&[
            ("name", Cell::Text("/name")),
            ("tags", Cell::Text("/tags")),
            ("received", Cell::Time("/at")),
        ]);
        let value = json!({ "name": "two\nlines", "at": "2026-11-21T06:40:53.138Z" });
        let expected = "name      two\\nlines\nreceived  2026-11-21 06:40:53.138\n";
        assert_eq!(details.text(&value, Screen::default()), expected);
    }
}
