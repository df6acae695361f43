//! The list of events, and searches in it.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};

use crate::admin::bare::draw;
use crate::admin::error::PageResult;
use crate::admin::forms::field::{Field, Problem, mark};
use crate::admin::forms::form::Form;
use crate::admin::frame::Frame;
use crate::admin::lists::filter::{as_typed, of_field, text_field};
use crate::admin::lists::filter_form::FilterForm;
use crate::admin::lists::recipe::{Recipe, command};
use crate::admin::lists::{Pager, link};
use crate::admin::pages::events::asked::Asked;
use crate::admin::pages::events::export::FILE_EVENTS_MAX;
use crate::admin::pages::events::{EventTable, empty};
use crate::admin::pages::timeline;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::print;
use crate::admin::widgets::{Empty, Moment};
use crate::model::event_filter::DeliveryStage;
use crate::model::registry::Registry;
use crate::store::views::{EventRow, EventSearch, SearchProgress};

const LIST: &str = "/admin/events";

/// Rows of one page.
const ROWS: usize = 50;

#[derive(Template)]
#[template(path = "admin/events.html")]
struct EventsPage {
    frame: Frame,
    problem: Option<Problem>,
    filters: FilterForm,
    /// `None` for whoever may not have it.
    download: Option<Download>,
    table: EventTable,
    cut: Option<Cut>,
    pager: Pager,
    recipe: Recipe,
}

struct Download {
    href: String,
    most: String,
}

/// A search that ended before the oldest event.
struct Cut {
    looked_at: String,
    back_to: Moment,
    further: String,
}

/// Events, newest first.
pub(crate) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let registry = site.broker.registry();
    let (found, refusal) = match asked.query(&registry, &visitor, ROWS) {
        Ok(query) => (site.views.events(query).await?, None),
        Err(refusal) => (EventSearch::default(), Some(refusal)),
    };
    let mut fields = fields(&asked, &registry, &visitor);
    let problem = mark(fields.iter_mut(), refusal);
    let (filters, later) = (asked.filters(), asked.is_later_page());
    let next = found.next_before.map(|key| key.to_string());
    let (cut, next) = match (found.progress, next) {
        (Some(progress), Some(next)) => (Some(Cut::new(&asked, progress, next)), None),
        (_, next) => (None, next),
    };
    Ok(draw(&EventsPage {
        frame: Frame::new(&visitor, "Events"),
        problem,
        filters: FilterForm::new(LIST, fields, &filters),
        download: download(&visitor, &asked, &found.rows),
        table: EventTable {
            empty: nothing(&asked, cut.is_some()),
            ..EventTable::new(found.rows)
        },
        cut,
        pager: Pager::new(LIST, &filters, later, next),
        recipe: recipe(&site, &asked),
    }))
}

impl Cut {
    fn new(asked: &Asked, progress: SearchProgress, next: String) -> Self {
        let mut further = asked.filters().to_vec();
        further.push(("before", next));
        Self {
            looked_at: print::plural(progress.events, "event", "events"),
            back_to: Moment::at(progress.to),
            further: link(LIST, &further),
        }
    }
}

fn download(visitor: &Visitor, asked: &Asked, rows: &[EventRow]) -> Option<Download> {
    let path = "/admin/events/export";
    let is_offered = visitor.may_open(path) && !rows.is_empty();
    is_offered.then(|| Download {
        href: link(path, &asked.filters()),
        most: print::count(u64::try_from(FILE_EVENTS_MAX).unwrap_or(u64::MAX)),
    })
}

fn nothing(asked: &Asked, is_cut: bool) -> Empty {
    match is_cut {
        true => Empty {
            text: "None of the events that were looked at fits.",
            step: None,
        },
        false => empty(asked.is_filtered() || asked.is_later_page()),
    }
}

fn fields(asked: &Asked, registry: &Registry, visitor: &Visitor) -> Vec<Field> {
    let form = Form::of(asked.filters().map(|(name, value)| match name {
        "from" | "to" => (name, as_typed(&value)),
        _ => (name, value),
    }));
    let stages = DeliveryStage::ALL.map(|stage| (stage.name(), word(stage)));
    let stages: Vec<(&str, &str)> = std::iter::once(("", "Any")).chain(stages).collect();
    vec![
        of_field(registry, &form),
        Field::choice("state", "With a delivery that is", &stages, &form),
        text_field(visitor, &form),
        Field::line("type", "Event type", &form).hint("Exactly, or its beginning and a *."),
        Field::line("subject", "Subject", &form).hint("Exactly, or its beginning and a *."),
        Field::line("id", "Event id", &form).hint("Exactly.").mono(),
        Field::moment("from", "Received from", &form).hint("In UTC."),
        Field::moment("to", "Received before", &form).hint("In UTC."),
        Field::tick(
            "unmatched",
            "Only unmatched events, which nobody wanted",
            &form,
        ),
    ]
}

fn word(stage: DeliveryStage) -> &'static str {
    match stage {
        DeliveryStage::Retrying => "Pending after a failure",
        DeliveryStage::In(state) => timeline::word(state),
    }
}

fn recipe(site: &Site, asked: &Asked) -> Recipe {
    let mut flags = asked.flags();
    let mut command = command("everpost events list", &flags);
    if asked.is_for_unmatched() {
        flags.push(("unmatched", "true".to_owned()));
        command.push_str(" --unmatched");
    }
    Recipe::get(&site.management_url(&link("/everpost/events", &flags))).everpost(command)
}
