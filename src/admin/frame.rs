//! The frame of every page behind the login: navigation, messages and footer.

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

use crate::admin::bare::{BareMessage, draw_with};
use crate::admin::paths;
use crate::admin::reader::PageReader;
use crate::admin::security::session::Visitor;
use crate::admin::sitemap::{CountedRows, NavLink};
use crate::admin::widgets::{Tone, print};
use crate::store::accounts::Role;

pub(crate) struct PageFrame {
    pub(crate) title: String,
    pub(crate) nav: Vec<Vec<NavLink>>,
    pub(crate) reader: Arc<PageReader>,
    visitor: Visitor,
}

impl Deref for PageFrame {
    type Target = Visitor;

    fn deref(&self) -> &Visitor {
        &self.visitor
    }
}

impl PageFrame {
    pub(crate) fn new(visitor: &Visitor, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            nav: visitor.map.nav(&visitor.path, visitor.role),
            reader: PageReader::current(),
            visitor: visitor.clone(),
        }
    }

    /// Returns the time zone of the times on the page, such as `Europe/Berlin (UTC+1)`.
    pub(crate) fn zone(&self) -> String {
        let zone = &self.reader.zone;
        match (zone.name(), zone.offset(self.reader.now)) {
            (name, offset) if name == offset => offset,
            (name, offset) => format!("{name} ({offset})"),
        }
    }

    /// Returns the number beside a link of the navigation, its tone, and a description of it; `None` if no number is
    /// shown.
    pub(crate) fn count(&self, link: &NavLink) -> Option<(String, Tone, &'static str)> {
        let (standing, ill) = (&self.standing, self.standing.needing_attention());
        let (count, tone, said) = match link.listing.counts? {
            CountedRows::NeedingAttention => (ill as u64, Tone::Bad, "need attention"),
            CountedRows::Rejected => (standing.rejected, Tone::Warn, "in 24 h"),
            CountedRows::AlertsFiring => (standing.alerts, Tone::Bad, "firing"),
            CountedRows::DeadLetters => (standing.dead_letters(), Tone::Bad, "in their queues"),
        };
        (count > 0).then(|| (print::count(count), tone, said))
    }

    /// Returns the file that the object of this page is provisioned from; `None` if it is not provisioned.
    pub(crate) fn provisioned(&self) -> Option<&str> {
        let target = paths::target_of(&self.path, &self.title)?;
        self.standing.provisioned.file_of(&target)
    }

    pub(crate) fn here(&self) -> Option<&NavLink> {
        self.nav.iter().flatten().find(|link| link.current)
    }

    /// Returns the links above a form or a question that leads back to `back`: the list, and the object by its name.
    pub(crate) fn trail(&self, back: impl AsRef<str>) -> Vec<(String, String)> {
        let back = back.as_ref();
        let path = back.split('?').next().unwrap_or_default();
        let mut links = self.map.nav(path, self.role).into_iter().flatten();
        let list = links
            .find(|link| link.current)
            .map(|list| (list.href, list.listing.title.to_owned()));
        let mut trail = Vec::from_iter(list);
        if let Some((topic, _)) = path.split_once("/subscriptions/") {
            trail.push((topic.to_owned(), paths::last_part(topic)));
        }
        let name = paths::last_part(path);
        // A last segment that is a number is not a name.
        if trail.iter().all(|(list, _)| list != path) && name.parse::<u64>().is_err() {
            trail.push((back.to_owned(), name));
        }
        trail
    }
}

pub(crate) fn role_title(role: Role) -> &'static str {
    match role {
        Role::Viewer => "Viewer",
        Role::Operator => "Operator",
        Role::Admin => "Administrator",
    }
}

/// Maximum bytes of an error response of the web framework that is shown inside the frame. These responses are one
/// line.
const ANSWER_BYTES_MAX: usize = 4_096;

#[derive(Template)]
#[template(path = "pages/message_in_frame.html")]
struct FramedPage<'a> {
    frame: PageFrame,
    message: &'a BareMessage,
    status: StatusCode,
    /// Is true if the text of the message comes from the web framework.
    is_answer: bool,
}

pub(crate) async fn in_frame(visitor: Visitor, request: Request, next: Next) -> Response {
    let (mut parts, body) = next.run(request).await.into_parts();
    let (status, said) = (parts.status, parts.extensions.remove::<BareMessage>());
    let is_answer = said.is_none();
    let message = match said {
        Some(message) => message,
        None if is_page(&parts) => return Response::from_parts(parts, body),
        None => {
            let text = to_bytes(body, ANSWER_BYTES_MAX).await.unwrap_or_default();
            BareMessage::of_answer(status, &String::from_utf8_lossy(&text))
        }
    };
    let page = FramedPage {
        frame: PageFrame::new(&visitor, message.title),
        message: &message,
        status,
        is_answer,
    };
    let mut response = draw_with(status, &page);
    // The response keeps the other headers of the error.
    parts.headers.remove(CONTENT_LENGTH);
    if let Some(kind) = response.headers_mut().remove(CONTENT_TYPE) {
        parts.headers.insert(CONTENT_TYPE, kind);
    }
    Response::from_parts(parts, response.into_body())
}

/// Reports whether the response can stay unchanged, since it is not an error or is already HTML.
fn is_page(answer: &Parts) -> bool {
    let is_rejection = answer.status.is_client_error() || answer.status.is_server_error();
    let kind = answer.headers.get(CONTENT_TYPE);
    let is_html = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    !is_rejection || is_html
}
