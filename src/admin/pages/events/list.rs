//! The list of events, and searches in it.

use crate::admin::forms::filled::Filled;
use crate::admin::lists::filter::{of_options, search_label};
use crate::admin::lists::recipe::command;
use crate::admin::page::*;
use crate::admin::pages::delivery;
use crate::admin::pages::events::EventTable;
use crate::admin::pages::events::export::FILE_EVENTS_MAX;
use crate::admin::pages::events::filter::{EventForm, SPANS, UNMATCHED};
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::rejected_events;
use crate::model::event_filter::DeliveryStage;
use crate::store::views::{EventSearch, SearchProgress};

const PATH: &str = "/admin/events";

/// Rows of one page.
const ROWS: usize = 50;

#[derive(Template)]
#[template(path = "pages/events.html")]
struct EventsPage {
    frame: Frame,
    list: List,
    form: Filled<EventForm>,
    of: Vec<(String, String)>,
    spans: Vec<(String, String)>,
    states: Vec<(String, String)>,
    sees_data: bool,
    published: u64,
    kept_for: std::time::Duration,
    rejected: (u64, &'static str),
    table: EventTable,
    /// A search that ended before the oldest event.
    cut: Option<SearchProgress>,
}

/// Events, newest first.
pub(crate) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(form): Query<EventForm>,
) -> PageResult {
    let standing = &visitor.standing;
    let depths = QueueDepths::of_all(&site, &standing.registry).await?;
    let form = Filled::with(form);
    let (found, form) = match form.values.query(&visitor, ROWS) {
        Ok(query) => (site.views.events(query).await?, form),
        Err(faults) => (EventSearch::default(), form.with_faults(faults)),
    };
    let tabs = [
        ("", "All", None),
        (
            "Pending",
            "Pending",
            Some((depths.total().pending, Tone::Warn)),
        ),
        ("Delivered", "Delivered", None),
        (
            "DeadLettered",
            "Dead-lettered",
            Some((standing.dead_letters(), Tone::Bad)),
        ),
        (UNMATCHED, "Unmatched", None),
    ];
    let mut list = List::new(PATH, &form)
        .with_tabs(("Delivery status", "state"), tabs, &form)
        .with_older(found.next_before.map(|key| key.to_string()), &form);
    list.kept = Vec::new(); // the form has the state itself
    list.shown = print::plural(whole(found.rows.len()), "event", "events");
    let export = format!("{PATH}/export");
    if visitor.may_open(&export) && !found.rows.is_empty() {
        list.export = Some(link(&export, &form.pairs()));
        let most = print::count(whole(FILE_EVENTS_MAX));
        list.export_note = format!("The newest {most} at most, with their data");
    }
    list.recipe = recipe(&site, &form.values, &visitor);
    let empty = empty(&visitor, &list, found.progress.is_some());
    let days = site.views.topic_days(visitor.now).await?;
    Ok(draw(&EventsPage {
        frame: Frame::new(&visitor, "Events"),
        of: of_options(&standing.registry, "All topics"),
        spans: SPANS
            .map(|(value, _, text)| (value.to_owned(), text.to_owned()))
            .to_vec(),
        states: states(),
        sees_data: visitor.sees_data(),
        published: days.values().flat_map(|day| day.published).sum(),
        kept_for: site.broker.options().retention.delivered,
        rejected: (standing.rejected, rejected_events::PATH),
        table: EventTable::new(found.rows, empty),
        cut: found.progress,
        list,
        form,
    }))
}

impl EventsPage {
    fn search_label(&self) -> &'static str {
        search_label(self.sees_data)
    }
}

fn whole(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// All that a delivery can be, for those who need more than the tabs.
fn states() -> Vec<(String, String)> {
    let stages = DeliveryStage::ALL.into_iter();
    let stages = stages.map(|stage| match stage {
        DeliveryStage::Retrying => (stage.name(), "Retrying"),
        DeliveryStage::In(state) => (stage.name(), delivery::word(state)),
    });
    let stages = [("", "Any")].into_iter().chain(stages);
    let stages = stages.chain([(UNMATCHED, UNMATCHED)]);
    stages
        .map(|(value, text)| (value.to_owned(), text.to_owned()))
        .collect()
}

fn empty(visitor: &Visitor, list: &List, is_cut: bool) -> Empty {
    match (list.is_whole() && list.tabs[0].current, is_cut) {
        (_, true) => Empty::no_match("None of the events looked at matches.", PATH),
        (false, false) => Empty::no_match("No events match this filter.", PATH),
        (true, false) => EventTable::none_yet(visitor.step("/admin/topics", "Go to the topics")),
    }
}

fn recipe(site: &Site, form: &EventForm, visitor: &Visitor) -> Recipe {
    let mut flags = form.flags(visitor.now);
    let mut command = command("everpost events list", &flags);
    if form.is_for_unmatched() {
        flags.push(("unmatched", "true".to_owned()));
        command.push_str(" --unmatched");
    }
    Recipe::get(&site.management_url(&link("/everpost/events", &flags))).everpost(command)
}
