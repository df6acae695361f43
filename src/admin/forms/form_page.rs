//! A page that is nothing but a form.

use askama::Template;
use axum::response::Response;
use http::StatusCode;

use crate::admin::bare::draw_with;
use crate::admin::forms::field::{Problem, Section, mark};
use crate::admin::forms::form::Refusal;
use crate::admin::frame::Frame;

/// What the page asks for.
pub(crate) struct FormPage {
    pub(crate) intro: String,
    pub(crate) sections: Vec<Section>,
    /// What the button that sends it says.
    pub(crate) button: &'static str,
    /// Where somebody goes who thinks better of it.
    pub(crate) back: String,
}

#[derive(Template)]
#[template(path = "pages/form.html")]
struct Drawn {
    frame: Frame,
    problem: Option<Problem>,
    page: FormPage,
}

impl FormPage {
    /// The page with what is wrong in it, if it was refused.
    pub(crate) fn draw(
        mut self,
        frame: Frame,
        refusals: impl IntoIterator<Item = Refusal>,
    ) -> Response {
        let sections = self.sections.iter_mut();
        let fields = sections.flat_map(|section| &mut section.fields);
        let problem = mark(fields, refusals);
        let status = match problem {
            None => StatusCode::OK,
            Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
        };
        draw_with(
            status,
            &Drawn {
                frame,
                problem,
                page: self,
            },
        )
    }
}
