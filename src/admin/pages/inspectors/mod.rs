//! The pages of inspectors: receivers inside the appliance that answer as they are told and show what
//! they got.

mod actions;
mod form;
mod request;
mod show;

pub(crate) use actions::{ask_to_clear, ask_to_delete, clear, delete, deliver_to, subscribe};
pub(crate) use form::InspectorForm;
use request::RequestCard;
pub(crate) use show::{show, show_request};

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
}

/// All inspectors.
pub(crate) async fn list(Call { site, visitor, .. }: Call) -> PageResult {
    let inspectors = site.views.inspectors().await?;
    Ok(draw(&InspectorsPage {
        frame: Frame::new(&visitor, "Inspectors"),
        list: List::whole(
            "/admin/inspectors",
            print::plural(inspectors.len(), "inspector", "inspectors"),
            Recipe::get(&site.management_url("/everpost/inspectors"))
                .everpost("everpost inspectors list"),
        ),
        inspectors,
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
