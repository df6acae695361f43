//! The list of dead letters: what they are about together, and each of them.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};

use crate::admin::bare::draw;
use crate::admin::error::PageResult;
use crate::admin::forms::field::Field;
use crate::admin::forms::form::Form;
use crate::admin::frame::Frame;
use crate::admin::lists::filter::{as_typed, of_field, text_field};
use crate::admin::lists::filter_form::FilterForm;
use crate::admin::lists::recipe::{Recipe, command};
use crate::admin::lists::{Pager, link};
use crate::admin::pages::dead_letters::asked::Asked;
use crate::admin::pages::dead_letters::groups;
use crate::admin::pages::dead_letters::groups::GroupText;
use crate::admin::paths::dead_letter_page;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::{Empty, Moment};
use crate::admin::widgets::{hint, print};
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::Outcome;
use crate::model::registry::Registry;
use crate::store::StoreError;
use crate::store::views::{DeliveryRow, GroupBy, Page};

const LIST: &str = "/admin/dead-letters";

/// Rows of one page.
const ROWS: usize = 50;

/// Groups told above them; the rest is counted.
const GROUPS_SHOWN: usize = 12;

/// Groups of these that are seen at once, so that the list itself begins on the first screen of a laptop; the
/// rest is folded away, unless somebody has asked for groups.
const GROUPS_FIRST: usize = 3;

#[derive(Template)]
#[template(path = "admin/dead_letters.html")]
struct DeadLettersPage {
    frame: Frame,
    filters: FilterForm,
    groups: GroupTable,
    bulk: Bulk,
    rows: Vec<DeadLetterText>,
    empty: Empty,
    pager: Pager,
    recipe: Recipe,
}

/// What dead letters have in common.
struct GroupTable {
    title: &'static str,
    head: &'static str,
    rows: Vec<GroupText>,
    /// Those that are folded away.
    folded: Vec<GroupText>,
    /// Groups beyond those that are shown.
    more: usize,
    /// Whether older dead letters were not looked at.
    is_partial: bool,
}

/// What can be done with all that are meant.
struct Bulk {
    resubmit: String,
    purge: String,
    ndjson: String,
    json: String,
}

impl Bulk {
    fn new(asked: &Asked) -> Self {
        let path = LIST;
        let file = |form: &str| {
            let path = asked.at(&format!("{path}/export"));
            let sign = if path.contains('?') { '&' } else { '?' };
            format!("{path}{sign}form={form}")
        };
        Self {
            resubmit: asked.at(&format!("{path}/resubmit")),
            purge: asked.at(&format!("{path}/purge")),
            ndjson: file("ndjson"),
            json: file("json"),
        }
    }
}

struct DeadLetterText {
    id: String,
    href: String,
    event_id: String,
    event_type: String,
    topic: String,
    subscription: String,
    /// Empty where the text says as much.
    reason: String,
    reason_text: String,
    last: String,
    attempts: String,
    ended_at: Option<Moment>,
}

impl DeadLetterText {
    fn new(row: DeliveryRow) -> Self {
        Self {
            id: row.id.to_string(),
            href: dead_letter_page(row.id),
            last: last(&row),
            reason: match (&row.dead_letter.description, row.dead_letter_reason) {
                (None, Some(_)) => String::new(),
                _ => print::visible(row.reason().unwrap_or_default()),
            },
            reason_text: reason_text(&row),
            attempts: print::plural(u64::from(row.attempts), "attempt", "attempts"),
            ended_at: row.ended_at.map(Moment::at),
            event_id: print::visible(&row.event_id),
            event_type: print::visible(&row.event_type),
            topic: row.topic,
            subscription: row.subscription,
        }
    }
}

/// What the receiver said about it, or what the reason means.
fn reason_text(row: &DeliveryRow) -> String {
    match (&row.dead_letter.description, row.dead_letter_reason) {
        (Some(own), _) => print::visible(own),
        (None, reason) => reason.map_or("", hint::for_reason).to_owned(),
    }
}

fn last(row: &DeliveryRow) -> String {
    let outcome = row
        .last_outcome
        .map_or("not tried", |outcome| outcome.name());
    match row.last_status {
        Some(status) => format!("{status} {outcome}"),
        None => outcome.to_owned(),
    }
}

