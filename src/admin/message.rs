//! A page that only says something: by itself for strangers, and in the frame for whoever is signed in.
//!
//! Whoever says it does not know who reads it. It is drawn for strangers and put into the response's
//! extensions; behind the login [`in_frame`] finds it there and draws it again.

use askama::Template;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::response::Parts;

use crate::admin::error::sentence;
use crate::admin::page;
use crate::admin::session::Visitor;
use crate::admin::view::{Bare, Frame, draw_with};

/// Bytes of an answer that is no page of ours and is still shown as one; those of the framework have a line.
const ANSWER_BYTES_MAX: usize = 4_096;

/// What such a page says.
#[derive(Clone, Debug)]
pub(super) struct Message {
    title: &'static str,
    text: String,
    /// What to do next, for whoever is signed in; empty where the text says it.
    advice: &'static str,
    /// Where the overview lies.
    overview: String,
}

#[derive(Template)]
#[template(path = "admin/message.html")]
struct BarePage<'a> {
    bare: Bare,
    message: &'a Message,
}

#[derive(Template)]
#[template(path = "admin/message_in_frame.html")]
struct FramedPage<'a> {
    frame: Frame,
    message: &'a Message,
    /// The page whose form was sent.
    back: Option<String>,
}

impl Message {
    pub(super) fn new(title: &'static str, text: String) -> Self {
        Self {
            title,
            text,
            advice: "",
            overview: "/admin".to_owned(),
        }
    }

    /// The same with what to do next.
    pub(super) fn advising(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }

    /// The same where the overview lies at another URL.
    pub(super) fn leading_to(self, overview: String) -> Self {
        Self { overview, ..self }
    }

    pub(super) fn draw(self, status: StatusCode) -> Response {
        let page = BarePage {
            bare: Bare::new(self.title),
            message: &self,
        };
        let mut response = draw_with(status, &page);
        response.extensions_mut().insert(self);
        response
    }

    /// What the framework refuses without our doing, in its own words.
    fn of_answer(status: StatusCode, text: &str) -> Self {
        let title = match status {
            StatusCode::BAD_REQUEST => "Not understood",
            _ => "Not possible",
        };
        let text = match text.trim() {
            "" => status.canonical_reason().unwrap_or(title),
            text => text,
        };
        Self::new(title, sentence(text))
    }

    fn draw_for(&self, visitor: &Visitor, status: StatusCode) -> Response {
        let sent = !visitor.only_reads;
        let page = FramedPage {
            frame: Frame::new(visitor, self.title),
            message: self,
            back: sent
                .then(|| page::above(&visitor.path, visitor.role))
                .flatten(),
        };
        draw_with(status, &page)
    }
}

/// Draws what only says something, and refusals of the framework, for the visitor.
pub(super) async fn in_frame(visitor: Visitor, request: Request, next: Next) -> Response {
    let (mut parts, body) = next.run(request).await.into_parts();
    let message = match parts.extensions.remove::<Message>() {
        Some(message) => message,
        None if is_page(&parts) => return Response::from_parts(parts, body),
        None => {
            let text = to_bytes(body, ANSWER_BYTES_MAX).await.unwrap_or_default();
            Message::of_answer(parts.status, &String::from_utf8_lossy(&text))
        }
    };
    let mut response = message.draw_for(&visitor, parts.status);
    // Its other headers are those of the refusal.
    parts.headers.remove(CONTENT_LENGTH);
    if let Some(kind) = response.headers_mut().remove(CONTENT_TYPE) {
        parts.headers.insert(CONTENT_TYPE, kind);
    }
    Response::from_parts(parts, response.into_body())
}

/// Whether it needs no other look: it is no refusal, or a page already.
fn is_page(answer: &Parts) -> bool {
    let is_refusal = answer.status.is_client_error() || answer.status.is_server_error();
    let kind = answer.headers.get(CONTENT_TYPE);
    let is_html = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    !is_refusal || is_html
}
