//! Publish requests that were rejected: the list, and one with its reason and how its body begins.

use serde::{Deserialize, Serialize};

use crate::admin::forms::filled::Filled;
use crate::admin::lists::filter;
use crate::admin::lists::filter::NoSuchTopic;
use crate::admin::lists::recipe::command;
use crate::admin::page::*;
use crate::admin::paths::topic_page;
use crate::admin::widgets::kept_body::KeptBody;
use crate::model::registry::Registry;
use crate::model::rejection::{Rejection, RejectionId, StoredRejection};
use crate::store::views::{Page, RejectionQuery};

/// The list.
pub(crate) const PATH: &str = "/admin/rejected-events";

/// Rows of one page.
const ROWS: usize = 50;

/// Characters of a reason in the list; all of it is on the page of the request.
const REASON_SHOWN: usize = 240;

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
    fn query(&self, registry: &Registry) -> Result<RejectionQuery, NoSuchTopic> {
        Ok(RejectionQuery {
            topic: filter::topic(registry, &self.topic)?,
            reason: filter::given(&self.reason),
            before: self.before.parse().ok().map(RejectionId),
            limit: ROWS,
        })
    }

    /// The same for `everpost` and the management API.
    fn flags(&self) -> [(&'static str, String); 2] {
        [
            ("topic", self.topic.trim().to_owned()),
            ("reason", self.reason.trim().to_owned()),
        ]
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
    empty: Empty,
}

impl RejectedEventsPage {
    fn page(row: &StoredRejection) -> String {
        page_of(row.id)
    }

    fn answer(row: &StoredRejection) -> String {
        answer(&row.rejection)
    }

    fn reason(row: &StoredRejection) -> String {
        print::visible(&shortened(&row.rejection.reason))
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

/// Rejected requests, newest first.
pub(crate) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(form): Query<RejectionForm>,
) -> PageResult {
    let registry = &visitor.standing.registry;
    let form = Filled::with(form);
    let (found, form) = match form.values.query(registry) {
        Ok(query) => (site.views.rejections(query).await?, form),
        Err(NoSuchTopic) => {
            let fault = format!("There is no topic {:?}.", form.values.topic);
            (
                Page::default(),
                form.with_faults([Refusal::of("topic", fault)]),
            )
        }
    };
    let next = found.next_before.map(|id| id.to_string());
    let mut list = List::new(PATH, &form).with_older(next, &form);
    let flags = form.values.flags();
    let url = site.management_url(&link("/everpost/rejectedEvents", &flags));
    list.recipe = Recipe::get(&url).everpost(command("everpost rejected list", &flags));
    list.shown = print::plural(found.rows.len() as u64, "request", "requests");
    Ok(draw(&RejectedEventsPage {
        frame: Frame::new(&visitor, "Rejected events"),
        topics: filter::topic_options(registry, "All topics"),
        rows: found.rows,
        empty: empty(&list),
        list,
        form,
    }))
}

fn empty(list: &List) -> Empty {
    match list.is_whole() {
        false => Empty::no_match("No rejected requests match this filter.", PATH),
        true => Empty::new(
            "rejected",
            "No publish request was rejected in the last 7 days.",
            "Where one is, its reason and its beginning show here.",
        ),
    }
}

#[derive(Template)]
#[template(path = "pages/rejected_event.html")]
struct RejectedEventPage {
    frame: Frame,
    topic: String,
    topic_path: Option<String>,
    received_at: Time,
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

/// One rejected request.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
) -> PageResult {
    let missing = || PageError::NotFound(format!("rejected request {id}"));
    let number = id.parse().map(RejectionId).map_err(|_| missing())?;
    let found = site.views.rejection(number).await?.ok_or_else(missing)?;
    let rejection = &found.rejection;
    let registry = site.broker.registry();
    let topic = registry.topic_by_id(rejection.topic);
    let topic_path = topic.map(|_| topic_page(&found.topic));
    let publish = format!("{}/publish", topic_page(&found.topic));
    let may_publish = visitor.may_open(&publish);
    Ok(draw(&RejectedEventPage {
        frame: Frame::new(&visitor, format!("Rejected request {number}")),
        right: topic.map(|topic| Right {
            schema: topic.topic.definition.input_schema.name(),
            example: may_publish.then_some(publish),
        }),
        topic_path,
        received_at: Time::exactly(rejection.received_at),
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
