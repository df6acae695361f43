//! What stands around every page behind the login: navigation, messages and foot.

use std::fmt::Display;

use askama::Template;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::response::Parts;

use crate::admin::assets;
use crate::admin::bare::{Message, draw_with};
use crate::admin::security::session::Visitor;
use crate::admin::sitemap::{NavGroup, NavLink, SiteMap};
use crate::admin::theme::{Theme, ThemeSwitch};
use crate::admin::widgets::{Flash, Moment};
use crate::store::accounts::Role;

/// What every page behind the login has around it.
pub(crate) struct Frame {
    pub(crate) title: String,
    pub(crate) nav: Vec<NavGroup>,
    pub(crate) user: String,
    role: Role,
    map: &'static SiteMap,
    pub(crate) csrf: String,
    pub(crate) flash: Option<Flash>,
    /// Whether the page may read itself again when something has changed.
    pub(crate) live: bool,
    pub(crate) theme: Theme,
    pub(crate) switch: ThemeSwitch,
    pub(crate) now: Moment,
    pub(crate) version: &'static str,
    pub(crate) icon: String,
    pub(crate) style: String,
    pub(crate) script: String,
}

impl Frame {
    /// The frame of the page `title`, as `visitor` sees it.
    pub(crate) fn new(visitor: &Visitor, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            nav: visitor.map.nav(&visitor.path, visitor.role),
            user: visitor.name.clone(),
            role: visitor.role,
            map: visitor.map,
            csrf: visitor.csrf.clone(),
            flash: visitor.flash.clone(),
            live: visitor.only_reads,
            theme: Theme::chosen(),
            switch: ThemeSwitch::new(back(visitor)),
            now: Moment::at(visitor.now),
            version: env!("CARGO_PKG_VERSION"),
            icon: assets::url("icon.svg"),
            style: assets::url("everpost.css"),
            script: assets::url("everpost.js"),
        }
    }

    /// The role that keeps some things from the visitor, who is to see why they are not there.
    pub(crate) fn limited_to(&self) -> Option<&'static str> {
        (self.role < Role::Admin).then(|| self.role.name())
    }

    /// Where in the navigation the page belongs.
    pub(crate) fn here(&self) -> Option<&NavLink> {
        let mut links = self.nav.iter().flat_map(|group| &group.links);
        links.find(|link| link.current)
    }

    /// Whether a link to the page at `path` leads somewhere.
    pub(crate) fn opens(&self, path: impl Display) -> bool {
        self.map.opens(&path.to_string(), self.role)
    }

    /// Whether the form that is sent to `path` would be taken.
    pub(crate) fn sends(&self, path: impl Display) -> bool {
        self.map.sends(&path.to_string(), self.role)
    }
}

/// Where to come back to from a page, without sending its form again.
fn back(visitor: &Visitor) -> String {
    match visitor.only_reads {
        true => visitor.address.clone(),
        false => "/admin".to_owned(),
    }
}

/// Bytes of an answer that is no page of ours and is still shown as one; those of the framework have a line.
const ANSWER_BYTES_MAX: usize = 4_096;

#[derive(Template)]
#[template(path = "admin/message_in_frame.html")]
struct FramedPage<'a> {
    frame: Frame,
    message: &'a Message,
    /// The page whose form was sent.
    back: Option<String>,
}

fn draw_message(message: &Message, visitor: &Visitor, status: StatusCode) -> Response {
    let sent = !visitor.only_reads;
    let page = FramedPage {
        frame: Frame::new(visitor, message.title),
        message,
        back: sent
            .then(|| visitor.map.above(&visitor.path, visitor.role))
            .flatten(),
    };
    draw_with(status, &page)
}

/// Draws what only says something, and refusals of the framework, for the visitor.
pub(crate) async fn in_frame(visitor: Visitor, request: Request, next: Next) -> Response {
    let (mut parts, body) = next.run(request).await.into_parts();
    let message = match parts.extensions.remove::<Message>() {
        Some(message) => message,
        None if is_page(&parts) => return Response::from_parts(parts, body),
        None => {
            let text = to_bytes(body, ANSWER_BYTES_MAX).await.unwrap_or_default();
            Message::of_answer(parts.status, &String::from_utf8_lossy(&text))
        }
    };
    let mut response = draw_message(&message, &visitor, parts.status);
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
