//! Publish requests that were rejected: the list, and one with its reason and how its body begins.

use serde::{Deserialize, Serialize};

use crate::admin::lists::filter::{Reading, given, topic_options};
use crate::admin::page::*;
use crate::admin::widgets::kept_body::KeptBody;
use crate::model::name::TopicName;
use crate::model::registry::Registry;
use crate::model::rejection::{RejectionId, StoredRejection};
use crate::store::views::{Page, RejectionQuery};

/// The list.
pub(crate) const PATH: &str = "/admin/rejected-events";

/// Rows of one page.
const ROWS: usize = 50;

/// What the address of the list asks for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RejectionForm {
    topic: String,
    /// A part of it, or a whole code.
    reason: String,
    before: String,
}

impl RejectionForm {
    fn query(&self, registry: &Registry) -> Result<RejectionQuery, Vec<Refusal>> {
        let mut reading = Reading::default();
        let topic = |name: &str| registry.topic(&TopicName::parse(name).ok()?);
        let topic = reading.field("topic", &self.topic, "topic", topic);
        reading.end(RejectionQuery {
            topic: topic.map(|entry| entry.topic.id),
            reason: given(&self.reason),
            before: self.before.parse().ok().map(RejectionId),
            limit: ROWS,
        })
    }
}

#[derive(Template)]
#[template(path = "pages/rejected_events.html")]
struct RejectedEventsPage {
    frame: Frame,
    list: List,
    form: Filled<RejectionForm>,
    topics: Vec<(String, String)>,
    rows: Vec<StoredRejection>,
}

#[derive(Template)]
#[template(path = "pages/rejected_event.html")]
struct RejectedEventPage {
    frame: Frame,
    found: StoredRejection,
    /// `None` once it is deleted.
    topic: Option<Arc<TopicEntry>>,
    body: KeptBody,
    recipe: Recipe,
}

/// The list for one topic.
pub(crate) fn of_topic(topic: &str) -> String {
    link(PATH, &[("topic", topic.to_owned())])
}

/// Rejected requests, newest first.
pub(crate) async fn list(Query(form): Query<RejectionForm>, call: Call) -> PageResult {
    let registry = &call.visitor.standing.registry;
    let (query, form) = Filled::with(form).read(|form| form.query(registry));
    let found = match query {
        Some(query) => call.views.rejections(query).await?,
        None => Page::default(),
    };
    let next = found.next_before.map(|id| id.to_string());
    let mut list = List::new(PATH, &form).with_older(next, &form);
    let flags = ["topic", "reason"].map(|name| (name, form.value(name).trim().to_owned()));
    list.recipe = Recipe::list(&call, "rejectedEvents", "rejected list", &flags);
    list.shown = print::plural(found.rows.len(), "request", "requests");
    Ok(draw(&RejectedEventsPage {
        frame: Frame::new(&call.visitor, "Rejected events"),
        topics: topic_options(registry, "All topics"),
        rows: found.rows,
        list,
        form,
    }))
}

/// One rejected request.
pub(crate) async fn show(Path(id): Path<String>, call: Call) -> PageResult {
    let missing = || PageError::NotFound(format!("rejected request {id}"));
    let number = id.parse().map(RejectionId).map_err(|_| missing())?;
    let found = call.views.rejection(number).await?.ok_or_else(missing)?;
    let rejection = &found.rejection;
    Ok(draw(&RejectedEventPage {
        frame: Frame::new(&call.visitor, format!("Rejected request {number}")),
        topic: call.broker.registry().topic_by_id(rejection.topic).cloned(),
        body: KeptBody::new(&rejection.body_start, rejection.bytes as u64),
        recipe: Recipe::one(&call, "rejectedEvents", "rejected show", number),
        found,
    }))
}