/// Dead letters, newest first.
pub(crate) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let registry = site.broker.registry();
    let found = match asked.query(&registry, &visitor, ROWS) {
        Ok(query) => site.views.dead_letters(query).await?,
        Err(_) => Page::default(), // of something that there is not
    };
    let next = found.next_before.map(|id| id.to_string());
    let (filters, later) = (asked.filters(), asked.is_later_page());
    let mut paged = filters.to_vec();
    paged.push(("group", asked.group_name().to_owned()));
    Ok(draw(&DeadLettersPage {
        frame: Frame::new(&visitor, "Dead letters"),
        filters: FilterForm::new(LIST, fields(&asked, &registry, &visitor), &paged),
        groups: groups(&site, &asked, &visitor).await?,
        bulk: Bulk::new(&asked),
        rows: found.rows.into_iter().map(DeadLetterText::new).collect(),
        empty: empty(asked.is_filtered()),
        pager: Pager::new(LIST, &paged, later, next),
        recipe: recipe(&site, &asked),
    }))
}

async fn groups(site: &Site, asked: &Asked, visitor: &Visitor) -> Result<GroupTable, StoreError> {
    let registry = site.broker.registry();
    let (title, head) = match asked.group() {
        None => ("By subscription and reason", "Subscription"),
        Some(GroupBy::Source) => ("By source", "Source"),
        Some(GroupBy::Reason) => ("By reason", "Reason"),
        Some(GroupBy::EventType) => ("By event type", "Event type"),
        Some(GroupBy::Day) => ("By day", "Day (UTC)"),
    };
    let mut table = GroupTable {
        title,
        head,
        rows: Vec::new(),
        folded: Vec::new(),
        more: 0,
        is_partial: false,
    };
    match (asked.group(), asked.filter(&registry, visitor)) {
        (Some(by), Ok(filter)) => {
            let found = site.views.group_dead_letters(filter, by).await?;
            table.is_partial = found.is_partial;
            table.rows = groups::by_key(found.groups, by, asked);
        }
        // Who looks for something knows what it is about.
        (None, Ok(_)) if !asked.is_filtered() && !asked.is_later_page() => {
            let found = site.views.dead_letter_groups().await?;
            table.rows = groups::by_subscription(&found, &registry);
            table.more = table.rows.len().saturating_sub(GROUPS_SHOWN);
            table.rows.truncate(GROUPS_SHOWN);
            table.folded = table.rows.split_off(table.rows.len().min(GROUPS_FIRST));
        }
        (None, Ok(_)) | (_, Err(_)) => {}
    }
    Ok(table)
}

fn fields(asked: &Asked, registry: &Registry, visitor: &Visitor) -> Vec<Field> {
    let [
        of,
        reason,
        outcome,
        status,
        event_type,
        subject,
        text,
        from,
        to,
    ] = asked.filters();
    let [from, to] = [from, to].map(|(name, at)| (name, as_typed(&at)));
    let group = ("group", asked.group_name().to_owned());
    let form = Form::of([
        of, reason, outcome, status, event_type, subject, text, from, to, group,
    ]);
    let by = GroupBy::ALL.map(|by| match by {
        GroupBy::Source => (by.name(), "Source"),
        GroupBy::Reason => (by.name(), "Reason"),
        GroupBy::EventType => (by.name(), "Event type"),
        GroupBy::Day => (by.name(), "Day"),
    });
    let by: Vec<(&str, &str)> = std::iter::once(("", "Subscription and reason"))
        .chain(by)
        .collect();
    let reasons = DeadLetterReason::ALL.map(|reason| (reason.name(), hint::for_reason(reason)));
    let outcomes = Outcome::ALL.map(|outcome| (outcome.name(), outcome.name()));
    vec![
        of_field(registry, &form),
        Field::choice("reason", "Reason", &or_any(reasons), &form),
        text_field(visitor, &form),
        Field::choice("outcome", "Last answer", &or_any(outcomes), &form),
        Field::line("type", "Event type", &form).hint("Exactly, or its beginning and a *."),
        Field::line("subject", "Subject", &form).hint("Exactly, or its beginning and a *."),
        Field::number("status", "Last status", &form).hint("Such as 503."),
        Field::moment("from", "Given up from", &form).hint("In UTC."),
        Field::moment("to", "Given up before", &form).hint("In UTC."),
        Field::choice("group", "Group by", &by, &form),
    ]
}

fn or_any<const N: usize>(
    words: [(&'static str, &'static str); N],
) -> Vec<(&'static str, &'static str)> {
    std::iter::once(("", "Any")).chain(words).collect()
}

fn empty(is_filtered: bool) -> Empty {
    match is_filtered {
        true => Empty {
            text: "No dead letters here.",
            step: Some((LIST.to_owned(), "Show all dead letters")),
        },
        false => Empty {
            text: "No dead letters. A delivery that is given up is kept here, to be looked at and \
                   sent again.",
            step: None,
        },
    }
}

fn recipe(site: &Site, asked: &Asked) -> Recipe {
    let flags = asked.flags();
    let path = link("/everpost/deadLetters", &flags);
    Recipe::get(&site.management_url(&path)).everpost(command("everpost dead-letters list", &flags))
}
