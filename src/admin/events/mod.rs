//! The pages of events.

mod asked;
mod export;
mod list;
mod send;
mod show;
mod why;

use askama::Template;

pub(super) use export::export;
pub(super) use list::list;
pub(super) use send::{ask_to_send, send};
pub(super) use show::{DataPart, download, find, show};
pub(super) use why::WhyTable;

use crate::admin::identify::event_page;
use crate::admin::list_filter::whole_topic;
use crate::admin::view::{Badge, Empty, Moment, Tone, link, part};
use crate::admin::{print, timeline};
use crate::model::name::TopicName;
use crate::store::views::EventRow;

/// A list of events.
#[derive(Template)]
#[template(path = "admin/parts/event_table.html")]
pub(super) struct EventTable {
    rows: Vec<EventText>,
    empty: Empty,
}

part!(EventTable);

struct EventText {
    href: String,
    received_at: Moment,
    id: String,
    event_type: String,
    subject: String,
    topic: String,
    size: String,
    deliveries: Vec<Badge>,
}

impl EventTable {
    /// Of these events.
    pub(super) fn new(rows: Vec<EventRow>) -> Self {
        Self {
            rows: rows.into_iter().map(EventText::new).collect(),
            empty: empty(false),
        }
    }

    /// Of these events of a topic, whose page knows better what to do if there are none.
    pub(super) fn of_topic(rows: Vec<EventRow>, step: Option<(String, &'static str)>) -> Self {
        Self {
            empty: Empty {
                text: "No events have been published to this topic yet.",
                step,
            },
            ..Self::new(rows)
        }
    }
}

impl EventText {
    fn new(row: EventRow) -> Self {
        Self {
            href: event_page(row.key),
            received_at: Moment::at(row.received_at),
            deliveries: deliveries(&row),
            id: print::visible(&row.id),
            event_type: print::visible(&row.event_type),
            subject: print::visible(&row.subject.unwrap_or_default()),
            topic: row.topic,
            size: print::bytes(row.data_bytes),
        }
    }
}

fn deliveries(row: &EventRow) -> Vec<Badge> {
    if row.matched == 0 {
        return vec![Badge::new(Tone::Neutral, "Unmatched")];
    }
    let states = row.deliveries.iter();
    let states = states.map(|(state, number)| {
        let word = timeline::word(*state);
        let text = match number {
            1 => word.to_owned(),
            number => format!("{word} {}", print::count(*number)),
        };
        Badge::new(timeline::tone(*state), text)
    });
    states.collect()
}

/// The list of all events of a topic.
pub(super) fn events_of(topic: &TopicName) -> String {
    link("/admin/events", &[("of", whole_topic(topic))])
}

fn empty(is_search: bool) -> Empty {
    match is_search {
        true => Empty {
            text: "No event fits.",
            step: Some(("/admin/events".to_owned(), "Show all events")),
        },
        false => Empty {
            text: "No events here yet. Publish one, by a client or by hand on the page of its topic.",
            step: Some(("/admin/topics".to_owned(), "Go to the topics")),
        },
    }
}
