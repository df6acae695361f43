//! The pages of events: the list, its download, and one event.

mod filter_results;
mod send;
mod show;

pub(crate) use filter_results::FilterResults;
pub(crate) use send::{ask_to_send, send, send_page};
pub(crate) use show::{data_of, download, find, show};

use std::time::Duration;
use std::vec::IntoIter;

use askama::Template;
use axum::Extension;
use axum::extract::Query;
use futures_util::future::OptionFuture;

use crate::admin::action::Call;
use crate::admin::error::PageResult;
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::FormError;
use crate::admin::lists::download::{FILE_BATCH, LINES, Rows, line, streamed};
use crate::admin::lists::filter::whole_topic;
use crate::admin::lists::link;
use crate::admin::lists::list::{ListPage, ROWS, cursor};
use crate::admin::lists::recipe::{Recipe, command};
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::search::{SearchForm, UNMATCHED};
use crate::admin::pages::{answer, delivery, rejected_events};
use crate::admin::paths;
use crate::admin::security::session::Visitor;
use crate::admin::widgets::{Badge, Empty, Icon, Tone, filters, part, print};
use crate::base::request_memory::RequestMemory;
use crate::model::event::EventKey;
use crate::model::event_filter::DeliveryStage;
use crate::model::name::TopicName;
use crate::store::StoreError;
use crate::store::views::{EventQuery, EventRow, SearchProgress, Views};
use crate::wire::stored_event::StoredEventBody;

const PATH: &str = "/admin/events";

/// Maximum number of icons in a row. Further deliveries are described in words.
const ICONS_MAX: usize = 4;

/// Maximum number of events in a file. An editor can still open a file of this size.
const FILE_EVENTS_MAX: usize = 10_000;

/// Maximum number of searches for a file that end without a full page. This is about a million events read, which takes
/// some seconds.
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

    /// Leaves out the topic of each row, for the page of that topic.
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

pub(crate) async fn list(Query(search): Query<SearchForm>, call: Call) -> PageResult {
    let (visitor, standing) = (&call.visitor, &call.visitor.standing);
    let (query, form) = FilledForm::with(search).read(|search| query(search, visitor, ROWS));
    let found = OptionFuture::from(query.map(|query| call.views.events(query)))
        .await
        .transpose()?
        .unwrap_or_default();
    let depths = QueueDepths::of(&call, standing.registry.topics()).await?;
    let (pending, dead) = (depths.total().pending, standing.dead_letters());
    let tabs = [
        ("", "All", None),
        ("Pending", "Pending", Some((pending, Tone::Warn))),
        ("Delivered", "Delivered", None),
        ("DeadLettered", "Dead-lettered", Some((dead, Tone::Bad))),
        (UNMATCHED, "Unmatched", None),
    ];
    let mut list = ListPage::new(PATH, &form)
        .with_tabs("Delivery status", "state", tabs, &form)
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
        list: ListPage = list,
        form: FilledForm<SearchForm> = form,
        published: u64 = days.values().flat_map(|day| day.published).sum(),
        kept_for: Duration = call.broker.options().retention.delivered,
        table: EventTable = EventTable::new(found.rows, empty),
        // The progress of a search that ended before the oldest event.
        cut: Option<SearchProgress> = found.progress,
    })
}

fn query(
    search: &SearchForm,
    visitor: &Visitor,
    limit: usize,
) -> Result<EventQuery, Vec<FormError>> {
    Ok(EventQuery {
        filter: search.events(visitor)?,
        before: cursor(&search.before).map(EventKey),
        limit,
    })
}

fn recipe(call: &Call, search: &SearchForm) -> Recipe {
    let mut flags = search.flags(call.visitor.now);
    let mut command = command("everpost events list", &flags);
    if search.is_for_unmatched() {
        flags.push(("unmatched", "true".to_owned()));
        command.push_str(" --unmatched");
    }
    Recipe::of(call, &link("/everpost/events", &flags), command)
}

/// Downloads the newest events that match the filter, one per line, as the management API shows them.
pub(crate) async fn export(
    memory: Option<Extension<RequestMemory>>,
    Query(search): Query<SearchForm>,
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
    /// The query for the next rows; `None` if there are no more.
    query: Option<EventQuery>,
    /// Rows that were found and are not written yet.
    rows: IntoIter<EventRow>,
    /// Number of rows that may still be added to the file.
    left: usize,
    /// Number of searches that may still end without a full page.
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
                // An event that has been deleted meanwhile is left out.
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
