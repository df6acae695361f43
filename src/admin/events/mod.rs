//! The pages of events.

mod show;
mod why;

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use serde::Deserialize;

pub(super) use show::{download, show};

use crate::admin::error::PageResult;
use crate::admin::field::Field;
use crate::admin::form::Form;
use crate::admin::identify::event_page;
use crate::admin::list_filter::{self, NoSuchTopic, given};
use crate::admin::recipe::{Recipe, command};
use crate::admin::session::Visitor;
use crate::admin::view::{Badge, Empty, Frame, Moment, Pager, Tone, draw, link, part};
use crate::admin::{Site, print, timeline};
use crate::model::event::EventKey;
use crate::model::registry::Registry;
use crate::store::views::{EventQuery, EventRow, Page};

/// Rows of one page.
const ROWS: usize = 50;

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

/// What the URL of the list asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    topic: String,
    id: String,
    #[serde(rename = "type")]
    event_type: String,
    unmatched: String,
    before: String,
}

impl Asked {
    fn query(&self, registry: &Registry) -> Result<EventQuery, NoSuchTopic> {
        Ok(EventQuery {
            topic: list_filter::topic(registry, &self.topic)?,
            id: given(&self.id),
            event_type: given(&self.event_type),
            unmatched: !self.unmatched.is_empty(),
            before: self.before.parse().ok().map(EventKey),
            limit: ROWS,
        })
    }

    fn filters(&self) -> [(&'static str, String); 4] {
        [
            ("topic", self.topic.trim().to_owned()),
            ("id", self.id.trim().to_owned()),
            ("type", self.event_type.trim().to_owned()),
            ("unmatched", self.unmatched.clone()),
        ]
    }
}

#[derive(Template)]
#[template(path = "admin/events.html")]
struct EventsPage {
    frame: Frame,
    fields: [Field; 4],
    is_filtered: bool,
    table: EventTable,
    /// Said where a search stopped before the oldest event.
    note: &'static str,
    pager: Pager,
    recipe: Recipe,
}

/// Events, newest first.
pub(super) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let registry = site.broker.registry();
    let found = match asked.query(&registry) {
        Ok(query) => site.views.events(query).await?,
        Err(NoSuchTopic) => Page::default(),
    };
    let filters = asked.filters();
    let next = found.next_before.map(|key| key.to_string());
    let later = !asked.before.is_empty();
    let is_filtered = filters.iter().any(|(_, value)| !value.is_empty());
    Ok(draw(&EventsPage {
        frame: Frame::new(&visitor, "Events"),
        fields: fields(&filters, &registry),
        is_filtered,
        note: note(&found),
        table: EventTable {
            empty: empty(is_filtered || later),
            ..EventTable::new(found.rows)
        },
        pager: Pager::new("/admin/events", &filters, later, next),
        recipe: recipe(&site, &filters),
    }))
}

fn note(found: &Page<EventRow, EventKey>) -> &'static str {
    match found.next_before.is_some() && found.rows.len() < ROWS {
        true => "The search looked at many events and has not reached the oldest one yet.",
        false => "",
    }
}

fn empty(is_search: bool) -> Empty {
    match is_search {
        true => Empty {
            text: "No event fits.",
            step: Some(("/admin/events".to_owned(), "Show all events")),
        },
        false => Empty {
            text: "No events here yet. Publish one, by a client or by hand on the page of a topic.",
            step: Some(("/admin/topics".to_owned(), "Go to the topics")),
        },
    }
}

fn fields(filters: &[(&'static str, String); 4], registry: &Registry) -> [Field; 4] {
    let form = Form::of(filters.clone());
    [
        list_filter::topic_field(registry, &form),
        Field::line("type", "Event type (Order.* for its beginning)", &form).mono(),
        Field::line("id", "Event id", &form).mono(),
        Field::tick("unmatched", "Only events that nobody wanted", &form),
    ]
}

fn recipe(site: &Site, filters: &[(&'static str, String); 4]) -> Recipe {
    let [topic, id, event_type, (unmatched, ticked)] = filters.clone();
    let flags = [topic, id, event_type];
    let mut command = command("everpost events list", &flags);
    let mut query = flags.to_vec();
    if !ticked.is_empty() {
        command.push_str(" --unmatched");
        query.push((unmatched, true.to_string()));
    }
    Recipe::get(&site.management_url(&link("/everpost/events", &query))).everpost(command)
}
