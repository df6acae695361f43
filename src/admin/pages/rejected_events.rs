//! Publish requests that were refused: the list, and one with its reason and how its body begins.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, Query, State};
use serde::Deserialize;

use crate::admin::bare::draw;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::field::Field;
use crate::admin::forms::form::Form;
use crate::admin::frame::Frame;
use crate::admin::lists::filter;
use crate::admin::lists::filter::NoSuchTopic;
use crate::admin::lists::filter_form::FilterForm;
use crate::admin::lists::recipe::{Recipe, command};
use crate::admin::lists::{Pager, link};
use crate::admin::paths::topic_page;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::kept_body::KeptBody;
use crate::admin::widgets::print;
use crate::admin::widgets::{Empty, Moment};
use crate::model::registry::Registry;
use crate::model::rejection::{Rejection, RejectionId, StoredRejection};
use crate::store::views::{Page, RejectionQuery};

/// The list.
pub(crate) const PATH: &str = "/admin/rejected-events";

/// Rows of one page.
const ROWS: usize = 50;

/// Characters of a reason in the list; all of it is on the page of the request.
const REASON_SHOWN: usize = 240;

/// What the URL of the list asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    topic: String,
    reason: String,
    before: String,
}

impl Asked {
    fn query(&self, registry: &Registry) -> Result<RejectionQuery, NoSuchTopic> {
        Ok(RejectionQuery {
            topic: filter::topic(registry, &self.topic)?,
            reason: filter::given(&self.reason),
            before: self.before.parse().ok().map(RejectionId),
            limit: ROWS,
        })
    }

    fn filters(&self) -> [(&'static str, String); 2] {
        [
            ("topic", self.topic.trim().to_owned()),
            ("reason", self.reason.trim().to_owned()),
        ]
    }
}

#[derive(Template)]
#[template(path = "admin/rejected_events.html")]
struct RejectedEventsPage {
    frame: Frame,
    filters: FilterForm,
    rows: Vec<RejectionText>,
    empty: Empty,
    pager: Pager,
    recipe: Recipe,
}

struct RejectionText {
    id: String,
    href: String,
    received_at: Moment,
    topic: String,
    answer: String,
    reason: String,
    size: String,
}

impl RejectionText {
    fn new(stored: StoredRejection) -> Self {
        let rejection = &stored.rejection;
        Self {
            id: stored.id.to_string(),
            href: page_of(stored.id),
            received_at: Moment::at(rejection.received_at),
            answer: answer(rejection),
            reason: print::visible(&shortened(&rejection.reason)),
            size: print::bytes(size(rejection)),
            topic: stored.topic,
        }
    }
}

fn page_of(id: RejectionId) -> String {
    format!("{PATH}/{id}")
}

/// The list for one topic.
pub(crate) fn of_topic(topic: &str) -> String {
    link(PATH, &[("topic", topic.to_owned())])
}

/// What the publisher got: `400 BadRequest`.
fn answer(rejection: &Rejection) -> String {
    format!("{} {}", rejection.status, rejection.code)
}

fn size(rejection: &Rejection) -> u64 {
    u64::try_from(rejection.bytes).unwrap_or(u64::MAX)
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(REASON_SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Refused requests, newest first.
pub(crate) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let registry = site.broker.registry();
    let found = match asked.query(&registry) {
        Ok(query) => site.views.rejections(query).await?,
        Err(NoSuchTopic) => Page::default(),
    };
    let filters = asked.filters();
    let next = found.next_before.map(|id| id.to_string());
    let later = !asked.before.is_empty();
    let is_filtered = filters.iter().any(|(_, value)| !value.is_empty());
    Ok(draw(&RejectedEventsPage {
        frame: Frame::new(&visitor, "Rejected events"),
        filters: FilterForm::new(PATH, fields(&filters, &registry), &filters),
        rows: found.rows.into_iter().map(RejectionText::new).collect(),
        empty: empty(is_filtered || later),
        pager: Pager::new(PATH, &filters, later, next),
        recipe: Recipe::get(&site.management_url(&link("/everpost/rejectedEvents", &filters)))
            .everpost(command("everpost rejected list", &filters)),
    }))
}

fn fields(filters: &[(&'static str, String); 2], registry: &Registry) -> Vec<Field> {
    let form = Form::of(filters.clone());
    vec![
        filter::topic_field(registry, &form),
        Field::line("reason", "Reason", &form)
            .hint("A part of it, such as “not valid JSON”, or a whole code, such as BadRequest."),
    ]
}

fn empty(is_search: bool) -> Empty {
    match is_search {
        true => Empty {
            text: "No refused request fits.",
            step: Some((PATH.to_owned(), "Show all rejected events")),
        },
        false => Empty {
            text: "No publish request has been refused in the last 7 days. Where one is, its reason \
                   and its beginning show here.",
            step: Some((
                "/admin/events".to_owned(),
                "Go to the events that were taken",
            )),
        },
    }
}

#[derive(Template)]
#[template(path = "admin/rejected_event.html")]
struct RejectedEventPage {
    frame: Frame,
    topic: String,
    topic_path: Option<String>,
    received_at: Moment,
    answer: String,
    reason: String,
    content_type: Option<String>,
    size: String,
    /// `None` for whoever may not see what events carry.
    body: Option<KeptBody>,
    /// What the topic takes, and where an example of that is; `None` once the topic is deleted.
    right: Option<Right>,
    others: String,
    recipe: Recipe,
}

/// What would have been right.
struct Right {
    schema: &'static str,
    /// For whoever may publish.
    example: Option<String>,
}

/// One refused request.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
) -> PageResult {
    let missing = || PageError::NotFound(format!("refused request {id}"));
    let number = id.parse().map(RejectionId).map_err(|_| missing())?;
    let found = site.views.rejection(number).await?.ok_or_else(missing)?;
    let rejection = &found.rejection;
    let registry = site.broker.registry();
    let topic = registry.topic_by_id(rejection.topic);
    let topic_path = topic.map(|_| topic_page(&found.topic));
    let publish = format!("{}/publish", topic_page(&found.topic));
    let may_publish = visitor.may_open(&publish);
    Ok(draw(&RejectedEventPage {
        frame: Frame::new(&visitor, format!("Refused request {number}")),
        right: topic.map(|topic| Right {
            schema: topic.topic.definition.input_schema.name(),
            example: may_publish.then_some(publish),
        }),
        topic_path,
        received_at: Moment::exactly(rejection.received_at),
        answer: answer(rejection),
        reason: print::visible(&rejection.reason),
        content_type: rejection.content_type.as_deref().map(print::visible),
        size: print::bytes(size(rejection)),
        body: visitor
            .sees_data()
            .then(|| KeptBody::new(&rejection.body_start, size(rejection))),
        others: of_topic(&found.topic),
        topic: found.topic,
        recipe: Recipe::get(&site.management_url(&format!("/everpost/rejectedEvents/{number}")))
            .everpost(format!("everpost rejected show {number}")),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        let long = "ä".repeat(REASON_SHOWN + 1);
        assert_eq!(shortened(&long), format!("{}…", "ä".repeat(REASON_SHOWN)));
    }
}
