//! The pages of events: the list, its file, and one event.

mod filter_results;
mod send;
mod show;

pub(crate) use filter_results::FilterResults;
pub(crate) use send::{ask_to_send, send};
pub(crate) use show::{Data, download, find, show};

use crate::admin::lists::download::{NDJSON, line, streamed};
use crate::admin::lists::filter::{of_options, whole_topic};
use crate::admin::lists::recipe::command;
use crate::admin::page::*;
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::search::{Search, UNMATCHED};
use crate::admin::pages::{delivery, rejected_events};
use crate::model::event::EventKey;
use crate::model::event_filter::DeliveryStage;
use crate::model::name::TopicName;
use crate::store::views::{EventQuery, EventRow, EventSearch, SearchProgress};
use crate::wire::stored_event::StoredEventBody;

const PATH: &str = "/admin/events";

/// Rows of one page.
const ROWS: usize = 50;

/// Icons that one row shows; of more deliveries the words tell.
const ICONS_MAX: usize = 4;

/// Events that one file has at most: as many as an editor still opens.
const FILE_EVENTS_MAX: usize = 10_000;

/// Searches without a full page after which a file ends: a million events looked at, some seconds of reading.
const BARREN_SEARCHES_MAX: usize = 50;

/// Events read at once for a file: they bound the memory together with the size of an event.
const FILE_BATCH: usize = 20;

/// The list of all events of a topic.
pub(crate) fn events_of(topic: &TopicName) -> String {
    link(PATH, &[("of", whole_topic(topic))])
}

/// A list of events, newest first.
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

    /// An icon for each delivery.
    fn icons(row: &EventRow) -> Vec<Badge> {
        let states = row.deliveries.iter();
        let icons =
            states.flat_map(|(state, number)| (0..*number).map(|_| delivery::badge(*state)));
        icons.take(ICONS_MAX).collect()
    }
}

#[derive(Template)]
#[template(path = "pages/events.html")]
struct EventsPage {
    frame: Frame,
    list: List,
    form: Filled<Search>,
    of: Vec<(String, String)>,
    published: u64,
    kept_for: Duration,
    rejected: u64,
    table: EventTable,
    /// A search that ended before the oldest event.
    cut: Option<SearchProgress>,
}

/// Events, newest first.
pub(crate) async fn list(Query(search): Query<Search>, call: Call) -> PageResult {
    let visitor = &call.visitor;
    let standing = &visitor.standing;
    let (query, form) = Filled::with(search).read(|search| query(search, visitor, ROWS));
    let found = match query {
        Some(query) => call.views.events(query).await?,
        None => EventSearch::default(),
    };
    let depths = QueueDepths::of_all(&call, &standing.registry).await?;
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
        .with_older(found.next_before.map(|key| key.to_string()), &form);
    list.kept = Vec::new(); // the form has the state itself
    list.shown = print::plural(found.rows.len(), "event", "events");
    let export = link(&format!("{PATH}/export"), &form.pairs());
    list.export = Some(export).filter(|it| visitor.may_open(it) && !found.rows.is_empty());
    let most = print::count(FILE_EVENTS_MAX as u64);
    list.export_note = format!("The newest {most} at most, with their data");
    list.recipe = recipe(&call, &form.values);
    let empty = match (list.is_whole() && list.tabs[0].current, &found.progress) {
        (_, Some(_)) => Empty::no_match("None of the events looked at matches.", PATH),
        (false, None) => Empty::no_match("No events match this filter.", PATH),
        (true, None) => EventTable::none_yet(visitor.step("/admin/topics", "Go to the topics")),
    };
    let days = call.views.topic_days(visitor.now).await?;
    Ok(draw(&EventsPage {
        frame: Frame::new(visitor, "Events"),
        of: of_options(&standing.registry, "All topics"),
        published: days.values().flat_map(|day| day.published).sum(),
        kept_for: call.broker.options().retention.delivered,
        rejected: standing.rejected,
        table: EventTable::new(found.rows, empty),
        cut: found.progress,
        list,
        form,
    }))
}

fn query(search: &Search, visitor: &Visitor, limit: usize) -> Result<EventQuery, Vec<Refusal>> {
    Ok(EventQuery {
        filter: search.events(visitor)?,
        before: search.before.parse().ok().map(EventKey),
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
    Recipe::get(&call.management_url(&link("/everpost/events", &flags))).everpost(command)
}

/// The newest events that are meant, each on a line as the management API shows it.
pub(crate) async fn export(Query(search): Query<Search>, call: Call) -> PageResult {
    let query = query(&search, &call.visitor, FILE_BATCH)?;
    let first = (query, FILE_EVENTS_MAX, BARREN_SEARCHES_MAX);
    let next = move |(mut query, mut events, mut searches): (EventQuery, usize, usize)| {
        let views = call.views.clone();
        async move {
            query.limit = FILE_BATCH.min(events);
            let found = views.events(query.clone()).await?;
            let mut out = Vec::new();
            for row in &found.rows {
                // What has gone meanwhile is left out.
                if let Some(event) = views.event(row.key).await? {
                    let body = StoredEventBody::new(&event.stored, &event.topic, event.matched);
                    out.extend(line(&body));
                }
            }
            events -= found.rows.len();
            searches -= usize::from(found.progress.is_some());
            query.before = found.next_before;
            let goes_on = query.before.is_some() && events > 0 && searches > 0;
            Ok((out, goes_on.then_some((query, events, searches))))
        }
    };
    Ok(streamed("events.ndjson", NDJSON, first, next))
}
