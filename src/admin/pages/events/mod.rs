//! The pages of events: the list, its file, and one event.

mod filter_results;
mod send;
mod show;

pub(crate) use {filter_results::FilterResults, send::*, show::*};

use std::vec::IntoIter;

use crate::admin::pages::search::{Search, UNMATCHED};
use crate::admin::pages::*;
use crate::wire::stored_event::StoredEventBody;
use axum::Extension;

const PATH: &str = "/admin/events";

/// Icons that one row shows; of more deliveries the words tell.
const ICONS_MAX: usize = 4;

/// Events that one file has at most: as many as an editor still opens.
const FILE_EVENTS_MAX: usize = 10_000;

/// Searches without a full page after which a file ends: a million events looked at, some seconds of reading.
const BARREN_SEARCHES_MAX: usize = 50;

pub(crate) fn events_of(topic: &TopicName) -> String {
    link(PATH, &[("of", whole_topic(topic))])
}

#[derive(Template)]
#[template(path = "pages/event_table.html")]
pub(crate) struct EventTable {
    pub(crate) rows: Vec<EventRow>,
    empty: Empty,
    /// Is true if rows name their topic.
    with_topic: bool,
}

part!(EventTable);

impl EventTable {
    pub(crate) fn new(rows: Vec<EventRow>, empty: Empty) -> Self {
        Self {
            rows,
            empty,
            with_topic: true,
        }
    }

    /// On the page of their topic.
    pub(crate) fn of_topic(self) -> Self {
        let with_topic = false;
        Self { with_topic, ..self }
    }

    pub(crate) fn none_yet(step: Option<(String, &'static str)>) -> Empty {
        let text = "What publishers send is listed here, with what became of it.";
        Empty::new("events", "No events yet.", text).leading_to(step)
    }

    fn icons(row: &EventRow) -> impl Iterator<Item = Badge> {
        let states = row.deliveries.iter();
        let each = states.flat_map(|(state, number)| (0..*number).map(|_| *state));
        let unmatched = (row.matched == 0).then(|| Badge::new(Tone::Rest, ""));
        each.take(ICONS_MAX).map(delivery::badge).chain(unmatched)
    }
}

pub(crate) async fn list(Query(search): Query<Search>, call: Call) -> PageResult {
    let (visitor, standing) = (&call.visitor, &call.visitor.standing);
    let (query, form) = Filled::with(search).read(|search| query(search, visitor, ROWS));
    let found = OptionFuture::from(query.map(|query| call.views.events(query)));
    let found = found.await.transpose()?.unwrap_or_default();
    let depths = QueueDepths::of(&call, standing.registry.topics()).await?;
    let (pending, dead) = (depths.total().pending, standing.dead_letters());
    let tabs = [
        ("", "All", None),
        ("Pending", "Pending", Some((pending, Tone::Warn))),
        ("Delivered", "Delivered", None),
        ("DeadLettered", "Dead-lettered", Some((dead, Tone::Bad))),
        (UNMATCHED, "Unmatched", None),
    ];
    let mut list = List::new(PATH, &form)
        .with_tabs(("Delivery status", "state"), tabs, &form)
        .with_older(found.next_before, &form);
    list.of_page(found.rows.len(), ["event", "events"]);
    let export = link(&format!("{PATH}/export"), &form.pairs());
    list.export = Some(export).filter(|it| visitor.opens(it) && !found.rows.is_empty());
    let most = print::count(FILE_EVENTS_MAX as u64);
    list.export_note = format!("The newest {most} at most, with their data");
    list.recipe = recipe(&call, &form.values);
    let empty = match (list.is_whole(), &found.progress) {
        (_, Some(_)) => Empty::no_match("None of the events looked at matches.", PATH),
        (false, None) => Empty::no_match("No events match this filter.", PATH),
        (true, None) => {
            let step = visitor.step("/admin/first-event", "Deliver the first event");
            EventTable::none_yet(step)
        }
    };
    list.kept = Vec::new(); // the form has the state itself
    let days = call.views.topic_days(visitor.now).await?;
    answer!("pages/events.html", visitor, "Events", {
        list: List = list,
        form: Filled<Search> = form,
        published: u64 = days.values().flat_map(|day| day.published).sum(),
        kept_for: Duration = call.broker.options().retention.delivered,
        table: EventTable = EventTable::new(found.rows, empty),
        // A search that ended before the oldest event.
        cut: Option<SearchProgress> = found.progress,
    })
}

fn query(search: &Search, visitor: &Visitor, limit: usize) -> Result<EventQuery, Vec<FormError>> {
    Ok(EventQuery {
        filter: search.events(visitor)?,
        before: cursor(&search.before).map(EventKey),
        limit,
    })
}

fn recipe(call: &Call, search: &Search) -> Recipe {
    let mut flags = search.flags(call.visitor.now);
    let mut command = command("everpost events list", &flags);
    if search.is_for_unmatched() {
        flags.push(("unmatched", "true".to_owned()));
        command.push_str(" --unmatched");
    }
    Recipe::of(call, &link("/everpost/events", &flags), command)
}

/// The newest events that are meant, each on a line as the management API shows it.
pub(crate) async fn export(
    memory: Option<Extension<RequestMemory>>,
    Query(search): Query<Search>,
    call: Call,
) -> PageResult {
    let events = FileEvents {
        query: Some(query(&search, &call.visitor, FILE_BATCH)?),
        views: call.views.clone(),
        rows: Vec::new().into_iter(),
        left: FILE_EVENTS_MAX,
        searches: BARREN_SEARCHES_MAX,
    };
    Ok(streamed("events.ndjson", LINES, memory, events))
}

/// Events that are still to be written to a file.
struct FileEvents {
    views: Views,
    /// For the next ones; `None` if there are none.
    query: Option<EventQuery>,
    /// Rows that were found and not written.
    rows: IntoIter<EventRow>,
    /// How many may still be found.
    left: usize,
    /// Searches without a full page that there may still be.
    searches: usize,
}

impl FileEvents {
    async fn search(&mut self, mut query: EventQuery) -> Result<(), StoreError> {
        query.limit = FILE_BATCH.min(self.left);
        let found = self.views.events(query.clone()).await?;
        self.left -= found.rows.len();
        self.searches -= usize::from(found.progress.is_some());
        query.before = found.next_before;
        let goes_on = query.before.is_some() && self.left > 0 && self.searches > 0;
        self.query = goes_on.then_some(query);
        self.rows = found.rows.into_iter();
        Ok(())
    }
}

impl Rows for FileEvents {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        loop {
            for row in self.rows.by_ref() {
                // What has gone meanwhile is left out.
                if let Some(event) = self.views.event(row.key).await? {
                    let body = StoredEventBody::new(&event.stored, &event.topic, event.matched);
                    return Ok(Some(line(&body)));
                }
            }
            let Some(query) = self.query.take() else {
                return Ok(None);
            };
            self.search(query).await?;
        }
    }
}
