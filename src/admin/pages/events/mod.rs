//! The pages of events.

mod asked;
mod export;
mod list;
mod send;
mod show;
mod why;

use askama::Template;

pub(crate) use export::export;
pub(crate) use list::list;
pub(crate) use send::{ask_to_send, send};
pub(crate) use show::{DataPart, download, find, show};
pub(crate) use why::WhyTable;

use crate::admin::lists::filter::whole_topic;
use crate::admin::lists::link;
use crate::admin::pages::timeline;
use crate::admin::paths::event_page;
use crate::admin::widgets::print;
use crate::admin::widgets::{Badge, Empty, Moment, Tone, part};
use crate::model::name::TopicName;
use crate::store::views::EventRow;

/// A list of events.
#[derive(Template)]
#[template(path = "admin/parts/event_table.html")]
pub(crate) struct EventTable {
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
    pub(crate) fn new(rows: Vec<EventRow>) -> Self {
        Self {
            rows: rows.into_iter().map(EventText::new).collect(),
            empty: empty(false),
        }
    }

    /// Of these events of a topic, whose page knows better what to do if there are none.
    pub(crate) fn of_topic(rows: Vec<EventRow>, step: Option<(String, &'static str)>) -> Self {
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
pub(crate) fn events_of(topic: &TopicName) -> String {
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
