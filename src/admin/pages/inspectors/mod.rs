//! The pages of inspectors: receivers inside the appliance that answer as they are told and show what
//! they got.

mod change;
mod form;
mod request;
mod show;
mod subscribe;

pub(crate) use change::{ask_to_clear, ask_to_delete, clear, delete};
pub(crate) use form::{change, create, draft, edit};
use request::RequestCard;
pub(crate) use show::{show, show_request};
pub(crate) use subscribe::{deliver_to, subscribe};

use crate::admin::page::*;
use crate::broker::InspectorError;
use crate::model::inspector::Inspector;

#[derive(Template)]
#[template(path = "pages/inspectors.html")]
struct InspectorsPage {
    frame: Frame,
    list: List,
    inspectors: Vec<Inspector>,
    site: Arc<Site>,
    empty: Empty,
}

impl InspectorsPage {
    fn subscriptions(&self, of: &Inspector) -> usize {
        let subscriptions = self.site.broker.subscriptions_of_inspector(&of.name);
        subscriptions.len()
    }
}

/// All inspectors.
pub(crate) async fn list(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    let all = site.views.inspectors().await?;
    Ok(draw(&InspectorsPage {
        frame: Frame::new(&visitor, "Inspectors"),
        list: List::whole(
            "/admin/inspectors",
            print::plural(all.len() as u64, "inspector", "inspectors"),
            Recipe::get(&site.management_url("/everpost/inspectors"))
                .everpost("everpost inspectors list"),
        ),
        empty: Empty::new(
            "inspectors",
            "No inspectors yet.",
            "An inspector is an endpoint inside this appliance: it shows what it gets and answers as \
             you tell it, so that you can watch deliveries succeed and fail without writing a receiver.",
        )
        .leading_to(visitor.step("/admin/new-inspector", "New inspector")),
        inspectors: all,
        site,
    }))
}

impl From<InspectorError> for PageError {
    fn from(error: InspectorError) -> Self {
        match error {
            InspectorError::NotFound(name) => Self::NotFound(format!("inspector {name}")),
            InspectorError::TooMany => Self::Conflict(sentence(&error.to_string())),
            InspectorError::Store(error) => error.into(),
        }
    }
}
