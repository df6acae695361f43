//! A list of events.

use crate::admin::page::*;
use crate::admin::pages::delivery;
use crate::admin::paths::event_page;
use crate::store::views::EventRow;

/// Icons that one row shows; of more deliveries the words tell.
const ICONS_MAX: u64 = 4;

/// The rows, newest first.
#[derive(Template)]
#[template(path = "pages/event_table.html")]
pub(crate) struct EventTable {
    pub(crate) rows: Vec<EventRow>,
    empty: Empty,
}

part!(EventTable);

impl EventTable {
    pub(crate) fn new(rows: Vec<EventRow>, empty: Empty) -> Self {
        Self { rows, empty }
    }

    /// Where none has been published yet.
    pub(crate) fn none_yet(step: Option<(String, &'static str)>) -> Empty {
        let text = "What publishers send is listed here, with what became of it.";
        Empty::new("events", "No events yet.", text).leading_to(step)
    }

    fn page(row: &EventRow) -> String {
        event_page(row.key)
    }

    /// An icon for each delivery.
    fn icons(row: &EventRow) -> Vec<Badge> {
        let states = row.deliveries.iter();
        let icons = states.flat_map(|(state, number)| {
            let number = usize::try_from((*number).min(ICONS_MAX)).unwrap_or(0);
            std::iter::repeat_n(delivery::badge(*state), number)
        });
        icons
            .take(usize::try_from(ICONS_MAX).unwrap_or(0))
            .collect()
    }

    /// `1 pending, 2 delivered`.
    fn words(row: &EventRow) -> String {
        if row.matched == 0 {
            return "unmatched".to_owned();
        }
        let states = row.deliveries.iter();
        let words = states.map(|(state, number)| {
            let word = delivery::word(*state).to_lowercase();
            format!("{} {word}", print::count(*number))
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// As much of an id as tells it from others; all of it is in the title.
    fn short(id: &str) -> String {
        match id.char_indices().nth(9) {
            Some(_) => {
                let short: String = id.chars().take(8).collect();
                format!("{}…", print::visible(&short))
            }
            None => print::visible(id),
        }
    }
}
