//! A page that is nothing but a form.

use askama::Template;
use axum::response::Response;
use http::StatusCode;

use crate::admin::field::{Problem, Section, mark};
use crate::admin::form::Refusal;
use crate::admin::view::{Frame, draw_with};

/// What the page asks for.
pub(super) struct FormPage {
    pub(super) intro: String,
    pub(super) sections: Vec<Section>,
    /// What the button that sends it says.
    pub(super) button: &'static str,
    /// Where somebody goes who thinks better of it.
    pub(super) back: String,
}

#[derive(Template)]
#[template(path = "admin/form.html")]
struct Drawn {
    frame: Frame,
    problem: Option<Problem>,
    page: FormPage,
}

impl FormPage {
    /// The page with what is wrong in it, if it was refused.
    pub(super) fn draw(
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
