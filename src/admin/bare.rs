//! Pages without navigation: signing in, setting up, and what only says something.

use std::sync::Arc;

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;

use crate::admin::reader::Reader;
use crate::admin::widgets::print;

/// What pages without navigation have around them: login, set-up and errors.
pub(crate) struct Bare {
    pub(crate) title: String,
    pub(crate) reader: Arc<Reader>,
}

impl Bare {
    /// The frame of the page `title`.
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            reader: Reader::current(),
        }
    }
}

/// The page as a response.
pub(crate) fn draw(page: &impl Template) -> Response {
    draw_with(StatusCode::OK, page)
}

/// The page as a response with a status of its own.
pub(crate) fn draw_with(status: StatusCode, page: &impl Template) -> Response {
    let html = page.render().expect("templates only write texts");
    (status, Html(html)).into_response()
}

/// What a page says that only says something. Whoever says it does not know who reads it: it is drawn for
/// strangers and put into the response's extensions; behind the login
/// [`in_frame`](crate::admin::frame::in_frame) finds it there and draws it again.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) title: &'static str,
    pub(crate) text: String,
    /// Where the overview lies.
    pub(crate) overview: String,
}

#[derive(Template)]
#[template(path = "pages/message.html")]
struct BarePage<'a> {
    bare: Bare,
    message: &'a Message,
}

impl Message {
    pub(crate) fn new(title: &'static str, text: String) -> Self {
        Self {
            title,
            text,
            overview: "/admin".to_owned(),
        }
    }

    pub(crate) fn draw(self, status: StatusCode) -> Response {
        let page = BarePage {
            bare: Bare::new(self.title),
            message: &self,
        };
        let mut response = draw_with(status, &page);
        response.extensions_mut().insert(self);
        response
    }

    /// What the framework refuses without our doing, in its own words.
    pub(crate) fn of_answer(status: StatusCode, text: &str) -> Self {
        let title = match status {
            StatusCode::BAD_REQUEST => "Not understood",
            _ => "Not possible",
        };
        let text = match text.trim() {
            "" => status.canonical_reason().unwrap_or(title),
            text => text,
        };
        Self::new(title, print::sentence(text))
    }
}
