//! Publish requests that were rejected: the list, and one with its reason and how its body begins.

use axum::extract::{Path, Query};
use futures_util::future::OptionFuture;
use serde::{Deserialize, Serialize};

use crate::admin::action::Call;
use crate::admin::error::PageResult;
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::FormError;
use crate::admin::forms::json_fault;
use crate::admin::lists::filter::{Reading, given};
use crate::admin::lists::link;
use crate::admin::lists::list::{ListPage, ROWS, cursor};
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::paths;
use crate::admin::site::{existing, numbered};
use crate::admin::widgets::kept_body::KeptBody;
use crate::admin::widgets::{Empty, Icon, filters, print, response};
use crate::model::name::TopicName;
use crate::model::registry::Registry;
use crate::model::rejection::{RejectionId, StoredRejection};
use crate::store::views::RejectionQuery;

pub(crate) const PATH: &str = "/admin/rejected-events";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RejectionForm {
    topic: String,
    /// A part of it, or a whole code.
    reason: String,
    before: String,
}

impl RejectionForm {
    fn query(&self, registry: &Registry) -> Result<RejectionQuery, Vec<FormError>> {
        let mut reading = Reading::default();
        let topic = |name: &str| registry.topic(&TopicName::parse(name).ok()?);
        let topic = reading.field("topic", &self.topic, "a topic", topic);
        reading.end(RejectionQuery {
            topic: topic.map(|entry| entry.topic.id),
            reason: given(&self.reason),
            before: cursor(&self.before).map(RejectionId),
            limit: ROWS,
        })
    }
}

pub(crate) fn of_topic(topic: &str) -> String {
    link(PATH, &[("topic", topic.to_owned())])
}

pub(crate) async fn list(Query(form): Query<RejectionForm>, call: Call) -> PageResult {
    let registry = &call.visitor.standing.registry;
    let (query, form) = FilledForm::with(form).read(|form| form.query(registry));
    let found = OptionFuture::from(query.map(|query| call.views.rejections(query)))
        .await
        .transpose()?
        .unwrap_or_default();
    let mut list = ListPage::new(PATH, &form).with_older(found.next_before, &form);
    let flags = ["topic", "reason"].map(|name| (name, form.value(name).trim().to_owned()));
    list.recipe = Recipe::list(&call, "rejectedEvents", "rejected list", &flags);
    list.of_page(found.rows.len(), ["rejected request", "rejected requests"]);
    answer!("pages/rejected_events.html", &call.visitor, "Rejected events", {
        list: ListPage = list,
        form: FilledForm<RejectionForm> = form,
        rows: Vec<StoredRejection> = found.rows,
    })
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> PageResult {
    let number = numbered("rejected request", &id).map(RejectionId)?;
    let found = call.views.rejection(number).await?;
    let found = existing(found, "rejected request", number)?;
    let rejection = &found.rejection;
    answer!("pages/rejected_event.html", &call.visitor, format!("Rejected request {number}"), {
        body: KeptBody = KeptBody::new(&rejection.body_start, rejection.bytes as u64),
        recipe: Recipe = Recipe::one(&call, "rejectedEvents", "rejected show", number),
        found: StoredRejection = found,
    })
}
