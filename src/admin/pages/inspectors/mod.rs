//! The pages of inspectors: receivers inside the appliance that answer as they are told and show what
//! they got.

mod actions;
mod form;
mod show;

pub(crate) use actions::{ask_to_clear, ask_to_delete, clear, delete, deliver_to, subscribe};
pub(crate) use form::InspectorForm;
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

pub(crate) async fn list(call: Call) -> PageResult {
    let inspectors = call.views.inspectors().await?;
    let shown = print::plural(inspectors.len(), "inspector", "inspectors");
    let recipe = Recipe::list(&call, "inspectors", "inspectors list", &[]);
    Ok(draw(&InspectorsPage {
        frame: Frame::new(&call.visitor, "Inspectors"),
        list: List::whole("/admin/inspectors", shown, recipe),
        inspectors,
        site: call.site,
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
