//! What stands around every page behind the login: navigation, messages and foot.

use std::fmt::Display;
use std::ops::Deref;
use std::sync::Arc;

use askama::Template;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::response::Parts;

use crate::admin::bare::{Message, draw_with};
use crate::admin::reader::Reader;
use crate::admin::security::session::Visitor;
use crate::admin::sitemap::{Counted, NavGroup, NavLink};
use crate::admin::widgets::{Time, Tone, print};
use crate::store::accounts::Role;

/// What every page behind the login has around it.
pub(crate) struct Frame {
    pub(crate) title: String,
    pub(crate) nav: Vec<NavGroup>,
    pub(crate) reader: Arc<Reader>,
    visitor: Visitor,
}

impl Deref for Frame {
    type Target = Visitor;

    fn deref(&self) -> &Visitor {
        &self.visitor
    }
}

/// A number beside a link of the navigation, and what it counts.
pub(crate) struct NavCount {
    pub(crate) number: String,
    pub(crate) tone: Tone,
    pub(crate) said: &'static str,
}

impl Frame {
    /// The frame of the page `title`, as `visitor` sees it.
    pub(crate) fn new(visitor: &Visitor, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            nav: visitor.map.nav(&visitor.path, visitor.role),
            reader: Reader::current(),
            visitor: visitor.clone(),
        }
    }

    pub(crate) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// The first letter of the user's name.
    pub(crate) fn initial(&self) -> String {
        let initial = self.name.chars().next();
        initial.map_or_else(String::new, |initial| initial.to_uppercase().to_string())
    }

    /// The zone of the page's times: `Europe/Berlin (UTC+1)`.
    pub(crate) fn zone(&self) -> String {
        let zone = &self.reader.zone;
        match (zone.name(), zone.offset(self.reader.now)) {
            (name, offset) if name == offset => offset,
            (name, offset) => format!("{name} ({offset})"),
        }
    }

    /// When the page was drawn.
    pub(crate) fn updated(&self) -> Time {
        Time::seconds(self.reader.now)
    }

    /// The number beside a link of the navigation; `None` for nothing.
    pub(crate) fn count(&self, link: &NavLink) -> Option<NavCount> {
        let standing = &self.standing;
        let (count, tone, said) = match link.listing.counts? {
            Counted::NeedingAttention => {
                let count = standing.needing_attention().try_into();
                (count.unwrap_or(u64::MAX), Tone::Bad, "need attention")
            }
            Counted::Rejected => (standing.rejected, Tone::Warn, "in 24 h"),
            Counted::DeadLetters => (standing.dead_letters(), Tone::Bad, "in their queues"),
        };
        let number = print::count(count);
        (count > 0).then_some(NavCount { number, tone, said })
    }

    /// Where in the navigation the page belongs.
    pub(crate) fn here(&self) -> Option<&NavLink> {
        let mut links = self.nav.iter().flat_map(|group| &group.links);
        links.find(|link| link.current)
    }

    /// Where to come back to, without sending the page's form again.
    pub(crate) fn back(&self) -> &str {
        if self.only_reads {
            &self.address
        } else {
            "/admin"
        }
    }

    /// Whether a link to the page at `path` leads somewhere.
    pub(crate) fn opens(&self, path: impl Display) -> bool {
        self.may_open(&path.to_string())
    }

    /// Whether the form that is sent to `path` would be taken.
    pub(crate) fn sends(&self, path: impl Display) -> bool {
        self.may_send(&path.to_string())
    }
}

/// What a role is called.
pub(crate) fn role_title(role: Role) -> &'static str {
    match role {
        Role::Viewer => "Viewer",
        Role::Operator => "Operator",
        Role::Admin => "Administrator",
    }
}

/// Bytes of an answer that is no page of ours and is still shown as one; those of the framework have a line.
const ANSWER_BYTES_MAX: usize = 4_096;

#[derive(Template)]
#[template(path = "pages/message_in_frame.html")]
struct FramedPage<'a> {
    frame: Frame,
    message: &'a Message,
    status: StatusCode,
    /// Whether the framework says it, and not we.
    is_answer: bool,
}

impl FramedPage<'_> {
    /// The page whose form was sent.
    fn back(&self) -> Option<String> {
        let above = || self.frame.map.above(&self.frame.path, self.frame.role);
        (!self.frame.only_reads).then(above).flatten()
    }

    /// Whether another try may help.
    fn may_help_again(&self) -> bool {
        self.frame.only_reads && self.status.is_server_error()
    }
}

/// Draws what only says something, and refusals of the framework, for the visitor.
pub(crate) async fn in_frame(visitor: Visitor, request: Request, next: Next) -> Response {
    let (mut parts, body) = next.run(request).await.into_parts();
    let said = parts.extensions.remove::<Message>();
    let is_answer = said.is_none();
    let message = match said {
        Some(message) => message,
        None if is_page(&parts) => return Response::from_parts(parts, body),
        None => {
            let text = to_bytes(body, ANSWER_BYTES_MAX).await.unwrap_or_default();
            Message::of_answer(parts.status, &String::from_utf8_lossy(&text))
        }
    };
    let status = parts.status;
    let page = FramedPage {
        frame: Frame::new(&visitor, message.title),
        message: &message,
        status,
        is_answer,
    };
    let mut response = draw_with(status, &page);
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
